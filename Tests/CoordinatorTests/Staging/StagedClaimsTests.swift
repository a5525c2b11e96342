import Merge
import Testing

@testable import Coordinator

/// Very many inserts and deletes of rows that claim others for themselves alone: of a one-to-one at most
/// one claim stands.
@Suite("Staged one-to-ones")
struct StagedClaimsTests {
    private static let count = 24
    static let moments = Array(1...32) + [40, 60]

    private let node: EngineNode
    private let other: EngineNode
    private let persons: [ManagedObjectID]

    init() throws {
        let model = try ManagedObjectModel(entities: [
            // The claim is kept in its column: its name comes first.
            EntityDescription(
                "Badge", mergePolicy: .mergeByPropertyStoreTrump,
                attributes: [AttributeDescription("text", .string)],
                relationships: [RelationshipDescription("person", to: "Person", inverse: "badge")]),
            EntityDescription(
                "Pass", parent: "Badge", attributes: [AttributeDescription("area", .string)]),
            EntityDescription(
                "Person",
                attributes: [
                    AttributeDescription("name", .string), AttributeDescription("code", .string),
                ],
                relationships: [RelationshipDescription("badge", to: "Badge", inverse: "person")],
                uniquenessConstraints: [["code"]]),
        ])
        let nodes = try [EngineNode(model, node: 1), EngineNode(model, node: 2)]
        (node, other) = (nodes[0], nodes[1])
        let node = nodes[0]
        persons = try (0..<Self.count).map {
            try node.insert("Person", ["name": .string("person \($0)")])
        }
        try other.take(from: node)
        try node.reopenStaging()
    }

    private func badges(
        _ node: EngineNode, for targets: [RowID], from first: Int64 = 1
    ) throws -> [SaveOperation] {
        try targets.enumerated().map { place, target in
            let number = first + Int64(place)
            return try node.insertion(
                number % 3 == 0 ? "Pass" : "Badge", -number,
                ["person": .reference(target), "text": .string("badge \(number)")])
        }
    }

    private func newPersons(_ node: EngineNode, from first: Int64) throws -> [SaveOperation] {
        try (first..<first + Int64(Self.count)).map {
            try node.insertion("Person", -$0, ["name": .string("new \($0)")])
        }
    }

    private func inserted(_ result: SaveResult, _ entities: Set<String>) -> [ManagedObjectID] {
        result.insertedRows.filter { entities.contains($0.entityName) }.map {
            ManagedObjectID(entityName: $0.entityName, row: $0.row)
        }
    }

    private func badge(_ node: EngineNode, of person: ManagedObjectID) throws -> RowID? {
        let found = try node.members(person, "badge")
        #expect(found.count < 2)
        return found.first
    }

    /// Nothing of a staged transaction is left, and both nodes are equal, register by register: the
    /// other writes all in one piece.
    private func expectEqualAndDone() throws {
        try node.expectNothingStaged()
        try exchange(node, other)
        let rows = try node.coordinator.read { reader in
            try ["Badge", "Person"].flatMap { try reader.fetch(FetchRequest($0)).map(\.objectID) }
        }
        for id in rows {
            #expect(try node.row(id)?.values == other.row(id)?.values)
            let entity = try node.entity(id.entityName)
            let registers = try [node, other].map { node in
                try node.coordinator.read { try $0.registers(entity, id.row) }
            }
            #expect(registers[0] == registers[1])
        }
        for person in persons {
            #expect(try badge(node, of: person) == badge(other, of: person))
        }
        let conflicts = try [node, other].map { Set(try $0.conflicts().map(\.id)) }
        #expect(conflicts[0] == conflicts[1])
    }

    @Test("New ones for new and for those that are there, here and as another node's")
    func inserted() throws {
        var request = SaveRequest(operations: try newPersons(node, from: 100))
        request.operations += try badges(node, for: (100..<124).map { RowID(-$0) })
        let result = try node.coordinator.save(request)
        #expect(node.coordinator.stagedTransactions == 1)
        let (new, claims) = (inserted(result, ["Person"]), inserted(result, ["Badge", "Pass"]))
        #expect((new.count, claims.count) == (Self.count, Self.count))
        for (person, badge) in zip(new, claims) {
            #expect(try self.badge(node, of: person) == badge.row)
        }
        try expectEqualAndDone()
        _ = try other.coordinator.save(
            SaveRequest(operations: try badges(other, for: persons.map(\.row))))
        try node.take(from: other)
        #expect(node.coordinator.stagedTransactions == 1)
        for person in persons { #expect(try badge(node, of: person) != nil) }
        #expect(try node.conflicts().isEmpty)
        try expectEqualAndDone()
    }

    @Test("Who had a badge gets the new one, and two of one save are settled, in one piece")
    func claimedAlready() throws {
        let old = try node.insert("Badge", ["person": .reference(persons[5].row)])
        let result = try node.coordinator.save(
            SaveRequest(operations: try badges(node, for: persons.map(\.row))))
        #expect(node.coordinator.stagedTransactions == 0)
        #expect(try badge(node, of: persons[5]) == inserted(result, ["Badge", "Pass"])[5].row)
        #expect(try node.value(old, "person") == .null)
        try expectEqualAndDone()
        let twice = (persons + persons.prefix(1)).map(\.row)
        _ = try other.coordinator.save(
            SaveRequest(operations: try badges(other, for: Array(twice))))
        try node.take(from: other)
        #expect(node.coordinator.stagedTransactions == 0)
        try expectEqualAndDone()
    }

    @Test("Of a claim that comes between the later one stands", arguments: moments)
    func claimedBetween(parts: Int) throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = SaveRequest(operations: try badges(node, for: persons.map(\.row)))
        var between: SaveResult?
        let result = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            between = try node.save(
                try node.insertion("Pass", -1, ["person": .reference(persons[7].row)]))
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        let saved = try #require(between)
        let (claims, own) = (inserted(result, ["Badge", "Pass"]), inserted(saved, ["Pass"])[0])
        let sequences = [try #require(result.transaction), try #require(saved.transaction)]
            .map(\.sequence)
        let isLater = sequences[0] < sequences[1]
        #expect(try badge(node, of: persons[7]) == (isLater ? own.row : claims[7].row))
        #expect(try node.value(own, "person") == (isLater ? .reference(persons[7].row) : .null))
        #expect(try badge(node, of: persons[8]) == claims[8].row)
        #expect(try node.conflicts().isEmpty)
        try expectEqualAndDone()
    }

    @Test("Of another node's claims that come between the policy's stands", arguments: moments)
    func claimedElsewhere(parts: Int) throws {
        _ = try other.coordinator.save(
            SaveRequest(operations: try badges(other, for: persons.map(\.row))))
        let log = Array(other.transactions.suffix(1))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let result = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.apply(log)
        } meanwhile: {
            try node.save(
                try node.insertion("Badge", -1, ["person": .reference(persons[7].row)]),
                try node.insertion("Badge", -2, ["text": .string("free")]))
            #expect(try coordinator.verify().isOK)
        }
        #expect(result.rejected.isEmpty)
        node.finishStaging()
        #expect(try badge(node, of: persons[7]) != nil)
        try expectEqualAndDone()
    }

    @Test("Whom they claim may go, or get something else", arguments: moments)
    func targetBetween(parts: Int) throws {
        _ = try other.coordinator.save(
            SaveRequest(operations: try badges(other, for: persons.map(\.row))))
        let log = Array(other.transactions.suffix(1))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.apply(log)
        } meanwhile: {
            try node.save(
                try node.deletion(persons[3]),
                try node.change(persons[4], ["name": .string("other")]))
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        #expect(try node.row(persons[3]) == nil)
        #expect(try node.value(persons[4], "name") == .string("other"))
        try expectEqualAndDone()
    }

    private func made() throws -> [ManagedObjectID] {
        let result = try other.coordinator.save(
            SaveRequest(operations: try badges(other, for: persons.map(\.row))))
        try node.take(from: other)
        node.finishStaging()
        return inserted(result, ["Badge", "Pass"])
    }

    private func deletes(_ node: EngineNode, _ ids: [ManagedObjectID]) throws -> SaveRequest {
        SaveRequest(operations: try ids.map { try node.deletion($0) })
    }

    @Test("They are deleted, alone and with what they claim", arguments: [false, true])
    func deleted(areBoth: Bool) throws {
        let badges = try made()
        let result = try node.coordinator.save(
            try deletes(node, areBoth ? badges + persons : badges))
        #expect(node.coordinator.stagedTransactions == 2)
        #expect(result.conflicts.isEmpty)
        for person in persons {
            #expect(try (node.row(person) == nil) == areBoth)
            if !areBoth { #expect(try badge(node, of: person) == nil) }
        }
        try expectEqualAndDone()
        // Nothing is left that would claim them.
        if areBoth { return }
        _ = try node.coordinator.save(
            SaveRequest(operations: try self.badges(node, for: persons.map(\.row))))
        #expect(node.coordinator.stagedTransactions == 1)
        try expectEqualAndDone()
    }

    @Test("A claim that lost is shown once that which stood is deleted")
    func deletedBeforeOthers() throws {
        let badges = try made()
        let person = try node.insert("Person", ["name": .string("late")])
        try exchange(node, other)
        let claims = try [node, other].map {
            try $0.insert("Badge", ["person": .reference(person.row)])
        }
        try exchange(node, other)
        let shown = try #require(try badge(node, of: person))
        let hidden = shown == claims[0].row ? claims[1].row : claims[0].row
        let before = node.coordinator.stagedTransactions
        _ = try other.coordinator.save(
            try deletes(other, badges + claims.filter { $0.row == shown }))
        try node.take(from: other)
        #expect(node.coordinator.stagedTransactions == before + 1)
        #expect(try badge(node, of: person) == hidden)
        try expectEqualAndDone()
    }

    @Test("Whom they claimed is claimed between", arguments: moments)
    func deletedBetween(parts: Int) throws {
        let badges = try made()
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try deletes(node, badges)
        var between: ManagedObjectID?
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            between = try node.insert("Badge", ["person": .reference(persons[6].row)])
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        #expect(try badge(node, of: persons[6]) == between?.row)
        for badge in badges { #expect(try node.row(badge) == nil) }
        #expect(try node.conflicts().isEmpty)
        try expectEqualAndDone()
    }

    @Test("A claim that loses and comes between is shown then", arguments: moments)
    func lostBetween(parts: Int) throws {
        let badges = try made()
        let person = try node.insert("Person", ["name": .string("late")])
        try exchange(node, other)
        // The earlier claim stands, which is the one that is to be deleted.
        let mine = try node.insert("Badge", ["person": .reference(person.row)])
        let theirs = try other.insert("Badge", ["person": .reference(person.row)])
        let log = Array(other.transactions.suffix(1))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try deletes(node, [mine] + badges)
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            let applied = try coordinator.apply(log)
            #expect(applied.rejected.isEmpty)
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        #expect(try badge(node, of: person) == theirs.row)
        #expect(try node.row(mine) == nil)
        try expectEqualAndDone()
    }

    @Test("A claim that loses by another object of a key comes between", arguments: moments)
    func lostByGroupBetween(parts: Int) throws {
        let badges = try made()
        // While apart both insert one of that key: the earlier is shown, and the earlier claim stands.
        let person = try node.insert("Person", ["code": .string("key")])
        let mine = try node.insert("Badge", ["person": .reference(person.row)])
        let twin = try other.insert("Person", ["code": .string("key")])
        let theirs = try other.insert("Badge", ["person": .reference(twin.row)])
        let log = Array(other.transactions.suffix(2))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try deletes(node, [mine] + badges)
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            let applied = try coordinator.apply(log)
            #expect(applied.rejected.isEmpty)
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        #expect(try badge(node, of: person) == theirs.row)
        #expect(try node.row(mine) == nil)
        try expectEqualAndDone()
    }

    @Test("Another node's deletes, and whom they claimed is claimed between", arguments: moments)
    func deletedElsewhere(parts: Int) throws {
        let badges = try made()
        _ = try other.coordinator.save(try deletes(other, badges))
        let log = Array(other.transactions.suffix(1))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        var between: ManagedObjectID?
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.apply(log)
        } meanwhile: {
            between = try node.insert("Badge", ["person": .reference(persons[6].row)])
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        #expect(try badge(node, of: persons[6]) == between?.row)
        try expectEqualAndDone()
    }
}
