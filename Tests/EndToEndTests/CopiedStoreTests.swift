import Coordinator
import Foundation
import LinkProxy
import Node
import TestSupport
import Testing

extension EndToEnd {
    @Suite("Files of a store that were copied while its node ran, put back later")
    struct CopiedStoreTests {
        /// What becomes of the file beside the store, which names its last incarnation.
        enum SideFile: String, CaseIterable {
            /// The node's last one stays: the store is older than that says.
            case left
            /// It is not there.
            case missing
            /// It was copied too, and so fits: nobody can tell but peers that have later saves.
            case copied
        }
    }
}

extension EndToEnd.CopiedStoreTests {
    private static let suffixes = ["", "-wal", "-incarnation"]

    /// Copies a node's files as a snapshot of its disk would: all at one moment. A copy with parts
    /// of two moments is no store.
    private func copyFiles(_ node: NodeHandle) throws {
        node.suspend()
        defer { node.resume() }
        for suffix in Self.suffixes {
            try FileManager.default.copyItem(
                atPath: node.store.path + suffix, toPath: copyPath(node, suffix))
        }
    }

    private func copyPath(_ node: NodeHandle, _ suffix: String) -> String {
        node.store.path + "-copy" + suffix
    }

    private func putBack(_ side: SideFile, _ node: NodeHandle) throws {
        var removed = ["", "-wal", "-shm"]
        if side != .left { removed.append("-incarnation") }
        for suffix in removed {
            let file = node.store.path + suffix
            if FileManager.default.fileExists(atPath: file) {
                try FileManager.default.removeItem(atPath: file)
            }
        }
        for suffix in Self.suffixes where suffix != "-incarnation" || side == .copied {
            try FileManager.default.copyItem(
                atPath: copyPath(node, suffix), toPath: node.store.path + suffix)
        }
    }

    /// The generation that the file beside the store has for certain.
    private func recordedGeneration(_ node: NodeHandle) throws -> Int64 {
        let file = URL(fileURLWithPath: node.store.path + "-incarnation")
        let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
        let line = lines.first { $0.hasPrefix("generation ") }
        return try #require(line?.split(separator: " ").last.flatMap { Int64($0) })
    }

    private func waitForSaves(_ count: Int, of load: MixedLoad, by node: NodeHandle) async throws {
        try await eventually("node \(node.number) had saved \(count) times") {
            load.outcome.acknowledged.count { $0.node == node.number } >= count
        }
    }

    @Test(
        "it is noticed, takes no saves before it has caught up, and gets its own newer ones back",
        arguments: SideFile.allCases)
    func putBack(side: SideFile) async throws {
        try await TestCluster.with(nodes: 3) { cluster in
            let node = cluster.node(2)
            let shared = try await SharedRows.insert(in: cluster)
            let doomed = try await node.save(
                .insert("Latest", id: "@x", ["name": "deleted after the copy"])
            ).uri("@x")
            try await cluster.waitForVouching()
            var copied: Int64 = 0
            let (outcome, heard) = try await cluster.mixedLoad(shared, seed: 81) { load, _ in
                try await waitForSaves(30, of: load, by: node)
                try copyFiles(node)
                // No less than the copy's.
                copied = try await node.status()["generation"]?.integer ?? .max
                try await node.save(.delete(doomed))
                try await waitForSaves(80, of: load, by: node)
            }
            try await cluster.waitForConvergence()
            let before = try await node.status()
            if side == .left {
                // What is written down every few seconds tells of more than the copy has.
                try await eventually("it was recorded that the store is past the copy") {
                    try recordedGeneration(node) > copied
                }
            }
            try await node.kill()
            try putBack(side, node)

            // Who can tell by the files needs nobody for it. Who cannot hears the others' heads,
            // and none of what they have.
            if side == .copied {
                for link in cluster.links where link.from == 2 || link.to == 2 {
                    await link.proxies[1].stall()
                }
            } else {
                await cluster.partition([[1, 3], [2]])
            }
            try await node.start()
            try await eventually("node 2 said that it is recovering") {
                let status = try await node.status()
                return status["savesRefused"]?.object?.text("code") == "recovering"
                    && status["stability"]?.object?["recovering"]?.boolean == true
            }
            let old = try await node.status()
            let own = before.text("actor")
            let (had, all) = (old.vector("vector")[own] ?? 0, before.vector("vector")[own] ?? 0)
            #expect(had > 0 && had < all, "\(had) of \(all)")
            #expect(old.text("actor") != own)
            let refused = try await node.askToSave(.insert("Latest", ["name": "refused"]))
            #expect(refused.status == 503, "\(refused)")
            #expect(refused.body.code == "recovering", "\(refused)")
            // What it has is there to be read, with what was deleted since.
            #expect(try await has(node, doomed))

            await cluster.heal()
            try await cluster.waitForConvergence()
            let whole = try await node.position()
            #expect(whole.vector[own] == all)
            #expect(try await !has(node, doomed))
            try await saveOnce(node, "after")
            let last = try await node.expect("GET", "/v1/saves/once-after").text("transaction")
            let actor = try #require(NodeHistory.parts(of: last)?.actor)
            #expect(before.vector("vector")[actor] == nil && actor != own, "\(last) is used again")
            try await ClusterInvariants.expect(cluster, outcome.acknowledged, heard: heard)
            for node in cluster.nodes {
                let objects = try await node.objects("Latest")
                let names = objects.map { $0.value("name") }
                #expect(names.contains("after") && !names.contains("refused"))
            }
        }
    }

    @Test("a save that came back from the others is not done again under its ID")
    func repeated() async throws {
        try await TestCluster.with(nodes: 2) { cluster in
            let node = cluster.node(2)
            try await saveOnce(node, "before")
            try await cluster.waitForVouching()
            try copyFiles(node)
            try await saveOnce(node, "later")
            try await cluster.waitForConvergence()
            try await node.kill()
            try putBack(.missing, node)
            try await node.start()
            try await cluster.waitForConvergence()
            try await saveOnce(node, "after")
            try await saveOnce(node, "before")
            #expect(try await node.count("Latest") == 3)
            // Its transaction is in history again, with the ID.
            var history = NodeHistory()
            try await history.read(from: node)
            #expect(history.entries.contains { $0.saveID == "once-later" })
            try await saveOnce(node, "later")
            let count = try await node.count("Latest")
            #expect(count == 3, "it was done twice")
        }
    }

    private func has(_ node: NodeHandle, _ uri: String) async throws -> Bool {
        try await node.objects("Latest").contains { $0.text("id") == uri }
    }
}
