// How a command ends that did not succeed: a sentence for people and a code for scripts.
//
// Values only; usable from any thread.

import Coordinator
import Glibc
import Node

/// A failure with the code the program ends with.
struct CommandFailure: Error, Hashable, CustomStringConvertible {
    /// The exit codes of the client interface's contract.
    enum Code: Int32, CaseIterable {
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

    let code: Code
    let message: String
    /// What the node answered, where it did; `--json` prints it.
    var answer: [UInt8]?
    /// Whether the node may have done what was asked although there is no answer.
    var mayHaveHappened = false
    /// The name of the node's error; empty where it is no error of the interface.
    private(set) var name = ""
    /// Whether the node took nothing of the request since it is too large.
    private(set) var isTooLarge = false
    /// Whether nobody reads the output any more, as behind `head`: then the program ends quietly,
    /// as one that had nothing more to say.
    private(set) var isUnread = false

    /// Prints what a command found, and gives its failure, if it failed, also where nobody reads so
    /// far: whoever looks at the first lines only, as behind `head`, is still told by the exit code.
    static func found(_ failure: (any Error)?, _ print: () throws -> Void) throws {
        do {
            try print()
        } catch let unread as CommandFailure where unread.isUnread {
            throw failure ?? unread
        }
        if let failure { throw failure }
    }

    init(_ code: Code, _ message: String, answer: [UInt8]? = nil) {
        self.code = code
        self.message = message
        self.answer = answer
    }

    var description: String { message }

    /// A wrong flag or argument.
    static func usage(_ message: String) -> Self { Self(.usage, message) }

    /// Describes why standard output was not written, by the system's number for it.
    init(unwrittenOutput number: Int32) {
        let reason = String(cString: strerror(number))
        self.init(
            number == ENOSPC || number == EDQUOT ? .noSpace : .failed,
            "Standard output cannot be written, so what came is not all: \(reason).")
        isUnread = number == EPIPE
    }

    /// Describes what a node answered with a status that is no success.
    ///
    /// - Parameters:
    ///   - status: the status of the answer.
    ///   - body: its body; what is no error of the interface is told by the status alone.
    init(status: Int, body: [UInt8]) {
        let error = (try? JSONParser.parse(body))?.object?["error"]?.object
        let name = error?["code"]?.string ?? ""
        let message = error?["message"]?.string ?? "The node answered with status \(status)."
        let code = Self.code(named: name) ?? Self.code(status: status)
        self.init(code, Self.advised(message, code, name, error), answer: body)
        // Something between has given up waiting for the node, and the node goes on.
        self.name = name
        isTooLarge = status == 413
        mayHaveHappened = name.isEmpty && [502, 504].contains(status)
    }

    /// Describes any error that a command may meet.
    init(describing error: any Error) {
        switch error {
        case let failure as CommandFailure: self = failure
        case let error as NodeError:
            var message = Self.sentence(error.message)
            if error.code == .notTrusted {
                message += " Name the roots to trust with --ca-file FILE or TRIBUTARY_CA_FILE."
            }
            if error.isNoAnswer {
                message += " Is it running? Name another with --node URL or TRIBUTARY_NODE."
            }
            self.init(Code(rawValue: error.exitCode) ?? .failed, message)
            mayHaveHappened = error.code == .connectionReset || error.code == .timedOut
        case let error as CoordinatorError:
            let code = Code(rawValue: error.exitCode) ?? .failed
            self.init(code, Self.advised(error.message, code, error.code.rawValue, nil))
        case let error as ModelError:
            self.init(.usage, "The model is wrong at \(error).")
        case let error as PredicateError: self.init(.usage, "The predicate is wrong: \(error).")
        case let error as FetchRequestError: self.init(.usage, error.message)
        case let error as JSONError: self.init(.usage, "That is not JSON: \(error).")
        case let error as any ExitCodeProviding:
            self.init(Code(rawValue: error.exitCode) ?? .failed, "\(error)")
        default: self.init(.failed, "\(error)")
        }
    }

    /// The exit code of an error's name; nil where the status must say.
    static func code(named name: String) -> Code? {
        let errors: [any ExitCodeProviding] = [
            CoordinatorError(.init(rawValue: name), ""), NodeError(.init(name), ""),
        ]
        return errors.lazy.compactMap { Code(rawValue: $0.exitCode) }.first { $0 != .failed }
    }

    /// The exit code of a status.
    static func code(status: Int) -> Code {
        switch status {
        case 400: .usage
        case 401, 403: .notAuthorised
        case 409, 422: .refused
        case 410: .generationExpired
        case 507: .noSpace
        default: .failed
        }
    }

    /// A message with what to do about it.
    private static func advised(
        _ message: String, _ code: Code, _ name: String, _ error: JSONObject?
    ) -> String {
        let advice: String? =
            switch (code, name) {
            case (_, "mergeConflict"): "Fetch the object anew and save against its version."
            case (_, "unresolvedConflict"):
                "See `tributary conflicts list --state unresolved`, then resolve it."
            case (_, "sidesChanged"):
                "Look at it again with `tributary conflicts show`. Where its outcome is to be undone, "
                    + "`tributary history` has what was written since: name all of these after --seen "
                    + "to write over it."
            case (_, "validationFailed"):
                // A single failure is the error's own message too.
                error?["failures"]?.array.map { failures in
                    failures.prefix(5).compactMap { $0.object?["message"]?.string }
                        .filter { $0 != message }.map(sentence).joined(separator: " ")
                }
            case (.outcomeUnknown, _):
                "A save is asked for again with its saveID: it is done at most once. Of anything else "
                    + "look first whether it was done."
            case (_, "storeIncomplete"):
                "The commands are `tributary restore` and `tributary rebuild`."
            case (.storeDamaged, _):
                "Run `tributary verify`; restore a backup, or take the store anew from the other "
                    + "nodes with `tributary rebuild`."
            case (.storeInUse, _): "Stop the other process, or ask it with --node."
            case (.notAuthorised, "forbidden"): "Give such a token with --token-file FILE."
            case (.notAuthorised, _): "Give the node's token with --token-file FILE."
            case (.unacknowledged, _): "Do not save it again: the others get it from this node."
            case (.noSpace, _): "Free space on that disk."
            default: nil
            }
        guard let advice, !advice.isEmpty else { return sentence(message) }
        return "\(sentence(message)) \(advice)"
    }

    /// Ends a message with a full stop.
    static func sentence(_ message: String) -> String {
        message.hasSuffix(".") || message.hasSuffix("!") ? message : message + "."
    }
}
