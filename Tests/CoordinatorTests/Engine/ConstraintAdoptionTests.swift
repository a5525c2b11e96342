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
                attributes: [
                    AttributeDescription("mail", .string), AttributeDescription("note", .string),
                ],
                relationships: [
                    RelationshipDescription("tasks", to: "Task", inverse: "user", isToMany: true)
                ], uniquenessConstraints: constraints),
            EntityDescription(
                "Task",
                relationships: [RelationshipDescription("user", to: "User", inverse: "tasks")]),
        ])
    }

    /// Opens a node's store with another model, as a migration would leave it.
    private func reopen(
        _ node: EngineNode, _ model: ManagedObjectModel
    ) throws -> PersistentStoreCoordinator {
        node.close()
        let hash = model.versionHash.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
        try node.tamper("UPDATE _model SET hash = x'\(hash.joined())'")
        return try PersistentStoreCoordinator(
            storeAt: node.path, model: model, cluster: "test", node: node.node)
    }

    private func users(_ coordinator: PersistentStoreCoordinator) throws -> [ManagedObjectID] {
        try coordinator.read { try $0.objectIDs(FetchRequest("User")) }
    }

    @Test(
        "A store whose model gains a constraint opens, with conflicts to resolve",
        arguments: MergePolicy.allCases)
    func gained(_ policy: MergePolicy) throws {
        let node = try EngineNode(try model([], policy))
        let first = try node.insert("User", ["mail": .string("a"), "note": .string("1")])
        let second = try node.insert("User", ["mail": .string("a"), "note": .string("2")])
        _ = try node.insert("User", ["mail": .string("b")])
        let task = try node.insert("Task", ["user": .reference(second.row)])
        let unique = try model([["mail"]], policy)
        let opened = try reopen(node, unique)
        #expect(try users(opened).count == 2)
        #expect(try users(opened).contains(first))
        let entity = try #require(unique.entity(named: "Task"))
        let shown = try opened.read { try $0.row(entity, task.row)?.values }
        #expect(shown == [.reference(first.row)])
        let conflicts = try opened.read { try $0.conflicts(ConflictQuery(isOpen: true)) }
        #expect(conflicts.map(\.id.description) == ["User.\(first.row).unique.mail"])
        #expect(conflicts.map(\.state) == [policy.leavesUnresolved ? .unresolved : .settled])
        #expect(try opened.verify().isOK)
        #expect(throws: CoordinatorError.self) {
            let user = try #require(unique.entity(named: "User"))
            let mail = try #require(user.position(of: "mail"))
            _ = try opened.save(
                SaveRequest(operations: [
                    SaveOperation(
                        kind: .insert, entity: user, row: RowID(-1),
                        values: [(mail, .string("a"))])
                ]))
        }
        opened.close()

        // Without the constraint each is shown again.
        let plain = try reopen(node, try model([], policy))
        #expect(try users(plain).count == 3)
        let back = try plain.read { try $0.row(entity, task.row)?.values }
        #expect(back == [.reference(second.row)])
        #expect(try plain.read { try $0.conflicts(ConflictQuery(isOpen: true)) }.isEmpty)
        #expect(try plain.verify().isOK)
        plain.close()
    }

    @Test("SQLite itself keeps two visible rows from one key")
    func index() throws {
        let node = try EngineNode(try model([["mail"]], .overwrite))
        _ = try node.insert("User", ["mail": .string("a")])
        let second = try node.insert("User", ["mail": .string("b")])
        node.close()
        #expect(throws: DatabaseError.self) {
            try node.tamper("UPDATE User SET mail = 'a' WHERE _id = \(second.row.rawValue)")
        }
    }

    @Test("A store without eclipsed rows' tables is brought up to date when it is opened")
    func upgraded() throws {
        let node = try EngineNode(try model([["mail"]], .overwrite))
        let user = try node.insert("User", ["mail": .string("a")])
        node.close()
        try node.tamper(
            """
            DROP TABLE _eclipsed; DROP TABLE _eclipsedKey; DROP INDEX "_key.User.mail";
            INSERT INTO User SELECT _id + 1, _version, _timestamp, _registers, mail, note FROM User;
            PRAGMA user_version = 3
            """)
        try node.open()
        #expect(
            try node.row(ManagedObjectID(entityName: "User", row: RowID(user.row.rawValue + 1)))?
                .objectID == user)
        #expect(try node.coordinator.read { try $0.count(FetchRequest("User")) } == 1)
    }
}
