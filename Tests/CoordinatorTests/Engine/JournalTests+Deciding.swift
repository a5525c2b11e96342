import Coordinator
import Merge
import Testing

/// What decisions over conflicts do, and when they are refused.
extension JournalTests {
    @Test("A reference that reads as nil is brought back by an undo only where its object is there")
    func undoOfDangling() throws {
        let folder = try shared("Folder", ["name": .string("f")])
        let note = try b.insert("Note", ["folder": .reference(folder.row)])
        try a.delete(folder)
        try exchange(a, b)
        let gone = try a.onlyConflict()
        #expect(try a.code { try a.undo(gone.id) } == .cannotBeUndone)
        try a.update(folder, ["name": .string("back")], resolves: true)
        let closed = try #require(try a.conflicts(kind: .dangling, isOpen: false).first)
        try a.undo(closed.id)
        #expect(try a.value(note, "folder") == .reference(folder.row))
        // Of two claims the one that lost is there again, and the other one loses it.
        let person = try shared("Person")
        let lost = try a.insert("Passport", ["holder": .reference(person.row)])
        let won = try b.insert("Passport", ["holder": .reference(person.row)])
        try exchange(a, b)
        try a.undo(try a.onlyConflict().id)
        try exchange(a, b)
        for node in [a, b] {
            #expect(try node.value(lost, "holder") == .reference(person.row))
            #expect(try node.value(won, "holder") == .null)
            #expect(try node.coordinator.verify().isOK)
        }
    }

    @Test("A later write that came with the closed conflict in one commit is later all the same")
    func undoOverLaterWriteOfOneCommit() throws {
        let id = try contested("Folder")
        try a.take(from: b)
        let seen = try a.onlyConflict().sides.compactMap(\.dot)
        let side = try #require(seen.first)
        try a.resolve(try a.onlyConflict().id, .side(side))
        try a.update(id, ["name": .string("later")])
        try b.take(from: a)
        for node in [a, b] {
            let closed = try #require(try node.conflicts(isOpen: false).first)
            #expect(try node.code { try node.undo(closed.id, sides: seen) } == .sidesChanged)
        }
    }

    @Test("Changes of to-manys are undone over nothing that came later either")
    func undoOfLinksOverLaterOnes() throws {
        let note = try a.insert("Note", ["p": .string("first")])
        let tags = [try a.insert("Tag"), try a.insert("Tag")].map(\.row)
        let folder = try a.insert("Folder")
        let old = try a.version(note)
        let oldFolder = try a.version(folder)
        try a.update(note, ["p": .string("store")])
        try a.update(folder, ["size": .integer(5)])
        func replacing(_ member: RowID, _ name: String) -> [RelationshipOperation] {
            [RelationshipOperation(name: name, kind: .replace, members: [member])]
        }
        try a.save(
            try a.change(note, [:], replacing(tags[0], "tags"), version: old),
            try a.change(folder, [:], replacing(note.row, "notes"), version: oldFolder),
            policy: .rollback)
        let lost = try a.conflicts(kind: .save, isOpen: nil)
        #expect(lost.count == 2)
        let other = try a.insert("Folder")
        try a.update(note, [:], [.add(tags[1], to: "tags")])
        try a.update(note, ["folder": .reference(other.row)])
        for entry in lost {
            #expect(
                try a.code { try a.undo(entry.id, sides: entry.sides.compactMap(\.dot)) }
                    == .sidesChanged, "\(entry.id)")
        }
        #expect(try a.members(note, "tags") == [tags[1]])
        #expect(try a.members(other, "notes") == [note.row])
    }

    @Test("Over a later write nobody undoes a closed conflict without having seen it")
    func undoOverLaterWrites() throws {
        let id = try contested("Folder")
        try exchange(a, b)
        let seen = try b.onlyConflict().sides.compactMap(\.dot)
        try b.undo(try b.onlyConflict().id, sides: seen)
        let closed = try #require(try b.conflicts(isOpen: false).first)
        // Another property of the object is another matter.
        try b.update(id, ["size": .integer(7)])
        let later = try #require(try b.update(id, ["name": .string("later")]).transaction)
        #expect(try b.code { try b.undo(closed.id, sides: seen) } == .sidesChanged)
        #expect(try b.value(id, "name") == .string("later"))
        try b.undo(closed.id, sides: seen + [later])
        #expect(try b.value(id, "name") == .string("one"))
        // Who names no sides accepts that.
        try b.update(id, ["name": .string("once more")])
        try b.undo(closed.id)
        #expect(try b.value(id, "name") == .string("one"))
    }

    func disputed() throws -> (ManagedObjectID, Conflict) {
        let id = try contested("Note", "p")
        try exchange(a, b)
        return (id, try a.onlyConflict())
    }

    @Test("A conflict is resolved by a side, values, a policy or a delete")
    func resolutions() throws {
        let (first, conflict) = try disputed()
        let two = try #require(conflict.sides.last?.dot)
        let dots = conflict.sides.compactMap(\.dot)
        try a.resolve(conflict.id, .side(two), sides: dots)
        #expect(try a.value(first, "p") == .string("two"))

        let (second, other) = try disputed()
        try b.resolve(other.id, .values(["p": .string("x")]))
        #expect(try b.value(second, "p") == .string("x"))
        try exchange(a, b)

        let (third, policy) = try disputed()
        try a.resolve(policy.id, .policy(.mergeByPropertyObjectTrump))
        #expect(try a.value(third, "p") == .string("two"))

        let (fourth, gone) = try disputed()
        try a.resolve(gone.id, .delete)
        #expect(try a.row(fourth) == nil)
        try exchange(a, b)
        #expect(try b.conflicts().isEmpty)
    }

    @Test("A delete against an update is confirmed or refused")
    func confirmDelete() throws {
        for keeps in [true, false] {
            let id = try shared("Tag", ["name": .string("old")])
            try a.delete(id)
            try b.update(id, ["color": .string("red")])
            try exchange(a, b)
            let conflict = try a.onlyConflict()
            let side = try #require(conflict.sides.first { $0.isDeleted != keeps }?.dot)
            try a.resolve(conflict.id, .side(side))
            #expect(try (a.row(id) != nil) == keeps)
            #expect(try a.conflicts().isEmpty)
            try exchange(a, b)
            #expect(try (b.row(id) != nil) == keeps)
            if keeps { #expect(try b.value(id, "name") == .string("old")) }
        }
    }

    @Test("A decision that has not seen all sides is refused")
    func sidesChanged() throws {
        let (id, conflict) = try disputed()
        let model = a.model
        let c = try EngineNode(model, node: 3)
        // Made in ignorance of both, delivered after them.
        let inserted = try #require(a.transactions.first { $0.dot.sequence == 1 })
        _ = try c.coordinator.apply([inserted])
        try c.update(id, ["p": .string("three")])
        try a.take(from: c)
        let side = try #require(conflict.sides.first?.dot)
        let seen = conflict.sides.compactMap(\.dot)
        #expect(
            try a.code { try a.resolve(conflict.id, .side(side), sides: seen) } == .sidesChanged)
        #expect(try a.onlyConflict().sides.count == 3)
    }

    @Test("What a policy settled is undone by a save")
    func undo() throws {
        let id = try contested("Folder")
        try exchange(a, b)
        try b.undo(try b.onlyConflict().id)
        #expect(try b.value(id, "name") == .string("two"))
        let closed = try #require(try b.conflicts(isOpen: false).first)
        try b.undo(closed.id)
        #expect(try b.value(id, "name") == .string("one"))
        let (_, unresolved) = try disputed()
        #expect(try a.code { try a.undo(unresolved.id) } == .conflictNotFound)
    }
}
