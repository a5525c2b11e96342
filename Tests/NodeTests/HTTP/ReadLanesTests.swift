import Coordinator
import Synchronization
import TestSupport
import Testing

@testable import Node

@Suite("Which reads run, wait and give way")
struct ReadLanesTests {
    private let clock = Clock()

    private final class Clock: Sendable {
        let now = Mutex<UInt64>(1_000)
    }

    /// A read that goes on until the test ends it, or it may not go on.
    private final class Read: Sendable {
        private let state = Mutex<(mayGoOn: (@Sendable () -> Bool)?, begun: Int, isOver: Bool)>(
            (nil, 0, false))
        var begun: Int { state.withLock { $0.begun } }
        /// As SQLite asks while it works.
        var mayGoOn: Bool { state.withLock { $0.mayGoOn }?() ?? true }
        func end() { state.withLock { $0.isOver = true } }

        func run(_ lanes: ReadLanes, _ client: ClientPresence = ClientPresence()) -> Task<
            Void, any Error
        > {
            Task {
                try await lanes.run(for: ReadOrigin(client: client), text: "a read") { mayGoOn in
                    state.withLock {
                        $0.mayGoOn = mayGoOn
                        $0.begun += 1
                    }
                    while !state.withLock({ $0.isOver }) {
                        guard mayGoOn() else { throw CancellationError() }
                        try await Task.sleep(for: .milliseconds(1))
                    }
                }
            }
        }
    }

    private func lanes(waiting: Int = 4, waitingLong: Int = 1) -> ReadLanes {
        let clock = clock
        var limits = ReadLanes.Limits()
        (limits.short, limits.long) = (1, 1)
        (limits.waiting, limits.waitingLong) = (waiting, waitingLong)
        limits.shortMilliseconds = 250
        return ReadLanes(limits) { clock.now.withLock { $0 } }
    }

    private func pass(_ milliseconds: UInt64) { clock.now.withLock { $0 += milliseconds } }

    @Test(
        "A long read leaves room for short ones, and gives way where there is none among the long")
    func givesWay() async throws {
        let lanes = lanes()
        let (first, second, short) = (Read(), Read(), Read())
        let firstTask = first.run(lanes)
        try await eventually("it runs") { first.begun == 1 }
        pass(250)
        try await eventually("it is long") { lanes.gauges.runningLong == 1 }
        let secondTask = second.run(lanes)
        try await eventually("there is room for a short one") { second.begun == 1 }
        pass(1_000)
        // Nobody waits: it goes on.
        #expect(second.mayGoOn)
        #expect(lanes.gauges.gaveWay == 0)
        let shortTask = short.run(lanes)
        try await eventually("another takes its place") { short.begun == 1 }
        #expect(lanes.gauges.gaveWay == 1)
        try await eventually("it waits among the long ones") { lanes.gauges.waitingLong == 1 }
        #expect(lanes.shown.map(\.isLong) == [true, false])
        short.end()
        try await shortTask.value
        #expect(second.begun == 1)
        first.end()
        try await firstTask.value
        try await eventually("it starts again") { second.begun == 2 }
        second.end()
        try await secondTask.value
        #expect(lanes.gauges.running == 0)
    }

    @Test("A read ends with its client, and one that waits is dropped")
    func endsWithClient() async throws {
        let lanes = lanes()
        let clients = [ClientPresence(), ClientPresence()]
        let (running, waiting) = (Read(), Read())
        let runningTask = running.run(lanes, clients[0])
        try await eventually("it runs") { running.begun == 1 }
        let waitingTask = waiting.run(lanes, clients[1])
        try await eventually("it waits") { lanes.gauges.waiting == 1 }
        clients[1].leave()
        await #expect(throws: ClientGone.self) { try await waitingTask.value }
        #expect(waiting.begun == 0)
        clients[0].leave()
        await #expect(throws: ClientGone.self) { try await runningTask.value }
        #expect(lanes.gauges.abandoned == 2)
        await #expect(throws: ClientGone.self) {
            try await Read().run(lanes, clients[0]).value
        }
        #expect(lanes.gauges.running == 0 && lanes.gauges.waiting == 0)
    }

    @Test("Where too many wait one is refused, short or long, and told when to come again")
    func refused() async throws {
        let lanes = lanes(waiting: 1, waitingLong: 0)
        let reads = (0..<4).map { _ in Read() }
        var tasks = [reads[0].run(lanes)]
        try await eventually("it runs") { reads[0].begun == 1 }
        pass(250)
        try await eventually("it is long") { lanes.gauges.runningLong == 1 }
        tasks.append(reads[1].run(lanes))
        try await eventually("it runs") { reads[1].begun == 1 }
        tasks.append(reads[2].run(lanes))
        try await eventually("it waits") { lanes.gauges.waiting == 1 }
        let error = await #expect(throws: HTTPError.self) { try await reads[3].run(lanes).value }
        #expect(error?.status == 503 && error?.code == "busy")
        #expect(error?.message.contains("Ask again in 1 s") == true)
        // It would have to wait among the long ones, where there is no room.
        pass(250)
        let long = await #expect(throws: HTTPError.self) { try await tasks[1].value }
        #expect(long?.code == "busy" && long?.message.contains("Ask again in 10 s") == true)
        #expect(lanes.gauges.refused == 2)
        for read in reads { read.end() }
        try await tasks[0].value
        try await tasks[2].value
    }
}
