import Coordinator
import Merge
import Testing

/// Conflicts over links whose ends die and return (DESIGN sections 5.4 and 10, MODEL P7).
@Suite struct LinkEndTests {
    let a: EngineNode
    let b: EngineNode
    let c: EngineNode

    init() throws {
        let model = try EngineModel.everything()
        (a, b) = try EngineNode.pair(model)
        c = try EngineNode(model, node: 3)
    }

    /// A link of a note and a tag that one node makes and another takes away at once; no node has
    /// heard of both yet.
    private func disputedLink() throws -> (note: ManagedObjectID, tag: ManagedObjectID) {
        let tag = try a.insert("Tag")
        let note = try a.insert("Note", [:], [.init(name: "tags", kind: .add, members: [tag.row])])
        try exchange(a, b, c)
        for kind in [RelationshipOperation.Kind.remove, .add] {
            try a.update(note, [:], [.init(name: "tags", kind: kind, members: [tag.row])])
        }
        try b.update(note, [:], [.init(name: "tags", kind: .remove, members: [tag.row])])
        return (note, tag)
    }

    @Test("A link's conflict closes with an end that dies, and opens again with its return")
    func deathAndReturn() throws {
        let (note, tag) = try disputedLink()
        try exchange(a, b, c)
        let open = try a.onlyConflict()
        #expect(open.id.description == "Note.\(note.row).tags.\(tag.row)")
        try a.delete(tag)
        try b.update(tag, ["name": .string("kept")])
        try exchange(a, b, c)
        for node in [a, b, c] {
            #expect(try node.conflicts(kind: .link).isEmpty)
            let closed = try #require(try node.conflicts(kind: .link, isOpen: false).first)
            #expect(closed.state == .resolved && closed.sides.count == 2)
        }
        let deletion = try #require(try c.conflicts(kind: .delete).first)
        let result: SaveResult = try c.coordinator.undo(deletion.id)
        #expect(result.transaction != nil)
        try exchange(a, b, c)
        for node in [a, b, c] {
            let again = try #require(try node.conflicts(kind: .link).first)
            #expect(again.id == open.id && again.state == .unresolved)
            #expect(again.sides == open.sides)
            #expect(try node.members(note, "tags") == [tag.row])
        }
    }

    @Test("A link's conflict closes where one save deletes both its ends")
    func bothEnds() throws {
        let (note, tag) = try disputedLink()
        try exchange(a, b, c)
        try c.save(try c.deletion(note), try c.deletion(tag))
        try exchange(a, b, c)
        for node in [a, b, c] { #expect(try node.conflicts().isEmpty) }
    }

    @Test("A link disputed after the death of an end is no conflict")
    func disputedAfterDeath() throws {
        let (note, _) = try disputedLink()
        try c.delete(note)
        // C hears of the dispute of a row that is dead there, the others of the death of a row
        // that is disputed there.
        try exchange(a, b)
        #expect(try a.conflicts().count == 1)
        try exchange(a, b, c)
        for node in [a, b, c] { #expect(try node.conflicts().isEmpty) }
    }

    @Test("A link's conflict that closed with its end is not closed once more by collection")
    func closedOnce() throws {
        let (_, tag) = try disputedLink()
        try c.delete(tag)
        try exchange(a, b, c)
        let closed = try a.conflicts(kind: .link, isOpen: false).map(\.id)
        #expect(closed.count == 1)
        _ = try a.coordinator.collect(stable: try a.vector)
        #expect(try a.conflicts(kind: .link, isOpen: false).map(\.id) == closed)
    }
}
