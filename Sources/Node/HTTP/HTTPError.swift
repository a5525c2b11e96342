// From errors to answers: a status, a code and a message to act on.

internal import Coordinator
internal import HTTPTypes

/// An answer that is an error: `{"error": {"code", "message", ...details}}`.
struct HTTPError: Error {
    let status: Int
    let code: String
    let message: String
    /// Further members of the error.
    var details = JSONObject()
    /// Header fields that belong to it, such as `Allow` to a 405.
    var fields = HTTPFields()

    init(_ status: Int, _ code: String, _ message: String, details: JSONObject = JSONObject()) {
        self.status = status
        self.code = code
        self.message = message
        self.details = details
    }

    /// The same, with the place in the request in front of its message.
    func at(_ place: String) -> HTTPError {
        var error = HTTPError(status, code, "\(place): \(message)", details: details)
        error.fields = fields
        return error
    }

    /// A request that makes no sense; the path says where in it.
    static func malformed(_ message: String) -> HTTPError {
        HTTPError(400, CoordinatorError.Code.malformed.rawValue, message)
    }

    /// An answer in a form that its route does not have.
    static let onlyJSON = HTTPError(
        406, "notAcceptable",
        "This route does not answer in CBOR; ask for application/json as well, or for nothing.")

    /// Something the interface does not offer.
    static func notSupported(_ message: String) -> HTTPError {
        HTTPError(501, "notSupported", message)
    }

    /// An answer that would be longer than one in memory may be.
    static func answerTooLarge(_ limit: Int) -> HTTPError {
        HTTPError(
            422, "answerTooLarge",
            "The answer has more than \(limit) bytes. Ask for a part with \"limit\" and \"offset\"; "
                + "objects and their identities come as lines too (Accept: application/x-ndjson), "
                + "as many as there are.",
            details: ["limit": .integer(Int64(limit))])
    }

    /// Too much of something is under way; the client must ask again.
    static func busy(_ what: String, seconds: Int) -> HTTPError {
        var error = HTTPError(
            503, "busy", "This node has too many \(what) under way. Ask again in \(seconds) s.")
        error.fields[.retryAfter] = String(seconds)
        return error
    }

    /// Any thrown error, as an answer. If it has values, their references are named by the entities
    /// that the model allows there.
    ///
    /// - Parameter renderer: writes the values and objects that the error names.
    init(describing error: any Error, renderer: ValueRenderer) {
        self.init(describing: error, renderer: renderer, naming: { _, destination in destination })
    }

    /// Any thrown error, as an answer.
    ///
    /// - Parameters:
    ///   - renderer: writes the values and objects that the error names.
    ///   - naming: gives the entities of what the values refer to.
    init(
        describing error: any Error, renderer: ValueRenderer,
        naming: ValueRenderer.EntityNaming
    ) rethrows {
        switch error {
        case let error as HTTPError: self = error
        case let error as CoordinatorError:
            self.init(Self.status(of: error.code), error.code.rawValue, error.message)
            var conflicts: [JSONValue] = []
            for conflict in error.conflicts {
                conflicts.append(try renderer.mergeConflict(conflict, naming))
            }
            if !conflicts.isEmpty { details["conflicts"] = .array(conflicts) }
            if let decision = error.decision {
                details["decision"] = ConflictRenderer.json(decision)
            }
            if !error.failures.isEmpty {
                details["failures"] = .array(error.failures.map(renderer.failure))
            }
        case let error as NodeError where error.code == .stopped:
            self.init(503, error.code.description, error.message)
        case let error as PredicateError:
            self.init(
                400, CoordinatorError.Code.invalidPredicate.rawValue, "\(error)",
                details: ["offset": .integer(Int64(error.offset))])
        case let error as FetchRequestError: self = .malformed(error.message)
        case let error as JSONError:
            self.init(
                400, CoordinatorError.Code.malformed.rawValue,
                "The body \(error.isSyntax ? "is not JSON" : "cannot be taken"): \(error).",
                details: [
                    "line": .integer(Int64(error.line)), "column": .integer(Int64(error.column)),
                ])
        case let error as CBORError:
            self.init(
                400, CoordinatorError.Code.malformed.rawValue,
                "The body \(error.isSyntax ? "is not CBOR" : "cannot be taken"): \(error).",
                details: ["offset": .integer(Int64(error.offset))])
        case let error as NodeError where Self.isConfiguration(error.code):
            self.init(422, error.code.description, error.message)
        case let error as NotSupported: self = .notSupported(error.description)
        default:
            // An unforeseen error's text may hold users' data, so the answer has only its type.
            self.init(500, "internal", "The node failed with \(type(of: error)).")
        }
    }

    /// Whether an error is about the node's own files, which the administrator who asked for them to
    /// be read again must put right.
    private static func isConfiguration(_ code: NodeError.Code) -> Bool {
        [.configurationInvalid, .secretUnreadable, .notSecured].contains(code)
    }

    /// The status of a coordinator's error.
    static func status(of code: CoordinatorError.Code) -> Int {
        switch code {
        case .malformed, .invalidPredicate: 400
        case .objectNotFound, .conflictNotFound, .cannotBeUndone, .memberUnknown,
            .consumerUnknown, .orphanUnknown:
            404
        case .mergeConflict, .conditionFailed, .constraintConflict, .unresolvedConflict,
            .deleteDenied, .sidesChanged, .sideAmbiguous, .saveIDReused, .alreadyResolved,
            .fileExists,
            .memberDeparted, .memberConnected:
            409
        case .queryGenerationExpired, .historyTokenExpired: 410
        case .validationFailed, .aggregateOverflow: 422
        case .clockDrift, .notWritable, .limitExceeded, .storeRemoved: 503
        case .generationTimeout, .acknowledgementTimeout, .readTimeout: 504
        case .diskFull: 507
        default: code.rawValue == "recovering" ? 503 : 500
        }
    }

    /// The body.
    var body: [UInt8] { body(as: .json) }

    /// The body in one form or the other.
    func body(as format: BodyFormat) -> [UInt8] {
        var error: JSONObject = ["code": .string(code), "message": .string(message)]
        for member in details.members { error[member.key] = member.value }
        return format.bytes(of: ["error": .object(error)])
    }
}
