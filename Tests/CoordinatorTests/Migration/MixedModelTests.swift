import Coordinator
import Merge
import TestSupport
import Testing

/// Nodes of two models that exchange transactions: whether a node migrates before or after it
/// applies them makes no difference.
@Suite struct MixedModelTests {
    /// Concurrent writes of three nodes of the first model: one migrates early, one late and one in
    /// between. At the end all must show one state.
    private func run(
        _ policy: MergePolicyChoice, to second: ManagedObjectModel, seed: UInt64
    ) throws {
        var generator = SeededGenerator(seed: seed)
        let first = try MigrationModels.first(policy)
        let nodes = try (1...3).map { try EngineNode(first, node: $0) }
        var rows: [ManagedObjectID] = []
        func write(_ node: EngineNode) throws {
            let isNew = rows.isEmpty || generator.next() % 4 == 0
            let isFirst = node.model == first
            let entity = node.model.entity(named: "Person") == nil ? "Human" : "Person"
            let properties = try node.entity(entity).properties.filter { !$0.isReference }
            let property = properties[Int(generator.next() % UInt64(properties.count))]
            let number = Int64(generator.next() % 5)
            let value: PropertyValue =
                switch property.content {
                case .attribute(.string): number == 0 && isFirst ? .null : .string("\(number)")
                default: .integer(number)
                }
            if isNew {
                let made = try node.insert(entity, [property.name: value])
                rows.append(ManagedObjectID(entityName: "Person", row: made.row))
                return
            }
            let row = rows[Int(generator.next() % UInt64(rows.count))].row
            let id = ManagedObjectID(entityName: entity, row: row)
            guard try node.row(id) != nil else { return }
            if generator.next() % 6 == 0 {
                try node.delete(id, resolves: true)
            } else {
                try node.update(id, [property.name: value], resolves: true)
            }
        }
        for _ in 0..<3 { for node in nodes { for _ in 0..<4 { try write(node) } } }
        try exchange(nodes[0], nodes[1], nodes[2])
        for _ in 0..<2 { for node in nodes { for _ in 0..<4 { try write(node) } } }
        try nodes[0].migrate(to: second)
        for _ in 0..<6 { try write(nodes[0]) }
        try nodes[0].take(from: nodes[1])
        for _ in 0..<4 { try write(nodes[1]) }
        for _ in 0..<4 { try write(nodes[2]) }
        try nodes[2].take(from: nodes[1])
        for _ in 0..<4 { try write(nodes[2]) }
        try nodes[0].take(from: nodes[2])
        try nodes[1].take(from: nodes[2])
        try nodes[1].migrate(to: second)
        for _ in 0..<4 { try write(nodes[1]) }
        try nodes[1].take(from: nodes[0])
        try nodes[2].migrate(to: second)
        try exchange(nodes[0], nodes[1], nodes[2])
        let unresolved = try nodes.map {
            try $0.conflicts(.unresolved).map(\.id.description).sorted()
        }
        #expect(unresolved[0] == unresolved[1] && unresolved[1] == unresolved[2])
    }

    @Test(
        "Attributes and entities that are added converge in whatever order nodes migrate",
        arguments: MergePolicyChoice.allCases)
    func added(_ policy: MergePolicyChoice) throws {
        for seed in 1...12 as ClosedRange<UInt64> {
            try run(policy, to: try MigrationModels.second(policy), seed: seed)
        }
    }

    @Test(
        "Names that change, what is taken away and what becomes mandatory converge likewise",
        arguments: MergePolicyChoice.allCases)
    func reshaped(_ policy: MergePolicyChoice) throws {
        for seed in 1...12 as ClosedRange<UInt64> {
            try run(policy, to: try MigrationModels.third(policy), seed: seed)
        }
    }

    @Test("MODEL P14: a register is settled by the policy of its newest sibling's model")
    func policy() throws {
        let first = try MigrationModels.first(.storeTrump)
        let second = try MigrationModels.first(.objectTrump)
        let nodes = try (1...2).map { try EngineNode(first, node: $0) }
        let person = try nodes[0].insert("Person", ["name": .string("old")])
        try exchange(nodes[0], nodes[1])
        try nodes[0].update(person, ["name": .string("a")])
        try nodes[1].update(person, ["name": .string("b")])
        try exchange(nodes[0], nodes[1])
        let shown = try nodes[0].value(person, "name")
        let all = try nodes[0].vector
        // Only one of them collapses before both migrate.
        _ = try nodes[0].coordinator.collect(stable: all)
        for node in nodes { try node.migrate(to: second) }
        try exchange(nodes[0], nodes[1])
        for node in nodes { #expect(try node.value(person, "name") == shown) }
        // What is written from now on is settled by the new policy.
        try nodes[0].update(person, ["name": .string("c")])
        try nodes[1].update(person, ["name": .string("d")])
        let later = try nodes[1].value(person, "name")
        try exchange(nodes[0], nodes[1])
        for node in nodes { #expect(try node.value(person, "name") == later) }
    }

    @Test(
        "A value that its insertion gave stays that insertion's, though a model that lacks the property inserted too",
        arguments: [MergePolicyChoice.storeTrump, .objectTrump])
    func revivedByTwoModels(_ policy: MergePolicyChoice) throws {
        let second = try MigrationModels.second(policy)
        let nodes = try (1...2).map { try EngineNode(try MigrationModels.first(policy), node: $0) }
        let person = try nodes[0].insert("Person", ["name": .string("a")])
        try exchange(nodes[0], nodes[1])
        let version = try nodes[0].version(person)
        try nodes[0].delete(person)
        try exchange(nodes[0], nodes[1])
        try nodes[0].migrate(to: second)
        for (place, node) in nodes.enumerated() {
            try node.update(
                person, ["age": .integer(Int64(place))], version: version,
                policy: .overwrite)
        }
        try nodes[0].take(from: nodes[1])
        #expect(try nodes[0].coordinator.verify().isOK)
        let (shown, stable) = (try nodes[0].row(person), try nodes[0].vector)
        #expect(try nodes[0].coordinator.collect(stable: stable).siblingsCollapsed > 0)
        #expect(try nodes[0].coordinator.verify().isOK)
        #expect(try nodes[0].row(person) == shown)
        try nodes[1].migrate(to: second)
        try exchange(nodes[0], nodes[1])
    }

    /// Badges that have one holder each, and one name for one badge.
    private func badges(_ policy: MergePolicyChoice) throws -> ManagedObjectModel {
        try MigrationModels.model(
            EntityDescription(
                "Badge", mergePolicy: policy.policy,
                attributes: [.init("name", .string), .init("size", .integer64)],
                relationships: [.init("holder", to: "Owner", inverse: "badge")],
                uniquenessConstraints: [["name"]]),
            EntityDescription(
                "Owner", attributes: [.init("name", .string)],
                relationships: [.init("badge", to: "Badge", inverse: "holder")]))
    }

    @Test("What several rows decide together follows the present model: claims and groups")
    func policyOfSeveralRows() throws {
        let (first, second) = (try badges(.storeTrump), try badges(.objectTrump))
        let nodes = try (1...3).map { try EngineNode(first, node: $0) }
        let owner = try nodes[0].insert("Owner")
        let badges = try (0..<2).map { _ in try nodes[0].insert("Badge") }
        try exchange(nodes[0], nodes[1], nodes[2])
        // Two badges claim one holder, and two have one name.
        var named: [ManagedObjectID] = []
        for place in 0..<2 {
            try nodes[place].update(badges[place], ["holder": .reference(owner.row)])
            named.append(
                try nodes[place].insert(
                    "Badge", ["name": .string("n"), "size": .integer(Int64(place))]))
        }
        try exchange(nodes[0], nodes[1])
        #expect(try nodes[0].value(badges[0], "holder") == .reference(owner.row))
        #expect(try nodes[0].value(named[0], "size") == .integer(0))
        // One node has migrated before it hears of them.
        try nodes[2].migrate(to: second)
        try nodes[2].take(from: nodes[0])
        try nodes[0].migrate(to: second)
        try nodes[1].migrate(to: second)
        try exchange(nodes[0], nodes[1], nodes[2])
        for node in nodes {
            #expect(try node.value(badges[0], "holder") == .null)
            #expect(try node.value(badges[1], "holder") == .reference(owner.row))
            #expect(try node.value(named[0], "size") == .integer(1))
        }
    }

    @Test("A transaction of a model that is not known is not applied, and is after migrating")
    func unknown() throws {
        let (first, second) = (try MigrationModels.first(), try MigrationModels.second())
        let nodes = try (1...2).map { try EngineNode(first, node: $0) }
        try nodes[0].migrate(to: second)
        let person = try nodes[0].insert("Person", ["note": .string("n")])
        let missing = try nodes[0].coordinator.read {
            try $0.transactions(notCoveredBy: VersionVector(), byteLimit: .max).transactions
        }.map { try EncodedTransaction(decoding: $0) }
        #expect(try nodes[1].coordinator.apply(missing).rejected.count == 1)
        try nodes[1].insert("Person")
        try nodes[1].migrate(to: second)
        #expect(try nodes[1].coordinator.apply(missing).rejected.isEmpty)
        #expect(try nodes[1].value(person, "note") == .string("n"))
        try exchange(nodes[0], nodes[1])
    }

    @Test("What history keeps of a deleted object is nobody's value in another model")
    func tombstones() throws {
        func model(_ names: [String]) throws -> ManagedObjectModel {
            try MigrationModels.model(
                MigrationModels.person(
                    attributes: names.map { name in
                        var attribute = AttributeDescription(name, .string)
                        attribute.preservesValueInHistoryOnDeletion = true
                        return attribute
                    }))
        }
        let nodes = try (1...2).map { try EngineNode(try model(["name", "age"]), node: $0) }
        let person = try nodes[1].insert("Person", ["name": .string("x"), "age": .string("7")])
        try nodes[0].take(from: nodes[1])
        try nodes[0].migrate(to: try model(["name"]))
        try nodes[1].delete(person)
        try nodes[0].take(from: nodes[1])
        #expect(try nodes[0].row(person) == nil)
        #expect(try nodes[0].coordinator.read { try $0.parkedValues() }.isEmpty)
        let history = try nodes[0].coordinator.execute(
            PersistentHistoryChangeRequest.fetchHistory(after: nil))
        let kept = history.transactions?.last?.changes?.first?.tombstone
        #expect(kept == ["name": .string("x")])
    }

    @Test("What was taken away cannot come back, and its values stay in the log, parked")
    func takenAway() throws {
        let first = try MigrationModels.first()
        let small = try MigrationModels.model(
            MigrationModels.person(attributes: [.init("name", .string)]))
        let nodes = try (1...2).map { try EngineNode(first, node: $0) }
        try nodes[0].migrate(to: small)
        let person = try nodes[1].insert("Person", ["name": .string("x"), "age": .integer(7)])
        try nodes[0].take(from: nodes[1])
        #expect(try nodes[0].value(person, "name") == .string("x"))
        let parked = try nodes[0].coordinator.read { try $0.parkedValues() }
        #expect(parked.map(\.place) == ["Person.age"])
        #expect(parked.map(\.count) == [1])
        let code = try nodes[0].code { try nodes[0].migrate(to: first) }
        #expect(code == .mappingNotInferable)
        try nodes[0].migrate(to: small)
        try nodes[1].migrate(to: small)
        try exchange(nodes[0], nodes[1])
    }

    @Test("A store that was made with the newest model learns of those before it from a peer")
    func learning() throws {
        let (first, second) = (try MigrationModels.first(), try MigrationModels.second())
        let old = try EngineNode(first, node: 1)
        let new = try EngineNode(second, node: 2)
        let person = try old.insert("Person", ["name": .string("x")])
        #expect(try new.coordinator.learn([first]) == [first.modelHash])
        try new.take(from: old)
        #expect(try new.value(person, "level") == .integer(3))
        try old.migrate(to: second)
        try exchange(old, new)
        try new.reopen()
        #expect(try new.coordinator.formerModels.map(\.modelHash) == [first.modelHash])
        let stranger = try MigrationModels.first(.overwrite)
        #expect(try new.coordinator.learn([stranger]).isEmpty)
    }

    @Test("By which model an actor writes is in the file, though its first try was given up")
    func givenUp() throws {
        let (first, second) = (
            try MigrationModels.first(.error), try MigrationModels.first(.objectTrump)
        )
        let (old, new) = (try EngineNode(first, node: 1), try EngineNode(first, node: 2))
        let person = try old.insert("Person", ["name": .string("x")])
        try exchange(old, new)
        try old.reopen()
        try new.update(person, ["name": .string("y")])
        try new.migrate(to: second)
        try old.update(person, ["name": .string("z")])
        // The row is away at the first try: that shows when the model has been noted.
        try new.meddle("UPDATE Person SET _id = -_id")
        let missing = Array(old.transactions.suffix(1))
        #expect(try new.coordinator.apply(missing).rejected.count == 1)
        try new.meddle("UPDATE Person SET _id = -_id")
        try new.take(from: old)
        let open = try new.conflicts(.unresolved).map(\.id)
        #expect(open.count == 1)
        #expect(try new.row(person)?.isConflicted == true)
        try new.reopen()
        #expect(try new.row(person)?.isConflicted == true)
        #expect(try new.conflicts(.unresolved).map(\.id) == open)
    }

    @Test("An entry from before a migration gets no nulls by later names when its row is forgotten")
    func forgottenAfterRenaming() throws {
        func model(_ attribute: AttributeDescription) throws -> ManagedObjectModel {
            try MigrationModels.model(
                MigrationModels.person(
                    .overwrite, attributes: [attribute, .init("age", .integer64)]))
        }
        let second = try model(AttributeDescription("title", .string, renamingIdentifier: "name"))
        let first = try model(AttributeDescription("name", .string))
        let (x, y) = (try EngineNode(first, node: 1), try EngineNode(first, node: 2))
        let person = try x.insert("Person", ["name": .string("a"), "age": .integer(1)])
        try exchange(x, y)
        try x.delete(person)
        try y.update(person, ["name": .string("b")])
        try exchange(x, y)
        try y.delete(person, resolves: true)
        try exchange(x, y)
        for node in [x, y] {
            try node.migrate(to: second)
            let stable = try node.vector
            #expect(try node.coordinator.collect(stable: stable).tombstonesCollected == 1)
            let closed = try #require(try node.conflicts(kind: .delete, isOpen: false).first)
            let side = try #require(closed.sides.first { !$0.isDeleted })
            #expect(side.row.map(\.name) == ["age", "name"])
            // What the later names are of is not known: better nothing than nulls.
            let code = try node.code { try node.undo(closed.id) }
            #expect(code == .objectNotFound)
            #expect(try node.row(person) == nil)
        }
    }

    @Test("An entry from before a migration takes no other write's value for what its side wrote")
    func completedAfterRenaming() throws {
        func model(_ attribute: AttributeDescription) throws -> ManagedObjectModel {
            try MigrationModels.model(
                MigrationModels.person(
                    .error, attributes: [attribute, .init("age", .integer64)]))
        }
        let first = try model(AttributeDescription("name", .string))
        let second = try model(AttributeDescription("title", .string, renamingIdentifier: "name"))
        let (x, y) = (try EngineNode(first, node: 1), try EngineNode(first, node: 2))
        let person = try x.insert("Person", ["name": .string("a"), "age": .integer(1)])
        try exchange(x, y)
        try x.delete(person)
        try y.update(person, ["name": .string("b")])
        try exchange(x, y)
        let open = try x.onlyConflict()
        let edit = try #require(open.sides.first { !$0.isDeleted }?.dot)
        try x.resolve(open.id, .side(edit))
        try exchange(x, y)
        for node in [x, y] { try node.migrate(to: second) }
        try x.update(person, ["title": .string("d")], resolves: true)
        try x.delete(person, resolves: true)
        try exchange(x, y)
        for node in [x, y] {
            let stable = try node.vector
            #expect(try node.coordinator.collect(stable: stable).tombstonesCollected == 1)
            let closed = try #require(try node.conflicts(kind: .delete, isOpen: false).first)
            let side = try #require(closed.sides.first { !$0.isDeleted })
            #expect(!side.row.contains { $0.name == "title" })
        }
    }

    @Test("What lost to a delete can be brought back whole, also by names that were added since")
    func completedWithAddedProperty() throws {
        func model(_ more: AttributeDescription...) throws -> ManagedObjectModel {
            try MigrationModels.model(
                MigrationModels.person(
                    .overwrite,
                    attributes: [
                        .init("name", .string),
                        .init("age", .integer64),
                    ] + more))
        }
        let (first, second) = (try model(), try model(AttributeDescription("note", .string)))
        let (x, y) = (try EngineNode(first, node: 1), try EngineNode(first, node: 2))
        let person = try x.insert("Person", ["name": .string("a"), "age": .integer(1)])
        try exchange(x, y)
        try y.update(person, ["name": .string("b")])
        // Later than that also where all happens within a millisecond.
        for _ in 0..<3 { try x.insert("Person") }
        try x.delete(person)
        try exchange(x, y)
        #expect(try x.onlyConflict().state == .settled)
        for node in [x, y] {
            try node.migrate(to: second)
            let stable = try node.vector
            #expect(try node.coordinator.collect(stable: stable).tombstonesCollected == 1)
        }
        let closed = try #require(try x.conflicts(kind: .delete, isOpen: false).first)
        let side = try #require(closed.sides.first { !$0.isDeleted })
        #expect(side.row.map(\.name) == ["age", "name", "note"])
        try x.undo(closed.id)
        try exchange(x, y)
        #expect(try y.value(person, "name") == .string("b"))
        #expect(try y.value(person, "age") == .integer(1))
    }
}
