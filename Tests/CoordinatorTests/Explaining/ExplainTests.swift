import Coordinator
import Merge
import Testing

/// Blame, an object's log, and what differs between two points.
@Suite struct ExplainTests {
    let a: EngineNode
    let b: EngineNode

    init() throws { (a, b) = try EngineNode.pair() }

    private func blame(
        _ id: ManagedObjectID, _ property: String, on node: EngineNode? = nil
    ) throws -> ObjectBlame.Property {
        let node = node ?? a
        let blame = try node.coordinator.read { try $0.blame(id, property: property) }
        return try #require(blame.properties.first)
    }

    @Test("Blame tells who wrote a value, what he had seen, and what it replaced")
    func blame() throws {
        let id = try a.insert("Note", ["r": .string("first")])
        let write = try a.save(
            SaveRequest(
                operations: [try a.change(id, ["r": .string("second")])], author: "anna",
                contextName: "desk", saveID: "s1", note: "typo"))
        let found = try blame(id, "r")
        #expect(found.value == .string("second"))
        #expect(found.write?.dot == write.transaction)
        #expect(found.write?.description.author == "anna")
        #expect(found.write?.description.contextName == "desk")
        #expect(found.write?.description.note == "typo" && found.write?.saveID == "s1")
        #expect(found.write?.seen == write.seen)
        #expect(found.previous?.value == .string("first"))
        #expect(found.beaten.isEmpty)
        #expect(found.remedy == .save(try #require(write.transaction)))
        let untouched = try blame(id, "p")
        #expect(untouched.previous == nil && untouched.remedy == nil)
        let whole = try a.coordinator.read { try $0.blame(id) }
        #expect(whole.isAlive && whole.inserted?.dot == untouched.write?.dot)
        #expect(whole.properties.count == (try a.entity("Note")).properties.count)
    }

    @Test("Blame tells what a value beat, and by which conflict that is undone")
    func beaten() throws {
        let id = try a.insert("Note")
        try b.take(from: a)
        try a.update(id, ["r": .string("one"), "p": .string("one")], author: "anna")
        try b.update(id, ["r": .string("two"), "p": .string("two")], author: "bob")
        try exchange(a, b)
        for node in [a, b] {
            let settled = try blame(id, "r", on: node)
            #expect(settled.value == .string("two") && settled.beaten.count == 1)
            let loser = try #require(settled.beaten.first)
            #expect(loser.side.value == .string("one") && loser.side.author == "anna")
            #expect(loser.explanation.rule == .latest)
            #expect(settled.remedy == .conflict(loser.conflict))
            let undecided = try blame(id, "p", on: node)
            #expect(undecided.beaten.first?.state == .unresolved)
            #expect(undecided.beaten.first?.side.value == .string("two"))
        }
        let conflict = try #require(
            try a.conflicts(kind: .update).first { $0.property == "p" })
        let result = try a.coordinator.resolve(conflict.id, .values(["p": .string("three")]))
        let decided = try blame(id, "p")
        #expect(decided.write?.dot == result.transaction)
        #expect(decided.beaten.compactMap(\.side.value).count == 2)
        #expect(decided.beaten.allSatisfy { $0.state == .resolved })
    }

    @Test("Blame tells who deleted an object, also once its tombstone is gone")
    func deleted() throws {
        let id = try a.insert("Tag", ["name": .string("x")])
        let delete = try a.delete(id)
        for isCollected in [false, true] {
            if isCollected {
                let token = try a.coordinator.currentToken
                _ = try a.coordinator.collect(stable: token.versionVector)
            }
            let gone = try a.coordinator.read { try $0.blame(id) }
            #expect(!gone.isAlive && gone.deleted?.dot == delete.transaction)
            #expect(gone.properties.isEmpty && gone.inserted != nil)
        }
        let never = ManagedObjectID(entityName: "Tag", row: RowID(12_345))
        let error = #expect(throws: CoordinatorError.self) {
            try a.coordinator.read { try $0.blame(never) }
        }
        #expect(error?.code == .objectNotFound)
    }

    @Test(
        "An object's log has its saves with those that each follows, and branches where none saw the other"
    )
    func log() throws {
        let id = try a.insert("Note")
        try b.take(from: a)
        let one = try #require(try a.update(id, ["r": .string("one")]).transaction)
        let two = try #require(try b.update(id, ["r": .string("two")]).transaction)
        try a.insert("Tag")
        try exchange(a, b)
        let join = try #require(try a.update(id, ["r": .string("three")]).transaction)
        try b.take(from: a)
        for node in [a, b] {
            let log = try node.coordinator.read { try $0.log(of: id) }
            #expect(log.isComplete && log.entries.count == 4)
            let after = Dictionary(
                uniqueKeysWithValues: log.entries.map { ($0.transaction.dot, $0.after) })
            let insert = try #require(log.entries.first?.transaction.dot)
            #expect(after[insert] == [])
            #expect(after[one] == [insert] && after[two] == [insert])
            #expect(Set(after[join] ?? []) == [one, two])
            #expect(
                log.entries.allSatisfy { entry in
                    entry.transaction.changes.allSatisfy { $0.row == id.row }
                })
        }
        let newest = try a.coordinator.read { try $0.log(of: id, limit: 2) }
        #expect(newest.entries.count == 2 && !newest.isComplete)
        #expect(newest.entries.last?.transaction.dot == join)
    }

    @Test("An object's log has what batches wrote by ranges, and links from either end")
    func runsAndLinks() throws {
        let ids = try (0..<5).map { _ in try a.insert("Tag", ["name": .string("x")]) }
        let operations = try ids.map { try a.change($0, ["color": .string("red")]) }
        _ = try a.save(SaveRequest(operations: operations))
        let batch = BatchUpdateRequest("Tag", propertiesToUpdate: ["color": .string("blue")])
        _ = try a.coordinator.execute(batch)
        for id in ids {
            let log = try a.coordinator.read { try $0.log(of: id) }
            #expect(log.entries.count == 3 && log.isComplete)
            let last = try #require(log.entries.last?.transaction.changes)
            #expect(last.map(\.values) == [[.string("blue")]])
        }
        let note = try a.insert("Note")
        try a.update(note, [:], [.add(ids[0].row, to: "tags")])
        for id in [note, ids[0]] {
            let log = try a.coordinator.read { try $0.log(of: id) }
            #expect(log.entries.last?.transaction.changes.first?.kind == .link)
        }
    }

    @Test(
        "A difference has what was added, changed and deleted between two points, and nothing else")
    func difference() throws {
        let changed = try a.insert("Tag", ["name": .string("x")])
        let deleted = try a.insert("Tag")
        let untouched = try a.insert("Tag")
        let from = try a.vector
        let added = try a.insert("Note", ["p": .string("new")])
        try a.update(changed, ["name": .string("y")])
        try a.update(changed, ["name": .string("z")])
        try a.delete(deleted)
        let passing = try a.insert("Tag")
        try a.delete(passing)
        let to = try a.vector
        let all = try a.coordinator.read { try $0.difference(from: from, to: to) }
        let kinds = Dictionary(uniqueKeysWithValues: all.map { ($0.object, $0.kind) })
        #expect(kinds == [added: .insert, changed: .update, deleted: .delete])
        #expect(kinds[untouched] == nil)
        let update = try #require(all.first { $0.object == changed })
        #expect(update.values == ["name": .string("z")] && update.transactions.count == 2)
        // From later on it is as it was then.
        try a.update(changed, ["name": .string("later")])
        let then = try a.coordinator.read { try $0.difference(from: from, to: to, entity: "Tag") }
        #expect(then.map(\.object) == [changed, deleted].sorted { $0.row < $1.row })
        #expect(then.first { $0.object == changed }?.values == ["name": .string("z")])
        // The other way round nothing is missing.
        let back = try a.coordinator.read { try $0.difference(from: to, to: from) }
        #expect(back.isEmpty)
    }

    @Test("A difference is from what another node has, whatever came between")
    func nodes() throws {
        let id = try a.insert("Tag")
        try b.take(from: a)
        try b.insert("Tag")
        let theirs = try b.vector
        try a.update(id, ["name": .string("x")])
        try a.take(from: b)
        let own = try a.vector
        let missing = try a.coordinator.read { try $0.difference(from: theirs, to: own) }
        #expect(missing.map(\.object) == [id] && missing.first?.kind == .update)
    }

    @Test(
        "A policy that is tried tells what it would have shown, of open and closed conflicts alike")
    func trial() throws {
        func dispute(_ property: String) throws {
            let id = try a.insert("Note")
            try b.take(from: a)
            try a.update(id, [property: .string("one")])
            try b.update(id, [property: .string("two")])
            try exchange(a, b)
        }
        for _ in 0..<2 { try dispute("r") }
        try dispute("p")
        let resolved = try #require(try a.conflicts(kind: .update).first { $0.property == "p" })
        _ = try a.coordinator.resolve(resolved.id, .sideNumber(2))
        func tried(_ policy: MergePolicy, _ property: String? = nil) throws -> PolicyTrial {
            try a.coordinator.read {
                try $0.tryPolicy(policy, entity: "Note", property: property, limit: 10)
            }
        }
        // r shows the latest, p showed the earliest before it was resolved.
        let latest = try tried(.mergeByPropertyObjectTrump)
        #expect(latest.looked == 3 && latest.changed == 1)
        #expect(latest.changes.first?.conflict.property == "p")
        #expect(latest.changes.first?.would?.value == .string("two"))
        let earliest = try tried(.mergeByPropertyStoreTrump, "r")
        #expect(earliest.looked == 2 && earliest.changed == 2)
        let undecided = try tried(.error, "r")
        #expect(undecided.changed == 2 && undecided.changes.allSatisfy { $0.would == nil })
        let error = #expect(throws: CoordinatorError.self) { try tried(.overwrite, "nonsense") }
        #expect(error?.code == .malformed)
    }

    @Test(
        "Of a row that is written as a whole, blame and undo name the save that gave a property its value"
    )
    func rowGrained() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Box", mergePolicy: .overwrite,
                attributes: [.init("phone", .string), .init("age", .integer64)])
        ])
        let node = try EngineNode(model)
        let id = try node.insert("Box", ["phone": .string("1"), "age": .integer(1)])
        let ada = try node.update(id, ["phone": .string("2")], author: "ada")
        let bob = try node.update(id, ["age": .integer(2)], author: "bob")
        let blame = try node.coordinator.read { try $0.blame(id) }
        let entity = try node.entity("Box")
        func told(_ name: String) throws -> ObjectBlame.Property {
            try #require(blame.properties.first { entity.properties[$0.position].name == name })
        }
        #expect(try told("phone").write?.dot == ada.transaction)
        #expect(try told("phone").previous?.value == .string("1"))
        #expect(try told("age").write?.dot == bob.transaction)
        #expect(try told("age").previous?.value == .integer(1))
        let plan = try node.coordinator.read {
            try $0.undoing([ada.transaction].compactMap(\.self))
        }
        #expect(plan.newer.isEmpty)
        #expect(plan.restored.first?.values == ["phone": .string("1")])
    }
}
