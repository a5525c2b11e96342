// GET /v1/orphans, GET and DELETE /v1/orphans/{dot}.

internal import Coordinator
internal import Merge

/// Saves of other nodes that can never be applied, and the changes in them.
struct OrphansResource: Sendable {
    let services: HTTPServices

    /// All of them by dot, a page at a time: its bounds are those of history.
    func list(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let limit = min(
            try request.count("limit", atLeast: 1) ?? .max, HistoryResource.Limits.transactions)
        let after = try request.parameter("after").map(Self.dot)
        let renderer = TransactionRenderer(renderer: services.renderer)
        return .json(
            try await services.read { reader in
                let entities = ReferencedEntities(reader, renderer.renderer.model)
                var orphans: [JSONValue] = []
                var (bytes, next): (Int, Dot?) = (0, nil)
                var last: Dot?
                for dot in try reader.orphanedDots() where after.map({ dot > $0 }) ?? true {
                    if orphans.count == limit || bytes >= HistoryResource.Limits.bytes {
                        next = last
                        break
                    }
                    guard let orphan = try reader.orphan(dot) else { continue }
                    orphans.append(.object(try Self.json(orphan, renderer, entities.name)))
                    bytes += orphan.encoded?.bytes.count ?? 0
                    last = dot
                }
                return JSONWriter.bytes(of: [
                    "orphans": .array(orphans), "next": ValueRenderer.text(next?.description),
                ])
            })
    }

    /// The records of those that were discarded here, newest first.
    func discards() async throws -> HTTPAnswer {
        .json(
            try await services.read { reader in
                let records = try reader.orphanDiscards().map { discard -> JSONValue in
                    [
                        "transaction": .string(discard.dot.description),
                        "discardedAt": ["milliseconds": ValueRenderer.count(discard.milliseconds)],
                        "author": ValueRenderer.text(discard.description.author),
                        "context": ValueRenderer.text(discard.description.contextName),
                        "note": ValueRenderer.text(discard.description.note),
                    ]
                }
                return JSONWriter.bytes(of: ["discards": .array(records)])
            })
    }

    func get(_ name: String) async throws -> HTTPAnswer {
        let dot = try Self.dot(name)
        let renderer = TransactionRenderer(renderer: services.renderer)
        return .json(
            try await services.read { reader in
                guard let orphan = try reader.orphan(dot) else {
                    throw CoordinatorError(.orphanUnknown, "No orphan \(dot) is kept here.")
                }
                let entities = ReferencedEntities(reader, renderer.renderer.model)
                return JSONWriter.bytes(
                    of: .object(try Self.json(orphan, renderer, entities.name)))
            })
    }

    /// Discards one; who does it, where and why comes as parameters.
    func delete(_ name: String, _ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let dot = try Self.dot(name)
        let who = SaveDescription(
            author: request.parameter("author"), contextName: request.parameter("context"),
            note: request.parameter("note"))
        let coordinator = services.coordinator
        return .json(
            try await services.blocking {
                try coordinator.discardOrphan(dot, by: who)
                return ["discarded": .boolean(true)]
            })
    }

    private static func dot(_ text: String) throws -> Dot {
        guard let dot = Dot(text) else {
            throw HTTPError.malformed(
                "\"\(text)\" is not the name of a transaction, such as 2.6f3a91c04be1d277-117.")
        }
        return dot
    }

    /// A transaction as history has it, with when it was kept. Of one whose bytes are damaged there is
    /// its name alone.
    private static func json(
        _ orphan: OrphanedTransaction, _ renderer: TransactionRenderer,
        _ naming: TransactionRenderer.EntityNaming
    ) throws -> JSONObject {
        var result: JSONObject = [
            "transaction": .string(orphan.dot.description),
            "keptAt": ["milliseconds": ValueRenderer.count(orphan.keptAtMilliseconds)],
            "damaged": .boolean(orphan.encoded == nil),
        ]
        guard let transaction = orphan.encoded?.transaction else {
            result["changes"] = .array([])
            return result
        }
        for member in try renderer.json(transaction, naming).members where member.key != "dot" {
            result[member.key] = member.value
        }
        return result
    }
}
