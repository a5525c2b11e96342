package import Merge
import Synchronization

/// A store as it was: its log, applied again as far as a vector covers, to a store in memory.
///
/// What readers see follows from the set of saves alone (DESIGN section 14, law 3), so this is what a pin
/// showed that was taken when the store had just these. It needs the log from its beginning: what history
/// has purged, or what came with a join of two stores, is in no log.
///
/// One point is kept in memory. A later one goes on from there, an earlier one begins again. Applying takes
/// some 50 µs a transaction. Usable from any thread; reads wait for each other.
package final class PastStore: Sendable {
    /// The bounds of what is kept in memory.
    package enum Limits {
        /// The most bytes of the log that are applied.
        package static let logBytes = 256 << 20
    }

    private let source: PersistentStoreCoordinator
    private let scratch = Mutex<PersistentStoreCoordinator?>(nil)

    /// Reads nothing yet.
    package init(of source: PersistentStoreCoordinator) { self.source = source }

    /// Reads the store as it was when it had the saves that a vector covers.
    ///
    /// Blocks until the log is applied. If that is given up, the next read goes on from there.
    ///
    /// - Parameters:
    ///   - vector: see ``StoreReader/vector(at:)`` and ``QueryGenerationToken/versionVector``.
    ///   - mayGoOn: asked after every few hundred transactions.
    ///   - body: reads.
    /// - Throws: ``CoordinatorError``: `historyTokenExpired` where the log does not begin with the store,
    ///   `generationTimeout` where the store has not got all that the vector covers, `malformed`
    ///   where the log is too long, or the vector is not causally closed; `CancellationError` where it may
    ///   not go on.
    package func read<Result: Sendable>(
        at vector: VersionVector, while mayGoOn: @escaping @Sendable () -> Bool = { true },
        _ body: @escaping @Sendable (StoreReader) throws -> Result
    ) throws -> Result {
        try scratch.withLock { scratch in
            let past = try advanced(&scratch, to: vector, while: mayGoOn)
            return try past.read(nil, milliseconds: nil, while: mayGoOn, body)
        }
    }

    /// Gives the memory back.
    package func close() {
        scratch.withLock { scratch in
            scratch?.close()
            scratch = nil
        }
    }

    private func advanced(
        _ scratch: inout PersistentStoreCoordinator?, to vector: VersionVector,
        while mayGoOn: @Sendable () -> Bool
    ) throws -> PersistentStoreCoordinator {
        if let past = scratch, try past.currentToken.versionVector == vector { return past }
        guard mayGoOn() else { throw CancellationError() }
        try source.read { try $0.checkLog(covers: vector) }
        if let past = scratch, try !vector.covers(past.currentToken.versionVector) {
            past.close()
            scratch = nil
        }
        let past = try scratch ?? open()
        scratch = past
        while try past.currentToken.versionVector != vector {
            guard mayGoOn() else { throw CancellationError() }
            let known = try past.currentToken.versionVector
            let next = try source.read { try $0.transactions(of: vector, notCoveredBy: known) }
            guard !next.isEmpty else {
                throw CoordinatorError(
                    .storeDamaged, "The log has no transactions beyond \(known).")
            }
            let result = try past.apply(next)
            if let rejected = result.rejected.first {
                throw CoordinatorError(
                    .malformed,
                    "The point names \(rejected.dot), but not all that it had seen: "
                        + rejected.reason)
            }
        }
        return past
    }

    private func open() throws -> PersistentStoreCoordinator {
        var options = PersistentStoreCoordinator.Options()
        options.worksAlone = source.options.worksAlone
        options.wallMilliseconds = source.options.wallMilliseconds
        options.monotonicMilliseconds = source.options.monotonicMilliseconds
        options.random = source.options.random
        options.readers = 1
        let past = try PersistentStoreCoordinator(
            inMemory: source.model, cluster: source.cluster, node: source.node, options: options)
        let former = try source.formerModels
        if !former.isEmpty { _ = try past.learn(former) }
        return past
    }
}

extension StoreReader {
    /// How many transactions are applied at once.
    private static var pastStep: Int { 500 }

    /// The vector of the saves with timestamps up to a time, as far as this store has them. It is the same at
    /// every node that has them, and causally closed: a save is later than all that it has seen.
    ///
    /// - Parameter milliseconds: since 1970.
    /// - Throws: ``CoordinatorError``, `historyTokenExpired` where history was purged beyond that time.
    package func vector(at milliseconds: UInt64) throws -> VersionVector {
        let own = try token.versionVector
        let first = try oldest()
        if let first, first.hasPurged, first.timestamp.milliseconds > milliseconds {
            throw Self.purged
        }
        var vector = VersionVector()
        for entry in own.entries {
            try checkGoingOn()
            // An actor's timestamps rise with its sequences. What is not in the log came before.
            var (low, high) = (UInt64(0), entry.sequence)
            while low < high {
                let middle = high - (high - low) / 2
                let time = try timestamp(of: Dot(actor: entry.actor, sequence: middle))
                if time.map({ $0.milliseconds <= milliseconds }) ?? true {
                    low = middle
                } else {
                    high = middle - 1
                }
            }
            vector.advance(entry.actor, to: low)
        }
        return vector
    }

    /// When a transaction of the log was saved, read from its first bytes.
    private func timestamp(of dot: Dot) throws -> HybridTimestamp? {
        guard let integer = try actors().knownInteger(dot) else { return nil }
        let statement = try database.prepared(
            "SELECT substr(bytes, 1, \(Transaction.headBytes)) FROM _transaction WHERE dot = ?1")
        statement.bind(1, integer)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return try? Transaction.head(statement.bytes(0)).timestamp
    }

    private static var purged: CoordinatorError {
        CoordinatorError(
            .historyTokenExpired,
            "History does not reach back so far: what came before was purged, or came with a copy.")
    }

    /// The oldest transaction of the log, and whether anything came before it; nil of an empty log.
    private func oldest() throws -> (timestamp: HybridTimestamp, hasPurged: Bool)? {
        let statement = try database.prepared(
            "SELECT position, bytes FROM _transaction ORDER BY position LIMIT 1")
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        let heading = try? Transaction.decodeHeading(statement.bytes(1))
        return (heading?.timestamp ?? .zero, statement.integer(0) > 1)
    }

    /// Refuses to read the past where the log does not tell all of it.
    func checkLog(covers vector: VersionVector) throws {
        let own = try token.versionVector
        guard own.covers(vector) else {
            throw CoordinatorError(
                .generationTimeout, "This store has not got all that the point names yet.")
        }
        let statement = try database.prepared(
            "SELECT count(*), coalesce(sum(length(bytes)), 0) FROM _transaction")
        defer { statement.reset() }
        _ = try statement.step()
        guard UInt64(statement.integer(0)) == own.total else { throw Self.purged }
        guard statement.integer(1) <= PastStore.Limits.logBytes else {
            throw CoordinatorError(
                .malformed,
                "History has \(statement.integer(1)) bytes. The past is read in memory, from at most "
                    + "\(PastStore.Limits.logBytes).")
        }
    }

    /// The next transactions of a vector, in the order applied here.
    func transactions(
        of vector: VersionVector, notCoveredBy known: VersionVector
    ) throws -> [EncodedTransaction] {
        let token = try token
        let start = try LogSearch(database: database, actors: try actors()).position(
            seen: known, own: token.versionVector, last: token.position)
        guard let start else { throw Self.purged }
        var found: [EncodedTransaction] = []
        var place = start
        while found.count < Self.pastStep {
            let page = try history(
                afterPosition: place, limit: Self.pastStep, byteLimit: 4 << 20)
            guard let last = page.last else { break }
            place = last.position
            found += page.lazy.map(\.encoded).filter {
                vector.contains($0.dot) && !known.contains($0.dot)
            }
        }
        return found
    }
}
