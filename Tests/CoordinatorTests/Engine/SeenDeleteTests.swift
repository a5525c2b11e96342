import Merge
import Testing

@testable import Coordinator

/// References to what somebody deleted (DESIGN section 5.4): a conflict is only what was concurrent.
@Suite("A delete that had seen a reference")
struct SeenDeleteTests {
    private let here: EngineNode
    private let there: EngineNode

    init() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Owner", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [AttributeDescription("name", .string)],
                relationships: [
                    RelationshipDescription("items", to: "Item", inverse: "owner", isToMany: true)
                ]),
            EntityDescription(
                "Item", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [AttributeDescription("name", .string)],
                relationships: [RelationshipDescription("owner", to: "Owner", inverse: "items")]),
        ])
        here = try EngineNode(model, node: 1)
        there = try EngineNode(model, node: 2)
    }

    private func pair() throws -> (owner: ManagedObjectID, item: ManagedObjectID) {
        let owner = try here.insert("Owner")
        let item = try here.insert("Item", ["owner": .reference(owner.row)])
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

    @Test("History tells that the reference reads as nil, and that it leads to what is back")
    func history() throws {
        let (owner, item) = try pair()
        let deletion = try #require(try there.delete(owner).transaction)
        try exchange(here, there)
        for node in [here, there] {
            let derived = try node.coordinator.read { try $0.derivedChanges(of: deletion) }
            #expect(derived == [DerivedChange(object: item, property: "owner", target: nil)])
        }
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
    }
}
