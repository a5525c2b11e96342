import Coordinator
import Merge
import Testing

extension ClusterInvariants {
    /// Compares with the oracle what was read meanwhile, each at its own vector, and what every
    /// node shows and lists now.
    ///
    /// - Returns: how many readings of the final contents there were.
    func expectOracle(
        _ heard: MixedReader.Outcome, _ sourceLocation: SourceLocation
    ) async throws -> Int {
        let log = try await ClusterLog(of: cluster)
        #expect(log.ambiguous == [], "name two transactions each", sourceLocation: sourceLocation)
        var judge = OracleJudge(
            try ManagedObjectModel(json: Array(TestModel.json.utf8)),
            log.transactions.values.map(\.transaction).sorted { $0.stamp < $1.stamp })
        var complaints = heard.readings.elements.flatMap { judge.complaints(about: $0) }
        complaints += heard.pins.elements.flatMap { judge.complaints(about: $0) }
        var finalCount = 0
        // Entity by entity, for the oracle of each is computed once.
        for entity in TestModel.entities + TestModel.keyed {
            for node in cluster.nodes {
                for isCount in [false, true] {
                    let answer = try await node.expect(
                        "POST", "/v1/fetch", Reading.question(entity, isCount: isCount))
                    guard let reading = Reading(node: node.number, entity: entity, answer) else {
                        throw EndToEndError("Node \(node.number) answered \(answer)")
                    }
                    complaints += judge.complaints(about: reading, isFinal: true)
                    finalCount += 1
                }
            }
        }
        var lists: [(node: Int, conflicts: [JSONObject])] = []
        for node in cluster.nodes {
            lists.append((node.number, try await node.unresolvedConflicts()))
        }
        complaints += judge.complaints(aboutUnresolved: lists)
        // The first few tell what is wrong; all of them would drown it.
        let first = complaints.prefix(6).joined(separator: "\n")
        if !complaints.isEmpty {
            Issue.record(
                "The oracle contradicts \(complaints.count) times:\n\(first)",
                sourceLocation: sourceLocation)
        }
        return finalCount
    }
}
