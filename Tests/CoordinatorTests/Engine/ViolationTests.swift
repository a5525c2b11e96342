import Coordinator
import Merge
import Testing

/// What saves that were valid one by one break together: mandatory references, and counts.
@Suite("Conflicts that break the model's validation")
struct ViolationTests {
    /// - Parameter fewest: of a team's players.
    private static func model(
        fewest: Int = 2, most: Int = 3, called name: String = "players"
    ) throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Team", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("name", .string), .init("town", .string)],
                relationships: [
                    .init(
                        name, to: "Player", inverse: "team", isToMany: true,
                        isOptional: fewest == 0, minimumCount: fewest, maximumCount: most,
                        renamingIdentifier: "players"),
                    .init(
                        "coaches", to: "Coach", inverse: "teams", isToMany: true, isOptional: false,
                        maximumCount: 2),
                ], uniquenessConstraints: [["name"]]),
            EntityDescription(
                "Player", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("name", .string)],
                relationships: [
                    .init("team", to: "Team", inverse: name),
                    .init(
                        "medals", to: "Medal", inverse: "holder", isToMany: true,
                        deleteRule: .noAction),
                ]),
            EntityDescription("Captain", parent: "Player"),
            EntityDescription(
                "Medal", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("name", .string)],
                relationships: [
                    .init("holder", to: "Player", inverse: "medals", isOptional: false),
                    .init("giver", to: "Coach"),
                ]),
            EntityDescription(
                "Coach", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("name", .string)],
                relationships: [.init("teams", to: "Team", inverse: "coaches", isToMany: true)]),
        ])
    }

    let nodes: [EngineNode]
    var one: EngineNode { nodes[0] }
    var two: EngineNode { nodes[1] }

    init() throws {
        let model = try Self.model()
        nodes = try (1...3).map { try EngineNode(model, node: $0) }
    }

    /// Brings all nodes together; the third hears of it in another order.
    private func meet() throws {
        try nodes[2].take(from: two)
        try exchange(one, two, nodes[2])
    }

    /// A team with so many players and one coach, on all nodes.
    private func team(
        _ count: Int, _ name: String = "reds", on node: EngineNode? = nil
    ) throws -> (team: ManagedObjectID, players: [ManagedObjectID], coach: ManagedObjectID) {
        let node = node ?? one
        let members = try (0..<count).map { number in
            try node.insertion(
                number == 0 ? "Captain" : "Player", Int64(-10 - number),
                ["team": .reference(RowID(-1))])
        }
        let coaches = RelationshipOperation.add(RowID(-2), to: "coaches")
        let result = try node.save(
            SaveRequest(
                operations: [
                    try node.insertion("Team", -1, ["name": .string(name)], [coaches]),
                    try node.insertion("Coach", -2),
                ] + members))
        let ids = result.insertedRows.map {
            ManagedObjectID(entityName: $0.entityName, row: $0.row)
        }
        return (
            try #require(ids.first { $0.entityName == "Team" }),
            ids.filter { $0.entityName == "Player" || $0.entityName == "Captain" },
            try #require(ids.first { $0.entityName == "Coach" })
        )
    }

    /// The open conflicts over counts, as every node has them.
    private func counts() throws -> [Conflict] {
        let all = try nodes.map { node in
            try node.conflicts(kind: .count).map { conflict in
                var conflict = conflict
                conflict.openedAt = 0
                return conflict
            }.sorted { $0.id.description < $1.id.description }
        }
        #expect(Set(all).count == 1)
        return all[0]
    }

    // MARK: Mandatory to-ones

    @Test("A mandatory reference to what is gone is dangling, and says that it is mandatory")
    func mandatory() throws {
        let players = try team(3).players
        let coach = try one.insert("Coach")
        try meet()
        let medal = try two.insert(
            "Medal", ["holder": .reference(players[1].row), "giver": .reference(coach.row)])
        try one.delete(players[1])
        try one.delete(coach)
        try meet()
        for node in nodes {
            let conflicts = try node.conflicts(kind: .dangling)
            #expect(conflicts.count == 2)
            for conflict in conflicts {
                let property = conflict.property ?? ""
                let isMandatory = property == "holder"
                #expect(conflict.id.description == "Medal.\(medal.row).\(property).target")
                #expect(conflict.violation == (isMandatory ? .missingMandatoryProperty : nil))
                #expect(conflict.explanation.rule == .targetGone)
                #expect(conflict.explanation.text.contains("mandatory") == isMandatory)
            }
        }
        let id = try #require(ConflictID("Medal.\(medal.row).holder.target"))
        // Nothing is no decision here.
        let side = try #require(try one.coordinator.read { try $0.conflict(id) }?.sides.first?.dot)
        #expect(try one.code { try one.resolve(id, .side(side)) } == .validationFailed)
        let another = PropertyValue.reference(players[2].row)
        try one.resolve(id, .values(["holder": another]))
        try meet()
        for node in nodes {
            #expect(try node.value(medal, "holder") == another)
            #expect(try node.conflicts(kind: .dangling).map(\.property) == ["giver"])
            let closed = try node.conflicts(kind: .dangling, isOpen: false)
            #expect(closed.map(\.violation) == [.missingMandatoryProperty])
        }
    }

    @Test("It closes when the object is back")
    func mandatoryReturns() throws {
        let players = try team(3).players
        try meet()
        let medal = try two.insert("Medal", ["holder": .reference(players[0].row)])
        try one.delete(players[0])
        try meet()
        #expect(try one.conflicts(kind: .dangling).count == 1)
        try one.update(players[0], ["name": .string("back")], resolves: true)
        try meet()
        for node in nodes {
            #expect(try node.conflicts(kind: .dangling).isEmpty)
            #expect(try node.value(medal, "holder") == .reference(players[0].row))
        }
    }

    // MARK: Counts

    /// A team that a merge has left with the last of three players.
    private func lackingTeam() throws -> (team: ManagedObjectID, players: [ManagedObjectID]) {
        let (team, players, _) = try team(3)
        try meet()
        try one.delete(players[0])
        try two.delete(players[1])
        #expect(try counts().isEmpty)
        try meet()
        return (team, players)
    }

    @Test("A to-many that a merge leaves with too few is listed, until it has enough")
    func lacking() throws {
        let (team, _) = try lackingTeam()
        let conflict = try #require(try counts().first)
        #expect(conflict.id.description == "Team.\(team.row).players.count")
        #expect(conflict.kind == .count && conflict.state == .settled)
        #expect(conflict.property == "players" && conflict.sides.isEmpty)
        #expect(conflict.violation == .relationshipLacksMinimumCount)
        #expect(conflict.explanation.rule == .memberCount)
        #expect(conflict.explanation.text.contains("needs at least 2 objects and has 1"))
        for node in nodes {
            #expect(
                try node.code { try node.update(team, ["town": .string("x")]) }
                    == .validationFailed)
            #expect(try node.code { try node.undo(conflict.id) } == .cannotBeUndone)
        }
        let player = try two.insert("Player", ["team": .reference(team.row)])
        let dot = try #require(try two.vector.entries.last { $0.actor.node == two.node })
        try meet()
        #expect(try counts().isEmpty)
        for node in nodes {
            let closed = try node.conflicts(kind: .count, isOpen: false)
            #expect(closed.map(\.state) == [.resolved])
            #expect(closed.first?.closedBy?.sequence == dot.sequence)
            #expect(closed.first?.violation == .relationshipLacksMinimumCount)
            try node.update(team, ["town": .string("y")])
        }
        // A member that moves elsewhere is one fewer as well, and the object that it left is
        // reported.
        let greens = try self.team(2, "greens")
        let third = try one.insert("Player", ["team": .reference(team.row)])
        try meet()
        try one.update(player, ["team": .reference(greens.team.row)])
        try two.delete(third)
        try meet()
        #expect(try counts().map(\.id.row) == [team.row])
        try one.update(player, ["team": .reference(team.row)])
        try meet()
        #expect(try counts().isEmpty)
    }

    @Test("One that has too many is listed, until there are fewer")
    func exceeding() throws {
        let (team, players, _) = try team(2)
        try meet()
        let more = try nodes[..<2].map { try $0.insert("Player", ["team": .reference(team.row)]) }
        try meet()
        let conflict = try #require(try counts().first)
        #expect(conflict.violation == .relationshipExceedsMaximumCount)
        #expect(conflict.explanation.text.contains("may have 3 objects and has more"))
        // One more changes nothing; a delete of two brings it within bounds.
        try nodes[2].insert("Player", ["team": .reference(team.row)])
        try meet()
        #expect(try counts() == [conflict])
        try one.save(try one.deletion(more[0]), try one.deletion(players[0]))
        try meet()
        #expect(try counts().isEmpty)
    }

    @Test("Links are counted too, and those that an end takes along")
    func links() throws {
        let (team, _, coach) = try team(2)
        let others = try (1...2).map { _ in try one.insert("Coach") }
        try meet()
        func add(_ coach: ManagedObjectID) -> RelationshipOperation {
            .add(coach.row, to: "coaches")
        }
        try one.update(team, [:], [add(others[0])])
        try two.update(team, [:], [add(others[1])])
        try meet()
        #expect(try counts().map(\.violation) == [.relationshipExceedsMaximumCount])
        #expect(try counts().map(\.id.subject) == ["coaches.count"])
        try one.delete(coach)
        try meet()
        #expect(try counts().isEmpty)
        // Each takes one away, one by the link and one with the object.
        let remove = RelationshipOperation.remove(team.row, from: "teams")
        try one.update(others[0], [:], [remove])
        try two.delete(others[1])
        try meet()
        #expect(try counts().map(\.violation) == [.relationshipLacksMinimumCount])
        // Its link comes back with an object.
        try two.update(others[1], ["name": .string("back")], resolves: true)
        try meet()
        #expect(try counts().isEmpty)
    }

    @Test("It closes with its object, and opens with it")
    func owner() throws {
        let (team, players) = try lackingTeam()
        #expect(try counts().count == 1)
        let id = try #require(try counts().first).id
        try one.resolve(id, .delete)
        try meet()
        #expect(try counts().isEmpty)
        try two.save(
            try two.change(
                team, ["town": .string("back")],
                [.add(players[2].row, to: "players")],
                resolves: true),
            try two.insertion("Player", -1, ["team": .reference(team.row)]))
        try meet()
        #expect(try counts().isEmpty)
    }

    @Test("Of objects with one unique key all members count")
    func groups() throws {
        let first = try team(2).team
        let second = try team(2, on: two)
        let coach = RelationshipOperation(
            name: "coaches", kind: .add, members: [try two.insert("Coach").row])
        try two.update(second.team, [:], [coach])
        try meet()
        let survivor = try #require(
            try [first, second.team].first { try one.row($0)?.objectID == $0 })
        #expect(
            try counts().map(\.id.description)
                == ["coaches", "players"].map { "Team.\(survivor.row).\($0).count" })
        // When they go separate ways each has its own again.
        let other = survivor == first ? second.team : first
        let id = try #require(try one.conflicts(kind: .uniqueness).first?.id)
        let change = ConflictResolution.change([other: ["name": .string("blues")]])
        try one.resolve(id, change)
        try meet()
        #expect(try counts().isEmpty)
        for node in nodes {
            for team in [first, second.team] {
                #expect(try node.members(team, "players").count == 2)
            }
        }
    }

    // MARK: Saves

    /// What a save is refused for.
    private func failures(_ operations: SaveOperation...) throws -> [ValidationFailure] {
        do {
            try one.save(SaveRequest(operations: operations))
        } catch let error as CoordinatorError {
            #expect(error.code == .validationFailed)
            return error.failures
        }
        return []
    }

    @Test("A save may not lead too many to an object it does not name, or leave it too few")
    func unnamed() throws {
        let (reds, players, _) = try team(2)
        let (greens, others, _) = try team(3, "greens")
        func lead(_ player: ManagedObjectID, to team: ManagedObjectID) throws -> SaveOperation {
            try one.change(player, ["team": .reference(team.row)])
        }
        let tooMany = try failures(lead(players[0], to: greens))
        #expect(
            tooMany.map(\.code) == [
                .relationshipLacksMinimumCount, .relationshipExceedsMaximumCount,
            ])
        #expect(
            tooMany.map(\.object)
                == [reds, greens].map { $0.uriRepresentation(cluster: "test") })
        #expect(tooMany.map(\.property) == ["players", "players"])
        #expect(
            try failures(one.insertion("Player", -1, ["team": .reference(greens.row)]))
                .map(\.message) == ["Team.players may have 3 objects and has 4."])
        #expect(
            try failures(one.deletion(players[1])).map(\.message)
                == ["Team.players needs at least 2 objects and has 1."])
        // What comes and goes in one save counts together, and so does what the owner's save does.
        #expect(try failures(lead(players[0], to: greens), lead(others[0], to: reds)) == [])
        #expect(try failures(one.deletion(others[1]), lead(others[2], to: greens)) == [])
        #expect(
            try failures(one.deletion(reds), one.deletion(players[1]), one.deletion(others[0]))
                == [])
    }

    @Test("Nor may it change links so from their other side")
    func unnamedLinks() throws {
        let (reds, _, coach) = try team(2)
        func teams(_ kind: RelationshipOperation.Kind) -> RelationshipOperation {
            RelationshipOperation(name: "teams", kind: kind, members: [reds.row])
        }
        let lacking = ["Team.coaches needs at least 1 objects and has 0."]
        #expect(try failures(one.change(coach, [:], [teams(.remove)])).map(\.message) == lacking)
        #expect(try failures(one.deletion(coach)).map(\.message) == lacking)
        #expect(
            try failures(
                one.insertion("Coach", -1, [:], [teams(.add)]), one.deletion(coach)) == [])
        #expect(try failures(one.insertion("Coach", -1, [:], [teams(.add)])) == [])
        #expect(
            try failures(one.insertion("Coach", -1, [:], [teams(.add)])).map(\.message)
                == ["Team.coaches may have 2 objects and has 3."])
    }

    @Test("What a merge has left wrong stops nobody who does not name it")
    func wrongBefore() throws {
        let (team, players) = try lackingTeam()
        #expect(try counts().count == 1)
        #expect(try failures(one.deletion(players[2])) == [])
        #expect(try failures(one.insertion("Player", -1, ["team": .reference(team.row)])) == [])
        #expect(try !failures(one.change(team, ["town": .string("x")])).isEmpty)
    }

    // MARK: Other models

    @Test("A model that asks for other counts has its conflicts from the opening on")
    func models() throws {
        let team = try team(3).team
        for node in nodes { try node.take(from: one) }
        let strict = try Self.model(fewest: 4, most: 0, called: "members")
        for node in nodes { try node.migrate(to: strict) }
        #expect(try counts().map(\.id.description) == ["Team.\(team.row).members.count"])
        let stricter = try Self.model(fewest: 5, most: 0, called: "members")
        for node in nodes { try node.migrate(to: stricter) }
        #expect(try counts().first?.explanation.text.contains("needs at least 5") == true)
        let lenient = try Self.model(fewest: 0, called: "members")
        for node in nodes { try node.migrate(to: lenient) }
        #expect(try counts().isEmpty)
        #expect(try one.conflicts(kind: .count, isOpen: false).map(\.state) == [.settled])
        try meet()
    }
}
