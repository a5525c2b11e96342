import ArgumentParser
import Coordinator
import Foundation
import Merge
import Synchronization

/// Small durable saves by savers at the same time, through the library.
struct SaversCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "savers",
        abstract: "Durable saves of one object by 1, 8 and 32 savers, through the library.")

    @OptionGroup var common: CommonOptions

    @Option(help: "Seconds each measurement takes.")
    var seconds = 1.0

    @Option(parsing: .upToNextOption, help: "How many savers.")
    var savers = [1, 8, 32]

    func tables() async throws -> [MarkdownTable] {
        try await Workspace.with(common.directory, "savers") { [try await measure($0)] }
    }

    func measure(_ workspace: Workspace) async throws -> MarkdownTable {
        let store = try SampleData.openStore(at: workspace.file("store.sqlite"))
        defer { store.coordinator.close() }
        var tasks: [Int: [Double]] = [:]
        var threads: [Int: [Double]] = [:]
        var probe: [Double] = []
        for _ in 0..<common.rounds {
            for count in savers {
                tasks[count, default: []].append(
                    try await withTasks(count, store.coordinator, store.entity))
                threads[count, default: []].append(
                    try withThreads(count, store.coordinator, store.entity))
            }
            probe += try DiskProbe.samples(in: workspace)
        }
        var table = MarkdownTable(
            "Durable saves of one object through the library",
            columns: [
                "savers", "tasks: saves a second", "times one task",
                "threads: saves a second", "times one thread",
            ])
        let first = savers.first ?? 1
        for count in savers {
            let task = Figures.median(tasks[count] ?? [])
            let thread = Figures.median(threads[count] ?? [])
            table.add(
                "\(count)", Figures.text(task, 0),
                Figures.text(task / Figures.median(tasks[first] ?? [])),
                Figures.text(thread, 0),
                Figures.text(thread / Figures.median(threads[first] ?? [])))
        }
        table.notes.append(DiskProbe.note(probe))
        for (who, rates) in [("tasks", tasks), ("threads", threads)] {
            guard let one = rates[1], let many = rates[32] else { continue }
            let rate = Figures.median(many)
            table.goals += [
                Goal(
                    "32 \(who) beside one", .atLeast(8), rate / Figures.median(one),
                    unit: " times"),
                Goal("32 \(who)", .over(10_000), rate, unit: " saves a second"),
            ]
        }
        return table
    }

    /// Saves a second by tasks. Each awaits its save before the next.
    private func withTasks(
        _ count: Int, _ coordinator: PersistentStoreCoordinator, _ entity: ManagedObjectModel.Entity
    ) async throws -> Double {
        let start = Clocks.seconds()
        let end = start + seconds
        let saves = try await withThrowingTaskGroup(of: Int.self) { group in
            for saver in 0..<count {
                group.addTask {
                    var saves = 0
                    while Clocks.seconds() < end {
                        let item = SampleData.Item(saver * 1_000_000 + saves)
                        _ = try await coordinator.save(
                            SampleData.insert(CollectionOfOne(item), entity))
                        saves += 1
                    }
                    return saves
                }
            }
            return try await group.reduce(0, +)
        }
        return Double(saves) / (Clocks.seconds() - start)
    }

    /// Saves a second by threads that block.
    private func withThreads(
        _ count: Int, _ coordinator: PersistentStoreCoordinator, _ entity: ManagedObjectModel.Entity
    ) throws -> Double {
        let start = Clocks.seconds()
        let end = start + seconds
        let total = SaveCounter()
        let group = DispatchGroup()
        for saver in 0..<count {
            group.enter()
            Thread.detachNewThread {
                defer { group.leave() }
                var saves = 0
                do {
                    while Clocks.seconds() < end {
                        let item = SampleData.Item(saver * 1_000_000 + saves)
                        let request = SampleData.insert(CollectionOfOne(item), entity)
                        let _: SaveResult = try coordinator.save(request)
                        saves += 1
                    }
                } catch {
                    total.fail(error)
                }
                total.add(saves)
            }
        }
        group.wait()
        return Double(try total.get()) / (Clocks.seconds() - start)
    }
}

/// The saves of all threads, and the first failure.
private final class SaveCounter: Sendable {
    private let state = Mutex<(saves: Int, failure: (any Error)?)>((0, nil))

    func add(_ saves: Int) { state.withLock { $0.saves += saves } }

    func fail(_ error: any Error) {
        state.withLock { if $0.failure == nil { $0.failure = error } }
    }

    func get() throws -> Int {
        try state.withLock {
            if let failure = $0.failure { throw failure }
            return $0.saves
        }
    }
}
