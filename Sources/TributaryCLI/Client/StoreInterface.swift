// The reading part of the client interface, answered from a store's file: the same shapes as a
// running node's, so that commands need not know which they ask.

import Console
import Coordinator
import Merge

/// Answers from the file of a store, which is opened for reading only.
struct StoreInterface: ClientInterface {
    let name: String
    let coordinator: PersistentStoreCoordinator

    /// - Throws: ``CommandFailure`` where the file is no store or cannot be read.
    init(path: String) throws {
        name = path
        do {
            coordinator = try PersistentStoreCoordinator(readingStoreAt: path)
        } catch { throw CommandFailure(describing: error) }
    }

    func close() async { coordinator.close() }

    func request(
        _ method: String, _ path: String, _ body: JSONValue?
    ) async throws -> InterfaceAnswer {
        let target = StoreRequest(path)
        do {
            switch (method, target.segments.first ?? "", target.segments.count) {
            case ("POST", "generations", 1): return InterfaceAnswer(try generation())
            // Nothing was held.
            case ("DELETE", "generations", 2): return InterfaceAnswer(["released": .boolean(true)])
            case ("POST", "fetch", 1): return InterfaceAnswer(try fetch(body ?? .null))
            case ("GET", "model", 1): return InterfaceAnswer(coordinator.model.jsonValue())
            case ("GET", "status", 1): return InterfaceAnswer(try status())
            case ("GET", "history", 1): return InterfaceAnswer(try history(target))
            case ("GET", "conflicts", 1): return InterfaceAnswer(try conflicts(target))
            case ("GET", "conflicts", 2): return InterfaceAnswer(try conflict(target.segments[1]))
            case ("GET", "orphans", 1): return InterfaceAnswer(try orphans(target))
            case ("GET", "orphans", 2): return InterfaceAnswer(try orphan(target.segments[1]))
            case ("POST", "verify", 1): return InterfaceAnswer(try verify())
            case ("POST", "backup", 1):
                let path = body?.object?["path"]?.string ?? ""
                return InterfaceAnswer(.object(try coordinator.backUp(to: path).json))
            default:
                throw CommandFailure.usage(
                    "A store's file can only be read; ask a running node with --node URL.")
            }
        } catch { throw CommandFailure(describing: error) }
    }

    func fetchLines(
        _ body: JSONValue, _ receive: (JSONObject) async throws -> Void
    ) async throws {
        do {
            let fetch = try StoreFetch(body, model: coordinator.model)
            // Identities first, objects in batches: little more than their names is kept. All of
            // them are to be of one state, as a node's are.
            let (rows, token) = try coordinator.read { reader in
                try check(reader, for: fetch)
                return (try reader.objectIDs(fetch.request), try reader.token.text)
            }
            var next = 0
            while next < rows.count {
                let batch = rows[next..<min(next + 256, rows.count)]
                next += batch.count
                let objects = try coordinator.read { reader in
                    guard try reader.token.text == token else {
                        throw CommandFailure(
                            .generationExpired,
                            "\(name) was written to meanwhile, so what came is not all of one state. "
                                + "Ask the running node with --node URL, or read a backup.")
                    }
                    let encoder = encoder(reader, fetch)
                    return try batch.compactMap { object in
                        try reader.row(fetch.entity, object.row).map { try encoder.object($0) }
                    }
                }
                for object in objects { try await receive(object) }
            }
        } catch { throw CommandFailure(describing: error) }
    }

    private func encoder(_ reader: StoreReader, _ fetch: StoreFetch) -> StoreEncoder {
        StoreEncoder(
            reader: reader, model: coordinator.model, cluster: coordinator.cluster,
            properties: fetch.properties, includesVersions: fetch.includesVersions)
    }

    func encoder(_ reader: StoreReader) -> StoreEncoder {
        StoreEncoder(reader: reader, model: coordinator.model, cluster: coordinator.cluster)
    }

    /// What is there now. A reader of a file holds no generation: it finds that one is gone.
    private func generation() throws -> JSONValue {
        try coordinator.read { reader in
            let token = try reader.token
            return [
                "token": .string(token.text), "generation": StoreEncoder.count(token.generation),
                "vector": StoreEncoder.vector(token.versionVector),
                "digest": .string(try reader.digest.description),
            ]
        }
    }

    /// Refuses to read another state than the one that is asked for.
    ///
    /// A node waits for what `--after` names, as it comes from other nodes. To a file nothing comes,
    /// so that what is missing is told at once, as a node tells it in the end.
    private func check(_ reader: StoreReader, for fetch: StoreFetch) throws {
        guard fetch.generation != nil || fetch.after != nil else { return }
        let token = try reader.token
        if let generation = fetch.generation, token.text != generation {
            throw CommandFailure(
                .generationExpired, "\(name) has been written to since it was looked at first.")
        }
        guard let after = fetch.after, !token.versionVector.covers(after.versionVector) else {
            return
        }
        throw CoordinatorError(
            .generationTimeout,
            "\(name) lacks some of what --after names, and a file does not come to have it. Ask a "
                + "running node with --node URL.")
    }

    private func fetch(_ body: JSONValue) throws -> JSONValue {
        let fetch = try StoreFetch(body, model: coordinator.model)
        return try coordinator.read { reader in
            try check(reader, for: fetch)
            let encoder = encoder(reader, fetch)
            var answer = JSONObject()
            switch fetch.request.resultType {
            case .objects:
                var objects: [JSONValue] = []
                try reader.forEach(fetch.request) { row in
                    objects.append(.object(try encoder.object(row)))
                    return true
                }
                answer["objects"] = .array(objects)
            case .ids:
                answer["ids"] = .array(
                    try reader.objectIDs(fetch.request).map { .string(encoder.uri($0)) })
            case .dictionary:
                answer["rows"] = .array(
                    try reader.dictionaries(fetch.request).map { row in
                        var object = JSONObject()
                        for column in row {
                            object[column.name] = encoder.value(column.value, column.content)
                        }
                        return .object(object)
                    })
            case .count: answer["count"] = .integer(Int64(try reader.count(fetch.request)))
            }
            let token = try reader.token
            answer["generation"] = StoreEncoder.count(token.generation)
            answer["vector"] = StoreEncoder.vector(token.versionVector)
            answer["token"] = .string(token.text)
            return .object(answer)
        }
    }

    private func verify() throws -> JSONValue {
        let report = try coordinator.verify()
        return [
            "ok": .boolean(report.isOK), "sound": .boolean(report.isOK),
            "vector": StoreEncoder.vector(report.versionVector),
            "generation": StoreEncoder.count(report.generation),
            "digest": .string(report.digest.description),
            "recomputed": .string(report.recomputed.description),
            "peers": .object(JSONObject()),
            "differences": .array(report.differences.map { .string($0) }),
        ]
    }
}
