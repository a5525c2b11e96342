import GRDB
import Merge
import Synchronization
import Testing

@testable import Coordinator

/// Collection, and what must not show of it: MODEL.md's examples on real stores,
/// with collection on one node only.
@Suite struct CollectionTests {
    private let x: EngineNode
    private let y: EngineNode

    init() throws { (x, y) = try EngineNode.pair() }

    /// Collects all that a vector permits, and expects that nothing shows of it.
    @discardableResult
    private func collect(
        _ node: EngineNode, _ stable: VersionVector? = nil
    ) throws -> CollectionResult {
        let digest = try node.coordinator.currentDigest
        let result = try node.coordinator.collect(stable: try stable ?? node.vector)
        #expect(result.isDone)
        #expect(try node.coordinator.currentDigest == digest)
        let report = try node.coordinator.verify()
        #expect(report.isOK, "\(report.differences)")
        return result
    }

    private func count(_ node: EngineNode, _ table: String) throws -> Int? {
        try node.coordinator.read {
            try Int.fetchOne($0.database, sql: "SELECT count(*) FROM \(EntityTable.quote(table))")
        }
    }

    /// An object that both nodes have, and have changed at the same time, first one, then the
    /// other.
    private func contested(
        _ entity: String, _ property: String, _ first: PropertyValue = .string("a"),
        _ second: PropertyValue = .string("b")
    ) throws -> ManagedObjectID {
        let id = try x.insert(entity)
        try exchange(x, y)
        try x.update(id, [property: first])
        try y.update(id, [property: second])
        try exchange(x, y)
        return id
    }

    private func delete(_ id: ManagedObjectID, at node: EngineNode) throws {
        try node.delete(id)
        try exchange(x, y)
    }

    // MARK: Collapse

    @Test(
        "Collapse keeps value, version and digest under every policy, and the journal the loser",
        arguments: [
            ("Folder", "name", "b", ConflictKind.update), ("Tag", "name", "a", .update),
            ("Note", "r", "a", .update), ("Person", "name", "b", .row),
            ("Passport", "number", "a", .row),
        ])
    func settled(entity: String, property: String, loser: String, kind: ConflictKind) throws {
        let id = try contested(entity, property)
        let before = try #require(try x.row(id))
        let open = try x.onlyConflict()
        let result = try collect(x)
        #expect(result.siblingsCollapsed == 1 && result.conflictsSettled == 1)
        #expect(try x.row(id) == before)
        #expect(before.version.dots.count == 2)
        #expect(try x.conflicts().isEmpty)
        let closed = try #require(try x.conflicts(isOpen: false).first)
        #expect(closed.state == .settled && closed.closedBy == nil && closed.kind == kind)
        #expect(closed.openedAt == open.openedAt && closed.id.closedAt != nil)
        let side = try #require(closed.sides.first { !$0.isVisible })
        let value = side.value ?? side.row.first { $0.name == property }?.value
        #expect(value == .string(loser) && side.dot != nil && side.timestamp != nil)
        #expect(closed.sides == open.sides)
        // The other node, which has not collected, is the same, and stays so.
        #expect(try y.row(id) == before)
        #expect(try y.onlyConflict().id.description == open.id.description)
        try x.update(id, [property: .string("c")])
        try exchange(x, y)
        try x.reopen()
        #expect(try x.coordinator.verify().isOK)
    }

    @Test(
        "P1: unresolved conflicts stay, and equal nodes list the same",
        arguments: [
            ("Note", "p"), ("Sheet", "x"),
        ])
    func unresolved(entity: String, property: String) throws {
        let id = try contested(entity, property)
        let before = try x.onlyConflict()
        #expect(try collect(x) == CollectionResult())
        #expect(try x.onlyConflict() == before)
        #expect(try x.onlyConflict().sides == y.onlyConflict().sides)
        #expect(try x.row(id)?.isConflicted == true)
        #expect(try count(x, "_uncollected") == 0)
    }

    @Test("Equal values written at the same time join, and leave nothing in the journal")
    func equal() throws {
        _ = try contested("Sheet", "x", .string("same"), .string("same"))
        _ = try contested("Note", "p", .string("same"), .string("same"))
        #expect(try collect(x).siblingsCollapsed == 2)
        #expect(try x.conflicts(isOpen: nil).isEmpty)
        try exchange(x, y)
    }

    @Test(
        "P2: a version is what it was after collapse, so that nobody saves over the unseen",
        arguments: [("Folder", "name", "size"), ("Person", "name", "age")])
    func version(entity: String, property: String, other: String) throws {
        let id = try x.insert(entity)
        try exchange(x, y)
        try x.update(id, [property: .string("a")])
        let read = try x.version(id)
        try y.update(id, [other: .integer(8)])
        try exchange(x, y)
        try collect(x)
        #expect(try x.row(id)?.version == y.row(id)?.version)
        let code = try x.code { try x.update(id, [property: .string("c")], version: read) }
        #expect(code == .mergeConflict)
    }

    // MARK: Tombstones

    @Test("P4: a tombstone waits for all siblings of its existence, not for the delete alone")
    func early() throws {
        let z = try EngineNode(x.model, node: 3)
        let id = try x.insert("Person", ["name": .string("old")])
        try exchange(x, y, z)
        try x.delete(id)
        try z.take(from: x)
        try y.update(id, ["age": .integer(6)])
        try x.take(from: y)
        #expect(try x.row(id) == nil)
        #expect(try collect(x, try z.vector).tombstonesCollected == 0)
        try z.update(id, ["name": .string("new")], resolves: true)
        try exchange(x, y, z)
        #expect(try x.row(id) == y.row(id))
        #expect(try collect(x).tombstonesCollected == 0)
    }

    @Test(
        "P5: an undo brings a collected row back whole, from the journal",
        arguments: [
            "Folder", "Person",
        ])
    func revival(entity: String) throws {
        let id = try x.insert(entity, ["name": .string("kept")])
        try exchange(x, y)
        try x.delete(id)
        let change: [String: PropertyValue] =
            entity == "Folder" ? ["size": .integer(9)] : ["age": .integer(9)]
        try y.update(id, change)
        try exchange(x, y)
        #expect(try x.row(id) == nil)
        #expect(try collect(x).tombstonesCollected == 1)
        #expect(try count(x, "_tombstone") == 0)
        let closed = try #require(try x.conflicts(kind: .delete, isOpen: false).first)
        try x.undo(closed.id)
        try exchange(x, y)
        #expect(try x.value(id, "name") == .string("kept"))
        for (name, value) in change { #expect(try y.value(id, name) == value) }
    }

    @Test("P5: so it does where somebody had decided for the delete")
    func revivalAfterDecision() throws {
        let id = try x.insert("Note", ["p": .string("kept"), "q": .integer(1)])
        try exchange(x, y)
        try x.delete(id)
        try y.update(id, ["q": .integer(9)])
        try exchange(x, y)
        let open = try x.onlyConflict()
        #expect(open.state == .unresolved && open.kind == .delete)
        try x.resolve(open.id, .delete)
        try exchange(x, y)
        #expect(try x.row(id) == nil)
        for node in [x, y] {
            #expect(try collect(node).tombstonesCollected == 1)
            let closed = try #require(try node.conflicts(kind: .delete, isOpen: false).first)
            #expect(closed.state == .resolved)
        }
        let closed = try #require(try y.conflicts(kind: .delete, isOpen: false).first)
        try y.undo(closed.id)
        try exchange(x, y)
        #expect(try x.value(id, "p") == .string("kept"))
        #expect(try x.value(id, "q") == .integer(9))
        #expect(try x.row(id) == y.row(id))
    }

    @Test("What is deleted for good and not whole in the journal is not brought back")
    func gone() throws {
        let id = try contested("Folder", "name")
        let update = try x.onlyConflict().id
        try delete(id, at: x)
        try collect(x)
        let closed = try #require(
            try x.conflicts(isOpen: false).first { $0.id.subject == update.subject })
        #expect(try x.code { try x.undo(closed.id) } == .objectNotFound)
        #expect(try x.code { try x.update(id, ["name": .string("z")]) } == .objectNotFound)
        #expect(try x.coordinator.verify().isOK)
    }

    @Test(
        "What a policy kept over an object of another entity never comes back as one of that",
        arguments: [("Admin", "User"), ("User", "Admin")])
    func revivalOverAnotherEntity(kept: String, refused: String) throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "User", mergePolicy: .mergeByPropertyStoreTrump,
                attributes: [.init("mail", .string), .init("note", .string)],
                uniquenessConstraints: [["mail"]]),
            EntityDescription("Admin", parent: "User", attributes: [.init("badge", .string)]),
        ])
        let (x, y) = try EngineNode.pair(model)
        let id = try x.insert(kept, ["mail": .string("a"), "note": .string("kept")])
        var values: [String: PropertyValue] = ["mail": .string("a"), "note": .string("lost")]
        if refused == "Admin" { values["badge"] = .string("7") }
        try x.save(try x.insertion(refused, -1, values), policy: .rollback)
        let noted = try #require(try x.conflicts(kind: .save, isOpen: false).first)
        #expect(noted.object == id)
        try x.delete(id)
        try exchange(x, y)
        // X alone forgets the row, and with it what it was; Y has its tombstone still.
        #expect(try collect(x).tombstonesCollected == 1)
        let code = try x.code { try x.undo(noted.id) }
        try exchange(x, y)
        // A user was refused with fewer properties than an admin has: that is no whole admin.
        #expect(code == (kept == "Admin" ? .objectNotFound : nil))
        #expect(try x.row(id) == y.row(id))
        #expect(try x.value(id, "note") == (kept == "Admin" ? nil : .string("lost")))
    }

    @Test("P7: a dead row's unresolved values keep nobody apart")
    func quiet() throws {
        let id = try contested("Note", "p")
        try delete(id, at: y)
        #expect(try collect(x).tombstonesCollected == 1)
        try exchange(x, y)
        #expect(try x.conflicts(isOpen: nil).first?.state == .resolved)
    }

    @Test("A settled conflict that closed is undone by its open name, a resolved one is not")
    func undoneByItsOpenName() throws {
        let id = try contested("Folder", "name")
        let settled = try x.onlyConflict().id
        try collect(x)
        _ = try x.coordinator.undo(settled) as SaveResult
        #expect(try x.value(id, "name") == .string("b"))
        _ = try contested("Note", "p")
        let open = try x.onlyConflict()
        _ = try x.coordinator.resolve(open.id, .values(["p": .string("c")])) as SaveResult
        let closed = try #require(try x.conflicts(isOpen: false).first { $0.id.asOpen == open.id })
        #expect(closed.state == .resolved)
        let error = #expect(throws: CoordinatorError.self) {
            _ = try x.coordinator.undo(open.id) as SaveResult
        }
        #expect(error?.code == .conflictNotFound)
        #expect(error?.message.contains("\(closed.id)") ?? false)
    }

    @Test("A decision for a delete that is collected elsewhere is no alarm, and counts")
    func lateDelete() throws {
        let id = try x.insert("Folder", ["name": .string("n")])
        try exchange(x, y)
        try x.delete(id)
        try y.update(id, ["size": .integer(9)])
        try exchange(x, y)
        try collect(x)
        let closed = try #require(try x.conflicts(kind: .delete, isOpen: false).first)
        // X brings the row back while Y decides that it stays deleted.
        try x.undo(closed.id)
        try y.resolve(try y.onlyConflict().id, .delete)
        try exchange(x, y)
        #expect(try x.row(id) == nil)
        // And once more with nothing against it: the word itself goes when it is stable.
        try collect(x)
        try collect(y)
        #expect(try count(x, "_tombstone") == 0)
        try exchange(x, y)
    }

    @Test("To undo a choice of references, of a row and targets deleted for good, is refused")
    func undoOfTrace() throws {
        let id = try x.insert("Folder")
        let owners = [try x.insert("Person"), try x.insert("Person")]
        try exchange(x, y)
        try x.update(id, ["owner": .reference(owners[0].row)])
        try y.update(id, ["owner": .reference(owners[1].row)])
        try exchange(x, y)
        let contested = try x.onlyConflict().id
        try x.delete(id)
        try y.update(id, ["size": .integer(9)])
        try exchange(x, y)
        for owner in owners { try delete(owner, at: x) }
        #expect(try collect(x).tombstonesCollected == 3)
        // Y's word that the row stays deleted leaves a trace of it at X.
        let open = try #require(try y.conflicts(kind: .delete).first { $0.id.row == id.row })
        try y.resolve(open.id, .delete)
        try exchange(x, y)
        let closed = try #require(
            try x.conflicts(isOpen: false).first { $0.id.subject == contested.subject })
        #expect(try x.code { try x.undo(closed.id) } == .objectNotFound)
        #expect(try x.coordinator.verify().isOK)
    }

    @Test("An update of a row that is not there is held and reported")
    func alarm() throws {
        let id = try x.insert("Tag")
        try exchange(x, y)
        try x.delete(id)
        try y.update(id, ["name": .string("late")])
        // Against the rules: not stable at all.
        #expect(try collect(x).tombstonesCollected == 1)
        let result = try x.coordinator.apply(y.transactions.filter { $0.dot.actor.node == y.node })
        #expect(result.rejected.map(\.reason) == ["It changes an object that is not there."])
    }

    // MARK: Links

    @Test("A link taken away goes, one kept against its removal stays, and both can come again")
    func links() throws {
        let one = try x.insert("Tag")
        let other = try x.insert("Tag")
        func change(_ node: EngineNode, _ kind: RelationshipOperation.Kind) throws {
            try node.update(
                one, [:],
                [RelationshipOperation(name: "alike", kind: kind, members: [other.row])])
        }
        try change(x, .add)
        try exchange(x, y)
        try change(x, .remove)
        try change(y, .remove)
        try change(y, .add)
        try exchange(x, y)
        #expect(try x.members(one, "alike") == [other.row])
        let kept = try collect(x)
        #expect(kept.siblingsCollapsed == 2 && kept.conflictsSettled == 2)
        #expect(try x.members(one, "alike") == [other.row])
        try exchange(x, y)

        try change(y, .remove)
        try exchange(x, y)
        #expect(try collect(x).linksCollected == 2)
        #expect(try count(x, "Tag.alike") == 0 && count(y, "Tag.alike") == 2)
        try change(x, .add)
        try exchange(x, y)
        #expect(try y.members(other, "alike") == [one.row])
    }

    @Test("The links of a collected row are back when it is, on every node")
    func linksOfTheDead() throws {
        let tag = try x.insert("Tag", ["name": .string("t")])
        let other = try x.insert("Tag", [:], [.add(tag.row, to: "alike")])
        try exchange(x, y)
        try x.delete(tag)
        try y.update(tag, ["color": .string("red")])
        try exchange(x, y)
        try collect(x)
        let closed = try #require(try x.conflicts(kind: .delete, isOpen: false).first)
        try x.undo(closed.id)
        try exchange(x, y)
        #expect(try x.members(other, "alike") == [tag.row])
        #expect(try y.members(other, "alike") == [tag.row])
    }

    // MARK: Cost

    @Test("A call looks at no more than its limit, and at nothing that cannot have changed")
    func bounded() throws {
        for _ in 0..<7 {
            let id = try x.insert("Tag")
            try x.delete(id)
        }
        let generation = try x.coordinator.currentToken.generation
        // Nothing is stable: nothing is written, and no generation made.
        #expect(try x.coordinator.collect(stable: VersionVector()) == CollectionResult())
        #expect(try x.coordinator.currentToken.generation == generation)
        let vector = try x.vector
        var collected: [Int] = []
        var result = CollectionResult()
        repeat {
            result = try x.coordinator.collect(stable: vector, limit: 3)
            collected.append(result.tombstonesCollected)
        } while !result.isDone
        #expect(collected == [3, 3, 1])
        #expect(try count(x, "_uncollected") == 0)
    }

    @Test("An observer of commits hears of no change, and no transaction")
    func notice() throws {
        _ = try contested("Tag", "name")
        let heard = Mutex<[CommitNotice]>([])
        let observation = x.coordinator.observeCommits { notice in
            heard.withLock { $0.append(notice) }
        }
        try collect(x)
        observation.cancel()
        let notices = heard.withLock { $0 }
        #expect(notices.count == 1)
        for notice in notices {
            #expect(notice.transactions.isEmpty && notice.updated.isEmpty)
            #expect(notice.inserted.isEmpty && notice.deleted.isEmpty)
        }
    }
}
