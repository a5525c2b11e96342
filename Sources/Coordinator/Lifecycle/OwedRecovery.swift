import Merge
import Synchronization

/// What was told last of a store's recovery, whether it could be written down yet or not: nothing of
/// others is applied without it from then on. Thread-safe.
///
/// The replicator tells it once; the record may fail, for the disk is full, and what is applied a
/// second later does not.
final class OwedRecovery: Sendable {
    private let noted = Mutex<RecoveryRecord?>(nil)

    func note(_ record: RecoveryRecord) { noted.withLock { $0 = record } }

    /// What is to be in the store; nil where nothing was told yet.
    var record: RecoveryRecord? { noted.withLock { $0 } }
}

/// What a store keeps of its recovery.
struct RecoveryRecord: Hashable, Sendable {
    var recovery: StoreRecovery
    /// Who was vouched for together with this store, when all were new.
    var founders: [ActorID] = []
}
