import Coordinator
import Foundation
import TestSupport
import Testing

extension EndToEnd {
    @Suite("Backups of nodes that run, and nodes that go on from one")
    struct BackupTests {}
}

extension EndToEnd.BackupTests {
    /// Makes a backup of a running node with the program.
    private func backUp(_ node: NodeHandle, to path: String) async throws {
        let made = try await TestProcess.run(
            ["backup", path, "--node", node.url, "--json"], in: node.folder)
        #expect(made.code == 0, "\(made.errors)")
    }

    private func restore(
        _ backup: String, _ node: NodeHandle, replace: Bool = true
    ) async throws -> Int32 {
        let flags = replace ? ["--replace"] : []
        return try await TestProcess.run(
            ["restore", backup, "--config", node.configuration.path, "--json"] + flags,
            in: node.folder
        ).code
    }

    @Test("A node put back to a backup made under load gets its own later saves from its peers")
    func ownSavesComeBack() async throws {
        try await TestCluster.with(nodes: 3) { cluster in
            let node = cluster.node(2)
            let backup = cluster.folder.appendingPathComponent("backup").path
            let load = try Load(on: node, prefix: "own", clients: 2, limit: 150)
            try await backUp(node, to: backup)
            let saved = await load.finish().acknowledged.count
            try await cluster.waitForConvergence()
            // In use, and there already.
            #expect(try await restore(backup, node) == 6)
            #expect(try await node.terminate() == 0)
            #expect(try await restore(backup, node, replace: false) == 3)
            #expect(try await restore(backup, cluster.node(1)) == 6)
            // One that has changed on its medium is not taken unasked.
            let damaged = backup + "-damaged"
            var bytes = try Data(contentsOf: URL(fileURLWithPath: backup))
            let name = try #require(bytes.range(of: Data("own-".utf8), options: .backwards))
            bytes[name.lowerBound] ^= 0x20
            try bytes.write(to: URL(fileURLWithPath: damaged))
            #expect(try await restore(damaged, node) == 5)
            #expect(try await restore(backup, node) == 0)
            try await node.start()
            try await cluster.waitForConvergence()
            #expect(try await node.count("Latest") == 3 * saved)
            #expect(try await node.verify()["ok"]?.boolean == true)
            // It has caught up, so it takes saves again.
            try await eventually("the restored node took a save") {
                try await node.askToSave(.insert("Latest", ["name": "after"])).status == 200
            }
            try await cluster.waitForConvergence()
        }
    }

    @Test("A restored node takes no saves before it has caught up, and says why")
    func recovering() async throws {
        try await TestCluster.with(nodes: 2) { cluster in
            let node = cluster.node(2)
            let backup = cluster.folder.appendingPathComponent("backup").path
            try await cluster.waitForConvergence()
            try await backUp(node, to: backup)
            try await cluster.node(1).save(.insert("Latest", ["name": "later"]))
            try await cluster.waitForConvergence()
            #expect(try await node.terminate() == 0)
            #expect(try await restore(backup, node) == 0)
            await cluster.partition([[1], [2]])
            try await node.start()
            let refused = try await node.askToSave(.insert("Latest", ["name": "alone"]))
            #expect(refused.status == 503)
            #expect(refused.body.code == "recovering")
            await cluster.heal()
            try await cluster.waitForConvergence()
            #expect(try await node.count("Latest") == 1)
        }
    }

    @Test("A backup is a store that can be read without a node, and is never written over")
    func readable() async throws {
        try await TestCluster.with(nodes: 1) { cluster in
            let node = cluster.node(1)
            let backup = cluster.folder.appendingPathComponent("backup").path
            try await node.save(.insert("Latest", ["name": "one"]))
            try await backUp(node, to: backup)
            let read = try await TestProcess.run(
                ["count", "Latest", "--store", backup], in: cluster.folder)
            #expect(read.code == 0 && read.output.contains("1"))
            let verified = try await TestProcess.run(
                ["verify", "--store", backup], in: cluster.folder)
            #expect(verified.code == 0, "\(verified.errors)")
            let again = try await TestProcess.run(
                ["backup", backup, "--node", node.url], in: cluster.folder)
            #expect(again.code == 3 && again.errors.contains("exists already"))
            let relative = try await node.ask("POST", "/v1/backup", ["path": "somewhere"])
            #expect(relative.status == 400)
        }
    }
}
