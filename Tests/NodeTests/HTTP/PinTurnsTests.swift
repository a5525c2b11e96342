import Coordinator
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Node

/// Reads through one pin wait for each other, and nobody else for them.
@Suite("Turns at a pin")
struct PinTurnsTests {
    private let node: TestCluster

    private final class Seen: Sendable {
        let order = Mutex<[Int]>([])
        let inside = Mutex(0)
        let most = Mutex(0)

        func enter(_ number: Int) {
            let count = inside.withLock {
                $0 += 1
                return $0
            }
            most.withLock { $0 = max($0, count) }
            order.withLock { $0.append(number) }
        }

        func leave() { inside.withLock { $0 -= 1 } }
    }

    init() throws { node = try TestCluster(2) }

    private func coordinator(_ number: Int) throws -> PersistentStoreCoordinator {
        try PersistentStoreCoordinator(
            storeAt: node.directory.appendingPathComponent("\(number)-alone.sqlite").path,
            model: TestCluster.model(), cluster: "test", node: node.peers[number - 1].node)
    }

    @Test("Those of one pin go one at a time, in their order; those of another do not wait")
    func order() async throws {
        let turns = PinTurns()
        let pins = [
            try coordinator(1).pinCurrentGeneration(), try coordinator(2).pinCurrentGeneration(),
        ]
        let seen = Seen()
        let first = AsyncStream<Void>.makeStream()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<50 {
                group.addTask {
                    try? await turns.take(pins[0]) {
                        seen.enter(number)
                        if number == 0 { for await _ in first.stream { break } }
                        seen.leave()
                        if number == 7 { throw CancellationError() }
                    }
                }
                try await eventually("it waits") {
                    number == 0
                        ? seen.order.withLock { $0.count == 1 } : turns.waitingCount == number
                }
            }
            await turns.take(pins[1]) { seen.order.withLock { $0.append(-1) } }
            first.continuation.yield()
            try await group.waitForAll()
        }
        #expect(seen.order.withLock { $0 } == [0, -1] + Array(1..<50))
        #expect(seen.most.withLock { $0 } == 1)
        #expect(turns.waitingCount == 0)
    }

    @Test("Readers of one pin, however many, leave threads for those who read something else")
    func threads() async throws {
        let coordinator = try coordinator(1)
        let pin = try coordinator.pinCurrentGeneration()
        let services = HTTPServices(
            backend: FakeBackend(coordinator), maximumBodyBytes: 1 << 20,
            maximumAnswerBytes: 1 << 20, readTimeout: .seconds(60), readingThreads: 4)
        let mayEnd = DispatchSemaphore(value: 0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    try await services.read(pin) { _ in mayEnd.wait() }
                }
            }
            try await eventually("all but one wait") { services.pinTurns.waitingCount == 3 }
            // To pin it needs no turn: it waited for all who read by it.
            let request = HTTPRequestParts(segments: [], query: [], body: [])
            _ = try await GenerationsResource(services: services).post(request)
            #expect(services.pinTurns.waitingCount == 3)
            // Half of the threads are for short reads: both were taken, and this waited for ever.
            let generation = try await services.read { try $0.token.generation }
            #expect(generation == pin.token.generation)
            for _ in 0..<4 { mayEnd.signal() }
            try await group.waitForAll()
        }
        await services.stop()
    }

    @Test("Copies are made one after the other, and leave the threads for reading alone")
    func copying() async throws {
        let coordinator = try coordinator(1)
        let services = HTTPServices(
            backend: FakeBackend(coordinator), maximumBodyBytes: 1 << 20,
            maximumAnswerBytes: 1 << 20, readTimeout: .seconds(60), readingThreads: 1)
        let mayEnd = DispatchSemaphore(value: 0)
        let seen = Seen()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<3 {
                group.addTask {
                    try await services.copying {
                        seen.enter(number)
                        mayEnd.wait()
                        seen.leave()
                    }
                }
            }
            try await eventually("one is made") { seen.inside.withLock { $0 == 1 } }
            _ = try await services.read { try $0.token }
            for _ in 0..<3 { mayEnd.signal() }
            try await group.waitForAll()
        }
        #expect(seen.most.withLock { $0 } == 1)
        await services.stop()
    }
}
