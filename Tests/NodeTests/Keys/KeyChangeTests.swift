import CZeroMQ
import Client
import Foundation
import Merge
import Testing

@testable import Node

extension MeshSuites {
    @Suite("Keys that change while the mesh runs") struct KeyChangeTests {
        /// What nodes 1...count know of each other, but for the keys listed for some.
        private static func peers(
            of own: Int, in mesh: Mesh, _ keys: [Int: [CurvePublicKey]]
        ) throws -> [MeshPeer] {
            try keys.keys.sorted().filter { $0 != own }.map { number in
                var peer = try Mesh.peer(number, mesh.transports[number - 1])
                peer.publicKeys = keys[number] ?? []
                return peer
            }
        }

        private static func talk(_ mesh: Mesh) throws {
            for (index, transport) in mesh.transports.enumerated() {
                try transport.publish([UInt8(index + 1), 1])
                for other in mesh.transports.indices where other != index {
                    _ = try transport.send([UInt8(index + 1), 2], to: Mesh.node(other + 1))
                }
            }
        }

        /// Whether a node heard another on a channel.
        private static func heard(
            _ mesh: Mesh, _ hearer: Int, _ speaker: Int, _ channel: MeshChannel
        ) -> Bool {
            mesh.received[hearer - 1].contains {
                $0.sender == NodeID(speaker) && $0.channel == channel
            }
        }

        private static func hearEachOther(_ mesh: Mesh, _ numbers: [Int]) -> Bool {
            numbers.allSatisfy { hearer in
                numbers.filter { $0 != hearer }.allSatisfy { speaker in
                    heard(mesh, hearer, speaker, .publish)
                        && heard(mesh, hearer, speaker, .exchange)
                }
            }
        }

        private static func describe(_ mesh: Mesh) -> String {
            mesh.transports.indices.map { index in
                let heard = mesh.received[index].map { "\($0.sender) \($0.channel)" }
                return "\(index + 1) heard \(Set(heard).sorted()): "
                    + "\(mesh.transports[index].keyReport) \(mesh.transports[index].statistics)"
            }.joined(separator: "\n")
        }

        private static func forget(_ mesh: Mesh) {
            for index in mesh.received.indices { mesh.received[index] = [] }
        }

        @Test(
            "A withdrawn key is cut off on both channels, both ways; the others hear each other again"
        )
        func withdrawn() throws {
            let keys = try Mesh.keys(3)
            let mesh = try Mesh.joined(3, keys: keys)
            #expect(try mesh.wait(until: { Self.hearEachOther($0, [1, 2, 3]) }, again: Self.talk))
            // Nodes 1 and 2 take the key of node 3 away; node 3 goes on trying.
            for own in [1, 2] {
                let others = try Self.peers(
                    of: own, in: mesh, [1: [keys[0].publicKey], 2: [keys[1].publicKey]])
                try mesh.transports[own - 1].update(MeshChange(keys: keys[own - 1], peers: others))
            }
            // What was on its way to node 3 has arrived once its connections have been refused.
            #expect(
                try mesh.wait { mesh in
                    mesh.transports.allSatisfy { $0.unbound.isEmpty }
                        && mesh.transports[2].keyReport.peers.map(\.handshake)
                            == [.refusedThere, .refusedThere]
                })
            for _ in 0..<20 {
                for index in mesh.transports.indices {
                    mesh.received[index] += try mesh.transports[index].poll(timeoutMilliseconds: 2)
                }
            }
            Self.forget(mesh)
            #expect(
                try mesh.wait {
                    Self.hearEachOther($0, [1, 2])
                        && $0.transports[0].statistics.handshakesRefused >= 2
                        && $0.transports[1].statistics.handshakesRefused >= 2
                } again: {
                    try Self.talk($0)
                })
            #expect(mesh.received[2].isEmpty)
            #expect(mesh.received[0].allSatisfy { $0.sender != NodeID(3) })
            #expect(mesh.received[1].allSatisfy { $0.sender != NodeID(3) })
            // Both sides can say why.
            let refusals = mesh.transports[0].keyReport.refusals
            #expect(refusals.map(\.publicKey) == [keys[2].publicKey])
            #expect(refusals.first?.address == "127.0.0.1")
            // Between two attempts it cannot.
            #expect(
                try mesh.wait {
                    $0.transports[2].keyReport.peers.map(\.handshake)
                        == [.refusedThere, .refusedThere]
                })
            // A stranger is refused by the endpoints as they are now.
            try mesh.transports[0].testThatStrangersAreRefused(timeout: .seconds(60))
            // And what was withdrawn is let in again once it is listed, without anybody's restart.
            for own in [1, 2] {
                let all = [1, 2, 3].map { ($0, [keys[$0 - 1].publicKey]) }
                let others = try Self.peers(
                    of: own, in: mesh, Dictionary(uniqueKeysWithValues: all))
                try mesh.transports[own - 1].update(MeshChange(keys: keys[own - 1], peers: others))
            }
            Self.forget(mesh)
            #expect(try mesh.wait(until: { Self.hearEachOther($0, [1, 2, 3]) }, again: Self.talk))
        }

        @Test("A node goes over to a new key while the others list both, and talks all the time")
        func rotated() throws {
            let (old, new) = (try CurveKeys.generate(), try CurveKeys.generate())
            let other = try CurveKeys.generate()
            let mesh = try Mesh.joined(2, keys: [old, other])
            #expect(try mesh.wait(until: { Self.hearEachOther($0, [1, 2]) }, again: Self.talk))
            let steps: [(own: CurveKeys, listed: [CurvePublicKey])] = [
                (old, [old.publicKey, new.publicKey]), (new, [old.publicKey, new.publicKey]),
                (new, [new.publicKey]),
            ]
            for step in steps {
                try mesh.transports[1].update(
                    MeshChange(
                        keys: other, peers: Self.peers(of: 2, in: mesh, [1: step.listed])))
                try mesh.transports[0].update(
                    MeshChange(
                        keys: step.own, peers: Self.peers(of: 1, in: mesh, [2: [other.publicKey]])))
                Self.forget(mesh)
                #expect(
                    try mesh.wait {
                        Self.hearEachOther($0, [1, 2])
                            && $0.transports[1].keyReport.peers.first?.publicKey
                                == step.own.publicKey
                    } again: {
                        try Self.talk($0)
                    }, "\(Self.describe(mesh))")
            }
            #expect(mesh.transports[0].keyReport.publicKey == new.publicKey)
        }

        @Test("A key that is added disturbs no connection that stands")
        func added() throws {
            let (one, other) = (try CurveKeys.generate(), try CurveKeys.generate())
            let mesh = try Mesh.joined(2, keys: [one, other])
            #expect(try mesh.wait(until: { Self.hearEachOther($0, [1, 2]) }, again: Self.talk))
            let link = try #require(mesh.transports[0].connections[try Mesh.node(2)]?.links.first)
            let router = mesh.transports[0].bound.router
            let listed = [other.publicKey, try CurveKeys.generate().publicKey]
            try mesh.transports[0].update(
                MeshChange(keys: one, peers: Self.peers(of: 1, in: mesh, [2: listed])))
            let links = mesh.transports[0].connections[try Mesh.node(2)]?.links ?? []
            #expect(links.count == 2 && links.first === link)
            #expect(mesh.transports[0].bound.router === router)
        }

        @Test("A port that another program has taken is waited for, and the node goes on meanwhile")
        func portTaken() throws {
            let keys = try Mesh.keys(2)
            let mesh = try Mesh.joined(2, keys: keys)
            let transport = mesh.transports[0]
            do {
                let context = try ZeroMQContext()
                let other = try ZeroMQSocket(.reply, in: context)
                let taken = try other.bind("tcp://127.0.0.1:0")
                let waiting = try ZeroMQTransport.makeBound(
                    transport.settings, in: context, number: 0
                ).router.socket
                transport.unbound = [.init(socket: waiting, endpoint: taken)]
                #expect(try mesh.wait(until: { Self.hearEachOther($0, [1, 2]) }, again: Self.talk))
                #expect(!transport.keyReport.isListening)
            }
            #expect(try mesh.wait { $0.transports[0].keyReport.isListening })
        }

        @Test("What a running mesh cannot become is refused and changes nothing")
        func refused() throws {
            let keys = try Mesh.keys(2)
            let mesh = try Mesh.joined(2, keys: keys)
            let peers = try Self.peers(of: 1, in: mesh, [2: []])
            #expect(throws: NodeError.self) {
                try mesh.transports[0].update(MeshChange(keys: keys[0], peers: peers))
            }
            #expect(throws: NodeError.self) {
                try mesh.transports[0].update(MeshChange(keys: nil, peers: []))
            }
            #expect(mesh.transports[0].peers == [NodeID(2)])
            #expect(try mesh.wait(until: { Self.hearEachOther($0, [1, 2]) }, again: Self.talk))
        }

        @Test("One node's key that claims another's number is reported with both")
        func impostor() throws {
            let keys = try Mesh.keys(3)
            let mesh = try Mesh.joined(3, keys: keys)
            let impostor = try mesh.impostor(as: 2, keys[2], to: keys[0])
            defer { withExtendedLifetime(impostor) {} }
            #expect(try mesh.wait { !$0.transports[0].keyReport.refusals.isEmpty })
            let refusal = try #require(mesh.transports[0].keyReport.refusals.first)
            #expect(refusal.reason == .claimsToBe(try Mesh.node(2)))
            #expect(refusal.node == NodeID(3))
            #expect(refusal.publicKey == keys[2].publicKey)
        }
    }
}

extension MeshSuites {
    @Suite("A node that is not a member any more") struct DepartedTests {
        @Test(
            "may ask over the exchange and be answered, under its own number, and hears nothing else"
        )
        func asks() throws {
            let keys = try Mesh.keys(2)
            let mesh = try Mesh.joined(2, keys: keys)
            let (member, departed) = (try Mesh.node(1), try Mesh.node(2))
            func hasHeard(_ bytes: [UInt8]) -> (Mesh) -> Bool {
                { $0.received[1].contains { $0.bytes == bytes } }
            }
            #expect(try mesh.wait(until: hasHeard([1])) { try $0.transports[0].publish([1]) })
            try mesh.transports[0].disconnect(from: departed, hearing: [keys[1].publicKey])
            #expect(
                try mesh.wait {
                    $0.received[0].contains { $0.bytes == [2] }
                } again: {
                    try $0.transports[0].publish([3])
                    try $0.transports[1].send([2], to: member)
                })
            #expect(
                try mesh.wait(until: hasHeard([4])) {
                    try $0.transports[0].reply([4], to: departed)
                })
            var rounds = 0
            _ = try mesh.wait {
                _ in
                rounds > 100
            } again: {
                rounds += 1
                try $0.transports[0].publish([3])
            }
            #expect(!hasHeard([3])(mesh))
            #expect(mesh.transports[0].peers.isEmpty)
            // The number is bound to the key as before.
            let impostor = try mesh.impostor(as: 3, keys[1], to: keys[0])
            defer { withExtendedLifetime(impostor) {} }
            #expect(try mesh.wait { $0.transports[0].statistics.framesRefused == 1 })
            // A new number with its machine and its key is a member like others.
            _ = try mesh.transports[0].connect(
                to: Mesh.peer(3, mesh.transports[1], key: keys[1].publicKey))
            #expect(
                try mesh.wait { $0.transports[0].keyReport.peers.first?.handshake == .succeeded })
        }
    }

    @Suite("The gate itself") struct GateTests {
        @Test("Without a handler for keys a guarded socket lets nobody in: the domain is enforced")
        func noHandler() throws {
            let context = try ZeroMQContext()
            let keys = try CurveKeys.generate()
            let server = try ZeroMQSocket(.router, in: context)
            try Gatekeeper.guardServer(server, keys, at: .exchange)
            let endpoint = try server.bind("tcp://127.0.0.1:0")
            let client = try ZeroMQSocket(.dealer, in: context)
            try Gatekeeper.introduceClient(client, .generate(), to: keys.publicKey)
            let monitor = try MeshSocket.watch(client, name: "watch")
            try client.connect(endpoint)
            _ = try client.send([1])
            var event: Int32?
            for _ in 0..<12_000 where event == nil {
                event = try MeshSocket.nextEvent(of: monitor)?.kind
                if event == ZMQ_EVENT_CONNECTED { event = nil }
                usleep(5000)
            }
            #expect(event != nil && event != Int32(ZMQ_EVENT_HANDSHAKE_SUCCEEDED))
            #expect(try server.receive() == nil)
        }

        @Test("The self-test finds endpoints that let strangers in, and the node would not start")
        func selfTest() throws {
            let keys = try CurveKeys.generate()
            let settings = try Mesh.settings(1, keys: keys)
            let transport = try ZeroMQTransport(settings)
            try transport.testThatStrangersAreRefused(timeout: .seconds(60))
            // In a context without a handler CURVE believes every key, unless the domain is enforced.
            let open = try ZeroMQSocket(.router, in: ZeroMQContext())
            try open.set(ZMQ_CURVE_SERVER, 1)
            try open.set(ZMQ_CURVE_SECRETKEY, text: keys.secret)
            transport.bound = ZeroMQTransport.BoundSockets(
                publisher: transport.bound.publisher,
                router: try BoundSocket(
                    open, ConnectionWatch.Bounds(heldBytes: .max), name: "open"))
            transport.unbound = [.init(socket: open, endpoint: transport.exchangeEndpoint)]
            transport.listItems()
            // The router that was there has given its port up, or the stranger may still find it.
            for _ in 0..<12_000 where !transport.unbound.isEmpty {
                _ = try transport.poll(timeoutMilliseconds: 5)
            }
            #expect(transport.unbound.isEmpty)
            #expect {
                try transport.testThatStrangersAreRefused()
            } throws: {
                ($0 as? NodeError)?.code == .strangersAdmitted
            }
        }

        @Test("A stranger with ever new keys is remembered within a bound, and fills no log")
        func bounded() throws {
            var book = RefusalBook()
            let first = try CurveKeys.generate().publicKey
            book.note(.keyNotListed, first, of: nil, address: "10.0.0.1", now: 1)
            book.note(.keyNotListed, first, of: nil, address: "10.0.0.1", now: 2)
            #expect(book.refusals.map(\.count) == [2])
            for time in 3..<500 {
                book.note(
                    .keyNotListed, try CurveKeys.generate().publicKey, of: nil, address: "10.0.0.1",
                    now: UInt64(time))
            }
            #expect(book.refusals.count == RefusalBook.capacity)
            #expect(!book.refusals.contains { $0.publicKey == first })
            let lines = LogLines()
            var watch = MeshWatch()
            var report = MeshKeyReport()
            for time in 0..<1000 {
                report.refusals = book.refusals
                watch.note(report, now: UInt64(500 + time), logger: lines.logger)
                book.note(
                    .keyNotListed, try CurveKeys.generate().publicKey, of: nil, address: "10.0.0.1",
                    now: UInt64(500 + time))
            }
            #expect(lines.count == MeshWatch.linesInAWhile)
        }

        @Test("Neither a secret key nor a token is in what a value prints of itself")
        func unprinted() throws {
            let keys = try CurveKeys.generate()
            let token = HTTPToken(secret: "0123456789abcdef", scope: .write, name: "writer")
            var settings = try Mesh.settings(1, keys: keys)
            settings.keys = keys
            var options = HTTPServer.Options()
            options.tokens = [token]
            for value in [keys, settings, options, [token], MeshChange(keys: keys, peers: [])]
                as [Any]
            {
                var dumped = ""
                dump(value, to: &dumped)
                for text in [dumped, "\(value)", String(reflecting: value)] {
                    #expect(!text.contains(keys.secret) && !text.contains(token.secret))
                }
            }
        }
    }
}
