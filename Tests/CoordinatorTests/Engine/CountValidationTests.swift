import Coordinator
import Merge
import Testing

/// What counts do not forbid: they are of what is shown, before a save and after it.
@Suite("Saves and the counts of objects that they do not name")
struct CountValidationTests {
    private static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Team", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("name", .string)],
                relationships: [
                    .init(
                        "players", to: "Player", inverse: "team", isToMany: true,
                        isOptional: false, minimumCount: 2),
                    .init(
                        "coaches", to: "Coach", inverse: "teams", isToMany: true, isOptional: false),
                ], uniquenessConstraints: [["name"]]),
            EntityDescription(
                "Player", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("shirt", .string)],
                relationships: [.init("team", to: "Team", inverse: "players")],
                uniquenessConstraints: [["shirt"]]),
            EntityDescription(
                "Coach", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("badge", .string)],
                relationships: [.init("teams", to: "Team", inverse: "coaches", isToMany: true)],
                uniquenessConstraints: [["badge"]]),
        ])
    }

    let one: EngineNode
    let two: EngineNode

    init() throws {
        let model = try Self.model()
        (one, two) = try EngineNode.pair(model)
    }

    /// A team with two players, and coaches that are there already or one of its own.
    private func team(
        _ name: String, on node: EngineNode, coaches: [ManagedObjectID] = []
    ) throws -> (team: ManagedObjectID, players: [ManagedObjectID], coach: ManagedObjectID) {
        let members = coaches.map(\.row) + [RowID(-2)]
        let result = try node.save(
            try node.insertion(
                "Team", -1, ["name": .string(name)],
                [RelationshipOperation(name: "coaches", kind: .add, members: members)]),
            try node.insertion("Coach", -2),
            try node.insertion("Player", -3, ["team": .reference(RowID(-1))]),
            try node.insertion("Player", -4, ["team": .reference(RowID(-1))]))
        let ids = result.insertedRows.map {
            ManagedObjectID(entityName: $0.entityName, row: $0.row)
        }
        return (
            try #require(ids.first { $0.entityName == "Team" }),
            ids.filter { $0.entityName == "Player" },
            try #require(ids.first { $0.entityName == "Coach" })
        )
    }

    @Test("An object that a deleted one still links to can be deleted after it")
    func deletedOwner() throws {
        let (team, _, coach) = try team("reds", on: one)
        #expect(throws: CoordinatorError.self) { try one.delete(coach) }
        try one.delete(team)
        try one.delete(coach)
        #expect(try one.row(coach) == nil)
    }

    @Test(
        "An insert that becomes one with an object of the store is counted with what that has",
        arguments: [MergePolicy.mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump])
    func upserted(policy: MergePolicy) throws {
        let (team, players, coach) = try team("reds", on: one)
        // It has neither players nor a coach of its own, and is not inserted.
        try one.save(try one.insertion("Team", -1, ["name": .string("reds")]), policy: policy)
        #expect(try one.members(team, "players") == players.map(\.row).sorted())
        #expect(try one.members(team, "coaches") == [coach.row])
        #expect(try one.conflicts().isEmpty)
        // Nor is anything let through to it that it may not have.
        let (full, more) = try squad()
        let saved = try full.code {
            try full.save(
                try full.insertion("Squad", -1, ["name": .string("reds")]),
                try full.insertion("Member", -2, ["squad": .reference(RowID(-1))]), policy: policy)
        }
        #expect(saved == .validationFailed)
        #expect(try full.members(more, "members").count == 2)
        #expect(try full.conflicts().isEmpty)
    }

    /// A squad that is full, with a node of its own.
    private func squad() throws -> (node: EngineNode, squad: ManagedObjectID) {
        let node = try EngineNode(
            ManagedObjectModel(entities: [
                EntityDescription(
                    "Squad", attributes: [.init("name", .string)],
                    relationships: [
                        .init(
                            "members", to: "Member", inverse: "squad", isToMany: true,
                            maximumCount: 2)
                    ], uniquenessConstraints: [["name"]]),
                EntityDescription(
                    "Member", relationships: [.init("squad", to: "Squad", inverse: "members")]),
            ]))
        let squad = try node.insert("Squad", ["name": .string("reds")])
        for _ in 0..<2 { try node.insert("Member", ["squad": .reference(squad.row)]) }
        return (node, squad)
    }

    @Test("Nor do the links of an object that is eclipsed hold anybody")
    func eclipsedOwner() throws {
        let shared = try one.insert("Coach")
        try exchange(one, two)
        let both = [
            try team("reds", on: one, coaches: [shared]).team,
            try team("reds", on: two, coaches: [shared]).team,
        ]
        try exchange(one, two)
        let survivor = try #require(try one.conflicts(kind: .uniqueness).first).object
        #expect(both.contains(survivor))
        let coaches = try one.members(survivor, "coaches")
        #expect(coaches.count > 1 && coaches.contains(shared.row))
        for coach in coaches.dropLast() {
            try one.delete(ManagedObjectID(entityName: "Coach", row: coach))
        }
        let last = ManagedObjectID(entityName: "Coach", row: try #require(coaches.last))
        #expect(throws: CoordinatorError.self) { try one.delete(last) }
    }

    /// Has two nodes insert an object of one key, deletes another, and keeps the one that is not shown.
    ///
    /// - Parameter other: what is deleted, so that there are as few as there may be.
    /// - Returns: the one that was shown, and the one that is now.
    private func keepEclipsed(
        without other: ManagedObjectID,
        _ insert: (EngineNode) throws -> ManagedObjectID
    ) throws -> (gone: ManagedObjectID, kept: ManagedObjectID) {
        let both = [try insert(one), try insert(two)]
        try exchange(one, two)
        try one.delete(other)
        let conflict = try #require(try one.conflicts(kind: .uniqueness).first)
        let kept = try #require(both.first { $0 != conflict.object })
        let side = try #require(conflict.sides.first { $0.object == kept }?.dot)
        try one.resolve(conflict.id, .side(side))
        return (conflict.object, kept)
    }

    @Test("An eclipsed object takes the place of the one that is deleted for its sake")
    func successor() throws {
        let (team, players, _) = try team("reds", on: one)
        try exchange(one, two)
        let (gone, kept) = try keepEclipsed(without: players[0]) {
            try $0.insert("Player", ["shirt": .string("7"), "team": .reference(team.row)])
        }
        #expect(try one.row(gone) == nil)
        #expect(try one.members(team, "players") == [players[1].row, kept.row].sorted())
        try exchange(one, two)
        #expect(try one.conflicts().isEmpty)
    }

    @Test("So it does at the other end of links")
    func linkedSuccessor() throws {
        let (team, _, coach) = try team("reds", on: one)
        try exchange(one, two)
        let (gone, kept) = try keepEclipsed(without: coach) {
            try $0.insert("Coach", ["badge": .string("7")], [.add(team.row, to: "teams")])
        }
        #expect(try one.row(gone) == nil)
        #expect(try one.members(team, "coaches") == [kept.row])
        try exchange(one, two)
        #expect(try one.conflicts().isEmpty)
    }

    @Test(
        "An optional to-many may be empty whatever its least count, and may not have fewer otherwise"
    )
    func emptyOptional() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Team",
                relationships: [
                    .init(
                        "players", to: "Player", inverse: "team", isToMany: true, minimumCount: 2)
                ]),
            EntityDescription(
                "Player", relationships: [.init("team", to: "Team", inverse: "players")]),
        ])
        let (store, context) = try TestStore.withContext(model)
        _ = try store.insert("Team")
        let error = context.performAndWait {
            let player = context.insert("Player")
            player.setRelatedObject(context.insert("Team"), forKey: "team")
            return #expect(throws: CoordinatorError.self) { try context.save() }
        }
        #expect(error?.number == 1_580)
    }
}
