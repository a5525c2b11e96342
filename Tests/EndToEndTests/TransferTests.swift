import Client
import Coordinator
import Foundation
import LinkProxy
import Node
import TestSupport
import Testing

extension EndToEnd {
    @Suite("Nodes that take over a copy of a member's store")
    struct TransferTests {}
}

/// Saves one new object, again and again until the node answers; it saves once.
func saveOnce(_ node: NodeHandle, _ name: String) async throws {
    let save: JSONValue = [
        "operations": .array([.insert("Latest", ["name": .string(name)])]),
        "saveID": "once-\(name)",
    ]
    try await eventually("node \(node.number) took a save") {
        do {
            return try await node.ask("POST", "/v1/save", save).status == 200
        } catch let error as ClientError where error.isNoAnswer {
            return false
        }
    }
}

extension EndToEnd.TransferTests {
    private func removeStore(_ node: NodeHandle) throws {
        for suffix in ["", "-wal", "-shm"] {
            let file = node.store.path + suffix
            if FileManager.default.fileExists(atPath: file) {
                try FileManager.default.removeItem(atPath: file)
            }
        }
    }

    /// Expects that a node saves, and that all nodes get that and are equal.
    private func expectTakingPart(_ node: NodeHandle, in cluster: TestCluster) async throws {
        try await saveOnce(node, "of \(node.number)")
        try await cluster.waitForConvergence()
        try await expectEqualContents(cluster)
    }

    private static let hasTakenOver = "A copy of a member's store has taken this store's place"

    /// Purges all history on some nodes, once all members have all of it on disk.
    private func purge(_ nodes: [NodeHandle]) async throws {
        for node in nodes {
            let token = try await node.status().text("token")
            try await eventually("node \(node.number) purged its history") {
                _ = try await node.expect("DELETE", "/v1/history?before=\(token)")
                let history = try await node.expect("GET", "/v1/history?limit=5")
                return (history["transactions"]?.array?.count ?? 0) <= 1
            }
        }
    }

    @Test("A node that lost its store gets a copy where all history was purged, and takes part")
    func purgedHistory() async throws {
        try await TestCluster.with(nodes: 3) { cluster in
            var saved = 0
            for node in cluster.nodes {
                saved += try await Load(
                    on: node, prefix: "n\(node.number)", clients: 2, limit: 20
                ).finish().acknowledged.count
            }
            try await cluster.waitForConvergence()
            let lost = cluster.node(3)
            try await purge([cluster.node(1), cluster.node(2)])
            try await lost.kill()
            try removeStore(lost)
            try await cluster.node(1).save(.insert("Latest", ["name": "meanwhile"]))
            try await lost.start()
            try await cluster.waitForConvergence()
            #expect(try await lost.count("Latest") == 3 * saved + 1)
            #expect(lost.said.contains(Self.hasTakenOver))
            #expect(try await lost.verify()["ok"]?.boolean == true)
            try await expectTakingPart(lost, in: cluster)
            #expect(try await lost.status()["transfer"] == .null)
        }
    }

    /// So little history that logs of some hundred saves do not reach back to their beginning.
    private static let short = ["TRIBUTARY_HISTORY_MAXIMUM_BYTES": "65536"]

    /// Fills nodes 1 and 2, and waits until neither log has what node 3 lacks.
    ///
    /// - Parameters:
    ///   - limit: how many saves each of two clients makes.
    ///   - operations: what a save consists of, by its ID; by default three inserts.
    /// - Returns: how many saves were acknowledged.
    private func fillPastTheLogs(
        _ cluster: TestCluster, saves limit: Int = 500,
        operations: @escaping @Sendable (String, Int) -> [JSONValue] = Load.inserts
    ) async throws -> Int {
        let outcome = try await Load(
            on: cluster.node(1), prefix: "n1", clients: 2, limit: limit, operations: operations
        ).finish()
        try await eventually("nodes 1 and 2 purged what node 3 lacks") {
            // Node 1's first save may be one that node 3 has, and its second is one it lacks.
            for node in [cluster.node(1), cluster.node(2)] where try await !hasForgotten(node) {
                return false
            }
            return true
        }
        return outcome.acknowledged.count
    }

    /// Whether a node's log begins later than with the first saves of anybody.
    private func hasForgotten(_ node: NodeHandle) async throws -> Bool {
        let kept = try await node.expect("GET", "/v1/history?limit=1")["transactions"]
        guard let dot = kept?.array?.first?.object?.text("dot"),
            let number = dot.split(separator: "-").last.flatMap({ Int($0) })
        else { return false }
        return number > 2
    }

    @Test("A newcomer killed again and again while it takes a copy gets all of it in the end")
    func killedMeanwhile() async throws {
        try await TestCluster.with(nodes: 3, starting: []) { cluster in
            for donor in [1, 2] { try await cluster.node(donor).start(environment: Self.short) }
            let saved = try await fillPastTheLogs(cluster)
            let joiner = cluster.node(3)
            var generator = SeededGenerator(seed: 4)
            for _ in 0..<6 {
                try await joiner.start()
                try await Task.sleep(for: .milliseconds(Int.random(in: 0...600, using: &generator)))
                try await joiner.kill()
            }
            // The donor is killed as well: its copy is gone, and another is begun with.
            try await joiner.start()
            try await Task.sleep(for: .milliseconds(200))
            try await cluster.node(1).kill()
            try await cluster.node(1).start(environment: Self.short)
            try await cluster.waitForConvergence()
            #expect(try await joiner.count("Latest") == 3 * saved)
            // Not by what it said: it may have been killed between taking the copy and saying so.
            #expect(try await hasForgotten(joiner))
            #expect(try await joiner.verify()["ok"]?.boolean == true)
            try await expectTakingPart(joiner, in: cluster)
        }
    }

    @Test("A newcomer killed while it takes a copy goes on with the part of it that it has")
    func resumed() async throws {
        try await TestCluster.with(nodes: 3, starting: []) { cluster in
            for donor in [1, 2] { try await cluster.node(donor).start(environment: Self.short) }
            let text = JSONValue.string(String(repeating: "x", count: 60_000))
            let saved = try await fillPastTheLogs(cluster, saves: 150) { saveID, _ in
                [.insert("Latest", ["name": .string(saveID), "a": text])]
            }
            // So narrow that of a copy with many parts, of one MiB each, some come between kills.
            let narrow = LinkFault(trickle: .init(bytes: 64 << 10, everyMilliseconds: 10))
            for donor in [1, 2] { await cluster.set(narrow, from: donor, to: 3) }
            let joiner = cluster.node(3)
            var had: Int64 = 0
            var total: Int64 = 0
            var beginnings = 0
            for life in 1...4 {
                try await joiner.start()
                // What it tells first it has from before; nothing of that goes.
                var told: [Int64] = []
                try await eventually(
                    "two more MiB of the copy had come in life \(life): \(told.suffix(3))",
                    every: .milliseconds(10)
                ) {
                    let size = try sizeOfCopy(joiner)
                    guard size >= had else {
                        throw EndToEndError("\(had) bytes of the copy had come, now \(size) are")
                    }
                    if let transfer = try await joiner.status()["transfer"]?.object {
                        told.append(transfer["bytes"]?.integer ?? -1)
                        total = transfer["total"]?.integer ?? 0
                    }
                    return size >= had + 2 << 20
                }
                #expect(told.allSatisfy { $0 >= had } && !told.isEmpty, "\(had): \(told)")
                try await joiner.kill()
                had = try sizeOfCopy(joiner)
                #expect(had < total, "it was killed once all of the copy had come")
                if life == 1 { beginnings = count(Self.beginning, saidBy: joiner) }
            }
            await cluster.heal()
            try await joiner.start()
            try await cluster.waitForConvergence()
            #expect(try await joiner.count("Latest") == saved)
            #expect(joiner.said.contains(Self.hasTakenOver))
            // It says so of a first byte only: no life but the first began with one.
            #expect(beginnings > 0)
            #expect(count(Self.beginning, saidBy: joiner) == beginnings)
            #expect(try await joiner.metric("tributary_transfers_installed_total") == 1)
            try await expectTakingPart(joiner, in: cluster)
        }
    }

    @Test("A copy whose bytes change under way is noticed, and none of it is stored")
    func damaged() async throws {
        try await TestCluster.with(nodes: 3, starting: []) { cluster in
            for donor in [1, 2] { try await cluster.node(donor).start(environment: Self.short) }
            let text = JSONValue.string(String(repeating: "x", count: 60_000))
            let saved = try await fillPastTheLogs(cluster, saves: 100) { saveID, _ in
                [.insert("Latest", ["name": .string(saveID), "a": text])]
            }
            // Some parts come whole between two flips, and some do not.
            for donor in [1, 2] {
                let flips = LinkFault.Flips(every: 1_500_000, seed: UInt64(donor))
                await cluster.set(LinkFault(flips: flips), from: donor, to: 3)
            }
            let joiner = cluster.node(3)
            try await joiner.start()
            try await eventually("node 3 noticed") { joiner.said.contains("ignored for a while") }
            #expect(try await joiner.count("Latest") == 0)
            // A quarantine lasts a minute, or until the node is restarted.
            await cluster.heal()
            for node in cluster.nodes { #expect(try await node.terminate() == 0) }
            for node in cluster.nodes { try await node.start(environment: Self.short) }
            try await cluster.waitForConvergence()
            #expect(try await joiner.count("Latest") == saved)
            let texts = try await joiner.objects("Latest").map { $0.value("a") }
            #expect(texts.allSatisfy { $0 == text })
            #expect(try await joiner.metric("tributary_transfers_installed_total") == 1)
            try await expectTakingPart(joiner, in: cluster)
        }
    }

    /// How much there is of a member's copy that a node takes in, in bytes.
    private func sizeOfCopy(_ node: NodeHandle) throws -> Int64 {
        var status = stat()
        return stat(node.store.path + "-transfer", &status) == 0 ? Int64(status.st_size) : 0
    }

    private static let beginning = "The node takes a copy of a member's store"

    /// How often a node has said something in all its lives.
    private func count(_ text: String, saidBy node: NodeHandle) -> Int {
        node.said.components(separatedBy: text).count - 1
    }

    @Test("A newcomer that saves at once keeps the save while it takes a copy")
    func savesAtOnce() async throws {
        try await TestCluster.with(nodes: 3, starting: []) { cluster in
            for donor in [1, 2] { try await cluster.node(donor).start(environment: Self.short) }
            let saved = try await fillPastTheLogs(cluster)
            let joiner = cluster.node(3)
            try await joiner.start()
            try await saveOnce(joiner, "newcomer's")
            try await cluster.waitForConvergence()
            #expect(joiner.said.contains(Self.hasTakenOver))
            #expect(try await joiner.count("Latest") == 3 * saved + 1)
            try await expectEqualContents(cluster)
        }
    }

    @Test("A node cut off for longer than history is kept loses nothing that it saved meanwhile")
    func unsentSaves() async throws {
        try await TestCluster.with(nodes: 3, starting: []) { cluster in
            for node in cluster.nodes { try await node.start(environment: Self.short) }
            try await cluster.node(1).save(.insert("Latest", ["name": "before"]))
            try await cluster.waitForConvergence()
            let away = cluster.node(3)
            await cluster.partition([[1, 2], [3]])
            let own = try await Load(on: away, prefix: "own", clients: 1, limit: 20).finish()
            let saved = try await fillPastTheLogs(cluster)
            // Restarted, they no longer have queued for node 3 what their logs no longer have.
            for number in [1, 2] {
                try await cluster.node(number).kill()
                try await cluster.node(number).start(environment: Self.short)
            }
            await cluster.heal()
            try await cluster.waitForConvergence()
            let count = 1 + 3 * (saved + own.acknowledged.count)
            #expect(own.acknowledged.count == 20)
            for node in cluster.nodes {
                #expect(try await node.count("Latest") == count)
                #expect(try await node.verify()["ok"]?.boolean == true)
            }
            #expect(away.said.contains(Self.hasTakenOver))
            #expect(FileManager.default.fileExists(atPath: away.store.path + "-before-transfer"))
            try await expectTakingPart(away, in: cluster)
        }
    }
}
