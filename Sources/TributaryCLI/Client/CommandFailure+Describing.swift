// A sentence and an exit code for the errors of a node, a store and a file.
//
// Values only; usable from any thread.

import Client
import Console
import Coordinator
import Node

extension CommandFailure {
    /// Describes what a node answered with a status that is no success.
    ///
    /// - Parameters:
    ///   - status: the status of the answer.
    ///   - body: its body; if it is no error of the interface, the status alone says what it is.
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
        case let error as ClientError:
            var message = Self.sentence(error.message)
            if error.code == .notTrusted {
                message += " Name the roots to trust with --ca-file FILE or TRIBUTARY_CA_FILE."
            }
            if error.isNoAnswer {
                message += " Is it running? Name another with --node URL or TRIBUTARY_NODE."
            }
            self.init(
                error.isNoAnswer ? .noAnswer : error.code == .requestInvalid ? .usage : .failed,
                message)
            mayHaveHappened = error.mayHaveHappened
        case let error as NodeError:
            self.init(Code(rawValue: error.exitCode) ?? .failed, Self.sentence(error.message))
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

    /// One of several failures, with the place in the request; nil where the message says it all.
    private static func text(ofFailure failure: JSONObject?, _ message: String) -> String? {
        guard let text = failure?["message"]?.string else { return nil }
        if let place = failure?["object"]?.string, place.hasPrefix("operations[") {
            return text == message ? "It is in \(place)." : sentence("\(place): \(text)")
        }
        return text == message ? nil : sentence(text)
    }

    /// A message with what to do about it.
    private static func advised(
        _ message: String, _ code: Code, _ name: String, _ error: JSONObject?
    ) -> String {
        let advice: String? =
            switch (code, name) {
            case (_, "mergeConflict"): "Fetch the object again and save against its version."
            case (_, "unresolvedConflict"):
                "See `tributary conflicts list --state unresolved`, then resolve it."
            case (_, "sidesChanged"):
                "Look at it again with `tributary conflicts show`. Where its outcome is to be undone, "
                    + "`tributary history` has what was written since: name all of these after --seen "
                    + "to write over it."
            case (_, "validationFailed"):
                // A single failure is the error's own message too.
                error?["failures"]?.array.map { failures in
                    failures.prefix(5).compactMap { Self.text(ofFailure: $0.object, message) }
                        .joined(separator: " ")
                }
            case (.outcomeUnknown, _):
                "A save is asked for again with its saveID: it is done at most once. Of anything else "
                    + "look first whether it was done."
            case (_, "storeIncomplete"):
                "The commands are `tributary restore` and `tributary rebuild`."
            case (.storeDamaged, _):
                "Run `tributary verify`; restore a backup, or copy the store again from the other "
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
}
