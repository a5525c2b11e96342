import Coordinator
import Merge
import Testing

/// What the conflict journal says, and what becomes of conflicts (DESIGN section 10).
@Suite struct JournalTests {
    let a: EngineNode
    let b: EngineNode

    init() throws { (a, b) = try EngineNode.pair() }

    /// An object that both nodes have.
    func shared(
        _ entity: String, _ values: [String: PropertyValue] = [:]
    ) throws -> ManagedObjectID {
        let id = try a.insert(entity, values)
        try b.take(from: a)
        return id
    }

    /// An object with a property that each node has given a value of its own, "one" and "two".
    func contested(
        _ entity: String, _ property: String = "name", _ second: String = "two"
    ) throws -> ManagedObjectID {
        let id = try shared(entity)
        try a.update(id, [property: .string("one")])
        try b.update(id, [property: .string(second)])
        return id
    }

    /// The newest entry of what a save has lost.
    func lost() throws -> Conflict { try #require(try a.conflicts(kind: .save, isOpen: nil).first) }

    // MARK: Kinds and states

    @Test(
        "Concurrent writes of one property are an update conflict, decided by its policy",
        arguments: [
            ("Note", "p", ConflictState.unresolved, "one"),
            ("Note", "r", .settled, "two"), ("Folder", "name", .settled, "one"),
            ("Tag", "name", .settled, "two"),
        ])
    func update(entity: String, property: String, state: ConflictState, visible: String) throws {
        let id = try contested(entity, property)
        try exchange(a, b)
        for node in [a, b] {
            let conflict = try node.onlyConflict()
            #expect(conflict.id.description == "\(entity).\(id.row).\(property)")
            #expect(conflict.kind == .update && conflict.state == state)
            #expect(conflict.property == property && conflict.closedBy == nil)
            #expect(conflict.sides.map(\.value) == [.string("one"), .string("two")])
            #expect(conflict.sides.filter(\.isVisible).map(\.value) == [.string(visible)])
            #expect(try node.value(id, property) == .string(visible))
            #expect(try node.row(id)?.isConflicted == (state == .unresolved))
        }
    }

    @Test("Concurrent writes of equal values are no conflict")
    func equal() throws {
        _ = try contested("Note", "p", "one")
        try exchange(a, b)
        #expect(try a.conflicts(isOpen: nil).isEmpty)
    }

    @Test(
        "Concurrent writes of one row are a row conflict under row-grained policies",
        arguments: [
            ("Person", "name", ConflictState.settled, "one"),
            ("Passport", "number", .settled, "two"), ("Sheet", "x", .unresolved, "one"),
        ])
    func row(entity: String, property: String, state: ConflictState, visible: String) throws {
        let id = try contested(entity, property)
        try exchange(a, b)
        let conflict = try b.onlyConflict()
        #expect(conflict.id.description == "\(entity).\(id.row).object")
        #expect(conflict.kind == .row && conflict.state == state && conflict.property == nil)
        #expect(conflict.sides.count == 2)
        let shown = try #require(conflict.sides.first { $0.isVisible })
        #expect(shown.row.contains { $0.name == property && $0.value == .string(visible) })
        #expect(try b.value(id, property) == .string(visible))
    }

    @Test(
        "A delete against an update ends as the entity's policy says",
        arguments: [
            ("Note", "p", true), ("Folder", "name", false), ("Tag", "name", false),
            ("Person", "name", false), ("Passport", "number", true), ("Sheet", "x", true),
        ])
    func deleteUpdate(entity: String, property: String, isAlive: Bool) throws {
        let id = try shared(entity)
        try a.delete(id)
        try b.update(id, [property: .string("edited")])
        try exchange(a, b)
        for node in [a, b] {
            #expect(try (node.row(id) != nil) == isAlive)
            let conflict = try node.onlyConflict()
            let policy = try node.entity(entity).policies.entity
            #expect(conflict.kind == .delete && conflict.id.subject == "object")
            #expect(conflict.state == (policy.leavesUnresolved ? .unresolved : .settled))
            #expect(conflict.sides.map(\.isDeleted) == [true, false])
            #expect(conflict.sides.map(\.isVisible) == [!isAlive, isAlive])
            #expect(conflict.sides[1].row.contains { $0.value == .string("edited") })
        }
    }

    @Test("A delete's conflict lists earlier edits that the delete had not seen either")
    func earlierEdits() throws {
        let id = try shared("Tag")
        try b.update(id, ["name": .string("first")])
        try b.update(id, ["color": .string("then")])
        try a.delete(id)
        try exchange(a, b)
        let conflict = try a.onlyConflict()
        let edited = try #require(conflict.sides.first { !$0.isDeleted })
        #expect(edited.row.map(\.value) == [.string("then"), .string("first")])
        try a.undo(conflict.id)
        try exchange(a, b)
        #expect(try b.value(id, "name") == .string("first"))
        #expect(try b.value(id, "color") == .string("then"))
    }

    /// Takes all but the newest transaction from the log, as purging does.
    func forget(_ node: EngineNode) throws {
        node.close()
        try node.tamper(
            "DELETE FROM _transaction WHERE position < (SELECT max(position) FROM _transaction)")
        try node.open()
    }

    @Test("It lists them also where the log has forgotten what the edits had seen")
    func earlierEditsOfForgottenLog() throws {
        let id = try shared("Tag")
        let other = try shared("Tag")
        let late = try EngineNode(a.model, node: 3)
        try late.take(from: a)
        // One writer's, and one that builds on another's.
        try b.update(id, ["name": .string("first")])
        try b.update(id, ["color": .string("then")])
        try b.update(other, ["name": .string("first")])
        try a.take(from: b)
        try a.update(other, ["color": .string("then")])
        try forget(a)
        try late.delete(id)
        try late.delete(other)
        try a.take(from: late)
        func edits(_ id: ManagedObjectID) throws -> [PropertyValue] {
            let conflict = try a.conflicts().first { $0.id.row == id.row }
            return try #require(conflict).sides.flatMap { $0.row.map(\.value) }
        }
        for id in [id, other] { #expect(try edits(id) == [.string("then"), .string("first")]) }
        // The entry is written again when one more edit comes; it tells what it told.
        try forget(a)
        let later = try EngineNode(a.model, node: 4)
        try later.take(from: b)
        try later.update(other, ["color": .string("later")])
        try a.take(from: later)
        #expect(try a.conflicts().first { $0.id.row == other.row }?.sides.count == 3)
        #expect(try Set(edits(other)) == [.string("then"), .string("first"), .string("later")])
    }

    @Test("CD-150: a reference to a row that is gone is dangling, and comes back with the row")
    func dangling() throws {
        let folder = try shared("Folder", ["name": .string("f")])
        let note = try b.insert("Note", ["folder": .reference(folder.row)])
        try a.delete(folder)
        try exchange(a, b)
        for node in [a, b] {
            #expect(try node.value(note, "folder") == .null)
            let conflict = try node.onlyConflict()
            #expect(conflict.id.description == "Note.\(note.row).folder.target")
            #expect(conflict.kind == .dangling && conflict.state == .settled)
            #expect(conflict.sides.map(\.value) == [.reference(folder.row)])
        }
        try a.update(folder, ["name": .string("back")], resolves: true)
        try exchange(a, b)
        for node in [a, b] {
            #expect(try node.value(note, "folder") == .reference(folder.row))
            #expect(try node.members(folder, "notes") == [note.row])
            #expect(try node.conflicts().isEmpty)
        }
    }

    @Test("A link made and taken away at the same time is a link conflict")
    func link() throws {
        let note = try shared("Note")
        let tag = try shared("Tag")
        let add = RelationshipOperation.add(tag.row, to: "tags")
        let remove = RelationshipOperation.remove(tag.row, from: "tags")
        try a.update(note, [:], [add])
        try b.take(from: a)
        try a.update(note, [:], [remove])
        try b.update(note, [:], [remove])
        try b.update(note, [:], [add])
        try exchange(a, b)
        let conflict = try a.onlyConflict()
        #expect(conflict.id.description == "Note.\(note.row).tags.\(tag.row)")
        #expect(conflict.kind == .link && conflict.state == .unresolved)
        #expect(Set(conflict.sides.map(\.isDeleted)) == [true, false])
        #expect(try a.members(note, "tags") == [tag.row])

        // Deciding for what is shown already is a decision too, and none over the row.
        let version = try a.row(note)?.version
        let kept = try #require(conflict.sides.first { !$0.isDeleted }?.dot)
        let result: SaveResult = try a.coordinator.resolve(conflict.id, .side(kept))
        #expect(result.transaction != nil)
        #expect(try a.conflicts().isEmpty)
        #expect(try a.row(note)?.version == version)
        try exchange(a, b)
        #expect(try b.conflicts().isEmpty)
        #expect(try b.members(note, "tags") == [tag.row])
    }

    @Test("Of two rows that claim one target one is shown, and a later save settles it")
    func oneToOne() throws {
        let person = try shared("Person")
        let first = try a.insert("Passport", ["holder": .reference(person.row)])
        let second = try b.insert("Passport", ["holder": .reference(person.row)])
        try exchange(a, b)
        for node in [a, b] {
            #expect(try node.members(person, "passport") == [second.row])
            #expect(try node.value(first, "holder") == .null)
            #expect(try node.onlyConflict().id.description == "Passport.\(first.row).holder.target")
        }
        // The one that stands goes: the other takes its place.
        try a.delete(second)
        #expect(try a.members(person, "passport") == [first.row])
        #expect(try a.conflicts().isEmpty)
        try exchange(a, b)
    }

    @Test("A save that takes a one-to-one from a row it writes as well tells what that row has")
    func displacedClaim() throws {
        let person = try shared("Person")
        let first = try a.insert("Passport", ["holder": .reference(person.row)])
        let second = try a.insert("Passport")
        let result = try a.save(
            try a.change(first, ["number": .string("1")]),
            try a.change(second, ["holder": .reference(person.row)]))
        let told = result.rows.first { $0.objectID == first }?.values
        let count = try a.entity("Note").properties.count
        #expect(try told == a.row(first).map { Array($0.values.prefix(count)) })
        #expect(try a.value(first, "holder") == .null)
    }

    @Test("A save of a one-to-one withdraws hidden claims as well")
    func hiddenClaims() throws {
        let person = try shared("Person")
        let first = try a.insert("Passport", ["holder": .reference(person.row)])
        try b.insert("Passport", ["holder": .reference(person.row)])
        try exchange(a, b)
        try b.update(
            person, [:], [RelationshipOperation(name: "passport", kind: .replace, members: [])])
        try exchange(a, b)
        #expect(try a.members(person, "passport").isEmpty)
        #expect(try a.value(first, "holder") == .null)
        #expect(try a.conflicts().isEmpty)
    }

    // MARK: Closing

    @Test("A save that has seen all sides closes a conflict, which stays in the journal")
    func closing() throws {
        let id = try contested("Tag")
        try exchange(a, b)
        let result = try a.update(id, ["name": .string("three")])
        #expect(try a.conflicts().isEmpty)
        let closed = try #require(try a.conflicts(isOpen: false).first)
        #expect(closed.state == .resolved && closed.closedBy == result.transaction)
        #expect(closed.sides.map(\.value) == [.string("one"), .string("two")])
        #expect(result.conflicts == [closed.id])
        #expect(closed.id.closedAt == result.token.generation)
    }

    @Test("A conflict whose sides come to agree is over, and nobody has resolved it")
    func agreed() throws {
        let c = try EngineNode(a.model, node: 3)
        let id = try shared("Tag")
        try c.take(from: a)
        try a.update(id, ["name": .string("one")])
        try b.update(id, ["name": .string("two")])
        try c.take(from: a)
        // It has seen one of the sides, and says what the other does.
        try c.update(id, ["name": .string("two")])
        let closer = try #require(try c.row(id)?.version.dots.last)
        try a.take(from: b)
        #expect(try a.onlyConflict().state == .settled)
        try a.take(from: c)
        let entry = try #require(try a.conflicts(isOpen: nil).first)
        #expect(!entry.isOpen && entry.state == .settled && entry.closedBy == closer)
        #expect(entry.sides.map(\.value) == [.string("one"), .string("two")])
    }

    @Test("Saving over an unresolved conflict throws unless the save says that it resolves")
    func unresolved() throws {
        let id = try contested("Note", "p")
        try exchange(a, b)
        #expect(try a.code { try a.update(id, ["p": .string("x")]) } == .unresolvedConflict)
        try a.update(id, ["q": .integer(1)])
        #expect(try a.conflicts().count == 1)
        try a.update(id, ["p": .string("one")], resolves: true)
        #expect(try a.conflicts().isEmpty)
        try exchange(a, b)
        #expect(try b.value(id, "p") == .string("one"))
        #expect(try b.conflicts().isEmpty)
    }

    @Test("A delete that resolves says so of what its delete rules take along, and no other does")
    func cascadeOverUnresolved() throws {
        let folder = try a.insert("Folder")
        let id = try a.insert("Note", ["folder": .reference(folder.row)])
        try exchange(a, b)
        try a.update(id, ["p": .string("one")])
        try b.delete(id)
        try exchange(a, b)
        #expect(try a.onlyConflict().state == .unresolved)
        #expect(try a.code { try a.delete(folder) } == .unresolvedConflict)
        #expect(
            try a.code { try a.save(try a.deletion(folder, resolves: true), try a.deletion(id)) }
                == .unresolvedConflict)
        #expect(try a.row(id) != nil)
        try a.delete(folder, resolves: true)
        try exchange(a, b)
        for node in [a, b] {
            #expect(try node.row(id) == nil)
            #expect(try node.conflicts().isEmpty)
        }
    }

    @Test("CD-147: what a context's policy discards is journalled where it happened")
    func discarded() throws {
        let id = try a.insert("Tag")
        let old = try a.version(id)
        try a.update(id, ["name": .string("store")])
        let result = try a.update(id, ["name": .string("mine")], version: old, policy: .rollback)
        #expect(result.transaction == nil)
        let entry = try lost()
        #expect(entry.sides.map(\.isVisible) == [true, false])
        #expect(entry.sides[1].row.map(\.value) == [.string("mine")])
        #expect(try result.token.generation == a.coordinator.currentToken.generation)
    }

    @Test("CD-147: changes of to-manys that a context's policy discards are journalled, and undone")
    func discardedLinks() throws {
        let note = try a.insert("Note", ["p": .string("first")])
        let (kept, gone) = (try a.insert("Tag"), try a.insert("Tag"))
        let old = try a.version(note)
        try a.update(note, ["p": .string("store")])
        var stale = try a.change(note, [:], [.add(kept.row, gone.row, to: "tags")], version: old)
        let result = try a.save(stale, policy: .rollback, author: "Ada")
        #expect(result.transaction == nil)
        let entry = try lost()
        #expect(entry.sides.map(\.isVisible) == [true, false])
        #expect(entry.sides[1].relationships == stale.relationships)
        #expect(entry.sides[1].author == "Ada")
        func tags() throws -> [RowID] { try a.members(note, "tags") }
        #expect(try tags().isEmpty)
        // An object of it may be gone by then.
        try a.delete(gone)
        try a.undo(entry.id)
        #expect(try tags() == [kept.row])
        // With values among the losses, both are reported.
        stale.values = [(try #require(stale.entity.position(of: "p")), .string("mine"))]
        stale.relationships[0].members = [kept.row]
        _ = try a.save(stale, policy: .rollback)
        let both = try lost()
        #expect(both.sides[1].row.map(\.value) == [.string("mine")])
        #expect(both.sides[1].relationships == stale.relationships)
    }

    @Test("CD-147: a delete that an overwrite discards is journalled, and undone")
    func discardedDelete() throws {
        let note = try a.insert("Note", ["p": .string("first"), "q": .integer(1)])
        var stale = try a.change(note, ["p": .string("mine")], version: try a.version(note))
        stale.snapshot = try #require(try a.row(note)?.values)
        let death = try #require(try a.delete(note).transaction)
        let saved = try a.save(stale, policy: .overwrite, author: "Ada")
        #expect(try a.value(note, "q") == .integer(1))
        let entry = try lost()
        #expect(entry.closedBy == saved.transaction)
        #expect(entry.sides.map(\.isVisible) == [false, true])
        #expect(entry.sides.map(\.isDeleted) == [true, false])
        #expect(entry.sides.map(\.dot) == [death, saved.transaction])
        #expect(entry.sides[1].row.map(\.value) == [.string("mine")])
        #expect(entry.sides[1].author == "Ada")
        try a.undo(entry.id)
        #expect(try a.row(note) == nil)
    }

    @Test("CD-6, CD-13: a client that names a version gets its snapshot from the log")
    func snapshotOfAVersion() throws {
        let id = try a.insert("Tag", ["name": .string("first")])
        try a.update(id, ["color": .string("red")])
        let seen = try a.version(id)
        try a.update(id, ["name": .string("theirs"), "color": .string("blue")])
        let stale = try a.change(id, ["name": .string("mine")], version: seen)
        let error = #expect(throws: CoordinatorError.self) { try a.save(stale) }
        #expect(
            error?.conflicts.first?.objectSnapshot
                == ["name": .string("first"), "color": .string("red")])
        try a.save(stale, policy: .overwrite)
        #expect(try a.value(id, "name") == .string("mine"))
        #expect(try a.value(id, "color") == .string("red"))
        // The log has forgotten that: only the given values are written.
        try a.update(id, ["color": .string("green")])
        let known = try a.version(id)
        try a.update(id, ["name": .string("again"), "color": .string("grey")])
        try a.tamper("DELETE FROM _transaction WHERE position < 6")
        try a.update(id, ["name": .string("mine")], version: known, policy: .overwrite)
        #expect(try a.value(id, "color") == .string("grey"))
    }

    @Test(
        "CD-13: of two values that a version's reader saw a policy choose from, neither is written")
    func snapshotOfSiblings() throws {
        let id = try contested("Tag")
        try exchange(a, b)
        // "two" is shown on both, and "one" came last to b.
        for node in [a, b] {
            let seen = try node.version(id)
            try node.update(id, ["name": .string("then")])
            let stale = try node.change(id, ["color": .string("red")], version: seen)
            let error = #expect(throws: CoordinatorError.self) { try node.save(stale) }
            #expect(error?.conflicts.first?.objectSnapshot == nil)
            try node.save(stale, policy: .overwrite)
            #expect(try node.value(id, "name") == .string("then"))
        }
    }

    @Test(
        "CD-147: what a merge of nodes discards is in a record of every node, also once stable",
        arguments: [
            ("Note", "p"), ("Note", "r"), ("Folder", "name"), ("Tag", "name"), ("Person", "name"),
            ("Passport", "number"), ("Sheet", "x"),
        ], [false, true])
    func discardedBetweenNodes(
        _ written: (entity: String, property: String), isDeletedToo: Bool
    ) throws {
        let c = try EngineNode(a.model, node: 3)
        let d = try EngineNode(a.model, node: 4)
        let id = try shared(written.entity)
        try c.take(from: a)
        try d.take(from: a)
        var writes: [Dot: PropertyValue] = [:]
        for (node, text) in [(a, "one"), (b, "two"), (c, "three")] {
            let result = try node.update(id, [written.property: .string(text)])
            writes[try #require(result.transaction)] = .string(text)
        }
        if isDeletedToo { try d.delete(id) }
        try exchange(a, b, c, d)
        for isStable in [false, true] {
            for node in [a, b, c, d] {
                if isStable {
                    let result = try node.coordinator.collect(stable: try node.vector)
                    #expect(result.isDone)
                }
                let records = try node.conflicts(isOpen: nil)
                let shown = try node.value(id, written.property)
                var lost = 0
                for (dot, value) in writes where value != shown {
                    lost += 1
                    let sides = records.flatMap(\.sides).filter { $0.dot == dot && !$0.isVisible }
                    #expect(
                        sides.contains {
                            $0.value == value || $0.row.contains { $0.value == value }
                        },
                        "node \(node.node) lists \(value) nowhere, stable: \(isStable)")
                }
                // One of the three is shown at most.
                #expect(lost >= 2)
            }
        }
    }

    @Test("What was discarded has no transaction, and what stood has that of each of its values")
    func writersOfDiscarded() throws {
        let id = try a.insert("Tag")
        let read = try a.version(id)
        let named = try #require(try a.update(id, ["name": .string("store")]).transaction)
        let colored = try #require(try a.update(id, ["color": .string("red")]).transaction)
        let stale = try a.change(
            id, ["name": .string("mine"), "color": .string("blue")], version: read)
        for policy in [MergePolicy.mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump] {
            let isKept = policy == .mergeByPropertyObjectTrump
            let saved = try a.save(stale, policy: policy).transaction
            #expect((saved != nil) == isKept)
            let entry = try lost()
            #expect(entry.sides.map(\.isVisible) == [!isKept, isKept])
            #expect(entry.sides.map(\.dot) == [colored, saved])
            #expect(entry.sides[0].row.map(\.name) == ["color", "name"])
            #expect(entry.sides[0].row.map(\.stamp?.dot) == [nil, named])
            #expect(entry.sides[1].row.map(\.value) == [.string("blue"), .string("mine")])
        }
    }

    @Test("A save that writes one value and loses another has no part in what it lost")
    func partlyDiscarded() throws {
        let id = try a.insert("Tag")
        let read = try a.version(id)
        let named = try #require(try a.update(id, ["name": .string("store")]).transaction)
        let stale = try a.change(
            id, ["name": .string("mine"), "color": .string("blue")], version: read)
        let saved = try a.save(stale, policy: .mergeByPropertyStoreTrump).transaction
        let entry = try lost()
        #expect(saved != nil && entry.closedBy == saved)
        #expect(entry.sides.map(\.dot) == [named, nil])
        #expect(entry.sides[1].row.map(\.value) == [.string("mine")])
        #expect(try a.value(id, "color") == .string("blue"))
    }

    @Test("An edit that a lost edit stands on is journalled with its own writer and time")
    func earlierWrite() throws {
        let c = try EngineNode(a.model, node: 3)
        let id = try shared("Tag")
        try c.take(from: a)
        let named = try a.update(id, ["name": .string("early")])
        try b.take(from: a)
        let colored = try b.update(id, ["color": .string("late")])
        try c.delete(id)
        try exchange(a, b, c)
        for node in [a, b, c] {
            let conflict = try node.onlyConflict()
            let edit = try #require(conflict.sides.first { !$0.isDeleted })
            #expect(edit.dot == colored.transaction)
            #expect(edit.row.map(\.value) == [.string("late"), .string("early")])
            let stamps = edit.row.map(\.stamp)
            #expect(stamps.map { $0?.dot } == [nil, named.transaction])
            #expect(stamps.map { $0?.timestamp } == [nil, named.timestamp])
        }
    }
}
