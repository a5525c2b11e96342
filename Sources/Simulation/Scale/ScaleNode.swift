internal import Coordinator
internal import Foundation
internal import Merge
internal import NodeCore
internal import Replication
internal import Synchronization

/// A node of a ``ScaleCluster``: the product's coordinator and core on a machine without faults.
final class ScaleNode {
    /// What a node works for.
    enum Purpose: Hashable {
        /// Saves: to make them, send them, receive them and apply them.
        case saves
        /// Heads, ticks and upkeep, which come with time.
        case time
    }

    let machine: Machine
    let store: NodeStore
    var core: NodeCore
    let mailbox = SimulatedProcess.Mailbox()
    private var observation: CommitObservation?
    /// Real seconds of a processor.
    private(set) var spent: [Purpose: Double] = [:]

    /// Opens a new store.
    init(_ number: Int, of count: Int, _ generator: inout SeededGenerator) throws {
        guard let node = NodeID(number + 1) else { fatalError("There is no node \(number + 1).") }
        machine = Machine(
            number: number, node: node, disk: SimulatedDisk(seed: generator.next()),
            settings: MachineSettings())
        machine.configured = (1...count).compactMap { NodeID($0) }.filter { $0 != node }
        let coordinator = try PersistentStoreCoordinator(
            storeAt: machine.storePath, model: ScaleCluster.model, cluster: World.cluster,
            node: node, options: machine.options(seed: generator.next()))
        observation = coordinator.observeCommits { [mailbox] notice in
            mailbox.notices.withLock { $0.append(notice) }
        }
        store = NodeStore(coordinator) { [clock = machine.clock] in clock.monotonicMilliseconds }
        // The program's own settings: those of the machine are for faults.
        var settings = NodeCore.Settings()
        settings.history = HistoryLimits()
        core = try NodeCore(
            store, settings: settings, generator: SeededGenerator(seed: generator.next()))
    }

    /// Does something, and counts the processor time that it takes.
    func spend<Result>(
        _ purpose: Purpose, _ body: (ScaleNode) throws -> Result
    ) rethrows -> Result {
        let start = Self.processorSeconds
        defer { spent[purpose, default: 0] += Self.processorSeconds - start }
        return try body(self)
    }

    /// Forgets what was spent.
    func reset() { spent = [:] }

    /// Does what the program's loop does at each tick.
    func look() { _ = core.status }

    /// Closes the store.
    func close() {
        observation = nil
        store.coordinator.close()
        machine.disk.unmount()
    }

    private static var processorSeconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
