import Client
import Coordinator
import Node
import Synchronization
import TestSupport
import Testing

extension EndToEnd {
    @Suite("Unique keys under several writers")
    struct UniqueKeyTests {}
}

extension EndToEnd.UniqueKeyTests {
    /// What each entity's policy leaves to a person.
    private static let states = [
        "Firsts": "unresolved", "Latests": "settled", "Rollbacks": "settled",
    ]
    private static let entities = states.keys.sorted()

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
             \(entity("Latests", "mergeByPropertyObjectTrump")),
             \(entity("Rollbacks", "rollback"))]}
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
            // Apart from each other the nodes gave the keys thrice.
            #expect(inserted.count > keys * 2)
            try await expectOneObjectAKey(cluster, keys, inserted)
        }
    }

    @Test("nobody reads a key twice, or loses an object, while groups form and nodes are killed")
    func readWhileGroupsForm() async throws {
        let keys = FaultScenario.isSoak ? 301 : 61
        try await TestCluster.with(model: Self.model) { cluster in
            var inserted: [String: String] = [:]
            var readings = 0
            let unanswered = Tally()
            try await withThrowingTaskGroup(of: Int.self) { readers in
                let isOver = Flag()
                for node in cluster.nodes {
                    readers.addTask { try await Self.read(node, until: isOver) }
                }
                for round in 0..<3 {
                    // Who dies does so amid its inserts, and its peers' groups.
                    await cluster.partition([[1], [2], [3]])
                    let victim = cluster.node(round + 1)
                    async let some = insert(
                        keys * 5, of: keys, from: round * keys, seed: UInt64(round) + 3, cluster,
                        unanswered)
                    try await eventually("node \(victim.number) had begun", every: .milliseconds(1))
                    {
                        try await victim.count("Firsts") > round * keys / 3 + 2
                    }
                    try await victim.kill()
                    try await victim.start()
                    await cluster.heal()
                    try await Task.sleep(for: .milliseconds(50))
                    try await victim.kill()
                    try await victim.start()
                    inserted.merge(try await some) { $1 }
                }
                isOver.raise()
                for try await count in readers { readings += count }
            }
            #expect(inserted.count > keys * 4)
            #expect(readings > 30)
            #expect(unanswered.count.load(ordering: .relaxed) > 0, "Nobody died amid its inserts")
            try await expectOneObjectAKey(cluster, keys * 3, inserted)
        }
    }

    // MARK: - The steps

    /// How many requests were given no answer.
    private final class Tally: Sendable {
        let count = Atomic<Int>(0)
    }

    /// Reads the keys that a node shows until told to stop, and expects none of them twice.
    ///
    /// - Returns: how often it has read.
    private static func read(_ node: NodeHandle, until isOver: Flag) async throws -> Int {
        var count = 0
        while !isOver.isRaised, !Task.isCancelled {
            for entity in entities {
                let names: [String]
                do {
                    names = try await node.objects(entity).map {
                        $0.value("name")?.string ?? "none"
                    }
                } catch let error as ClientError where error.isNoAnswer {
                    continue
                }
                count += 1
                // They come sorted by it.
                let twice = zip(names, names.dropFirst()).filter { $0 == $1 }.map(\.0)
                #expect(twice == [], "\(entity) on node \(node.number)")
            }
            try await Task.sleep(for: .milliseconds(5))
        }
        return count
    }

    /// Inserts keys on all nodes at once; one that a node knows of already is refused.
    ///
    /// - Returns: the entities of the objects inserted, by the objects' URIs.
    private func insert(
        _ count: Int, of keys: Int, from first: Int = 0, seed: UInt64, _ cluster: TestCluster,
        _ unanswered: Tally = Tally()
    ) async throws -> [String: String] {
        try await withThrowingTaskGroup(of: [String: String].self) { group in
            for node in cluster.nodes {
                group.addTask {
                    var generator = SeededGenerator(seed: seed * 10 + UInt64(node.number))
                    var inserted: [String: String] = [:]
                    let own = (0..<count).filter { $0 % cluster.nodes.count == node.number - 1 }
                    for number in own.shuffled(using: &generator) {
                        // Each third of the keys has an entity of its own.
                        let key = first + number % keys
                        let entity = Self.entities[key % Self.entities.count]
                        let uri = try await Self.insert(
                            entity, key: key, text: number, saveID: "\(seed)-\(number)", node,
                            unanswered)
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

    /// Inserts one object, again where a node that was killed gave no answer.
    ///
    /// - Returns: the object's URI; nil where the key is taken on that node.
    private static func insert(
        _ entity: String, key: Int, text: Int, saveID: String, _ node: NodeHandle,
        _ unanswered: Tally
    ) async throws -> String? {
        let insert = JSONValue.insert(
            entity, id: "@new",
            ["name": "key\(key)", "text": "n\(node.number)-\(text)"])
        let request: JSONValue = ["saveID": .string(saveID), "operations": .array([insert])]
        for _ in 0..<1_000 {
            let answer: (status: Int, body: JSONObject)
            do {
                answer = try await node.ask("POST", "/v1/save", request)
            } catch let error as ClientError where error.isNoAnswer {
                unanswered.count.add(1, ordering: .relaxed)
                try await Task.sleep(for: .milliseconds(20))
                continue
            }
            let code = answer.body.code
            if answer.status == 409, code == "constraintConflict" { return nil }
            guard answer.status == 200 else {
                throw EndToEndError(
                    "Node \(node.number) answered an insert with \(answer.status): \(code)")
            }
            return try SaveAnswerText(answer.body).uri("@new")
        }
        throw EndToEndError("Node \(node.number) did not come back")
    }

    /// Waits until the nodes agree, and expects that each shows one object a key, and lists the others.
    private func expectOneObjectAKey(
        _ cluster: TestCluster, _ keys: Int, _ inserted: [String: String]
    ) async throws {
        try await cluster.waitForConvergence(timeout: .seconds(300))
        var contents: [[String]] = []
        for node in cluster.nodes {
            contents.append(try await cluster.contents(of: node, entities: Self.entities))
            try await expectOneObjectAKey(node, keys, inserted)
        }
        #expect(contents.allSatisfy { $0 == contents.first }, "The nodes show different data")
        try await expectVerified(cluster)
    }

    private func expectOneObjectAKey(
        _ node: NodeHandle, _ keys: Int, _ inserted: [String: String]
    ) async throws {
        var names: [String] = []
        var visible = Set<String>()
        for entity in Self.entities {
            for object in try await node.objects(entity) {
                names.append(object.value("name")?.string ?? "")
                visible.insert(object.text("id"))
            }
        }
        #expect(names.sorted() == (0..<keys).map { "key\($0)" }.sorted())
        #expect(visible.isSubset(of: inserted.keys), "Node \(node.number) shows what nobody made")
        // An object that is not shown is in a conflict that is open, and says so to a person.
        var listed: [String: String] = [:]
        for conflict in try await node.conflicts("state=all&kind=uniqueness&open=true&limit=10000")
        {
            let sides = conflict.objects("sides")
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
