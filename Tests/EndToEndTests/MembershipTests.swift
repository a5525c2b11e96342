import Coordinator
import Foundation
import TestSupport
import Testing

@testable import Node

extension EndToEnd {
    @Suite("Members of real clusters")
    struct MembershipTests {
        /// What a node says of each node: its number with its state.
        func states(_ node: NodeHandle) async throws -> [String] {
            let answer = try await node.expect("GET", "/v1/members")
            return answer.objects("members").map {
                "\($0["node"]?.integer ?? 0) \($0.text("state"))"
            }
        }

        func join(_ newcomer: NodeHandle, through node: NodeHandle) async throws -> JSONObject {
            try await node.expect(
                "POST", "/v1/members",
                [
                    "node": .integer(Int64(newcomer.number)),
                    "publish": "tcp://127.0.0.1:\(newcomer.publishPort)",
                    "exchange": "tcp://127.0.0.1:\(newcomer.exchangePort)",
                ])
        }

        /// Runs `tributary member` and gives its exit code.
        func run(_ arguments: [String], _ node: NodeHandle) async throws -> Int32 {
            try await TestProcess.run(["member"] + arguments, in: node.folder).code
        }

        func save(_ node: NodeHandle, _ name: String) async throws {
            try await node.save(.insert("Latest", ["name": .string(name)]))
        }

        /// Saves as soon as the node lets it through.
        func saveEventually(_ node: NodeHandle, _ name: String) async throws {
            try await eventually("node \(node.number) took a save") {
                try await node.askToSave(.insert("Latest", ["name": .string(name)])).status == 200
            }
        }

        /// The code with which a node refuses a save; empty where it takes it.
        func refusal(_ node: NodeHandle) async throws -> String {
            try await node.askToSave(.insert("Latest", ["name": "refused"])).body.code
        }
    }
}

extension EndToEnd.MembershipTests {
    @Test("A node joins through any member, and is one everywhere")
    func joins() async throws {
        try await TestCluster.with(nodes: 4, founders: 3, starting: [1, 2, 3]) { cluster in
            for number in 1...3 { try await save(cluster.node(number), "before \(number)") }
            let newcomer = cluster.node(4)
            _ = try await join(newcomer, through: cluster.node(2))
            try await newcomer.start()
            try await saveEventually(newcomer, "the newcomer's")
            try await save(cluster.node(3), "after")
            try await cluster.waitForConvergence()
            for node in cluster.nodes {
                #expect(try await states(node) == ["1 member", "2 member", "3 member", "4 member"])
                #expect(try await node.count("Latest") == 5)
            }
            // It knows by the data where the others are: not through the member it began with.
            #expect(try await cluster.node(1).terminate() == 0)
            try await save(newcomer, "without the first")
            try await cluster.waitForConvergence(among: [2, 3, 4])
            // And they remember it when they start again.
            #expect(try await cluster.node(2).terminate() == 0)
            try await cluster.node(2).start()
            try await save(newcomer, "to one that started again")
            try await cluster.waitForConvergence(among: [2, 3, 4])
        }
    }

    @Test("Nobody joins where a member is; where one was that departed, another may be")
    func addressTaken() async throws {
        try await TestCluster.with(nodes: 3, founders: 2, starting: [1, 2]) { cluster in
            let (one, free) = (cluster.node(1), cluster.node(3))
            func join(_ node: Int64, _ publish: Int, _ exchange: Int) async throws -> Int {
                let member: JSONValue = [
                    "node": .integer(node), "publish": "tcp://127.0.0.1:\(publish)",
                    "exchange": "tcp://127.0.0.1:\(exchange)",
                ]
                return try await one.ask("POST", "/v1/members", member).status
            }
            #expect(try await join(3, one.publishPort, free.exchangePort) == 400)
            #expect(try await join(3, free.publishPort, one.exchangePort) == 400)
            #expect(try await join(3, free.publishPort, free.exchangePort) == 200)
            #expect(try await join(4, free.publishPort, free.exchangePort) == 400)
            // It was never there.
            let departed = try await one.ask("POST", "/v1/members/3/departure", [:])
            #expect(departed.status == 200)
            #expect(try await join(4, free.publishPort, free.exchangePort) == 200)
        }
    }

    @Test(
        "A dead node is retired, nobody waits for it, it is fenced when it returns, and joins again"
    )
    func retires() async throws {
        try await TestCluster.with(nodes: 3) { cluster in
            let dead = cluster.node(3)
            try await save(dead, "known to all")
            try await cluster.waitForConvergence()
            try await eventually("node 3 is heard") {
                try await cluster.node(1).peer(3).isConnected
            }
            // It is there, so nobody decides for it.
            let refused = try await cluster.node(1).ask("POST", "/v1/members/3/departure", [:])
            #expect(refused.status == 409)
            #expect(refused.body.code == "memberConnected")
            await cluster.partition([[1, 2], [3]])
            try await save(dead, "known to nobody")
            try await dead.kill()
            await cluster.heal()
            try await eventually("node 3 could be retired") {
                try await cluster.node(1).ask("POST", "/v1/members/3/departure", [:]).status == 200
            }
            try await cluster.waitForConvergence(among: [1, 2])
            #expect(try await states(cluster.node(2)) == ["1 member", "2 member", "3 retired"])
            // All the members there are acknowledge.
            let operations: [JSONValue] = [.insert("Latest", ["name": "acknowledged"])]
            let answer = try await cluster.node(2).ask(
                "POST", "/v1/save",
                [
                    "operations": .array(operations), "acknowledgement": "all",
                    "timeoutSeconds": 60,
                ], timeout: .seconds(90))
            #expect(answer.status == 200)
            try await dead.start()
            try await eventually("the retired node was told") {
                try await refusal(dead) == "memberDeparted"
            }
            let alarms = try await dead.status()["alarms"]?.array ?? []
            #expect(alarms.contains { $0.object?.text("name") == "departed" })
            #expect(try await cluster.node(1).status()["savesRefused"] == .null)
            try await save(cluster.node(1), "later")
            try await cluster.waitForConvergence(among: [1, 2])
            #expect(try await cluster.node(1).count("Latest") == 3)
            // What it saved alone is still to be seen where it was saved.
            let left = try await dead.objects("Latest").map { JSONWriter.text(of: .object($0)) }
            #expect(left.contains { $0.contains("known to nobody") })
            let again = try await cluster.node(1).ask("POST", "/v1/members/3/departure", [:])
            #expect(again.body.code == "memberDeparted")
            try await joinsAnew(dead, cluster)
        }
    }

    /// The machine of a retired node takes part again: where it was, under another number and
    /// without its store.
    private func joinsAnew(_ retired: NodeHandle, _ cluster: TestCluster) async throws {
        #expect(try await retired.terminate() == 0)
        let folder = retired.folder
        // With all that belongs to it.
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path)
        where name.hasPrefix(retired.store.lastPathComponent) {
            try FileManager.default.removeItem(at: folder.appendingPathComponent(name))
        }
        let newcomer = try NodeHandle(number: 4, folder: folder, ports: retired.ports)
        let text = String(decoding: try Data(contentsOf: retired.configuration), as: UTF8.self)
        try Data(text.replacing("node: 3\n", with: "node: 4\n").utf8)
            .write(to: newcomer.configuration)
        // The cluster does not know it, and so does not end it.
        defer { newcomer.process?.send(SIGKILL) }
        try await takesPart(newcomer, beside: [cluster.node(1), cluster.node(2)], cluster)
    }

    private func takesPart(
        _ newcomer: NodeHandle, beside members: [NodeHandle], _ cluster: TestCluster
    ) async throws {
        let join = ["join", "--config", newcomer.configuration.path, "--node", members[1].url]
        #expect(try await run(join, newcomer) == 0)
        try await newcomer.start()
        try await saveEventually(newcomer, "under another number")
        let all = members + [newcomer]
        try await eventually("the newcomer and the members agreed") {
            var positions: Set<Position> = []
            for node in all { positions.insert(try await node.position()) }
            return positions.count == 1
        }
        let contents = try await cluster.contents(of: newcomer)
        for node in all {
            #expect(try await states(node) == ["1 member", "2 member", "3 retired", "4 member"])
            // What was saved before the node was retired, after that, and now.
            #expect(try await node.count("Latest") == 4)
            #expect(try await cluster.contents(of: node) == contents)
            #expect(try await node.verify()["ok"]?.boolean == true)
        }
    }

    @Test("A node leaves by itself: all have what it saved, and it saves nothing any more")
    func leaves() async throws {
        try await TestCluster.with(nodes: 3) { cluster in
            let leaving = cluster.node(3)
            await cluster.partition([[1, 2], [3]])
            try await save(leaving, "its last")
            #expect(try await run(["leave", "--node", leaving.url], leaving) == 0)
            #expect(try await refusal(leaving) == "memberDeparted")
            let list = try await TestProcess.run(
                ["member", "list", "--node", leaving.url], in: leaving.folder)
            #expect(list.code == 0 && list.output.contains("left"))
            let status = try await leaving.status()
            #expect(status["savesRefused"]?.object?.text("code") == "memberDeparted")
            await cluster.heal()
            try await cluster.waitForConvergence()
            for number in [1, 2] {
                #expect(try await cluster.node(number).count("Latest") == 1)
                #expect(
                    try await states(cluster.node(number)) == ["1 member", "2 member", "3 left"])
            }
            #expect(try await leaving.terminate() == 0)
            try await save(cluster.node(1), "without it")
            try await cluster.waitForConvergence(among: [1, 2])
        }
    }

    @Test("A node that did not join is not listened to, and takes no saves")
    func stranger() async throws {
        try await TestCluster.with(nodes: 4, founders: 2, starting: [1, 2]) { cluster in
            _ = try await join(cluster.node(4), through: cluster.node(1))
            try await cluster.waitForConvergence(among: [1, 2])
            let stranger = cluster.node(3)
            try await stranger.start()
            try await save(cluster.node(1), "for members")
            try await cluster.waitForConvergence(among: [1, 2])
            try await Task.sleep(for: .seconds(2))
            #expect(try await stranger.count("Latest") == 0)
        }
    }

    @Test("With keys: a node that joins is let in everywhere, a retired one only to learn it")
    func keyed() async throws {
        try await TestCluster.with(nodes: 4, founders: 3, starting: []) { cluster in
            let ring = try Keyring(cluster)
            for number in 1...3 { try await cluster.node(number).start() }
            let newcomer = cluster.node(4)
            try await newcomer.start()
            // Nobody has heard of it yet.
            try await save(cluster.node(2), "for members")
            try await cluster.waitForConvergence(among: [1, 2, 3])
            #expect(try await newcomer.count("Latest") == 0)
            // Nor is it let in with a member's key, or as a node of another cluster.
            let member: JSONObject = [
                "node": 4, "publish": "tcp://127.0.0.1:\(newcomer.publishPort)",
                "exchange": "tcp://127.0.0.1:\(newcomer.exchangePort)",
                "publicKeys": .array([.string(try ring.keys(of: 3).publicKey.text)]),
            ]
            var other = member
            other["cluster"] = "other"
            other["publicKeys"] = .array([.string(try ring.keys(of: 4).publicKey.text)])
            for (body, reason) in [
                (member, "the public key of node 3"),
                (other, "of cluster other"),
            ] {
                let refused = try await cluster.node(1).ask("POST", "/v1/members", .object(body))
                #expect(refused.status == 400)
                let message = refused.body["error"]?.object?.text("message") ?? ""
                #expect(message.contains(reason), "\(message)")
            }
            let joined = try await run(
                [
                    "join", "--config", newcomer.configuration.path, "--node", cluster.node(1).url,
                ], newcomer)
            #expect(joined == 0)
            try await saveEventually(newcomer, "the newcomer's")
            try await cluster.waitForConvergence()
            #expect(try await cluster.node(3).count("Latest") == 2)
            let key = try ring.keys(of: 4).publicKey.text
            try await eventually("all had proven their keys to it") {
                for number in 1...3 {
                    let peer = try await newcomer.peer(number)
                    guard peer.isConnected, peer.handshake == "succeeded" else { return false }
                }
                return true
            }
            let retire = ["retire", "4", "--node", cluster.node(2).url]
            #expect(try await run(retire, newcomer) == 3)
            #expect(try await run(retire + ["--force"], newcomer) == 0)
            // Within five seconds, which KeyTests measures.
            try await eventually("its key was refused everywhere") {
                for number in 1...3 {
                    let entries = try await cluster.node(number).refused()
                    guard entries.contains(where: { $0.key == key }) else { return false }
                }
                return true
            }
            try await eventually("the retired node was told") {
                try await refusal(newcomer) == "memberDeparted"
            }
            // One may have told it, and have refused its key before it joined, while another has
            // not heard of it yet. A node that has heard of it cuts the link within 5 s; mostly at
            // once.
            try await eventually("all knew that it was retired") {
                for number in 1...3 {
                    let known = try await states(cluster.node(number))
                    guard known.contains("4 retired") else { return false }
                }
                return true
            }
            try await Task.sleep(for: .seconds(2))
            // Its own saves from before it heard of that are among them.
            let had = try await newcomer.count("Latest")
            try await save(cluster.node(1), "without it")
            try await cluster.waitForConvergence(among: [1, 2, 3])
            #expect(try await newcomer.count("Latest") == had)
            // After a restart it hears it again, from members that were restarted as well.
            try await newcomer.kill()
            for number in 1...3 {
                try await cluster.node(number).kill()
                try await cluster.node(number).start()
            }
            try await newcomer.start()
            try await eventually("the retired node was told once more") {
                try await refusal(newcomer) == "memberDeparted"
            }
            let left = try await newcomer.objects("Latest").map { JSONWriter.text(of: .object($0)) }
            #expect(!left.contains { $0.contains("without it") })
        }
    }
}
