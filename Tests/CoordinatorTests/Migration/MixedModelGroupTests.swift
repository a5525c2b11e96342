import Coordinator
import Merge
import Testing

/// Groups of rows with one unique key whose registers were written by a model with another policy.
///
/// What a row's own registers show, its key first of all, is settled by the model that wrote them
/// (MODEL P14). Only what is chosen among the rows of a group follows the present model.
@Suite("Groups after a change of policies")
struct MixedModelGroupTests {
    private func model(_ policy: MergePolicyChoice) throws -> ManagedObjectModel {
        try MigrationModels.model(
            EntityDescription(
                "Badge", mergePolicy: policy.policy,
                attributes: [.init("name", .string), .init("size", .integer64)],
                uniquenessConstraints: [["name"]]))
    }

    @Test(
        "A survivor keeps the key that its registers show, however the policy changes",
        arguments: [
            (MergePolicyChoice.storeTrump, MergePolicyChoice.objectTrump, "a"),
            (.storeTrump, .error, "a"), (.error, .objectTrump, "a"),
            (.objectTrump, .storeTrump, "b"), (.rollback, .overwrite, "a"),
            (.overwrite, .rollback, "b"), (.errorByRow, .overwrite, "a"),
        ])
    func keys(
        _ before: MergePolicyChoice, _ after: MergePolicyChoice, _ shown: String
    ) throws {
        let (first, second) = (try model(before), try model(after))
        let nodes = try (1...3).map { try EngineNode(first, node: $0) }
        let badge = try nodes[0].insert("Badge", ["name": .string("old")])
        try exchange(nodes[0], nodes[1], nodes[2])
        // Two names for one badge; each name has another badge too, which the giver of the name
        // has not seen.
        try nodes[0].save(
            try nodes[0].change(badge, ["name": .string("a")]),
            try nodes[0].insertion("Badge", -1, ["name": .string("b")]))
        try nodes[1].save(
            try nodes[1].change(badge, ["name": .string("b")]),
            try nodes[1].insertion("Badge", -1, ["name": .string("a")]))
        try exchange(nodes[0], nodes[1])
        #expect(try nodes[0].value(badge, "name") == .string(shown))
        // One node has migrated before it hears of them, the others migrate with them.
        try migrateApart(nodes, to: second)
        for node in nodes {
            #expect(try node.value(badge, "name") == .string(shown))
            let badges = try node.coordinator.read { try $0.fetch(FetchRequest("Badge")) }
            #expect(Set(badges.map { $0.values[0] }) == [.string("a"), .string("b")])
            #expect(badges.count == 2)
        }
    }

    /// A group of two badges, one of them with two values of its size that nobody has seen both of.
    private func group(_ nodes: [EngineNode]) throws -> ManagedObjectID {
        let badge = try nodes[0].insert("Badge", ["name": .string("n"), "size": .integer(0)])
        try exchange(nodes[0], nodes[1])
        try nodes[2].insert("Badge", ["name": .string("n")])
        try nodes[0].update(badge, ["size": .integer(1)])
        try nodes[1].update(badge, ["size": .integer(2)])
        try exchange(nodes[0], nodes[1], nodes[2])
        return badge
    }

    @Test("MODEL P14: a value collected on one node alone is what a survivor shows on all")
    func collapsed() throws {
        let (first, second) = (try model(.storeTrump), try model(.objectTrump))
        let nodes = try (1...3).map { try EngineNode(first, node: $0) }
        let badge = try group(nodes)
        _ = try nodes[0].coordinator.collect(stable: try nodes[0].vector)
        for node in nodes { try node.migrate(to: second) }
        try exchange(nodes[0], nodes[1], nodes[2])
        for node in nodes { #expect(try node.value(badge, "size") == .integer(1)) }
    }

    @Test("A group is flagged by the present model's policy, whatever settles its registers")
    func flagged() throws {
        let (first, second) = (try model(.storeTrump), try model(.error))
        let nodes = try (1...3).map { try EngineNode(first, node: $0) }
        let badge = try group(nodes)
        #expect(try nodes[0].row(badge)?.isConflicted == false)
        for node in nodes { try node.migrate(to: second) }
        try exchange(nodes[0], nodes[1], nodes[2])
        for node in nodes {
            #expect(try node.row(badge)?.isConflicted == true)
            #expect(try node.conflicts(.unresolved, kind: .uniqueness).count == 1)
        }
    }

    @Test(
        "Of what was written before there were unique keys nobody knows what was assigned",
        arguments: [MergePolicyChoice.storeTrump, .objectTrump], [false, true])
    func newlyUnique(_ policy: MergePolicyChoice, isEarlier: Bool) throws {
        let second = try model(policy)
        let first = try MigrationModels.model(
            EntityDescription(
                "Badge", mergePolicy: policy.policy,
                attributes: [.init("name", .string), .init("size", .integer64)]))
        let nodes = try (1...3).map { try EngineNode(first, node: $0) }
        try nodes[2].migrate(to: second)
        let values: [String: PropertyValue] = ["name": .string("n"), "size": .null]
        if isEarlier { try nodes[0].insert("Badge", values) }
        try nodes[2].insert("Badge", ["name": .string("n"), "size": .integer(7)])
        if !isEarlier { try nodes[0].insert("Badge", values) }
        // One applies it where there are unique keys already, the others have written it before.
        try nodes[2].take(from: nodes[0])
        try nodes[1].take(from: nodes[0])
        for node in nodes[..<2] { try node.migrate(to: second) }
        try exchange(nodes[0], nodes[1], nodes[2])
        for node in nodes {
            let badges = try node.coordinator.read { try $0.fetch(FetchRequest("Badge")) }
            #expect(badges.map { $0.values[1] } == [.integer(7)])
        }
    }

    // MARK: References that a group shows

    private func held(_ policy: MergePolicyChoice) throws -> ManagedObjectModel {
        try MigrationModels.model(
            EntityDescription(
                "Badge", mergePolicy: policy.policy, attributes: [.init("name", .string)],
                relationships: [
                    .init("holder", to: "Owner", inverse: "badge"),
                    .init("maker", to: "Owner", inverse: "made"),
                ], uniquenessConstraints: [["name"]]),
            EntityDescription(
                "Owner", attributes: [.init("name", .string)],
                relationships: [
                    .init("badge", to: "Badge", inverse: "holder"),
                    .init("made", to: "Badge", inverse: "maker", isToMany: true),
                ]))
    }

    /// What is open at a node: names, kinds and whether somebody has to decide.
    private func open(_ node: EngineNode) throws -> [String] {
        try node.conflicts().map { "\($0.id) \($0.kind) \($0.state)" }.sorted()
    }

    /// Migrates one node before it hears of what the others have merged, and those after; they
    /// are to come out alike, conflicts included.
    private func migrate(_ nodes: [EngineNode], to model: ManagedObjectModel) throws {
        try exchange(nodes[0], nodes[1], nodes[2])
        try migrateApart(nodes, to: model)
        let expected = try open(nodes[3])
        for node in nodes[..<3] { #expect(try open(node) == expected) }
    }

    @Test("A survivor that claims another target by the new policy takes it, and gives up the one")
    func claims() throws {
        let nodes = try (1...4).map { try EngineNode(try held(.storeTrump), node: $0) }
        let (x, y) = (try nodes[0].insert("Owner"), try nodes[0].insert("Owner"))
        let (third, fourth) = (try nodes[0].insert("Badge"), try nodes[0].insert("Badge"))
        for node in nodes[1...] { try node.take(from: nodes[0]) }
        let badge = try nodes[0].insert(
            "Badge", ["name": .string("n"), "holder": .reference(x.row)])
        try nodes[0].update(third, ["holder": .reference(y.row)])
        try nodes[1].save(
            try nodes[1].insertion(
                "Badge", -1, ["name": .string("n"), "holder": .reference(y.row)]),
            try nodes[1].change(fourth, ["holder": .reference(x.row)]))
        try exchange(nodes[0], nodes[1], nodes[2])
        #expect(try nodes[0].value(badge, "holder") == .reference(x.row))
        #expect(try nodes[0].value(third, "holder") == .reference(y.row))
        #expect(try nodes[0].value(fourth, "holder") == .null)
        try migrate(nodes, to: try held(.objectTrump))
        for node in nodes {
            #expect(try node.value(badge, "holder") == .reference(y.row))
            #expect(try node.value(third, "holder") == .null)
            #expect(try node.value(fourth, "holder") == .reference(x.row))
        }
    }

    @Test("What a group comes to claim or refer to in vain is listed, and comes back to it")
    func vain() throws {
        let nodes = try (1...4).map { try EngineNode(try held(.storeTrump), node: $0) }
        let (x, y) = (try nodes[0].insert("Owner"), try nodes[0].insert("Owner"))
        let other = try nodes[0].insert("Badge")
        for node in nodes[1...] { try node.take(from: nodes[0]) }
        let badge = try nodes[0].insert(
            "Badge", ["name": .string("n"), "holder": .null, "maker": .null])
        _ = try nodes[1].insert(
            "Badge",
            ["name": .string("n"), "holder": .reference(y.row), "maker": .reference(x.row)])
        // Later than the claim of the eclipsed row; and its maker is gone.
        try nodes[2].update(other, ["holder": .reference(y.row)])
        try nodes[2].delete(x)
        try exchange(nodes[0], nodes[1], nodes[2])
        #expect(try nodes[0].value(badge, "holder") == .null)
        try migrate(nodes, to: try held(.objectTrump))
        for node in nodes {
            #expect(try node.value(other, "holder") == .reference(y.row))
            #expect(try node.value(badge, "holder") == .null)
            #expect(try node.conflicts(kind: .dangling).count == 2)
        }
        try nodes[0].delete(other)
        try exchange(nodes[0], nodes[1], nodes[2], nodes[3])
        for node in nodes {
            #expect(try node.value(badge, "holder") == .reference(y.row))
            #expect(try node.conflicts(kind: .dangling).count == 1)
        }
    }
}
