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
    }

    func get(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        try request.allowParameters("after", "limit")
        let limit = min(try request.count("limit", atLeast: 1) ?? .max, Limits.transactions)
        let after = try request.token("after")
        let renderer = TransactionRenderer(renderer: services.renderer)
        return .json(
            try await services.read { reader in
                let current = try reader.token
                var place = try LogPlace(after: after, current: current, reader)
                var transactions: [JSONValue] = []
                var bytes = 0
                while transactions.count < limit, bytes < Limits.bytes, !place.reachedEnd {
                    let page = try place.advance(
                        reader, limit: limit - transactions.count, bytes: Limits.bytes)
                    transactions += page.map { .object(renderer.json($0.transaction)) }
                    bytes += page.reduce(0) { $0 + $1.bytes.count }
                }
                return JSONWriter.bytes(of: [
                    "transactions": .array(transactions),
                    "token": .string(place.token.text),
                ])
            })
    }

    func delete(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        try request.allowParameters("before")
        guard let token = try request.token("before") else {
            throw HTTPError.malformed("\"before\" must be given: a token.")
        }
        let count = try await services.backend.purgeHistory(before: token)
        return .json(["purged": .integer(Int64(count))])
    }
}

/// A place in a store's log that moves on; as a token it means the same on every node.
struct LogPlace: Sendable {
    /// The place as a token: its vector covers all transactions at or before its position.
    private(set) var token: QueryGenerationToken
    /// Whether the last step found the log's end.
    private(set) var reachedEnd = false
    /// What was known to the client at the beginning; it is left out wherever it comes.
    private let known: VersionVector?

    /// Begins after a token, or at the log's beginning.
    ///
    /// - Throws: ``CoordinatorError``: `queryGenerationExpired` where the log begins later.
    init(
        after: QueryGenerationToken?, current: QueryGenerationToken, _ reader: StoreReader
    ) throws {
        guard let after else {
            token = QueryGenerationToken(
                store: current.store, generation: 0, position: 0, versionVector: VersionVector())
            known = nil
            return
        }
        if after.store == current.store {
            token = after
            known = nil
        } else {
            // Another store's order says nothing of this one's: look through the whole log.
            token = QueryGenerationToken(
                store: current.store, generation: 0, position: 0,
                versionVector: after.versionVector)
            known = after.versionVector
        }
        if let first = try reader.history(afterPosition: token.position, limit: 1).first,
            !token.versionVector.covers(first.encoded.transaction.seen)
        {
            throw CoordinatorError(
                .queryGenerationExpired,
                "The history after that token has been purged here; fetch the objects anew.")
        }
    }

    /// Reads on; an empty page need not be the end, see ``reachedEnd``.
    mutating func advance(
        _ reader: StoreReader, limit: Int, bytes: Int
    ) throws -> [EncodedTransaction] {
        let page = try reader.history(
            afterPosition: token.position, limit: limit, byteLimit: bytes)
        reachedEnd = page.isEmpty
        var result: [EncodedTransaction] = []
        var vector = token.versionVector
        for logged in page {
            vector.join(logged.encoded.transaction.seen)
            vector.advance(to: logged.encoded.dot)
            if known?.contains(logged.encoded.dot) ?? false { continue }
            result.append(logged.encoded)
        }
        if let last = page.last {
            token = QueryGenerationToken(
                store: token.store, generation: last.generation, position: last.position,
                versionVector: vector)
        }
        return result
    }

    /// One step over one transaction, for those who name every place.
    mutating func step(
        _ reader: StoreReader
    ) throws -> EncodedTransaction? {
        try advance(reader, limit: 1, bytes: .max).first
    }
}
