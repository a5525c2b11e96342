import Synchronization

/// What was told last of a store's recovery, whether it could be written down yet or not: nothing of
/// others is applied without it from then on. Thread-safe.
///
/// The replicator tells it once; the record may fail, for the disk is full, and what is applied a
/// second later does not.
final class OwedRecovery: Sendable {
    private static let nothing = -1
    private let told = Atomic<Int>(nothing)

    func note(_ recovery: StoreRecovery) { told.store(recovery.rawValue, ordering: .releasing) }

    /// What is to be in the store; nil where nothing was told yet.
    var recovery: StoreRecovery? { StoreRecovery(rawValue: told.load(ordering: .acquiring)) }
}
