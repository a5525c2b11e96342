// GET and DELETE /v1/history.

internal import Coordinator
internal import Merge

/// The log of transactions, in the order applied here.
struct HistoryResource: Sendable {
    let services: HTTPServices

    enum Limits {
        /// Transactions in an answer, unless the client asks for fewer.
        static let transactions = 10_000
        /// Bytes of transactions in an answer; the first always is in it.
        static let bytes = 8 << 20
        /// Transactions read at once. Their bytes say nothing of what they changed without writing it.
        static let page = 10
        /// The bytes that such a change, and one of a run, counts for.
        static let derivedBytes = 128
    }

    func get(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        switch request.parameter("order") {
        case nil, "applied":
            guard request.parameter("before") == nil else {
                throw HTTPError.malformed("\"before\" belongs to \"order=newest\".")
            }
            return try await applied(request)
        case "newest":
            guard request.parameter("after") == nil else {
                throw HTTPError.malformed("\"after\" belongs to \"order=applied\".")
            }
            return try await newest(request)
        default: throw HTTPError.malformed("\"order\" must be applied or newest.")
        }
    }

    private func applied(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let limit = min(try request.count("limit", atLeast: 1) ?? .max, Limits.transactions)
        let after = try await services.known(try request.token("after"))
        let filter = try Self.filter(request, services)
        let renderer = TransactionRenderer(renderer: services.renderer)
        return .json(
            try await services.read { reader in
                let current = try reader.token
                let entities = ReferencedEntities(reader, renderer.renderer.model)
                var place = try LogPlace(
                    after: after, current: current, for: filter, reader)
                var transactions: [JSONValue] = []
                var bytes = 0
                while transactions.count < limit, bytes < Limits.bytes, !place.reachedEnd {
                    let page = try place.advance(
                        reader, limit: min(limit - transactions.count, Limits.page),
                        bytes: Limits.bytes)
                    for logged in page {
                        guard
                            let wanted = try filter.wantedObjects(of: logged.transaction, reader)
                        else { continue }
                        // A run of many rows has few bytes, and as many changes in the answer.
                        let changes = logged.transaction.changes.count
                        bytes += max(logged.size, changes * Limits.derivedBytes)
                        let derived = try reader.derivedChanges(of: logged.dot)
                        bytes += derived.count * Limits.derivedBytes
                        transactions.append(
                            .object(
                                try renderer.json(
                                    logged.transaction, derived: derived, wanted: wanted,
                                    entities.name)))
                    }
                }
                return JSONWriter.bytes(of: [
                    "transactions": .array(transactions),
                    "token": .string(place.token.text),
                ])
            })
    }

    /// The parameters that choose what of history is wanted.
    static let filters = ["author", "context", "node", "entity", "property", "object", "where"]

    /// The filter that a request has.
    static func filter(
        _ request: HTTPRequestParts, _ services: HTTPServices
    ) throws -> ResolvedHistoryFilter {
        var filter = HistoryFilter(
            author: request.parameter("author"), contextName: request.parameter("context"),
            entityName: request.parameter("entity"), property: request.parameter("property"))
        if let text = request.parameter("node") {
            guard let number = Int(text), let node = NodeID(number) else {
                throw HTTPError.malformed("\"node\" must be the number of a node.")
            }
            filter.node = node
        }
        if let text = request.parameter("object") {
            guard let uri = ObjectURI(text, in: services.cluster), uri.cluster == services.cluster
            else {
                throw HTTPError.malformed(
                    "\"object\" must be the URI of an object of this cluster.")
            }
            filter.object = uri.objectID
        }
        if let text = request.parameter("where") {
            filter.predicate = try Predicate(format: text)
        }
        return try ResolvedHistoryFilter(
            filter, model: services.model, cluster: services.cluster)
    }

    func delete(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        guard let token = try request.token("before") else {
            throw HTTPError.malformed("\"before\" must be given: a token.")
        }
        let count = try await services.backend.purgeHistory(before: token)
        return .json(["purged": .integer(Int64(count))])
    }
}
