import ArgumentParser
import Coordinator
import Merge

/// Bulk inserts beside a bare SQLite loop.
struct InsertCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "insert",
        abstract: "Durable inserts in saves of 1,000, beside a bare SQLite loop on such a table.")

    @OptionGroup var common: CommonOptions

    @Option(help: "How many objects.")
    var objects = 500_000

    @Option(help: "How many objects a save.")
    var batch = 1000

    @Flag(help: "The product alone, for a profiler.")
    var alone = false

    func tables() async throws -> [MarkdownTable] {
        try await Workspace.with(common.directory, "insert") { workspace in
            guard !alone else {
                try runAlone(workspace)
                return []
            }
            return [try measure(workspace)]
        }
    }

    /// The time of one contender, pair by pair.
    private struct Tally {
        var parts: [Clocks.Duration] = []
        var total: Clocks.Duration { parts.reduce(.zero, +) }
    }

    /// Bare loop and product take turns, so that what else the machine does meets both.
    func measure(_ workspace: Workspace) throws -> MarkdownTable {
        let bare = try BareLoop(path: workspace.file("bare.sqlite"))
        let store = try SampleData.openStore(at: workspace.file("store.sqlite"))
        let contexts = try SampleData.openStore(at: workspace.file("context.sqlite"))
        let context = ManagedObjectContext(contexts.coordinator)
        defer {
            store.coordinator.close()
            contexts.coordinator.close()
        }
        let turns = 10
        let saves = max(turns, objects / batch)
        var tallies = [Tally](repeating: Tally(), count: 3)
        var number = 0
        var probe: [Double] = []
        for turn in 0..<turns {
            let count = saves * (turn + 1) / turns - saves * turn / turns
            let items = (0..<count).map { _ in
                (0..<batch).map { _ in
                    number += 1
                    return SampleData.Item(number)
                }
            }
            tallies[0].parts.append(
                try Clocks.measure { for save in items { try bare.save(save) } })
            tallies[1].parts.append(
                try Clocks.measure {
                    for save in items {
                        _ = try store.coordinator.save(SampleData.insert(save, store.entity))
                    }
                })
            tallies[2].parts.append(
                try Clocks.measure { for save in items { try Self.save(save, context) } })
            probe += try DiskProbe.samples(in: workspace, count: 20)
        }
        return table(tallies, objects: number, probe)
    }

    private static func save(_ items: [SampleData.Item], _ context: ManagedObjectContext) throws {
        try context.performAndWait {
            for item in items {
                let object = context.insert(SampleData.entityName)
                object.setValue(item.count, forKey: "count")
                object.setValue(item.name, forKey: "name")
                object.setValue(item.note, forKey: "note")
                object.setValue(item.weight, forKey: "weight")
            }
            try context.save(SaveOptions(isBulk: true))
            context.reset()
        }
    }

    private func table(_ tallies: [Tally], objects: Int, _ probe: [Double]) -> MarkdownTable {
        var table = MarkdownTable(
            "\(Figures.text(Double(objects), 0)) durable inserts in saves of "
                + Figures.text(Double(batch), 0),
            columns: [
                "", "wall time", "objects a second", "processor time",
                "wall, times bare (median of pairs)", "processor, times bare",
            ])
        let names = ["bare SQLite loop", "coordinator.save", "managed object context"]
        for (name, tally) in zip(names, tallies) {
            let total = tally.total
            let ratios = zip(tally.parts, tallies[0].parts).map { $0.wall / $1.wall }
            table.add(
                name, Figures.text(total.wall) + " s",
                Figures.text(Double(objects) / total.wall, 0),
                Figures.text(total.processor) + " s", Figures.text(Figures.median(ratios)),
                Figures.text(total.processor / tallies[0].total.processor))
        }
        table.notes.append(DiskProbe.note(probe))
        table.goals = zip(names, tallies).dropFirst().map { name, tally in
            let ratios = zip(tally.parts, tallies[0].parts).map { $0.wall / $1.wall }
            return Goal(
                "\(name) beside the bare loop", name == names[1] ? .atMost(2) : nil,
                Figures.median(ratios), unit: " times")
        }
        return table
    }

    private func runAlone(_ workspace: Workspace) throws {
        let store = try SampleData.openStore(at: workspace.file("store.sqlite"))
        defer { store.coordinator.close() }
        let items = (0..<batch).map(SampleData.Item.init)
        let duration = try Clocks.measure {
            for _ in 0..<(objects / batch) {
                _ = try store.coordinator.save(SampleData.insert(items, store.entity))
            }
        }
        print("wall \(duration.wall) s, processor \(duration.processor) s")
    }
}
