// GET /v1/history?order=newest.

internal import Coordinator
internal import Merge

extension HistoryResource {
    /// The log, what was applied here last first: for people, who mostly want that.
    func newest(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let limit = min(try request.count("limit", atLeast: 1) ?? .max, Limits.transactions)
        var position = UInt64.max
        if let text = request.parameter("before") {
            guard let number = UInt64(text), number > 0 else {
                throw HTTPError.malformed("\"before\" must be the \"next\" of an answer.")
            }
            position = number
        }
        let first = position
        let filter = try Self.filter(request, services)
        let renderer = TransactionRenderer(renderer: services.renderer)
        return .json(
            try await services.read { reader in
                let entities = ReferencedEntities(reader, renderer.renderer.model)
                var pages = NewestPages(before: first, filter, reader)
                var transactions: [JSONValue] = []
                var bytes = 0
                while transactions.count < limit, bytes < Limits.bytes,
                    let logged = try pages.next()
                {
                    let transaction = logged.transaction
                    guard let wanted = try filter.wantedObjects(of: transaction, reader) else {
                        continue
                    }
                    let derived = try reader.derivedChanges(of: transaction.dot)
                    let changes = transaction.changes.count + derived.count
                    bytes += max(logged.size, changes * Limits.derivedBytes)
                    transactions.append(
                        .object(
                            try renderer.json(
                                transaction, derived: derived, wanted: wanted, entities.name)))
                }
                return JSONWriter.bytes(of: [
                    "transactions": .array(transactions),
                    "token": .string(try reader.token.text),
                    "next": pages.isAtEnd ? .null : .string(String(pages.position)),
                ])
            })
    }
}
