package import Merge

/// A place in a store's log that moves on; as a token it means the same on every node.
package struct LogPlace: Sendable {
    /// The place as a token: its vector covers all transactions at or before its position.
    package private(set) var token: QueryGenerationToken
    /// Whether the last step found the log's end.
    package private(set) var reachedEnd = false
    /// The vector known to the client at the beginning; it is left out wherever it comes.
    private let known: VersionVector
    /// Whether it begins where the log does, wherever that is by now.
    private var isAtBeginning: Bool
    /// Under what those that are wanted are in the index of history; nil where all are wanted.
    private let name: String?

    /// Begins after a token of this node or another, or at the log's beginning.
    ///
    /// The vector alone says what a token has seen: see ``StoreReader/position(seen:)``.
    ///
    /// - Parameter filter: where the index of history serves it, it passes by what cannot be wanted.
    /// - Throws: ``CoordinatorError``: `queryGenerationExpired` where some of what comes after the
    ///   token was purged, or it names an incarnation that this store knows nothing of: see
    ///   ``HTTPServices/known(_:)``.
    package init(
        after: QueryGenerationToken?, current: QueryGenerationToken,
        for filter: ResolvedHistoryFilter? = nil, _ reader: StoreReader
    ) throws {
        // A purged beginning counts as seen, or the next page would miss it.
        let beginnings = try reader.beginnings()
        let after = after?.completed(by: beginnings)
        known = try after?.versionVector ?? reader.purgedVector
        isAtBeginning = after == nil
        name = filter?.indexName
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
    package mutating func advance(
        _ reader: StoreReader, limit: Int, bytes: Int
    ) throws -> [EncodedTransaction] {
        try advanceByPlaces(reader, limit: limit, bytes: bytes).map(\.logged.encoded)
    }

    /// The same, each transaction with the place after it.
    mutating func advanceByPlaces(
        _ reader: StoreReader, limit: Int, bytes: Int
    ) throws -> [(logged: LoggedTransaction, token: QueryGenerationToken)] {
        if let name, try reader.hasHistoryIndex() {
            return try advanceByIndex(name, reader, limit: limit, bytes: bytes)
        }
        let page = try reader.history(
            afterPosition: token.position, limit: limit, byteLimit: bytes)
        reachedEnd = page.isEmpty
        if let first = page.first, first.position > token.position + 1, !isAtBeginning {
            throw Self.expired
        }
        if page.isEmpty { return [] }
        isAtBeginning = false
        let beginnings = try reader.beginnings()
        var result: [(logged: LoggedTransaction, token: QueryGenerationToken)] = []
        var vector = token.versionVector
        for logged in page {
            vector.join(logged.encoded.transaction.seen)
            vector.advance(to: logged.encoded.dot)
            token = QueryGenerationToken(
                store: token.store, generation: logged.generation, position: logged.position,
                versionVector: vector, beginnings: beginnings)
            if !known.contains(logged.encoded.dot) { result.append((logged, token)) }
        }
        return result
    }

    private mutating func advanceByIndex(
        _ name: String, _ reader: StoreReader, limit: Int, bytes: Int
    ) throws -> [(logged: LoggedTransaction, token: QueryGenerationToken)] {
        let page = try reader.history(
            afterPosition: token.position, limit: limit, byteLimit: bytes, named: name)
        let (end, beginnings) = (try reader.token, try reader.beginnings())
        // What is passed by may have been purged as well.
        if !isAtBeginning, try reader.position(seen: token.versionVector) == nil {
            throw Self.expired
        }
        reachedEnd = page.isEmpty
        isAtBeginning = false
        let search = LogSearch(database: reader.database, actors: try reader.actors())
        var result: [(logged: LoggedTransaction, token: QueryGenerationToken)] = []
        for logged in page {
            token = QueryGenerationToken(
                store: token.store, generation: logged.generation, position: logged.position,
                versionVector: try search.vector(
                    upTo: logged.position, from: token.versionVector, at: token.position,
                    own: end.versionVector), beginnings: beginnings)
            if !known.contains(logged.encoded.dot) { result.append((logged, token)) }
        }
        if page.isEmpty, end.position > token.position {
            var vector = token.versionVector
            vector.join(end.versionVector)
            token = QueryGenerationToken(
                store: token.store, generation: end.generation, position: end.position,
                versionVector: vector, beginnings: beginnings)
        }
        return result
    }

    /// One step over one transaction, for those who name every place.
    package mutating func step(
        _ reader: StoreReader
    ) throws -> EncodedTransaction? {
        try advance(reader, limit: 1, bytes: .max).first
    }
}
