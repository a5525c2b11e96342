import Testing

@testable import Node

extension MeshSuites {
    @Suite("Waiting on many sockets at once") struct SocketPollTests {
        /// A router, and dealers that are connected to it.
        private let router: ZeroMQSocket
        private let dealers: [ZeroMQSocket]
        private let bell: Wakeup

        init() throws {
            bell = try Wakeup()
            let context = try ZeroMQContext()
            router = try ZeroMQSocket(.router, in: context)
            let endpoint = try router.bind("tcp://127.0.0.1:0")
            dealers = try (0..<2).map { _ in
                let dealer = try ZeroMQSocket(.dealer, in: context)
                try dealer.connect(endpoint)
                return dealer
            }
        }

        /// Takes all that waits at the router, and waits between for it.
        private func take(_ poll: inout SocketPoll, parts: Int) throws -> [[UInt8]] {
            var taken: [[UInt8]] = []
            let deadline = ContinuousClock.now + .seconds(20)
            while taken.count < parts, ContinuousClock.now < deadline {
                _ = try poll.wait(milliseconds: 100)
                guard poll.isReady(1) else { continue }
                while let part = try router.receive() {
                    if part.bytes.count == 1 { taken.append(part.bytes) }
                }
            }
            return taken
        }

        /// What a wait of 100 ms says, and how long it took.
        private func waits(
            _ poll: inout SocketPoll
        ) throws -> (isReady: Bool, milliseconds: Int64) {
            let start = ContinuousClock.now
            let isReady = try poll.wait(milliseconds: 100)
            let (seconds, attoseconds) = (ContinuousClock.now - start).components
            return (isReady, seconds * 1_000 + attoseconds / 1_000_000_000_000_000)
        }

        @Test("What was told once is told until a socket has nothing more")
        func toldOnce() throws {
            var poll = SocketPoll(bell, [router])
            for dealer in dealers { #expect(try dealer.send([1]) == .sent) }
            #expect(try take(&poll, parts: 2).count == 2)
            // One of two messages is taken: the system tells nothing new of the other.
            for dealer in dealers { #expect(try dealer.send([2]) == .sent) }
            let deadline = ContinuousClock.now + .seconds(20)
            while !router.hasInput, ContinuousClock.now < deadline {}
            _ = try router.receive()
            _ = try router.receive()
            let (isReady, _) = try waits(&poll)
            #expect(isReady && poll.isReady(1))
            #expect(try take(&poll, parts: 1) == [[2]])
            _ = try router.receive()
            // Once it has nothing, it is waited for.
            var rests = false
            for _ in 0..<20 where !rests {
                let (isReady, milliseconds) = try waits(&poll)
                rests = !isReady && milliseconds >= 90
                while try router.receive() != nil {}
            }
            #expect(rests)
            #expect(!poll.isReady(1))
        }

        @Test("A message ends the wait, however often the socket was used between")
        func usedBetween() throws {
            var poll = SocketPoll(bell, [router, dealers[0]])
            #expect(try dealers[0].send([1]) == .sent)
            #expect(try take(&poll, parts: 1) == [[1]])
            for number in UInt8(2)...200 {
                // To send has the library take what tells of a message that waits.
                #expect(try router.send([9, 9]) != .full)
                #expect(try dealers[0].send([number]) == .sent)
                #expect(try router.send([9, 9]) != .full)
                #expect(try take(&poll, parts: 1) == [[number]])
            }
        }

        @Test("The bell ends one wait, whether it is rung before or within it")
        func bell() async throws {
            let bell = bell
            var poll = SocketPoll(bell, [])
            bell.wake()
            bell.wake()
            var wait = try waits(&poll)
            #expect(wait.isReady && wait.milliseconds < 90)
            wait = try waits(&poll)
            #expect(!wait.isReady && wait.milliseconds >= 90)
            let ringing = Task.detached {
                try await Task.sleep(for: .milliseconds(20))
                bell.wake()
            }
            let start = ContinuousClock.now
            let isReady = try poll.wait(milliseconds: 60_000)
            #expect(isReady && poll.isReady(SocketPoll.bell))
            #expect(ContinuousClock.now - start < .seconds(50))
            try await ringing.value
            // What was heard between two polls does not end the next.
            bell.wake()
            bell.hear()
            wait = try waits(&poll)
            #expect(!wait.isReady)
        }
    }
}
