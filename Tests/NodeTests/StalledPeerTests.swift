import CZeroMQ
import Foundation
import Merge
import Testing

@testable import Node

extension MeshSuites {
    /// What waits at a transport because of one peer, counted by what the peer gets or gives in
    /// the end; the system's own buffers on the transport's side count as well.
    @Suite("What a peer that stands still, or floods, makes a transport hold")
    struct StalledPeerTests {
        private static let allowance = 64 << 20
        private static let page = [UInt8](repeating: 7, count: 4 << 20)
        /// What is asked without keys is no longer than 1.25 MiB.
        private static let question = [UInt8](repeating: 7, count: 1 << 20)

        /// A socket that takes nothing in before the test says so. The system gives its connection
        /// little room: left to itself it took up to 32 MiB for a peer that reads nothing, in the
        /// peer's own memory, and these were counted as the transport's.
        private static func socket(
            _ pattern: ZeroMQSocket.Pattern, in context: ZeroMQContext
        ) throws -> ZeroMQSocket {
            let socket = try ZeroMQSocket(pattern, in: context)
            try socket.set(ZMQ_RCVHWM, 1)
            try socket.set(ZMQ_SNDHWM, 1)
            try socket.set(ZMQ_RCVBUF, 128 << 10)
            try socket.set(ZMQ_SNDBUF, 128 << 10)
            return socket
        }

        /// A transport whose connections are not given up however slow the machine is.
        private static func patient() throws -> Mesh {
            var settings = try Mesh.settings(1)
            settings.limits.connectionTimeoutMilliseconds = 600_000
            let mesh = Mesh()
            try mesh.add(settings)
            return mesh
        }

        /// How long nothing may be taken until no more is expected.
        private static func quiet(_ hasEnough: Bool) -> Duration {
            hasEnough ? .milliseconds(500) : .seconds(60)
        }

        /// Sends until nothing was taken for half a second, and at least so many; gives how many were.
        private static func fill(atLeast least: Int, _ send: () throws -> Bool) throws -> Int {
            var count = 0
            var lastAt = ContinuousClock.now
            while count < 1000, ContinuousClock.now < lastAt + quiet(count >= least) {
                if try send() {
                    count += 1
                    lastAt = .now
                } else {
                    usleep(2000)
                }
            }
            return count
        }

        @Test("A subscriber that reads nothing has no more than 24 MiB of frames waiting for it")
        func published() throws {
            let mesh = try Self.patient()
            let subscriber = try Self.socket(.subscriber, in: ZeroMQContext())
            try subscriber.set(ZMQ_SUBSCRIBE, text: "")
            try subscriber.connect(mesh.transports[0].publishEndpoint)
            // The subscription takes a moment; a short frame shows that it stands.
            #expect(
                try mesh.wait { _ in
                    (try? subscriber.receive()) != nil
                } again: {
                    try $0.transports[0].publish([1])
                })
            let frame = [UInt8](repeating: 7, count: 256 << 10)
            for _ in 0..<1000 {
                try mesh.transports[0].publish(frame)
                usleep(200)
            }
            var bytes = 0
            var lastAt = ContinuousClock.now
            while ContinuousClock.now < lastAt + Self.quiet(bytes > 16 << 20) {
                guard let part = try subscriber.receive() else {
                    usleep(1000)
                    continue
                }
                bytes += part.bytes.count
                lastAt = .now
            }
            #expect(bytes > 16 << 20 && bytes < Self.allowance, "\(bytes)")
        }

        @Test(
            "A peer that asks and reads no answer has no more than 36 MiB of pages waiting for it")
        func answered() throws {
            let mesh = try Self.patient()
            let dealer = try Self.socket(.dealer, in: ZeroMQContext())
            try dealer.set(ZMQ_ROUTING_ID, text: "node-2-0123456789abcdef")
            try dealer.connect(mesh.transports[0].exchangeEndpoint)
            #expect(
                try mesh.wait {
                    !$0.received[0].isEmpty
                } again: { _ in
                    _ = try dealer.send([1])
                })
            let node = try Mesh.node(2)
            let count = try Self.fill(atLeast: 8) {
                try mesh.transports[0].reply(Self.page, to: node) == .sent
            }
            #expect(count >= 8 && count * Self.page.count < Self.allowance, "\(count)")
        }

        @Test("A peer that floods a node which is busy has no more than 18 MiB of frames taken")
        func asked() throws {
            let mesh = try Mesh.joined(1)
            let dealer = try Self.socket(.dealer, in: ZeroMQContext())
            try dealer.set(ZMQ_ROUTING_ID, text: "node-2-0123456789abcdef")
            try dealer.connect(mesh.transports[0].exchangeEndpoint)
            let count = try Self.fill(atLeast: 4) { try dealer.send(Self.question) == .sent }
            #expect(count >= 4 && count * Self.question.count < Self.allowance, "\(count)")
        }

        // libzmq's heartbeats end the process here: they write to a connection that has broken while
        // nothing is read from it.
        @Test("A peer that floods a node which is busy, and hangs up, does no harm")
        func hungUp() throws {
            let mesh = try Mesh.joined(1)
            for _ in 0..<2 {
                var dealer: ZeroMQSocket? = try Self.socket(.dealer, in: ZeroMQContext())
                try dealer?.set(ZMQ_ROUTING_ID, text: "node-2-0123456789abcdef")
                try dealer?.connect(mesh.transports[0].exchangeEndpoint)
                #expect(try Self.fill(atLeast: 4) { try dealer?.send(Self.question) == .sent } >= 4)
                dealer = nil
                usleep(2_500_000)
            }
            let other = try Self.socket(.dealer, in: ZeroMQContext())
            try other.set(ZMQ_ROUTING_ID, text: "node-3-0123456789abcdef")
            try other.connect(mesh.transports[0].exchangeEndpoint)
            _ = try other.send([5])
            #expect(try mesh.wait { $0.received[0].contains { $0.bytes == [5] } })
        }

        @Test("Of a peer that publishes no more than 16 MiB wait; a frame that is too long ends it")
        func subscribed() throws {
            let mesh = try Mesh.joined(1)
            let context = try ZeroMQContext()
            let (publisher, router) = (
                try Self.socket(.publisher, in: context), try Self.socket(.router, in: context)
            )
            // A publisher that says when it is full shows how much was taken (ZMQ_XPUB_NODROP).
            try publisher.set(ZMQ_XPUB_NODROP, 1)
            let peer = MeshPeer(
                node: try Mesh.node(2),
                publish: try #require(
                    MeshEndpoint(try publisher.bind("tcp://127.0.0.1:0"))),
                exchange: try #require(MeshEndpoint(try router.bind("tcp://127.0.0.1:0"))))
            try mesh.transports[0].connect(to: peer)
            #expect(
                try mesh.wait {
                    !$0.received[0].isEmpty
                } again: { _ in
                    _ = try publisher.send([1])
                })
            let frame = [UInt8](repeating: 7, count: 1 << 20)
            let count = try Self.fill(atLeast: 8) { try publisher.send(frame) == .sent }
            #expect(count >= 8 && count << 20 < Self.allowance, "\(count)")
            _ = try mesh.wait { $0.received[0].count { $0.bytes.count == 1 << 20 } >= count }
            mesh.received[0] = []
            let oversized = [UInt8](repeating: 9, count: (2 << 20) + 1)
            #expect(throws: NodeError.self) { try mesh.transports[0].publish(oversized) }
            #expect(try publisher.send(oversized) == .sent)
            // The library gives such a connection up; the transport makes it again.
            #expect(
                try mesh.wait {
                    $0.received[0].contains { $0.bytes == [2] }
                } again: { _ in
                    _ = try publisher.send([2])
                })
            #expect(mesh.received[0].allSatisfy { $0.bytes.count < oversized.count })
        }
    }
}
