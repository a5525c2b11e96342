import Coordinator
import Merge
import Testing

/// Undoing a save: what it replaced comes back, where nothing newer stands.
@Suite struct SaveUndoingTests {
    let a: EngineNode

    init() throws { a = try EngineNode() }

    @discardableResult
    private func undo(_ dots: [Dot?], force: Bool = false) throws -> UndoPlan {
        let dots = dots.compactMap(\.self)
        let plan = try a.coordinator.read { try $0.undoing(dots, force: force) }
        let operations = plan.operations(a.model)
        if !operations.isEmpty { _ = try a.save(SaveRequest(operations: operations)) }
        return plan
    }

    @Test("Values come back, inserted objects go, and deleted ones return")
    func whole() throws {
        let changed = try a.insert("Tag", ["name": .string("x"), "color": .string("red")])
        let deleted = try a.insert("Tag", ["name": .string("y"), "color": .string("blue")])
        let result = try a.save(
            try a.insertion("Tag", -1, ["name": .string("new")]),
            try a.change(changed, ["name": .string("z")]), try a.deletion(deleted))
        let inserted = ManagedObjectID(
            entityName: "Tag", row: try #require(result.insertedRows.first).row)
        let plan = try undo([result.transaction])
        #expect(plan.newer.isEmpty && plan.lost.isEmpty && plan.restored.count == 3)
        #expect(try a.value(changed, "name") == .string("x"))
        #expect(try a.value(changed, "color") == .string("red"))
        #expect(try a.row(inserted) == nil)
        #expect(try a.value(deleted, "name") == .string("y"))
        #expect(try a.value(deleted, "color") == .string("blue"))
        #expect(try a.coordinator.verify().isOK)
    }

    @Test("What was written since is named and left alone, unless it is to be written over")
    func newer() throws {
        let id = try a.insert("Tag", ["name": .string("x"), "color": .string("red")])
        let other = try a.insert("Tag", ["name": .string("kept")])
        let save = try a.save(
            try a.change(id, ["name": .string("y"), "color": .string("blue")]),
            try a.change(other, ["name": .string("changed")]),
            try a.insertion("Tag", -1, ["name": .string("new")]))
        let inserted = ManagedObjectID(
            entityName: "Tag", row: try #require(save.insertedRows.first).row)
        let later = try a.update(id, ["name": .string("z")], author: "bob")
        try a.update(inserted, ["color": .string("used")])
        let plan = try undo([save.transaction])
        let named = try #require(plan.newer.first { $0.object == id })
        #expect(named.properties == ["name"] && named.write.dot == later.transaction)
        #expect(named.write.description.author == "bob")
        #expect(plan.newer.contains { $0.object == inserted && $0.properties.isEmpty })
        #expect(try a.value(id, "name") == .string("z"))
        #expect(try a.value(id, "color") == .string("red"))
        #expect(try a.value(other, "name") == .string("kept"))
        #expect(try a.row(inserted) != nil)
        let forced = try undo([save.transaction], force: true)
        #expect(forced.newer.isEmpty)
        #expect(try a.value(id, "name") == .string("x"))
        #expect(try a.row(inserted) == nil)
    }

    @Test("An undo can be undone")
    func twice() throws {
        let id = try a.insert("Note", ["p": .string("first")])
        let save = try a.update(id, ["p": .string("second")])
        _ = try undo([save.transaction])
        #expect(try a.value(id, "p") == .string("first"))
        let last = try a.coordinator.currentToken.versionVector
        let own = try #require(a.coordinator.actor)
        _ = try undo([Dot(actor: own, sequence: last[own])])
        #expect(try a.value(id, "p") == .string("second"))
    }

    @Test("Links that were made go, and those taken away come back")
    func links() throws {
        let note = try a.insert("Note")
        let (one, two) = (try a.insert("Tag"), try a.insert("Tag"))
        try a.update(note, [:], [.add(one.row, to: "tags")])
        let save = try a.update(
            note, [:], [.add(two.row, to: "tags"), .remove(one.row, from: "tags")])
        _ = try undo([save.transaction])
        let entity = try a.entity("Note")
        let tags = try #require(entity.relationship(named: "tags"))
        let members = try a.coordinator.read {
            try $0.members(of: tags, entity: entity, row: note.row)
        }
        #expect(members == [one])
    }

    @Test("All parts of a batch request are undone by its save ID, as one")
    func batches() throws {
        let ids = try (0..<7).map { try a.insert("Tag", ["name": .string("n\($0)")]) }
        let b = try EngineNode(a.model, node: 9) { $0.objectsInBatchTransaction = 3 }
        try b.take(from: a)
        var request = BatchUpdateRequest("Tag", propertiesToUpdate: ["name": .string("same")])
        request.options.saveID = "all-the-same"
        let result = try b.coordinator.execute(request)
        #expect(result.count == 7)
        let dots = try b.coordinator.read { try $0.saves(named: "all-the-same") }
        #expect(dots.count == 3)
        let plan = try b.coordinator.read { try $0.undoing(dots) }
        #expect(plan.restored.count == 7)
        _ = try b.save(SaveRequest(operations: plan.operations(b.model)))
        for (index, id) in ids.enumerated() {
            let value = try b.value(id, "name")
            #expect(value == .string("n\(index)"))
        }
        let error = #expect(throws: CoordinatorError.self) {
            try b.coordinator.read { try $0.saves(named: "nothing") }
        }
        #expect(error?.code == .objectNotFound)
    }

    @Test("A resolution that is undone shows what was shown before it")
    func resolution() throws {
        let b = try EngineNode(a.model, node: 2)
        let id = try a.insert("Note")
        try b.take(from: a)
        try a.update(id, ["p": .string("one")])
        try b.update(id, ["p": .string("two")])
        try exchange(a, b)
        let conflict = try a.onlyConflict()
        let resolved = try a.coordinator.resolve(conflict.id, .sideNumber(2))
        #expect(try a.value(id, "p") == .string("two"))
        _ = try undo([resolved.transaction])
        #expect(try a.value(id, "p") == .string("one"))
    }

    @Test("A reference to what is gone, and a value that history has lost, are named")
    func lost() async throws {
        let folder = try a.insert("Folder")
        let note = try a.insert("Note", ["folder": .reference(folder.row), "p": .string("old")])
        let save = try a.update(note, ["folder": .null])
        try a.delete(folder)
        let plan = try undo([save.transaction])
        #expect(plan.lost.map(\.property) == ["folder"] && plan.restored.isEmpty)
        let token = try a.coordinator.currentToken
        _ = try await a.coordinator.purgeHistory(before: token, stable: token.versionVector)
        let later = try a.update(note, ["p": .string("new")])
        let second = try undo([later.transaction])
        #expect(second.lost.map(\.property) == ["p"] && second.restored.isEmpty)
        let error = #expect(throws: CoordinatorError.self) { try undo([save.transaction]) }
        #expect(error?.code == .historyTokenExpired)
    }

    @Test(
        "An inserted object stays where others refer to it by later saves, and a cascade takes nothing newer"
    )
    func referred() throws {
        let save = try a.save(try a.insertion("Folder", -1, ["name": .string("new")]))
        let folder = ManagedObjectID(
            entityName: "Folder", row: try #require(save.insertedRows.first).row)
        let later = try a.save(
            try a.insertion("Note", -1, ["folder": .reference(folder.row), "p": .string("newer")]))
        let note = ManagedObjectID(
            entityName: "Note", row: try #require(later.insertedRows.first).row)
        let plan = try undo([save.transaction])
        #expect(plan.restored.isEmpty)
        #expect(plan.newer.map(\.object) == [folder] && plan.newer.first?.properties == ["notes"])
        #expect(plan.newer.first?.write.dot == later.transaction)
        #expect(try a.row(note) != nil && a.row(folder) != nil)
        // What one save inserted goes as one.
        let both = try undo([save.transaction, later.transaction])
        #expect(both.newer.isEmpty && both.restored.count == 2)
        #expect(try a.row(note) == nil && a.row(folder) == nil)
    }

    @Test("A write that stands beside is nobody's to decide: it is named, and the conflict stays")
    func beside() throws {
        let b = try EngineNode(a.model, node: 2)
        let id = try a.insert("Note", ["p": .string("first")])
        try b.take(from: a)
        let ours = try a.update(id, ["p": .string("one")])
        let theirs = try b.update(id, ["p": .string("two")])
        try exchange(a, b)
        let plan = try undo([ours.transaction])
        #expect(plan.restored.isEmpty && plan.newer.map(\.write.dot) == [theirs.transaction])
        #expect(try a.onlyConflict().state == .unresolved)
    }

    @Test(
        "What was shown before comes back at every node, whatever order the saves came in",
        arguments: ["Folder", "Tag"])
    func concurrentBefore(_ entity: String) throws {
        // Folder shows the earliest, Tag the latest.
        let b = try EngineNode(a.model, node: 2)
        let id = try a.insert(entity)
        try b.take(from: a)
        try a.update(id, ["name": .string("one")])
        try b.update(id, ["name": .string("two")])
        try exchange(a, b)
        let shown = try a.value(id, "name")
        for node in [a, b] {
            let token = try node.coordinator.currentToken
            _ = try node.coordinator.collect(stable: token.versionVector)
        }
        let save = try a.update(id, ["name": .string("three")])
        try b.take(from: a)
        for node in [a, b] {
            let dot = try #require(save.transaction)
            let plan = try node.coordinator.read { try $0.undoing([dot]) }
            #expect(plan.restored.first?.values["name"] == shown)
        }
    }

    @Test("A plan that has moved on is refused, also of a deleted object that came back")
    func movedOn() async throws {
        let id = try a.insert("Tag", ["name": .string("x")])
        let delete = try #require(try a.delete(id).transaction)
        let plan = try a.coordinator.read { try $0.undoing([delete]) }
        let entity = try a.entity("Tag")
        _ = try a.save(
            SaveRequest(operations: [
                SaveOperation(
                    kind: .update, entity: entity, row: id.row,
                    values: try a.values("Tag", ["name": .string("edited")]), resolves: true)
            ]))
        #expect(try a.value(id, "name") == .string("edited"))
        await #expect(throws: CoordinatorError.self) {
            _ = try await a.coordinator.undo(plan, by: SaveDescription())
        }
        #expect(try a.value(id, "name") == .string("edited"))
    }

    @Test("Only an import's own ID stands for its parts, and no beginning of others")
    func names() throws {
        for name in ["nightly-1", "nightly-2"] {
            var request = SaveRequest(operations: [try a.insertion("Tag")])
            request.saveID = name
            _ = try a.save(request)
        }
        #expect(throws: CoordinatorError.self) {
            try a.coordinator.read { try $0.saves(named: "nightly") }
        }
        let run = "import-0F14569F-65A5-4168-86DF-6D0606E5690B"
        for part in 1...2 {
            var request = SaveRequest(operations: [try a.insertion("Tag")])
            request.saveID = "\(run)-\(part)"
            _ = try a.save(request)
        }
        let found = try a.coordinator.read { try $0.saves(named: run) }
        #expect(found.count == 2)
    }
}
