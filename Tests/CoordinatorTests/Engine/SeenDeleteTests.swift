import Merge
import Testing

@testable import Coordinator

/// References to what somebody deleted (DESIGN section 5.4): a conflict is only what was concurrent.
@Suite("A delete that had seen a reference")
struct SeenDeleteTests {
    private let here: EngineNode
    private let there: EngineNode

    /// The rest of a history after as much collection as possible.
    private static let nothing: HistoryLimits = {
        var limits = HistoryLimits()
        limits.maximumBytes = 1
        return limits
    }()

    init() throws {
        let model = try ManagedObjectModel(
            entities: [MergePolicy.mergeByPropertyObjectTrump, .rollback].flatMap { policy in
                [
                    EntityDescription(
                        Self.name("Owner", policy), mergePolicy: policy,
                        attributes: [.init("name", .string)],
                        relationships: [
                            .init(
                                "items", to: Self.name("Item", policy), inverse: "owner",
                                isToMany: true),
                            .init("badge", to: Self.name("Badge", policy), inverse: "holder"),
                        ]),
                    EntityDescription(
                        Self.name("Badge", policy), mergePolicy: policy,
                        attributes: [.init("name", .string)],
                        relationships: [
                            .init("holder", to: Self.name("Owner", policy), inverse: "badge")
                        ]),
                    EntityDescription(
                        Self.name("Item", policy), mergePolicy: policy,
                        attributes: [.init("name", .string)],
                        relationships: [
                            .init("owner", to: Self.name("Owner", policy), inverse: "items")
                        ]),
                ]
            })
        (here, there) = try EngineNode.pair(model)
    }

    private static func name(_ entity: String, _ policy: MergePolicy) -> String {
        policy == .rollback ? "Whole\(entity)" : entity
    }

    private func pair(
        _ policy: MergePolicy = .mergeByPropertyObjectTrump
    ) throws -> (owner: ManagedObjectID, item: ManagedObjectID) {
        let owner = try here.insert(Self.name("Owner", policy))
        let item = try here.insert(Self.name("Item", policy), ["owner": .reference(owner.row)])
        try exchange(here, there)
        return (owner, item)
    }

    private func dangling(_ node: EngineNode) throws -> [String] {
        try node.conflicts(kind: .dangling).map(\.id.description)
    }

    @Test("It is no conflict, at whichever node; the reference reads as nil")
    func quiet() throws {
        let (owner, item) = try pair()
        _ = try there.delete(owner)
        try exchange(here, there)
        for node in [here, there] {
            #expect(try node.value(item, "owner") == .null)
            #expect(try node.coordinator.read { try $0.conflicts(ConflictQuery()) }.isEmpty)
        }
    }

    @Test("History tells that the reference reads as nil, as long as it has the delete")
    func history() throws {
        let (owner, item) = try pair()
        let deletion = try #require(try there.delete(owner).transaction)
        try exchange(here, there)
        for node in [here, there] {
            let derived = try node.coordinator.read { try $0.derivedChanges(of: deletion) }
            #expect(derived == [DerivedChange(object: item, property: "owner", target: nil)])
        }
        try there.insert("Item")
        let vector = try there.vector
        _ = try there.coordinator.tendHistory(
            Self.nothing, HistoryKnowledge(stable: vector, elsewhere: vector))
        #expect(try there.coordinator.read { try $0.derivedChanges(of: deletion) }.isEmpty)
        #expect(try there.look("SELECT count(*) FROM _derived") == 0)
    }

    @Test("History tells it also of an object that the deleting save changes, in either order")
    func sameSave() throws {
        for isDeletedFirst in [true, false] {
            let (owner, item) = try pair()
            var operations = [
                try here.deletion(owner), try here.change(item, ["name": .string("x")]),
            ]
            if !isDeletedFirst { operations.reverse() }
            let saved = try here.save(SaveRequest(operations: operations))
            let dot = try #require(saved.transaction)
            try exchange(here, there)
            for node in [here, there] {
                #expect(
                    try node.coordinator.read { try $0.derivedChanges(of: dot) }
                        == [DerivedChange(object: item, property: "owner", target: nil)])
            }
        }
    }

    @Test("History tells of a reference that came after the delete that it reads as nil")
    func late() throws {
        let (owner, _) = try pair()
        let late = try here.insert("Item", ["owner": .reference(owner.row)])
        let dot = try #require(here.transactions.last?.dot)
        _ = try there.delete(owner)
        try exchange(here, there)
        #expect(
            try there.coordinator.read { try $0.derivedChanges(of: dot) }
                == [DerivedChange(object: late, property: "owner", target: nil)])
    }

    @Test("Edits of what is deleted write nothing to the objects that referred to it")
    func lateEdits() throws {
        let (owner, item) = try pair()
        let edits = try (1...3).map { try here.update(owner, ["name": .string("\($0)")]) }
        _ = try there.delete(owner)
        try there.take(from: here)
        let dots = edits.compactMap(\.transaction)
        #expect(dots.count == 3)
        #expect(try there.value(item, "owner") == .null)
        for dot in dots {
            #expect(try there.coordinator.read { try $0.derivedChanges(of: dot) }.isEmpty)
        }
    }

    @Test("History tells that the reference leads to what is back")
    func returns() throws {
        let (owner, item) = try pair(.rollback)
        let edit = try #require(try here.update(owner, ["name": .string("x")]).transaction)
        _ = try there.delete(owner)
        #expect(try there.value(item, "owner") == .null)
        try exchange(here, there)
        #expect(try there.value(item, "owner") == .reference(owner.row))
        let derived = try there.coordinator.read { try $0.derivedChanges(of: edit) }
        #expect(derived == [DerivedChange(object: item, property: "owner", target: owner.row)])
        // Here it has always led there.
        #expect(try here.coordinator.read { try $0.derivedChanges(of: edit) }.isEmpty)
    }

    @Test("Commit notices name the objects that refer to what was deleted", .timeLimit(.minutes(1)))
    func notices() async throws {
        let (owner, item) = try pair()
        _ = try there.delete(owner)
        let (notices, continuation) = AsyncStream.makeStream(of: CommitNotice.self)
        let observation = here.coordinator.observeCommits { continuation.yield($0) }
        try exchange(here, there)
        var updated: [ManagedObjectID] = []
        for await notice in notices {
            updated = notice.updated
            if notice.deleted.contains(owner) { break }
        }
        withExtendedLifetime(observation) {}
        #expect(updated == [item])
    }

    @Test("A reference written apart from the delete is a conflict, at every node")
    func concurrent() throws {
        let (owner, _) = try pair()
        let late = try here.insert("Item", ["owner": .reference(owner.row)])
        _ = try there.delete(owner)
        try exchange(here, there)
        for node in [here, there] {
            #expect(try dangling(node) == ["Item.\(late.row).owner.target"])
        }
    }

    @Test("A later delete that had seen the reference ends the conflict")
    func laterDelete() throws {
        let (owner, _) = try pair()
        let third = try EngineNode(here.model, node: 3)
        try exchange(here, there, third)
        let late = try here.insert("Item", ["owner": .reference(owner.row)])
        try exchange(here, third)
        _ = try there.delete(owner)
        try exchange(here, there)
        #expect(try dangling(here) == ["Item.\(late.row).owner.target"])
        _ = try third.delete(owner)
        try exchange(here, there, third)
        for node in [here, there, third] { #expect(try dangling(node).isEmpty) }
    }

    @Test("A claim that lost to another's is no conflict any more once a delete has seen both")
    func lostClaim() throws {
        let (owner, _) = try pair()
        for node in [here, there] { try node.insert("Badge", ["holder": .reference(owner.row)]) }
        try exchange(here, there)
        for node in [here, there] { #expect(try dangling(node).count == 1) }
        _ = try there.delete(owner)
        try exchange(here, there)
        for node in [here, there] { #expect(try dangling(node).isEmpty) }
    }

    @Test("A claim that loses in a save which changes its object too is a conflict, once")
    func claimLostAndChanged() throws {
        let owner = try here.insert("Owner")
        let late = try here.insert("Badge")
        try exchange(here, there)
        try here.update(late, ["holder": .reference(owner.row), "name": .string("here")])
        try there.insert("Badge", ["holder": .reference(owner.row), "name": .string("x")])
        try there.update(late, ["name": .string("there")])
        try exchange(here, there)
        for node in [here, there] { #expect(try dangling(node).count == 1) }
        _ = try here.save(
            try here.change(late, ["name": .string("last")]), try here.deletion(owner))
        try exchange(here, there)
        for node in [here, there] { #expect(try dangling(node).isEmpty) }
    }

    @Test("What is a conflict stays one once the tombstone is collected and the log is purged")
    func collected() throws {
        let (owner, item) = try pair()
        let late = try here.insert("Item", ["owner": .reference(owner.row)])
        _ = try there.delete(owner)
        try exchange(here, there)
        let token = try here.coordinator.currentToken
        _ = try here.coordinator.collect(stable: token.versionVector)
        try here.update(late, ["name": .string("x")])
        try here.update(item, ["name": .string("x")])
        #expect(try dangling(here) == ["Item.\(late.row).owner.target"])
        let vector = try here.vector
        _ = try here.coordinator.tendHistory(
            Self.nothing, HistoryKnowledge(stable: vector, elsewhere: vector))
        try here.update(late, ["name": .string("y")])
        try here.update(item, ["name": .string("y")])
        #expect(try dangling(here) == ["Item.\(late.row).owner.target"])
    }

    @Test("An edit of the whole row that has seen the delete makes no conflict")
    func wholeRow() throws {
        let (owner, item) = try pair(.rollback)
        _ = try there.delete(owner)
        try exchange(here, there)
        try here.update(item, ["name": .string("x")])
        try exchange(here, there)
        for node in [here, there] {
            #expect(try node.value(item, "owner") == .null)
            #expect(try dangling(node).isEmpty)
        }
    }

    @Test("A reference first shown after the tombstone's collection is not lost without a word")
    func shownLate() throws {
        let (here, there) = try Self.cards()
        let owner = try here.insert("Owner")
        try exchange(here, there)
        let first = try here.insert("Card", ["number": .integer(1)])
        let hidden = try there.insert(
            "Card", ["number": .integer(1), "owner": .reference(owner.row)])
        _ = try here.delete(owner)
        try exchange(here, there)
        for node in [here, there] {
            #expect(try dangling(node).isEmpty)
            let token = try node.coordinator.currentToken
            _ = try node.coordinator.collect(stable: token.versionVector)
            #expect(try node.look("SELECT count(*) FROM _tombstone") == 0)
        }
        _ = try here.delete(first)
        try exchange(here, there)
        for node in [here, there] {
            #expect(try node.value(hidden, "owner") == .null)
            #expect(try dangling(node) == ["Card.\(hidden.row).owner.target"])
        }
    }

    @Test("A reference first shown where the log forgot it and the delete is listed there alone")
    func shownAfterPurge() throws {
        let (here, there) = try Self.cards()
        let owner = try here.insert("Owner")
        try exchange(here, there)
        let first = try here.insert("Card", ["number": .integer(1)])
        let hidden = try there.insert(
            "Card", ["number": .integer(1), "owner": .reference(owner.row)])
        try exchange(here, there)
        _ = try here.delete(owner)
        try exchange(here, there)
        // The last of all is never purged.
        try here.insert("Owner")
        let knowledge = HistoryKnowledge(stable: VersionVector(), elsewhere: try here.vector)
        #expect(try here.coordinator.tendHistory(Self.nothing, knowledge).purgedUnstable == 4)
        _ = try here.delete(first)
        try exchange(here, there)
        for node in [here, there] { #expect(try node.value(hidden, "owner") == .null) }
        #expect(try dangling(here) == ["Card.\(hidden.row).owner.target"])
        #expect(try dangling(there).isEmpty)
    }

    /// Two nodes with cards that are united where they have one number.
    private static func cards() throws -> (EngineNode, EngineNode) {
        let model = try ManagedObjectModel(entities: [
            EntityDescription("Owner", attributes: [.init("name", .string)]),
            EntityDescription(
                "Card", attributes: [.init("number", .integer64)],
                relationships: [.init("owner", to: "Owner")], uniquenessConstraints: [["number"]]),
        ])
        return try EngineNode.pair(model)
    }
}
