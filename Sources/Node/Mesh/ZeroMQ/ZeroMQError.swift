// An error of libzmq.
//
// Values only; may be used from any thread.

internal import CZeroMQ

/// A refusal of the ZeroMQ library: what was tried, on what, and its error number.
public struct ZeroMQError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The call that failed, as "bind".
    public let operation: String
    /// The call's object, as an endpoint; empty if there is nothing to name.
    public let subject: String
    /// The error number as `zmq_errno` gives it.
    public let number: Int32

    /// Describes a refusal.
    public init(operation: String, subject: String = "", number: Int32) {
        self.operation = operation
        self.subject = subject
        self.number = number
    }

    /// The refusal of the call just made on this thread.
    static func last(_ operation: String, _ subject: String = "") -> Self {
        Self(operation: operation, subject: subject, number: zmq_errno())
    }

    /// The library's own words for the error number.
    public var reason: String { zmq_strerror(number).map { String(cString: $0) } ?? "unknown" }

    /// One line: the operation, what it was made on and why it was refused.
    public var description: String {
        let target = subject.isEmpty ? "" : " \(subject)"
        return "ZeroMQ could not \(operation)\(target): \(reason)"
    }
}
