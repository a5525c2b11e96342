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
                    .init("name", .string), .init("settled", .string),
                    .init("disputed", .string, mergePolicy: .error),
                ], uniquenessConstraints: [["name"]])
        ])
        (here, there) = try EngineNode.pair(model)
        first = try here.insert("Tag", ["name": .string("a")])
        second = try here.insert("Tag", ["name": .string("b")])
        try exchange(here, there)
    }

    private func becomeOne() throws {
        try there.update(second, ["name": .string("a")], policy: .mergeByPropertyObjectTrump)
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
        try here.resolve(own.id, .side(dots[0]), sides: dots)
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
        try here.undo(conflict.id, sides: dots)
        try exchange(here, there)
        for node in [here, there] { #expect(try node.value(first, "settled") == .string("one")) }
        for node in [here, there] {
            let key = try #require(try node.conflicts(kind: .uniqueness).first)
            let other = try #require(key.sides.first { $0.object == second })
            #expect(other.row.first { $0.name == "settled" }?.value == .string("three"))
        }
    }

    @Test(
        "Deciding over a link to one that is not shown closes its conflict",
        arguments: [MergePolicy.error, .mergeByPropertyObjectTrump], [true, false])
    func link(users: MergePolicy, isKept: Bool) throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Club", mergePolicy: .error, attributes: [.init("name", .string)],
                relationships: [.init("users", to: "User", inverse: "clubs", isToMany: true)]),
            EntityDescription(
                "User", mergePolicy: users, attributes: [.init("email", .string)],
                relationships: [.init("clubs", to: "Club", inverse: "users", isToMany: true)],
                uniquenessConstraints: [["email"]]),
        ])
        let nodes = try [EngineNode(model, node: 1), EngineNode(model, node: 2)]
        let shown = try nodes[0].insert("User", ["email": .string("s")])
        let eclipsed = try nodes[0].insert("User", ["email": .string("t")])
        let club = try nodes[0].insert(
            "Club", [:], [.init(name: "users", kind: .add, members: [eclipsed.row])])
        try exchange(nodes[0], nodes[1])
        func link(_ kind: RelationshipOperation.Kind, at node: EngineNode) throws {
            try node.update(club, [:], [.init(name: "users", kind: kind, members: [eclipsed.row])])
        }
        try link(.remove, at: nodes[0])
        try link(.remove, at: nodes[1])
        try link(.add, at: nodes[1])
        try nodes[0].update(shown, ["email": .string("a")])
        try nodes[1].update(eclipsed, ["email": .string("a")])
        try exchange(nodes[0], nodes[1])
        #expect(try nodes[0].row(shown) != nil)
        let conflict = try #require(try nodes[0].conflicts(.unresolved, kind: .link).first)
        let side = try #require(conflict.sides.first { $0.isDeleted != isKept }?.dot)
        try nodes[0].resolve(conflict.id, .side(side))
        try exchange(nodes[0], nodes[1])
        for node in nodes {
            #expect(try node.conflicts(.unresolved, kind: .link).isEmpty)
            #expect(try node.members(club, "users") == (isKept ? [shown.row] : []))
        }
    }

    @Test("Where the earliest of a group stands, the side that is chosen is shown")
    func earliest() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Tag", mergePolicy: .mergeByPropertyStoreTrump,
                attributes: [.init("name", .string), .init("p", .string)],
                uniquenessConstraints: [["name"]])
        ])
        let nodes = try [EngineNode(model, node: 1), EngineNode(model, node: 2)]
        let one = try nodes[0].insert("Tag", ["name": .string("a")])
        let other = try nodes[0].insert("Tag", ["name": .string("b")])
        try exchange(nodes[0], nodes[1])
        try nodes[0].update(one, ["p": .string("first")])
        try nodes[1].update(one, ["p": .string("second")])
        try exchange(nodes[0], nodes[1])
        let conflict = try #require(try nodes[0].conflicts(kind: .update).first)
        try nodes[0].update(other, ["p": .string("of the other")])
        try nodes[0].update(other, ["name": .string("a")], policy: .mergeByPropertyObjectTrump)
        let side = try #require(conflict.sides.first { $0.value == .string("second") }?.dot)
        try nodes[0].resolve(conflict.id, .side(side))
        try exchange(nodes[0], nodes[1])
        for node in nodes { #expect(try node.value(one, "p") == .string("second")) }
    }

    @Test("Deciding a property's conflict by deleting the object carries out its delete rules")
    func deletion() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Parent", mergePolicy: .error, attributes: [.init("name", .string)],
                relationships: [
                    .init(
                        "children", to: "Child", inverse: "parent", isToMany: true,
                        deleteRule: .cascade)
                ]),
            EntityDescription(
                "Child", attributes: [.init("name", .string)],
                relationships: [.init("parent", to: "Parent", inverse: "children")]),
        ])
        let nodes = try [EngineNode(model, node: 1), EngineNode(model, node: 2)]
        let parent = try nodes[0].insert("Parent")
        let child = try nodes[0].insert("Child", ["parent": .reference(parent.row)])
        try exchange(nodes[0], nodes[1])
        for (index, node) in nodes.enumerated() {
            try node.update(parent, ["name": .string("\(index)")])
        }
        try exchange(nodes[0], nodes[1])
        let conflict = try #require(try nodes[0].conflicts(.unresolved).first)
        try nodes[0].resolve(conflict.id, .delete)
        #expect(try nodes[0].row(parent) == nil)
        #expect(try nodes[0].row(child) == nil)
    }
}
