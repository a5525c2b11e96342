import Coordinator
import Foundation
import TestSupport
import Testing

extension EndToEnd {
    @Suite("A copy of a store that runs under the same number on ports that nobody dials")
    struct LiveTwinTests {}
}

extension EndToEnd.LiveTwinTests {
    /// Makes a twin of a node: its files as they are at one moment, the file beside the store too.
    private func makeTwin(of node: NodeHandle, in cluster: TestCluster) throws -> NodeHandle {
        let folder = cluster.folder.appendingPathComponent("twin")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let twin = try NodeHandle(
            number: node.number, folder: folder, ports: try Loopback.freePorts(3))
        node.suspend()
        for suffix in ["", "-wal", "-lock", "-incarnation"] {
            try FileManager.default.copyItem(
                atPath: node.store.path + suffix, toPath: twin.store.path + suffix)
        }
        node.resume()
        let peers = cluster.nodes.filter { $0.number != node.number }
        try Data(
            NodeHandle.settings(
                number: node.number, store: twin.store.path,
                model: cluster.folder.appendingPathComponent("model.json").path, ports: twin.ports,
                peers: peers.map { ($0.number, $0.publishPort, $0.exchangePort) }
            ).utf8
        ).write(to: twin.configuration)
        return twin
    }

    /// Saves at both in turns until the twin has ended; gives what each acknowledged.
    private func saveAtBoth(
        _ node: NodeHandle, _ twin: NodeHandle
    ) async throws -> (node: [String], twin: [String], refusals: Set<String>) {
        var result: (node: [String], twin: [String], refusals: Set<String>) = ([], [], [])
        for round in 0..<600 where twin.process?.isRunning == true {
            let own = try await node.askToSave(.insert("Latest", ["name": "own \(round)"]))
            #expect(own.status == 200, "\(own)")
            if own.status == 200 { result.node.append("own \(round)") }
            do {
                let other = try await twin.askToSave(.insert("Latest", ["name": "twin \(round)"]))
                if other.status == 200 {
                    result.twin.append("twin \(round)")
                } else {
                    result.refusals.insert(other.body.code)
                }
            } catch {
                // It ends meanwhile.
            }
            try await Task.sleep(for: .milliseconds(50))
        }
        return result
    }

    @Test("The original lives, the twin acknowledges nothing and ends with 12, and all know of it")
    func twin() async throws {
        try await TestCluster.with(nodes: 3) { cluster in
            let node = cluster.node(1)
            try await saveOnce(node, "before")
            try await cluster.waitForConvergence()
            try await cluster.waitForVouching()
            // Opened again, so that its store is one that may save at once.
            try await node.kill()
            try await node.start()
            try await cluster.waitForVouching()
            let actor = try await node.status().text("actor")
            let twin = try makeTwin(of: node, in: cluster)
            defer { twin.process?.send(SIGKILL) }
            try await twin.start()
            let saved = try await saveAtBoth(node, twin)
            #expect(saved.node.count > 10)
            #expect(saved.twin.isEmpty)
            #expect(saved.refusals == ["recovering"])
            #expect(try await twin.process?.waitForExit() == 12)
            #expect(twin.process?.lastErrors.contains("in use by another live") == true)
            #expect(try await node.status().text("actor") == actor)
            try await cluster.waitForConvergence()
            for node in cluster.nodes {
                let names = try await node.objects("Latest").compactMap {
                    $0.value("name")?.string
                }
                #expect(Set(names).isSuperset(of: saved.node))
                #expect(!names.contains { $0.hasPrefix("twin") })
                #expect(try await node.alarms() == ["twoNodesWithOneID"], "node \(node.number)")
            }
        }
    }

    @Test("A new store that joins a cluster acknowledges no save before it has what the others had")
    func newcomer() async throws {
        try await TestCluster.with(nodes: 3, starting: [1, 2]) { cluster in
            let (first, third) = (cluster.node(1), cluster.node(3))
            try await saveOnce(first, "before")
            try await cluster.waitForConvergence(among: [1, 2])
            let known = try await first.position().vector
            try await third.start()
            try await saveOnce(third, "after")
            let own = try await third.position().vector
            #expect(known.allSatisfy { own[$0.key] ?? 0 >= $0.value }, "\(own) of \(known)")
            try await cluster.waitForConvergence()
        }
    }

    @Test(
        "A node whose peers are not there takes saves soon after its start, and one waits for that")
    func alone() async throws {
        try await TestCluster.with(nodes: 3, starting: [1]) { cluster in
            let node = cluster.node(1)
            #expect(try await node.savingRefusal() == "recovering")
            try await node.save(.insert("Latest", ["name": "early"]))
        }
    }

    @Test("A node that is killed and started again is met within a second, by the lock that it had")
    func restart() async throws {
        try await TestCluster.with(nodes: 3) { cluster in
            let node = cluster.node(1)
            try await saveOnce(node, "before")
            try await cluster.waitForVouching()
            for round in 0..<3 {
                try await node.kill()
                try await node.start()
                // At once, without a refusal.
                try await saveOnce(node, "after \(round)")
                let started = ContinuousClock.now
                try await cluster.waitForConvergence()
                // Members that had not met it would take nothing of it for three seconds.
                #expect(ContinuousClock.now - started < .seconds(2))
            }
        }
    }
}
