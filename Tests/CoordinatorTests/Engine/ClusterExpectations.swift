import Coordinator
import Merge
import Testing

/// What nodes that have seen the same saves must have in common.
enum ClusterExpectations {
    static func expectEqual(_ nodes: [EngineNode], _ seed: Int) throws {
        guard let first = nodes.first else { return }
        for node in nodes {
            #expect(try node.vector == first.vector, "seed \(seed)")
            #expect(
                try node.coordinator.currentDigest == first.coordinator.currentDigest,
                "seed \(seed)")
            let report = try node.coordinator.verify()
            #expect(report.isOK, "seed \(seed): \(report.differences)")
            #expect(try unresolved(node) == unresolved(first), "seed \(seed)")
            for entity in RandomCluster.entities {
                let request = FetchRequest(entity)
                let own = try node.coordinator.read { try $0.fetch(request) }
                let firsts = try first.coordinator.read { try $0.fetch(request) }
                #expect(
                    own.sorted { $0.objectID < $1.objectID }
                        == firsts.sorted { $0.objectID < $1.objectID }, "seed \(seed)")
                try expectConsistent(node, own, seed)
            }
        }
    }

    struct Side: Hashable {
        let dot: Dot?
        let value: PropertyValue?
        let isVisible: Bool
        let isDeleted: Bool
        let row: [ConflictSide.RowValue]
    }

    static func unresolved(_ node: EngineNode) throws -> [String: [Side]] {
        var result: [String: [Side]] = [:]
        for conflict in try node.conflicts(.unresolved) {
            result[conflict.id.description] = conflict.sides.map {
                Side(
                    dot: $0.dot, value: $0.value, isVisible: $0.isVisible,
                    isDeleted: $0.isDeleted, row: $0.row)
            }
        }
        return result
    }

    /// No reference leads nowhere, and both sides of a relationship tell the same.
    private static func expectConsistent(_ node: EngineNode, _ rows: [RowSnapshot], _ seed: Int)
        throws
    {
        for row in rows {
            let entity = try node.entity(row.objectID.entityName)
            for relationship in entity.relationships {
                let place = "seed \(seed): \(row.objectID).\(relationship.name)"
                switch relationship.storage {
                case .column(let position):
                    guard case .reference(let target) = row.values[position] else { continue }
                    let destination = try node.entity(relationship.destination)
                    let found = try node.coordinator.read { try $0.row(destination, target) }
                    let there = try #require(found, "\(place)")
                    guard let inverse = relationship.description.inverse else { continue }
                    let back = try node.members(there.objectID, inverse)
                    #expect(back.contains(row.objectID.row), "\(place)")
                case .inverseColumn, .link:
                    let members = try node.members(row.objectID, relationship.name)
                    if !relationship.isToMany { #expect(members.count < 2, "\(place)") }
                    guard relationship.isToMany, case .link = relationship.storage,
                        let inverse = relationship.description.inverse
                    else { continue }
                    for member in members {
                        let other = ManagedObjectID(
                            entityName: relationship.destination, row: member)
                        #expect(
                            try node.members(other, inverse).contains(row.objectID.row),
                            "\(place)")
                    }
                }
            }
        }
    }

    /// What a node shows is what the rules make of the transactions it has.
    ///
    /// - Parameter transactions: those that it has; nil for those that it has heard of.
    static func expectOracle(
        _ node: EngineNode, _ seed: Int, _ transactions: [EncodedTransaction]? = nil
    ) throws {
        let oracle = SaveOracle(node.model, transactions ?? node.transactions)
        let journal = try node.conflicts(isOpen: nil)
        #expect(oracle.lost(journal).isEmpty, "seed \(seed): \(oracle.lost(journal))")
        for (row, writes) in oracle.writes.sorted(by: { $0.key < $1.key }) {
            guard let entity = writes.first?.entity else { continue }
            let found = try node.coordinator.read { try $0.row(entity, row) }
            #expect((found != nil) == oracle.isAlive(row), "seed \(seed): \(entity.name)/\(row)")
            guard let found else { continue }
            #expect(
                found.version.dots == oracle.siblings(of: row).map(\.dot).sorted(),
                "seed \(seed): version of \(entity.name)/\(row)")
            for (position, property) in entity.properties.enumerated() {
                #expect(
                    found.values[position] == oracle.value(row, position),
                    "seed \(seed): \(entity.name)/\(row).\(property.name)")
            }
        }
    }
}
