import Coordinator
import Merge
import ReferenceModel
import Testing

/// Expects that a store shows exactly what the reference model computes from its log.
///
/// - Parameter hasCollected: whether settled conflicts may be closed because they are stable.
func expectAgreement(
    _ node: ScriptedNode, _ place: String = "", hasCollected: Bool = false
) throws {
    let transactions = try node.log().map(\.transaction)
    let oracle = ReferenceModel(node.model, transactions, at: try node.vector)
    for entity in node.model.entities where !entity.isAbstract {
        let found = try node.coordinator.read { try $0.fetch(FetchRequest(entity.name)) }
            .filter { $0.objectID.entityName == entity.name }
        #expect(
            found.map(\.objectID.row).sorted() == oracle.rows(entity.name),
            "\(place) rows of \(entity.name)")
        for row in found {
            let id = row.objectID
            #expect(oracle.entity(of: id.row) == entity.name, "\(place) \(id)")
            #expect(Set(row.version.dots) == oracle.version(id.row), "\(place) version of \(id)")
            let eclipsed = oracle.eclipsed(by: id.row)
            #expect(
                Dictionary(
                    uniqueKeysWithValues: row.version.eclipsed.map { ($0.row, Set($0.dots)) })
                    == Dictionary(uniqueKeysWithValues: eclipsed.map { ($0.row, $0.version) }),
                "\(place) eclipsed by \(id)")
            for (other, _) in eclipsed {
                let led = try node.coordinator.read { try $0.row(entity, other)?.objectID }
                #expect(led == id, "\(place) \(other) leads to \(id)")
            }
            for (property, value) in zip(entity.properties, row.values) {
                #expect(
                    oracle.value(id.row, property.name) == value,
                    "\(place) \(id).\(property.name)")
            }
            for relationship in entity.relationships {
                if case .column = relationship.storage { continue }
                #expect(
                    try node.members(id, relationship.name)
                        == oracle.members(id.row, relationship.name),
                    "\(place) \(id).\(relationship.name)")
            }
        }
    }
    let open = try node.journal(isOpen: true)
    let unresolved = open.filter { $0.state == .unresolved }.map(\.id.description)
    #expect(Set(unresolved) == oracle.unresolvedConflicts(), "\(place) unresolved")
    let settled = open.filter { $0.state == .settled }.map(\.id.description)
    if hasCollected {
        #expect(oracle.settledConflicts().isSuperset(of: settled), "\(place) settled")
    } else {
        #expect(Set(settled) == oracle.settledConflicts(), "\(place) settled")
    }
    let lost = oracle.unexplained(journal: try node.journal())
    #expect(lost.isEmpty, "\(place) lost: \(lost)")
}

/// Brings nodes to one vector, and expects that all of them, and observers that hear the same
/// saves in other orders, show the same: what the reference model says.
///
/// At last one node collects all that is stable by now, which must not be seen.
///
/// - Parameter hasCollected: whether one of the nodes has collected something before.
func expectConvergence(_ nodes: ScriptedNode..., hasCollected: Bool = false) throws {
    for _ in 0..<2 {
        for node in nodes { for other in nodes where other !== node { try node.take(other) } }
    }
    let first = try #require(nodes.first)
    for (index, node) in nodes.enumerated() {
        #expect(try node.vector == first.vector)
        #expect(try node.digest == first.digest, "node \(index + 1)")
        let report = try node.coordinator.verify()
        #expect(report.isOK, "\(report.differences)")
        try expectAgreement(node, "node \(index + 1):", hasCollected: hasCollected)
    }
    let saves = try first.log()
    for (index, order) in causalOrders(saves, most: 8).enumerated() {
        let observer = try ScriptedNode(first.model, node: 1000 + index)
        for (step, save) in order.enumerated() {
            try observer.apply([save])
            try expectAgreement(observer, "order \(index) step \(step):")
        }
        #expect(try observer.digest == first.digest, "order \(index)")
    }
    let observer = try ScriptedNode(first.model, node: 2000)
    try observer.apply(saves)
    #expect(try observer.digest == first.digest, "in one batch")
    try observer.collect(stable: try observer.vector)
    #expect(try observer.digest == first.digest, "collected")
    try expectAgreement(observer, "collected:", hasCollected: true)
}

/// Orders in which the saves can arrive under causal delivery: all of them where they are few,
/// else some that are far apart.
func causalOrders(_ saves: [EncodedTransaction], most: Int) -> [[EncodedTransaction]] {
    var found: [[EncodedTransaction]] = []
    func extend(_ order: [EncodedTransaction], _ vector: VersionVector) {
        // A bound for histories so wide that their orders cannot be counted.
        guard found.count < 5_000 else { return }
        if order.count == saves.count { return found.append(order) }
        for save in saves
        where !vector.contains(save.dot) && vector[save.dot.actor] == save.dot.sequence - 1
            && vector.covers(save.transaction.seen)
        {
            var next = vector
            next.advance(to: save.dot)
            extend(order + [save], next)
        }
    }
    extend([], VersionVector())
    guard found.count > most, most > 1 else { return found }
    return (0..<most).map { found[$0 * (found.count - 1) / (most - 1)] }
}
