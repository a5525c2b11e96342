// What waits to be committed.

import Merge

/// A job that waits.
enum CommitJob: Sendable {
    case save(
        make: @Sendable (StoreEngine) throws -> SaveRequest, size: Int,
        completion: @Sendable (Result<SaveResult, any Error>) -> Void)
    case apply(
        [EncodedTransaction], completion: @Sendable (Result<ApplyResult, any Error>) -> Void)
    case makeDurable(completion: @Sendable (Result<Void, any Error>) -> Void)
    /// Where it is to be alone in its group, no other job fails with it.
    case maintain(
        @Sendable (StoreEngine) throws -> Void, isAlone: Bool,
        completion: @Sendable (Result<Void, any Error>) -> Void)

    var size: Int {
        switch self {
        case .save(_, let size, _): size
        case .apply(let transactions, _):
            transactions.reduce(0) { $0 + $1.transaction.changes.count }
        case .makeDurable: 1
        case .maintain(_, let isAlone, _): isAlone ? CommitQueue.operationsInGroup + 1 : 1
        }
    }

    /// Whether a caller that may not wait long may do it.
    var isShort: Bool {
        switch self {
        case .save(_, let size, _): size <= CommitQueue.shortOperations
        case .apply(let transactions, _):
            size <= CommitQueue.shortOperations
                && transactions.reduce(0) { $0 + $1.plainSize } <= CommitQueue.shortBytes
        case .makeDurable, .maintain: false
        }
    }

    /// Whether it may fail, or wait for the disk, by itself: saves are not in one group with it.
    var isUpkeep: Bool {
        switch self {
        case .save, .apply: false
        case .makeDurable, .maintain: true
        }
    }

    var isSave: Bool { if case .save = self { true } else { false } }

    func fail(_ error: any Error) {
        switch self {
        case .save(_, _, let completion): completion(.failure(error))
        case .apply(_, let completion): completion(.failure(error))
        case .makeDurable(let completion): completion(.failure(error))
        case .maintain(_, _, let completion): completion(.failure(error))
        }
    }
}
