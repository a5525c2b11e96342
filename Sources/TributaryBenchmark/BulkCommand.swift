import ArgumentParser
import Coordinator
import Foundation
import Merge
import Synchronization

/// How long others' saves wait for one bulk save.
struct BulkCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "bulk",
        abstract: "How long other saves wait while a bulk save of 100,000 is saved or applied.")

    @OptionGroup var common: CommonOptions

    @Option(help: "How many objects the bulk save writes.")
    var objects = 100_000

    @Option(help: "What it does with them: inserts, updates or cascade; without, all.")
    var kind: Kind?

    /// The kind of bulk save.
    enum Kind: String, CaseIterable, ExpressibleByArgument {
        /// It inserts objects.
        case inserts
        /// It gives objects another value.
        case updates
        /// It deletes orders, and with them their nine lines each.
        case cascade

        /// How long the longest other save may wait, in milliseconds for each 100,000 objects: twice
        /// what the refusal of a save that is not bulk tells.
        fileprivate var bound: Double { self == .inserts ? 800 : 8_000 }
    }

    func tables() async throws -> [MarkdownTable] {
        var tables: [MarkdownTable] = []
        for kind in kind.map({ [$0] }) ?? Kind.allCases { tables.append(try await measure(kind)) }
        return tables
    }

    private static let linesOfOrder = 9

    /// Orders with lines; items are what others save.
    private static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            SampleData.entity(),
            EntityDescription(
                "Order", attributes: [AttributeDescription("number", .integer64)],
                relationships: [
                    RelationshipDescription(
                        "lines", to: "Line", inverse: "order", isToMany: true,
                        deleteRule: .cascade)
                ]),
            EntityDescription(
                "Line", attributes: [AttributeDescription("count", .integer64)],
                relationships: [RelationshipDescription("order", to: "Order", inverse: "lines")]),
        ])
    }

    /// The bulk save; what it changes or deletes is saved before.
    private func request(_ store: SampleData.Store, _ kind: Kind) throws -> SaveRequest {
        let items = SampleData.insert((0..<objects).map(SampleData.Item.init), store.entity)
        switch kind {
        case .inserts: return items
        case .updates:
            let saved: SaveResult = try store.coordinator.save(items)
            return SaveRequest(
                operations: saved.insertedRows.enumerated().map { number, inserted in
                    SaveOperation(
                        kind: .update, entity: store.entity, row: inserted.row,
                        values: [(2, .string("another note, \(number)"))])
                }, isBulk: true)
        case .cascade: return try cascade(store)
        }
    }

    private func cascade(_ store: SampleData.Store) throws -> SaveRequest {
        let model = store.coordinator.model
        guard let order = model.entity(named: "Order"), let line = model.entity(named: "Line"),
            let position = line.position(of: "order")
        else { throw BenchmarkError("The model of the benchmark has no orders.") }
        let inserts = (0..<objects).map { number in
            let place = number % (Self.linesOfOrder + 1)
            return SaveOperation(
                kind: .insert, entity: place == 0 ? order : line, row: RowID(-Int64(number) - 1),
                values: place == 0
                    ? [] : [(position, .reference(RowID(-Int64(number - place) - 1)))])
        }
        let saved: SaveResult = try store.coordinator.save(
            SaveRequest(operations: inserts, isBulk: true))
        return SaveRequest(
            operations: saved.insertedRows.filter { $0.entityName == order.name }.map {
                SaveOperation(kind: .delete, entity: order, row: $0.row)
            }, isBulk: true)
    }

    /// The cost of one bulk save, and of the saves beside it.
    private struct Outcome {
        var seconds: [Double] = []
        var quiet: [Double] = []
        var longest: [Double] = []
    }

    func measure(_ kind: Kind) async throws -> MarkdownTable {
        var (saving, applying) = (Outcome(), Outcome())
        var bytes = 0
        for _ in 0..<common.rounds {
            try await Workspace.with(common.directory, "bulk") { workspace in
                let model = try Self.model()
                let stores = try (1...2).map {
                    try SampleData.openStore(
                        at: workspace.file("n\($0).sqlite"), node: $0, model: model)
                }
                defer { for store in stores { store.coordinator.close() } }
                let (one, two) = (stores[0], stores[1])
                let request = try request(one, kind)
                var bulk: Dot?
                try await beside(one, &saving) {
                    bulk = try await one.coordinator.save(request).transaction
                }
                // What was saved beside it came first, or comes after.
                let transactions = try one.coordinator.read {
                    try $0.transactions(notCoveredBy: VersionVector(), byteLimit: .max).transactions
                }.map { try EncodedTransaction(decoding: $0) }
                guard let place = transactions.firstIndex(where: { $0.dot == bulk }) else {
                    throw BenchmarkError("The bulk save is not in the log.")
                }
                bytes = transactions[place].bytes.count
                _ = try two.coordinator.apply(Array(transactions[..<place]))
                try await beside(two, &applying) {
                    _ = try two.coordinator.apply([transactions[place]])
                }
            }
        }
        var table = MarkdownTable(
            "Saves of one object beside a bulk save of \(Figures.text(Double(objects), 0)) "
                + "(\(kind.rawValue), \(Figures.text(Double(bytes) / 1e6, 1)) MB)",
            columns: ["", "it is saved", "it is applied"])
        func row(_ name: String, _ value: (Outcome) -> Double) {
            table.add(
                name, Figures.milliseconds(value(saving)), Figures.milliseconds(value(applying)))
        }
        row("the bulk save itself (median of \(common.rounds))") { Figures.median($0.seconds) }
        row("the longest that a save waited (median)") { Figures.median($0.longest) }
        row("the longest that a save waited (of all)") { $0.longest.max() ?? 0 }
        row("saves before, p50") { Figures.median($0.quiet) }
        row("saves before, p99") { Figures.percentile(0.99, of: $0.quiet) }
        table.notes = ["One saver that waits for each save before the next, through the library."]
        table.goals = [("saved", saving), ("applied", applying)].map { name, outcome in
            Goal(
                "the longest that a save waited (\(kind.rawValue), it is \(name))",
                .atMost(kind.bound * Double(objects) / 100_000),
                Figures.median(outcome.longest) * 1000, unit: " ms")
        }
        return table
    }

    /// Does something while somebody saves, and notes how long both took.
    private func beside(
        _ store: SampleData.Store, _ outcome: inout Outcome, _ body: () async throws -> Void
    ) async throws {
        let samples = BulkSamples()
        let task = Task.detached {
            var number = 50_000_000
            while !Task.isCancelled {
                let begin = Clocks.seconds()
                _ = try await store.coordinator.save(
                    SampleData.insert(CollectionOfOne(SampleData.Item(number)), store.entity))
                samples.add(Clocks.seconds() - begin)
                number += 1
            }
        }
        try await Task.sleep(for: .seconds(1))
        outcome.quiet += samples.take()
        let begin = Clocks.seconds()
        try await body()
        outcome.seconds.append(Clocks.seconds() - begin)
        // The save that waits has its turn now.
        try await Task.sleep(for: .milliseconds(500))
        task.cancel()
        _ = try await task.value
        outcome.longest.append(samples.take().max() ?? 0)
    }
}

/// How long saves took, from one task to another.
final class BulkSamples: Sendable {
    private let samples = Mutex<[Double]>([])

    func add(_ seconds: Double) { samples.withLock { $0.append(seconds) } }

    func take() -> [Double] {
        samples.withLock { samples in
            defer { samples = [] }
            return samples
        }
    }
}
