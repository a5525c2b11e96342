import Coordinator
import Foundation
import Merge
import Replication
import TestSupport
import Testing

@testable import NodeCore

/// A core over a store of its own, and the folder that goes with it.
private final class CoreBench {
    let folder: URL
    let coordinator: PersistentStoreCoordinator
    var core: NodeCore
    let peer: NodeID

    init(_ change: (inout NodeCore.Settings) -> Void = { _ in }) throws {
        folder = StoreFolders.parent.appendingPathComponent("node-core-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let model = try ManagedObjectModel(entities: [
            EntityDescription("Note", attributes: [AttributeDescription("text", .string)])
        ])
        coordinator = try PersistentStoreCoordinator(
            storeAt: folder.appendingPathComponent("store.sqlite").path, model: model,
            cluster: "test", node: try #require(NodeID(1)))
        peer = try #require(NodeID(2))
        var settings = NodeCore.Settings()
        change(&settings)
        core = try NodeCore(
            NodeStore(coordinator) { 0 }, settings: settings,
            generator: SeededGenerator(seed: 1))
        _ = core.handle(.started(peers: [peer], wallMilliseconds: 1_000_000), now: 0)
    }

    deinit {
        coordinator.close()
        try? FileManager.default.removeItem(at: folder)
    }

    /// The jobs that a tick asks for.
    func tick(_ now: UInt64) -> [StoreJob] {
        core.handle(.tick(wallMilliseconds: 1_000_000 + now, awaited: []), now: now)
            .compactMap { if case .perform(let job, _) = $0 { job } else { nil } }
    }

    func answer(_ job: StoreJob, _ result: Result<StoreOutcome, any Error>, _ now: UInt64)
        -> [NodeAction]
    {
        core.handle(.answered(job, result), now: now)
    }

    func receive(_ message: Message, _ now: UInt64) -> [NodeAction] {
        let frame = Envelope(cluster: "test", sender: peer, message: message).encoded()
        return core.handle(.frame(frame, from: peer, over: .exchange, isQuestion: true), now: now)
    }

    /// A vector of so many saves of this node.
    func vector(_ sequence: UInt64) -> VersionVector {
        var vector = VersionVector()
        if sequence > 0 { vector.advance(core.actor, to: sequence) }
        return vector
    }
}

private struct Failed: Error {}

@Suite("A node's shell decides by itself")
struct NodeCoreTests {
    private static func isDurability(_ job: StoreJob) -> Bool {
        if case .makeDurable = job { true } else { false }
    }

    private static func isUpkeep(_ job: StoreJob) -> Bool {
        if case .maintain = job { true } else { false }
    }

    @Test("What was applied is made durable each second, and soon where a peer asks")
    func durability() throws {
        let bench = try CoreBench()
        let applied = StoreState(
            vector: bench.vector(1), durable: VersionVector(), digest: ProjectionDigest())
        _ = bench.answer(.apply([]), .success(.applied(applied, rejected: [])), 0)
        #expect(bench.tick(50).contains(where: Self.isDurability))
        // One that is under way is not begun again.
        #expect(!bench.tick(1_200).contains(where: Self.isDurability))
        _ = bench.answer(.makeDurable, .failure(Failed()), 1_200)
        #expect(bench.tick(1_250).contains(where: Self.isDurability))
        _ = bench.answer(.makeDurable, .failure(Failed()), 1_260)
        #expect(!bench.tick(1_300).contains(where: Self.isDurability))
        _ = bench.core.handle(
            .frame([], from: bench.peer, over: .exchange, isQuestion: true), now: 1_310)
        #expect(bench.tick(1_350).contains(where: Self.isDurability))
        _ = bench.answer(
            .makeDurable,
            .success(.durable(StoreState(vector: bench.vector(1), digest: ProjectionDigest()))),
            1_360)
        #expect(bench.core.state.durable == bench.vector(1))
        #expect(!bench.tick(9_000).contains(where: Self.isDurability))
    }

    @Test("A failed collection is tried again after ten seconds, though nothing more is stable")
    func collection() throws {
        let bench = try CoreBench()
        bench.core.isCollected = false
        func isBegun(_ now: UInt64) -> Bool {
            bench.tick(now).contains { if case .collect = $0 { true } else { false } }
        }
        #expect(isBegun(50))
        let job = StoreJob.collect(stable: VersionVector(), limit: 1_000)
        _ = bench.answer(job, .failure(Failed()), 60)
        #expect(!isBegun(10_000))
        #expect(isBegun(10_060))
        var result = CollectionResult()
        result.isDone = true
        _ = bench.answer(job, .success(.collected(result)), 10_100)
        #expect(!isBegun(30_000))
    }

    @Test("Saves that the store could not keep wait, and are given again after ten seconds")
    func orphans() throws {
        let orphan = EncodedTransaction(
            Transaction(
                dot: Dot(
                    actor: ActorID(node: try #require(NodeID(7)), incarnation: 1), sequence: 2),
                timestamp: .zero, seen: VersionVector(), modelHash: [], shapes: [], changes: []))
        let bench = try CoreBench { _ = $0.orphans.take([orphan]) }
        func isBegun(_ now: UInt64) -> Bool {
            bench.tick(now).contains { if case .keepOrphans = $0 { true } else { false } }
        }
        #expect(isBegun(50))
        _ = bench.answer(.keepOrphans([orphan]), .failure(Failed()), 60)
        #expect(bench.core.orphans.notKept == [orphan.dot])
        #expect(!isBegun(10_000))
        #expect(isBegun(10_060))
        _ = bench.answer(.keepOrphans([orphan]), .success(.orphansKept(OrphanKeeping())), 10_070)
        #expect(bench.core.orphans.notKept.isEmpty)
    }

    @Test("A peer that a frame did not reach is tried again, and only until one does")
    func unreached() throws {
        let bench = try CoreBench()
        func asks(_ now: UInt64) -> Bool {
            bench.core.handle(.tick(wallMilliseconds: 1_000_000 + now, awaited: []), now: now)
                .contains { if case .send(_, bench.peer) = $0 { true } else { false } }
        }
        _ = asks(50)
        bench.core.noteSending(to: bench.peer, isSent: false)
        _ = bench.core.settleSending(now: 60)
        #expect(asks(200))
        bench.core.noteSending(to: bench.peer, isSent: true)
        #expect(!asks(300))
    }

    @Test("A page of the log that has seen a save waits until that save was reported")
    func earlyPage() throws {
        let bench = try CoreBench()
        let told = Heads(
            actor: ActorID(node: bench.peer, incarnation: 5), vector: VersionVector(),
            durable: VersionVector(), digest: ProjectionDigest(), clock: .zero,
            wallMilliseconds: 1_000_000, modelHash: bench.coordinator.model.modelHash)
        _ = bench.receive(.hello(told), 10)
        let actions = bench.receive(.pull(Pull(id: 3, vector: VersionVector(), credit: 1_000)), 20)
        let reads = actions.compactMap { action -> StoreJob? in
            if case .perform(let job, _) = action, case .readLog = job { job } else { nil }
        }
        let read = try #require(reads.first)
        func replies(_ actions: [NodeAction]) -> Int {
            actions.count { if case .reply = $0 { true } else { false } }
        }
        let page = StoreOutcome.logPage([], reachedEnd: true, ownSequence: 1)
        #expect(replies(bench.answer(read, .success(page), 30)) == 0)
        let saved = StoreState(vector: bench.vector(1), digest: ProjectionDigest())
        #expect(replies(bench.core.handle(.committed([], saved), now: 40)) == 1)
    }

    @Test("A damaged log ends the run, another failure of a read is answered")
    func damagedLog() throws {
        let bench = try CoreBench()
        let job = StoreJob.readLog(id: 1, after: VersionVector(), byteLimit: 1)
        #expect(bench.answer(job, .failure(CoordinatorError(.inputOutput, "")), 10).isEmpty)
        let actions = bench.answer(job, .failure(CoordinatorError(.storeDamaged, "")), 10)
        guard case .end(.failed)? = actions.last else {
            Issue.record("It goes on.")
            return
        }
    }

    @Test("Another live process of this number ends a newcomer once it has heard of it")
    func double() throws {
        let bench = try CoreBench { $0.beganAt = 0 }
        bench.core.double.noteMeeting(now: 100)
        func isEnded(_ now: UInt64) -> Bool {
            bench.core.handle(.tick(wallMilliseconds: 1_000_000 + now, awaited: []), now: now)
                .contains { if case .end(.numberInUse) = $0 { true } else { false } }
        }
        #expect(!isEnded(1_000))
        #expect(isEnded(1_100))
    }

    @Test("A state that was reported late replaces no newer one")
    func lateState() throws {
        let bench = try CoreBench()
        let digest = ProjectionDigest(high: 2, low: 2)
        let newer = StoreState(vector: bench.vector(2), durable: bench.vector(1), digest: digest)
        let older = StoreState(vector: bench.vector(1), digest: ProjectionDigest())
        _ = bench.core.handle(.committed([], newer), now: 10)
        _ = bench.core.handle(.committed([], older), now: 10)
        #expect(bench.core.state.vector == bench.vector(2))
        #expect(bench.core.state.digest == digest)
    }

    @Test("Copies and what is left of them are looked after at the start, pins each second")
    func upkeep() throws {
        let bench = try CoreBench()
        #expect(bench.tick(50).contains(where: Self.isUpkeep))
        _ = bench.answer(.maintain, .success(.pinsExpired(0)), 60)
        #expect(!bench.tick(1_000).contains(where: Self.isUpkeep))
        #expect(bench.tick(1_050).contains(where: Self.isUpkeep))
    }
}
