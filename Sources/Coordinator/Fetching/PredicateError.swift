/// Why a predicate cannot be understood, and where.
public struct PredicateError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The mistake.
    public let message: String
    /// At which character of the text (a Unicode scalar), from 0.
    public let offset: Int

    /// Describes a fault.
    public init(_ message: String, offset: Int) {
        self.message = message
        self.offset = offset
    }

    /// The mistake and its place.
    public var description: String { "\(message) (at character \(offset))" }
}

/// Why a fetch request makes no sense.
public struct FetchRequestError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The mistake.
    public let message: String

    /// Describes a fault.
    public init(_ message: String) { self.message = message }

    /// The message.
    public var description: String { message }
}
