import Merge
import Testing

@testable import Coordinator

/// Deciding over one object's property, where others have become one with it: nobody decides over
/// what they have not seen (MODEL P18).
@Suite("Decisions over a property of an object of a group")
struct GroupDecisionTests {
    private let here: EngineNode
    private let there: EngineNode
    private let first: ManagedObjectID
    private let second: ManagedObjectID

    init() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Tag", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [
                    AttributeDescription("name", .string),
                    AttributeDescription("settled", .string),
                    AttributeDescription("disputed", .string, mergePolicy: .error),
                ], uniquenessConstraints: [["name"]])
        ])
        here = try EngineNode(model, node: 1)
        there = try EngineNode(model, node: 2)
        first = try here.insert("Tag", ["name": .string("a")])
        second = try here.insert("Tag", ["name": .string("b")])
        try exchange(here, there)
    }

    private func becomeOne() throws {
        try there.save(
            try there.change(second, ["name": .string("a")]), policy: .mergeByPropertyObjectTrump)
        try exchange(here, there)
        #expect(try here.row(first) != nil)
    }

    @Test("Resolving one object's conflict leaves the same of the others open")
    func resolving() throws {
        for (node, value) in [(here, "here"), (there, "there")] {
            try node.update(first, ["disputed": .string(value)])
            try node.update(second, ["disputed": .string(value)])
        }
        try exchange(here, there)
        try becomeOne()
        let open = try here.conflicts(.unresolved)
        #expect(open.count == 2)
        let own = try #require(open.first { $0.id.row == first.row })
        let dots = own.sides.compactMap(\.dot)
        _ = try here.coordinator.resolve(own.id, .side(dots[0]), sides: dots) as SaveResult
        try exchange(here, there)
        for node in [here, there] {
            #expect(try node.conflicts(.unresolved).map(\.id.row) == [second.row])
        }
    }

    @Test("Undoing one object's outcome leaves what others have as it was")
    func undoing() throws {
        try here.update(first, ["settled": .string("one")])
        try there.update(first, ["settled": .string("two")])
        try exchange(here, there)
        let conflict = try #require(try here.conflicts(kind: .update).first)
        let dots = conflict.sides.compactMap(\.dot)
        try there.update(second, ["settled": .string("three")])
        try becomeOne()
        #expect(try here.value(first, "settled") == .string("three"))
        _ = try here.coordinator.undo(conflict.id, sides: dots) as SaveResult
        try exchange(here, there)
        for node in [here, there] {
            #expect(try node.value(first, "settled") == .string("one"))
        }
        // Each is shown again, with its own.
        try here.save(
            try here.change(first, ["name": .string("c")]), policy: .mergeByPropertyObjectTrump)
        try exchange(here, there)
        let key = try #require(try here.conflicts(kind: .uniqueness, isOpen: nil).first)
        #expect(key.sides.contains { $0.object == second })
    }
}
