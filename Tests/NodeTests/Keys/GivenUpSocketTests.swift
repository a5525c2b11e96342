import CZeroMQ
import Client
import Foundation
import Merge
import Testing

@testable import Node

extension MeshSuites {
    @Suite("Sockets that are given up while their connections end") struct GivenUpSocketTests {
        private static let count = 40

        /// Whether the context still carries bytes: it has one thread for all of its sockets.
        private static func carries(_ context: ZeroMQContext) throws -> Bool {
            let (server, client) = (
                try ZeroMQSocket(.router, in: context), try ZeroMQSocket(.dealer, in: context)
            )
            try client.connect(server.bind("tcp://127.0.0.1:0"))
            guard try client.send([1]) == .sent else { return false }
            let deadline = ContinuousClock.now + .seconds(60)
            while ContinuousClock.now < deadline {
                if try server.receiveMessage(limit: 2) != nil { return true }
                usleep(1000)
            }
            return false
        }

        /// Sockets that watch their handshakes, connected, and the socket that they all talk to.
        private static func connected(
            in context: ZeroMQContext, round: Int
        ) throws -> (server: ZeroMQSocket?, clients: [MeshSocket]) {
            let server = try ZeroMQSocket(.router, in: context)
            let endpoint = try server.bind("tcp://127.0.0.1:0")
            let clients = try (0..<count).map { number in
                let socket = try ZeroMQSocket(.dealer, in: context)
                let monitor = try MeshSocket.watch(socket, name: "watch-\(round)-\(number)")
                try socket.connect(endpoint)
                return MeshSocket(
                    socket, monitor: monitor, ConnectionWatch.Bounds(heldBytes: .max), now: 0)
            }
            let deadline = ContinuousClock.now + .seconds(60)
            while !clients.allSatisfy({ $0.state == .succeeded }), ContinuousClock.now < deadline {
                for client in clients { try client.takeEvents(limit: 10, now: 0) }
                usleep(500)
            }
            #expect(clients.allSatisfy { $0.state == .succeeded })
            return (server, clients)
        }

        // A peer that takes a key off its list ends its connections at the moment at which our
        // sockets to it go over to another key. An event that the library has to tell while nobody
        // listens any more would stop its thread for good, and the whole mesh of the node with it.
        @Test("What ends while its socket is given up does not stop the mesh")
        func simultaneous() throws {
            let context = try ZeroMQContext()
            for round in 0..<60 {
                var ends = try Self.connected(in: context, round: round)
                #expect(ends.server != nil && ends.clients.count == Self.count)
                // The server's connections are ended by the library's thread, ours meanwhile.
                ends.server = nil
                usleep(UInt32(round % 4) * 200)
                ends.clients = []
                guard try Self.carries(context) else {
                    Issue.record("In round \(round) the context's thread stood still")
                    // To end it would take for ever.
                    _ = Unmanaged.passRetained(context)
                    return
                }
            }
        }
    }
}
