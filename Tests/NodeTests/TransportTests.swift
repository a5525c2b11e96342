import CZeroMQ
import Foundation
import Glibc
import Merge
import TestSupport
import Testing

@testable import Node

/// Transports of one process, polled in turn on the test's own thread.
final class Mesh {
    var transports: [ZeroMQTransport] = []
    var received: [[IncomingFrame]] = []

    static func node(_ number: Int) throws -> NodeID { try #require(NodeID(number)) }

    static func settings(_ number: Int, keys: CurveKeys? = nil) throws -> ZeroMQTransport.Settings {
        let endpoint = try #require(MeshEndpoint("tcp://127.0.0.1:0"))
        var settings = ZeroMQTransport.Settings(
            node: try node(number), publish: endpoint, exchange: endpoint)
        settings.keys = keys
        return settings
    }

    static func peer(_ number: Int, _ transport: ZeroMQTransport, key: CurvePublicKey? = nil)
        throws -> MeshPeer
    {
        MeshPeer(
            node: try node(number),
            publish: try #require(MeshEndpoint(transport.publishEndpoint)),
            exchange: try #require(MeshEndpoint(transport.exchangeEndpoint)),
            publicKeys: key.map { [$0] } ?? [])
    }

    func add(_ settings: ZeroMQTransport.Settings) throws {
        transports.append(try ZeroMQTransport(settings))
        received.append([])
    }

    /// Polls all until the condition holds, calling `again` between; false after a minute.
    func wait(until holds: (Mesh) -> Bool, again: (Mesh) throws -> Void = { _ in }) throws -> Bool {
        let deadline = ContinuousClock.now + .seconds(60)
        while !holds(self) {
            guard ContinuousClock.now < deadline else { return false }
            try again(self)
            for index in transports.indices {
                received[index] += try transports[index].poll(timeoutMilliseconds: 2)
            }
        }
        return true
    }

    /// Sends from node to node until something has come; false after a minute.
    func carries(_ bytes: [UInt8] = [7], from sender: Int = 1, to receiver: Int) throws -> Bool {
        try wait(until: { !$0.received[receiver - 1].isEmpty }) {
            try $0.transports[sender - 1].send(bytes, to: Self.node(receiver))
        }
    }

    static func keys(_ count: Int) throws -> [CurveKeys] {
        try (0..<count).map { _ in try CurveKeys.generate() }
    }

    /// A dealer that has keys of its own, says that it is another node's, and has sent something to
    /// the first node.
    func impostor(as number: Int, _ keys: CurveKeys, to server: CurveKeys) throws -> ZeroMQSocket {
        let socket = try ZeroMQSocket(.dealer, in: ZeroMQContext())
        try Gatekeeper.introduceClient(socket, keys, to: server.publicKey)
        try socket.set(ZMQ_ROUTING_ID, text: "node-\(number)-0123456789abcdef")
        try socket.connect(transports[0].exchangeEndpoint)
        _ = try socket.send([66])
        return socket
    }

    /// A mesh of nodes 1...count that all know each other. Their ports are none that the system
    /// deals out by itself: who gives one up for a moment must get it again.
    static func joined(_ count: Int, keys: [CurveKeys] = []) throws -> Mesh {
        let mesh = Mesh()
        let ports = try Loopback.freePorts(2 * count)
        for number in 1...count {
            var settings = try settings(number, keys: keys.isEmpty ? nil : keys[number - 1])
            settings.publish = MeshEndpoint(
                address: HostAddress(host: "127.0.0.1", port: UInt16(ports[2 * number - 2])))
            settings.exchange = MeshEndpoint(
                address: HostAddress(host: "127.0.0.1", port: UInt16(ports[2 * number - 1])))
            try mesh.add(settings)
        }
        for own in 1...count {
            for other in 1...count where other != own {
                try mesh.transports[own - 1].connect(
                    to: peer(
                        other, mesh.transports[other - 1],
                        key: keys.isEmpty ? nil : keys[other - 1].publicKey))
            }
        }
        return mesh
    }
}

/// The suites that poll sockets on the test's own thread, one after the other: each keeps a thread
/// busy that other tests wait for.
@Suite("The mesh's sockets", .serialized) enum MeshSuites {}

extension MeshSuites {
    @Suite("Transport") struct TransportTests {
        @Test("A published frame reaches every peer, named by its sender")
        func publishing() throws {
            let mesh = try Mesh.joined(3)
            let arrived = try mesh.wait { mesh in
                (1...2).allSatisfy { !mesh.received[$0].isEmpty }
            } again: {
                try $0.transports[0].publish([1, 2, 3])
            }
            #expect(arrived)
            for index in 1...2 {
                let frame = try #require(mesh.received[index].first)
                #expect(frame.bytes == [1, 2, 3])
                #expect(frame.sender == NodeID(1))
                #expect(frame.channel == .publish)
            }
            #expect(mesh.received[0].isEmpty)
        }

        @Test("A question reaches one peer, and its answer comes back to who asked")
        func exchanging() throws {
            let mesh = try Mesh.joined(3)
            #expect(try mesh.carries(to: 2))
            let question = try #require(mesh.received[1].first)
            #expect(question.sender == NodeID(1))
            #expect(question.channel == .exchange)
            let route = try #require(question.route)
            #expect(try mesh.transports[1].reply([8], along: route) == .sent)
            #expect(try mesh.transports[1].reply([], to: Mesh.node(1)) == .sent)
            #expect(try mesh.wait { $0.received[0].count >= 2 })
            #expect(mesh.received[0].map(\.bytes) == [[8], []])
            #expect(mesh.received[0].map(\.sender) == [NodeID(2), NodeID(2)])
            #expect(mesh.received[2].isEmpty)
            #expect(try mesh.transports[1].reply([9], to: Mesh.node(3)) == .unreachable)
            #expect(try mesh.transports[1].send([9], to: Mesh.node(4)) == .unreachable)
        }

        @Test("A peer that went away and came back at its address is found again")
        func reconnecting() throws {
            let mesh = try Mesh.joined(2)
            #expect(try mesh.carries(to: 2))
            var settings = try Mesh.settings(2)
            settings.publish = try #require(MeshEndpoint(mesh.transports[1].publishEndpoint))
            settings.exchange = try #require(MeshEndpoint(mesh.transports[1].exchangeEndpoint))
            mesh.transports.removeLast()
            mesh.received[1] = []
            mesh.transports.append(try Self.rebound(settings))
            #expect(try mesh.carries(to: 2))
        }

        private static func rebound(_ settings: ZeroMQTransport.Settings) throws -> ZeroMQTransport
        {
            for _ in 0..<1000 {
                if let transport = try? ZeroMQTransport(settings) { return transport }
                usleep(20_000)
            }
            return try ZeroMQTransport(settings)
        }

        @Test("A frame over the limit is refused by its sender, and by its receiver")
        func oversized() throws {
            let mesh = Mesh()
            var small = try Mesh.settings(2)
            small.limits.frameBytes = 4096
            try mesh.add(Mesh.settings(1))
            try mesh.add(small)
            try mesh.transports[0].connect(to: Mesh.peer(2, mesh.transports[1]))
            #expect(throws: NodeError.self) {
                try mesh.transports[1].publish([UInt8](repeating: 0, count: 4097))
            }
            let large = [UInt8](repeating: 1, count: 8192)
            var sent = 0
            #expect(
                try mesh.wait { _ in
                    sent >= 3
                } again: {
                    if try $0.transports[0].send(large, to: Mesh.node(2)) == .sent { sent += 1 }
                })
            #expect(
                try mesh.wait {
                    $0.received[1].contains { $0.bytes == [5] }
                } again: {
                    try $0.transports[0].send([5], to: Mesh.node(2))
                })
            #expect(mesh.received[1].allSatisfy { $0.bytes == [5] })
        }

        @Test(
            "What a node is called at one peer nobody else knows, for by that name it is answered")
        func names() throws {
            let mesh = try Mesh.joined(3)
            let first = try Mesh.node(1)
            let routes = { (mesh: Mesh) in
                mesh.transports[1...2].map { $0.routes.route(to: first)?.identity }
            }
            #expect(
                try mesh.wait {
                    !routes($0).contains(nil)
                } again: {
                    for other in 2...3 { try $0.transports[0].send([7], to: Mesh.node(other)) }
                })
            let names = routes(mesh)
            #expect(names[0] != names[1])
            // A link that is made again is the same one to its router.
            let peer = try Mesh.peer(2, mesh.transports[1])
            try mesh.transports[0].update(MeshChange(keys: nil, peers: [peer]))
            mesh.received[1] = []
            #expect(try mesh.carries(to: 2))
            #expect(routes(mesh)[0] == names[0])
        }

        @Test("Garbage on the ports, and messages of the wrong shape, harm nobody")
        func garbage() throws {
            let mesh = try Mesh.joined(2)
            var generator = SystemRandomNumberGenerator()
            var greeting: [UInt8] = [0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F, 3, 0]
            greeting += Array("NULL".utf8) + [UInt8](repeating: 0, count: 48)
            var sockets: [Int32] = []
            defer { sockets.forEach { close($0) } }
            for endpoint in [
                mesh.transports[1].publishEndpoint, mesh.transports[1].exchangeEndpoint,
            ] {
                let port = try #require(MeshEndpoint(endpoint)).address.port
                for start in [[], greeting] {
                    let noise = (0..<5000).map { _ in UInt8.random(in: 0...255, using: &generator) }
                    sockets.append(try Self.connect(to: port, sending: start + noise))
                }
            }
            // Noise without a greeting counts as the first version of the protocol, and so as frames of
            // nobody; how many is chance. Then well-formed ZeroMQ, but more parts than one, and a name that is no node's.
            let context = try ZeroMQContext()
            let odd = try ZeroMQSocket(.dealer, in: context)
            try odd.connect(mesh.transports[1].exchangeEndpoint)
            for part in 0..<3 { _ = try odd.send([UInt8(part)], more: part < 2) }
            _ = try odd.send([1])
            #expect(
                try mesh.wait {
                    !$0.received[1].isEmpty && $0.transports[1].statistics.framesRefused >= 2
                } again: {
                    try $0.transports[0].send([5], to: Mesh.node(2))
                })
            #expect(mesh.received[1].allSatisfy { $0.bytes == [5] && $0.sender == NodeID(1) })
        }

        private static func connect(to port: UInt16, sending bytes: [UInt8]) throws -> Int32 {
            let descriptor = try Loopback.connect(to: Int(port))
            _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
            return descriptor
        }

        @Test("Another thread's ring ends a poll that would last for ever")
        func waking() throws {
            let mesh = try Mesh.joined(1)
            let bell = mesh.transports[0].wakeup
            for _ in 0..<200 {
                let ringer = Thread {
                    bell.wake()
                    bell.wake()
                }
                ringer.start()
                #expect(try mesh.transports[0].poll(timeoutMilliseconds: -1).isEmpty)
            }
        }

        @Test("Without keys only loopback is bound, unless insecurity was asked for")
        func loopbackOnly() throws {
            var settings = try Mesh.settings(1)
            settings.exchange = try #require(MeshEndpoint("tcp://0.0.0.0:0"))
            #expect { try ZeroMQTransport(settings) } throws: {
                let error = $0 as? NodeError
                return error?.code == .notSecured && error?.detail("key") == "mesh.exchange"
            }
            settings.isInsecure = true
            #expect(throws: Never.self) { try ZeroMQTransport(settings) }
        }

        @Test("An address in use is refused with its setting's name")
        func occupied() throws {
            let mesh = try Mesh.joined(1)
            var settings = try Mesh.settings(2)
            settings.exchange = try #require(MeshEndpoint(mesh.transports[0].exchangeEndpoint))
            #expect { try ZeroMQTransport(settings) } throws: {
                let error = $0 as? NodeError
                return error?.code == .addressUnavailable && error?.detail("key") == "mesh.exchange"
            }
        }
    }
}

extension MeshSuites {
    @Suite("Keys of the mesh") struct CurveTests {
        @Test("Listed keys come in, and the self-test finds strangers refused")
        func listed() throws {
            let mesh = try Mesh.joined(2, keys: [.generate(), .generate()])
            try mesh.transports[0].testThatStrangersAreRefused(timeout: .seconds(60))
            #expect(mesh.transports[0].statistics.handshakesRefused >= 2)
            #expect(
                try mesh.wait { mesh in
                    mesh.received[1].contains { $0.channel == .publish }
                        && mesh.received[1].contains { $0.channel == .exchange }
                        && mesh.transports[1].statistics.handshakesAdmitted >= 2
                } again: {
                    try $0.transports[0].publish([1])
                    try $0.transports[0].send([2], to: Mesh.node(2))
                })
        }

        @Test("A random key and no key get nothing in and nothing out")
        func strangers() throws {
            let keys = try CurveKeys.generate()
            let mesh = try Mesh.joined(2, keys: [.generate(), keys])
            let context = try ZeroMQContext()
            var strangers: [ZeroMQSocket] = []
            for own in [try CurveKeys.generate(), nil] {
                let dealer = try ZeroMQSocket(.dealer, in: context)
                let subscriber = try ZeroMQSocket(.subscriber, in: context)
                for socket in [dealer, subscriber] {
                    guard let own else { continue }
                    try Gatekeeper.introduceClient(socket, own, to: keys.publicKey)
                }
                try dealer.set(5, text: "node-1-0123456789abcdef")
                try subscriber.set(6, text: "")
                try dealer.connect(mesh.transports[1].exchangeEndpoint)
                try subscriber.connect(mesh.transports[1].publishEndpoint)
                _ = try dealer.send([66])
                strangers += [dealer, subscriber]
            }
            var rounds = 0
            #expect(
                try mesh.wait { mesh in
                    rounds > 200 && mesh.transports[1].statistics.handshakesRefused >= 2
                        && mesh.received[0].contains { $0.channel == .publish }
                } again: {
                    rounds += 1
                    try $0.transports[1].publish([1])
                })
            #expect(mesh.received[1].allSatisfy { $0.bytes != [66] })
            for stranger in strangers { #expect(try stranger.receive() == nil) }
        }

        @Test("A listed node that claims another's number is not believed")
        func impostor() throws {
            let keys = try Mesh.keys(3)
            let mesh = try Mesh.joined(3, keys: keys)
            let impostor = try mesh.impostor(as: 2, keys[2], to: keys[0])
            defer { withExtendedLifetime(impostor) {} }
            #expect(try mesh.wait { $0.transports[0].statistics.framesRefused == 1 })
            #expect(mesh.received[0].isEmpty)
        }

        @Test("A peer without a key cannot be added to a mesh with keys")
        func keyless() throws {
            let mesh = try Mesh.joined(1, keys: [.generate()])
            let peer = try Mesh.peer(2, mesh.transports[0])
            #expect(throws: NodeError.self) { try mesh.transports[0].connect(to: peer) }
        }

        @Test("A secret is written once with the mode 0600, and read back as the same pair")
        func files() throws {
            let file = FileManager.default.temporaryDirectory
                .appendingPathComponent("keys-\(UUID().uuidString).secret").path
            defer { try? FileManager.default.removeItem(atPath: file) }
            let keys = try CurveKeys.generate()
            try keys.write(secretFile: file)
            #expect(throws: NodeError.self) { try keys.write(secretFile: file) }
            #expect(try CurveKeys.read(secretFile: file).publicKey == keys.publicKey)
            #expect(!"\(keys)".contains(keys.secret))
            #expect(chmod(file, 0o640) == 0)
            #expect(throws: NodeError.self) { try CurveKeys.read(secretFile: file) }
            #expect(CurvePublicKey(String(repeating: "~", count: 40)) == nil)
            #expect(CurvePublicKey("short") == nil)
        }
    }
}
