import GRDB
import Merge
import Synchronization
import TestSupport
import Testing

@testable import Coordinator

/// Updates and deletes that are planned and applied one by one, against the same among changes of other kinds,
/// which go the long way.
@Suite("Plain updates and deletes")
struct PlainUpdateTests {
    /// Two stores that are told the same, each with a node beside it that writes concurrently.
    private struct Pair {
        let short: EngineNode
        let long: EngineNode
        let others: [EngineNode]
        var rows: [(short: ManagedObjectID, long: ManagedObjectID)] = []

        private let clock = Clock()

        /// One clock for all, which moves by steps: else which of two concurrent writes is earlier would
        /// hang on how fast each store is.
        private final class Clock: Sendable {
            let milliseconds = Mutex<UInt64>(1_795_000_000_000)
        }

        init(_ model: ManagedObjectModel) throws {
            let clock = clock
            func node(_ number: Int) throws -> EngineNode {
                try EngineNode(model, node: number) { options in
                    options.wallMilliseconds = { clock.milliseconds.withLock { $0 } }
                }
            }
            short = try node(1)
            long = try node(1)
            others = [try node(2), try node(2)]
        }

        /// Goes on to the next step.
        func tick() { clock.milliseconds.withLock { $0 += 10 } }

        /// A write of the node beside a store. Beside the long one it inserts something as well.
        func write(_ place: Int, isDelete: Bool) throws {
            for (node, other, id) in [
                (short, others[0], rows[place].short), (long, others[1], rows[place].long),
            ] {
                try other.take(from: node)
                guard try other.row(id) != nil else { continue }
                var operations = [
                    try isDelete
                        ? other.deletion(id, resolves: true)
                        : other.change(id, ["note": .string("other")], resolves: true)
                ]
                if node === long { operations.append(try other.insertion("Shelf")) }
                try other.save(SaveRequest(operations: operations))
            }
        }

        func take() throws {
            try short.take(from: others[0])
            try long.take(from: others[1])
        }
    }

    private static func model() throws -> ManagedObjectModel {
        var weight = AttributeDescription("weight", .double)
        weight.preservesValueInHistoryOnDeletion = true
        func attributes(_ policy: MergePolicy?) -> [AttributeDescription] {
            [
                .init("name", .string, isOptional: false, defaultValue: .string("new")),
                .init("size", .integer16), .init("note", .string, mergePolicy: policy),
                .init("code", .string, validation: .init(maximum: .integer(3))),
                weight,
            ]
        }
        return try ManagedObjectModel(entities: [
            EntityDescription(
                "Item", mergePolicy: .mergeByPropertyObjectTrump, attributes: attributes(.error)),
            EntityDescription("Box", mergePolicy: .rollback, attributes: attributes(nil)),
            EntityDescription("Sheet", mergePolicy: .errorByRow, attributes: attributes(nil)),
            EntityDescription(
                "Shelf",
                relationships: [.init("over", to: "Shelf", inverse: "under")]
                    + [.init("under", to: "Shelf", inverse: "over", isToMany: true)]),
        ])
    }

    private static let values: [String: [PropertyValue]] = [
        "name": [.string("a"), .string("b"), .null],
        "size": [.integer(1), .integer(2), .null, .integer(1 << 40), .string("much")],
        "note": [.string("a"), .string("b"), .null],
        "code": [.null, .null, .string("abc"), .string("long")],
        "weight": [.double(.nan), .double(-0.0), .null],
    ]

    private static func values(_ random: inout SeededGenerator) -> [String: PropertyValue] {
        var result: [String: PropertyValue] = [:]
        for (name, values) in values.sorted(by: { $0.key < $1.key })
        where Int.random(in: 0..<3, using: &random) == 0 {
            // What is not valid is rare enough for most saves to succeed.
            let count = Int.random(in: 0..<8, using: &random) == 0 ? values.count : 2
            result[name] = values.prefix(count).randomElement(using: &random)
        }
        return result
    }

    /// What a save came to, but for what two stores cannot have in common.
    private struct Outcome: Equatable {
        var code: CoordinatorError.Code?
        var failures: [String] = []
        var conflicts: [Int] = []
        var rows: [[String]] = []
        var hasTransaction = false
    }

    private func outcome(
        of operations: [SaveOperation], at node: EngineNode, _ ids: [ManagedObjectID],
        _ policy: MergePolicy
    ) throws -> Outcome {
        var outcome = Outcome()
        func place(_ id: ManagedObjectID) -> Int { ids.firstIndex(of: id) ?? -1 }
        do {
            let result = try node.save(SaveRequest(operations: operations, mergePolicy: policy))
            let inserted = Set(result.insertedRows.map(\.row))
            outcome.rows = result.rows.filter { !inserted.contains($0.objectID.row) }.map { row in
                let isNew = result.transaction.map { row.version?.dots == [$0] } ?? false
                return [
                    "\(place(row.objectID))", row.version == nil ? "gone" : isNew ? "new" : "old",
                    "\(row.values ?? [])",
                ]
            }
            // Where the updates came to nothing, the long way has its insert alone.
            outcome.hasTransaction = result.transaction != nil
        } catch let error as CoordinatorError {
            outcome.code = error.code
            outcome.failures = error.failures.map { "\($0.property) \($0.code)" }
            outcome.conflicts = error.conflicts.map { place($0.object) }
        }
        return outcome
    }

    /// A row's registers by nodes and sequences, as two stores have other incarnations and clocks.
    private func registers(_ id: ManagedObjectID, at node: EngineNode) throws -> [String] {
        let entity = try node.entity(id.entityName)
        let found = try node.coordinator.read { try $0.registers(entity, id.row) }
        guard let state = found else { return [] }
        func name(_ dot: Dot) -> String { "\(dot.actor.node)#\(dot.sequence)" }
        return state.existence.siblings.map { "\(name($0.dot)) \($0.value)" }
            + state.insertion.siblings.map { name($0.dot) }
            + state.properties.map { register in
                register.siblings.map { "\(name($0.dot)) \($0.value)" }.joined(separator: ", ")
            }
    }

    /// All conflicts of a store, in the same terms.
    private func conflicts(at node: EngineNode, _ ids: [ManagedObjectID]) throws -> [String] {
        try node.conflicts(isOpen: nil).map { conflict in
            let place = ids.firstIndex { $0.row == conflict.object.row } ?? -1
            let sides = conflict.sides.map { side in
                "\(side.dot?.sequence ?? 0) \(side.isVisible) \(side.isDeleted) \(String(describing: side.value))"
            }
            return "\(place) \(conflict.property ?? "") \(conflict.kind) \(conflict.state) \(sides)"
        }.sorted()
    }

    @Test("Are what they are the long way", arguments: 0..<60)
    func same(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var pair = try Pair(try Self.model())
        let entity = ["Item", "Box", "Sheet"].randomElement(using: &random) ?? "Item"
        for _ in 0..<5 {
            let values = Self.values(&random).filter { $0.value != .null && $0.key == "note" }
            pair.rows.append(
                (try pair.short.insert(entity, values), try pair.long.insert(entity, values)))
        }
        for _ in 0..<4 {
            pair.tick()
            let versions = try pair.rows.map {
                (try pair.short.row($0.short)?.version, try pair.long.row($0.long)?.version)
            }
            if Int.random(in: 0..<3, using: &random) == 0 {
                // Another node writes, or deletes, what this one may write at the same time.
                let place = Int.random(in: 0..<5, using: &random)
                let isDelete = Int.random(in: 0..<4, using: &random) == 0
                try pair.write(place, isDelete: isDelete)
                if Bool.random(using: &random) { try pair.take() }
            }
            var places = (0..<5).filter { _ in Bool.random(using: &random) }
            if Int.random(in: 0..<8, using: &random) == 0 { places.shuffle(using: &random) }
            if Int.random(in: 0..<8, using: &random) == 0 { places += places.prefix(1) }
            if places.isEmpty { continue }
            var short: [SaveOperation] = []
            var long = [
                try pair.long.insertion("Shelf", -1, ["over": .null])
            ]
            for place in places {
                let values = Self.values(&random)
                let isVersioned = Bool.random(using: &random)
                let resolves = Int.random(in: 0..<12, using: &random) == 0
                if Int.random(in: 0..<5, using: &random) == 0 {
                    short.append(
                        try pair.short.deletion(
                            pair.rows[place].short, version: isVersioned ? versions[place].0 : nil,
                            resolves: resolves))
                    long.append(
                        try pair.long.deletion(
                            pair.rows[place].long, version: isVersioned ? versions[place].1 : nil,
                            resolves: resolves))
                    continue
                }
                short.append(
                    try pair.short.change(
                        pair.rows[place].short, values,
                        version: isVersioned ? versions[place].0 : nil, resolves: resolves))
                long.append(
                    try pair.long.change(
                        pair.rows[place].long, values,
                        version: isVersioned ? versions[place].1 : nil, resolves: resolves))
            }
            let policy =
                [MergePolicy.error, .mergeByPropertyStoreTrump, .overwrite].randomElement(
                    using: &random) ?? .error
            var first = try outcome(of: short, at: pair.short, pair.rows.map(\.short), policy)
            let second = try outcome(of: long, at: pair.long, pair.rows.map(\.long), policy)
            if first.code == nil, !first.hasTransaction {
                // The insert made one: let the next have the same sequence.
                try pair.short.insert("Shelf")
                first.hasTransaction = true
            }
            #expect(first == second, "seed \(seed)")
            for (short, long) in pair.rows {
                #expect(
                    try registers(short, at: pair.short) == registers(long, at: pair.long),
                    "seed \(seed)")
                #expect(try pair.short.row(short)?.values == pair.long.row(long)?.values)
            }
        }
        try pair.take()
        let (short, long) = (pair.rows.map(\.short), pair.rows.map(\.long))
        #expect(
            try conflicts(at: pair.short, short) == conflicts(at: pair.long, long), "seed \(seed)")
        try exchange(pair.short, pair.others[0])
        try exchange(pair.long, pair.others[1])
        #expect(
            try short.map { try pair.others[0].row($0)?.values }
                == long.map { try pair.others[1].row($0)?.values }, "seed \(seed)")
        for (short, long) in pair.rows {
            #expect(
                try registers(short, at: pair.others[0]) == registers(long, at: pair.others[1]),
                "seed \(seed)")
        }
        for node in pair.others + [pair.short, pair.long] {
            #expect(try node.coordinator.verify().isOK, "seed \(seed)")
        }
    }

    @Test("A save of rising rows is done in its order, and what it leaves keeps its version")
    func unchanged() throws {
        let node = try EngineNode(try Self.model())
        let ids = try (0..<4).map { try node.insert("Item", ["note": .string("\($0)")]) }
        let before = try node.version(ids[1])
        let result = try node.save(
            SaveRequest(
                operations: try ids.map { try node.change($0, ["note": .string("1")]) }))
        #expect(result.rows.map(\.objectID) == ids)
        let versions = result.rows.map(\.version)
        let written = RowVersion(dots: [try #require(result.transaction)])
        #expect(versions == [written, before, written, written])
        #expect(
            try ids.map { try node.value($0, "note") } == Array(repeating: .string("1"), count: 4))
        #expect(try node.coordinator.verify().isOK)
    }

    @Test("However many lists of properties are written, few statements are kept")
    func statements() throws {
        let names = (0..<9).map { "p\($0)" }
        let node = try EngineNode(
            try ManagedObjectModel(entities: [
                EntityDescription("Wide", attributes: names.map { .init($0, .integer64) })
            ]))
        let id = try node.insert("Wide")
        var expected = [String: PropertyValue]()
        for list in 1..<256 {
            let written = names.enumerated().filter { list >> $0.offset & 1 == 1 }.map(\.element)
            let values = Dictionary(
                uniqueKeysWithValues: written.map { ($0, PropertyValue.integer(Int64(list))) })
            expected.merge(values) { $1 }
            try node.update(id, values)
        }
        for name in names { #expect(try node.value(id, name) == expected[name] ?? .null) }
        #expect(try node.coordinator.verify().isOK)
        #expect(try node.coordinator.maintainBlocking { $0.session.keptStatements.count } == 128)
    }

    @Test("Deleted rows are collected by ranges, and what must wait waits by itself")
    func ranges() throws {
        let (node, other) = (
            try EngineNode(try Self.model()), try EngineNode(try Self.model(), node: 2)
        )
        let inserted = try node.save(
            SaveRequest(
                operations: try (1...300).map { try node.insertion("Item", -$0, [:]) }))
        let ids = inserted.insertedRows.map { ManagedObjectID(entityName: "Item", row: $0.row) }
        try other.take(from: node)
        try other.update(ids[100], ["name": .string("before")])
        try node.update(ids[100], ["name": .string("meanwhile")])
        try node.take(from: other)
        let known = try node.vector
        // Nobody who deletes has seen this one.
        try other.update(ids[10], ["name": .string("late")])
        try node.save(SaveRequest(operations: try ids.map { try node.deletion($0) }))
        try node.take(from: other)
        func lists(_ sql: String) throws -> Int? {
            try node.coordinator.read { try Int.fetchOne($0.database, sql: sql) }
        }
        // Four ranges, the contested one, and the one that was written late, which is in a range as well.
        #expect(try lists("SELECT count(*) FROM _uncollected") == 6)
        #expect(try node.coordinator.read { try $0.uncollectedCount } == 301)
        var stable = known
        for entry in try node.vector.entries where entry.actor.node.rawValue == 1 {
            stable.advance(entry.actor, to: entry.sequence)
        }
        var calls = 0
        while try !node.coordinator.collect(stable: stable, limit: 50).isDone { calls += 1 }
        #expect(calls == 6)
        #expect(try lists("SELECT count(*) FROM _tombstone") == 1)
        #expect(try node.coordinator.read { try $0.uncollectedCount } == 1)
        #expect(try node.coordinator.collect(stable: try node.vector).tombstonesCollected == 1)
        #expect(try node.coordinator.verify().isOK)
    }
}
