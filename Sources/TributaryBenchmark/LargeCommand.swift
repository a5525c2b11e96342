import ArgumentParser
import Coordinator
import Foundation
import Merge
import Synchronization

/// How long others' saves wait for one transaction of very many objects.
struct LargeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "large",
        abstract: "How long saves wait while a transaction of 100,000 objects is saved or applied.")

    @OptionGroup var common: CommonOptions

    @Option(help: "How many objects the transaction has.")
    var objects = 100_000

    @Option(help: "What they are: plain, references, keys, updates or deletes; without, all.")
    var kind: Kind?

    func run() async throws {
        var goals: [Goal] = []
        for kind in kind.map({ [$0] }) ?? Kind.allCases {
            let table = try await measure(kind)
            table.print()
            goals += table.goals
        }
        try common.judge(goals)
    }

    /// What objects the large transaction has.
    enum Kind: String, CaseIterable, ExpressibleByArgument {
        /// They hang on no others.
        case plain
        /// They refer to each other and to others.
        case references
        /// Each has a unique key.
        case keys
        /// They are there, and get another value.
        case updates
        /// They are there, and are deleted.
        case deletes

        fileprivate var title: String {
            switch self {
            case .plain: ""
            case .references: "with references "
            case .keys: "with unique keys "
            case .updates: "that are there and get another value "
            case .deletes: "that are there and are deleted "
            }
        }
    }

    /// How many objects the large transaction's refer to, besides each other.
    private static let products = 1_000

    /// Orders of nine lines each, of products that are there, and articles with codes of their own;
    /// items are what others save.
    private static func model() throws -> ManagedObjectModel {
        func lines(to entity: String, inverse: String) -> RelationshipDescription {
            RelationshipDescription("lines", to: entity, inverse: inverse, isToMany: true)
        }
        return try ManagedObjectModel(entities: [
            SampleData.entity(),
            EntityDescription(
                "Order", attributes: [AttributeDescription("number", .integer64)],
                relationships: [lines(to: "Line", inverse: "order")]),
            EntityDescription(
                "Product", attributes: [AttributeDescription("name", .string)],
                relationships: [lines(to: "Line", inverse: "product")]),
            EntityDescription(
                "Line",
                attributes: [
                    AttributeDescription("count", .integer64),
                    AttributeDescription("note", .string),
                ],
                relationships: [
                    RelationshipDescription("order", to: "Order", inverse: "lines"),
                    RelationshipDescription("product", to: "Product", inverse: "lines"),
                ]),
            EntityDescription(
                "Article",
                attributes: [
                    AttributeDescription("code", .string), AttributeDescription("name", .string),
                    AttributeDescription("state", .string, defaultValue: .string("new")),
                ], uniquenessConstraints: [["code"]]),
        ])
    }

    /// The large transaction; before one with references the products are saved, before one of updates
    /// or deletes the objects.
    private func request(_ store: SampleData.Store, _ kind: Kind) throws -> SaveRequest {
        let model = store.coordinator.model
        func insertion(
            _ entity: String, _ row: Int, _ values: [String: PropertyValue]
        ) throws -> SaveOperation {
            guard let entity = model.entity(named: entity) else {
                throw BenchmarkError("The model of the benchmark has no \(entity).")
            }
            return SaveOperation(
                kind: .insert, entity: entity, row: RowID(-Int64(row) - 1),
                values: values.keys.sorted().compactMap { name in
                    entity.position(of: name).map { ($0, values[name] ?? .null) }
                })
        }
        switch kind {
        case .plain: return SampleData.insert((0..<objects).map(SampleData.Item.init), store.entity)
        case .keys:
            return SaveRequest(
                operations: try (0..<objects).map { number in
                    try insertion(
                        "Article", number,
                        [
                            "code": .string("code \(number)"), "name": .string("name \(number)"),
                        ])
                })
        case .updates, .deletes:
            let saved: SaveResult = try store.coordinator.save(
                SampleData.insert((0..<objects).map(SampleData.Item.init), store.entity))
            return SaveRequest(
                operations: saved.insertedRows.enumerated().map { number, inserted in
                    kind == .deletes
                        ? SaveOperation(kind: .delete, entity: store.entity, row: inserted.row)
                        : SaveOperation(
                            kind: .update, entity: store.entity, row: inserted.row,
                            values: [(2, .string("another note, \(number)"))])
                })
        case .references: break
        }
        let saved: SaveResult = try store.coordinator.save(
            SaveRequest(
                operations: try (0..<Self.products).map {
                    try insertion("Product", $0, ["name": .string("Product \($0)")])
                }))
        let products = saved.insertedRows.map(\.row)
        return SaveRequest(
            operations: try (0..<objects).map { number in
                let order = number - number % 10
                guard number > order else {
                    return try insertion("Order", number, ["number": .integer(Int64(number))])
                }
                return try insertion(
                    "Line", number,
                    [
                        "count": .integer(Int64(number % 7)), "note": .string("line \(number)"),
                        "order": .reference(RowID(-Int64(order) - 1)),
                        "product": .reference(products[number % products.count]),
                    ])
            })
    }

    /// What one large transaction cost, and the saves beside it.
    private struct Outcome {
        var seconds: [Double] = []
        var quiet: [Double] = []
        var meanwhile: [Double] = []
        var longest: [Double] = []
    }

    func measure(_ kind: Kind) async throws -> MarkdownTable {
        var (saving, applying) = (Outcome(), Outcome())
        var bytes = 0
        for _ in 0..<common.rounds {
            try await Workspace.with(common.directory, "large") { workspace in
                let isPlain = [.plain, .updates, .deletes].contains(kind)
                let model = isPlain ? try SampleData.model() : try Self.model()
                let stores = try (1...2).map {
                    try SampleData.openStore(
                        at: workspace.file("n\($0).sqlite"), node: $0, model: model)
                }
                defer { for store in stores { store.coordinator.close() } }
                let (one, two) = (stores[0], stores[1])
                let request = try request(one, kind)
                try await beside(one, &saving) { _ = try await one.coordinator.save(request) }
                // What was saved beside it came first, or comes after; all of it is applied.
                let log = try one.coordinator.read {
                    try $0.transactions(notCoveredBy: VersionVector(), byteLimit: .max).transactions
                }
                let transactions = try log.map { try EncodedTransaction(decoding: $0) }
                guard let large = transactions.lastIndex(where: { $0.bytes.count > 5 * objects })
                else { throw BenchmarkError("The large transaction is not in the log.") }
                bytes = transactions[large].bytes.count
                _ = try two.coordinator.apply(Array(transactions[..<large]))
                try await beside(two, &applying) {
                    _ = try two.coordinator.apply([transactions[large]])
                }
            }
        }
        var table = MarkdownTable(
            "Saves of one object beside a transaction of \(Figures.text(Double(objects), 0)) "
                + kind.title + "(\(Figures.text(Double(bytes) / 1e6, 1)) MB)",
            columns: ["", "it is saved", "it is applied"])
        func row(_ name: String, _ value: (Outcome) -> Double) {
            table.add(
                name, Figures.milliseconds(value(saving)), Figures.milliseconds(value(applying)))
        }
        row("the transaction itself (median of \(common.rounds))") { Figures.median($0.seconds) }
        row("the longest that a save waited (median)") { Figures.median($0.longest) }
        row("the longest that a save waited (of all)") { $0.longest.max() ?? 0 }
        row("saves meanwhile, p50") { Figures.median($0.meanwhile) }
        row("saves before, p50") { Figures.median($0.quiet) }
        row("saves before, p99") { Figures.percentile(0.99, of: $0.quiet) }
        table.notes = ["One saver that waits for each save before the next, through the library."]
        table.goals = [("saved", saving), ("applied", applying)].map { name, outcome in
            Goal(
                "the longest that a save waited (\(kind.rawValue), it is \(name))",
                .atMost(50), (outcome.longest.max() ?? .infinity) * 1000, unit: " ms")
        }
        return table
    }

    /// Does something large while somebody saves, and notes how long both took.
    private func beside(
        _ store: SampleData.Store,
        _ outcome: inout Outcome, _ body: () async throws -> Void
    ) async throws {
        let samples = LargeSamples()
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
        let meanwhile = samples.take()
        outcome.meanwhile += meanwhile
        outcome.longest.append(meanwhile.max() ?? 0)
    }
}

/// How long saves took, from one task to another.
private final class LargeSamples: Sendable {
    private let samples = Mutex<[Double]>([])

    func add(_ seconds: Double) { samples.withLock { $0.append(seconds) } }

    func take() -> [Double] {
        samples.withLock { samples in
            defer { samples = [] }
            return samples
        }
    }
}
