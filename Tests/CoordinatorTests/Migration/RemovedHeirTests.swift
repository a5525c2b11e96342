import Coordinator
import Merge
import Testing

/// What the rows of an entity leave behind that a migration takes away, while those of its
/// hierarchy stay. A node that has migrated before it hears of them shows what is to come out.
@Suite("Entities that leave a hierarchy")
struct RemovedHeirTests {
    private func model(hasManagers: Bool) throws -> ManagedObjectModel {
        var entities = [
            EntityDescription(
                "Person", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("mail", .string), .init("note", .string)],
                relationships: [
                    .init("boss", to: "Person", inverse: "reports"),
                    .init("reports", to: "Person", inverse: "boss", isToMany: true),
                    .init("desk", to: "Desk", inverse: "person"),
                    .init("friends", to: "Person", isToMany: true),
                ], uniquenessConstraints: [["mail"]]),
            EntityDescription(
                "Desk", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("name", .string)],
                relationships: [.init("person", to: "Person", inverse: "desk")]),
        ]
        if hasManagers { entities.append(EntityDescription("Manager", parent: "Person")) }
        return try ManagedObjectModel(entities: entities)
    }

    private func nodes() throws -> [EngineNode] {
        let first = try model(hasManagers: true)
        return try (1...3).map { try EngineNode(first, node: $0) }
    }

    /// Migrates one node before it hears of what the others have, and those after.
    private func migrate(_ nodes: [EngineNode]) throws {
        let second = try model(hasManagers: false)
        try exchange(nodes[0], nodes[1])
        try migrateApart(nodes, to: second)
        let open = try nodes.map { try $0.conflicts().map(\.id.description).sorted() }
        #expect(Set(open).count == 1)
    }

    @Test("An object that stood for rows of a removed entity shows its own values again")
    func survivor() throws {
        let nodes = try nodes()
        let friend = try nodes[0].insert("Person", ["mail": .string("f")])
        let person = try nodes[0].insert("Person", ["mail": .string("a")])
        try nodes[1].take(from: nodes[0])
        try nodes[0].update(person, ["mail": .string("b")])
        let manager = try nodes[1].insert(
            "Manager", ["mail": .string("b"), "note": .string("m")],
            [.add(friend.row, to: "friends")])
        try nodes[1].update(friend, ["boss": .reference(manager.row)])
        try exchange(nodes[0], nodes[1])
        #expect(try nodes[0].value(person, "note") == .string("m"))
        #expect(try nodes[0].members(person, "friends") == [friend.row])
        #expect(try nodes[0].value(friend, "boss") == .reference(person.row))
        try migrate(nodes)
        for node in nodes {
            #expect(try node.value(person, "note") == .null)
            #expect(try node.members(person, "friends").isEmpty)
            #expect(try node.value(friend, "boss") == .null)
            #expect(try node.conflicts(kind: .uniqueness).isEmpty)
        }
        let version = try nodes[0].version(person)
        try nodes[0].update(person, ["note": .string("p")], version: version)
        try exchange(nodes[0], nodes[1], nodes[2])
        #expect(try nodes[2].value(person, "note") == .string("p"))
    }

    @Test("What a row of a removed entity eclipsed is shown, and those of its kind are not")
    func eclipsed() throws {
        let nodes = try nodes()
        let friend = try nodes[0].insert("Person", ["mail": .string("f")])
        let manager = try nodes[0].insert("Manager", ["mail": .string("a")])
        try nodes[1].take(from: nodes[0])
        try nodes[0].update(manager, ["mail": .string("b")])
        let person = try nodes[1].insert(
            "Person", ["mail": .string("b"), "note": .string("p")],
            [.add(friend.row, to: "friends")])
        try nodes[1].update(friend, ["boss": .reference(person.row)])
        try exchange(nodes[0], nodes[1])
        #expect(try nodes[0].value(friend, "boss") == .reference(manager.row))
        try migrate(nodes)
        for node in nodes {
            #expect(try node.value(person, "note") == .string("p"))
            #expect(try node.members(person, "friends") == [friend.row])
            #expect(try node.value(friend, "boss") == .reference(person.row))
            #expect(try node.conflicts(kind: .uniqueness).isEmpty)
        }
    }

    @Test("References to rows of a removed entity read as nil, and are no conflict")
    func references() throws {
        let nodes = try nodes()
        let manager = try nodes[0].insert("Manager", ["mail": .string("m")])
        let person = try nodes[0].insert(
            "Person", ["mail": .string("p"), "boss": .reference(manager.row)])
        let desk = try nodes[0].insert("Desk", ["person": .reference(manager.row)])
        let other = try nodes[0].insert("Desk", ["person": .reference(person.row)])
        try migrate(nodes)
        for node in nodes {
            #expect(try node.value(person, "boss") == .null)
            #expect(try node.value(desk, "person") == .null)
            #expect(try node.value(other, "person") == .reference(person.row))
            #expect(try node.conflicts(kind: .dangling).isEmpty)
        }
    }

    @Test("What a row of a removed entity had claimed alone goes to the next who claims it")
    func claims() throws {
        func model(hasGolden: Bool) throws -> ManagedObjectModel {
            var entities = [
                EntityDescription(
                    "Badge", mergePolicy: .mergeByPropertyObjectTrump,
                    attributes: [.init("name", .string)],
                    relationships: [.init("holder", to: "Owner", inverse: "badge")]),
                EntityDescription(
                    "Owner", attributes: [.init("name", .string)],
                    relationships: [.init("badge", to: "Badge", inverse: "holder")]),
            ]
            if hasGolden { entities.append(EntityDescription("Golden", parent: "Badge")) }
            return try ManagedObjectModel(entities: entities)
        }
        let (first, second) = (try model(hasGolden: true), try model(hasGolden: false))
        let nodes = try (1...3).map { try EngineNode(first, node: $0) }
        let owner = try nodes[0].insert("Owner")
        let badge = try nodes[0].insert("Badge")
        let golden = try nodes[0].insert("Golden")
        try exchange(nodes[0], nodes[1])
        try nodes[0].update(badge, ["holder": .reference(owner.row)])
        // Later than that also where all happens within a millisecond.
        for _ in 0..<3 { try nodes[1].insert("Owner") }
        try nodes[1].update(golden, ["holder": .reference(owner.row)])
        try exchange(nodes[0], nodes[1])
        #expect(try nodes[0].value(badge, "holder") == .null)
        try migrateApart(nodes, to: second)
        for node in nodes {
            #expect(try node.value(badge, "holder") == .reference(owner.row))
            #expect(try node.conflicts().isEmpty)
        }
    }

    @Test("A damaged store is not migrated, and is as it was")
    func damaged() throws {
        let node = try EngineNode(try model(hasManagers: true))
        let person = try node.insert("Person", ["mail": .string("p")])
        try node.update(person, ["note": .string("n")])
        let before = try node.coordinator.currentDigest
        node.close()
        try node.tamper("UPDATE Person SET _registers = x'8301' WHERE _id = \(person.row.rawValue)")
        let second = try model(hasManagers: false)
        #expect(try node.code { try node.migrate(to: second) } == .storeDamaged)
        try node.open()
        #expect(try node.coordinator.currentDigest == before)
    }
}
