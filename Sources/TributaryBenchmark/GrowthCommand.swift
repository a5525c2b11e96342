import ArgumentParser
import Coordinator
import Merge

/// Whether a save costs more in a large store.
struct GrowthCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "growth",
        abstract: "The rate of saves of one object with 10,000 and with 1,000,000 rows.")

    @OptionGroup var common: CommonOptions

    @Option(parsing: .upToNextOption, help: "How many rows, from the smallest.")
    var rows = [10_000, 1_000_000]

    @Option(help: "How many saves each measurement takes.")
    var saves = 500

    func tables() async throws -> [MarkdownTable] {
        try await Workspace.with(common.directory, "growth") { [try measure($0)] }
    }

    /// A store of one size, with what was measured in it.
    private struct Contender {
        let count: Int
        let coordinator: PersistentStoreCoordinator
        let entity: ManagedObjectModel.Entity
        var known: [RowID] = []
        var inserts: [Clocks.Duration] = []
        var updates: [Clocks.Duration] = []
    }

    /// The stores take turns, so that what else the machine does meets all of them.
    func measure(_ workspace: Workspace) throws -> MarkdownTable {
        var contenders: [Contender] = []
        defer { for contender in contenders { contender.coordinator.close() } }
        for count in rows {
            let store = try SampleData.openStore(at: workspace.file("store\(count).sqlite"))
            contenders.append(
                Contender(count: count, coordinator: store.coordinator, entity: store.entity))
            try fill(&contenders[contenders.count - 1])
        }
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<common.rounds * 2 {
            for index in contenders.indices {
                try measureInserts(&contenders[index])
                try measureUpdates(&contenders[index], &generator)
            }
        }
        return table(contenders, try DiskProbe.samples(in: workspace))
    }

    private func fill(_ contender: inout Contender) throws {
        let batch = 5000
        for start in stride(from: 0, to: contender.count, by: batch) {
            let items = (start..<min(start + batch, contender.count)).map(SampleData.Item.init)
            let result = try contender.coordinator.save(
                SampleData.insert(items, contender.entity))
            contender.known += result.insertedRows.map(\.row)
        }
    }

    private func measureInserts(_ contender: inout Contender) throws {
        let (coordinator, entity) = (contender.coordinator, contender.entity)
        contender.inserts.append(
            try Clocks.measure {
                for number in 0..<saves {
                    let item = CollectionOfOne(SampleData.Item(number))
                    _ = try coordinator.save(SampleData.insert(item, entity))
                }
            })
    }

    private func measureUpdates(
        _ contender: inout Contender, _ generator: inout SystemRandomNumberGenerator
    ) throws {
        let (coordinator, entity) = (contender.coordinator, contender.entity)
        let targets = (0..<saves).compactMap { _ in
            contender.known.randomElement(using: &generator)
        }
        contender.updates.append(
            try Clocks.measure {
                for row in targets {
                    let value = Int64.random(in: 0...Int64.max, using: &generator)
                    _ = try coordinator.save(
                        SaveRequest(operations: [
                            SaveOperation(
                                kind: .update, entity: entity, row: row,
                                values: [(0, .integer(value))])
                        ]))
                }
            })
    }

    private func table(_ contenders: [Contender], _ probe: [Double]) -> MarkdownTable {
        var table = MarkdownTable(
            "Durable saves of one object in stores of different size",
            columns: [
                "rows", "inserts a second", "of the smallest's rate", "processor time each",
                "updates a second", "of the smallest's rate", "processor time each",
            ])
        func cells(_ measured: [Clocks.Duration], _ first: [Clocks.Duration]) -> [String] {
            let rate = Figures.median(measured.map { Double(saves) / $0.wall })
            let ratios = zip(first, measured).map { $0.wall / $1.wall }
            let work = Figures.median(measured.map { $0.processor / Double(saves) })
            return [
                Figures.text(rate, 0), Figures.text(Figures.median(ratios) * 100, 0) + " %",
                Figures.text(work * 1e6, 0) + " µs",
            ]
        }
        for contender in contenders.dropFirst() {
            for (name, first, measured) in [
                ("inserts", contenders[0].inserts, contender.inserts),
                ("updates", contenders[0].updates, contender.updates),
            ] {
                let ratios = zip(first, measured).map { $0.wall / $1.wall }
                table.goals.append(
                    Goal(
                        "\(name) at \(Figures.text(Double(contender.count), 0)) rows",
                        .atLeast(80), Figures.median(ratios) * 100,
                        unit: " % of the smallest's rate"))
            }
        }
        for contender in contenders {
            table.rows.append(
                [Figures.text(Double(contender.count), 0)]
                    + cells(contender.inserts, contenders[0].inserts)
                    + cells(contender.updates, contenders[0].updates))
        }
        table.notes.append(DiskProbe.note(probe))
        return table
    }
}
