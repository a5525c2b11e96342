import Coordinator
import Foundation
import Glibc
import TestSupport
import Testing

@testable import Node

extension EndToEnd {
    @Suite("Keys of the mesh")
    struct KeyTests {}
}

extension EndToEnd.KeyTests {
    private func insert(_ name: String) -> JSONValue {
        .insert("Rollback", ["name": .string(name)])
    }

    @Test("Nodes with keys converge, and each proves its own to the others")
    func converge() async throws {
        try await TestCluster.with(starting: []) { cluster in
            let ring = try Keyring(cluster)
            for node in cluster.nodes { try await node.start() }
            for node in cluster.nodes { try await node.save([insert("of \(node.number)")]) }
            try await cluster.waitForConvergence()
            for node in cluster.nodes {
                #expect(try await node.count("Rollback") == 3)
                let status = try await node.status()
                let own = try ring.keys(of: node.number).publicKey.text
                #expect(status["keys"]?.object?.text("publicKey") == own)
                for other in cluster.nodes where other.number != node.number {
                    try await eventually("the keys were proven", within: .seconds(60)) {
                        let peer = try await node.peer(other.number)
                        return peer.isConnected && peer.handshake == "succeeded"
                    }
                }
                #expect(!node.said.contains("refused"))
                #expect(!node.said.contains("does not list"))
            }
        }
    }

    @Test("A node whose key nobody lists gets nothing, and both sides say so")
    func notListed() async throws {
        try await TestCluster.with(starting: []) { cluster in
            let ring = try Keyring(cluster)
            // Nodes 1 and 2 list a key for node 3 that it does not hold.
            let other = try CurveKeys.generate().publicKey
            for reader in [1, 2] { ring.list([other], of: 3, at: reader) }
            try ring.writeAll()
            for node in cluster.nodes { try await node.start() }
            for number in [1, 2] { try await cluster.node(number).save([insert("of \(number)")]) }
            try await cluster.node(3).save([insert("of 3")])
            try await cluster.waitForConvergence(among: [1, 2])
            let stranger = try ring.keys(of: 3).publicKey.text
            try await eventually("both sides knew why", within: .seconds(60)) {
                let refused = try await cluster.node(1).refused()
                let peer = try await cluster.node(3).peer(1)
                // Between two attempts its side knows of none.
                return refused.contains { $0.key == stranger } && peer.handshake == "refusedThere"
                    && peer.refusal.contains("does not list this node's")
            }
            #expect(try await cluster.node(3).count("Rollback") == 1)
            for number in [1, 2] { #expect(try await cluster.node(number).count("Rollback") == 2) }
            #expect(try await cluster.node(1).peer(3).isConnected == false)
            #expect(cluster.node(1).said.contains("A key that is not listed was refused"))
            #expect(cluster.node(3).said.contains("A peer does not list this node's key"))
            for node in cluster.nodes {
                for number in 1...3 {
                    #expect(!node.said.contains(try ring.keys(of: number).secret))
                }
            }
        }
    }

    @Test("A node whose listed key is another's is not believed in either's name")
    func boundToNumber() async throws {
        try await TestCluster.with(starting: []) { cluster in
            let ring = try Keyring(cluster)
            // Node 3's process holds the key of node 2, and node 2's is not running.
            let listed = try ring.keys(of: 3).publicKey
            for reader in [1, 2] { ring.list([listed], of: 3, at: reader) }
            ring.lend(2, to: 3)
            try ring.writeAll()
            let (one, three) = (cluster.node(1), cluster.node(3))
            try await one.start()
            try await three.start()
            try await one.save([insert("of 1")])
            try await three.save([insert("of 3")])
            try await eventually("node 1 had refused node 3's frames", within: .seconds(60)) {
                try await one.refused().contains { $0.reason == "claimsToBe" }
            }
            try await Task.sleep(for: .seconds(2))
            #expect(try await one.count("Rollback") == 1)
            #expect(one.said.contains("A node claims another's number, and is not believed"))
            // Nothing came by asking; what node 1 publishes, the holder of node 2's key may read.
            #expect(try await one.peer(3).isConnected == false)
        }
    }

    @Test("A removed key cuts the live links on both ways within five seconds, and is let in again")
    func removed() async throws {
        try await TestCluster.with(starting: []) { cluster in
            let ring = try Keyring(cluster)
            for node in cluster.nodes { try await node.start() }
            try await cluster.node(1).save([insert("before")])
            try await cluster.waitForConvergence()
            for reader in [1, 2] {
                ring.leave(3, at: reader)
                try ring.write(reader)
                #expect(try await cluster.node(reader).reload() == ["node 3: cut off"])
            }
            let cut = ContinuousClock.now
            try await cluster.node(1).save([insert("secret")])
            try await cluster.node(3).save([insert("from outside")])
            try await eventually("the link was cut", within: .seconds(60)) {
                try await cluster.node(3).peer(1).handshake == "refusedThere"
            }
            #expect(ContinuousClock.now - cut < .seconds(5))
            try await eventually("the others had it", within: .seconds(60)) {
                try await cluster.node(2).count("Rollback") == 2
            }
            try await Task.sleep(for: .seconds(3))
            #expect(try await cluster.node(3).count("Rollback") == 2)
            #expect(try await cluster.node(1).count("Rollback") == 2)
            try await eventually("both saw the link gone", within: .seconds(60)) {
                let there = try await cluster.node(3).peer(1)
                let here = try await cluster.node(1).peer(3)
                return !there.isConnected && !here.isConnected
            }
            for reader in [1, 2] {
                ring.leave(3, out: false, at: reader)
                try ring.write(reader)
                #expect(try await cluster.node(reader).reload() == ["node 3: keys"])
            }
            try await cluster.waitForConvergence()
            for node in cluster.nodes { #expect(try await node.count("Rollback") == 3) }
        }
    }

    @Test("All keys are rotated without stopping the cluster, under load, by reloading")
    func rotatedByReloading() async throws {
        try await rotate { node in
            let changed = try await node.reload()
            #expect(changed.contains("node \(node.number): own key"))
        }
    }

    @Test("All keys are rotated without stopping the cluster, under load, a restart each")
    func rotatedByRestarting() async throws {
        try await rotate { node in
            #expect(try await node.terminate() == 0)
            try await node.start()
        }
    }

    /// The steps of docs/OPERATIONS.md, "Rotate keys", node after node, while all nodes take saves.
    private func rotate(_ takeUp: (NodeHandle) async throws -> Void) async throws {
        try await TestCluster.with(starting: []) { cluster in
            let ring = try Keyring(cluster)
            for node in cluster.nodes { try await node.start() }
            var olds: [CurvePublicKey] = []
            for node in cluster.nodes {
                let others = cluster.nodes.filter { $0.number != node.number }
                var loads: [Load] = []
                for other in others {
                    loads.append(
                        try Load(
                            on: other, prefix: "r\(node.number)-\(other.number)-", clients: 1))
                }
                for load in loads { try await load.waitForAcknowledged(5) }
                let old = try ring.keys(of: node.number).publicKey
                try ring.renew(node.number)
                let new = try ring.keys(of: node.number).publicKey
                // 1. The others list both. 2. The node goes over. 3. The others drop the old one.
                for other in others {
                    ring.list([old, new], of: node.number, at: other.number)
                    try ring.write(other.number)
                    #expect(try await other.reload() == ["node \(node.number): keys"])
                }
                try ring.write(node.number)
                try await takeUp(node)
                try await eventually("the new key was proven", within: .seconds(60)) {
                    for other in others {
                        let peer = try await other.status().objects("peers").first {
                            $0["node"]?.integer == Int64(node.number)
                        }
                        guard peer?.text("publicKey") == new.text else { return false }
                    }
                    return true
                }
                for other in others {
                    ring.list(nil, of: node.number, at: other.number)
                    try ring.write(other.number)
                    #expect(try await other.reload() == ["node \(node.number): keys"])
                }
                olds.append(old)
                for load in loads {
                    try await load.waitForAcknowledged(load.outcome.acknowledged.count + 10)
                    await load.stopWhole()
                }
            }
            try await cluster.waitForConvergence()
            for node in cluster.nodes {
                #expect(try await node.verify()["ok"]?.boolean == true)
                try await eventually("all were connected again", within: .seconds(60)) {
                    let peers = try await node.status().objects("peers")
                    return peers.allSatisfy {
                        $0["connected"]?.boolean == true && $0.text("handshake") == "succeeded"
                            && !olds.map(\.text).contains($0.text("publicKey"))
                    }
                }
            }
        }
    }

    @Test("A file that is wrong changes nothing when it is read again, and is reported")
    func wrongFile() async throws {
        try await TestCluster.with(nodes: 2, starting: []) { cluster in
            let ring = try Keyring(cluster)
            for node in cluster.nodes { try await node.start() }
            try await cluster.waitForConvergence()
            let node = cluster.node(1)
            let good = try String(contentsOf: node.configuration, encoding: .utf8)
            let secret = try ring.keys(of: 1).secret
            let wrongs = [
                good.replacingOccurrences(of: "publicKeys: [\"", with: "publicKeys: [\"x"),
                good.replacingOccurrences(of: "-1.secret", with: "-9.secret"),
                good.replacingOccurrences(of: "peers:", with: "peer:"), "node: [",
                good.split(separator: "\n").filter { !$0.contains("secretKeyFile") }
                    .joined(separator: "\n"),
            ]
            for wrong in wrongs {
                try Data(wrong.utf8).write(to: node.configuration)
                let (status, answer) = try await node.ask("POST", "/v1/reload")
                let error = answer["error"]?.object
                #expect(status == 422, "\(answer)")
                let codes = ["configurationInvalid", "secretUnreadable"]
                #expect(codes.contains(error?.text("code") ?? ""), "\(answer)")
                #expect(error?.text("message").contains(secret) == false)
            }
            // By signal, too; then the log has the result.
            node.process?.send(SIGHUP)
            try await eventually("the signal was heard", within: .seconds(60)) {
                node.said.components(separatedBy: "The reload failed").count > wrongs.count + 1
            }
            #expect(!node.said.contains(secret))
            try await node.save([insert("still here")])
            try await cluster.waitForConvergence()
            #expect(try await cluster.node(2).count("Rollback") == 1)
            try Data(good.utf8).write(to: node.configuration)
            #expect(try await node.reload() == [])
        }
    }
}
