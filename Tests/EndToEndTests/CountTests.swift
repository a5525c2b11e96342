import Coordinator
import Testing

extension EndToEnd {
    @Suite("Counts that merges break")
    struct CountTests {
        /// A crew has two or three sailors.
        static let model = """
            {"entities": [
             {"name": "Crew", "mergePolicy": "mergeByPropertyObjectTrump",
              "attributes": [{"name": "name", "type": "string"}],
              "relationships": [
               {"name": "sailors", "destination": "Sailor", "inverse": "crew", "toMany": true,
                "optional": false, "minCount": 2, "maxCount": 3}]},
             {"name": "Sailor", "mergePolicy": "mergeByPropertyObjectTrump",
              "attributes": [{"name": "name", "type": "string"}],
              "relationships": [{"name": "crew", "destination": "Crew", "inverse": "sailors"}]}]}
            """
    }
}

extension EndToEnd.CountTests {
    private func sailor(_ name: String, in crew: String?) -> JSONValue {
        var values: JSONObject = ["name": .string(name)]
        if let crew { values["crew"] = .string(crew) }
        return .insert("Sailor", id: "@\(name)", values)
    }

    /// The count conflicts, by what they break.
    private func broken(_ node: NodeHandle) async throws -> [String: String] {
        var result: [String: String] = [:]
        for conflict in try await node.conflicts("kind=count&open=true") {
            #expect(conflict.text("state") == "settled")
            result[conflict.text("object")] = conflict.text("violation")
        }
        return result
    }

    private func code(_ node: NodeHandle, _ operations: [JSONValue]) async throws -> String {
        let answer = try await node.ask("POST", "/v1/save", ["operations": .array(operations)])
        return answer.status == 200 ? "" : "\(answer.status)"
    }

    @Test("what saves that each kept a count come to is listed on all nodes until it is mended")
    func listedAndMended() async throws {
        try await TestCluster.with(model: Self.model) { cluster in
            let (one, two, three) = (cluster.node(1), cluster.node(2), cluster.node(3))
            let saved = try await one.save([
                .insert("Crew", id: "@full", ["name": "full"]),
                sailor("ann", in: "@full"), sailor("ben", in: "@full"),
                .insert("Crew", id: "@empty", ["name": "empty"]),
                sailor("cid", in: "@empty"), sailor("dot", in: "@empty"),
                sailor("eve", in: "@empty"),
            ])
            let (full, empty) = (try saved.uri("@full"), try saved.uri("@empty"))
            try await cluster.waitForConvergence()
            await cluster.partition([[1], [2], [3]])
            for node in [one, two] {
                try await node.save([sailor("new \(node.number)", in: full)])
                // Each is held to the count on its own node.
                #expect(try await code(node, [sailor("more", in: full)]) == "422")
            }
            for (node, name) in [(two, "@dot"), (three, "@eve")] {
                try await node.save(.delete(saved.uri(name)))
            }
            await cluster.heal()
            try await cluster.waitForConvergence()
            for node in cluster.nodes {
                #expect(
                    try await broken(node) == [
                        full: "relationshipExceedsMaximumCount",
                        empty: "relationshipLacksMinimumCount",
                    ])
                #expect(try await node.count("Sailor") == 5)
                // Until it is mended its object is not saved for anything else.
                #expect(try await code(node, [.update(full, ["name": "other"])]) == "422")
            }
            try await three.save(.update(try saved.uri("@ann"), ["crew": .string(empty)]))
            try await cluster.waitForConvergence()
            for node in cluster.nodes {
                #expect(try await broken(node) == [:])
                #expect(try await code(node, [.update(full, ["name": "again"])]) == "")
                try await cluster.waitForConvergence()
            }
            for node in cluster.nodes {
                #expect(
                    try await cluster.contents(of: node, entities: ["Crew", "Sailor"])
                        == cluster.contents(of: one, entities: ["Crew", "Sailor"]))
            }
            try await expectVerified(cluster)
        }
    }
}
