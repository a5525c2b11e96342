import Client
import Coordinator
import Foundation
import Node
import Testing

/// Kills node 1 of two at one point after the other, and looks each time at what is left.
///
/// After each kill the node is started again. Then it must find its store whole, have every save
/// that it had acknowledged, and come to the same state as its peer. Over the whole run no dot may
/// ever have named two different transactions, on either node.
final class KillPointRun {
    private let cluster: TestCluster
    private let strace: String
    private let shared: [String]
    private var victim: NodeHandle { cluster.node(1) }
    private var peer: NodeHandle { cluster.node(2) }

    private var histories = [NodeHistory(), NodeHistory()]
    /// What every dot names, as it was first seen on any node.
    private var named: [String: String] = [:]
    private var saveIDs: [[String: String]] = [[:], [:]]
    /// Saves that the victim or its peer has acknowledged, by their dots.
    private var acknowledged: [(dot: String, saveID: String)] = []
    private var checkedCount = 0
    private var index = 0

    private(set) var reached: [KillPoint: Int] = [:]
    private(set) var missedCount = 0
    private(set) var lostCount = 0
    private(set) var reusedCount = 0

    var reachedCount: Int { reached.values.reduce(0, +) }

    init(_ cluster: TestCluster, strace: String) async throws {
        self.cluster = cluster
        self.strace = strace
        let answer = try await cluster.node(1).save(
            (0..<6).map {
                .insert($0 < 3 ? "Latest" : "Errors", id: "@x\($0)", ["name": "row \($0)"])
            })
        shared = try (0..<6).map { try answer.uri("@x\($0)") }
        try await cluster.waitForConvergence()
        _ = try await victim.terminate()
    }

    /// Kills at one point and checks what is left.
    func visit(_ point: KillPoint) async throws {
        // Without a log beside the store, what opening writes is the same every time.
        let launcher = point.launcher(strace: strace, store: victim.store.path)
        let isReady = try await victim.startUnlessEnded(launcher: launcher)
        if isReady {
            switch point.phase {
            case .opening: break
            case .saving: try await saveUntilGone(on: victim, atMost: 12)
            case .applying: try await saveUntilGone(on: peer, atMost: 20)
            case .checkpointing:
                try await saveUntilGone(on: victim, atMost: 3)
                victim.process?.send(SIGTERM)
            }
        }
        let code = (try? await victim.process?.waitForExit(timeout: patience(point))) ?? nil
        if code == -SIGKILL {
            reached[point, default: 0] += 1
        } else {
            // It did not come so far; that it goes on unharmed is checked all the same.
            missedCount += 1
            try await victim.kill()
        }
        try await victim.start()
        try await check(point)
        // A log is left behind or not, in turns: opening has to cope with both.
        if index % 2 == 0 { _ = try await victim.terminate() } else { try await victim.kill() }
        index += 1
    }

    /// How long it may take from the last answer to the kill.
    private func patience(_ point: KillPoint) -> Duration {
        switch point.phase {
        case .checkpointing: .seconds(10)
        // What was applied is synchronised once a second.
        case .applying where point.calls != "pwrite64": .seconds(4)
        case .applying, .opening, .saving: .seconds(1)
        }
    }

    // MARK: - Saving

    /// Saves on a node until the victim is gone.
    private func saveUntilGone(on node: NodeHandle, atMost count: Int) async throws {
        let client = try node.makeClient()
        for step in 0..<count where victim.process?.isRunning == true {
            let saveID = "k\(index)-\(step)"
            let text = JSONValue.string(saveID)
            let operations: [JSONValue] = [
                .insert("Latest", ["name": text, "a": text]),
                .update(shared[step % shared.count], ["a": text]),
            ]
            let answer = try? await node.ask(
                "POST", "/v1/save",
                .object(["operations": .array(operations), "saveID": text]),
                timeout: .seconds(10), using: client)
            switch answer?.status {
            case 200: acknowledged.append((answer?.body.text("transaction") ?? "", saveID))
            case nil: break
            // On a row whose conflict nobody has resolved yet.
            case 409: break
            case let status?: Issue.record("\(saveID) was answered with \(status)")
            }
        }
        await client.close()
    }

    // MARK: - Checking

    private func check(_ point: KillPoint) async throws {
        let before = try await victim.verify()
        #expect(before["ok"]?.boolean == true, "After \(point): \(before)")
        // What it had acknowledged it must have by itself, before the peer could help out.
        try await readLog(of: 0, after: point)
        for save in acknowledged[checkedCount...] where isVictims(save.dot) {
            expectKept(save, on: 0, after: point)
        }
        try await cluster.waitForConvergence()
        try await readLog(of: 0, after: point)
        try await readLog(of: 1, after: point)
        for save in acknowledged[checkedCount...] {
            expectKept(save, on: 0, after: point)
            expectKept(save, on: 1, after: point)
        }
        checkedCount = acknowledged.count
    }

    private func isVictims(_ dot: String) -> Bool { dot.hasPrefix("\(victim.number).") }

    private func expectKept(
        _ save: (dot: String, saveID: String), on place: Int, after point: KillPoint
    ) {
        guard saveIDs[place][save.dot] != save.saveID else { return }
        lostCount += 1
        Issue.record(
            """
            After \(point) node \(place + 1) lacks \(save.saveID), acknowledged as \(save.dot): \
            that is \(saveIDs[place][save.dot] ?? "nothing")
            """)
    }

    private func readLog(of place: Int, after point: KillPoint) async throws {
        for entry in try await histories[place].read(from: cluster.nodes[place]) {
            let first = named.updateValue(entry.text, forKey: entry.dot)
            let isTwice = saveIDs[place].updateValue(entry.saveID, forKey: entry.dot) != nil
            guard isTwice || (first != nil && first != entry.text) else { continue }
            reusedCount += 1
            Issue.record(
                """
                After \(point) \(entry.dot) is used again, on node \(place + 1): \
                \(first ?? "") and \(entry.text)
                """)
        }
    }

    /// Reads both logs from their beginnings and compares them whole.
    func checkWhole() async throws {
        if victim.process?.isRunning != true { try await victim.start() }
        try await cluster.waitForConvergence()
        for node in cluster.nodes {
            var history = NodeHistory()
            try await history.read(from: node)
            let texts = Dictionary(history.entries.map { ($0.dot, $0.text) }) { $0 + $1 }
            #expect(texts == named, "The log of node \(node.number) is not what was seen of it")
        }
        try await expectEqualContents(cluster)
    }
}
