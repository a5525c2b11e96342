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

    @Option(
        help: """
            What they are: plain, references, keys, updates, moves, deletes, cleared, links, \
            linked, mixed, eclipsed, claims, released, renamed, withdrawn or unlinked; without, all.
            """)
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
        /// They are there, and all led to another order.
        case moves
        /// They are there, and are deleted.
        case deletes
        /// They are there, refer to each other, and are deleted.
        case cleared
        /// They are links between objects that are there.
        case links
        /// A fifth of them are new, and the others link these to what is there.
        case linked
        /// Half of them are new, and half are there and get another value.
        case mixed
        /// Each has a unique key, while of two others that share one a row is eclipsed.
        case eclipsed
        /// Each claims one that is there in a one-to-one.
        case claims
        /// They are there, each claims another one in a one-to-one, and they are deleted.
        case released
        /// They are there with a unique key each, and get another.
        case renamed
        /// They are there with a unique key each, and are deleted.
        case withdrawn
        /// They are links that are there, and are taken away.
        case unlinked

        /// What follows their number in a title.
        fileprivate var title: String {
            switch self {
            case .plain: ""
            case .references: "with references "
            case .keys: "with unique keys "
            case .updates: "that are there and get another value "
            case .moves: "that are there and are led to another one "
            case .deletes: "that are there and are deleted "
            case .cleared: "that refer to each other and are deleted "
            case .links: "links "
            case .linked: "of which a fifth are new and the others link these "
            case .mixed: "of which half are new and half get another value "
            case .eclipsed: "with unique keys while a row is eclipsed "
            case .claims: "that claim one each that is there in a one-to-one "
            case .released: "that claim one each in a one-to-one and are deleted "
            case .renamed: "that are there and get other unique keys "
            case .withdrawn: "that are there with unique keys and are deleted "
            case .unlinked: "links that are taken away "
            }
        }
    }

    /// How many objects the large transaction's refer to, besides each other.
    private static let products = 1_000
    /// How many objects others are linked to.
    private static let topics = 1_000
    /// How many of them each of those others is linked to.
    private static let topicsOfNote = 10

    /// Orders of nine lines each, of products that are there, notes that are linked to topics,
    /// articles with codes of their own, and badges of a person each; items are what others save.
    private static func model() throws -> ManagedObjectModel {
        func toMany(
            _ name: String, to entity: String, inverse: String
        ) -> RelationshipDescription {
            RelationshipDescription(name, to: entity, inverse: inverse, isToMany: true)
        }
        return try ManagedObjectModel(entities: [
            SampleData.entity(),
            EntityDescription(
                "Order", attributes: [AttributeDescription("number", .integer64)],
                relationships: [toMany("lines", to: "Line", inverse: "order")]),
            EntityDescription(
                "Product", attributes: [AttributeDescription("name", .string)],
                relationships: [toMany("lines", to: "Line", inverse: "product")]),
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
                "Note", attributes: [AttributeDescription("name", .string)],
                relationships: [toMany("topics", to: "Topic", inverse: "notes")]),
            EntityDescription(
                "Topic", attributes: [AttributeDescription("name", .string)],
                relationships: [toMany("notes", to: "Note", inverse: "topics")]),
            EntityDescription(
                "Article",
                attributes: [
                    AttributeDescription("code", .string), AttributeDescription("name", .string),
                    AttributeDescription("state", .string, defaultValue: .string("new")),
                ], uniquenessConstraints: [["code"]]),
            EntityDescription(
                "Badge", attributes: [AttributeDescription("name", .string)],
                relationships: [RelationshipDescription("person", to: "Person", inverse: "badge")]),
            EntityDescription(
                "Person", attributes: [AttributeDescription("name", .string)],
                relationships: [RelationshipDescription("badge", to: "Badge", inverse: "person")]),
        ])
    }

    /// The insert of an object.
    ///
    /// - Parameter row: the how manieth of the save's inserts it is, from 0.
    private func insertion(
        _ store: SampleData.Store, _ entity: String, _ row: Int, _ values: [String: PropertyValue]
    ) throws -> SaveOperation {
        let entity = try self.entity(store, entity)
        return SaveOperation(
            kind: .insert, entity: entity, row: RowID(-Int64(row) - 1),
            values: values.keys.sorted().compactMap { name in
                entity.position(of: name).map { ($0, values[name] ?? .null) }
            })
    }

    private func entity(
        _ store: SampleData.Store, _ name: String
    ) throws -> ManagedObjectModel.Entity {
        guard let entity = store.coordinator.model.entity(named: name) else {
            throw BenchmarkError("The model of the benchmark has no \(name).")
        }
        return entity
    }

    /// The large transaction; what it changes, or refers to, is saved before.
    private func request(_ store: SampleData.Store, _ kind: Kind) throws -> SaveRequest {
        switch kind {
        case .plain: SampleData.insert((0..<objects).map(SampleData.Item.init), store.entity)
        case .keys, .eclipsed: try articles(store)
        case .renamed, .withdrawn: try articles(store, areDeleted: kind == .withdrawn)
        case .updates, .deletes: try changes(store, objects, areDeletes: kind == .deletes)
        case .moves, .cleared: try lines(store, areDeleted: kind == .cleared)
        case .mixed: try mixed(store)
        case .references: try lines(store)
        case .claims: try badges(store)
        case .released: try badgesDeleted(store)
        case .links, .unlinked: try links(store, areTakenAway: kind == .unlinked)
        case .linked: try linked(store)
        }
    }

    /// Saves so many objects; gives the save that changes or deletes all of them.
    private func changes(
        _ store: SampleData.Store, _ count: Int, areDeletes: Bool
    ) throws -> SaveRequest {
        let saved: SaveResult = try store.coordinator.save(
            SampleData.insert((0..<count).map(SampleData.Item.init), store.entity))
        return SaveRequest(
            operations: saved.insertedRows.enumerated().map { number, inserted in
                areDeletes
                    ? SaveOperation(kind: .delete, entity: store.entity, row: inserted.row)
                    : SaveOperation(
                        kind: .update, entity: store.entity, row: inserted.row,
                        values: [(2, .string("another note, \(number)"))])
            })
    }

    private func mixed(_ store: SampleData.Store) throws -> SaveRequest {
        let updated = objects / 2
        var request = try changes(store, updated, areDeletes: false)
        let inserts = SampleData.insert(
            (updated..<objects).map(SampleData.Item.init), store.entity)
        request.operations += inserts.operations
        return request
    }

    private func articles(_ store: SampleData.Store) throws -> SaveRequest {
        SaveRequest(
            operations: try (0..<objects).map { number in
                try insertion(
                    store, "Article", number,
                    ["code": .string("code \(number)"), "name": .string("name \(number)")])
            })
    }

    /// Saves articles; gives the save that gives all of them other codes, or deletes them.
    private func articles(_ store: SampleData.Store, areDeleted: Bool) throws -> SaveRequest {
        let article = try entity(store, "Article")
        let saved: SaveResult = try store.coordinator.save(try articles(store))
        guard let code = article.position(of: "code") else {
            throw BenchmarkError("The articles of the benchmark have no code.")
        }
        return SaveRequest(
            operations: saved.insertedRows.enumerated().map { number, inserted in
                SaveOperation(
                    kind: areDeleted ? .delete : .update, entity: article, row: inserted.row,
                    values: areDeleted ? [] : [(code, .string("other code \(number)"))])
            })
    }

    /// Saves persons; gives the save of a badge for each.
    private func badges(_ store: SampleData.Store) throws -> SaveRequest {
        let saved: SaveResult = try store.coordinator.save(
            SaveRequest(
                operations: try (0..<objects).map {
                    try insertion(store, "Person", $0, ["name": .string("person \($0)")])
                }))
        return SaveRequest(
            operations: try saved.insertedRows.enumerated().map { number, person in
                try insertion(
                    store, "Badge", number,
                    ["name": .string("badge \(number)"), "person": .reference(person.row)])
            })
    }

    /// Saves persons with a badge each; gives the save that deletes the badges.
    private func badgesDeleted(_ store: SampleData.Store) throws -> SaveRequest {
        let badge = try entity(store, "Badge")
        let saved: SaveResult = try store.coordinator.save(try badges(store))
        return SaveRequest(
            operations: saved.insertedRows.map {
                SaveOperation(kind: .delete, entity: badge, row: $0.row)
            })
    }

    /// Saves orders with their lines; gives the save that leads all lines to the first order, or deletes
    /// the orders with their lines.
    private func lines(_ store: SampleData.Store, areDeleted: Bool) throws -> SaveRequest {
        let (order, line) = (try entity(store, "Order"), try entity(store, "Line"))
        let saved: SaveResult = try store.coordinator.save(try lines(store))
        let rows = saved.insertedRows.map(\.row)
        guard let position = line.position(of: "order"), let first = rows.first else {
            throw BenchmarkError("The model of the benchmark has no lines.")
        }
        return SaveRequest(
            operations: rows.enumerated().compactMap { number, row in
                let isOrder = number % 10 == 0
                if areDeleted {
                    return SaveOperation(
                        kind: .delete, entity: isOrder ? order : line, row: row)
                }
                return isOrder
                    ? nil
                    : SaveOperation(
                        kind: .update, entity: line, row: row,
                        values: [(position, .reference(first))])
            })
    }

    private func lines(_ store: SampleData.Store) throws -> SaveRequest {
        let saved: SaveResult = try store.coordinator.save(
            SaveRequest(
                operations: try (0..<Self.products).map {
                    try insertion(store, "Product", $0, ["name": .string("Product \($0)")])
                }))
        let products = saved.insertedRows.map(\.row)
        return SaveRequest(
            operations: try (0..<objects).map { number in
                let order = number - number % 10
                guard number > order else {
                    return try insertion(
                        store, "Order", number, ["number": .integer(Int64(number))])
                }
                return try insertion(
                    store, "Line", number,
                    [
                        "count": .integer(Int64(number % 7)), "note": .string("line \(number)"),
                        "order": .reference(RowID(-Int64(order) - 1)),
                        "product": .reference(products[number % products.count]),
                    ])
            })
    }

    /// Saves all topics, and so many notes.
    private func topics(_ store: SampleData.Store, notes: Int = 0) throws -> [RowID] {
        let saved: SaveResult = try store.coordinator.save(
            SaveRequest(
                operations: try (0..<Self.topics + notes).map { number in
                    try insertion(
                        store, number < Self.topics ? "Topic" : "Note", number,
                        ["name": .string("name \(number)")])
                }))
        return saved.insertedRows.map(\.row)
    }

    private func linked(_ store: SampleData.Store) throws -> SaveRequest {
        let topics = try topics(store)
        return SaveRequest(
            operations: try (0..<objects / 5).map { number in
                var note = try insertion(
                    store, "Note", number, ["name": .string("note \(number)")])
                note.relationships = [
                    RelationshipOperation(
                        name: "topics", kind: .add,
                        members: (0..<4).map { topics[(number * 4 + $0) % topics.count] })
                ]
                return note
            })
    }

    /// The save that links notes to topics; or, once that is done, the one that takes the links away.
    private func links(_ store: SampleData.Store, areTakenAway: Bool) throws -> SaveRequest {
        var request = try links(store)
        guard areTakenAway else { return request }
        let _: SaveResult = try store.coordinator.save(request)
        for index in request.operations.indices {
            for place in request.operations[index].relationships.indices {
                request.operations[index].relationships[place].kind = .remove
            }
        }
        return request
    }

    private func links(_ store: SampleData.Store) throws -> SaveRequest {
        let rows = try topics(store, notes: objects / Self.topicsOfNote)
        let note = try entity(store, "Note")
        return SaveRequest(
            operations: rows[Self.topics...].enumerated().map { number, row in
                let members = (0..<Self.topicsOfNote).map {
                    rows[(number * Self.topicsOfNote + $0) % Self.topics]
                }
                return SaveOperation(
                    kind: .update, entity: note, row: row,
                    relationships: [
                        RelationshipOperation(name: "topics", kind: .add, members: members)
                    ])
            })
    }

    /// Has a row eclipsed in a store, and in another once that has the first one's log: both save
    /// an article of one code before they hear of each other.
    private func eclipse(_ store: SampleData.Store, with other: SampleData.Store) throws {
        for store in [store, other] {
            let article = try insertion(store, "Article", 0, ["code": .string("one for both")])
            let _: SaveResult = try store.coordinator.save(SaveRequest(operations: [article]))
        }
        let result = try store.coordinator.apply(
            try transactions(of: other, lackingIn: store))
        guard result.rejected.isEmpty else {
            throw BenchmarkError("An article was not applied: \(result.rejected[0].reason)")
        }
    }

    /// What one store has and another has not, in an order in which it may be applied.
    private func transactions(
        of store: SampleData.Store, lackingIn other: SampleData.Store
    ) throws -> [EncodedTransaction] {
        let known = try other.coordinator.currentToken.versionVector
        return try store.coordinator.read {
            try $0.transactions(notCoveredBy: known, byteLimit: .max).transactions
        }.map { try EncodedTransaction(decoding: $0) }
    }

    /// What one large transaction cost, and the saves beside it.
    private struct Outcome {
        var seconds: [Double] = []
        var quiet: [Double] = []
        var meanwhile: [Double] = []
        var longest: [Double] = []
        /// In how many rounds it was written part by part.
        var staged = 0
    }

    func measure(_ kind: Kind) async throws -> MarkdownTable {
        var (saving, applying) = (Outcome(), Outcome())
        var bytes = 0
        for _ in 0..<common.rounds {
            try await Workspace.with(common.directory, "large") { workspace in
                let isPlain = [.plain, .updates, .deletes, .mixed].contains(kind)
                let model = isPlain ? try SampleData.model() : try Self.model()
                let stores = try (1...2).map {
                    try SampleData.openStore(
                        at: workspace.file("n\($0).sqlite"), node: $0, model: model)
                }
                defer { for store in stores { store.coordinator.close() } }
                let (one, two) = (stores[0], stores[1])
                if kind == .eclipsed { try eclipse(one, with: two) }
                let request = try request(one, kind)
                try await beside(one, &saving) { _ = try await one.coordinator.save(request) }
                // What was saved beside it came first, or comes after; all of it is applied.
                let transactions = try transactions(of: one, lackingIn: two)
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
        row("saves before, the longest (of all)") { $0.quiet.max() ?? 0 }
        func manner(_ outcome: Outcome) -> String {
            switch outcome.staged {
            case 0: "in one piece"
            case common.rounds: "part by part"
            default: "part by part in \(outcome.staged) of \(common.rounds) rounds"
            }
        }
        table.add("how it was written", manner(saving), manner(applying))
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
        let stagedBefore = store.coordinator.stagedTransactions
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
        if store.coordinator.stagedTransactions > stagedBefore { outcome.staged += 1 }
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
