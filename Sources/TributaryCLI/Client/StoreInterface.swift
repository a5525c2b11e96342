// The reading part of the client interface, answered from a store's file: the same shapes as a
// running node's, so that commands need not know which they ask.

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
            // Identities first, objects in batches: eight bytes an object is all that is kept.
            let rows = try coordinator.read { reader in
                try check(reader, is: fetch.generation)
                return try reader.objectIDs(fetch.request)
            }
            var next = 0
            while next < rows.count {
                let batch = rows[next..<min(next + 256, rows.count)]
                next += batch.count
                let objects = try coordinator.read { reader in
                    try check(reader, is: fetch.generation)
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

    private func encoder(_ reader: StoreReader) -> StoreEncoder {
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

    private func check(_ reader: StoreReader, is generation: String?) throws {
        guard let generation, try reader.token.text != generation else { return }
        throw CommandFailure(
            .generationExpired, "\(name) has been written to since it was looked at first.")
    }

    private func fetch(_ body: JSONValue) throws -> JSONValue {
        let fetch = try StoreFetch(body, model: coordinator.model)
        return try coordinator.read { reader in
            try check(reader, is: fetch.generation)
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

    private func status() throws -> JSONValue {
        try coordinator.read { reader in
            let token = try reader.token
            var states = JSONObject()
            for found in try reader.conflictCounts() {
                var kinds = states[found.state]?.object ?? JSONObject()
                kinds[found.kind] = .integer(Int64(found.count))
                states[found.state] = .object(kinds)
            }
            return [
                "node": .integer(Int64(coordinator.node.rawValue)), "actor": .null,
                "cluster": .string(coordinator.cluster),
                "vector": StoreEncoder.vector(token.versionVector),
                "generation": StoreEncoder.count(token.generation), "token": .string(token.text),
                "digest": .string(try reader.digest.description),
                "modelHash": .string(coordinator.model.versionHashText),
                "members": .array([]), "peers": .array([]), "conflicts": .object(states),
                "pins": ["count": .integer(0)], "held": .array([]), "ready": .boolean(false),
            ]
        }
    }

    private func history(_ target: StoreRequest) throws -> JSONValue {
        let limit = min(max(target.integer("limit") ?? 100, 1), 1_000)
        return try coordinator.read { reader in
            let current = try reader.token
            var after = QueryGenerationToken(
                store: current.store, generation: 0, position: 0, versionVector: VersionVector())
            if let text = target["after"] {
                guard let token = QueryGenerationToken(text: text), token.store == current.store
                else { throw CommandFailure.usage("--after is no token of this store.") }
                after = token
            }
            let page = try reader.history(afterPosition: after.position, limit: limit)
            var vector = after.versionVector
            for logged in page {
                vector.join(logged.encoded.transaction.seen)
                vector.advance(to: logged.encoded.dot)
            }
            let encoder = encoder(reader)
            let token = QueryGenerationToken(
                store: current.store, generation: page.last?.generation ?? after.generation,
                position: page.last?.position ?? after.position, versionVector: vector)
            return [
                "transactions": .array(
                    page.map { .object(encoder.transaction($0.encoded.transaction)) }),
                "token": .string(token.text),
            ]
        }
    }

    private func conflicts(_ target: StoreRequest) throws -> JSONValue {
        var query = ConflictQuery(limit: target.integer("limit") ?? 100)
        if let state = target["state"], state != "all" {
            guard let known = ConflictState(rawValue: state) else {
                throw CommandFailure.usage("--state is unresolved, settled, resolved or all.")
            }
            query.state = known
        }
        if let kind = target["kind"] {
            guard let known = ConflictKind(rawValue: kind) else {
                let kinds = ConflictKind.allCases.map(\.rawValue).joined(separator: ", ")
                throw CommandFailure.usage("--kind is one of \(kinds).")
            }
            query.kind = known
        }
        query.entity = target["entity"]
        if let object = target["object"] {
            guard let uri = ObjectURI(object) else {
                throw CommandFailure.usage("--object is the URI of an object.")
            }
            query.row = uri.row
        }
        query.isOpen = target["open"].map { $0 == "true" }
        return try coordinator.read { reader in
            let encoder = encoder(reader)
            return [
                "conflicts": .array(
                    try reader.conflicts(query).map { .object(try encoder.conflict($0)) })
            ]
        }
    }

    private func conflict(_ name: String) throws -> JSONValue {
        guard let id = ConflictID(name) else { throw CommandFailure.noConflict(name) }
        return try coordinator.read { reader in
            guard let conflict = try reader.conflict(id) else {
                throw CommandFailure.noConflict(name)
            }
            return .object(try encoder(reader).conflict(conflict))
        }
    }

    private func verify() throws -> JSONValue {
        let report = try coordinator.verify()
        return [
            "ok": .boolean(report.isOK), "sound": .boolean(report.isOK),
            "vector": StoreEncoder.vector(report.versionVector),
            "digest": .string(report.digest.description),
            "recomputed": .string(report.recomputed.description),
            "peers": .object(JSONObject()),
            "differences": .array(report.differences.map { .string($0) }),
        ]
    }
}

extension CommandFailure {
    /// No conflict has that name.
    static func noConflict(_ name: String) -> Self {
        Self(.failed, "There is no conflict \(name). See `tributary conflicts list --state all`.")
    }
}
