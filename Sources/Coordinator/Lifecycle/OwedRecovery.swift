import Merge
import Synchronization

/// The latest recovery state, possibly not yet on disk. From then on nothing of other nodes is
/// applied without it. Thread-safe.
///
/// The replicator tells it once; the record may fail, because the disk is full, and what is applied
/// a second later does not.
final class OwedRecovery: Sendable {
    private let noted = Mutex<RecoveryRecord?>(nil)

    func note(_ record: RecoveryRecord) { noted.withLock { $0 = record } }

    /// The state to write into the store; nil if there is none yet.
    var record: RecoveryRecord? { noted.withLock { $0 } }
}

/// The recovery state of a store, as it is kept.
struct RecoveryRecord: Hashable, Sendable {
    var recovery: StoreRecovery
    /// The incarnations vouched for together with this store, when all were new.
    var founders: [ActorID] = []
}
