// Why there is no answer of a node.
//
// Values only; may be used from any thread.

/// A failure on the way to a node and back. An answer that is an error is no such failure.
public struct ClientError: Error, Sendable, CustomStringConvertible {
    /// The kind of failure. Later releases may add others, so a `switch` needs a default.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The name as it is printed.
        public let description: String

        private init(_ name: String) { description = name }

        /// The URL, the request or the file of roots of trust is wrong. Nothing was sent.
        public static let requestInvalid = Self("requestInvalid")
        /// Nobody listens at the node's address.
        public static let connectionRefused = Self("connectionRefused")
        /// The connection ended before the answer was whole.
        public static let connectionReset = Self("connectionReset")
        /// The answer did not come in time.
        public static let timedOut = Self("timedOut")
        /// The host has no address, or no way leads to it.
        public static let hostUnreachable = Self("hostUnreachable")
        /// The other end has no certificate that is believed, or does not speak TLS.
        public static let notTrusted = Self("notTrusted")
        /// The answer is not HTTP, or is over a bound.
        public static let responseMalformed = Self("responseMalformed")
        /// The client was closed, or too many requests wait in it.
        public static let clientUnavailable = Self("clientUnavailable")
        /// A request was withdrawn by its task.
        public static let cancelled = Self("cancelled")
    }

    /// The kind of failure.
    public let code: Code
    /// A sentence that a person can act on.
    public let message: String
    /// The error underneath, where there was one.
    public let cause: (any Error)?

    /// Describes a failure.
    ///
    /// - Parameters:
    ///   - code: the kind.
    ///   - message: a sentence that a person can act on.
    ///   - cause: the error underneath.
    public init(_ code: Code, _ message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }

    /// Whether there was no whole answer: the connection was refused or reset, the host cannot be
    /// reached, or it was too late.
    ///
    /// Only after `connectionRefused` and `hostUnreachable` is it certain that the node did nothing.
    public var isNoAnswer: Bool {
        [.connectionRefused, .connectionReset, .timedOut, .hostUnreachable].contains(code)
    }

    /// Whether the node may have done what was asked.
    public var mayHaveHappened: Bool { code == .connectionReset || code == .timedOut }

    /// The message.
    public var description: String { message }
}
