// POST /v1/save and GET /v1/saves/{saveID}.

internal import Coordinator
internal import Merge

/// Saves, and what became of them.
struct SaveResource: Sendable {
    let services: HTTPServices

    func post(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let save = try SaveRequestReader.read(
            try request.json(maximumBytes: services.maximumBodyBytes), model: services.model,
            cluster: services.cluster)
        try await checkEnoughNodes(for: save)
        let result: SaveResult
        do {
            result = try await services.backend.save(save.request)
        } catch let error as CoordinatorError
            where error.code == .limitExceeded && save.request.exceedsLimit
        {
            // Unlike other bounds, this one never lets the same request through later.
            throw HTTPError(400, error.code.rawValue, error.message)
        } catch let error as CoordinatorError { throw named(error, save) }
        return try await answer(
            to: result, ids: ids(of: result, save), acknowledgement: save.acknowledgement,
            timeout: save.timeout, format: request.answerFormat)
    }

    /// Refuses what can never be acknowledged, before anything is saved.
    private func checkEnoughNodes(for save: SaveRequestReader.Result) async throws {
        guard case .nodes(let wanted) = save.acknowledgement, wanted > 1 else { return }
        let count = await services.backend.status().members.count
        guard wanted > count else { return }
        // A save that was done when the limit was higher is answered as such.
        if let saveID = save.request.saveID {
            let saved = try await services.read { try $0.savedAnswer(saveID) }
            if saved != nil { return }
        }
        throw HTTPError(
            422, NodeError.Code.tooFewNodes.description,
            "\(wanted) nodes cannot acknowledge a save: the cluster has \(count). Nothing was saved.",
            details: ["members": .integer(Int64(count))])
    }

    /// The answer to whatever was saved, once enough nodes have it.
    func answer(
        to result: SaveResult, ids: JSONObject = JSONObject(),
        acknowledgement: Acknowledgement = .local, timeout: Duration = .seconds(10),
        format: BodyFormat = .json
    ) async throws -> HTTPAnswer {
        if acknowledgement != .local, let dot = result.transaction {
            let missing = await services.backend.waitForAcknowledgements(
                of: dot, level: acknowledgement, timeout: timeout)
            if !missing.isEmpty {
                let names = missing.map(\.description).joined(separator: ", ")
                throw HTTPError(
                    504, CoordinatorError.Code.acknowledgementTimeout.rawValue,
                    "The save is on disk here, but nodes have not confirmed it in time: \(names).",
                    details: [
                        "missing": .array(missing.map { .integer(Int64($0.rawValue)) }),
                        "saved": .object(members(of: result, ids: ids)),
                    ])
            }
        }
        return .value(.object(members(of: result, ids: ids)), as: format)
    }

    /// The members of a save's answer.
    func members(of result: SaveResult, ids: JSONObject) -> JSONObject {
        var members: JSONObject = [
            "transaction": ValueRenderer.text(result.transaction?.description),
            "timestamp": ValueRenderer.timestamp(result.timestamp),
            "seen": ValueRenderer.vector(result.seen),
            "token": .string(result.token.text),
            "ids": .object(ids),
            "conflicts": .array(result.conflicts.map { .string($0.description) }),
        ]
        var incremented: [String: JSONObject] = [:]
        var order: [String] = []
        for sum in result.incremented {
            let uri = services.renderer.uri(sum.objectID)
            if incremented[uri] == nil { order.append(uri) }
            incremented[uri, default: JSONObject()][sum.property] = sum.value.jsonValue {
                $0.description
            }
        }
        if !order.isEmpty {
            var objects = JSONObject()
            for uri in order { objects[uri] = incremented[uri].map { .object($0) } }
            members["incremented"] = .object(objects)
        }
        return members
    }

    /// The identities of the objects that the request named.
    private func ids(of result: SaveResult, _ save: SaveRequestReader.Result) -> JSONObject {
        var ids = JSONObject()
        guard !save.names.isEmpty else { return ids }
        let rows = Dictionary(
            result.insertedRows.map { ($0.temporary, $0.row) }, uniquingKeysWith: { $1 })
        for (name, object) in save.names {
            guard let row = rows[object.row] else { continue }
            ids[name] = .string(
                services.renderer.uri(
                    ManagedObjectID(entityName: object.entityName, row: row)))
        }
        return ids
    }

    /// Failures that the store found, with the names that the request uses.
    private func named(
        _ error: CoordinatorError, _ save: SaveRequestReader.Result
    ) -> CoordinatorError {
        let names = Dictionary(
            save.objects.map { ($0.key.description, $0.value) }, uniquingKeysWith: { $1 })
        var error = error
        error.failures = error.failures.map {
            // An existing object is named by its URI, which ends with the row.
            let row = $0.object.split(separator: "/").last.map(String.init)
            return ValidationFailure(
                object: row.flatMap { names[$0] } ?? $0.object, property: $0.property,
                code: $0.code, message: $0.message)
        }
        for index in error.conflicts.indices where error.conflicts[index].object.isTemporaryID {
            error.conflicts[index].name = names[error.conflicts[index].object.row.description]
        }
        return error
    }

    // MARK: What became of a save

    func get(_ saveID: String) async throws -> HTTPAnswer {
        // Before the store is asked: what has come to an end by then is found there.
        let isUnderWay = services.coordinator.isSaveUnderWay(saveID)
        // A store that lacks what its node had before cannot say what that was.
        let isRecovering =
            try services.coordinator.mayLackSaveIDs
            || services.coordinator.savingRefusal?.code == .recovering
        let found = try await services.read { try $0.savedAnswer(saveID) }
        guard let result = found, !services.coordinator.isAwaitingDisk(result) else {
            // A writer that died while it wrote cannot say what is on its disk.
            let isUnknown =
                found != nil || isUnderWay || isRecovering || services.coordinator.isOutcomeUnknown
            return .json(["outcome": .string(isUnknown ? "unknown" : "notSaved")])
        }
        var ids = JSONObject()
        for inserted in result.insertedRows {
            guard let name = inserted.name else { continue }
            ids[name] = .string(
                services.renderer.uri(
                    ManagedObjectID(entityName: inserted.entityName, row: inserted.row)))
        }
        var object: JSONObject = ["outcome": .string("saved")]
        for member in members(of: result, ids: ids).members {
            object[member.key] = member.value
        }
        return .json(.object(object))
    }
}
