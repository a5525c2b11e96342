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
        /// The bytes that such a change counts for.
        static let derivedBytes = 128
    }

    func get(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let limit = min(try request.count("limit", atLeast: 1) ?? .max, Limits.transactions)
        let after = try await services.known(try request.token("after"))
        let renderer = TransactionRenderer(renderer: services.renderer)
        return .json(
            try await services.read { reader in
                let current = try reader.token
                let entities = ReferencedEntities(reader, renderer.renderer.model)
                var place = try LogPlace(after: after, current: current, reader)
                var transactions: [JSONValue] = []
                var bytes = 0
                while transactions.count < limit, bytes < Limits.bytes, !place.reachedEnd {
                    let page = try place.advance(
                        reader, limit: min(limit - transactions.count, Limits.page),
                        bytes: Limits.bytes)
                    for logged in page {
                        let derived = try reader.derivedChanges(of: logged.dot)
                        bytes += derived.count * Limits.derivedBytes
                        transactions.append(
                            .object(
                                try renderer.json(
                                    logged.transaction, derived: derived, entities.name)))
                    }
                    bytes += page.reduce(0) { $0 + $1.size }
                }
                return JSONWriter.bytes(of: [
                    "transactions": .array(transactions),
                    "token": .string(place.token.text),
                ])
            })
    }

    func delete(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
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
    /// The vector known to the client at the beginning; it is left out wherever it comes.
    private let known: VersionVector
    /// Whether it begins where the log does, wherever that is by now.
    private var isAtBeginning: Bool

    /// Begins after a token of this node or another, or at the log's beginning.
    ///
    /// The vector alone says what a token has seen: see ``StoreReader/position(seen:)``.
    ///
    /// - Throws: ``CoordinatorError``: `queryGenerationExpired` where some of what comes after the
    ///   token was purged, or it names an incarnation that this store knows nothing of: see
    ///   ``HTTPServices/known(_:)``.
    init(
        after: QueryGenerationToken?, current: QueryGenerationToken, _ reader: StoreReader
    ) throws {
        // A purged beginning counts as seen, or the next page would miss it.
        let beginnings = try reader.beginnings()
        let after = after?.completed(by: beginnings)
        known = try after?.versionVector ?? reader.purgedVector
        isAtBeginning = after == nil
        guard after?.isWhole ?? true,
            let position = after == nil ? 0 : try reader.position(seen: known)
        else {
            throw Self.expired
        }
        token = QueryGenerationToken(
            store: current.store, generation: 0, position: position, versionVector: known,
            beginnings: beginnings)
    }

    private static var expired: CoordinatorError {
        CoordinatorError(
            .queryGenerationExpired,
            "The history after that token has been purged here; fetch all objects again.")
    }

    /// Reads on; an empty page need not be the end, see ``reachedEnd``.
    ///
    /// - Throws: ``CoordinatorError``: `queryGenerationExpired` where what comes next was purged
    ///   meanwhile.
    mutating func advance(
        _ reader: StoreReader, limit: Int, bytes: Int
    ) throws -> [EncodedTransaction] {
        let page = try reader.history(
            afterPosition: token.position, limit: limit, byteLimit: bytes)
        reachedEnd = page.isEmpty
        if let first = page.first, first.position > token.position + 1, !isAtBeginning {
            throw Self.expired
        }
        var result: [EncodedTransaction] = []
        var vector = token.versionVector
        for logged in page {
            vector.join(logged.encoded.transaction.seen)
            vector.advance(to: logged.encoded.dot)
            if known.contains(logged.encoded.dot) { continue }
            result.append(logged.encoded)
        }
        if let last = page.last {
            isAtBeginning = false
            token = QueryGenerationToken(
                store: token.store, generation: last.generation, position: last.position,
                versionVector: vector, beginnings: try reader.beginnings())
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
