internal import Coordinator
internal import Merge

/// Orphans: acknowledged saves that can be applied no more are kept by the store, as the product's
/// `OrphanKeeper` has it keep them.
extension SimulatedProcess {
    /// How soon it is tried again where the store could not keep them.
    private static let retryMicroseconds: UInt64 = 10_000_000

    /// Lets the store keep them, and holds it to that: what it gives is what was saved.
    func keepOrphans(_ transactions: [EncodedTransaction]) {
        let result = run { try $0.keepOrphans(transactions) }
        guard isAlive else { return }
        guard case .success(let keeping) = result else {
            return later(Self.retryMicroseconds) { $0.keepOrphans(transactions) }
        }
        // It has waited for the disk.
        observe { .durable(node: $0, vector: coordinator.durableVector) }
        let found = run { try $0.orphans() }
        guard isAlive, case .success(let orphans) = found else { return }
        for dot in keeping.kept {
            met(.orphanKept)
            let kept = orphans.first { $0.dot == dot }?.encoded
            // What it has seen is completed by what is known at the time.
            if kept?.bytes == transactions.first(where: { $0.dot == dot })?.bytes { continue }
            world.violate(
                2,
                "\(Telling.node(machine.number)) was to keep the orphan \(dot): expected it as it was "
                    + "saved, found \(kept == nil ? "nothing" : "something else")")
        }
    }

    /// Holds the store to keeping as orphans only what it has not applied.
    func checkOrphans() {
        guard let orphans = try? coordinator.orphanedDots, !orphans.isEmpty else { return }
        let vector = vectorInStore
        for dot in orphans where vector.contains(dot) {
            world.violate(
                2,
                "\(Telling.node(machine.number)) has applied \(dot): expected it to be no orphan any "
                    + "more, found it kept as one")
        }
    }
}
