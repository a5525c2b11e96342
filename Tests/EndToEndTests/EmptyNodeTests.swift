import Coordinator
import Foundation
import Testing

extension EndToEnd {
    @Suite("A node with an empty store")
    struct EmptyNodeTests {}
}

extension EndToEnd.EmptyNodeTests {
    @Test("a node that starts late catches up with thousands of transactions")
    func catchesUp() async throws {
        try await TestCluster.with(nodes: 3, starting: [1, 2]) { cluster in
            let loads = try [1, 2].map {
                try Load(on: cluster.node($0), prefix: "n\($0)", clients: 4, limit: 300)
            }
            var saved = 0
            for load in loads { saved += await load.finish().acknowledged.count }
            #expect(saved == 2400)
            try await cluster.waitForConvergence(among: [1, 2])
            try await cluster.node(3).start()
            // It takes part while it catches up.
            try await saveOnce(cluster.node(3), "newcomer's")
            try await cluster.waitForConvergence()
            #expect(try await cluster.node(3).count("Latest") == 3 * saved + 1)
            try await expectEqualContents(cluster)
        }
    }

    @Test("it gets what the others have through the nodes that it reaches")
    func catchesUpThroughOne() async throws {
        try await TestCluster.with(nodes: 3, starting: [1, 2]) { cluster in
            let outcome = try await Load(
                on: cluster.node(1), prefix: "n1", clients: 2, limit: 100
            ).finish()
            try await cluster.waitForConvergence(among: [1, 2])
            #expect(try await cluster.node(1).terminate() == 0)
            try await cluster.node(3).start()
            try await cluster.waitForConvergence(among: [2, 3])
            #expect(try await cluster.node(3).count("Latest") == 3 * outcome.acknowledged.count)
        }
    }

    @Test("what a node saved that lost its store comes back, to it under another number")
    func recoversLostStore() async throws {
        try await TestCluster.with(nodes: 4, starting: [1, 2, 3]) { cluster in
            let lost = cluster.node(3)
            let outcome = try await Load(on: lost, prefix: "own", clients: 2, limit: 50).finish()
            try await cluster.waitForConvergence(among: [1, 2, 3])
            try await lost.kill()
            for suffix in ["", "-wal", "-shm"] {
                let file = URL(fileURLWithPath: lost.store.path + suffix)
                if FileManager.default.fileExists(atPath: file.path) {
                    try FileManager.default.removeItem(at: file)
                }
            }
            // A number names one store for ever, so the node in its place has a new one.
            let successor = cluster.node(4)
            try await successor.start()
            try await successor.save(.insert("Latest", ["name": "after"]))
            try await cluster.waitForConvergence(among: [1, 2, 4])
            #expect(try await successor.count("Latest") == 3 * outcome.acknowledged.count + 1)
            #expect(try await successor.verify()["ok"]?.boolean == true)
        }
    }
}
