import Client
import Coordinator
import Foundation
import Merge
import Node
import Synchronization
import TestSupport
import Testing

extension EndToEnd {
    @Suite("Several nodes that join at once")
    struct JoinersTests {}
}

extension EndToEnd.JoinersTests {
    /// One more than as many transactions as a newcomer would rather read than take a copy.
    private static let saves = 10_001
    /// The rows that are filled in, and those of the load, do not meet.
    private static let filling = "Earliest"

    /// Fills a store before its node runs: so many saves through HTTP would take a minute.
    private func fill(_ node: NodeHandle) throws {
        let model = try ManagedObjectModel(json: Array(TestModel.json.utf8))
        let entity = try #require(model.entity(named: Self.filling))
        let name = try #require(entity.position(of: "name"))
        let text = try #require(entity.position(of: "b"))
        // So that a copy has many parts, of one MiB each, and is more than a donor may hold in memory.
        let filler = String(repeating: "x", count: 1_500)
        let coordinator = try PersistentStoreCoordinator(
            storeAt: node.store.path, model: model, cluster: "test",
            node: try #require(NodeID(Int64(node.number))))
        defer { coordinator.close() }
        for start in stride(from: 0, to: Self.saves, by: 500) {
            let requests = (start..<min(start + 500, Self.saves)).map { number in
                SaveRequest(operations: [
                    SaveOperation(
                        kind: .insert, entity: entity, row: RowID(-1),
                        values: [(name, .string("row \(number)")), (text, .string(filler))])
                ])
            }
            for result in coordinator.saveTogether(requests) { _ = try result.get() }
        }
    }

    /// Makes a node a member, beside others: each answer waits for a majority that is not there yet.
    private func join(_ newcomer: NodeHandle, through node: NodeHandle) async throws {
        let client = try node.makeClient()
        _ = try await node.expect(
            "POST", "/v1/members",
            [
                "node": .integer(Int64(newcomer.number)),
                "publish": "tcp://127.0.0.1:\(newcomer.publishPort)",
                "exchange": "tcp://127.0.0.1:\(newcomer.exchangePort)",
            ], using: client)
        await client.close()
    }

    @Test("Four at once each get a copy, and the nodes that give them go on saving for all")
    func four() async throws {
        try await TestCluster.with(nodes: 6, founders: 2, starting: []) { cluster in
            let donors = [cluster.node(1), cluster.node(2)]
            let joiners = cluster.nodes.dropFirst(2)
            try fill(donors[0])
            for donor in donors { try await donor.start() }
            try await cluster.waitForConvergence(among: [1, 2])
            // Members before the first copy is made: one in which they are none is of no use to them.
            try await withThrowingTaskGroup(of: Void.self) { group in
                for joiner in joiners {
                    group.addTask { try await join(joiner, through: donors[0]) }
                }
                try await group.waitForAll()
            }
            let watch = CopyWatch(donors)
            let loads = try donors.map { try Load(on: $0, prefix: "n\($0.number)", clients: 1) }
            for load in loads { try await load.waitForAcknowledged(20) }
            let held = try donors.map { try $0.beginPeak() }
            let before = loads.map(\.outcome.acknowledged.count)

            try await withThrowingTaskGroup(of: Void.self) { group in
                for joiner in joiners { group.addTask { try await joiner.start() } }
                try await group.waitForAll()
            }
            try await eventually("all four had a copy", within: .seconds(180)) {
                for joiner in joiners {
                    do {
                        guard try await joiner.count(Self.filling) == Self.saves else {
                            return false
                        }
                    } catch let error as ClientError where error.isNoAnswer {
                        // It opens the copy.
                        return false
                    }
                }
                return true
            }
            // Clients were served while the copies were given, and still are.
            let counts = loads.map(\.outcome.acknowledged.count)
            let meanwhile = zip(counts, before).map { $0 - $1 }
            MachineAbilities.report(
                "while four took copies, the two donors saved \(meanwhile) times")
            #expect(meanwhile.allSatisfy { $0 >= 20 })
            for (load, count) in zip(loads, counts) {
                try await load.waitForAcknowledged(count + 20)
            }
            var saved = 0
            for load in loads { saved += await load.stopWhole() }
            try await cluster.waitForConvergence(timeout: .seconds(120))
            for node in cluster.nodes {
                #expect(try await node.count(Self.filling) == Self.saves)
                #expect(try await node.count("Latest") == 3 * saved)
            }

            // Each took one copy and needed no second.
            for joiner in joiners {
                let taken = try await joiner.metric("tributary_transfers_installed_total")
                let failed = try await joiner.metric("tributary_transfers_failed_total")
                #expect(taken == 1 && failed == 0, "node \(joiner.number)")
            }
            // However many take one, a donor makes two copies at the most, and has a part of a MiB
            // for each of them in memory.
            let copies = await watch.stop()
            #expect(copies.values.contains { $0.atOnce > 0 }, "no copy was seen: \(copies)")
            let bound = 36 << 20
            let bytes = try #require(
                try donors[0].store.resourceValues(forKeys: [.fileSizeKey]).fileSize)
            #expect(bytes > bound, "a copy of \(megabytes(bytes)) could be in memory whole")
            for (donor, before) in zip(donors, held) {
                let seen = copies[donor.number] ?? CopyWatch.Seen()
                #expect(seen.atOnce <= 2 && seen.different.count <= 2, "\(seen)")
                let growth = try donor.peak() - before
                MachineAbilities.report("donor \(donor.number) grew by \(megabytes(growth))")
                #expect(growth < bound, "node \(donor.number) grew by \(megabytes(growth))")
            }
            for joiner in joiners { try await saveOnce(joiner, "node \(joiner.number)'s") }
            try await cluster.waitForConvergence()
            try await expectVerified(cluster)
        }
    }
}

/// Looks again and again which copies of their stores nodes have made for others.
private final class CopyWatch: Sendable {
    struct Seen: Sendable {
        /// The most copies that lay there at once.
        var atOnce = 0
        /// The copies, by the numbers of their files.
        var different = Set<UInt64>()
    }

    private let seen = Mutex<[Int: Seen]>([:])
    private let task: Mutex<Task<Void, Never>?>

    init(_ nodes: [NodeHandle]) {
        task = Mutex(nil)
        let watching = Task {
            while !Task.isCancelled {
                for node in nodes { self.look(at: node) }
                try? await Task.sleep(for: .milliseconds(5))
            }
        }
        task.withLock { $0 = watching }
    }

    private func look(at node: NodeHandle) {
        let files = ["-outgoing", "-outgoing-2"].compactMap { suffix -> UInt64? in
            var status = stat()
            guard stat(node.store.path + suffix, &status) == 0 else { return nil }
            return UInt64(status.st_ino)
        }
        guard !files.isEmpty else { return }
        seen.withLock { seen in
            var now = seen[node.number] ?? Seen()
            now.atOnce = max(now.atOnce, files.count)
            now.different.formUnion(files)
            seen[node.number] = now
        }
    }

    func stop() async -> [Int: Seen] {
        let watching = task.withLock { $0 }
        watching?.cancel()
        await watching?.value
        return seen.withLock { $0 }
    }
}
