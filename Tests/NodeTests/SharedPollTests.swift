import Foundation
import Merge
import TestSupport
import Testing

@testable import Node

extension MeshSuites {
    @Suite("How a poll is shared out among those who have sent") struct SharedPollTests {
        private static let frame = [UInt8](repeating: 7, count: 4096)
        /// Where the polled sockets of the first of three nodes are listed.
        private enum Item {
            static let router = 1
            static let second = 2
            static let third = 2 + MeshLink.socketCount
        }

        /// Three nodes; the first hears the others, and takes one long frame in a poll.
        private static func mesh() throws -> Mesh {
            let mesh = Mesh()
            for number in 1...3 {
                var settings = try Mesh.settings(number)
                if number == 1 { settings.limits.bytesPerPoll = frame.count }
                try mesh.add(settings)
            }
            try mesh.transports[1].connect(to: Mesh.peer(1, mesh.transports[0]))
            for number in 2...3 {
                try mesh.transports[0].connect(to: Mesh.peer(number, mesh.transports[number - 1]))
            }
            let joined = try mesh.wait { mesh in
                mesh.received[0].contains { $0.route != nil }
                    && (2...3).allSatisfy { number in
                        mesh.received[0].contains {
                            $0.channel == .publish && $0.sender.rawValue == number
                        }
                    }
            } again: { mesh in
                for index in 1...2 { try mesh.transports[index].publish([1]) }
                try mesh.transports[1].send([1], to: Mesh.node(1))
            }
            #expect(joined)
            return mesh
        }

        /// The long frames of one poll, made when something waits at all of these sockets.
        private static func take(_ mesh: Mesh, whenReady sockets: [Int]) throws -> [IncomingFrame] {
            let transport = mesh.transports[0]
            let deadline = ContinuousClock.now + .seconds(60)
            while ContinuousClock.now < deadline {
                _ = try transport.waiting.wait(milliseconds: 5)
                guard sockets.allSatisfy(transport.waiting.hasInput) else {
                    usleep(1000)
                    continue
                }
                return try transport.poll(timeoutMilliseconds: 0).filter { $0.bytes == frame }
            }
            throw NotInTime("something waits at each of \(sockets)")
        }

        @Test("A peer that floods the router keeps nobody else from being heard")
        func router() throws {
            let mesh = try Self.mesh()
            for _ in 0..<20 {
                #expect(try mesh.transports[1].send(Self.frame, to: Mesh.node(1)) == .sent)
            }
            for _ in 0..<3 { try mesh.transports[2].publish(Self.frame) }
            var (asked, told) = (0, 0)
            for _ in 0..<100 where told < 3 && asked < 20 {
                let frames = try Self.take(mesh, whenReady: [Item.router, Item.third])
                asked += frames.count { $0.route != nil }
                told += frames.count { $0.sender.rawValue == 3 }
            }
            #expect(told == 3 && asked < 10, "\(told) of those, and \(asked) of the others")
        }

        @Test("Peers that publish much are heard in turn")
        func turns() throws {
            let mesh = try Self.mesh()
            for index in 1...2 {
                for _ in 0..<8 { try mesh.transports[index].publish(Self.frame) }
            }
            var senders: [Int] = []
            for _ in 0..<100 where senders.count < 8 {
                senders += try Self.take(mesh, whenReady: [Item.second, Item.third]).map {
                    Int($0.sender.rawValue)
                }
            }
            let counts = (2...3).map { number in senders.count { $0 == number } }
            #expect(counts.allSatisfy { $0 >= 3 }, "\(counts)")
        }
    }
}
