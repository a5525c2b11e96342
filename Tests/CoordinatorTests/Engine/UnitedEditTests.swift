import Coordinator
import Merge
import Testing

/// One save that edits one and deletes another of two objects that have become one.
@Suite("Edits and deletes of objects that have become one")
struct UnitedEditTests {
    /// Tags have tasks, and are one by name.
    private static func nodes() throws -> [EngineNode] {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Tag", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [
                    .init("name", .string), .init("note", .string), .init("colour", .string),
                ],
                relationships: [
                    .init("tasks", to: "Task", inverse: "tag", isToMany: true, deleteRule: .cascade)
                ], uniquenessConstraints: [["name"]]),
            EntityDescription(
                "Task", attributes: [.init("title", .string)],
                relationships: [.init("tag", to: "Tag", inverse: "tasks")]),
        ])
        return try [EngineNode(model, node: 1), EngineNode(model, node: 2)]
    }

    /// Two tags of different names, as a context at the first node has them, which become one.
    private static func tags(
        _ nodes: [EngineNode], _ body: ([ManagedObjectID]) throws -> Void
    ) throws -> (shown: ManagedObjectID, eclipsed: ManagedObjectID) {
        let first = try nodes[0].insert("Tag", ["name": .string("b"), "note": .string("one")])
        try nodes[1].take(from: nodes[0])
        let second = try nodes[0].insert("Tag", ["name": .string("a"), "note": .string("two")])
        for tag in [first, second] { try nodes[0].insert("Task", ["tag": .reference(tag.row)]) }
        try body([first, second])
        try nodes[1].update(first, ["name": .string("a")])
        try nodes[0].take(from: nodes[1])
        let shown = try #require([first, second].first { try nodes[0].row($0) != nil })
        return (shown, shown == first ? second : first)
    }

    @Test("An object that has become one with another has its conflict of keys settled by a policy")
    func keysOfUnited() throws {
        for isOwn in [false, true] {
            let nodes = try Self.nodes()
            let context = nodes[0].coordinator.newBackgroundContext()
            context.mergePolicy =
                isOwn
                ? ContextPolicyTests.Policy(.mergeByPropertyObjectTrump)
                : .mergeByPropertyObjectTrump
            var objects: [ManagedObjectID: ManagedObject] = [:]
            let (_, eclipsed) = try Self.tags(nodes) { tags in
                try context.performAndWait {
                    for tag in tags { objects[tag] = try context.existingObject(with: tag) }
                }
            }
            try nodes[0].insert("Tag", ["name": .string("taken")])
            try context.performAndWait {
                objects[eclipsed]?["name"] = "taken"
                try context.save()
            }
        }
    }

    @Test(
        "What is edited by the name of one is not deleted by the name of the other",
        arguments: [true, false],
        [MergePolicy.mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump, .overwrite])
    func inContext(isShownDeleted: Bool, policy: MergePolicy) throws {
        let nodes = try Self.nodes()
        let context = nodes[0].coordinator.newBackgroundContext()
        context.mergePolicy = ContextMergePolicy(merge: policy)
        var objects: [ManagedObjectID: ManagedObject] = [:]
        let (shown, eclipsed) = try Self.tags(nodes) { tags in
            try context.performAndWait {
                for tag in tags { objects[tag] = try context.existingObject(with: tag) }
            }
        }
        let (edited, deleted) = isShownDeleted ? (eclipsed, shown) : (shown, eclipsed)
        try context.performAndWait {
            objects[edited]?["colour"] = "red"
            try context.delete(#require(objects[deleted]))
            try context.save()
            #expect(objects[shown]?.managedObjectContext === context)
            #expect(objects[shown]?.isDeleted == false)
            #expect(objects[eclipsed]?.managedObjectContext == nil)
        }
        #expect(try nodes[0].value(shown, "colour") == .string("red"))
        // The context's own cascade reaches what it reads there, by now of both.
        #expect(try nodes[0].members(shown, "tasks").count == (isShownDeleted ? 0 : 2))
        let entries = try nodes[0].conflicts(kind: .save, isOpen: false)
        #expect(
            entries.contains { entry in
                entry.id.row == shown.row && entry.sides.last?.isDeleted == true
                    && entry.sides.last?.isVisible == false
            })
        #expect(!entries.contains { $0.sides.contains { $0.isDeleted && $0.isVisible } })
        #expect(try nodes[0].coordinator.verify().isOK)
        try exchange(nodes[0], nodes[1])
        #expect(try nodes[1].value(shown, "colour") == .string("red"))
    }

    @Test("Nor in the other order, as HTTP takes them", arguments: [true, false])
    func inOrder(isDeleteFirst: Bool) throws {
        let nodes = try Self.nodes()
        var operations: [SaveOperation] = []
        let (shown, eclipsed) = try Self.tags(nodes) { tags in
            let versions = try tags.map { try nodes[0].row($0)?.version }
            operations = [
                try nodes[0].deletion(tags[0], version: versions[0]),
                try nodes[0].change(tags[1], ["colour": .string("red")], version: versions[1]),
            ]
        }
        if !isDeleteFirst { operations.reverse() }
        let result = try nodes[0].save(
            SaveRequest(operations: operations, mergePolicy: .mergeByPropertyObjectTrump))
        #expect(result.rows.contains { $0.objectID == shown && $0.version != nil })
        #expect(result.rows.contains { $0.objectID == eclipsed && $0.version == nil })
        #expect(try nodes[0].value(shown, "colour") == .string("red"))
        #expect(try nodes[0].members(shown, "tasks").count == 2)
        try exchange(nodes[0], nodes[1])
    }

    @Test(
        "Under the error policy a save that has not seen that they are one fails",
        arguments: [true, false])
    func underError(isDeleteFirst: Bool) throws {
        let nodes = try Self.nodes()
        var versions: [ManagedObjectID: RowVersion] = [:]
        let (shown, eclipsed) = try Self.tags(nodes) { tags in
            for tag in tags { versions[tag] = try nodes[0].row(tag)?.version }
        }
        var operations = [
            try nodes[0].change(
                shown, ["colour": .string("red")], version: nodes[0].row(shown)?.version),
            try nodes[0].deletion(eclipsed, version: versions[eclipsed]),
        ]
        if isDeleteFirst { operations.reverse() }
        let code = try nodes[0].code { try nodes[0].save(SaveRequest(operations: operations)) }
        #expect(code == .mergeConflict)
        #expect(try nodes[0].value(shown, "colour") == .null)
        #expect(try nodes[0].members(shown, "tasks").count == 2)
    }

    // The journal told what the first of them wrote, which nobody ever saw.
    @Test(
        "Edits of one property by the names of both are reported as what stands",
        arguments: [true, false])
    func bothEdited(isShownFirst: Bool) throws {
        let nodes = try Self.nodes()
        var versions: [ManagedObjectID: RowVersion] = [:]
        let (shown, eclipsed) = try Self.tags(nodes) { tags in
            for tag in tags { versions[tag] = try nodes[0].row(tag)?.version }
        }
        try nodes[0].update(shown, ["note": .string("meanwhile")])
        var operations = [
            try nodes[0].change(shown, ["note": .string("by one")], version: versions[shown]),
            try nodes[0].change(
                eclipsed, ["note": .string("by the other")], version: versions[eclipsed]),
        ]
        if !isShownFirst { operations.reverse() }
        try nodes[0].save(
            SaveRequest(operations: operations, mergePolicy: .mergeByPropertyObjectTrump))
        let stands = try nodes[0].value(shown, "note")
        var told: [PropertyValue] = []
        for side in try nodes[0].conflicts(kind: .save, isOpen: false).flatMap(\.sides)
        where side.isVisible && side.dot != nil {
            told += side.row.filter { $0.name == "note" }.map(\.value)
        }
        #expect(!told.isEmpty && told.allSatisfy { $0 == stands }, "\(stands) \(told)")
        try exchange(nodes[0], nodes[1])
        #expect(try nodes[1].value(shown, "note") == stands)
    }

    @Test("A save that deletes what it updates by one name is malformed still")
    func byOneName() throws {
        let nodes = try Self.nodes()
        let (shown, _) = try Self.tags(nodes) { _ in }
        let code = try nodes[0].code {
            try nodes[0].save(
                nodes[0].deletion(shown), nodes[0].change(shown, ["colour": .string("red")]))
        }
        #expect(code == .malformed)
        #expect(try nodes[0].row(shown) != nil)
    }

    @Test(
        "A context that leads a reference to the one that is not shown has the other after its save",
        arguments: [true, false])
    func ledReference(isInsert: Bool) throws {
        let nodes = try Self.nodes()
        let context = nodes[0].coordinator.newBackgroundContext()
        context.mergePolicy = .mergeByPropertyObjectTrump
        let other = try nodes[0].insert("Task")
        try context.performAndWait {
            let task = try isInsert ? context.insert("Task") : context.existingObject(with: other)
            #expect(task["title"] == PropertyValue.null)
            let (shown, eclipsed) = try Self.tags(nodes) { _ in }
            task["tag"] = PropertyValue.reference(eclipsed.row)
            try context.save()
            #expect(try nodes[0].value(task.objectID, "tag") == .reference(shown.row))
            #expect(task["tag"] == PropertyValue.reference(shown.row))
        }
    }
}
