import Coordinator
import Foundation
import TestSupport
import Testing

extension EndToEnd {
    @Suite("Against a second process, foreign stores and mistakes")
    struct MistakeTests {}
}

extension EndToEnd.MistakeTests {
    // MARK: - A second process, and stores of others

    @Test("a second process on one store ends with code 6, and the first goes on")
    func storeInUse() async throws {
        try await TestCluster.with(nodes: 1) { cluster in
            let result = try await serve(store: "n1.sqlite", cluster)
            #expect(result.code == 6, "\(result.errors)")
            #expect(result.errors.contains("n1.sqlite"))
            try await expectServing(cluster)
        }
    }

    @Test(
        "of two processes under one number that take part at once, one ends with code 12",
        arguments: [false, true])
    func numberInUse(isHeard: Bool) async throws {
        try await TestCluster.with(nodes: 3, starting: [1, 2]) { cluster in
            let (first, second) = (cluster.node(1), cluster.node(2))
            try await second.save(.insert("Latest", ["name": "of the older store"]))
            try await cluster.waitForConvergence(among: [1, 2])
            // Node 3's machine, given node 2's number by mistake: it meets the other only through
            // node 1, or also directly, for what it calls 3 is node 2.
            let peers = [(1, first)] + (isHeard ? [(3, second)] : [])
            let twin = try startTwin(cluster, peers: peers)
            defer { twin.send(SIGKILL) }
            try await waitUntilOneEnds(twin, second)
            // Which of them was meant nobody can know.
            let ended = twin.isRunning ? second.process : twin
            #expect(try await ended?.waitForExit() == 12)
            #expect(ended?.lastErrors.contains("in use") == true)
            // The rest of the cluster is not drawn into it, and has what was saved.
            try await expectServing(cluster, [1])
            #expect(try await first.count("Latest") == 1)
            #expect(try await first.verify()["ok"]?.boolean == true)
        }
    }

    @Test(
        "a newcomer under the number of a node that it meets ends with code 12; both report it",
        arguments: [false, true])
    func newcomer(hasRestarted: Bool) async throws {
        try await TestCluster.with(nodes: 3) { cluster in
            let (second, third) = (cluster.node(2), cluster.node(3))
            try await begin(cluster, hasRestarted: hasRestarted)
            let actor = try await second.status().text("actor")
            // Node 3's machine, given node 2's number by mistake: 1 and 2 look for 3 there, and it
            // finds 2, which it takes for 3.
            #expect(try await third.terminate() == 0)
            let twin = try startTwin(cluster, peers: [(3, second)], ports: third.ports)
            defer { twin.send(SIGKILL) }
            #expect(try await twin.waitForExit(timeout: .seconds(60)) == 12)
            let line = "Another live process uses this number of a node"
            #expect(twin.lastErrors.contains(line))
            #expect(twin.lastErrors.contains("Node 2 is in use by another live process"))
            try await eventually("node 2 told of it") {
                try await second.alarms().contains("twoNodesWithOneID")
            }
            #expect(second.process?.lastErrors.contains(line) == true)
            #expect(try await second.metric("tributary_alarms_total") ?? 0 >= 1)

            // The same life of it goes on and serves, and the others listen to it.
            try await expectServing(cluster, [1, 2])
            #expect(try await second.status().text("actor") == actor)
            #expect(try await second.alarms() == ["twoNodesWithOneID"])
            // With its own number that machine takes part.
            try await third.start()
            try await saveOnce(third, "of the third")
            try await cluster.waitForConvergence()
            #expect(try await third.count("Latest") == 2)
            try await expectEqualContents(cluster)
        }
    }

    @Test(
        "so it does where it meets another member, too, which knows later incarnations only",
        arguments: [false, true])
    func newcomerAmongMembers(hasRestarted: Bool) async throws {
        try await TestCluster.with(nodes: 3) { cluster in
            let (first, second) = (cluster.node(1), cluster.node(2))
            try await begin(cluster, hasRestarted: hasRestarted)
            let peers = [(number: 1, node: first), (number: 3, node: second)]
            let twin = try startTwin(cluster, peers: peers)
            defer { twin.send(SIGKILL) }
            try await waitUntilOneEnds(twin, second)
            // The other one may have been told of the same, and be on its way.
            try await Task.sleep(for: .seconds(3))
            let code = twin.isRunning ? nil : try await twin.waitForExit()
            let isThere = second.process?.isRunning == true
            // Member 1 tells the older of the two of the newcomer's incarnation, which is later; but the
            // older has met the newcomer, and goes on in one that is later still.
            #expect(code == 12 && isThere, "\(code ?? -1), and the first goes on: \(isThere)")
            // Whichever goes: the rest of the cluster is not drawn into it, and has what was saved.
            try await expectServing(cluster, [1, 3])
            #expect(try await first.count("Latest") == 1)
            #expect(try await first.verify()["ok"]?.boolean == true)
        }
    }

    /// Saves at node 2, and waits until it has been there for longer than newcomers are: a process
    /// that has just begun takes itself for the newcomer, so of two such both might.
    ///
    /// - Parameter hasRestarted: whether its store was vouched for when it began. Then it never
    ///   begins another incarnation by itself.
    private func begin(_ cluster: TestCluster, hasRestarted: Bool) async throws {
        let second = cluster.node(2)
        try await second.save(.insert("Latest", ["name": "of the older store"]))
        try await cluster.waitForConvergence()
        try await cluster.waitForVouching()
        if hasRestarted {
            #expect(try await second.terminate() == 0)
            try await second.start()
            try await cluster.waitForVouching()
        }
        try await eventually("node 2 was no newcomer any more") {
            try await second.metric("tributary_uptime_seconds") ?? 0 > 11
        }
    }

    private func waitUntilOneEnds(_ twin: TestProcess, _ node: NodeHandle) async throws {
        try await eventually(
            "one of the two had ended. They say: \(twin.lastErrors) "
                + "\(node.process?.lastErrors ?? "")"
        ) {
            !twin.isRunning || node.process?.isRunning != true
        }
    }

    @Test(
        "a database of another program is refused and left as it is",
        arguments: [
            (mark: [0x7E, 0x57, 0x0F, 0x01] as [UInt8], hasTable: true),
            (mark: [0, 0, 0, 0], hasTable: true),
            (mark: [0x7E, 0x57, 0x0F, 0x01], hasTable: false),
        ])
    func foreignStore(mark: [UInt8], hasTable: Bool) async throws {
        try await TestCluster.with(nodes: 1, starting: []) { cluster in
            let store = cluster.folder.appendingPathComponent("foreign.sqlite")
            let bytes = Data(foreignDatabase(mark: mark, hasTable: hasTable))
            try bytes.write(to: store)
            let result = try await serve(store: "foreign.sqlite", cluster)
            #expect([1, 5, 8].contains(result.code), "\(result.code) \(result.errors)")
            #expect(result.errors.contains("foreign.sqlite"), "\(result.errors)")
            #expect(try Data(contentsOf: store) == bytes)
        }
    }

    @Test("a store that is no database is called damaged: code 5")
    func damagedStore() async throws {
        try await TestCluster.with(nodes: 1, starting: []) { cluster in
            let store = cluster.folder.appendingPathComponent("damaged.sqlite")
            try Data(repeating: 0x55, count: 40_960).write(to: store)
            let result = try await serve(store: "damaged.sqlite", cluster)
            #expect(result.code == 5, "\(result.code) \(result.errors)")
            #expect(result.errors.contains("damaged.sqlite"), "\(result.errors)")
        }
    }

    // MARK: - Settings and signals

    @Test(
        "a wrong setting ends the start with code 2, naming file and key",
        arguments: [
            (line: "node: zero", key: "node"), (line: "stoer: x", key: "stoer"),
            (line: "model: missing.json", key: "model"),
        ])
    func brokenConfiguration(line: String, key: String) async throws {
        try await TestCluster.with(nodes: 1, starting: []) { cluster in
            let result = try await serve(store: "x.sqlite", cluster) { settings in
                settings.split(separator: "\n").filter { !$0.hasPrefix("\(key):") }
                    .joined(separator: "\n") + "\n\(line)\n"
            }
            #expect(result.code == 2, "\(result.errors)")
            let names = key == "model" ? "missing.json" : "alone.yaml"
            #expect(result.errors.contains(names), "\(result.errors)")
            #expect(result.errors.contains(key), "\(result.errors)")
            let store = cluster.folder.appendingPathComponent("x.sqlite")
            #expect(!FileManager.default.fileExists(atPath: store.path))
        }
    }

    @Test("SIGTERM ends a node with code 0, in the middle of saves, and it starts again")
    func stopsCleanly() async throws {
        try await TestCluster.with(nodes: 2) { cluster in
            let node = cluster.node(1)
            let load = try Load(on: node, prefix: "term", clients: 2)
            try await load.waitForAcknowledged(20)
            #expect(try await node.terminate() == 0)
            let outcome = await load.stop()
            try await node.start()
            for saveID in outcome.acknowledged.suffix(10) {
                let answer = try await node.expect("GET", "/v1/saves/\(saveID)")
                #expect(answer.text("outcome") == "saved")
            }
            try await expectServing(cluster)
        }
    }

    // MARK: - Helpers

    /// Starts another process under number 2, with peers where those nodes are; the caller ends it.
    ///
    /// - Parameter ports: for HTTP, to publish and to exchange; nil for ports of its own.
    private func startTwin(
        _ cluster: TestCluster, peers: [(number: Int, node: NodeHandle)], ports: [Int]? = nil
    ) throws -> TestProcess {
        let settings = NodeHandle.settings(
            number: 2, store: "twin.sqlite", ports: try ports ?? Loopback.freePorts(3),
            peers: peers.map { ($0.number, $0.node.publishPort, $0.node.exchangePort) })
        let file = try write("twin.yaml", settings, cluster)
        return try TestProcess(
            ["serve", "--config", file.path],
            output: cluster.folder.appendingPathComponent("twin.out"),
            errors: cluster.folder.appendingPathComponent("twin.err"))
    }

    /// Runs a node without a mesh to its end.
    ///
    /// - Parameter change: what is changed in its settings.
    private func serve(
        store: String, _ cluster: TestCluster, change: (String) -> String = { $0 }
    ) async throws -> (code: Int32, output: String, errors: String) {
        let settings = NodeHandle.settings(
            number: 1, store: store, ports: try Loopback.freePorts(1))
        let file = try write("alone.yaml", change(settings), cluster)
        return try await TestProcess.run(["serve", "--config", file.path], in: cluster.folder)
    }

    private func write(_ name: String, _ text: String, _ cluster: TestCluster) throws -> URL {
        let file = cluster.folder.appendingPathComponent(name)
        try Data(text.utf8).write(to: file)
        return file
    }
}

/// A valid SQLite database of some other program: its mark, or a table of its own, or both.
private func foreignDatabase(mark: [UInt8], hasTable: Bool) -> [UInt8] {
    var pages = [UInt8](repeating: 0, count: 8192)
    func put(_ bytes: [UInt8], at offset: Int) {
        pages.replaceSubrange(offset..<(offset + bytes.count), with: bytes)
    }
    put(Array("SQLite format 3\0".utf8), at: 0)
    // Page size 4096, rollback journal, nothing reserved, fixed fractions of the payload.
    put([0x10, 0x00, 1, 1, 0, 64, 32, 32], at: 16)
    // Change counter 1, two pages, none free, schema cookie 1, schema format 4.
    put([0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 4], at: 24)
    // UTF-8; the mark as application_id.
    put([0, 0, 0, 1], at: 56)
    put(mark, at: 68)
    // Valid for change 1, written by SQLite 3.40.1.
    put([0, 0, 0, 1, 0x00, 0x2E, 0x5F, 0x21], at: 92)
    // Pages without cells, their content beginning at the page's end; the second is the table's,
    // or a free one that nobody misses.
    put([0x0D, 0, 0, 0, 0, 0x10, 0x00, 0], at: 100)
    put([0x0D, 0, 0, 0, 0, 0x10, 0x00, 0], at: 4096)
    guard hasTable else { return pages }
    // The schema's one row: type, name, table, root page and SQL, with the lengths before them.
    let sql = Array("CREATE TABLE t(x)".utf8)
    let record = [6, 23, 15, 15, 1, UInt8(13 + 2 * sql.count)] + Array("tablett".utf8) + [2] + sql
    let cell = [UInt8(record.count), 1] + record
    let start = 4096 - cell.count
    put(cell, at: start)
    let place = [UInt8(start >> 8), UInt8(start & 0xFF)]
    put([0x0D, 0, 0, 0, 1] + place + [0] + place, at: 100)
    return pages
}
