public import Foundation
import Merge

/// A request for history, or for a part of it to be deleted, as NSPersistentHistoryChangeRequest; a value.
public struct PersistentHistoryChangeRequest: Hashable, Sendable {
    /// The kind of result of a fetch.
    public enum ResultType: String, Hashable, Sendable, CaseIterable {
        /// Whether there is anything.
        case statusOnly
        /// Which objects changed, each once, in order.
        case objectIDs
        /// How many transactions there are.
        case count
        /// Transactions without their changes.
        case transactionsOnly
        /// The changes of all transactions, in one list.
        case changesOnly
        /// Transactions with their changes.
        case transactionsAndChanges
    }

    enum Kind: Hashable, Sendable {
        case fetch(after: QueryGenerationToken?)
        case fetchAfterDate(Date)
        case delete(before: QueryGenerationToken?)
        case deleteBeforeDate(Date)
    }

    let kind: Kind
    /// The kind of result of a fetch. Default ``ResultType/transactionsAndChanges``.
    public var resultType = ResultType.transactionsAndChanges
    /// What of history is fetched. A delete has none.
    public var filter = HistoryFilter()
    /// The most transactions that a fetch gives, from the first on; 0 for all, which are held in memory.
    public var fetchLimit = 0

    /// Fetches what was applied here after a token of this store or another of the cluster; nil for all.
    public static func fetchHistory(after token: QueryGenerationToken?) -> Self {
        Self(kind: .fetch(after: token))
    }

    /// Fetches what follows a transaction.
    public static func fetchHistory(after transaction: PersistentHistoryTransaction) -> Self {
        Self(kind: .fetch(after: transaction.token))
    }

    /// Fetches what was saved after a date by the clocks of those who saved it. All of the log is read.
    public static func fetchHistory(after date: Date) -> Self { Self(kind: .fetchAfterDate(date)) }

    /// Deletes what was applied up to a token, as far as all consumers have read it; nil for all there is
    /// but the newest transaction, which stays.
    public static func deleteHistory(before token: QueryGenerationToken?) -> Self {
        Self(kind: .delete(before: token))
    }

    /// Deletes a transaction and all before it.
    public static func deleteHistory(before transaction: PersistentHistoryTransaction) -> Self {
        Self(kind: .delete(before: transaction.token))
    }

    /// Deletes what was saved before a date, up to the first transaction that was not.
    public static func deleteHistory(before date: Date) -> Self {
        Self(kind: .deleteBeforeDate(date))
    }

    private init(kind: Kind) { self.kind = kind }
}

/// What a request for history gave, by its type.
public enum PersistentHistoryResult: Hashable, Sendable {
    /// Whether there is anything, or that a delete was done.
    case status(Bool)
    /// Which objects changed.
    case objectIDs([ManagedObjectID])
    /// How many transactions there are, or were deleted.
    case count(Int)
    /// Transactions, with or without changes.
    case transactions([PersistentHistoryTransaction])
    /// The changes of all transactions.
    case changes([PersistentHistoryChange])

    /// The transactions; nil where others were asked for.
    public var transactions: [PersistentHistoryTransaction]? {
        if case .transactions(let transactions) = self { transactions } else { nil }
    }
}

extension PersistentStoreCoordinator {
    /// The state after the newest transaction; what comes later is fetched by it.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    public var currentPersistentHistoryToken: QueryGenerationToken {
        get throws { try currentToken }
    }

    /// Carries a request for history out, and blocks until it is done.
    ///
    /// A delete is for stores of their own: where the cluster has other members, only the node knows what
    /// they have all seen, and deletes it (`tributary`'s `DELETE /v1/history`).
    ///
    /// - Returns: of a delete how many transactions went.
    /// - Throws: ``CoordinatorError``: `historyTokenExpired` (134301) where some of what comes after the
    ///   token was purged, `malformed` or `invalidPredicate` for a filter that does not fit the model,
    ///   `notWritable` for a delete of a store that is read only, `malformed` where others are members.
    public func execute(
        _ request: PersistentHistoryChangeRequest
    ) throws -> PersistentHistoryResult {
        switch request.kind {
        case .fetch(let token): return try fetch(request, after: token, since: nil)
        case .fetchAfterDate(let date): return try fetch(request, after: nil, since: date)
        case .delete, .deleteBeforeDate: return .count(try delete(request))
        }
    }

    private func fetch(
        _ request: PersistentHistoryChangeRequest, after token: QueryGenerationToken?,
        since date: Date?
    ) throws -> PersistentHistoryResult {
        let filter = try ResolvedHistoryFilter(request.filter, model: model, cluster: cluster)
        let hasChanges = ![.statusOnly, .count, .transactionsOnly].contains(request.resultType)
        let limit = request.resultType == .statusOnly ? 1 : request.fetchLimit
        return try read { reader in
            var reading = try HistoryReading(
                after: token, filter, hasChanges: hasChanges, reader)
            var found = FoundHistory(request.resultType)
            while !reading.reachedEnd, limit == 0 || found.count < limit {
                for transaction in try reading.next(reader)
                where date.map({ transaction.timestamp > $0 }) ?? true {
                    if limit > 0, found.count == limit { break }
                    found.add(transaction)
                }
            }
            return found.result
        }
    }

    private func delete(_ request: PersistentHistoryChangeRequest) throws -> Int {
        let seen = try currentToken.versionVector.entries.map(\.actor.node)
        let members = lastCommit?.membership.current ?? []
        guard (seen + members).allSatisfy({ $0 == node }) else {
            throw CoordinatorError(
                .malformed,
                "This store's cluster has other members, who may not have seen that history: have its "
                    + "node delete it.")
        }
        let through: UInt64?
        switch request.kind {
        case .delete(let token):
            through = try read { reader in
                let whole = try token?.completed(by: reader.beginnings()) ?? reader.token
                return try reader.position(seen: whole.versionVector)
            }
        case .deleteBeforeDate(let date):
            through = try read { try $0.lastPosition(before: date) }
        case .fetch, .fetchAfterDate: return 0
        }
        guard let through else { return 0 }
        let stable = try currentToken.versionVector
        try makeDurable()
        var count = 0
        while true {
            let step = try maintainBlocking {
                try $0.purger.purgeHistory(through: through, stable: stable)
            }
            count += step.count
            if step.isDone { return count }
        }
    }
}

extension StoreReader {
    /// The position up to which all transactions of the log were saved before a date; nil where the first
    /// one was not.
    fileprivate func lastPosition(before date: Date) throws -> UInt64? {
        let statement = try database.prepared(
            "SELECT position, substr(bytes, 1, \(Transaction.headBytes)) FROM _transaction "
                + "ORDER BY position")
        defer { statement.reset() }
        let limit = date.timeIntervalSince1970 * 1000
        var last: UInt64?
        while try statement.step() {
            guard let timestamp = try? Transaction.head(statement.bytes(1)).timestamp,
                Double(timestamp.milliseconds) < limit
            else { break }
            last = UInt64(bitPattern: statement.integer(0))
        }
        return last
    }
}

/// Puts the results of a fetch of history together.
private struct FoundHistory {
    private let type: PersistentHistoryChangeRequest.ResultType
    private(set) var count = 0
    private var transactions: [PersistentHistoryTransaction] = []
    private var changes: [PersistentHistoryChange] = []
    private var objects: [ManagedObjectID] = []
    private var known = Set<ManagedObjectID>()

    init(_ type: PersistentHistoryChangeRequest.ResultType) { self.type = type }

    mutating func add(_ transaction: PersistentHistoryTransaction) {
        count += 1
        switch type {
        case .statusOnly, .count: break
        case .transactionsOnly, .transactionsAndChanges: transactions.append(transaction)
        case .changesOnly: changes += transaction.changes ?? []
        case .objectIDs:
            for change in transaction.changes ?? []
            where known.insert(change.changedObjectID).inserted {
                objects.append(change.changedObjectID)
            }
        }
    }

    var result: PersistentHistoryResult {
        switch type {
        case .statusOnly: .status(count > 0)
        case .count: .count(count)
        case .objectIDs: .objectIDs(objects)
        case .changesOnly: .changes(changes)
        case .transactionsOnly, .transactionsAndChanges: .transactions(transactions)
        }
    }
}

extension ManagedObjectContext {
    /// Carries a request for history out in the store. To be used on its queue.
    ///
    /// - Throws: as ``PersistentStoreCoordinator/execute(_:)``.
    @discardableResult
    public func execute(
        _ request: PersistentHistoryChangeRequest
    ) throws -> PersistentHistoryResult {
        confine()
        return try persistentStoreCoordinator.execute(request)
    }
}
