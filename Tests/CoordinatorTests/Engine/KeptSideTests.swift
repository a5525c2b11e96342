import Coordinator
import Merge
import Testing

/// Two accounts that have become one, and their profiles: the state is at the account, and a rule of its
/// own says what becomes of the profile when the account goes.
@Suite("What objects of one key lead to when one of them is chosen")
struct KeptSideTests {
    private static func nodes(_ rule: DeleteRule, isToMany: Bool = false) throws -> [EngineNode] {
        let inverse = isToMany ? "accounts" : "account"
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Account", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("email", .string)],
                relationships: [
                    .init("profile", to: "Profile", inverse: inverse, deleteRule: rule)
                ], uniquenessConstraints: [["email"]]),
            EntityDescription(
                "Profile", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("text", .string)],
                relationships: [
                    .init(inverse, to: "Account", inverse: "profile", isToMany: isToMany)
                ]),
        ])
        return try (1...2).map { try EngineNode(model, node: $0) }
    }

    /// An account of either node, of one address; the one that is shown comes first.
    private static func accounts(
        _ nodes: [EngineNode], with profile: (EngineNode) throws -> PropertyValue = { _ in .null }
    ) throws -> [ManagedObjectID] {
        let accounts = try nodes.map {
            let profile = try profile($0)
            return try $0.insert(
                "Account",
                ["email": .string("a@b")].merging(profile.isNull ? [:] : ["profile": profile]) {
                    $1
                })
        }
        try exchange(nodes[0], nodes[1])
        let shown = try nodes[0].onlyConflict().object
        return [shown] + accounts.filter { $0 != shown }
    }

    private static func keep(_ account: ManagedObjectID, _ node: EngineNode) throws {
        let conflict = try #require(try node.conflicts(kind: .uniqueness).first)
        let side = try #require(conflict.sides.first { $0.object?.row == account.row }?.dot)
        try node.resolve(conflict.id, .sideOf(account, side))
    }

    @Test(
        "A profile that was given to both stays with the one that is chosen",
        arguments: [DeleteRule.cascade, .deny, .nullify], [true, false])
    func shared(rule: DeleteRule, isToMany: Bool) throws {
        for place in [0, 1] {
            let nodes = try Self.nodes(rule, isToMany: isToMany)
            let accounts = try Self.accounts(nodes)
            let result = try nodes[0].save(
                try nodes[0].insertion("Profile", -1, ["text": .string("precious")]),
                try nodes[0].change(accounts[0], ["profile": .reference(RowID(-1))]))
            let profile = ManagedObjectID(
                entityName: "Profile", row: try #require(result.insertedRows.first).row)
            try Self.keep(accounts[place], nodes[0])
            try exchange(nodes[0], nodes[1])
            for node in nodes {
                #expect(try node.row(profile) != nil)
                #expect(try node.value(accounts[place], "profile") == .reference(profile.row))
                #expect(try node.row(accounts[1 - place]) == nil)
                #expect(try node.conflicts(kind: .uniqueness).isEmpty)
            }
        }
    }

    @Test("A profile that only the other has goes with it")
    func own() throws {
        let nodes = try Self.nodes(.cascade)
        let accounts = try Self.accounts(nodes) { node in
            .reference(try node.insert("Profile").row)
        }
        let profiles = try nodes[0].coordinator.read { try $0.fetch(FetchRequest("Profile")) }
        #expect(profiles.count == 2)
        try Self.keep(accounts[0], nodes[0])
        try exchange(nodes[0], nodes[1])
        for node in nodes {
            let left = try node.coordinator.read { try $0.fetch(FetchRequest("Profile")) }
            #expect(left.count == 1)
            #expect(
                try node.value(accounts[0], "profile")
                    == left.first.map { .reference($0.objectID.row) })
        }
    }

    @Test("A rule that denies refuses to let the other go with a profile of its own")
    func denied() throws {
        let nodes = try Self.nodes(.deny)
        let accounts = try Self.accounts(nodes) { node in
            .reference(try node.insert("Profile").row)
        }
        let error = #expect(throws: CoordinatorError.self) { try Self.keep(accounts[0], nodes[0]) }
        #expect(error?.code == .deleteDenied)
    }
}
