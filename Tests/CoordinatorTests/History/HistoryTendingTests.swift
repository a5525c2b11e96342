import Coordinator
import GRDB
import Merge
import Testing

@testable import Coordinator

/// What goes of history by itself, what stays, and why.
@Suite("History within its limits")
struct HistoryTendingTests {
    private let x: EngineNode
    private let item: ManagedObjectID

    init() throws {
        x = try EngineNode()
        item = try x.insert("Note")
    }

    /// Nothing is too old, nothing too much.
    private var generous: HistoryLimits {
        var limits = HistoryLimits()
        limits.keepMilliseconds = .max
        return limits
    }

    /// All is too old.
    private var short: HistoryLimits {
        var limits = HistoryLimits()
        limits.keepMilliseconds = 0
        return limits
    }

    private func write(_ count: Int) throws {
        for number in 0..<count { try x.update(item, ["p": .string("value \(number)")]) }
    }

    private func positions(_ node: EngineNode) throws -> [UInt64] {
        try node.coordinator.read {
            try $0.history(afterPosition: 0, limit: 10_000).map(\.position)
        }
    }

    private func knowledge(_ stable: VersionVector) -> HistoryKnowledge {
        HistoryKnowledge(stable: stable, elsewhere: stable)
    }

    /// The counts that are kept are those that an opening would find.
    private func expectCounted(_ node: EngineNode) throws {
        let kept = node.coordinator.writer?.current.log
        let counted = try node.coordinator.read { try StoreLayout.readLogStanding(in: $0.database) }
        #expect(kept == counted)
        let report = try node.coordinator.verify()
        #expect(report.isOK, "\(report.differences)")
    }

    @Test("A verification finds that a transaction is missing from the middle of the log")
    func hole() throws {
        try write(9)
        x.close()
        try x.tamper("DELETE FROM _transaction WHERE position = 5")
        try x.open()
        let report = try x.coordinator.verify()
        #expect(!report.isOK)
        #expect(report.recomputed == report.digest)
        let first = try #require(x.transactions.first?.transaction.dot)
        #expect(
            report.differences == [
                "the log has 9 of the transactions from \(first) to \(first.actor)-10"
            ])
    }

    @Test("What is old and stable goes, the newest transaction stays, and the rest goes on")
    func age() throws {
        try write(9)
        #expect(try x.coordinator.tendHistory(generous, knowledge(try x.vector)).purged == 0)
        let result = try x.coordinator.tendHistory(short, knowledge(try x.vector))
        #expect(result.purgedByAge == 9 && result.purged == 9)
        #expect(result.isDone && result.hold == nil)
        #expect(try positions(x) == [10])
        try expectCounted(x)
        try write(1)
        #expect(try positions(x) == [10, 11])
        try x.reopen()
        try expectCounted(x)
        #expect(try x.value(item, "p") == .string("value 0"))
    }

    @Test("What is not stable stays with all after it, and is named")
    func notStable() throws {
        try write(5)
        let middle = VersionVector(try x.vector.entries.map { .init(actor: $0.actor, sequence: 3) })
        let result = try x.coordinator.tendHistory(short, knowledge(middle))
        #expect(result.purgedByAge == 3)
        let actor = try #require(x.coordinator.actor)
        #expect(result.hold == .notStable(Dot(actor: actor, sequence: 4)))
        #expect(try positions(x) == [4, 5, 6])
    }

    @Test("A wrong clock makes nothing old")
    func clock() throws {
        try write(3)
        x.coordinator.setClockOff(true)
        #expect(try x.coordinator.tendHistory(short, knowledge(try x.vector)).purged == 0)
        x.coordinator.setClockOff(false)
        #expect(try x.coordinator.tendHistory(short, knowledge(try x.vector)).purged == 3)
    }

    @Test("Over the limit stable transactions go though they are young, as few as will do")
    func size() throws {
        try write(40)
        let bytes = try x.coordinator.historyStatus().bytes
        var limits = generous
        limits.maximumBytes = bytes / 2
        let result = try x.coordinator.tendHistory(limits, knowledge(try x.vector))
        let left = try x.coordinator.historyStatus()
        #expect(result.purgedBySize > 0 && result.purgedBySize == result.purged)
        #expect(left.bytes <= limits.maximumBytes)
        #expect(left.bytes > limits.maximumBytes - bytes / 20)
        #expect(left.transactions == 41 - UInt64(result.purged))
        try expectCounted(x)
    }

    @Test("Over the limit what is not stable goes only as far as another member has it")
    func unstable() throws {
        try write(9)
        let actor = try #require(x.coordinator.actor)
        func through(_ sequence: UInt64) -> VersionVector {
            VersionVector([.init(actor: actor, sequence: sequence)])
        }
        var limits = generous
        limits.maximumBytes = 1
        let result = try x.coordinator.tendHistory(
            limits, HistoryKnowledge(stable: through(2), elsewhere: through(6)))
        #expect(result.purgedBySize == 2)
        #expect(result.purgedUnstable == 4)
        #expect(result.hold == .onlyHere(Dot(actor: actor, sequence: 7)))
        #expect(try positions(x) == [7, 8, 9, 10])
        // Being old is no reason to lose what nobody else has.
        limits.keepMilliseconds = 0
        let again = try x.coordinator.tendHistory(
            limits, HistoryKnowledge(stable: through(2), elsewhere: through(6)))
        #expect(again.purged == 0)
    }

    @Test("Steps are small, and together they come to all")
    func steps() throws {
        for _ in 0..<3 {
            _ = x.coordinator.saveTogether(
                try (0..<400).map { _ in SaveRequest(operations: [try x.insertion("Note")]) })
        }
        var purged = 0
        var steps = 0
        while true {
            let result = try x.coordinator.tendHistory(short, knowledge(try x.vector))
            #expect(result.purged <= HistoryPurger.PurgeStep.rows)
            purged += result.purged
            steps += 1
            if result.isDone { break }
        }
        #expect(purged == 1_200)
        #expect(steps == 3)
    }

    @Test("A step frees about a mebibyte, however few transactions that is")
    func bytes() throws {
        let blob = [UInt8](repeating: 7, count: 700 << 10)
        let big = try EngineNode(
            try ManagedObjectModel(entities: [
                EntityDescription("File", attributes: [.init("data", .binary)])
            ]))
        for _ in 0..<5 { try big.insert("File", ["data": .binary(blob)]) }
        let result = try big.coordinator.tendHistory(short, knowledge(try big.vector))
        #expect(result.purged == 2)
        #expect(!result.isDone)
    }

    @Test("Answers to saves go with their transactions, not before")
    func answers() throws {
        func save(_ id: String) throws {
            var request = SaveRequest(operations: [try x.change(item, ["p": .string(id)])])
            request.saveID = id
            try x.save(request)
        }
        try save("first")
        try save("second")
        try save("third")
        let actor = try #require(x.coordinator.actor)
        let stable = VersionVector([.init(actor: actor, sequence: 2)])
        _ = try x.coordinator.tendHistory(short, knowledge(stable))
        #expect(try x.coordinator.read { try $0.savedAnswer("first") } == nil)
        #expect(try x.coordinator.read { try $0.savedAnswer("second") } != nil)
        #expect(try x.coordinator.read { try $0.savedAnswer("third") } != nil)
    }

    @Test("Purging by hand stops at the token, at what is not stable, and at a consumer")
    func byHand() async throws {
        try write(9)
        let token = try x.coordinator.currentToken
        func purge(_ node: EngineNode) async throws -> Int {
            try await node.coordinator.purgeHistory(before: token, stable: try node.vector)
        }
        var place = token
        place = QueryGenerationToken(
            store: token.store, generation: 4, position: 4,
            versionVector: VersionVector(
                token.versionVector.entries.map { .init(actor: $0.actor, sequence: 4) }))
        try x.coordinator.setConsumer("audit", to: place)
        #expect(try await purge(x) == 4)
        try x.coordinator.removeConsumer("audit")
        try write(2)
        #expect(try await purge(x) == 6)
        #expect(try positions(x) == [11, 12])
    }

    @Test("Purging by hand goes by what a token has seen, not by its position in this store")
    func byVector() async throws {
        try write(5)
        let token = try x.coordinator.currentToken
        // As one has it whose store has lost its tail with the power since: others took those positions.
        let former = QueryGenerationToken(
            store: token.store, generation: token.generation, position: token.position,
            versionVector: VersionVector(
                token.versionVector.entries.map { .init(actor: $0.actor, sequence: 2) }))
        let count = try await x.coordinator.purgeHistory(before: former, stable: try x.vector)
        #expect(count == 2)
    }

    @Test("Purging by hand takes a token of another node by what that has seen")
    func byAnothersToken() async throws {
        try write(4)
        let y = try EngineNode(x.model, node: 2)
        try y.take(from: x)
        let token = try y.coordinator.currentToken
        try write(3)
        let before = try positions(x)
        let count = try await x.coordinator.purgeHistory(before: token, stable: try x.vector)
        #expect(count == before.count - 3)
        #expect(try positions(x) == before.suffix(3))
        #expect(try await x.coordinator.purgeHistory(before: token, stable: try x.vector) == 0)
    }
}

/// The conflict journal within its limit.
@Suite("The conflict journal within its limits")
struct JournalLimitTests {
    private let x: EngineNode
    private let y: EngineNode

    init() throws { (x, y) = try EngineNode.pair() }

    /// Makes conflicts that are settled by policy, and closed by a later write, and one that stays.
    private func quarrel(_ count: Int, _ entity: String) throws -> ManagedObjectID {
        let id = try x.insert(entity)
        for number in 0..<count {
            try exchange(x, y)
            try x.update(id, ["p": .string("x\(number)")])
            try y.update(id, ["p": .string("y\(number)")])
            try exchange(x, y)
            try x.update(id, ["p": .string("z\(number)")], resolves: true)
        }
        try exchange(x, y)
        try x.update(id, ["p": .string("here")])
        try y.update(id, ["p": .string("there")])
        try exchange(x, y)
        return id
    }

    @Test("The oldest closed conflicts go first, open ones never")
    func records() throws {
        _ = try quarrel(5, "Note")
        let closed = try x.conflicts(isOpen: false)
        #expect(closed.count == 5)
        #expect(try x.conflicts().count == 1)
        var limits = HistoryLimits()
        limits.maximumRecords = 2
        let result = try x.coordinator.tendHistory(
            limits, HistoryKnowledge(stable: VersionVector()))
        #expect(result.recordsDropped == 3)
        #expect(result.isDone && result.purged == 0)
        let left = try x.conflicts(isOpen: false)
        #expect(left.map(\.id) == closed.map(\.id).prefix(2).map { $0 })
        limits.maximumRecords = 0
        #expect(
            try x.coordinator.tendHistory(limits, HistoryKnowledge(stable: VersionVector()))
                .recordsDropped == 2)
        #expect(try x.conflicts().count == 1)
        #expect(try x.coordinator.historyStatus().closedRecords == 0)
    }

    @Test("Closed conflicts go with the transactions that closed them, and no earlier")
    func withTransactions() throws {
        _ = try quarrel(3, "Note")
        let before = try x.conflicts(isOpen: false).count
        var limits = HistoryLimits()
        limits.keepMilliseconds = 0
        let last = try x.coordinator.read { try $0.history(afterPosition: 0, limit: 1_000) }
        // All up to the one before the resolution that closed the last conflict.
        let closing = try #require(try x.conflicts(isOpen: false).first?.closedBy)
        let index = try #require(last.firstIndex { $0.encoded.dot == closing })
        var stable = VersionVector()
        for logged in last[..<index] { stable.advance(to: logged.encoded.dot) }
        let result = try x.coordinator.tendHistory(limits, HistoryKnowledge(stable: stable))
        #expect(result.purged == index)
        #expect(before == 3)
        #expect(try x.conflicts(isOpen: false).map(\.closedBy) == [closing])
        _ = try x.coordinator.tendHistory(limits, HistoryKnowledge(stable: try x.vector))
        #expect(try x.conflicts(isOpen: false).isEmpty)
        #expect(try x.conflicts().count == 1)
    }
}
