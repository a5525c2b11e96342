import Synchronization

/// That a store is to be known for one that somebody must vouch for, whether it could be written
/// down yet or not: nothing of others is applied without it from then on. Thread-safe.
///
/// The replicator tells it once; the record may fail, for the disk is full, and what is applied a
/// second later does not.
final class OwedRecovery: Sendable {
    private let isRestored = Atomic<Bool>(false)

    func note(_ recovery: StoreRecovery) {
        isRestored.store(recovery == .restored, ordering: .releasing)
    }

    var isOwed: Bool { isRestored.load(ordering: .acquiring) }
}
