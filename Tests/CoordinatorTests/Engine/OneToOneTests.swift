import Coordinator
import Merge
import Testing

/// Badges and who holds them: of two that are given to one person at once one stands, and what only
/// moves from one to another is no conflict.
@Suite("One-to-ones")
struct OneToOneTests {
    /// - Parameter isOptional: whether a badge may be without a holder.
    private static func nodes(
        _ policy: MergePolicy, isOptional: Bool = true
    ) throws -> [EngineNode] {
        let model = try ManagedObjectModel(entities: [
            // The state is at the badge: its name comes first.
            EntityDescription(
                "Badge", mergePolicy: policy, attributes: [.init("number", .string)],
                relationships: [
                    .init("holder", to: "Person", inverse: "badge", isOptional: isOptional)
                ]),
            EntityDescription(
                "Person", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("name", .string)],
                relationships: [.init("badge", to: "Badge", inverse: "holder")]),
        ])
        return try (1...2).map { try EngineNode(model, node: $0) }
    }

    /// A person whom either node has given a badge, on both; the badge that the person has comes first.
    private static func contested(
        _ nodes: [EngineNode]
    ) throws -> (person: ManagedObjectID, stander: ManagedObjectID, loser: ManagedObjectID) {
        let person = try nodes[0].insert("Person")
        try exchange(nodes[0], nodes[1])
        let badges = try nodes.map { try $0.insert("Badge", ["holder": .reference(person.row)]) }
        try exchange(nodes[0], nodes[1])
        let shown = try nodes[0].members(person, "badge")
        let stander = try #require(badges.first { shown == [$0.row] })
        let loser = try #require(badges.first { $0 != stander })
        #expect(try nodes[0].value(loser, "holder") == .null)
        return (person, stander, loser)
    }

    /// Gives a person a third badge in place of the one that they have, which somebody else gets.
    private static func replace(
        _ stander: ManagedObjectID, of person: ManagedObjectID, _ nodes: [EngineNode]
    ) throws -> (other: ManagedObjectID, result: SaveResult) {
        let other = try nodes[0].insert("Person")
        let result = try nodes[0].save(
            try nodes[0].change(stander, ["holder": .reference(other.row)]),
            try nodes[0].insertion("Badge", -1, ["holder": .reference(person.row)]))
        try exchange(nodes[0], nodes[1])
        return (other, result)
    }

    @Test(
        "To give somebody another badge is no conflict, where it is saved and where it is applied",
        arguments: MergePolicy.allCases, [true, false])
    func moved(policy: MergePolicy, isInsert: Bool) throws {
        let nodes = try Self.nodes(policy)
        let person = try nodes[0].insert("Person")
        let former = try nodes[0].insert("Badge", ["holder": .reference(person.row)])
        let spare = try nodes[0].insert("Badge")
        try exchange(nodes[0], nodes[1])
        let held: [String: PropertyValue] = ["holder": .reference(person.row)]
        let result = try nodes[0].save(
            isInsert ? nodes[0].insertion("Badge", -1, held) : nodes[0].change(spare, held))
        let badge = result.insertedRows.first?.row ?? spare.row
        #expect(result.conflicts.isEmpty)
        try exchange(nodes[0], nodes[1])
        for node in nodes {
            #expect(try node.value(former, "holder") == .null)
            #expect(try node.members(person, "badge") == [badge])
            #expect(try node.conflicts(isOpen: nil).isEmpty)
        }
    }

    @Test(
        "A badge that lost to another is listed until somebody gives the person one again",
        arguments: MergePolicy.allCases)
    func lost(policy: MergePolicy) throws {
        let nodes = try Self.nodes(policy)
        let (person, stander, loser) = try Self.contested(nodes)
        for node in nodes { #expect(try node.onlyConflict().id.row == loser.row) }
        let entry = try nodes[0].onlyConflict()
        #expect(entry.kind == .dangling)
        let result = try nodes[0].save(
            try nodes[0].insertion("Badge", -1, ["holder": .reference(person.row)]))
        #expect(result.conflicts.map(\.row) == [loser.row])
        try exchange(nodes[0], nodes[1])
        for node in nodes {
            #expect(try node.members(person, "badge") == result.insertedRows.map(\.row))
            #expect(try node.value(stander, "holder") == .null)
            let closed = try #require(try node.conflicts(isOpen: nil).first)
            #expect(closed.id.row == loser.row)
            #expect(closed.state == .resolved)
            #expect(try node.conflicts(isOpen: nil).count == 1)
        }
    }

    @Test(
        "Who holds a badge is saved with what they have, though another one lost it to them",
        arguments: MergePolicy.allCases)
    func unchanged(policy: MergePolicy) throws {
        let nodes = try Self.nodes(policy, isOptional: false)
        let (person, stander, loser) = try Self.contested(nodes)
        try nodes[0].update(stander, ["number": .string("7"), "holder": .reference(person.row)])
        try nodes[0].update(
            person, ["name": .string("Ann")],
            [.init(name: "badge", kind: .replace, members: [stander.row])])
        try exchange(nodes[0], nodes[1])
        for node in nodes {
            #expect(try node.value(stander, "number") == .string("7"))
            #expect(try node.members(person, "badge") == [stander.row])
            #expect(try node.value(loser, "holder") == .null)
            #expect(try node.coordinator.verify().isOK)
        }
    }

    @Test("A badge that lost to another does not keep its person from getting a third")
    func third() throws {
        let nodes = try Self.nodes(.mergeByPropertyStoreTrump, isOptional: false)
        let (person, stander, _) = try Self.contested(nodes)
        let (other, result) = try Self.replace(stander, of: person, nodes)
        for node in nodes {
            #expect(try node.members(person, "badge") == result.insertedRows.map(\.row))
            #expect(try node.members(other, "badge") == [stander.row])
        }
    }

    @Test(
        "A badge that must have a holder, and cleared the one it lost, is listed until it has one",
        arguments: MergePolicy.allCases)
    func released(policy: MergePolicy) throws {
        let nodes = try Self.nodes(policy, isOptional: false)
        let (person, stander, loser) = try Self.contested(nodes)
        let (_, result) = try Self.replace(stander, of: person, nodes)
        for node in nodes {
            #expect(try node.value(loser, "holder") == .null)
            let conflict = try node.onlyConflict()
            #expect(conflict.id.description == "Badge.\(loser.row).holder.target")
            #expect(conflict.violation == .missingMandatoryProperty)
            #expect(conflict.sides.map(\.value) == [.null])
            #expect(conflict.sides.map(\.dot) == [result.transaction])
            #expect(try node.code { try node.undo(conflict.id) } == .cannotBeUndone)
            #expect(try node.coordinator.verify().isOK)
        }
        // Nothing is no decision, and an edit of something else none either.
        let id = try nodes[1].onlyConflict().id
        let nothing: [String: PropertyValue] = ["holder": .null]
        #expect(
            try nodes[1].code { try nodes[1].resolve(id, .values(nothing)) } == .validationFailed)
        try nodes[1].update(loser, ["number": .string("7")])
        #expect(try nodes[1].onlyConflict().id == id)
        let third = try nodes[1].insert("Person")
        try nodes[1].resolve(id, .values(["holder": .reference(third.row)]))
        try exchange(nodes[0], nodes[1])
        for node in nodes {
            #expect(try node.members(third, "badge") == [loser.row])
            #expect(try node.conflicts().isEmpty)
        }
    }

    @Test("A save that gives a badge that lost to somebody else does so")
    func loserMoved() throws {
        let nodes = try Self.nodes(.mergeByPropertyObjectTrump)
        let (person, stander, loser) = try Self.contested(nodes)
        let other = try nodes[0].insert("Person")
        try nodes[0].save(
            try nodes[0].change(loser, ["holder": .reference(other.row)]),
            try nodes[0].insertion("Badge", -1, ["holder": .reference(person.row)]))
        #expect(try nodes[0].members(other, "badge") == [loser.row])
        #expect(try nodes[0].value(stander, "holder") == .null)
    }

    @Test(
        "Of three that claim one, a save that gives it to a loser gives it to no other",
        arguments: [MergePolicy.mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump])
    func threeClaimants(policy: MergePolicy) throws {
        let model = try Self.nodes(policy)[0].coordinator.model
        let nodes = try (1...3).map { try EngineNode(model, node: $0) }
        let person = try nodes[0].insert("Person")
        try exchange(nodes[0], nodes[1], nodes[2])
        let badges = try nodes.map { try $0.insert("Badge", ["holder": .reference(person.row)]) }
        try exchange(nodes[0], nodes[1], nodes[2])
        let losers = try badges.filter { try nodes[0].value($0, "holder") == .null }
        #expect(losers.count == 2)
        for loser in losers {
            try nodes[0].update(loser, ["holder": .reference(person.row)])
            #expect(try nodes[0].members(person, "badge") == [loser.row])
            try exchange(nodes[0], nodes[1], nodes[2])
            for node in nodes { #expect(try node.members(person, "badge") == [loser.row]) }
        }
    }
}
