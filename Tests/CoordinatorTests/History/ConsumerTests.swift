import Coordinator
import Merge
import Testing

@testable import Coordinator

/// History kept for those who read it by name.
@Suite("Consumers of history")
struct ConsumerTests {
    private let x: EngineNode
    private let note: ManagedObjectID

    init() throws {
        x = try EngineNode()
        note = try x.insert("Note")
    }

    private func write(_ count: Int) throws {
        for number in 0..<count { try x.update(note, ["p": .string("\(number)")]) }
    }

    /// The token of a place in a node's log.
    private func token(_ node: EngineNode, at position: UInt64) throws -> QueryGenerationToken {
        let log = try node.coordinator.read {
            try $0.history(afterPosition: 0, limit: Int(position))
        }
        var vector = VersionVector()
        for logged in log {
            vector.join(logged.encoded.transaction.seen)
            vector.advance(to: logged.encoded.dot)
        }
        return QueryGenerationToken(
            store: try node.coordinator.currentToken.store,
            generation: try #require(log.last).generation, position: position,
            versionVector: vector)
    }

    /// Purges all that is stable, however young, down to some bytes.
    @discardableResult
    private func tend(bytes: UInt64 = .max) throws -> HistoryTending {
        var limits = HistoryLimits()
        limits.keepMilliseconds = 0
        limits.maximumBytes = bytes
        return try x.coordinator.tendHistory(limits, HistoryKnowledge(stable: try x.vector))
    }

    private func consumer(_ name: String) throws -> HistoryConsumer? {
        try x.coordinator.historyStatus().consumers.first { $0.name == name }
    }

    @Test("History is kept for the slowest consumer, who is named, and goes once it has read on")
    func slowest() throws {
        try write(9)
        try x.coordinator.setConsumer("fast", to: try token(x, at: 8))
        try x.coordinator.setConsumer("slow", to: try token(x, at: 3))
        let first = try tend()
        #expect(first.purged == 3)
        #expect(first.hold == .consumer("slow"))
        #expect(try consumer("slow")?.behind == 7)
        #expect(try consumer("slow")?.oldestUnread != nil)
        #expect(try consumer("fast")?.behind == 2)
        try x.coordinator.setConsumer("slow")
        #expect(try consumer("slow")?.behind == 0)
        #expect(try consumer("slow")?.oldestUnread == nil)
        #expect(try tend().purged == 5)
        try x.coordinator.removeConsumer("fast")
        #expect(try tend().purged == 1)
    }

    @Test("A consumer outlives a restart")
    func restart() throws {
        try write(5)
        let place = try token(x, at: 2)
        try x.coordinator.setConsumer("audit", to: place)
        try x.reopen()
        #expect(try consumer("audit")?.token == place)
        #expect(try consumer("audit")?.position == 2)
        #expect(try tend().hold == .consumer("audit"))
    }

    @Test("Over the limit a consumer is passed over, told so, and keeps nothing until it goes on")
    func expires() throws {
        try write(9)
        try x.coordinator.setConsumer("audit", to: try token(x, at: 3))
        let result = try tend(bytes: 1)
        #expect(result.expired == ["audit"])
        #expect(try consumer("audit")?.isExpired == true)
        let place = try #require(try consumer("audit"))
        let code = try x.code {
            _ = try x.coordinator.read { try $0.history(afterPosition: place.position, limit: 1) }
        }
        #expect(code == .historyTokenExpired)
        #expect(
            try x.code { try x.coordinator.setConsumer("audit", to: place.token) }
                == .historyTokenExpired)
        try write(3)
        #expect(try tend().expired.isEmpty)
        #expect(try tend().hold == nil)
        try x.coordinator.setConsumer("audit")
        try write(2)
        #expect(try consumer("audit")?.isExpired == false)
        #expect(try tend().hold == .consumer("audit"))
    }

    @Test("A token of another node means what it has seen, wherever that stands in this log")
    func foreign() throws {
        let y = try EngineNode(node: 2)
        try exchange(x, y)
        let other = try y.insert("Note")
        try write(3)
        let place = try token(y, at: 2)
        try exchange(x, y)
        // Here: the note, three updates, and what y saved, which the reader has had already.
        try x.coordinator.setConsumer("audit", to: place)
        #expect(try consumer("audit")?.position == 1)
        #expect(try consumer("audit")?.behind == 4)
        try y.update(other, ["p": .string("later")])
        try x.coordinator.setConsumer("audit", to: try token(y, at: 5))
        #expect(try consumer("audit")?.position == 5)
    }

    @Test("What a reader has seen tells its place, in whatever order the log has it")
    func places() throws {
        let (y, z) = (try EngineNode(node: 2), try EngineNode(node: 3))
        try y.insert("Note")
        for _ in 0..<3 { try z.insert("Note") }
        try x.take(from: y)
        try x.take(from: z)
        func place(_ vector: VersionVector) throws -> UInt64? {
            try x.coordinator.read { try $0.position(seen: vector) }
        }
        // Our own, then y's, then those of z; a reader that had z's before y's lacks y's.
        let own = try #require(x.transactions.first).dot
        var seen = VersionVector()
        #expect(try place(seen) == 0)
        seen.advance(to: own)
        #expect(try place(seen) == 1)
        seen.join(try z.vector)
        #expect(try place(seen) == 1)
        seen.join(try y.vector)
        #expect(try place(seen) == 5)
        // Who lacks what is gone has no place any more, whatever else it has seen.
        x.close()
        try x.tamper("DELETE FROM _transaction WHERE position <= 2")
        try x.open()
        #expect(try place(seen) == 5)
        var lacking = VersionVector()
        lacking.advance(to: own)
        lacking.join(try z.vector)
        #expect(try place(lacking) == nil)
    }

    @Test("A place that the log does not bear out is looked for by what was seen")
    func otherPast() throws {
        try write(3)
        var place = try token(x, at: 2)
        place = QueryGenerationToken(
            store: place.store, generation: place.generation, position: 4,
            versionVector: place.versionVector)
        try x.coordinator.setConsumer("audit", to: place)
        #expect(try consumer("audit")?.position == 2)
        place = QueryGenerationToken(
            store: place.store, generation: .max, position: .max,
            versionVector: place.versionVector)
        try x.coordinator.setConsumer("audit", to: place)
        #expect(try consumer("audit")?.position == 2)
    }

    @Test("Names, their number, and unknown ones are refused with what is wrong")
    func refused() throws {
        for name in ["", "a b", "ä", "a/b", String(repeating: "x", count: 65)] {
            #expect(try x.code { try x.coordinator.setConsumer(name) } == .malformed)
        }
        for number in 1...64 { try x.coordinator.setConsumer("c\(number)") }
        #expect(try x.code { try x.coordinator.setConsumer("c65") } == .limitExceeded)
        try x.coordinator.setConsumer("c64")
        #expect(try x.code { try x.coordinator.removeConsumer("none") } == .consumerUnknown)
        try x.coordinator.removeConsumer("c1")
        try x.coordinator.setConsumer(String(repeating: "x", count: 64))
        #expect(try x.coordinator.historyStatus().consumers.count == 64)
    }
}
