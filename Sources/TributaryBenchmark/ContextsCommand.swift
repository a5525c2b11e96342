import ArgumentParser
import Coordinator
import Merge

/// Saves of contexts, beside GRDB and a bare SQLite loop.
struct ContextsCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "contexts",
        abstract: "Saves through a context, beside GRDB and bare SQLite; new stores.")

    @OptionGroup var common: CommonOptions

    @Option(help: "How many objects.")
    var objects = 100_000

    @Option(help: "How many objects a save.")
    var batch = 1000

    @Option(help: "This part alone.")
    var part: Part?

    /// The parts of the benchmark.
    enum Part: String, CaseIterable, ExpressibleByArgument {
        /// Saves of many objects, one after the other.
        case batches
        /// One save of all objects.
        case large
        /// New stores.
        case stores
    }

    func tables() async throws -> [MarkdownTable] {
        var tables: [MarkdownTable] = []
        if part == nil || part == .batches { tables += try await batches() }
        if part == nil || part == .large { tables.append(try await large()) }
        if part == nil || part == .stores { tables.append(try await stores()) }
        return tables
    }

    /// The class that is registered for some.
    final class RegisteredItem: ManagedObject {
        var count: Int64? {
            get { self["count"] }
            set { self["count"] = newValue }
        }
        var name: String? {
            get { self["name"] }
            set { self["name"] = newValue }
        }
        var note: String? {
            get { self["note"] }
            set { self["note"] = newValue }
        }
        var weight: Double? {
            get { self["weight"] }
            set { self["weight"] = newValue }
        }
    }

    // MARK: Saves of 1,000

    /// What takes turns. Each has a store of its own.
    enum Contender: Int, CaseIterable {
        case bare
        case records
        case recorded
        case context
        case registered

        func name(_ hasSession: Bool) -> String {
            switch self {
            case .bare: "bare SQLite loop"
            case .records: "GRDB's records"
            case .recorded:
                hasSession
                    ? "GRDB's records, with SQLite's session extension"
                    : "GRDB's records again: this SQLite has no session extension"
            case .context: "context"
            case .registered: "context with a registered class"
            }
        }
    }

    private struct Contenders {
        let bare: BareLoop
        let records: GRDBWriter
        let recorded: GRDBWriter
        let stores: [SampleData.Store]
        let contexts: [ManagedObjectContext]

        init(_ workspace: Workspace, _ recorder: SessionRecorder?) throws {
            bare = try BareLoop(path: workspace.file("bare.sqlite"))
            records = try GRDBWriter(path: workspace.file("records.sqlite"), recorder: nil)
            recorded = try GRDBWriter(path: workspace.file("recorded.sqlite"), recorder: recorder)
            stores = try ["context.sqlite", "registered.sqlite"].map {
                try SampleData.openStore(at: workspace.file($0))
            }
            contexts = [
                ManagedObjectContext(stores[0].coordinator),
                ManagedObjectContext(
                    stores[1].coordinator, classes: [SampleData.entityName: RegisteredItem.self]),
            ]
        }

        func close() { for store in stores { store.coordinator.close() } }
    }

    /// The times of contenders, turn by turn.
    typealias Times = [[Double]]

    private func batches() async throws -> [MarkdownTable] {
        let recorder = SessionRecorder()
        var times = [Times](
            repeating: Times(repeating: [], count: Contender.allCases.count), count: 3)
        for _ in 0..<common.rounds {
            try await Workspace.with(common.directory, "contexts") { workspace in
                let contenders = try Contenders(workspace, recorder)
                defer { contenders.close() }
                try insert(contenders, &times[0])
                try change(contenders, &times)
            }
        }
        let hasSession = recorder != nil
        return [
            table("inserted", "inserts", times[0], hasSession, Contender.allCases),
            table(
                "updated", "updates", times[1], hasSession,
                [.records, .recorded, .context]),
            table(
                "deleted", "deletes", times[2], hasSession,
                [.records, .recorded, .context]),
        ]
    }

    private static let turns = 10

    /// The places of the objects of each save of a turn.
    private func saves(_ turn: Int) -> [Range<Int>] {
        let count = max(Self.turns, objects / batch)
        let numbers = (count * turn / Self.turns)..<(count * (turn + 1) / Self.turns)
        return numbers.map { $0 * batch..<($0 + 1) * batch }
    }

    private func insert(_ contenders: Contenders, _ times: inout Times) throws {
        for turn in 0..<Self.turns {
            let items = saves(turn).map { $0.map(SampleData.Item.init) }
            for contender in Contender.allCases {
                let duration = try Clocks.measure {
                    for save in items {
                        switch contender {
                        case .bare: try contenders.bare.save(save)
                        case .records: try contenders.records.insert(save)
                        case .recorded: try contenders.recorded.insert(save)
                        case .context: try Self.save(save, contenders.contexts[0])
                        case .registered: try Self.saveRegistered(save, contenders.contexts[1])
                        }
                    }
                }
                times[contender.rawValue].append(duration.wall)
            }
        }
    }

    private static func save(_ items: [SampleData.Item], _ context: ManagedObjectContext) throws {
        try context.performAndWait {
            for item in items {
                let object = context.insert(SampleData.entityName)
                object["count"] = item.count
                object["name"] = item.name
                object["note"] = item.note
                object["weight"] = item.weight
            }
            try context.save()
            context.reset()
        }
    }

    private static func saveRegistered(
        _ items: [SampleData.Item], _ context: ManagedObjectContext
    ) throws {
        let entity = context.managedObjectModel.entity(named: SampleData.entityName)
        guard let entity else { throw BenchmarkError("The model has no items.") }
        try context.performAndWait {
            for item in items {
                let object = RegisteredItem(entity: entity, insertInto: context)
                object.count = item.count
                object.name = item.name
                object.note = item.note
                object.weight = item.weight
            }
            try context.save()
            context.reset()
        }
    }

    /// What is changed was fetched before, so that what is measured is the change and its save.
    private func change(_ contenders: Contenders, _ times: inout [Times]) throws {
        let context = contenders.contexts[0]
        try contenders.records.fetchAll()
        try contenders.recorded.fetchAll()
        let held = try context.performAndWait {
            let objects = try context.fetch(
                FetchRequest(
                    SampleData.entityName, sortDescriptors: [SortDescriptor("count")]))
            for object in objects { _ = object["note"] as String? }
            return objects
        }
        for turn in 0..<Self.turns {
            let note = "another note, \(turn)"
            try takeTurns(turn, &times[1]) {
                try contenders.records.update($0, note: note)
            } _: {
                try contenders.recorded.update($0, note: note)
            } _: { places in
                try context.performAndWait {
                    for object in held[places] { object["note"] = note }
                    try context.save()
                }
            }
        }
        for turn in 0..<Self.turns {
            try takeTurns(turn, &times[2]) {
                try contenders.records.delete($0)
            } _: {
                try contenders.recorded.delete($0)
            } _: { places in
                try context.performAndWait {
                    for object in held[places] { context.delete(object) }
                    try context.save()
                }
            }
        }
    }

    private func takeTurns(
        _ turn: Int, _ times: inout Times, _ records: @escaping (Range<Int>) throws -> Void,
        _ recorded: @escaping (Range<Int>) throws -> Void,
        _ context: @escaping (Range<Int>) throws -> Void
    ) throws {
        for (contender, body) in [
            (Contender.records, records), (.recorded, recorded), (.context, context),
        ] {
            let duration = try Clocks.measure { for save in saves(turn) { try body(save) } }
            times[contender.rawValue].append(duration.wall)
        }
    }

    private func table(
        _ title: String, _ kind: String, _ times: Times, _ hasSession: Bool,
        _ shown: [Contender]
    ) -> MarkdownTable {
        func of(_ contender: Contender) -> [Double] { times[contender.rawValue] }
        func ratio(_ other: Contender, of contender: Contender = .context) -> Double {
            FetchCommand.ratio(of(contender), of(other))
        }
        var table = MarkdownTable(
            "\(Figures.text(Double(objects), 0)) objects \(title) in saves of "
                + "\(Figures.text(Double(batch), 0)), durable",
            columns: ["", "time of a round", "context beside it"])
        for contender in shown {
            let time = of(contender).reduce(0, +) / Double(common.rounds)
            table.add(
                contender.name(hasSession), Figures.text(time) + " s",
                Figures.text(ratio(contender)))
        }
        let recorded = hasSession ? "recorded GRDB" : "GRDB (no session extension here)"
        if kind == "inserts" {
            table.goals = [
                Goal("inserts beside bare", .atMost(2), ratio(.bare), unit: " times"),
                Goal("inserts beside \(recorded)", .atMost(1), ratio(.recorded), unit: " times"),
                Goal(
                    "inserts with a class beside without", .atMost(1.1),
                    ratio(.context, of: .registered), unit: " times"),
            ]
        } else {
            table.goals = [
                Goal("\(kind) beside GRDB", nil, ratio(.records), unit: " times"),
                Goal("\(kind) beside \(recorded)", .atMost(2.5), ratio(.recorded), unit: " times"),
            ]
        }
        return table
    }
}
