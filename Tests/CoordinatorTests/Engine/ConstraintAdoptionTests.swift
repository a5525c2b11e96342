import Coordinator
import GRDB
import Merge
import Testing

/// A model that gains or loses a constraint over a store that has rows already.
@Suite struct ConstraintAdoptionTests {
    private func model(_ constraints: [[String]], _ policy: MergePolicy) throws
        -> ManagedObjectModel
    {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "User", mergePolicy: policy,
                attributes: [.init("mail", .string), .init("note", .string)],
                relationships: [.init("tasks", to: "Task", inverse: "user", isToMany: true)],
                uniquenessConstraints: constraints),
            EntityDescription("Task", relationships: [.init("user", to: "User", inverse: "tasks")]),
        ])
    }

    private func users(_ node: EngineNode) throws -> [ManagedObjectID] {
        try node.coordinator.read { try $0.objectIDs(FetchRequest("User")) }
    }

    /// Two users of one mail, of whom the second has a task, and a third.
    private func duplicates(
        _ policy: MergePolicy
    ) throws -> (node: EngineNode, users: [ManagedObjectID], task: ManagedObjectID) {
        let node = try EngineNode(try model([], policy))
        let users = try [("a", "1"), ("a", "2"), ("b", "3")].map { mail, note in
            try node.insert("User", ["mail": .string(mail), "note": .string(note)])
        }
        return (node, users, try node.insert("Task", ["user": .reference(users[1].row)]))
    }

    @Test(
        "A store whose model gains a constraint opens, with conflicts to resolve",
        arguments: MergePolicy.allCases)
    func gained(_ policy: MergePolicy) throws {
        let (node, all, task) = try duplicates(policy)
        try node.migrate(to: try model([["mail"]], policy))
        #expect(try Set(users(node)) == [all[0], all[2]])
        #expect(try node.value(task, "user") == .reference(all[0].row))
        let conflict = try node.onlyConflict()
        #expect(conflict.id.description == "User.\(all[0].row).unique.mail")
        #expect(conflict.kind == .uniqueness)
        #expect(conflict.state == (policy.leavesUnresolved ? .unresolved : .settled))
        #expect(Set(conflict.sides.compactMap(\.object)) == [all[0], all[1]])
        #expect(try node.coordinator.verify().isOK)
        // A save is held to it from now on.
        #expect(
            try node.code { try node.insert("User", ["mail": .string("a")]) }
                == .constraintConflict)

        // Another key for the one that is not shown: then each is.
        let change = ConflictResolution.change([all[1]: ["mail": .string("c")]])
        try node.resolve(conflict.id, change)
        #expect(try node.conflicts().isEmpty)
        #expect(try Set(users(node)) == Set(all))
        #expect(try all.map { try node.value($0, "mail") } == ["a", "c", "b"].map { .string($0) })
        #expect(try node.value(all[1], "note") == .string("2"))
        #expect(try node.value(task, "user") == .reference(all[1].row))
        #expect(try node.coordinator.verify().isOK)
        try node.reopen()
        #expect(try Set(users(node)) == Set(all))
        #expect(try node.coordinator.verify().isOK)
    }

    @Test("One of those that share a key can be kept alone", arguments: MergePolicy.allCases)
    func kept(_ policy: MergePolicy) throws {
        let (node, all, task) = try duplicates(policy)
        try node.migrate(to: try model([["mail"]], policy))
        let conflict = try node.onlyConflict()
        let side = try #require(conflict.sides.first { $0.object == all[1] }?.dot)
        try node.resolve(conflict.id, .side(side))
        #expect(try node.conflicts().isEmpty)
        #expect(try Set(users(node)) == [all[1], all[2]])
        #expect(try node.value(task, "user") == .reference(all[1].row))
        #expect(try node.coordinator.verify().isOK)
    }

    @Test(
        "A store whose model loses a constraint shows each again", arguments: MergePolicy.allCases)
    func lost(_ policy: MergePolicy) throws {
        let (node, all, task) = try duplicates(policy)
        try node.migrate(to: try model([["mail"]], policy))
        try node.migrate(to: try model([], policy))
        #expect(try Set(users(node)) == Set(all))
        #expect(try node.value(task, "user") == .reference(all[1].row))
        #expect(try node.conflicts().isEmpty)
        #expect(try node.coordinator.verify().isOK)
    }

    @Test("CD-117: a store that works alone is not migrated over duplicates, and is as it was")
    func alone() throws {
        let (node, all, _) = try duplicates(.error)
        let plain = node.model
        let digest = try node.coordinator.currentDigest
        let unique = try model([["mail"]], .error)
        #expect(try node.code { try node.migrate(to: unique, .inferred) } == .constraintMigration)
        try node.migrate(to: plain)
        #expect(try Set(users(node)) == Set(all))
        #expect(try node.coordinator.currentDigest == digest)
        try node.delete(all[1])
        try node.migrate(to: unique, .inferred)
        #expect(try node.conflicts(kind: .uniqueness).isEmpty)
    }

    /// Animals. Dogs, puppies among them, have tags of their own.
    private func animals(_ breeds: String...) throws -> ManagedObjectModel {
        try ManagedObjectModel(
            entities: [
                EntityDescription(
                    "Animal", attributes: [.init("chip", .string), .init("tag", .string)],
                    uniquenessConstraints: [["chip"]]),
                EntityDescription("Cat", parent: "Animal"),
                EntityDescription("Dog", parent: "Animal", uniquenessConstraints: [["tag"]]),
            ] + breeds.map { EntityDescription($0, parent: "Dog") })
    }

    @Test("SQLite keeps heirs to the constraints of all they inherit from, and nobody else")
    func heirs() throws {
        let node = try EngineNode(try animals("Puppy"))
        let names = ["Animal", "Cat", "Dog", "Puppy"]
        var ids: [String: ManagedObjectID] = [:]
        for name in names {
            ids[name] = try node.insert(name, ["chip": .string(name), "tag": .string(name)])
        }
        try node.migrate(to: try animals("Puppy", "Hound"))
        ids["Hound"] = try node.insert(
            "Hound", ["chip": .string("Hound"), "tag": .string("Hound")])
        node.close()
        #expect(
            try node.look(
                """
                SELECT count(*) FROM sqlite_master WHERE type = 'index' AND tbl_name = 'Animal'
                    AND sql LIKE 'CREATE UNIQUE INDEX %'
                """) == 2)
        #expect(
            try node.look(
                """
                SELECT count(*) FROM sqlite_master WHERE type = 'index'
                    AND sql LIKE 'CREATE UNIQUE INDEX %("tag") WHERE _entity IN (%, %, %)'
                """) == 1)
        func give(_ property: String, of other: String, to name: String) throws {
            let row = try #require(ids[name]).row.rawValue
            try node.tamper("UPDATE Animal SET \(property) = '\(other)' WHERE _id = \(row)")
        }
        for (other, name) in [("Dog", "Puppy"), ("Puppy", "Hound"), ("Hound", "Dog")] {
            #expect(throws: DatabaseError.self) { try give("tag", of: other, to: name) }
        }
        for name in names {
            #expect(throws: DatabaseError.self) { try give("chip", of: "Hound", to: name) }
        }
        // A new row is refused as well.
        let puppy = try #require(ids["Puppy"]).row.rawValue
        #expect(throws: DatabaseError.self) {
            try node.tamper(
                """
                INSERT INTO Animal (_id, _entity, _version, _timestamp, chip, tag)
                SELECT _id + 1, _entity, _version, _timestamp, 'new', 'Dog' FROM Animal
                WHERE _id = \(puppy)
                """)
        }
        // Cats and other animals may have a dog's.
        try give("tag", of: "Dog", to: "Cat")
        try give("tag", of: "Dog", to: "Animal")
    }

    @Test("SQLite itself keeps two visible rows from one key")
    func index() throws {
        let node = try EngineNode(try model([["mail"]], .overwrite))
        try node.insert("User", ["mail": .string("a")])
        let second = try node.insert("User", ["mail": .string("b")])
        node.close()
        #expect(throws: DatabaseError.self) {
            try node.tamper("UPDATE User SET mail = 'a' WHERE _id = \(second.row.rawValue)")
        }
    }
}
