import Coordinator
import Foundation
import TestSupport
import Testing

extension EndToEnd {
    @Suite("Nodes whose models differ")
    struct UpgradeTests {
        static let first = """
            {"entities": [{"name": "Person", "mergePolicy": "mergeByPropertyObjectTrump",
              "attributes": [{"name": "name", "type": "string"}]}]}
            """

        static let second = """
            {"entities": [{"name": "Person", "mergePolicy": "mergeByPropertyObjectTrump",
              "attributes": [{"name": "name", "type": "string"}, {"name": "note", "type": "string"}]},
             {"name": "Pet", "attributes": [{"name": "name", "type": "string"}]}]}
            """

        /// Names are unique from now on.
        static let constrained = first.replacing(
            "}]}]}", with: "}], \"uniquenessConstraints\": [[\"name\"]]}]}")

        static let otherPolicy = first.replacing("ObjectTrump", with: "StoreTrump")

        /// Gives a node that is stopped another model.
        func setModel(_ model: String, of node: NodeHandle) throws {
            let name = "model-\(node.number).json"
            try Data(model.utf8).write(to: node.folder.appendingPathComponent(name))
            let text = String(decoding: try Data(contentsOf: node.configuration), as: UTF8.self)
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map {
                $0.hasPrefix("model:") ? "model: \(name)" : String($0)
            }
            try Data(lines.joined(separator: "\n").utf8).write(to: node.configuration)
        }

        func held(_ node: NodeHandle) async throws -> [String] {
            (try await node.status()["held"]?.array ?? []).compactMap {
                $0.object?.text("reason")
            }
        }

        func refusal(_ node: NodeHandle, of peer: Int) async throws -> String {
            let peers = try await node.status()["peers"]?.array ?? []
            let found = peers.compactMap(\.object).first { $0["node"]?.integer == Int64(peer) }
            return found?.text("refusal") ?? ""
        }

        /// Saves on a node, whether it is up or not, until told to stop.
        ///
        /// - Returns: the names of the persons that were acknowledged.
        func load(_ node: NodeHandle, until isOver: Flag) async -> [String] {
            var names: [String] = []
            var number = 0
            while !isOver.isRaised, !Task.isCancelled {
                number += 1
                let name = "n\(node.number)-\(number)"
                let operation: JSONValue = ["insert": "Person", "values": ["name": .string(name)]]
                let answer = try? await node.askToSave(operation)
                if answer?.status == 200 { names.append(name) }
                try? await Task.sleep(for: .milliseconds(5))
            }
            return names
        }
    }
}

extension EndToEnd.UpgradeTests {
    @Test("Three nodes under load get a new model one at a time, and nothing is lost")
    func upgrades() async throws {
        try await TestCluster.with(model: Self.first) { cluster in
            let flag = Flag()
            var names: [String] = []
            try await withThrowingTaskGroup(of: [String].self) { group in
                for node in cluster.nodes {
                    group.addTask { await load(node, until: flag) }
                }
                for number in 1...3 {
                    let node = cluster.node(number)
                    #expect(try await node.terminate() == 0)
                    try setModel(Self.second, of: node)
                    try await node.start()
                    try await node.save([
                        [
                            "insert": "Person",
                            "values": ["name": "new-\(number)", "note": "noted"],
                        ],
                        ["insert": "Pet", "values": ["name": "pet-\(number)"]],
                    ])
                    guard number < 3 else { break }
                    // Who has not migrated holds it, says why, and goes on taking saves.
                    let old = cluster.node(3)
                    try await eventually("node 3 held a transaction for want of its model") {
                        try await held(old).contains { $0.contains("model") }
                    }
                    let waiting = try await old.metric("tributary_waiting_for_model_transactions")
                    #expect(waiting ?? 0 >= 1)
                    try await old.save([["insert": "Person", "values": ["name": "old"]]])
                }
                flag.raise()
                for try await some in group { names += some }
            }
            try await cluster.waitForConvergence()
            for node in cluster.nodes {
                #expect(try await held(node).isEmpty)
                #expect(try await node.count("Pet") == 3)
                #expect(try await node.verify()["ok"]?.boolean == true)
                let shown = Set(
                    try await node.objects("Person").compactMap { $0.value("name")?.string })
                #expect(Set(names).subtracting(shown).isEmpty)
                #expect(shown.isSuperset(of: ["new-1", "new-2", "new-3", "old"]))
            }
        }
    }

    @Test("A new model takes an attribute and an entity away, one node at a time; the rest agrees")
    func removes() async throws {
        try await TestCluster.with(model: Self.second) { cluster in
            func save(_ name: String, _ node: NodeHandle) async throws -> String {
                let saved = try await node.save([
                    .insert("Person", id: "@one", ["name": .string(name), "note": "a note"]),
                    ["insert": "Pet", "values": ["name": "pet of \(name)"]],
                ])
                return try saved.uri("@one")
            }
            var wanted: [String: String] = [:]
            for node in cluster.nodes {
                wanted[try await save("before \(node.number)", node)] = "before \(node.number)"
            }
            try await cluster.waitForConvergence()
            for node in cluster.nodes {
                #expect(try await node.terminate() == 0)
                // Meanwhile somebody goes on writing what is to go, by either model.
                for other in cluster.nodes where other.number > node.number {
                    let name = "\(node.number) to \(other.number)"
                    wanted[try await save(name, other)] = name
                    let uri = try #require(wanted.keys.sorted().first)
                    try await other.save(.update(uri, ["note": .string(name)]))
                }
                try setModel(Self.first, of: node)
                try await node.start()
                let name = "after \(node.number)"
                let saved = try await node.save(
                    .insert("Person", id: "@one", ["name": .string(name)]))
                wanted[try saved.uri("@one")] = name
                let gone = try await node.ask(
                    "POST", "/v1/fetch", ["entity": "Pet", "resultType": "count"])
                #expect(gone.status == 404 || gone.status == 400, "\(gone)")
            }
            try await cluster.waitForConvergence()
            for node in cluster.nodes {
                #expect(try await held(node).isEmpty)
                #expect(try await node.verify()["ok"]?.boolean == true)
                let persons = try await node.objects("Person")
                let names = persons.map { ($0.text("id"), $0.value("name")?.string ?? "") }
                #expect(Dictionary(uniqueKeysWithValues: names) == wanted)
                #expect(persons.allSatisfy { $0.value("note") == nil })
                // Nor does it come back with a restart.
                #expect(try await node.terminate() == 0)
                try await node.start()
                #expect(try await node.count("Person") == wanted.count)
            }
        }
    }

    @Test("Nodes under load get a constraint that objects there break, one at a time")
    func constrains() async throws {
        try await TestCluster.with(model: Self.first) { cluster in
            let flag = Flag()
            var names: [String] = []
            for node in cluster.nodes {
                try await node.save(
                    (1...3).map { ["insert": "Person", "values": ["name": "same-\($0)"]] })
            }
            try await withThrowingTaskGroup(of: [String].self) { group in
                for node in cluster.nodes {
                    group.addTask { await load(node, until: flag) }
                }
                for node in cluster.nodes {
                    #expect(try await node.terminate() == 0)
                    try setModel(Self.constrained, of: node)
                    try await node.start()
                    guard node.number == 1 else { continue }
                    // Who has not migrated has not heard of it, and may use the name.
                    for other in [node, cluster.node(3)] {
                        try await other.save([["insert": "Person", "values": ["name": "late"]]])
                    }
                }
                flag.raise()
                for try await some in group { names += some }
            }
            try await cluster.waitForConvergence()
            let wanted = Set(names + ["late", "same-1", "same-2", "same-3"])
            var conflicts = Set<[String]>()
            for node in cluster.nodes {
                #expect(try await held(node).isEmpty)
                #expect(try await node.verify()["ok"]?.boolean == true)
                let shown = try await node.objects("Person").compactMap { $0.value("name")?.string }
                #expect(shown.count == wanted.count && Set(shown) == wanted)
                conflicts.insert(try await groups(node))
            }
            #expect(conflicts.count == 1 && conflicts.first?.count == 4)

            // Another name for those that are not shown, and they are.
            let id = try #require(conflicts.first?.first)
            let node = cluster.node(2)
            let sides = try await node.expect("GET", "/v1/conflicts/\(id)")["sides"]?.array ?? []
            let hidden = sides.compactMap(\.object).filter { $0["visible"]?.boolean == false }
            var change = JSONObject()
            for (number, side) in hidden.enumerated() {
                let uri = try #require(side["value"]?.object?["object"]?.string)
                change[uri] = ["name": "other-\(number)"]
            }
            _ = try await node.expect(
                "POST", "/v1/conflicts/\(id)/resolution", ["change": .object(change)])
            try await cluster.waitForConvergence()
            for node in cluster.nodes {
                #expect(try await node.count("Person") == wanted.count + hidden.count)
                #expect(try await groups(node).count == 3)
            }
        }
    }

    /// The conflicts over unique keys, by their names.
    private func groups(_ node: NodeHandle) async throws -> [String] {
        let answer = try await node.expect("GET", "/v1/conflicts?kind=uniqueness&open=true")
        return (answer["conflicts"]?.array ?? []).compactMap { $0.object?.text("id") }.sorted()
    }

    private static func noted(_ more: String) -> String {
        first.replacing(
            "}]}]}", with: "}, {\"name\": \"note\", \"type\": \"integer64\", \(more)}]}]}")
    }

    /// Two models, and what is said of their difference.
    private static let different = [
        (first, otherPolicy, "Person mergePolicy"),
        (noted(#""default": 1"#), noted(#""default": 2"#), "Person.note default"),
        (
            noted(#""renamingIdentifier": "x""#), noted(#""renamingIdentifier": "note""#),
            "Person.note identity"
        ),
    ]

    @Test(
        "A node whose model has another policy, default or identity is refused; both say what differs",
        arguments: different)
    func refusesOtherModels(_ ours: String, _ theirs: String, _ said: String) async throws {
        try await TestCluster.with(nodes: 2, starting: [1], model: ours) { cluster in
            let (one, two) = (cluster.node(1), cluster.node(2))
            try setModel(theirs, of: two)
            try await two.start()
            try await one.save([["insert": "Person", "values": ["name": "one"]]])
            try await two.save([["insert": "Person", "values": ["name": "two"]]])
            for (node, peer) in [(one, 2), (two, 1)] {
                try await eventually("node \(node.number) named the difference") {
                    try await refusal(node, of: peer).contains(said)
                }
                #expect(try await node.count("Person") == 1)
            }
        }
    }

    @Test("A model that cannot be reached is refused at the start, with the store as it was")
    func refusesToMigrate() async throws {
        try await TestCluster.with(nodes: 1, model: Self.first) { cluster in
            let node = cluster.node(1)
            try await node.save([["insert": "Person", "values": ["name": "kept"]]])
            #expect(try await node.terminate() == 0)
            try setModel(Self.first.replacing("string", with: "binary"), of: node)
            #expect(try await !node.startUnlessEnded())
            #expect(node.process?.lastErrors.contains("Person.name") == true)
            try setModel(Self.first, of: node)
            try await node.start()
            #expect(try await node.count("Person") == 1)
        }
    }
}
