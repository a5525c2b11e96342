import Merge
import Replication
import Testing

@Suite("What peers ask for, and what it costs to answer them")
struct AnswerTests {
    private static let other = Reporter.second
    private static let own = Reporter.own

    @Test("A long transaction is put together though another peer gives parts of it again")
    func piecesOfTwo() throws {
        var node = Reporter()
        let long = makeTransaction(dot(Reporter.second, 1), seen: VersionVector(), bytes: 1_000)
        var answered: Set<UInt64> = []
        func give(_ peer: ActorID, _ range: Range<Int>) throws {
            func isOpen(_ asked: (node: NodeID, pull: Pull)) -> Bool {
                asked.node == peer.node && !answered.contains(asked.pull.id)
            }
            for _ in 0..<40 where !node.pulls.contains(where: isOpen) {
                node.tick()
                for actor in [Reporter.second, Reporter.third] { node.heads(actor, [long.dot]) }
            }
            let pull = try #require(node.pulls.last(where: isOpen)).pull
            answered.insert(pull.id)
            node.tell(
                .piece(
                    Piece(
                        id: pull.id, dot: long.dot, offset: UInt64(range.lowerBound),
                        total: UInt64(long.bytes.count), bytes: Array(long.bytes[range]))),
                from: Int(peer.node.rawValue))
        }
        // The third's log is short, so that it is asked beside the other.
        node.heads(Reporter.third, [long.dot])
        node.page([], from: 3)
        answered.insert(node.lastPull ?? 0)
        node.heads(Reporter.second, [long.dot])
        try give(Reporter.second, 0..<300)
        try give(Reporter.second, 300..<600)
        // What was on its way before: from the beginning, in the middle, and past what is there.
        for range in [0..<300, 200..<500, 900..<1_000] {
            try give(Reporter.third, range)
            #expect(node.replicator.status.gauges.piecesBytes == 600)
        }
        try give(Reporter.third, 400..<800)
        #expect(node.replicator.status.gauges.piecesBytes == 800)
        try give(Reporter.second, 700..<long.bytes.count)
        #expect(node.effects.contains(.apply([long])))
    }

    @Test("A peer that asks and asks costs one log read at a time, and one page within its credit")
    func slowPeer() throws {
        var replicator = Replicator.agreed()
        var reads: [UInt64] = []
        for id in 1...1_000 {
            let pull = Pull(id: UInt64(id), vector: VersionVector(), credit: .max)
            for case .readLog(let id, _, let limit) in replicator.hear(.pull(pull), from: 2) {
                reads.append(id)
                #expect(limit == Limits().pageBytes)
            }
        }
        #expect(reads.count == 1)
        let transactions = chain(count: 100, bytes: 100_000).map(\.bytes)
        let answer = replicator.handle(
            .logRead(id: reads[0], transactions: transactions, reachedEnd: true, now: 5))
        // Its first pull was given up by the peer; the latest is read for.
        guard case .readLog(let second, _, _)? = answer.first, answer.count == 1 else {
            Issue.record("expected one read, got \(answer.count) effects")
            return
        }
        let effects = replicator.handle(
            .logRead(id: second, transactions: transactions, reachedEnd: true, now: 6))
        let page = Page(
            id: 1_000, transactions: Array(transactions[..<41]), reachedEnd: false,
            vector: VersionVector())
        #expect(effects.count == 1)
        #expect(try effects.sent(to: 2) == [.page(page)])
        #expect(replicator.status.gauges.readsOutstanding == 0)
    }

    /// Tells of a pull and answers the log reads that it makes with a log.
    ///
    /// - Returns: the message that it was answered with, and how often the log was read.
    private func ask(
        _ replicator: inout Replicator, _ pull: Pull, from node: Int,
        log: [EncodedTransaction], now: UInt64 = 1
    ) throws -> (answer: Message?, reads: Int) {
        var effects = replicator.hear(.pull(pull), from: node, now: now)
        var reads = 0
        for case .readLog(let id, let after, _) in effects {
            reads += 1
            let left = log.filter { !after.contains($0.dot) }.map(\.bytes)
            effects += replicator.handle(
                .logRead(id: id, transactions: left, reachedEnd: true, now: now))
        }
        return (try effects.filter { $0.isReply }.sent().first?.message, reads)
    }

    /// A replicator with short pages, agreed with both peers, and a log of two long transactions.
    private func donor(
        outgoingBytes: Int? = nil
    ) throws -> (replicator: Replicator, log: [EncodedTransaction]) {
        let log = [Self.other, Reporter.third].map { chain($0, count: 1, bytes: 10_000)[0] }
        var limits = Limits()
        limits.pageBytes = 1_000
        limits.notificationBytes = 1_000
        limits.outgoingBytes = outgoingBytes ?? 21_000
        var replicator = Replicator.agreed(limits)
        replicator.hear(.heads(Heads(Reporter.third)), from: 3)
        return (replicator, log)
    }

    /// Lets peers 2 and 3 fetch a long transaction each, by turns; the other one they have.
    ///
    /// - Returns: what they got, and how often the log was read for it.
    private func fetch(
        _ replicator: inout Replicator, _ log: [EncodedTransaction]
    ) throws -> (bytes: [[UInt8]], reads: Int) {
        var (bytes, reads, id): ([[UInt8]], Int, UInt64) = ([[], []], 0, 0)
        while let turn = log.indices.min(by: { bytes[$0].count < bytes[$1].count }),
            bytes[turn].count < log[turn].bytes.count
        {
            id += 1
            let resume =
                bytes[turn].isEmpty
                ? nil : Pull.Resume(dot: log[turn].dot, offset: UInt64(bytes[turn].count))
            var vector = VersionVector()
            vector.advance(to: log[1 - turn].dot)
            let pull = Pull(id: id, vector: vector, credit: .max, resume: resume)
            let found = try ask(&replicator, pull, from: 2 + turn, log: log)
            reads += found.reads
            guard case .piece(let piece)? = found.answer, piece.dot == log[turn].dot,
                Int(piece.offset) == bytes[turn].count
            else {
                Issue.record("expected the next piece, got \(String(describing: found.answer))")
                break
            }
            bytes[turn] += piece.bytes
        }
        return (bytes, reads)
    }

    @Test("Two peers that fetch two long transactions by turns cost a log read each")
    func twoLongOnes() throws {
        var (replicator, log) = try donor()
        let found = try fetch(&replicator, log)
        #expect(found.bytes == log.map(\.bytes))
        #expect(found.reads == 2)
        let kept = log.reduce(0) { $0 + $1.bytes.count }
        #expect(replicator.status.gauges.piecesBytes == kept)
        _ = replicator.handle(.tick(now: 31_000, wallMilliseconds: World.wallStart + 31_000))
        #expect(replicator.status.gauges.piecesBytes == 0)
    }

    @Test("What is kept of long transactions that go out is bounded; the one used last stays")
    func outgoingBound() throws {
        var (replicator, log) = try donor(outgoingBytes: 11_000)
        let found = try fetch(&replicator, log)
        #expect(found.bytes == log.map(\.bytes))
        #expect(found.reads == 22)
        #expect(replicator.status.gauges.piecesBytes == log[1].bytes.count)
    }

    @Test("A long save that was announced is sent without a log read to whom it is the next")
    func announcedLong() throws {
        var (replicator, log) = try donor()
        let own = chain(Self.own, count: 2, bytes: 10_000)
        var vector = VersionVector()
        for (index, long) in own.enumerated() {
            vector.advance(Self.own, to: UInt64(index + 1))
            let state = StoreState(vector: vector, digest: ProjectionDigest())
            _ = replicator.handle(.committed([long], state: state, now: 1))
        }
        log = own
        var lacking = VersionVector()
        for (index, long) in own.enumerated() {
            let pull = Pull(id: UInt64(index), vector: lacking, credit: .max)
            let found = try ask(&replicator, pull, from: 2, log: log)
            guard case .piece(let piece)? = found.answer else {
                Issue.record("expected a piece, got \(String(describing: found.answer))")
                return
            }
            #expect(piece.dot == long.dot && piece.offset == 0 && found.reads == 0)
            lacking.advance(to: long.dot)
        }
        // Who lacks what is before it is given that first.
        let before = chain(count: 1)[0]
        let seen = VersionVector([.init(actor: Self.other, sequence: 1)]).joined(vector)
        let last = makeTransaction(Dot(actor: Self.own, sequence: 3), seen: seen, bytes: 10_000)
        vector.advance(to: last.dot)
        vector.advance(to: before.dot)
        let state = StoreState(vector: vector, digest: ProjectionDigest())
        _ = replicator.handle(.committed([last], state: state, now: 1))
        let pull = Pull(id: 9, vector: lacking, credit: .max)
        let found = try ask(&replicator, pull, from: 2, log: own + [before, last])
        guard case .page(let page)? = found.answer else {
            Issue.record("expected a page, got \(String(describing: found.answer))")
            return
        }
        #expect(found.reads == 1 && page.transactions == [before.bytes])
    }

    @Test("A pull without an answer is repeated at another peer first, and then takes longer")
    func pullTimeout() throws {
        var replicator = Replicator.started()
        let missing = VersionVector([.init(actor: Self.other, sequence: 3)])
        let third = ActorID(3, 1)
        replicator.hear(.heads(Heads(third)), from: 3)
        var asked: [NodeID] = []
        for now in stride(from: UInt64(10), to: 9_000, by: 50) {
            let effects =
                replicator.handle(.tick(now: now, wallMilliseconds: World.wallStart + now))
                + replicator.hear(.heads(Heads(Self.other, vector: missing)), from: 2, now: now)
                + replicator.hear(.heads(Heads(third, vector: missing)), from: 3, now: now)
            for case (let peer, .pull) in try effects.sent() { asked.append(peer) }
        }
        #expect(asked.prefix(2) == [World.id(2), World.id(3)])
        #expect(asked.count <= 5)
    }
}
