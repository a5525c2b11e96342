import Coordinator
import Foundation
import Glibc
import Logging
import Merge
import NodeCore
import Replication
import Synchronization
import TestSupport
import Testing

@testable import Node

@Suite("A node joins its store to others", .serialized)
struct NodeServiceTests {
    // A client must not be saved twice if it repeats its save while a new store is made.
    @Test("A store made in another's place repeats no ID before it has heard of the others")
    func madeAnew() async throws {
        let cluster = try TestCluster(2)
        func request(_ saveID: String?) -> SaveRequest {
            SaveRequest(operations: [], saveID: saveID)
        }
        let first = try await cluster.start(1)
        _ = try await first.save(request("before"))
        await first.stop()
        for suffix in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(
                at: cluster.directory.appendingPathComponent("1.sqlite\(suffix)"))
        }
        let second = try await cluster.start(1)
        #expect(second.coordinator.mayLackSaveIDs)
        // While it waits, nobody hears that it was not saved.
        let coordinator = second.coordinator
        // On a thread of its own, because it waits two seconds only, whatever else has the tasks'
        // threads.
        async let isUnderWay = onOwnThread {
            for _ in 0..<60_000 {
                if coordinator.isSaveUnderWay("before") { return true }
                usleep(1_000)
            }
            return false
        }
        let error = await #expect(throws: CoordinatorError.self) {
            _ = try await second.save(request("before"))
        }
        #expect(error?.code == .recovering)
        #expect(try await isUnderWay)
        #expect(!coordinator.isSaveUnderWay("before"))
        _ = try await second.save(request(nil))
        let other = try await cluster.start(2)
        try await eventually("it has heard of the other") { !second.coordinator.mayLackSaveIDs }
        _ = try await second.save(request("before"))
        for node in [second, other] { await node.stop() }
    }

    @Test("What ends in a save is counted as one, and waits as one for the store to be vouched for")
    func savings() async throws {
        let cluster = try TestCluster(1)
        let node = try await cluster.start(1)
        let (saved, failed) = (node.counters.values.saves, node.counters.values.failedSaves)
        let tries = Mutex(0)
        _ = try await node.saving { coordinator in
            let count = tries.withLock {
                $0 += 1
                return $0
            }
            if count < 3 { throw CoordinatorError.recovering }
            return try await coordinator.save(SaveRequest(operations: []))
        }
        #expect(tries.withLock { $0 } == 3)
        #expect(node.counters.values.saves == saved + 1)
        await #expect(throws: CoordinatorError.self) {
            _ = try await node.saving { try await $0.undo(#require(ConflictID("Note.p17.body"))) }
        }
        #expect(node.counters.values.saves == saved + 1)
        #expect(node.counters.values.failedSaves == failed + 1)
        await node.stop()
    }

    @Test("A save that waits until the store is vouched for gives up, though others go through")
    func savingsMeanwhile() async throws {
        let cluster = try TestCluster(1)
        let node = try await cluster.start(1)
        let others = Task {
            while !Task.isCancelled {
                _ = try await node.save(SaveRequest(operations: []))
                try await Task.sleep(for: .milliseconds(50))
            }
        }
        let error = await #expect(throws: CoordinatorError.self) {
            _ = try await node.saving { _ in throw CoordinatorError.recovering }
        }
        #expect(error?.code == .recovering)
        others.cancel()
        _ = await others.result
        await node.stop()
    }

    @Test("Nobody waits for a node that joins a cluster of one: it may be started afterwards")
    func joined() async throws {
        let cluster = try TestCluster(1)
        var settings = NodeService.Settings()
        settings.address = MemberAddress(
            publish: "\(cluster.peers[0].publish)", exchange: "\(cluster.peers[0].exchange)")
        let node = try NodeService(coordinator: try await cluster.open(1), settings: settings)
        let services = HTTPServices(
            backend: node, maximumBodyBytes: 1 << 20, maximumAnswerBytes: 1 << 20,
            readTimeout: .seconds(60), readingThreads: 1)
        let body: JSONValue = [
            "node": .integer(2), "publish": .string("tcp://127.0.0.1:17"),
            "exchange": .string("tcp://127.0.0.1:18"),
        ]
        let answer = try await MembersResource(services: services).post(
            HTTPRequestParts(segments: [], query: [], body: JSONWriter.bytes(of: body)))
        guard case .whole(let bytes) = answer.body else {
            Issue.record("The answer is a stream.")
            return
        }
        let object = try JSONParser.parse(bytes).object
        #expect(object?["missing"] == .array([]))
        #expect(object?["members"]?.array?.count == 2)
        await services.stop()
    }

    @Test("That what was applied cannot be made durable is an alarm, once until it can")
    func notDurable() async throws {
        let cluster = try TestCluster(1)
        let node = try await cluster.start(1)
        let full = CoordinatorError(.diskFull, "The disk is full.")
        let state = try StoreState(of: node.coordinator)
        for failure in [full, full, nil, full] {
            node.shared.handover.give(
                .answered(
                    .makeDurable, failure.map { .failure($0) } ?? .success(.durable(state))))
        }
        try await eventually("the last failure is told") {
            node.counters.values.lastAlarms.first?.count == 2
        }
        let alarms = node.counters.values.lastAlarms
        #expect(alarms.map(\.name) == ["notDurable"])
        #expect(alarms.first?.text.contains("The disk is full.") == true)
        await node.stop()
    }

    @Test("That there is no room for connections is an alarm in log, status and metrics")
    func connectionsFull() async throws {
        let cluster = try TestCluster(1)
        let log = LogLines()
        let node = try await cluster.start(1, logger: log.logger)
        for note: ConnectionNote in [
            .open(4), .noRoom(maximum: 4), .ended(.room), .ended(.room), .ended(.header),
        ] { node.noteConnections(note) }
        let alarms = node.counters.values.lastAlarms
        #expect(alarms.map(\.name) == ["connectionsFull"] && alarms.first?.count == 1)
        #expect(log.all.contains { $0.contains("All connections of the HTTP interface") })
        let metrics = try await node.metricsText().split(separator: "\n")
        for line in [
            "tributary_http_connections 4",
            "tributary_http_connections_ended_total{reason=\"room\"} 2",
            "tributary_http_connections_ended_total{reason=\"header\"} 1",
            "tributary_http_connections_ended_total{reason=\"full\"} 0",
        ] { #expect(metrics.contains { $0 == line }, "\(line)") }
        await node.stop()
    }

    @Test("Three nodes that save at once come to hold the same")
    func threeConverge() async throws {
        let cluster = try TestCluster(3)
        var nodes: [NodeService] = []
        for number in 1...3 { nodes.append(try await cluster.start(number)) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for node in nodes {
                for task in 0..<5 {
                    group.addTask { try await node.insertNotes(20, text: "task \(task)") }
                }
            }
            try await group.waitForAll()
        }
        try await NodeService.converge(nodes, transactions: 300)
        for node in nodes {
            // They are counted when they are on disk, which may be after readers see them.
            try await eventually("what was applied is counted") {
                node.counters.values.applied >= 200
            }
            let counters = node.counters.values
            #expect(counters.saves == 100)
            #expect(counters.committed == 100)
            #expect(counters.applied == 200)
            #expect(counters.alarms == 0)
        }
        for node in nodes { await node.stop() }
    }

    @Test("A read keeps a store that is being closed open; who needs it closed waits for that")
    func longRead() async throws {
        let cluster = try TestCluster(1)
        let node = try await cluster.start(1)
        let coordinator = node.coordinator
        let isReading = Mutex(false)
        let isOver = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            try? coordinator.read { _ in
                isReading.withLock { $0 = true }
                isOver.wait()
            }
        }
        try await eventually("it reads") { isReading.withLock { $0 } }
        await node.stop()
        func open() throws {
            try PersistentStoreCoordinator(
                storeAt: coordinator.storePath, model: coordinator.model, cluster: "test",
                node: coordinator.node
            ).close()
        }
        let refusal = #expect(throws: CoordinatorError.self) { try open() }
        #expect(refusal?.code == .storeInUse)
        isOver.signal()
        await node.waitUntilClosed()
        try open()
    }

    @Test("A node that starts late catches up, by pages where there is much")
    func lateStarterCatchesUp() async throws {
        let cluster = try TestCluster(2)
        let first = try await cluster.start(1)
        try await first.insertNotes(30, text: String(repeating: "long ", count: 20_000))
        do {
            let second = try await cluster.start(2)
            try await NodeService.converge([first, second], transactions: 30)
            await second.stop()
        }
        try await first.insertNotes(5)
        let again = try await cluster.start(2)
        try await NodeService.converge([first, again], transactions: 35)
        await first.stop()
        await again.stop()
    }

    @Test("A save too long to be published reaches the others in pieces")
    func longSave() async throws {
        let cluster = try TestCluster(2)
        let nodes = [try await cluster.start(1), try await cluster.start(2)]
        try await nodes[0].insertNotes(1, text: String(repeating: "x", count: 3_000_000))
        try await NodeService.converge(nodes, transactions: 1)
        for node in nodes { await node.stop() }
    }

    @Test("Both sides of a partition go on, and hold the same once it heals")
    func partition() async throws {
        let cluster = try TestCluster(2)
        let link = Link()
        let nodes = [try await cluster.start(1), try await cluster.start(2, link: link)]
        try await nodes[0].insertNotes(1)
        try await NodeService.converge(nodes, transactions: 1)
        link.isCut = true
        for node in nodes { try await node.insertNotes(10) }
        let vectors = try nodes.map { try $0.coordinator.currentToken.versionVector }
        #expect(vectors[0] != vectors[1])
        link.isCut = false
        try await NodeService.converge(nodes, transactions: 21)
        for node in nodes { await node.stop() }
    }

    @Test("A node by itself saves and stops")
    func alone() async throws {
        let cluster = try TestCluster(1)
        let own = cluster.peers[0].node
        let coordinator = try PersistentStoreCoordinator(
            storeAt: cluster.directory.appendingPathComponent("alone.sqlite").path,
            model: TestCluster.model(), cluster: "test", node: own)
        let service = try NodeService(coordinator: coordinator)
        #expect(!service.isReady)
        try await service.start()
        try await eventually("the node is ready") { service.isReady }
        try await service.insertNotes(3)
        #expect(try await service.overview().token.versionVector[service.actor] == 3)
        await service.stop()
        #expect(!service.isReady)
        // A transaction that was heard of and can never be applied is reported as held.
        let orphan = Dot(actor: service.actor, sequence: 9)
        service.shared.report.withLock { $0.replicator?.orphaned = [orphan] }
        let held = await service.status().held
        #expect(held.map(\.transaction) == [orphan] && held[0].reason.contains("is lost with"))
        #expect(!held[0].reason.contains("is kept"))
        await service.waitUntilClosed()
        await #expect(throws: CoordinatorError.self) { try await service.insertNotes(1) }
    }

    @Test("Garbage at the ports harms nobody")
    func garbage() async throws {
        let cluster = try TestCluster(2)
        let nodes = [try await cluster.start(1), try await cluster.start(2)]
        var generator = SystemRandomNumberGenerator()
        for peer in cluster.peers {
            for endpoint in [peer.publish, peer.exchange] {
                try Self.throwGarbage(
                    (0..<4096).map { _ in UInt8.random(in: 0...255, using: &generator) },
                    at: endpoint.address.port)
            }
        }
        try await Self.throwFrames(at: cluster.peers[0])
        for node in nodes { try await node.insertNotes(5) }
        try await NodeService.converge(nodes, transactions: 10)
        for node in nodes { #expect(node.isReady) }
        for node in nodes { await node.stop() }
    }

    @Test("After stopping, the store can be opened again with all that was saved")
    func stopsCleanly() async throws {
        let cluster = try TestCluster(2)
        let digest: ProjectionDigest
        do {
            let nodes = [try await cluster.start(1), try await cluster.start(2)]
            try await nodes[0].insertNotes(10)
            try await NodeService.converge(nodes, transactions: 10)
            digest = try nodes[1].coordinator.read { try $0.digest }
            for node in nodes { await node.stop() }
            try await nodes[1].waitUntilEnded()
        }
        let again = try await cluster.open(2)
        #expect(try again.currentDigest == digest)
        again.close()
    }

    @Test("An address in use is refused at the start")
    func addressInUse() async throws {
        let cluster = try TestCluster(2)
        let first = try await cluster.start(1)
        let other = try TestCluster(2)
        let coordinator = try PersistentStoreCoordinator(
            storeAt: other.directory.appendingPathComponent("1.sqlite").path,
            model: TestCluster.model(), cluster: "test", node: other.peers[0].node)
        let taken = cluster.peers[0]
        let second = try NodeService(coordinator: coordinator) {
            try ZeroMQTransport(
                .init(node: taken.node, publish: taken.publish, exchange: taken.exchange))
        }
        let error = await #expect(throws: NodeError.self) { try await second.start() }
        #expect(error?.code == .addressUnavailable)
        await second.stop()
        await first.stop()
    }

    /// Whether a node stops, rather than wait for what never comes.
    private static func stops(_ service: NodeService) async -> Bool {
        let isStopped = Mutex(false)
        Task {
            await service.stop()
            isStopped.withLock { $0 = true }
        }
        return
            (try? await eventually("it stops", within: .seconds(30)) { isStopped.withLock { $0 } })
            != nil
    }

    @Test("A node that fails before its loop begins has ended, and stops")
    func failsEarly() async throws {
        let cluster = try TestCluster(1)
        let coordinator = try await cluster.open(1)
        let service = try NodeService(coordinator: coordinator)
        coordinator.close()
        await #expect(throws: CoordinatorError.self) { try await service.start() }
        #expect(await Self.stops(service))
        #expect(await Self.stops(service))
        await #expect(throws: CoordinatorError.self) { try await service.waitUntilEnded() }
        #expect(try await cluster.open(1).currentToken.position == 0)
    }

    @Test("A node that is stopped before its start is not started, and stops again")
    func stoppedEarly() async throws {
        let cluster = try TestCluster(1)
        let service = try NodeService(coordinator: try await cluster.open(1))
        #expect(await Self.stops(service))
        let error = await #expect(throws: NodeError.self) { try await service.start() }
        #expect(error?.code == .stopped)
        #expect(await Self.stops(service))
    }

    @Test("Each knows the digest that the other last told")
    func peerDigests() async throws {
        let cluster = try TestCluster(2)
        let nodes = [try await cluster.start(1), try await cluster.start(2)]
        try await nodes[0].insertNotes(3)
        try await NodeService.converge(nodes, transactions: 3)
        let state = try nodes[0].coordinator.read { (try $0.token.versionVector, try $0.digest) }
        for (node, peer) in [(nodes[0], nodes[1]), (nodes[1], nodes[0])] {
            try await eventually("the digest is told") {
                await node.peerDigests()
                    == [PeerDigest(node: peer.coordinator.node, vector: state.0, digest: state.1)]
            }
        }
        for node in nodes { await node.stop() }
    }

    /// Sends bytes to a port that expects ZeroMQ's greeting.
    private static func throwGarbage(_ bytes: [UInt8], at port: UInt16) throws {
        let descriptor = try Loopback.connect(to: Int(port))
        defer { close(descriptor) }
        _ = send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    /// Sends well-framed nonsense in the name of a node that is no member.
    private static func throwFrames(at peer: MeshPeer) async throws {
        let address = MeshEndpoint(address: HostAddress(host: "127.0.0.1", port: 0))
        let stranger = try ZeroMQTransport(
            .init(node: try #require(NodeID(99)), publish: address, exchange: address))
        try stranger.connect(to: peer)
        for length in [0, 1, 17, 4096] {
            let frame = [UInt8](repeating: 0x9F, count: length)
            for _ in 0..<100 {
                if try stranger.send(frame, to: peer.node) == .sent { break }
                _ = try stranger.poll(timeoutMilliseconds: 10)
            }
        }
    }
}
