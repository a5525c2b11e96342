import Coordinator
import TestSupport
import Testing

extension EndToEnd {
    @Suite("A pinned generation")
    struct PinTests {}
}

extension EndToEnd.PinTests {
    @Test("what is read through it stays the same while saves and merges go on")
    func staysTheSame() async throws {
        try await TestCluster.with { cluster in
            var uris: [String] = []
            for index in 0..<30 {
                let answer = try await cluster.node(1).save(
                    .insert("Latest", id: "@x", ["name": "o\(index)", "a": "old"]))
                uris.append(try answer.uri("@x"))
            }
            try await cluster.waitForConvergence()
            var pins: [(node: NodeHandle, token: String, rows: [JSONObject])] = []
            for node in cluster.nodes {
                let pin = try await node.expect("POST", "/v1/generations", ["leaseSeconds": 120])
                let token = pin.text("token")
                pins.append((node, token, try await node.objects("Latest", generation: token)))
            }
            #expect(pins.allSatisfy { $0.rows.count == 30 })
            let targets = uris
            let loads = try cluster.nodes.map { node in
                try Load(on: node, prefix: "n\(node.number)", clients: 1) { saveID, index in
                    [
                        .insert("Latest", ["name": .string(saveID)]),
                        .update(targets[index % 30], ["a": .string(saveID)]),
                    ]
                }
            }
            for load in loads { try await load.waitForAcknowledged(5) }
            for _ in 0..<12 {
                for pin in pins {
                    #expect(try await pin.node.count("Latest", generation: pin.token) == 30)
                    let rows = try await pin.node.objects("Latest", generation: pin.token)
                    #expect(rows == pin.rows)
                }
                try await Task.sleep(for: .milliseconds(100))
            }
            for load in loads { #expect(await load.stop().refusals == []) }
            for pin in pins {
                #expect(try await pin.node.count("Latest") > 30)
                #expect(try await pin.node.objects("Latest", generation: pin.token) == pin.rows)
                _ = try await pin.node.expect("DELETE", "/v1/generations/\(pin.token)")
                try await expectExpired(pin.token, on: pin.node)
            }
            try await cluster.waitForConvergence()
            try await expectVerified(cluster)
        }
    }

    @Test("a node that must stop does not wait for saves that wait for other nodes")
    func stopsWhileAwaited() async throws {
        try await TestCluster.with(starting: [1]) { cluster in
            let node = cluster.node(1)
            try await node.save(.insert("Latest", ["name": "one"]))
            let client = try node.makeClient()
            let waiting = Task {
                try? await node.ask(
                    "POST", "/v1/save",
                    [
                        "operations": .array([.insert("Latest", ["name": "two"])]),
                        "acknowledgement": "all", "timeoutSeconds": 3600,
                    ], timeout: .seconds(300), using: client)
            }
            try await eventually("it was saved, and waits") { try await node.count("Latest") == 2 }
            #expect(try await node.terminate() == 0)
            _ = await waiting.value
        }
    }

    @Test("a token that nobody pins, or whose lease has ended, is refused and never renewed")
    func expires() async throws {
        try await TestCluster.with(nodes: 1) { cluster in
            let node = cluster.node(1)
            try await node.save(.insert("Latest", ["name": "one"]))
            let unpinned = try await node.status().text("token")
            try await node.save(.insert("Latest", ["name": "two"]))
            try await expectExpired(unpinned, on: node)
            var token = ""
            try await eventually("a pin was read within its lease") {
                token = try await node.expect(
                    "POST", "/v1/generations", ["leaseSeconds": 1]
                ).text("token")
                let (status, body) = try await node.ask(
                    "POST", "/v1/fetch",
                    ["entity": "Latest", "generation": .string(token), "resultType": "count"])
                if status == 200 { #expect(body["count"]?.integer == 2) }
                return status == 200
            }
            try await node.save(.insert("Latest", ["name": "three"]))
            try await Task.sleep(for: .milliseconds(2500))
            try await expectExpired(token, on: node)
            // Tokens of a process end with it.
            let last = try await node.expect("POST", "/v1/generations").text("token")
            #expect(try await node.terminate() == 0)
            try await node.start()
            try await expectExpired(last, on: node)
            #expect(try await node.count("Latest") == 3)
        }
    }

    @Test("a fetch after a token waits on any node until that node has what the token names")
    func travels() async throws {
        try await TestCluster.with { cluster in
            for index in 0..<20 {
                let node = cluster.node(index % 3 + 1)
                let other = cluster.node((index + 1) % 3 + 1)
                let saved = try await node.save(.insert("Latest", ["name": "o\(index)"]))
                let answer = try await other.expect(
                    "POST", "/v1/fetch",
                    .object([
                        "entity": "Latest", "predicate": "name == 'o\(index)'",
                        "after": .string(saved.body.text("token")), "timeoutSeconds": 60,
                    ]))
                #expect(answer["objects"]?.array?.count == 1)
            }
        }
    }

    private func expectExpired(
        _ token: String, on node: NodeHandle, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let (status, body) = try await node.ask(
            "POST", "/v1/fetch",
            ["entity": "Latest", "generation": .string(token), "resultType": "count"])
        #expect(status == 410, sourceLocation: sourceLocation)
        #expect(body.code == "queryGenerationExpired", sourceLocation: sourceLocation)
    }
}
