import Foundation
import Merge
import Synchronization
import Testing

@testable import Coordinator

@Suite("Jobs that wait are committed together") final class GroupCommitTests {
    private let x: EngineNode
    private let y: EngineNode
    private let outcomes = Outcomes()

    /// What jobs have come to, in the order in which they were answered.
    private final class Outcomes: Sendable {
        private let list = Mutex<[String]>([])

        var all: [String] { list.withLock { $0 } }

        func note(_ name: String, _ isDone: Bool) {
            list.withLock { $0.append("\(name) \(isDone ? "done" : "failed")") }
        }
    }

    init() throws { (x, y) = try EngineNode.pair() }

    private func save(_ name: String, _ request: SaveRequest) -> CommitJob {
        .save(make: { _ in request }, size: request.size) { [outcomes] in
            outcomes.note(name, (try? $0.get()) != nil)
        }
    }

    private func apply(_ name: String, _ transactions: [EncodedTransaction]) -> CommitJob {
        .apply(transactions) { [outcomes] in
            outcomes.note(name, (try? $0.get())?.rejected.isEmpty ?? false)
        }
    }

    private func insertion() throws -> SaveRequest {
        SaveRequest(operations: [try x.insertion("Note")])
    }

    /// A save of an object that never was.
    private func impossible() throws -> SaveRequest {
        let id = try y.insert("Note")
        return SaveRequest(operations: [
            SaveOperation(kind: .update, entity: try x.entity("Note"), row: id.row)
        ])
    }

    /// How many commits the write-ahead log has: the last frame of each tells the store's length.
    private func commits() throws -> Int {
        let log = try Data(contentsOf: URL(fileURLWithPath: x.path + "-wal"))
        return stride(from: 32, to: log.count - 24, by: 4_120).count {
            log[$0 + 4..<$0 + 8].contains { $0 != 0 }
        }
    }

    @Test(
        "Saves and what came from others are one commit, with a generation for each run of a kind")
    func together() throws {
        try x.insert("Note")
        for _ in 0..<3 { try y.insert("Note") }
        let others = y.transactions
        let notices = Mutex<[CommitNotice]>([])
        let observation = x.coordinator.observeCommits { notice in
            notices.withLock { $0.append(notice) }
        }
        defer { observation.cancel() }
        let (before, begun) = (try commits(), try x.coordinator.currentToken.generation)
        try #require(x.coordinator.writer).runBlocking([
            save("a", try insertion()), save("b", try insertion()),
            apply("c", Array(others[0..<2])), save("d", try impossible()),
            apply("e", Array(others[2...])), save("f", try insertion()),
        ])
        #expect(
            outcomes.all == ["a done", "b done", "d failed", "f done", "c done", "e done"])
        #expect(try commits() == before + 1)
        let seen = notices.withLock { $0 }
        #expect(seen.map(\.isLocal) == [true, false, false, true])
        #expect(seen.map(\.transactions.count) == [2, 2, 1, 1])
        // The save that failed alone has made none.
        #expect(seen.map(\.token.generation) == (1...4).map { begun + $0 })
        let last = try x.coordinator.currentToken
        #expect(last == seen.last?.token)
        #expect(x.coordinator.durableVector == last.versionVector)
        #expect(try x.coordinator.verify().isOK)
        try x.reopen()
        #expect(try x.vector == last.versionVector)
        try exchange(x, y)
    }

    @Test("What cannot be merged leaves the saves of its group alone")
    func rejected() throws {
        for _ in 0..<2 { try y.insert("Note") }
        // The second without the first.
        try #require(x.coordinator.writer).runBlocking([
            save("a", try insertion()), apply("b", [y.transactions[1]]),
            save("c", try insertion()),
        ])
        #expect(outcomes.all == ["a done", "c done", "b failed"])
        #expect(try x.vector.entries.map(\.sequence) == [2])
        #expect(try x.coordinator.verify().isOK)
    }

    @Test("Upkeep that fails takes no save along")
    func upkeep() throws {
        let refusal = CoordinatorError(.diskFull, "The disk is full.")
        try #require(x.coordinator.writer).runBlocking([
            save("a", try insertion()),
            .maintain({ _ in throw refusal }, isAlone: false) { [outcomes] in
                outcomes.note("b", (try? $0.get()) != nil)
            },
            save("c", try insertion()),
        ])
        #expect(outcomes.all == ["a done", "b failed", "c done"])
    }

    /// Whether a job is done in the thread that brings it.
    ///
    /// - Parameter pause: how much later it is each time somebody asks, in milliseconds.
    private static func isInPlace(pause: UInt64) throws -> Bool {
        let time = Mutex<UInt64>(0)
        let node = try EngineNode(configure: { options in
            options.monotonicMilliseconds = {
                time.withLock { time in
                    time += pause
                    return time
                }
            }
        })
        try node.insert("Note")
        let here = pthread_self()
        let isHere = Mutex(false)
        let done = DispatchSemaphore(value: 0)
        try #require(node.coordinator.writer).run(
            .apply([]) { _ in
                isHere.withLock { $0 = pthread_equal(pthread_self(), here) != 0 }
                done.signal()
            })
        done.wait()
        return isHere.withLock { $0 }
    }

    @Test("A short job is done in the thread that brings it, unless commits take long")
    func leading() throws {
        #expect(try Self.isInPlace(pause: 1))
        #expect(try !Self.isInPlace(pause: CommitQueue.longCommit))
    }

    @Test("A task's short save is done, and so are a thousand at once")
    func tasks() async throws {
        let entity = try x.entity("Note")
        let coordinator = x.coordinator
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<1_000 {
                group.addTask {
                    // Some are too long to be done in place.
                    let count = number % 50 == 0 ? CommitQueue.shortOperations + 1 : 1
                    _ = try await coordinator.save(
                        SaveRequest(
                            operations: (1...count).map {
                                SaveOperation(
                                    kind: .insert, entity: entity, row: RowID(Int64(-$0)))
                            }))
                }
            }
            try await group.waitForAll()
        }
        #expect(try x.vector.entries.map(\.sequence) == [1_000])
        #expect(try x.coordinator.verify().isOK)
    }
}
