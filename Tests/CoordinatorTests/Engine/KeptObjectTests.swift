import Coordinator
import Merge
import Testing

/// Two objects of one unique key under an error policy, each with what hangs on it.
@Suite("What hangs on objects of one key")
struct KeptObjectTests {
    enum Kind: CaseIterable {
        case cascade, deny, mandatory, links, toOne
    }

    private func nodes(_ kind: Kind) throws -> [EngineNode] {
        let rule: DeleteRule =
            switch kind {
            case .cascade, .links, .toOne: .cascade
            case .deny: .deny
            case .mandatory: .nullify
            }
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Child", attributes: [.init("text", .string)],
                relationships: [
                    .init(
                        "parent", to: "Parent", inverse: "children", isToMany: kind == .links,
                        isOptional: kind != .mandatory)
                ]),
            EntityDescription(
                "Parent", attributes: [.init("code", .string)],
                relationships: [
                    .init(
                        "children", to: "Child", inverse: "parent", isToMany: kind != .toOne,
                        deleteRule: rule)
                ], uniquenessConstraints: [["code"]]),
        ])
        return try [EngineNode(model, node: 1), EngineNode(model, node: 2)]
    }

    /// A parent with a child at each node, of one key, and the first node knows of both.
    private func pairs(
        _ kind: Kind, _ nodes: [EngineNode]
    ) throws -> [(parent: ManagedObjectID, child: ManagedObjectID)] {
        let pairs = try nodes.map { node in
            let parent = try node.insert("Parent", ["code": .string("1")])
            let isLink = kind == .links
            let child = try node.insert(
                "Child", isLink ? [:] : ["parent": .reference(parent.row)],
                isLink ? [.init(name: "parent", kind: .add, members: [parent.row])] : [])
            return (parent, child)
        }
        try nodes[0].take(from: nodes[1])
        return pairs
    }

    @Test(
        "To keep one of them keeps what hangs on it, and what hung on the other",
        arguments: Kind.allCases, [0, 1])
    func kept(_ kind: Kind, place: Int) throws {
        let nodes = try nodes(kind)
        let pairs = try pairs(kind, nodes)
        let conflict = try #require(try nodes[0].conflicts(kind: .uniqueness).first)
        let kept = pairs[place].parent
        let side = try #require(conflict.sides.first { $0.object == kept }?.dot)
        try nodes[0].resolve(conflict.id, .side(side), sides: conflict.sides.compactMap(\.dot))
        #expect(try nodes[0].row(kept)?.objectID == kept)
        let children = pairs.map(\.child)
        for child in children { #expect(try nodes[0].row(child) != nil) }
        if kind != .toOne {
            #expect(try nodes[0].members(kept, "children") == children.map(\.row).sorted())
        } else {
            #expect(try nodes[0].members(kept, "children").count == 1)
        }
        #expect(try nodes[0].coordinator.verify().isOK)
        try exchange(nodes[0], nodes[1])
    }

    @Test(
        "To delete the one that is shown leaves what hangs on the other",
        arguments: [
            Kind.cascade, .links, .toOne,
        ])
    func deleted(_ kind: Kind) throws {
        let nodes = try nodes(kind)
        let pairs = try pairs(kind, nodes)
        let shown = try #require(try nodes[0].conflicts(kind: .uniqueness).first).object
        let (gone, left) = pairs[0].parent == shown ? (pairs[0], pairs[1]) : (pairs[1], pairs[0])
        try nodes[0].delete(shown, resolves: true)
        #expect(try nodes[0].row(gone.child) == nil)
        #expect(try nodes[0].row(left.child) != nil)
        #expect(try nodes[0].members(left.parent, "children") == [left.child.row])
        #expect(try nodes[0].coordinator.verify().isOK)
        try exchange(nodes[0], nodes[1])
    }

    /// The first node's two objects of one key: the one that is shown, and the other.
    private func shownAndEclipsed(
        _ nodes: [EngineNode]
    ) throws -> (shown: ManagedObjectID, eclipsed: ManagedObjectID) {
        let parents = try pairs(.links, nodes).map(\.parent)
        let shown = try #require(try nodes[0].conflicts(kind: .uniqueness).first).object
        return (shown, try #require(parents.first { $0 != shown }))
    }

    @Test(
        "A key that the other takes over is not free for what is inserted in the same save",
        arguments: [true, false], [MergePolicy.error, .mergeByPropertyStoreTrump, .overwrite])
    func takenOver(isDeleted: Bool, policy: MergePolicy) throws {
        let nodes = try nodes(.links)
        let (shown, eclipsed) = try shownAndEclipsed(nodes)
        let leaving =
            isDeleted
            ? try nodes[0].deletion(shown, resolves: true)
            : try nodes[0].change(shown, ["code": .string("2")], resolves: true)
        let insertion = try nodes[0].insertion("Parent", -1, ["code": .string("1")])
        if policy == .error {
            let error = #expect(throws: CoordinatorError.self) {
                try nodes[0].save(leaving, insertion, policy: policy)
            }
            #expect(error?.code == .constraintConflict)
            #expect(error?.constraintConflicts.map(\.databaseObject) == [eclipsed])
            #expect(try nodes[0].row(shown)?.objectID == shown)
        } else {
            try nodes[0].save(leaving, insertion, policy: policy)
            #expect(try nodes[0].row(eclipsed)?.objectID == eclipsed)
            #expect(try nodes[0].conflicts(kind: .uniqueness).isEmpty)
            let parents = try nodes[0].coordinator.read { try $0.fetch(FetchRequest("Parent")) }
            #expect(parents.count == (isDeleted ? 1 : 2))
        }
        #expect(try nodes[0].coordinator.verify().isOK)
        try exchange(nodes[0], nodes[1])
    }

    @Test("A key is free once all that have it give it up")
    func givenUp() throws {
        let nodes = try nodes(.links)
        let (shown, eclipsed) = try shownAndEclipsed(nodes)
        let result = try nodes[0].save(
            try nodes[0].deletion(shown, resolves: true),
            try nodes[0].deletion(eclipsed, resolves: true),
            try nodes[0].insertion("Parent", -1, ["code": .string("1")]))
        let inserted = try #require(result.insertedRows.first)
        let parents = try nodes[0].coordinator.read { try $0.fetch(FetchRequest("Parent")) }
        #expect(parents.map(\.objectID.row) == [inserted.row])
        #expect(try nodes[0].conflicts(kind: .uniqueness).isEmpty)
        try exchange(nodes[0], nodes[1])
    }
}
