import Coordinator
import Foundation
import Logging
import Merge
import Synchronization
import TestSupport
import Testing

@testable import Node

@Suite("What a reload tells of the next start")
struct ReloadingTests {
    /// A node with one configured peer, which is not there, and what its file says.
    private final class Bench: Sendable {
        let service: NodeService
        let written: Written
        private let server: HTTPServer
        private let reloader: NodeReloader

        final class Written: Sendable {
            let configuration: Mutex<NodeConfiguration>
            init(_ configuration: NodeConfiguration) { self.configuration = Mutex(configuration) }
        }

        init(_ cluster: TestCluster) async throws {
            let own = cluster.peers[0]
            var configuration = NodeConfiguration(
                cluster: "test", node: own.node,
                store: cluster.directory.appendingPathComponent("1.sqlite").path,
                model: cluster.directory.appendingPathComponent("model.json").path)
            configuration.mesh = NodeConfiguration.Mesh(
                publish: own.publish, exchange: own.exchange)
            configuration.mesh?.peers = [cluster.peers[1]]
            try JSONWriter.text(of: TestCluster.model().jsonValue())
                .write(toFile: configuration.model, atomically: true, encoding: .utf8)
            let written = Written(configuration)
            self.written = written
            service = try await cluster.start(1)
            var options = HTTPServer.Options()
            options.listen = HostAddress(host: "127.0.0.1", port: 0)
            server = try await HTTPServer.start(backend: service, options: options)
            reloader = NodeReloader(
                configuration: configuration, secrets: try NodeSecrets(of: configuration),
                service: service, server: server,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            ) { written.configuration.withLock { $0 } }
        }

        func change(_ change: (inout NodeConfiguration) -> Void) {
            written.configuration.withLock { change(&$0) }
        }

        /// Waits until the new store takes saves.
        func waitForSaves() async throws {
            try await eventually("saves are let through") {
                try service.coordinator.savingRefusal == nil
            }
        }

        func reload() async throws -> ReloadReport { try await reloader.reload() }

        func hand(to hangups: Hangups) async { await hangups.hand(to: reloader) }

        func end() async { _ = await reloader.end() }

        func stop() async {
            await server.stop()
            await service.stop()
        }
    }

    @Test("What the model's file holds by now, and where others are to reach the node, is named")
    func modelAndAddress() async throws {
        let cluster = try TestCluster(2)
        let bench = try await Bench(cluster)
        #expect(try await bench.reload() == ReloadReport())
        let file = cluster.directory.appendingPathComponent("model.json").path
        let text = try String(contentsOfFile: file, encoding: .utf8)
        try text.replacing("\"number\"", with: "\"amount\"")
            .write(toFile: file, atomically: true, encoding: .utf8)
        #expect(try await bench.reload().atNextStart == ["model"])
        try "{".write(toFile: file, atomically: true, encoding: .utf8)
        let wrong = try await bench.reload().atNextStart
        #expect(wrong.count == 1 && wrong[0].hasPrefix("model: \(file)"), "\(wrong)")
        try text.write(toFile: file, atomically: true, encoding: .utf8)
        bench.change { $0.mesh?.advertisePublish = cluster.peers[1].publish }
        #expect(try await bench.reload().atNextStart == ["mesh.advertise"])
        bench.change { $0.mesh?.transferBytesPerSecond += 1 }
        #expect(
            try await bench.reload().atNextStart == [
                "mesh.advertise", "mesh.transferBytesPerSecond",
            ])
        await bench.stop()
    }

    @Test("A mesh neither begins nor ends by a reload")
    func withoutMesh() async throws {
        let cluster = try TestCluster(2)
        let bench = try await Bench(cluster)
        bench.change { $0.mesh = nil }
        let error = await #expect(throws: NodeError.self) { try await bench.reload() }
        #expect(error?.code == .configurationInvalid && error?.detail("key") == "mesh")
        bench.change {
            $0.mesh = NodeConfiguration.Mesh(
                publish: cluster.peers[0].publish, exchange: cluster.peers[0].exchange)
        }
        #expect(try await bench.reload().changed == ["node 2: cut off"])
        await bench.stop()
    }

    @Test("The next run takes a SIGHUP that comes while none listens")
    func betweenRuns() async throws {
        let cluster = try TestCluster(2)
        let bench = try await Bench(cluster)
        let hangups = Hangups()
        // What a reload comes to is seen by who is cut off in the file only until one was made.
        bench.change { $0.mesh?.peers = [] }
        await hangups.heed()
        #expect(await bench.service.status().peers.map(\.node) == [cluster.peers[1].node])
        await bench.hand(to: hangups)
        #expect(try await bench.reload().changed.isEmpty)
        bench.change { $0.mesh?.peers = [cluster.peers[1]] }
        await hangups.heed()
        #expect(try await bench.reload().changed.isEmpty)
        await bench.end()
        bench.change { $0.mesh?.peers = [] }
        await hangups.heed()
        let error = await #expect(throws: NodeError.self) { try await bench.reload() }
        #expect(error?.code == .stopped)
        await bench.stop()
    }

    @Test("A peer that is ignored for what it sent is listened to again after a reload")
    func quarantined() async throws {
        let cluster = try TestCluster(2)
        let bench = try await Bench(cluster)
        // In the peer's name something speaks that nobody understands.
        let anywhere = MeshEndpoint(address: HostAddress(host: "127.0.0.1", port: 0))
        let babbler = try ZeroMQTransport(
            .init(node: cluster.peers[1].node, publish: anywhere, exchange: anywhere))
        try babbler.connect(to: cluster.peers[0])
        try await eventually("it is ignored") {
            try babbler.send([0x9F], to: cluster.peers[0].node)
            _ = try babbler.poll(timeoutMilliseconds: 10)
            return await bench.service.status().peers.first?.quarantineMilliseconds != nil
        }
        let peers = await bench.service.status().peers
        let ignored = try #require(peers.first)
        #expect(ignored.node == cluster.peers[1].node)
        #expect((ignored.quarantineMilliseconds ?? .max) <= 60_000)
        #expect(ignored.refusal?.hasSuffix("or until a reload.") == true)
        // What it sent last has come by then.
        try await Task.sleep(for: .milliseconds(200))
        #expect(try await bench.reload().changed == ["node 2: listened to again"])
        try await eventually("it is listened to") {
            let peer = await bench.service.status().peers.first
            return peer?.quarantineMilliseconds == nil && peer?.refusal == nil
        }
        #expect(try await bench.reload() == ReloadReport())
        await bench.stop()
    }

    @Test("A peer taken out comes back with the next start where members are data, which is said")
    func withdrawn() async throws {
        let cluster = try TestCluster(2)
        let bench = try await Bench(cluster)
        bench.change { $0.mesh?.peers = [] }
        let first = try await bench.reload()
        #expect(first.changed == ["node 2: cut off"])
        #expect(first.atNextStart == ["node 2: a member no longer"])
        try await bench.waitForSaves()
        _ = try await bench.service.coordinator.changeMembership(
            cluster.peers.map {
                .join($0.node, MemberAddress(publish: "\($0.publish)", exchange: "\($0.exchange)"))
            })
        let second = try await bench.reload().atNextStart
        #expect(second.count == 1 && second[0].hasPrefix("node 2: connected again"), "\(second)")
        #expect(second.first?.contains("tributary member retire 2") == true)
        _ = try await bench.service.coordinator.changeMembership(
            [.depart(cluster.peers[1].node, isRetired: true)])
        #expect(try await bench.reload().atNextStart == [])
        await bench.stop()
    }

    @Test("A reload goes on where others tell of a member whose address nobody can connect to")
    func refusedAddress() async throws {
        let cluster = try TestCluster(2)
        let bench = try await Bench(cluster)
        var changes = cluster.peers.map {
            MembershipChange.join(
                $0.node, MemberAddress(publish: "\($0.publish)", exchange: "\($0.exchange)"))
        }
        changes.append(
            .join(
                try #require(NodeID(3)),
                MemberAddress(publish: "tcp://_mesh.example:17", exchange: "tcp://-x:18")))
        try await bench.waitForSaves()
        _ = try await bench.service.coordinator.changeMembership(changes)
        bench.change { $0.mesh?.peers = [] }
        #expect(try await bench.reload().changed == ["node 2: cut off"])
        try await eventually("it is cut off, and the node goes on", within: .seconds(30)) {
            let report = bench.service.shared.report.withLock { $0 }
            return !report.isRunning || !report.keys.peers.contains { $0.node.rawValue == 2 }
        }
        #expect(bench.service.isReady)
        await bench.stop()
    }
}
