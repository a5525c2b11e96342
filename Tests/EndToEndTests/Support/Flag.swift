import Synchronization

/// Tells tasks that something is over.
final class Flag: Sendable {
    private let value = Atomic<Bool>(false)

    var isRaised: Bool { value.load(ordering: .acquiring) }

    func raise() { value.store(true, ordering: .releasing) }
}
