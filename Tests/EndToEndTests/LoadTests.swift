import Coordinator
import Synchronization
import TestSupport
import Testing

extension EndToEnd {
    @Suite("Under load")
    struct LoadTests {}
}

extension EndToEnd.LoadTests {
    @Test("three nodes that save over each other converge, and no acknowledged save is lost")
    func converges() async throws {
        try await TestCluster.with { cluster in
            let shared = try await sharedObjects(cluster)
            try await cluster.waitForConvergence()
            let loads = try cluster.nodes.map { node in
                try Load(on: node, prefix: "n\(node.number)") { saveID, index in
                    operations(saveID, index, node.number, shared)
                }
            }
            try await Task.sleep(for: .seconds(10))
            try await eventually("enough was saved") {
                loads.reduce(0) { $0 + $1.outcome.acknowledged.count } > 100
            }
            var saved = 0
            for load in loads {
                let outcome = await load.stop()
                #expect(outcome.unanswered == [])
                // Under `error` a save over what is in conflict is refused, and nothing else is.
                let others = outcome.refusals.filter { !$0.contains("\"unresolvedConflict\"") }
                #expect(others == [], "\(others.prefix(2))")
                saved += outcome.acknowledged.count
            }
            #expect(saved > 100)
            try await cluster.waitForConvergence()
            // Every acknowledged save inserted one object of its own.
            for node in cluster.nodes { #expect(try await node.count("Overwrite") == saved + 10) }
            let conflicts = try await cluster.node(1).expect(
                "GET", "/v1/conflicts?state=all&limit=10")
            #expect(conflicts["conflicts"]?.array?.isEmpty == false, "Nothing was in conflict")
            try await expectEqualContents(cluster)
        }
    }

    /// Ten objects of every entity, which all nodes will write to.
    private func sharedObjects(_ cluster: TestCluster) async throws -> [[String]] {
        var shared: [[String]] = []
        for entity in TestModel.entities {
            let answer = try await cluster.node(1).save(
                (0..<10).map {
                    .insert(entity, id: "@\($0)", ["name": "shared \($0)"])
                })
            shared.append(try (0..<10).map { try answer.uri("@\($0)") })
        }
        return shared
    }
}

/// One object of the save's own, and a change to one that all share.
private func operations(
    _ saveID: String, _ index: Int, _ node: Int, _ shared: [[String]]
) -> [JSONValue] {
    // Errors in a tenth of the saves only: once in conflict, an object refuses all further ones.
    let entities = index % 10 == 0 ? Array(shared.indices) : Array(shared.indices.dropFirst())
    let family = shared[entities[index % entities.count]]
    let target = family[(index / 7) % family.count]
    let change: JSONValue =
        switch index % 4 {
        case 0: .update(target, ["a": .string(saveID)])
        case 1: .update(target, ["b": .string(saveID), "number": .integer(Int64(index))])
        case 2: .update(target, ["parent": .string(family[(index + node) % 10])])
        default:
            index % 8 == 3
                ? .link(target, add: [family[(index + node) % 10]])
                : .link(target, remove: [family[index % 10]])
        }
    return [.insert("Overwrite", ["name": .string(saveID)]), change]
}
