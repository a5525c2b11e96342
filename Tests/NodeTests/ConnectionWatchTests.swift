import CZeroMQ
import Foundation
import Merge
import Testing

@testable import Node

extension MeshSuites {
    @Suite("What a connection has the library hold")
    struct ConnectionWatchTests {
        private static let sizes = [0, 1, 221, 222, 223, 255, 256, 4_000, 70_000]

        /// What every connection of a mesh of two holds, after all frames have come.
        private static func held(_ keys: [CurveKeys]) throws -> [Int] {
            let mesh = try Mesh.joined(2, keys: keys)
            let other = try Mesh.node(2)
            let answered = try Mesh.node(1)
            #expect(
                try mesh.wait {
                    $0.received.allSatisfy { $0.contains { $0.channel == .publish } }
                        && $0.received[1].contains { $0.route != nil }
                } again: {
                    try $0.transports[0].send([1], to: other)
                    for transport in $0.transports { try transport.publish([2]) }
                })
            let bytes = sizes.map { [UInt8](repeating: 3, count: $0) }
            mesh.received = [[], []]
            for round in 1...20 {
                for frame in bytes {
                    // Two for the peer, one of them an answer, and one that it hears.
                    for send in [
                        { try mesh.transports[0].send(frame, to: other) },
                        { try mesh.transports[0].publish(frame) },
                        { try mesh.transports[1].reply(frame, to: answered) },
                    ] {
                        var isSent = false
                        #expect(
                            try mesh.wait { _ in
                                isSent
                            } again: { _ in
                                isSent = try send() == .sent
                            })
                    }
                }
                // What came first may come late.
                let total = round * bytes.count
                #expect(
                    try mesh.wait {
                        let counts = $0.received.map {
                            $0.count { ![[1], [2]].contains($0.bytes) }
                        }
                        return counts[0] >= total && counts[1] >= 2 * total
                    })
            }
            for transport in mesh.transports {
                // So that the next look comes at once, and asks every connection.
                transport.pace = WatchPace(isKeyed: !keys.isEmpty)
                _ = try transport.poll(timeoutMilliseconds: 1)
            }
            return mesh.transports.flatMap { transport in
                transport.polled.flatMap(\.links).flatMap {
                    $0.subscriber.watch.heldBytes + $0.dealer.watch.heldBytes
                } + transport.bound.publisher.watch.heldBytes
                    + transport.bound.router.watch.heldBytes
            }
        }

        // What is held is a difference of two sums over all that ever came over a connection: a byte too
        // few per frame would end every connection one day.
        @Test(
            "Of a peer that keeps to the protocol nothing but the handshake is left",
            arguments: [false, true])
        func honest(isEncrypted: Bool) throws {
            let keys = isEncrypted ? [try CurveKeys.generate(), try CurveKeys.generate()] : []
            let held = try Self.held(keys)
            #expect(held.count == 8)
            #expect(held.allSatisfy { (1..<1_000).contains($0) }, "\(held)")
        }

        private static func look(
            _ number: UInt64, _ address: UInt8, age: UInt64 = 10_000, held: Int = 0
        ) -> ConnectionWatch.Look {
            ConnectionWatch.Look(number: number, address: [address], age: age, heldBytes: held)
        }

        private static let bounds = ConnectionWatch.Bounds(
            heldBytes: 100, totalBytes: 150, youngMilliseconds: 4_000, young: 2, grown: 3)

        @Test("A connection that holds too much is ended, and if all do together, the largest")
        func amounts() {
            let looks = [
                Self.look(1, 1, held: 60), Self.look(2, 2, held: 101), Self.look(3, 3, held: 80),
                Self.look(4, 3, age: 0, held: 80),
            ]
            #expect(ConnectionWatch.excessive(looks, Self.bounds) == [2, 3])
            #expect(ConnectionWatch.excessive([looks[0], looks[2]], Self.bounds).isEmpty)
        }

        @Test("Strangers, wherever they come from, never cost one its place who has proven his key")
        func places() {
            let members = [Self.look(1, 1), Self.look(2, 2), Self.look(3, 3)]
            let strangers = (4...90).map { Self.look(UInt64($0), UInt8($0), age: 3_999) }
            let ended = ConnectionWatch.excessive(members + strangers, Self.bounds)
            #expect(ended == Set(6...90))
            // Of those who have, the address that has most loses its oldest.
            let more = [Self.look(4, 3), Self.look(5, 3), Self.look(6, 2)]
            #expect(ConnectionWatch.excessive(members + more, Self.bounds) == [2, 3, 4])
        }

        @Test("Connections beyond the bound are ended, of the address that has most of them")
        func tooMany() throws {
            var settings = try Mesh.settings(1)
            settings.limits.connections = 4
            let mesh = Mesh()
            try mesh.add(settings)
            let transport = mesh.transports[0]
            let context = try ZeroMQContext()
            let others = try (0..<9).map { _ in
                let socket = try ZeroMQSocket(.dealer, in: context)
                try socket.set(ZMQ_RECONNECT_IVL, -1)
                try socket.connect(transport.exchangeEndpoint)
                return socket
            }
            #expect(try mesh.wait { $0.transports[0].statistics.connectionsEnded == 5 })
            #expect(transport.bound.router.watch.count == 4)
            withExtendedLifetime(others) {}
        }
    }
}
