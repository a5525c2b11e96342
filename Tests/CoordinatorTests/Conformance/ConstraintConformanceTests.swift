import Coordinator
import Merge
import Synchronization
import Testing

/// Uniqueness constraints at a context's save (CONFORMANCE CD-35 to CD-45).
@Suite struct ConstraintConformanceTests {
    /// Users are one by mail, and by first and last name together; admins also by badge. Tasks
    /// have users.
    private static func model(isUnique: Bool = true) throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "User", mergePolicy: .mergeByPropertyStoreTrump,
                attributes: [
                    .init("mail", .string), .init("first", .string), .init("last", .string),
                    .init("note", .string), .init("age", .integer64, defaultValue: .integer(18)),
                ], relationships: [.init("tasks", to: "Task", inverse: "user", isToMany: true)],
                uniquenessConstraints: isUnique ? [["mail"], ["first", "last"]] : []),
            EntityDescription(
                "Admin", parent: "User", attributes: [.init("badge", .string)],
                uniquenessConstraints: isUnique ? [["badge"]] : []),
            EntityDescription(
                "Task", attributes: [.init("title", .string)],
                relationships: [.init("user", to: "User", inverse: "tasks")]),
        ])
    }

    private let store: TestStore

    init() throws { store = try TestStore(try Self.model()) }

    private func users(_ mail: String) throws -> [RowSnapshot] {
        try store.coordinator.read { reader in
            try reader.fetch(FetchRequest("User")).filter { try value($0, "mail") == .string(mail) }
        }
    }

    private func value(_ row: RowSnapshot, _ name: String) throws -> PropertyValue {
        let entity = try #require(store.coordinator.model.entity(named: row.objectID.entityName))
        return row.values[try #require(entity.position(of: name))]
    }

    /// The error that a context's save fails with.
    private func failure(
        _ policy: MergePolicy = .error, _ body: (ManagedObjectContext) throws -> Void
    ) throws -> CoordinatorError? {
        let context = store.context(policy)
        return try context.performAndWait {
            do {
                try body(context)
                try context.save()
                return nil
            } catch let error as CoordinatorError { return error }
        }
    }

    @Test("A discard whose properties the surviving object's entity lacks cannot be undone")
    func undoOverAnotherEntity() throws {
        #expect(
            try failure { context in context.insert("User", ["mail": "a", "note": "kept"]) } == nil)
        #expect(
            try failure(.rollback) { context in
                context.insert("Admin", ["mail": "a", "badge": "7", "note": "lost"])
            } == nil)
        let conflict = try #require(
            try store.coordinator.read { try $0.conflicts(ConflictQuery(isOpen: nil)) }
                .first { $0.kind == .save })
        let error = #expect(throws: CoordinatorError.self) {
            _ = try store.coordinator.undo(conflict.id) as SaveResult
        }
        #expect(error?.code == .malformed)
        #expect(error?.message.contains("User has no stored property badge") ?? false)
        #expect(try value(try #require(try users("a").first), "note") == .string("kept"))
        #expect(try store.coordinator.verify().isOK)
    }

    @Test("CD-35: two inserts of one key in one context fail, with no object of the store")
    func twoInserts() throws {
        var objects: [ManagedObjectID] = []
        let error = try failure { context in
            for _ in 0..<2 {
                let user = context.insert("User", ["mail": "a"])
                objects.append(user.objectID)
            }
        }
        #expect(error?.code == .constraintConflict)
        #expect(error?.code.number == 133_021)
        let conflict = try #require(error?.constraintConflicts.first)
        #expect(error?.constraintConflicts.count == 1)
        #expect(conflict.databaseObject == nil)
        #expect(conflict.databaseSnapshot == nil)
        #expect(conflict.conflictingObjects.sorted() == objects.sorted())
        #expect(conflict.constraint == ["mail"])
        #expect(conflict.constraintValues == ["mail": .string("a")])
    }

    @Test("CD-36: an insert of a stored key fails, with that object and one of the context")
    func insertAgainstStored() throws {
        let stored = try store.insert("User", ["mail": "a", "note": "old"])
        var object: ManagedObjectID?
        let error = try failure { context in
            let user = context.insert("User", ["mail": "a"])
            object = user.objectID
        }
        let conflict = try #require(error?.constraintConflicts.first)
        #expect(error?.code == .constraintConflict)
        #expect(conflict.databaseObject == stored)
        #expect(conflict.databaseSnapshot?["note"] == .string("old"))
        #expect(conflict.conflictingObjects == [object])
    }

    @Test("CD-37: with storeTrump the stored object stays; references to the new one lead to it")
    func storeTrump() throws {
        let stored = try store.insert("User", ["mail": "a", "note": "old"])
        let context = store.context(.mergeByPropertyStoreTrump)
        try context.performAndWait {
            let user = context.insert("User", ["mail": "a", "note": "new"])
            let task = context.insert("Task")
            task.setRelatedObject(user, forKey: "user")
            try context.save()
            #expect(task.relatedObject(forKey: "user")?.objectID == stored)
            #expect(user.objectID == stored || user.managedObjectContext == nil)
        }
        let found = try users("a")
        #expect(found.map(\.objectID) == [stored])
        #expect(try value(try #require(found.first), "note") == .string("old"))
    }

    @Test(
        "CD-38, CD-39: with objectTrump the stored object has the new one's values, unassigned too")
    func objectTrump() throws {
        let stored = try store.insert("User", ["mail": "a", "note": "old", "first": "x"])
        let context = store.context(.mergeByPropertyObjectTrump)
        try context.performAndWait {
            let user = context.insert("User", ["mail": "a", "first": "y"])
            try context.save()
            #expect(user.objectID == stored)
            #expect(user["note"] == .null)
        }
        let found = try users("a")
        #expect(found.map(\.objectID) == [stored])
        let row = try #require(found.first)
        #expect(try value(row, "first") == .string("y"))
        #expect(try value(row, "note") == .null)
        #expect(try value(row, "age") == .integer(18))
        #expect(try store.coordinator.verify().isOK)
    }

    /// What the journal's last entry of a save says that it lost, by property.
    private func discarded() throws -> [String: PropertyValue] {
        let entry = try store.coordinator.read {
            try $0.conflicts(ConflictQuery(kind: .save, limit: 1)).first
        }
        let side = try #require(entry?.sides.first { !$0.isVisible })
        return Dictionary(side.row.map { ($0.name, $0.value) }) { first, _ in first }
    }

    @Test("CD-147: what a policy gives up, or writes over, for a unique key's sake is journalled")
    func journalled() throws {
        let stored = try store.insert("User", ["mail": "a", "note": "old"])
        let other = try store.insert("User", ["mail": "b"])
        let context = store.context(.mergeByPropertyStoreTrump)
        try context.performAndWait {
            try context.existingObject(with: other)["mail"] = "a"
            try context.save()
        }
        #expect(try discarded() == ["mail": .string("a")])
        try store.save(.mergeByPropertyObjectTrump) { newer in
            newer.insert("User", ["mail": "a", "age": PropertyValue.integer(30)])
        }
        #expect(try discarded() == ["note": .string("old"), "age": .integer(18)])
        let entry = try #require(
            try store.coordinator.read {
                try $0.conflicts(ConflictQuery(kind: .save, limit: 1)).first
            })
        #expect(entry.object == stored)
        let wrote = try #require(entry.sides.first { $0.isVisible })
        #expect(Set(wrote.row.map(\.name)) == ["note", "age"])
        _ = try store.coordinator.undo(entry.id) as SaveResult
        let user = try #require(try users("a").first)
        #expect(try value(user, "note") == .string("old"))
    }

    @Test("CD-38: an object given a key in the same save shows what the new one of that key brings")
    func registeredAndChanged() throws {
        let stored = try store.insert("User", ["mail": "a", "note": "old"])
        let context = store.context(.mergeByPropertyObjectTrump)
        try context.performAndWait {
            let known = try context.existingObject(with: stored)
            known["mail"] = "b"
            let user = context.insert("User", ["mail": "b", "note": "new"])
            try context.save()
            #expect(user.managedObjectContext == nil)
            #expect(known["note"] == .string("new"))
        }
        #expect(try users("b").map(\.objectID) == [stored])
    }

    @Test("CD-37 to CD-39: an object of the context that has the key takes the new one's place")
    func registered() throws {
        let stored = try store.insert("User", ["mail": "a", "note": "old"])
        let context = store.context(.overwrite)
        try context.performAndWait {
            let known = try context.existingObject(with: stored)
            #expect(known["note"] == .string("old"))
            let user = context.insert("User", ["mail": "a", "note": "new"])
            let task = context.insert("Task")
            task.setRelatedObject(user, forKey: "user")
            try context.save()
            #expect(user.managedObjectContext == nil)
            #expect(known["note"] == .string("new"))
            #expect(task.relatedObject(forKey: "user") === known)
            #expect(known.relatedObjects(forKey: "tasks").contains(task))
            #expect(!context.hasChanges)
        }
    }

    @Test(
        "CD-37, CD-38, CD-88: an insert that becomes one with an object of another entity is given up",
        arguments: [MergePolicy.mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump])
    func mergedIntoAnotherEntity(policy: MergePolicy) throws {
        let stored = try store.insert("Admin", ["mail": "a", "note": "old", "badge": "7"])
        let context = store.context(policy)
        try context.performAndWait {
            let user = context.insert("User", ["mail": "a", "note": "new"])
            let task = context.insert("Task")
            task.setRelatedObject(user, forKey: "user")
            try context.save()
            #expect(user.managedObjectContext == nil)
            let found = try context.fetch(FetchRequest("User"))
            #expect(found.map(\.objectID) == [stored])
            #expect(found.first?["note"] == (policy == .mergeByPropertyStoreTrump ? "old" : "new"))
            #expect(task.relatedObject(forKey: "user") === found.first)
            #expect(context.registeredObjects.count == 2)
            #expect(!context.hasChanges)
        }
    }

    @Test(
        "What an insert has that the object of another entity with its key cannot take is journalled",
        arguments: [
            MergePolicy.mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump, .overwrite,
            .rollback,
        ])
    func misfits(policy: MergePolicy) throws {
        let store = try TestStore(
            try ManagedObjectModel(entities: [
                EntityDescription(
                    "User", mergePolicy: .mergeByPropertyStoreTrump,
                    attributes: [.init("mail", .string)], uniquenessConstraints: [["mail"]]),
                EntityDescription(
                    "Admin", parent: "User",
                    attributes: [
                        .init("badge", .string),
                        .init("level", .integer64, defaultValue: .integer(1)),
                    ],
                    relationships: [
                        .init("rooms", to: "Room", inverse: "admins", isToMany: true),
                        .init("desk", to: "Room"),
                    ]),
                EntityDescription(
                    "Room", attributes: [.init("name", .string)],
                    relationships: [.init("admins", to: "Admin", inverse: "rooms", isToMany: true)]),
            ]))
        let stored = try store.insert("User", ["mail": "a"])
        let room = try store.insert("Room", ["name": "cellar"])
        let context = store.context(policy)
        try context.performAndWait {
            let admin = context.insert("Admin", ["mail": "a", "badge": "7"])
            admin.add(context.object(with: room), toRelationship: "rooms")
            admin.setRelatedObject(context.object(with: room), forKey: "desk")
            try context.save()
            #expect(admin.managedObjectContext == nil)
            #expect(try context.fetch(FetchRequest("User")).map(\.objectID) == [stored])
            #expect(context.object(with: room).relatedObjects(forKey: "admins").isEmpty)
        }
        let conflicts = try store.coordinator.read {
            try $0.conflicts(ConflictQuery(isOpen: nil)).filter { $0.kind == .save }
        }
        let sides = conflicts.flatMap(\.sides).filter { !$0.isVisible }
        let values = sides.flatMap(\.row).filter { !$0.value.isNull }
        #expect(values.contains { $0.name == "badge" && $0.value == .string("7") })
        #expect(values.contains { $0.name == "desk" && $0.value == .reference(room.row) })
        #expect(sides.flatMap(\.relationships).map(\.name) == ["rooms"])
        #expect(sides.flatMap(\.relationships).flatMap(\.members) == [room.row])
        #expect(conflicts.allSatisfy { $0.id.row == stored.row })
        #expect(try store.coordinator.verify().isOK)
    }

    @Test("The answer to a save names what an insert became one with as the store has it")
    func answerOfAnotherEntity() throws {
        let stored = try store.insert("Admin", ["mail": "a"])
        let entity = try #require(store.coordinator.model.entity(named: "User"))
        let answer = try store.coordinator.save(
            SaveRequest(
                operations: [
                    SaveOperation(
                        kind: .insert, entity: entity, row: RowID(-1),
                        values: [(try #require(entity.position(of: "mail")), .string("a"))])
                ], mergePolicy: .mergeByPropertyStoreTrump))
        let inserted = try #require(answer.insertedRows.first)
        #expect(inserted.entityName == "Admin")
        #expect(inserted.row == stored.row)
    }

    @Test("CD-35: under another policy two inserts of one key become one object")
    func twoInsertsMerged() throws {
        for (policy, note) in [
            (MergePolicy.mergeByPropertyStoreTrump, "first"), (.overwrite, "second"),
        ] {
            let mail = policy.rawValue
            let context = store.context(policy)
            try context.performAndWait {
                var users: [ManagedObject] = []
                for note in ["first", "second"] {
                    let user = context.insert("User", ["mail": mail, "note": note])
                    users.append(user)
                }
                try context.save()
                // One of them is left, and shows what was kept.
                let left = users.filter { $0.managedObjectContext != nil }
                #expect(left.map { $0["note"] } == [note])
            }
            let found = try users(mail)
            #expect(found.count == 1)
            #expect(try value(try #require(found.first), "note") == .string(note))
        }
    }

    @Test("CD-40: taking another object's key is reported; where the store stands it is not done")
    func update() throws {
        let first = try store.insert("User", ["mail": "a"])
        let second = try store.insert("User", ["mail": "b"])
        func change(_ context: ManagedObjectContext) throws {
            let user = try context.existingObject(with: second)
            user["mail"] = "a"
            user["note"] = "changed"
        }
        let error = try failure(.error, change)
        let conflict = try #require(error?.constraintConflicts.first)
        #expect(error?.code == .constraintConflict)
        #expect(conflict.databaseObject == first)
        #expect(conflict.conflictingObjects == [second])
        #expect(try failure(.mergeByPropertyStoreTrump, change) == nil)
        #expect(try users("a").map(\.objectID) == [first])
        #expect(try users("b").map(\.objectID) == [second])
        #expect(try value(try #require(try users("b").first), "note") == .string("changed"))
        // Where the newer object stands the two are one from now on.
        #expect(try failure(.mergeByPropertyObjectTrump, change) == nil)
        #expect(try users("a").map(\.objectID) == [first])
        #expect(try users("b").isEmpty)
        #expect(try store.coordinator.verify().isOK)
    }

    @Test("An edit given up of an object in whose place another is shown by now ends the object")
    func editOfEclipsed() throws {
        let first = try store.insert("User", ["mail": "a"])
        let second = try store.insert("Admin", ["mail": "b"])
        let context = store.context(.rollback)
        let object = try context.performAndWait {
            let object = try context.existingObject(with: second)
            object["note"] = "late"
            return object
        }
        #expect(
            try failure(.mergeByPropertyObjectTrump) {
                try $0.existingObject(with: second)["mail"] = "a"
            } == nil)
        #expect(try users("a").map(\.objectID) == [first])
        context.performAndWait {
            #expect(throws: Never.self) { try context.save() }
            #expect(object.managedObjectContext == nil)
            #expect(!context.hasChanges)
        }
        #expect(try users("a").map { try value($0, "note") } == [.null])
    }

    @Test("CD-40: a context has the survivor as its own save of another's key left it")
    func survivorOfOwnSave() throws {
        let first = try store.insert("User", ["mail": "a"])
        let second = try store.insert("User", ["mail": "b"])
        let context = store.context(.mergeByPropertyObjectTrump)
        let (survivor, other) = try context.performAndWait {
            (try context.existingObject(with: first), try context.existingObject(with: second))
        }
        // Another client changes what the context does not touch.
        #expect(
            try failure(.mergeByPropertyObjectTrump) {
                try $0.existingObject(with: first)["note"] = "theirs"
            } == nil)
        try context.performAndWait {
            other["mail"] = "a"
            try context.save()
            #expect(other.managedObjectContext == nil)
            #expect(survivor["note"] == "theirs")
            // The version that its own save has made is no conflict.
            context.mergePolicy = .errorByRow
            survivor["note"] = "ours"
            try context.save()
        }
        #expect(try users("a").map(\.objectID) == [first])
        #expect(try users("a").map { try value($0, "note") } == [.string("ours")])
    }

    @Test("CD-40: an object in whose place its own save has another shown is gone from the context")
    func eclipsedByOwnSave() throws {
        let store = try TestStore(
            try ManagedObjectModel(entities: [
                EntityDescription(
                    "Team", attributes: [.init("name", .string)],
                    relationships: [.init("players", to: "Player", inverse: "team", isToMany: true)]
                ),
                EntityDescription(
                    "Player", mergePolicy: .mergeByPropertyObjectTrump,
                    attributes: [.init("number", .string)],
                    relationships: [.init("team", to: "Team", inverse: "players")],
                    uniquenessConstraints: [["number"]]),
            ]))
        let context = store.context(.mergeByPropertyObjectTrump)
        let told = Mutex<[Set<ManagedObjectID>]>([])
        context.observeDidSave { _, ids in told.withLock { $0.append(ids.deleted) } }
        try context.performAndWait {
            let team = context.insert("Team")
            let (first, second) = (context.insert("Player"), context.insert("Player"))
            for (player, number) in [(first, "1"), (second, "2")] {
                player["number"] = number
                player.setRelatedObject(team, forKey: "team")
                try context.save()
            }
            let gone = second.objectID
            #expect(team.relatedObjects(forKey: "players").count == 2)
            first["number"] = "2"
            try context.save()
            #expect(team.relatedObjects(forKey: "players") == [first])
            #expect(second.managedObjectContext == nil)
            #expect(!context.hasChanges)
            #expect(told.withLock { $0 } == [[], [], [gone]])
            #expect(try context.fetch(FetchRequest("Player")) == [first])
        }
    }

    @Test("CD-41: an heir keeps its own and its parent's constraint, told as one conflict")
    func inherited() throws {
        try store.save { admin in admin.insert("Admin", ["mail": "a", "badge": "1"]) }
        let error = try failure { context in context.insert("Admin", ["mail": "a", "badge": "1"]) }
        #expect(error?.constraintConflicts.count == 1)
        #expect(error?.constraintConflicts.first?.constraint == ["mail", "badge"])
        for (name, value) in [("mail", "a"), ("badge", "1")] {
            let error = try failure { context in context.insert("Admin")[name] = value }
            #expect(error?.constraintConflicts.first?.constraint == [name])
        }
        #expect(try failure { context in context.insert("User")["mail"] = "a" } != nil)
    }

    @Test("CD-42: a compound constraint compares all its attributes together; a null is no key")
    func compound() throws {
        _ = try store.insert("User", ["first": "x", "last": "y"])
        _ = try store.insert("User", ["first": "x", "last": "z"])
        _ = try store.insert("User", ["first": "x"])
        _ = try store.insert("User", ["first": "x"])
        let error = try failure { context in context.insert("User", ["first": "x", "last": "y"]) }
        #expect(error?.constraintConflicts.first?.constraint == ["first", "last"])
    }

    @Test("CD-43: duplicates may be in memory; only a save to the store looks at them")
    func inMemory() throws {
        _ = try store.insert("User", ["mail": "a"])
        try store.save { context in
            let user = context.insert("User", ["mail": "a"])
            #expect(context.hasChanges)
            user["mail"] = "b"
        }
        #expect(try users("b").count == 1)
    }

    @Test("CD-43: a child's save may leave duplicates in its parent; the root's save refuses them")
    func rootSave() throws {
        _ = try store.insert("User", ["mail": "a"])
        let root = store.context()
        let child = ManagedObjectContext(parent: root)
        try child.performAndWait {
            child.insert("User", ["mail": "a"])
            child.insert("User", ["mail": "a"])
            try child.save()
        }
        let error = root.performAndWait {
            #expect(throws: CoordinatorError.self) { try root.save() }
        }
        #expect(error?.code == .constraintConflict)
    }

    @Test("CD-44: conflicting snapshots have one entry an object, none for what is new")
    func snapshots() throws {
        _ = try store.insert("User", ["mail": "a"])
        let second = try store.insert("User", ["mail": "b", "note": "n"])
        let error = try failure { context in
            try context.existingObject(with: second)["mail"] = "a"
            context.insert("User")["mail"] = "a"
        }
        let conflict = try #require(error?.constraintConflicts.first)
        #expect(conflict.conflictingObjects.count == 2)
        #expect(conflict.conflictingSnapshots.count == 2)
        let place = try #require(conflict.conflictingObjects.firstIndex(of: second))
        #expect(conflict.conflictingSnapshots[place]?["note"] == .string("n"))
        #expect(conflict.conflictingSnapshots[1 - place] == nil)
    }

    @Test("CD-45: a model with constraints has another version hash")
    func versionHash() throws {
        #expect(try Self.model().versionHash != Self.model(isUnique: false).versionHash)
    }

    @Test("A constraint is of attributes, and of one at least")
    func refusedModels() {
        for constraint in [["other"], []] {
            #expect(throws: ModelError.self) {
                try ManagedObjectModel(entities: [
                    EntityDescription(
                        "A", relationships: [.init("other", to: "A")],
                        uniquenessConstraints: [constraint])
                ])
            }
        }
    }
}
