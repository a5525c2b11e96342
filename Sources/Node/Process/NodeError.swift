// The one error type that the node's own parts throw.
//
// Values only; may be used from any thread.

/// A failure in a node.
public struct NodeError: Error, Sendable, CustomStringConvertible {
    /// The kind of failure. A code exists only if a caller may act on it. Later releases may add
    /// others, so a `switch` needs a default.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The name as it is printed.
        public let description: String

        /// Names a kind of failure.
        public init(_ name: String) { description = name }

        /// A setting is wrong or missing; the context names file, key, line and reason.
        public static let configurationInvalid = Self("configurationInvalid")
        /// A file of keys or tokens cannot be read, or others may read it too.
        public static let secretUnreadable = Self("secretUnreadable")
        /// There is no room on the disk for a file of keys or tokens.
        public static let diskFull = Self("diskFull")
        /// An address cannot be bound or connected to.
        public static let addressUnavailable = Self("addressUnavailable")
        /// An address off loopback was to be bound without keys.
        public static let notSecured = Self("notSecured")
        /// The self-test at start found that strangers are let in.
        public static let strangersAdmitted = Self("strangersAdmitted")
        /// A frame is over the limit on its size.
        public static let frameTooLarge = Self("frameTooLarge")
        /// The process has no more descriptors or memory.
        public static let resourcesExhausted = Self("resourcesExhausted")
    }

    /// One detail, such as the key of a setting.
    public struct Detail: Hashable, Sendable {
        /// Its name, as "key".
        public let name: String
        /// Its value. Never a secret, never a user's data.
        public let value: String
    }

    /// The kind of failure.
    public let code: Code
    /// A sentence that a person can act on.
    public let message: String
    /// Details, in the order in which they were given.
    public let context: [Detail]
    /// The error underneath, where there was one.
    public let cause: (any Error)?

    /// Describes a failure.
    ///
    /// - Parameters:
    ///   - code: the kind.
    ///   - message: a sentence that a person can act on.
    ///   - context: details, most important first.
    ///   - cause: the error underneath.
    public init(
        _ code: Code, _ message: String, context: KeyValuePairs<String, String> = [:],
        cause: (any Error)? = nil
    ) {
        self.code = code
        self.message = message
        self.context = context.map { Detail(name: $0.key, value: $0.value) }
        self.cause = cause
    }

    /// The value of a detail, or nil.
    public func detail(_ name: String) -> String? { context.first { $0.name == name }?.value }

    /// Whether the node goes on by itself once its store is closed: with a later incarnation, or
    /// with a copy in the store's place.
    var asksForAnotherRun: Bool { code == .incarnationOutdated || code == .transferReady }

    /// The message.
    public var description: String { message }
}
