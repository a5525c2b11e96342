import Merge
import Testing

@testable import Coordinator

/// Changes of membership as saves: kept, applied from elsewhere, and what is refused after them.
@Suite struct MembershipTests {
    private let model: ManagedObjectModel

    init() throws { model = try EngineModel.everything() }

    private func id(_ number: Int) throws -> NodeID { try #require(NodeID(number)) }

    private let address = MemberAddress(
        publish: "tcp://h:1", exchange: "tcp://h:2", publicKeys: ["one", "two"])

    @Test("Members are kept over openings, and reach every node that applies the transaction")
    func kept() throws {
        let (first, second) = try EngineNode.pair(model)
        #expect(try first.coordinator.membership.isEmpty)
        let digest = try first.coordinator.currentDigest
        _ = try first.coordinator.changeMembership([
            .join(try id(1), address), .join(try id(2), address), .join(try id(3), address),
        ])
        _ = try first.coordinator.changeMembership([.depart(try id(3), isRetired: true)])
        let expected = try first.coordinator.membership
        #expect(expected.current == [try id(1), try id(2)])
        #expect(expected[try id(3)]?.departure?.isRetired == true)
        #expect(try second.coordinator.apply(first.transactions).rejected.isEmpty)
        #expect(try second.coordinator.membership == expected)
        // Who is a member is no data that readers see.
        #expect(try first.coordinator.currentDigest == digest)
        #expect(try first.coordinator.verify().isOK)
        for node in [first, second] {
            try node.reopen()
            #expect(try node.coordinator.membership == expected)
            #expect(try node.coordinator.read { try $0.membership } == expected)
        }
    }

    @Test("A number is not used again, and a departed node saves nothing, nor in the same group")
    func departed() throws {
        let node = try EngineNode(model, node: 1)
        _ = try node.coordinator.changeMembership([
            .join(try id(1), address), .join(try id(2), address),
        ])
        _ = try node.coordinator.changeMembership([.depart(try id(2), isRetired: true)])
        for change: MembershipChange in [
            .join(try id(2), address), .depart(try id(2), isRetired: false),
        ] {
            let error = #expect(throws: CoordinatorError.self) {
                _ = try node.coordinator.changeMembership([change])
            }
            #expect(error?.code == .memberDeparted)
        }
        var leaving = SaveRequest(operations: [])
        leaving.membership = [.depart(try id(1), isRetired: false)]
        let late = SaveRequest(operations: [try node.insertion("Person")])
        let results = node.coordinator.saveTogether([leaving, late])
        #expect(throws: Never.self) { try results[0].get() }
        let error = #expect(throws: CoordinatorError.self) { try results[1].get() }
        #expect(error?.code == .memberDeparted)
        let dot = try #require(try results[0].get().transaction)
        #expect(try node.vector[dot.actor] == dot.sequence)
    }

    @Test("What bears the name of the entity and is no change of membership is held")
    func malformed() throws {
        let node = try EngineNode(model, node: 1)
        let actor = ActorID(node: try id(2), incarnation: 1)
        let transaction = EncodedTransaction(
            Transaction(
                dot: Dot(actor: actor, sequence: 1), timestamp: .zero, seen: VersionVector(),
                modelHash: model.modelHash, shapes: MembershipChange.shapes,
                changes: [Change(kind: .update, shape: 1, row: RowID(3), values: [.null])]))
        let applied = try node.coordinator.apply([transaction])
        #expect(applied.rejected.count == 1)
        #expect(try node.coordinator.membership.isEmpty)
    }
}
