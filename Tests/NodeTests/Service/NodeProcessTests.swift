import Client
import Coordinator
import Foundation
import Merge
import Synchronization
import TestSupport
import Testing

@testable import Node

@Suite("A node as a process")
final class NodeProcessTests {
    private let directory: URL
    private var configuration: NodeConfiguration

    init() throws {
        directory = try URL.makeTemporaryFolder()
        let model = directory.appendingPathComponent("model.json")
        try Data(
            #"{"entities": [{"name": "Note", "attributes": [{"name": "text", "type": "string"}]}]}"#
                .utf8
        ).write(to: model)
        configuration = NodeConfiguration(
            cluster: "demo", node: try #require(NodeID(1)),
            store: directory.appendingPathComponent("data/n1.sqlite").path, model: model.path)
        configuration.http.listen = HostAddress(host: "127.0.0.1", port: 0)
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    @Test("It says once where it listens, answers there, and leaves a store that opens again")
    func runs() async throws {
        var process = NodeProcess(configuration)
        let box = LineBox()
        process.announce = { box.add($0) }
        let running = Task { [process] in try await process.runUntilShutdown() }
        try await eventually("it listens") { !box.lines.isEmpty }
        let line = try #require(box.lines.first)
        #expect(line.hasPrefix("tributary: node 1 of demo listens on http://127.0.0.1:"))
        running.cancel()
        try await running.value
        #expect(box.lines.count == 1)
        let store = try PersistentStoreCoordinator(
            readingStoreAt: directory.appendingPathComponent("data/n1.sqlite").path)
        #expect(store.cluster == "demo")
    }

    @Test("What is wrong at the start has the exit code of the contract")
    func exitCodes() async throws {
        let good = configuration.model
        configuration.model = directory.appendingPathComponent("none.json").path
        #expect(await Self.exitCode(configuration) == 2)
        try Data("{\"entities\": 7}".utf8).write(to: URL(fileURLWithPath: configuration.model))
        #expect(await Self.exitCode(configuration) == 2)
        configuration.model = good

        let folder = directory.appendingPathComponent("data")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let held = try PersistentStoreCoordinator(
            storeAt: configuration.store, model: try NodeProcess.readModel(good), cluster: "demo",
            node: configuration.node)
        #expect(await Self.exitCode(configuration) == 6)
        held.close()
        #expect(NodeProcess.exitCode(of: CancellationError()) == 1)
        #expect(NodeProcess.exitCode(of: CoordinatorError(.storeDamaged, "")) == 5)
        #expect(NodeProcess.exitCode(of: CoordinatorError(.modelMismatch, "")) == 8)
        #expect(NodeProcess.exitCode(of: CoordinatorError(.diskFull, "")) == 9)
        #expect(NodeProcess.exitCode(of: NodeError(.nodeIDInUse, "")) == 12)
    }

    @Test("A store that lies beside no file of its own is refused before anything is made there")
    func impossibleStores() async throws {
        let device = directory.appendingPathComponent("device.sqlite").path
        try FileManager.default.createSymbolicLink(atPath: device, withDestinationPath: "/dev/null")
        configuration.store = device
        var error = await Self.failure(of: configuration)
        #expect(error?.code == .configurationInvalid)
        #expect(error?.message == "store: \(device) is no regular file")
        let files = try FileManager.default.contentsOfDirectory(atPath: directory.path)
        #expect(files.sorted() == ["device.sqlite", "model.json"])
        configuration.store = configuration.model + "/n1.sqlite"
        error = await Self.failure(of: configuration)
        #expect(error?.code == .configurationInvalid)
        let folder = configuration.model
        #expect(error?.message == "store: \(folder)/ is no folder")
        configuration.store = folder + "/data/n1.sqlite"
        error = await Self.failure(of: configuration)
        #expect(error?.message == "store: \(folder)/data/ is no folder")
    }

    private static func failure(of configuration: NodeConfiguration) async -> NodeError? {
        do {
            try await NodeProcess(configuration).runUntilShutdown()
            return nil
        } catch { return error as? NodeError }
    }

    /// An open store, and what receives the copy of another one for it.
    private func transfer() throws -> (
        own: PersistentStoreCoordinator, incoming: IncomingTransfer, receive: () throws -> UInt64
    ) {
        configuration.store = directory.appendingPathComponent("n1.sqlite").path
        let model = try NodeProcess.readModel(configuration.model)
        let donor = try PersistentStoreCoordinator(
            storeAt: directory.appendingPathComponent("donor.sqlite").path, model: model,
            cluster: "demo", node: try #require(NodeID(2)))
        let own = try PersistentStoreCoordinator(
            storeAt: configuration.store, model: model, cluster: "demo", node: configuration.node)
        let incoming = IncomingTransfer(for: own)
        return (
            own, incoming,
            {
                let part = try OutgoingTransfer(donor) { 0 }.read(
                    0, from: 0, byteLimit: 1 << 20, for: own.node)
                return try incoming.write(part.bytes, of: part.offer, at: 0)
            }
        )
    }

    @Test("A copy waits for a store in use, and one that cannot be installed goes and is counted")
    func installing() async throws {
        let (own, incoming, receive) = try transfer()
        let run = try NodeRun(configuration)
        let process = NodeProcess(configuration)
        let total = try receive()

        let refusal = await #expect(throws: CoordinatorError.self) {
            _ = try await process.installTransfer(for: run)
        }
        #expect(refusal?.code == .storeInUse)
        #expect(incoming.begun()?.offset == total)
        #expect(run.counters.values.alarms == 0)

        own.close()
        var other = run
        other.configuration.cluster = "other"
        #expect(try await !process.installTransfer(for: other))
        #expect(incoming.begun() == nil)
        #expect(run.counters.values.alarms == 1)
        #expect(run.counters.values.transfersFailed == 1)

        _ = try receive()
        #expect(try await process.installTransfer(for: run))
        #expect(incoming.begun() == nil)
        #expect(run.counters.values.alarms == 1)
        #expect(run.counters.values.transfersInstalled == 1)
    }

    @Test("A copy waits while a program reads the store's file, and the node goes on without it")
    func readMeanwhile() async throws {
        let (own, incoming, receive) = try transfer()
        let total = try receive()
        let run = try NodeRun(configuration)
        let process = NodeProcess(configuration)
        // As `tributary sql --store` does.
        let reader = try PersistentStoreCoordinator(readingStoreAt: configuration.store)
        let (begun, done) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        async let reading: Void = onOwnThread {
            try reader.read {
                _ = try $0.token
                begun.signal()
                done.wait()
            }
        }
        defer { done.signal() }
        try await onOwnThread { begun.wait() }
        own.close()
        #expect(try await !process.installTransfer(for: run))
        #expect(incoming.begun()?.offset == total)
        #expect(run.counters.values.transfersFailed == 1 && run.counters.values.alarms == 1)
        done.signal()
        try await reading
        reader.close()
        #expect(try await process.installTransfer(for: run))
    }

    @Test("A node that takes a copy over goes on with what was reloaded, and with its model")
    func goesOn() async throws {
        let cluster = try TestCluster(2)
        let link = Link()
        link.isCut = true
        let donor = try await cluster.start(1, link: link)
        try await donor.insertNotes(3)
        let reached = try donor.coordinator.currentToken
        _ = try await donor.coordinator.purgeHistory(before: reached, stable: reached.versionVector)

        let own = cluster.peers[1]
        func token(_ name: String) throws -> (NodeConfiguration.TokenFile, String) {
            let file = cluster.directory.appendingPathComponent(name).path
            try HTTPToken.writeNew(to: file)
            let secret = try String(contentsOfFile: file, encoding: .utf8)
            return (
                .init(file: file, scope: .admin, name: name),
                secret.trimmingCharacters(in: .newlines)
            )
        }
        let (old, oldSecret) = try token("old")
        let (new, newSecret) = try token("new")
        let model = cluster.directory.appendingPathComponent("model.json")
        try Data(JSONWriter.bytes(of: TestCluster.model().jsonValue())).write(to: model)
        var configuration = NodeConfiguration(
            cluster: "test", node: own.node,
            store: cluster.directory.appendingPathComponent("2.sqlite").path, model: model.path)
        configuration.http.listen = HostAddress(host: "127.0.0.1", port: 0)
        configuration.http.tokens = [old]
        configuration.mesh = .init(publish: own.publish, exchange: own.exchange)
        configuration.mesh?.peers = [cluster.peers[0]]
        var reloaded = configuration
        reloaded.http.tokens = [new]
        let (box, lines) = (LineBox(), LogLines())
        var process = NodeProcess(configuration)
        process.announce = { box.add($0) }
        process.logger = lines.logger
        process.reread = { [reloaded] in reloaded }
        let running = Task { [process] in try await process.runUntilShutdown() }
        @discardableResult
        func ask(
            _ method: String, _ path: String, _ secret: String, contains text: String = ""
        ) async throws -> Int {
            let url = try #require(box.lines.last?.split(separator: " ").last)
            let client = try NodeClient(url: String(url), token: secret)
            let response = try await client.request(method, path)
            await client.close()
            #expect(text.isEmpty || String(decoding: response.body, as: UTF8.self).contains(text))
            return response.status
        }
        try await eventually("it listens") { box.lines.count == 1 }
        #expect(try await ask("POST", "/v1/reload", oldSecret) == 200)
        // What is put there from now on is for the next start.
        try Data("{}".utf8).write(to: model)
        try FileManager.default.removeItem(atPath: new.file)
        link.isCut = false
        try await eventually("it goes on with a copy") { box.lines.count == 2 }
        #expect(try await ask("GET", "/v1/status", newSecret) == 200)
        #expect(try await ask("GET", "/v1/status", oldSecret) == 401)
        // Counted from run to run, and nothing that anybody should look at.
        try await ask(
            "GET", "/metrics", newSecret, contains: "\ntributary_transfers_installed_total 1\n")
        #expect(!lines.all.contains { $0.hasPrefix("critical") })
        running.cancel()
        try await running.value
        await donor.stop()
        let store = try PersistentStoreCoordinator(readingStoreAt: configuration.store)
        #expect(try store.currentToken.versionVector.covers(reached.versionVector))
    }

    @Test("A peer that a reload took out is a member and cut off in later runs as well")
    func withdrawn() throws {
        let mesh = try TestCluster(3)
        configuration.mesh = .init(publish: mesh.peers[0].publish, exchange: mesh.peers[0].exchange)
        configuration.mesh?.peers = Array(mesh.peers[1...])
        var run = try NodeRun(configuration)
        #expect(run.withdrawn.isEmpty)
        run.configuration.mesh?.peers.removeLast()
        run.configuration.mesh?.peers[0].publish = mesh.peers[0].publish
        #expect(run.peers.map(\.node) == mesh.peers[1...].map(\.node))
        #expect(run.peers[0].publish == mesh.peers[0].publish)
        #expect(run.withdrawn == [mesh.peers[2].node])
        let plan = MeshPlan(
            node: configuration.node, configured: run.peers, withdrawn: run.withdrawn)
        #expect(plan.peers.map(\.node) == [mesh.peers[1].node])
        #expect(plan.withdrawn == run.withdrawn)
    }

    @Test("Failures in a row have the next copy asked for later and later, up to an hour")
    func pauses() {
        var pause: UInt64 = 0
        var minutes: [UInt64] = []
        for _ in 0..<8 {
            pause = NodeProcess.transferPause(after: pause, isInstalled: false)
            minutes.append(pause / 60_000)
        }
        #expect(minutes == [1, 2, 4, 8, 16, 32, 60, 60])
        #expect(NodeProcess.transferPause(after: pause, isInstalled: true) == 0)
    }

    private static func exitCode(_ configuration: NodeConfiguration) async -> Int32 {
        do {
            try await NodeProcess(configuration).runUntilShutdown()
            return 0
        } catch { return NodeProcess.exitCode(of: error) }
    }
}

/// Lines that a process has announced.
private final class LineBox: Sendable {
    private let state = Mutex<[String]>([])
    var lines: [String] { state.withLock { $0 } }
    func add(_ line: String) { state.withLock { $0.append(line) } }
}
