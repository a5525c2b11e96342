import ArgumentParser
import Coordinator
import Merge

/// Blame, an object's log, differences and the past, with much history.
struct ExplainCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Blame, log, diff and the past of a store with much history, beside one fetch.")

    @OptionGroup var common: CommonOptions

    @Option(help: "How many transactions.")
    var transactions = 1_000_000

    @Option(help: "How many objects they write, one after the other.")
    var objects = 10_000

    /// How many save at the same time.
    private static let savers = 64
    /// How many objects are asked for.
    private static let asked = 500

    func tables() async throws -> [MarkdownTable] {
        try await Workspace.with(common.directory, "explain") { workspace in
            [try await explained(workspace)]
        }
    }

    /// Inserts the objects, and then updates one after the other, each in a save of its own.
    private func fill(_ store: SampleData.Store) async throws -> [RowID] {
        let items = (0..<objects).map { SampleData.Item($0) }
        var rows: [RowID] = []
        for begin in stride(from: 0, to: items.count, by: 1_000) {
            let part = items[begin..<min(begin + 1_000, items.count)]
            let result = try await store.coordinator.save(SampleData.insert(part, store.entity))
            rows += result.insertedRows.map(\.row)
        }
        let (entity, coordinator) = (store.entity, store.coordinator)
        let (count, known) = (transactions, rows)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for saver in 0..<Self.savers {
                group.addTask {
                    for number in stride(from: saver, to: count, by: Self.savers) {
                        let operation = SaveOperation(
                            kind: .update, entity: entity, row: known[number % known.count],
                            values: [(position: 1, value: .string("value \(number)"))])
                        _ = try await coordinator.save(
                            SaveRequest(operations: [operation], author: "author \(number % 7)"))
                    }
                }
            }
            try await group.waitForAll()
        }
        return rows
    }

    private func explained(_ workspace: Workspace) async throws -> MarkdownTable {
        let store = try SampleData.openStore(
            at: workspace.file("store.sqlite"), indexesHistory: false)
        defer { store.coordinator.close() }
        let rows = try await fill(store)
        let step = max(1, rows.count / Self.asked)
        let ids = stride(from: 0, to: rows.count, by: step).map {
            ManagedObjectID(entityName: store.entity.name, row: rows[$0])
        }
        func times(_ body: (StoreReader, ManagedObjectID) throws -> Void) throws -> [Double] {
            try ids.map { id in
                let start = Clocks.seconds()
                try store.coordinator.read { try body($0, id) }
                return Clocks.seconds() - start
            }
        }
        let fetch = try times { reader, id in _ = try reader.row(store.entity, id.row) }
        let blame = try times { reader, id in
            let found = try reader.blame(id, lookback: 0)
            guard found.properties.contains(where: { $0.write?.timestamp != nil }) else {
                throw BenchmarkError("Blame knows no writer of \(id).")
            }
        }
        let previous = try times { reader, id in _ = try reader.blame(id) }
        let now = try store.coordinator.currentToken.versionVector
        let (log, difference, time) = try store.coordinator.read { reader in
            var start = Clocks.seconds()
            _ = try reader.log(of: ids[0], limit: 1_000)
            let log = Clocks.seconds() - start
            start = Clocks.seconds()
            let recent = VersionVector(
                now.entries.map { .init(actor: $0.actor, sequence: $0.sequence - 1_000) })
            let found = try reader.difference(from: recent, to: now)
            guard !found.isEmpty else { throw BenchmarkError("Nothing differs.") }
            let difference = Clocks.seconds() - start
            start = Clocks.seconds()
            _ = try reader.vector(at: 1)
            return (log, difference, Clocks.seconds() - start)
        }
        var table = MarkdownTable(
            "\(Figures.text(Double(transactions), 0)) transactions over "
                + "\(Figures.text(Double(objects), 0)) objects",
            columns: ["", "middle", "p99"])
        for (name, values) in [
            ("fetch one object", fetch), ("blame, current values", blame),
            ("blame, with what was replaced", previous),
        ] {
            table.add(
                name, Figures.milliseconds(Figures.median(values)),
                Figures.milliseconds(Figures.percentile(0.99, of: values)))
        }
        table.add("log of one object", Figures.text(log) + " s", "")
        table.add("difference of 1,000 saves", Figures.milliseconds(difference), "")
        table.add("the point of a time", Figures.milliseconds(time), "")
        table.goals = [
            Goal(
                "blame of current values, p99", .atMost(5),
                Figures.percentile(0.99, of: blame) * 1000, unit: " ms"),
            Goal(
                "blame beside a fetch of the object", nil,
                Figures.median(blame) / Figures.median(fetch), unit: " times"),
        ]
        return table
    }
}
