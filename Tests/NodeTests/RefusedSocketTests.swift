import Foundation
import Merge
import TestSupport
import Testing

@testable import Node

extension MeshSuites {
    @Suite("Sockets that cannot be made, and addresses that are refused")
    struct RefusedSocketTests {
        /// A transport that soon makes its links again, and that may have a few sockets only.
        private static func mesh() throws -> Mesh {
            var settings = try Mesh.settings(1)
            settings.limits.sockets = 34
            settings.limits.renewalMilliseconds = 300
            let mesh = Mesh()
            try mesh.add(settings)
            return mesh
        }

        private static func endpoint(_ port: Int, host: String = "127.0.0.1") -> MeshEndpoint {
            MeshEndpoint(address: HostAddress(host: host, port: UInt16(port)))
        }

        private static func peer(_ number: Int, at ports: [Int]) throws -> MeshPeer {
            MeshPeer(
                node: try Mesh.node(number), publish: endpoint(ports[0]),
                exchange: endpoint(ports[1]))
        }

        /// A peer whose address the library refuses.
        private static func refused(_ number: Int) throws -> MeshPeer {
            MeshPeer(
                node: try Mesh.node(number), publish: endpoint(17, host: "_mesh.example"),
                exchange: endpoint(18, host: "-x"))
        }

        private static func failures(_ mesh: Mesh) -> [String?] {
            mesh.transports[0].keyReport.peers.map(\.failure)
        }

        @Test("A link that is lost while no socket can be made is made later")
        func usedUp() throws {
            let mesh = try Self.mesh()
            let ports = try Loopback.freePorts(2)
            try mesh.transports[0].connect(to: Self.peer(2, at: ports))
            #expect(Self.failures(mesh) == [nil])
            var held: [ZeroMQSocket] = []
            #expect(
                try mesh.wait {
                    Self.failures($0).contains { $0 != nil }
                } again: {
                    while let socket = try? ZeroMQSocket(.pair, in: $0.transports[0].context) {
                        held.append(socket)
                    }
                })
            // Which socket of the link was the first to lack a place depends on how many the library
            // had taken back by then.
            let refusal = Self.failures(mesh).first ?? nil
            #expect(refusal?.contains("Too many open files") == true, "\(refusal ?? "none")")
            held = []
            var settings = try Mesh.settings(2)
            settings.publish = Self.endpoint(ports[0])
            settings.exchange = Self.endpoint(ports[1])
            try mesh.add(settings)
            #expect(try mesh.carries(to: 2))
            #expect(Self.failures(mesh) == [nil])
        }

        @Test("A node cut off while no socket can be made is cut off later")
        func owed() throws {
            var settings = try Mesh.settings(1, keys: .generate())
            settings.limits.sockets = 34
            let mesh = Mesh()
            try mesh.add(settings)
            let peer = MeshPeer(
                node: try Mesh.node(2), publish: Self.endpoint(17), exchange: Self.endpoint(18),
                publicKeys: [try CurveKeys.generate().publicKey])
            try mesh.transports[0].connect(to: peer)
            #expect(mesh.transports[0].keyReport.isListening)
            let context = mesh.transports[0].context
            var held: [ZeroMQSocket] = []
            while let socket = try? ZeroMQSocket(.pair, in: context) { held.append(socket) }
            try mesh.transports[0].disconnect(from: peer.node, hearing: [])
            #expect(mesh.transports[0].isEndingOwed)
            #expect(try mesh.transports[0].poll(timeoutMilliseconds: 0).isEmpty)
            #expect(!held.isEmpty && !mesh.transports[0].keyReport.isListening)
            held = []
            #expect(try mesh.wait { $0.transports[0].keyReport.isListening })
            #expect(!mesh.transports[0].isEndingOwed && mesh.transports[0].peers.isEmpty)
        }

        @Test("As many links as there are sockets for are all made again")
        func allAtOnce() throws {
            let mesh = try Self.mesh()
            let ports = try Loopback.freePorts(2)
            for number in 2...5 {
                try mesh.transports[0].connect(to: Self.peer(number, at: ports))
            }
            let transport = mesh.transports[0]
            let watched = transport.watched
            #expect(
                try mesh.wait { _ in
                    transport.watched >= 2 * watched
                        && transport.polled.flatMap(\.links).count == 4
                })
        }

        @Test("As many peers as a configuration may name have their sockets")
        func many() throws {
            DescriptorLimit.raise()
            let mesh = Mesh()
            try mesh.add(Mesh.settings(1))
            let ports = try Loopback.freePorts(2)
            for number in 2..<2 + NodeConfiguration.maximumPeers {
                try mesh.transports[0].connect(to: Self.peer(number, at: ports))
            }
            #expect(Self.failures(mesh) == Array(repeating: nil, count: 256))
            #expect(try mesh.transports[0].poll(timeoutMilliseconds: 0).isEmpty)
        }

        @Test("A change goes on with the others where the address of one is refused")
        func update() throws {
            let mesh = try Mesh.joined(2)
            let other = try Mesh.peer(2, mesh.transports[1])
            let wrong = try Self.refused(2)
            try mesh.transports[0].update(MeshChange(keys: nil, peers: [wrong]))
            #expect(Self.failures(mesh).first??.contains("connect to tcp://_mesh") == true)
            var third = other
            third.node = try Mesh.node(3)
            mesh.received[1] = []
            try mesh.transports[0].update(MeshChange(keys: nil, peers: [wrong, third]))
            #expect(
                try mesh.wait {
                    !$0.received[1].isEmpty
                } again: {
                    try $0.transports[0].send([7], to: Mesh.node(3))
                })
            #expect(Self.failures(mesh).count == 2 && Self.failures(mesh)[1] == nil)
            try mesh.transports[0].update(MeshChange(keys: nil, peers: [other]))
            #expect(Self.failures(mesh) == [nil])
        }

        @Test("What cannot be connected to is refused at the start, and keeps nobody else waiting")
        func connect() throws {
            let mesh = try Mesh.joined(2)
            #expect(throws: ZeroMQError.self) {
                try mesh.transports[0].connect(to: Self.refused(3))
            }
            #expect(try mesh.carries(to: 2))
        }
    }
}
