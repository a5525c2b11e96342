import Merge
import Testing

@testable import Coordinator

/// Saves that name a version and have no snapshot, as those over HTTP: a policy knows what their caller
/// saw from the log (CONFORMANCE CD-13, CD-15, CD-19).
@Suite("Saves that name a version")
struct NamedVersionTests {
    private let node: EngineNode

    init() throws {
        func entity(_ name: String, _ policy: MergePolicy) -> EntityDescription {
            EntityDescription(
                name, mergePolicy: policy,
                attributes: [
                    .init("a", .string), .init("b", .string),
                    .init("c", .string, isOptional: false, defaultValue: .string("c")),
                ])
        }
        node = try EngineNode(
            try ManagedObjectModel(entities: [
                entity("Property", .mergeByPropertyStoreTrump), entity("Whole", .overwrite),
                entity("Rolled", .rollback), entity("Row", .errorByRow),
            ]), node: 1)
    }

    static let entities = ["Property", "Whole", "Rolled", "Row"]

    private func inserted(_ entity: String) throws -> (ManagedObjectID, RowVersion) {
        let id = try node.insert(entity, ["a": .string("a0"), "b": .string("b0")])
        return (id, try node.version(id))
    }

    private func values(_ id: ManagedObjectID) throws -> [PropertyValue]? {
        try node.row(id)?.values
    }

    private func collect() throws {
        let stable = try node.vector
        #expect(try node.coordinator.collect(stable: stable).tombstonesCollected == 1)
    }

    @Test(
        "Who overwrites what was deleted brings it back as he saw it, collected or not (CD-19)",
        arguments: entities, [false, true])
    func overwritten(entity: String, isCollected: Bool) throws {
        let (id, version) = try inserted(entity)
        try node.update(id, ["a": .string("a2")], resolves: true)
        try node.delete(id, resolves: true)
        if isCollected { try collect() }
        let result = try node.update(id, ["b": .string("b1")], version: version, policy: .overwrite)
        #expect(result.transaction != nil)
        #expect(try values(id) == [.string("a0"), .string("b1"), .string("c")])
    }

    @Test("If nothing shows a client's former view, the error says so", arguments: entities)
    func unknown(entity: String) async throws {
        let (id, version) = try inserted(entity)
        try node.delete(id)
        try collect()
        let token = try node.coordinator.currentToken
        _ = try await node.coordinator.purgeHistory(before: token, stable: try node.vector)
        let code = try node.code {
            try node.update(id, ["b": .string("b1")], version: version, policy: .overwrite)
        }
        #expect(code == .mergeConflict)
        #expect(try node.row(id) == nil)
    }

    @Test(
        "Changes of different properties both stay, also of a row that is one register (CD-15)",
        arguments: entities, [MergePolicy.mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump])
    func disjoint(entity: String, policy: MergePolicy) throws {
        let (id, version) = try inserted(entity)
        try node.update(id, ["a": .string("a1")])
        try node.update(id, ["b": .string("b1")], version: version, policy: policy)
        #expect(try values(id) == [.string("a1"), .string("b1"), .string("c")])
        // Of what both changed the policy's stands.
        try node.update(id, ["a": .string("a2")], version: version, policy: policy)
        let isStore = policy == .mergeByPropertyStoreTrump
        #expect(try values(id)?.first == .string(isStore ? "a1" : "a2"))
    }

    @Test("A conflict with a delete tells what the caller saw (CD-6, CD-16)", arguments: entities)
    func told(entity: String) throws {
        let (id, version) = try inserted(entity)
        try node.delete(id)
        let error = #expect(throws: CoordinatorError.self) {
            try node.update(id, ["b": .string("b1")], version: version)
        }
        let conflict = try #require(error?.conflicts.first)
        #expect(conflict.newVersion == nil && conflict.cachedSnapshot == nil)
        #expect(conflict.objectSnapshot?["a"] == .string("a0"))
    }

    @Test("What has never been here is not given up", arguments: entities)
    func neverHere(entity: String) throws {
        let id = ManagedObjectID(entityName: entity, row: RowID(4_242))
        let dot = Dot(actor: try ActorID(node: #require(NodeID(9)), incarnation: 7), sequence: 3)
        for policy in [MergePolicy.mergeByPropertyStoreTrump, .rollback, .overwrite] {
            let code = try node.code {
                try node.update(
                    id, ["b": .string("b1")], version: RowVersion(dots: [dot]),
                    policy: policy)
            }
            #expect(code == .objectNotFound)
        }
        #expect(try node.conflicts(isOpen: nil).isEmpty)
    }
}
