import Coordinator
import Testing

extension EndToEnd {
    @Suite("Unique keys under several writers")
    struct UniqueKeyTests {}
}

extension EndToEnd.UniqueKeyTests {
    /// What each entity's policy leaves to a person.
    private static let states = ["Firsts": "unresolved", "Latests": "settled"]

    private static let model: String = {
        func entity(_ name: String, _ policy: String) -> String {
            """
            {"name": "\(name)", "mergePolicy": "\(policy)", "uniquenessConstraints": [["name"]],
             "attributes": [{"name": "name", "type": "string", "optional": false},
               {"name": "text", "type": "string"}]}
            """
        }
        return """
            {"entities": [\(entity("Firsts", "error")),
             \(entity("Latests", "mergeByPropertyObjectTrump"))]}
            """
    }()

    @Test("the same keys inserted on three nodes end with one object a key everywhere")
    func insertsOfTheSameKeys() async throws {
        let keys = FaultScenario.isSoak ? 1_000 : 100
        try await TestCluster.with(model: Self.model) { cluster in
            // The first half while nobody hears of the others, the second while all catch up.
            await cluster.partition([[1], [2], [3]])
            var inserted = try await insert(keys * 5, of: keys, seed: 1, cluster)
            await cluster.heal()
            inserted.merge(try await insert(keys * 5, of: keys, seed: 2, cluster)) { $1 }
            try await cluster.waitForConvergence(timeout: .seconds(300))
            // Apart from each other the nodes gave the keys thrice.
            #expect(inserted.count > keys * 2)
            var contents: [[String]] = []
            for node in cluster.nodes {
                contents.append(
                    try await cluster.contents(of: node, entities: Self.states.keys.sorted()))
                try await expectOneObjectAKey(node, keys, inserted)
            }
            #expect(contents.allSatisfy { $0 == contents.first }, "The nodes show different data")
            try await expectVerified(cluster)
        }
    }

    // MARK: - The steps

    /// Inserts keys on all nodes at once; one that a node knows of already is refused.
    ///
    /// - Returns: the entities of the objects inserted, by the objects' URIs.
    private func insert(
        _ count: Int, of keys: Int, seed: UInt64, _ cluster: TestCluster
    ) async throws -> [String: String] {
        try await withThrowingTaskGroup(of: [String: String].self) { group in
            for node in cluster.nodes {
                group.addTask {
                    var generator = SeededGenerator(seed: seed * 10 + UInt64(node.number))
                    var inserted: [String: String] = [:]
                    let own = (0..<count).filter { $0 % cluster.nodes.count == node.number - 1 }
                    for number in own.shuffled(using: &generator) {
                        // Each half of the keys has an entity of its own.
                        let key = number % keys
                        let entity = key % 2 == 0 ? "Firsts" : "Latests"
                        let uri = try await Self.insert(entity, key: key, text: number, node)
                        if let uri { inserted[uri] = entity }
                    }
                    return inserted
                }
            }
            var all: [String: String] = [:]
            for try await inserted in group { all.merge(inserted) { $1 } }
            return all
        }
    }

    /// - Returns: the object's URI; nil where the key is taken on that node.
    private static func insert(
        _ entity: String, key: Int, text: Int, _ node: NodeHandle
    ) async throws -> String? {
        let insert = TestModel.insert(
            entity, id: "@new",
            ["name": .string("key\(key)"), "text": .string("n\(node.number)-\(text)")])
        let (status, answer) = try await node.ask(
            "POST", "/v1/save", .object(["operations": .array([insert])]))
        if status == 409 {
            let code = answer["error"]?.object?.text("code") ?? ""
            guard code == "constraintConflict" else {
                throw EndToEndError("Node \(node.number) refused an insert with \(code)")
            }
            return nil
        }
        guard status == 200 else {
            throw EndToEndError("Node \(node.number) answered an insert with \(status): \(answer)")
        }
        return try SaveAnswerText(answer).uri("@new")
    }

    private func expectOneObjectAKey(
        _ node: NodeHandle, _ keys: Int, _ inserted: [String: String]
    ) async throws {
        var names: [String] = []
        var visible = Set<String>()
        for entity in Self.states.keys.sorted() {
            for object in try await node.objects(entity) {
                names.append(object.value("name")?.string ?? "")
                visible.insert(object.text("id"))
            }
        }
        #expect(names.sorted() == (0..<keys).map { "key\($0)" }.sorted())
        #expect(visible.isSubset(of: inserted.keys), "Node \(node.number) shows what nobody made")
        // Whoever is not shown is in a conflict that is open, and says so to a person.
        var listed: [String: String] = [:]
        let answer = try await node.expect(
            "GET", "/v1/conflicts?state=all&kind=uniqueness&open=true&limit=10000")
        for conflict in (answer["conflicts"]?.array ?? []).compactMap(\.object) {
            let sides = (conflict["sides"]?.array ?? []).compactMap(\.object)
            let shown = sides.filter { $0["visible"]?.boolean == true }
            #expect(shown.count == 1, "\(conflict.text("id")) on node \(node.number)")
            for side in sides {
                let uri = side["value"]?.object?.text("object") ?? ""
                listed[uri] = conflict.text("state")
            }
        }
        let losers = inserted.filter { !visible.contains($0.key) }
        #expect(!losers.isEmpty)
        for (uri, entity) in losers {
            #expect(listed[uri] == Self.states[entity], "\(uri) on node \(node.number)")
        }
    }
}
