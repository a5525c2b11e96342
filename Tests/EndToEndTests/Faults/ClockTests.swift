import Coordinator
import Foundation
import TestSupport
import Testing

extension EndToEnd {
    @Suite("With a clock that is wrong")
    struct ClockTests {}
}

extension EndToEnd.ClockTests {
    /// Starts a node whose wall clock is off by so many seconds.
    private func start(_ node: NodeHandle, offBy seconds: Int) async throws {
        let library = try #require(MachineAbilities.fakeTimeLibrary)
        // The first process of the library extends its environment in place, where Swift then finds
        // no arguments: so that is another program, which becomes ours.
        try await node.start(
            launcher: ["/usr/bin/env"],
            environment: MachineAbilities.fakeTime(library, offsetSeconds: seconds))
        // What the library shares with children, and leaves behind.
        guard let pid = node.process?.pid else { return }
        for name in ["faketime_shm_\(pid)", "sem.faketime_sem_\(pid)"] {
            try? FileManager.default.removeItem(atPath: "/dev/shm/\(name)")
        }
        // Under the library a timer may never go off, by which a save waits while it is held back.
        try await eventually("saves are not held back") {
            try await node.status()["savesRefused"]?.object?["code"] != .string("recovering")
        }
    }

    private func save(_ name: String, on node: NodeHandle) async throws -> (
        status: Int, answer: SaveAnswerText, code: String
    ) {
        let (status, body) = try await node.askToSave(
            .insert("Latest", ["name": .string(name), "a": .string(name)]))
        return (status, SaveAnswerText(body), body.code)
    }

    /// The dots of the transactions that a node holds back.
    private func held(by node: NodeHandle) async throws -> [String] {
        (try await node.status()["held"]?.array ?? []).map { $0.object?.text("transaction") ?? "" }
    }

    /// Waits until a node that can compare its clock with two others' says that it takes no saves.
    private func waitForDrift(_ node: NodeHandle) async throws {
        try await eventually("node \(node.number) refused saves for its clock") {
            try await node.savingRefusal() == "clockDrift"
        }
        let refused = try await save("refused", on: node)
        #expect(refused.status == 503 && refused.code == "clockDrift", "\(refused)")
        #expect(try await node.alarms().contains("clockOff"))
    }

    /// Waits until a node holds back one transaction, and no other.
    private func waitForHeld(_ transaction: String, by node: NodeHandle) async throws {
        try await eventually("node \(node.number) held \(transaction) alone") {
            try await held(by: node) == [transaction]
        }
    }

    /// Waits until a node takes saves.
    private func waitForSaving(_ node: NodeHandle) async throws {
        try await eventually("node \(node.number) took saves") {
            try await node.status()["savesRefused"] == .null
        }
    }

    private func clockOffset(of number: Int, seenBy node: NodeHandle) async throws -> Int64? {
        try await node.status().objects("peers").first { $0["node"]?.integer == Int64(number) }?[
            "clockOffsetMilliseconds"]?.integer
    }

    @Test("two minutes ahead: nothing is held, and all converge", MachineAbilities.needed(.clocks))
    func littleAhead() async throws {
        try await TestCluster.with(starting: [1, 2]) { cluster in
            try await start(cluster.node(3), offBy: 120)
            var records: [SaveRecord] = []
            let shared = try await SharedRows.insert(in: cluster, perEntity: 2)
            let (outcome, heard) = try await cluster.mixedLoad(shared, seed: 51) { load, reader in
                try await eventually("all have saved, and were read") {
                    load.outcome.acknowledged.count > 90 && reader.hasReadEnough
                }
            }
            records += outcome.acknowledged
            try await ClusterInvariants.expect(cluster, records, heard: heard)
            for node in cluster.nodes { #expect(try await held(by: node) == []) }
            // It was ahead indeed, and the others know.
            let offset = try #require(try await clockOffset(of: 3, seenBy: cluster.node(1)))
            #expect((100_000..<140_000).contains(offset))
        }
    }

    @Test(
        "an hour behind: it holds what comes from its future, and has it all once its clock is right",
        MachineAbilities.needed(.clocks))
    func farBehind() async throws {
        try await TestCluster.with(starting: [1, 2]) { cluster in
            let late = cluster.node(3)
            try await start(late, offBy: -3600)
            let other = try await save("of node 1", on: cluster.node(1))
            #expect(other.status == 200)
            let own = try await save("of node 3", on: late)
            // A node that knows that its clock is wrong may refuse to save; it may not guess.
            #expect(own.status == 200 || own.code == "clockDrift", "\(own)")
            try await eventually("node 3 held what node 1 had saved") {
                try await held(by: late).contains(other.answer.transaction)
            }
            #expect(try await late.count("Latest") == (own.status == 200 ? 1 : 0))
            #expect(try await late.verify()["ok"]?.boolean == true)
            if own.status == 200 {
                // What comes from the past does no harm.
                try await eventually("the others had what node 3 saved") {
                    try await cluster.node(1).count("Latest") == 2
                }
            }
            #expect(try await late.terminate() == 0)
            try await late.start()
            let records = [(1, other), (3, own)].filter { $0.1.status == 200 }.map {
                SaveRecord(
                    node: $0.0, saveID: "", transaction: $0.1.answer.transaction, operations: [])
            }
            try await ClusterInvariants.expect(cluster, records)
            #expect(try await held(by: late) == [])
        }
    }

    @Test(
        "a year ahead: its saves are held and reported by the others, whose clocks it does not move",
        MachineAbilities.needed(.clocks), arguments: [true, false])
    func farAhead(hasRun: Bool) async throws {
        try await TestCluster.with { cluster in
            let wrong = cluster.node(3)
            let sane = [cluster.node(1), cluster.node(2)]
            // One that has only begun has no store yet that is vouched for, or some.
            if hasRun {
                #expect(try await save("of before", on: sane[0]).status == 200)
                try await cluster.waitForVouching()
            }
            let before = hasRun ? 1 : 0
            #expect(try await wrong.terminate() == 0)
            // Before it hears the others it cannot know.
            await cluster.partition([[1, 2], [3]])
            try await start(wrong, offBy: 365 * 86_400)
            // It hears nobody. A save that waits would hang, for timers stop in a shifted time.
            try await eventually("node 3 let saves through") {
                try await wrong.status()["savesRefused"]?.object == nil
            }
            let bad = try await save("of the future", on: wrong)
            #expect(bad.status == 200, "\(bad)")
            await cluster.heal()
            for node in sane { try await waitForHeld(bad.answer.transaction, by: node) }
            try await waitForDrift(wrong)
            let now = Int64(Date().timeIntervalSince1970 * 1000)
            for (index, node) in sane.enumerated() {
                let good = try await save("of now \(index)", on: node)
                #expect(good.status == 200)
                #expect(abs(good.answer.stamp.milliseconds - now) < 300_000)
            }
            try await cluster.waitForConvergence(among: [1, 2])
            for node in sane {
                #expect(try await node.count("Latest") == before + 2)
                #expect(try await node.verify()["ok"]?.boolean == true)
            }
            // Nor after a restart.
            #expect(try await cluster.node(1).terminate() == 0)
            try await cluster.node(1).start()
            let later = try await save("of now, later", on: cluster.node(1))
            #expect(abs(later.answer.stamp.milliseconds - now) < 300_000)
            try await cluster.waitForConvergence(among: [1, 2])
            #expect(try await cluster.node(2).count("Latest") == before + 3)

            // With its clock put right it has all that the others saved, and they go on. What it saved
            // in the future is lost nowhere, and waits there for its time.
            #expect(try await wrong.terminate() == 0)
            try await wrong.start()
            for (index, node) in sane.enumerated() {
                try await waitForSaving(node)
                let good = try await save("at the end \(index)", on: node)
                #expect(good.status == 200, "\(good)")
            }
            try await cluster.waitForConvergence(among: [1, 2])
            try await eventually("node 3 had all that the others saved") {
                try await wrong.count("Latest") == before + 6
            }
            #expect(try await held(by: wrong) == [])
            #expect(try await wrong.verify()["ok"]?.boolean == true)
            for node in sane {
                try await waitForHeld(bad.answer.transaction, by: node)
                #expect(try await node.count("Latest") == before + 5)
            }
            try await retire(wrong, keeping: bad.answer.transaction, cluster)
        }
    }

    /// Retires a node whose save is held for a year: the nodes that have the save keep it, and list
    /// it.
    private func retire(
        _ wrong: NodeHandle, keeping transaction: String, _ cluster: TestCluster
    ) async throws {
        #expect(try await wrong.terminate() == 0)
        let sane = [cluster.node(1), cluster.node(2)]
        try await eventually("node \(wrong.number) could be retired") {
            let path = "/v1/members/\(wrong.number)/departure"
            return try await sane[0].ask("POST", path, [:]).status == 200
        }
        for node in sane {
            try await eventually("node \(node.number) kept \(transaction)") {
                let answer = try await node.expect("GET", "/v1/orphans")
                let listed = answer.objects("orphans")
                return listed.map { $0.text("transaction") } == [transaction]
            }
            let whole = try await node.expect("GET", "/v1/orphans/\(transaction)")
            let change = try #require(whole["changes"]?.array?.first?.object)
            #expect(change["values"]?.object?["name"]?.string == "of the future")
            #expect(try await save("after all", on: node).status == 200)
        }
        try await cluster.waitForConvergence(among: [1, 2])
    }

    @Test(
        "a clock that jumps a year ahead stops a node's saves; put right, all is delivered",
        MachineAbilities.needed(.clocks))
    func mended() async throws {
        try await TestCluster.with { cluster in
            let wrong = cluster.node(3)
            var answers: [(node: Int, answer: SaveAnswerText)] = []
            func expectSaved(_ name: String, _ node: NodeHandle) async throws {
                let saved = try await save(name, on: node)
                #expect(saved.status == 200, "\(name): \(saved)")
                answers.append((node.number, saved.answer))
            }
            for node in cluster.nodes { try await expectSaved("before \(node.number)", node) }
            // The last of its own saves reaches nobody before its clock goes wrong.
            await cluster.partition([[1, 2], [3]])
            try await expectSaved("unheard", wrong)
            #expect(try await wrong.terminate() == 0)
            await cluster.heal()
            try await start(wrong, offBy: 365 * 86_400)
            try await waitForDrift(wrong)
            for number in [1, 2] { try await expectSaved("meanwhile", cluster.node(number)) }
            // It is stopped from saving only: what it saved before goes out, what others save comes
            // in, and its own clock holds nothing back.
            try await cluster.waitForConvergence()
            for node in cluster.nodes {
                #expect(try await node.count("Latest") == 6)
                #expect(try await held(by: node) == [])
            }

            #expect(try await wrong.terminate() == 0)
            try await wrong.start()
            try await waitForSaving(wrong)
            try await expectSaved("after", wrong)
            let last = try #require(answers.last?.answer.stamp.milliseconds)
            let now = Int64(Date().timeIntervalSince1970 * 1000)
            #expect(abs(last - now) < 300_000, "its clock has kept the wrong time")
            let records = answers.map {
                SaveRecord(
                    node: $0.node, saveID: "", transaction: $0.answer.transaction, operations: [])
            }
            try await ClusterInvariants.expect(cluster, records)
            for node in cluster.nodes {
                #expect(try await node.count("Latest") == 7)
                #expect(try await held(by: node) == [])
            }
        }
    }
}
