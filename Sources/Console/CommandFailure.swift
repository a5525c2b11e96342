// How a command ends that did not succeed: a sentence for people and a code for scripts.
//
// Values only; usable from any thread.

internal import Glibc

/// A failure with the code the program ends with.
package struct CommandFailure: Error, Hashable, CustomStringConvertible {
    /// The exit codes of the client interface's contract.
    package enum Code: Int32, CaseIterable {
        case failed = 1
        case usage = 2
        case refused = 3
        case outcomeUnknown = 4
        case storeDamaged = 5
        case storeInUse = 6
        case notAuthorised = 7
        case mismatch = 8
        case noSpace = 9
        case generationExpired = 10
        case noAnswer = 11
        case nodeInUse = 12
        case unacknowledged = 13
    }

    package let code: Code
    package let message: String
    /// The node's answer, if it gave one; `--json` prints it.
    package var answer: [UInt8]?
    /// Whether the node may have done what was asked although there is no answer.
    package var mayHaveHappened = false
    /// The name of the node's error; empty where it is no error of the interface.
    package var name = ""
    /// Whether the node took nothing of the request since it is too large.
    package var isTooLarge = false
    /// Whether nobody reads the output any more, as behind `head`: then the program ends quietly,
    /// as one that had nothing more to say.
    package private(set) var isUnread = false

    /// Prints what a command found. If the command failed, the exit code says so, also to a reader
    /// that stops after the first lines, as `head` does.
    package static func found(_ failure: (any Error)?, _ print: () throws -> Void) throws {
        do {
            try print()
        } catch let unread as CommandFailure where unread.isUnread {
            throw failure ?? unread
        }
        if let failure { throw failure }
    }

    package init(_ code: Code, _ message: String, answer: [UInt8]? = nil) {
        self.code = code
        self.message = message
        self.answer = answer
    }

    package var description: String { message }

    /// A wrong flag or argument.
    package static func usage(_ message: String) -> Self { Self(.usage, message) }

    /// Describes why standard output was not written, by the system's number for it.
    package init(unwrittenOutput number: Int32) {
        let reason = String(cString: strerror(number))
        self.init(
            number == ENOSPC || number == EDQUOT ? .noSpace : .failed,
            "Standard output cannot be written, so what came is not all: \(reason).")
        isUnread = number == EPIPE
    }

    /// Ends a message with a full stop.
    package static func sentence(_ message: String) -> String {
        message.hasSuffix(".") || message.hasSuffix("!") ? message : message + "."
    }
}
