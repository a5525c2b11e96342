import Merge
import Replication
import Testing

@Suite("What is wrong with a peer stays with the peer")
struct ProtectionTests {
    static let other = ActorID(node: World.id(2), incarnation: 9)
    static let own = ActorID(node: World.id(1), incarnation: 5)

    /// A replicator of node 1 with peers 2 and 3, started at 0.
    func replicator(_ limits: Limits = Limits()) -> Replicator {
        var replicator = Replicator(
            configuration: .init(cluster: "test", actor: Self.own, modelHash: model),
            limits: limits, generator: SeededGenerator(seed: 1))
        _ = replicator.handle(
            .started(
                state: StoreState(vector: VersionVector(), digest: ProjectionDigest()),
                peers: [World.id(2), World.id(3)], now: 0, wallMilliseconds: World.wallStart))
        return replicator
    }

    func heads(
        _ actor: ActorID = other, vector: VersionVector = VersionVector(),
        digest: ProjectionDigest = ProjectionDigest(), model: [UInt8] = model
    ) -> Heads {
        Heads(
            actor: actor, vector: vector, durable: vector, digest: digest, clock: .zero,
            wallMilliseconds: World.wallStart + 250, modelHash: model)
    }

    func tell(
        _ replicator: inout Replicator, _ message: Message, from node: Int = 2,
        cluster: String = "test", over channel: Channel = .exchange, now: UInt64 = 1
    ) -> [Effect] {
        let bytes = Envelope(cluster: cluster, sender: World.id(node), message: message).encoded()
        return replicator.handle(
            .messageReceived(bytes: bytes, from: World.id(node), over: channel, now: now))
    }

    /// `count` transactions of one actor, each having seen those before it.
    func chain(_ actor: ActorID = other, count: Int, bytes: Int = 20) -> [EncodedTransaction] {
        var seen = VersionVector()
        return (1...count).map { sequence in
            let dot = Dot(actor: actor, sequence: UInt64(sequence))
            defer { seen.advance(to: dot) }
            return makeTransaction(dot, seen: seen, bytes: bytes)
        }
    }

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

    @Test("At its start a node asks every peer where it stands, and publishes its own heads")
    func start() {
        var replicator = Replicator(
            configuration: .init(cluster: "test", actor: Self.own, modelHash: model),
            generator: SeededGenerator(seed: 1))
        let effects = replicator.handle(
            .started(
                state: StoreState(vector: VersionVector(), digest: ProjectionDigest()),
                peers: [World.id(2), World.id(1), World.id(3)], now: 0, wallMilliseconds: 0))
        let asked = effects.compactMap { effect -> NodeID? in
            if case .send(let peer, _) = effect { peer } else { nil }
        }
        #expect(asked == [World.id(2), World.id(3)])
        #expect(effects.contains { if case .publish = $0 { true } else { false } })
    }

    @Test("Nothing is merged from a peer before its heads have shown that it belongs to us")
    func handshakeFirst() {
        var replicator = replicator()
        let transaction = chain(count: 1)[0]
        #expect(
            !tell(&replicator, .notification([transaction.bytes])).contains(
                .apply([transaction])))
        _ = tell(&replicator, .heads(heads()))
        #expect(
            tell(&replicator, .notification([transaction.bytes])).contains(.apply([transaction])))
    }

    /// Two nodes that start together may meet in any order. A pull that was dropped because the
    /// asked did not know the asker yet cost the asker its whole time-out, two seconds.
    @Test("A pull that comes before the peer's heads is answered as soon as they are there")
    func earlyPull() {
        var replicator = replicator()
        let pull = Message.pull(Pull(id: 7, vector: VersionVector(), credit: 1 << 20))
        func reads(_ effects: [Effect]) -> Int {
            effects.count { if case .readLog = $0 { true } else { false } }
        }
        #expect(reads(tell(&replicator, pull)) == 0)
        #expect(reads(tell(&replicator, .heads(heads()))) == 1)
        #expect(reads(tell(&replicator, .heads(heads()))) == 0)
    }

    @Test("A pull of a peer whose model differs is not answered")
    func refusedPull() {
        var replicator = replicator()
        let other = [UInt8](repeating: 9, count: 32)
        _ = tell(&replicator, .heads(heads(model: other)))
        let pull = Message.pull(Pull(id: 7, vector: VersionVector(), credit: 1 << 20))
        let effects = tell(&replicator, pull)
        #expect(!effects.contains { if case .readLog = $0 { true } else { false } })
    }

    @Test("The queue keeps its bounds whatever arrives early, and keeps what is nearest")
    func queueBound() {
        var limits = Limits()
        limits.waitingCount = 100
        limits.backlogCount = 1_000
        var replicator = replicator(limits)
        _ = tell(&replicator, .heads(heads()))
        let transactions = chain(count: 500)
        for transaction in transactions[1...].reversed() {
            _ = tell(&replicator, .notification([transaction.bytes]))
            #expect(replicator.status.gauges.waitingCount <= 100)
        }
        #expect(replicator.status.gauges.droppedCount == 399)
        let effects = tell(&replicator, .notification([transactions[0].bytes]))
        #expect(effects.contains(.apply(Array(transactions[..<101]))))
        #expect(replicator.status.gauges.waitingCount == 0)
        #expect(replicator.status.gauges.waitingBytes == 0)
    }

    @Test("The queue keeps its bound in bytes, too")
    func queueBytes() {
        var limits = Limits()
        limits.waitingBytes = 10_000
        var replicator = replicator(limits)
        _ = tell(&replicator, .heads(heads()))
        for transaction in chain(count: 100, bytes: 1_000)[1...] {
            _ = tell(&replicator, .notification([transaction.bytes]))
        }
        #expect(replicator.status.gauges.waitingBytes <= 10_000)
        #expect(replicator.status.gauges.waitingCount > 5)
    }

    @Test("While the store does not answer, what is published is dropped beyond the backlog")
    func stuckStore() {
        var limits = Limits()
        limits.backlogCount = 50
        var replicator = replicator(limits)
        _ = tell(&replicator, .heads(heads()))
        for transaction in chain(count: 500) {
            _ = tell(&replicator, .notification([transaction.bytes]))
        }
        #expect(replicator.status.gauges.applyingCount == 50)
        #expect(replicator.status.gauges.pullsOutstanding == 0)
    }

    /// Seed 2003820: up to four peers are asked at once, and an answer that is overdue is taken
    /// too, so that pages piled up on a store that was behind, one a peer.
    @Test("Of the pages that come at once only one goes beyond the backlog; the rest comes later")
    func pagesAtOnce() throws {
        var limits = Limits()
        limits.backlogCount = 5
        limits.waitingCount = 5
        var replicator = replicator(limits)
        let third = ActorID(node: World.id(3), incarnation: 9)
        let written = [2: chain(count: 10), 3: chain(third, count: 10)]
        func all(_ actor: ActorID) -> VersionVector {
            VersionVector([.init(actor: actor, sequence: 10)])
        }
        var effects =
            tell(&replicator, .heads(heads(vector: all(Self.other))))
            + tell(&replicator, .heads(heads(third, vector: all(third))), from: 3)
        var (now, most): (UInt64, Int) = (1, 0)
        var vector = VersionVector()
        var batch: [EncodedTransaction] = []
        // The peers answer at once; the store only when no answer is on its way.
        for _ in 1...50 {
            var next: [Effect] = []
            for effect in effects {
                if case .apply(let taken) = effect { batch = taken }
                guard case .send(let peer, let bytes) = effect,
                    case .pull(let pull) = try Envelope.decode(bytes, cluster: "test").message
                else { continue }
                let node = Int(peer.rawValue)
                let missing = try #require(written[node]).filter { !pull.vector.contains($0.dot) }
                let page = Page(
                    id: pull.id, transactions: missing.map(\.bytes), reachedEnd: true,
                    vector: VersionVector())
                next += tell(&replicator, .page(page), from: node, now: now)
                most = max(most, replicator.status.gauges.applyingCount)
            }
            if next.isEmpty, !batch.isEmpty {
                for transaction in batch { vector.advance(to: transaction.dot) }
                batch = []
                let state = StoreState(vector: vector, digest: ProjectionDigest())
                next = replicator.handle(.applied(state: state, rejected: [], now: now))
            } else if next.isEmpty {
                now += 1_000
                next = replicator.handle(.tick(now: now, wallMilliseconds: World.wallStart + now))
            }
            effects = next
        }
        #expect(most == 10)
        #expect(vector[Self.other] == 10 && vector[third] == 10)
    }

    @Test("Damage quarantines the link: a minute, then two; other peers go on")
    func quarantine() {
        var replicator = replicator()
        _ = tell(&replicator, .heads(heads()))
        let garbage = Input.messageReceived(
            bytes: [1, 2, 3], from: World.id(2), over: .exchange, now: 10)
        let until = replicator.handle(garbage).compactMap { effect -> UInt64? in
            if case .quarantined(_, _, let until) = effect { until } else { nil }
        }
        #expect(until == [60_010])
        let transactions = chain(count: 2)
        #expect(tell(&replicator, .notification([transactions[0].bytes]), now: 20).isEmpty)
        let third = ActorID(node: World.id(3), incarnation: 1)
        _ = tell(&replicator, .heads(heads(third)), from: 3, now: 30)
        let good = chain(third, count: 1)[0]
        #expect(
            tell(&replicator, .notification([good.bytes]), from: 3, now: 40)
                .contains(.apply([good])))
        _ = replicator.handle(.tick(now: 60_010, wallMilliseconds: World.wallStart + 60_010))
        let again = replicator.handle(
            .messageReceived(bytes: [9], from: World.id(2), over: .publish, now: 60_020))
        #expect(
            again.contains {
                if case .quarantined(_, _, 180_020) = $0 { true } else { false }
            })
        #expect(replicator.status.peers[0].quarantinedUntil == 180_020)
        _ = replicator.handle(.quarantineLifted(World.id(2), now: 60_030))
        #expect(replicator.status.peers[0].quarantinedUntil == nil)
    }

    @Test("Damage on a socket that cannot tell its sender harms nobody and is told of once")
    func unknownSocket() {
        var replicator = replicator()
        _ = tell(&replicator, .heads(heads()))
        let damaged = Input.messageReceived(bytes: [1], from: nil, over: .publish, now: 5)
        #expect(replicator.handle(damaged).count == 1)
        #expect(replicator.handle(damaged).isEmpty)
        let transaction = chain(count: 1)[0]
        let bytes = Envelope(
            cluster: "test", sender: World.id(2), message: .notification([transaction.bytes])
        ).encoded()
        #expect(
            replicator.handle(
                .messageReceived(bytes: bytes, from: nil, over: .publish, now: 6))
                == [.apply([transaction])])
    }

    @Test("A transaction that is no transaction quarantines who sent it")
    func badTransaction() {
        var replicator = replicator()
        _ = tell(&replicator, .heads(heads()))
        var bytes = chain(count: 1)[0].bytes
        bytes.removeLast()
        _ = tell(&replicator, .notification([bytes]))
        #expect(replicator.status.peers[0].quarantinedUntil == 60_001)
    }

    @Test("A peer with another model is refused once, on both sides, until its heads fit")
    func otherModel() {
        let world = World(seed: 1)
        world.addNode(1, peers: [2])
        world.addNode(2, model: [UInt8](repeating: 8, count: 32), peers: [1])
        world.start()
        world.save(0)
        world.save(1)
        world.run(5_000)
        for index in 0...1 {
            #expect(world.nodes[index].store.log.count == 1)
            #expect(world.nodes[index].alarms.count == 1)
            #expect(world.status(index).peers[0].refusal?.part == .model)
        }
        world.stop(1)
        world.restart(1)
        world.run(3_000)
        #expect(world.isConverged)
        #expect(world.status(0).peers[0].refusal == nil)
    }

    @Test("A peer of another cluster is refused once, on both sides")
    func otherCluster() {
        let world = World(seed: 1)
        world.addNode(1, peers: [2])
        world.addNode(2, cluster: "elsewhere", peers: [1])
        world.start()
        world.save(0)
        world.save(1)
        world.run(5_000)
        for index in 0...1 {
            #expect(world.nodes[index].store.log.count == 1)
            #expect(world.nodes[index].alarms.count == 1)
            #expect(world.status(index).peers[0].refusal?.part == .cluster)
        }
    }

    @Test("Equal vectors with different digests raise an alarm, once a vector")
    func digestMismatch() {
        var replicator = replicator()
        let bad = ProjectionDigest(high: 1, low: 1)
        let alarm = Effect.alarm(
            .digestMismatch(
                peer: World.id(2), vector: VersionVector(), ours: ProjectionDigest(), theirs: bad))
        #expect(tell(&replicator, .heads(heads(digest: bad))).contains(alarm))
        #expect(!tell(&replicator, .heads(heads(digest: bad))).contains(alarm))
        #expect(!tell(&replicator, .heads(heads())).contains(alarm))
    }

    @Test("What a peer last told of its digest is kept, unless its model is another")
    func toldDigest() {
        var replicator = replicator()
        let digest = ProjectionDigest(high: 1, low: 1)
        _ = tell(&replicator, .heads(heads(digest: digest)))
        #expect(
            replicator.status.peers.first?.told
                == ToldDigest(vector: VersionVector(), digest: digest))
        _ = tell(&replicator, .hello(heads()))
        #expect(replicator.status.peers.first?.told?.digest == ProjectionDigest())
        var strange = heads()
        strange.modelHash = [UInt8](repeating: 9, count: 32)
        _ = tell(&replicator, .heads(strange))
        #expect(replicator.status.peers.first?.told == nil)
    }

    @Test("A timestamp far ahead is held with what depends on it, and applied in its time")
    func future() {
        let world = World(seed: 1)
        world.addNodes(2)
        world.start()
        world.run(1_000)
        world.save(0, ahead: 310_000)
        world.run(10)
        world.save(0)
        world.run(5_000)
        #expect(world.nodes[1].store.log.isEmpty)
        let held = world.status(1).held
        #expect(held.map(\.dot.sequence) == [1])
        #expect(world.nodes[1].alarms.count == 1)
        #expect(world.status(1).gauges.pullCount == 0)
        world.save(1)
        world.run(100)
        #expect(world.nodes[0].store.log.count == 3)
        world.run(10_000)
        #expect(world.isConverged)
        #expect(world.status(1).held.isEmpty)
    }

    @Test("A rejected transaction is held, blocks only what depends on it, and is tried again")
    func rejected() {
        let world = World(seed: 1)
        world.addNodes(3)
        world.nodes[2].store.refused = [Dot(actor: world.nodes[0].actor, sequence: 1)]
        world.start()
        world.run(1_000)
        world.cut = [102]
        world.save(0, count: 3)
        world.save(1, count: 2)
        world.run(1_000)
        #expect(world.nodes[2].store.log.map(\.dot.actor.node) == [World.id(2), World.id(2)])
        #expect(world.status(2).held.map(\.reason) == [.rejected("no such row")])
        #expect(world.status(2).gauges.waitingCount == 3)
        world.cut = []
        world.run(70_000)
        #expect(world.nodes[2].alarms.count == 1)
        world.nodes[2].store.refused = []
        world.run(70_000)
        #expect(world.isConverged)
        #expect(world.status(2).held.isEmpty)
    }

    @Test("Transactions of our own incarnation that we never wrote are refused with an alarm")
    func dotReused() {
        var replicator = replicator()
        let stolen = chain(Self.own, count: 1)[0]
        let effects =
            tell(
                &replicator,
                .heads(heads(vector: VersionVector([.init(actor: Self.own, sequence: 1)]))))
            + tell(&replicator, .notification([stolen.bytes]))
        let alarms = effects.filter { if case .alarm = $0 { true } else { false } }
        #expect(alarms == [.alarm(.dotReused(stolen.dot, from: World.id(2)))])
        #expect(!effects.contains { if case .apply = $0 { true } else { false } })
        _ = replicator.handle(.tick(now: 1_000, wallMilliseconds: World.wallStart + 1_000))
        #expect(replicator.status.gauges.pullCount == 0)
    }

    // A member that is announced at this node's address ended it: it met itself there, at every start.
    @Test("At a peer's address a node may find itself, and is not its own double")
    func itself() {
        var replicator = replicator()
        func tellItself(_ message: Message) -> [Effect] {
            let bytes = Envelope(cluster: "test", sender: World.id(1), message: message).encoded()
            return replicator.handle(
                .messageReceived(bytes: bytes, from: World.id(2), over: .publish, now: 1))
        }
        let own = heads(Self.own)
        let alarm = Alarm.unexpectedSender(expected: World.id(2), claimed: World.id(1))
        #expect(tellItself(.notification([])).isEmpty)
        #expect(tellItself(.heads(own)) == [.alarm(alarm)])
        #expect(tellItself(.heads(own)).isEmpty)
        let twin = heads(ActorID(node: World.id(1), incarnation: 77))
        #expect(
            tellItself(.hello(twin)) == [.alarm(.twoNodesWithOneID(World.id(1), incarnation: nil))])
    }

    @Test("Another process with our number is told of once and not listened to")
    func sameNumber() {
        var replicator = replicator()
        let twin = heads(ActorID(node: World.id(1), incarnation: 77))
        #expect(
            tell(&replicator, .heads(twin), from: 1)
                == [.alarm(.twoNodesWithOneID(World.id(1), incarnation: nil))])
        #expect(tell(&replicator, .heads(twin), from: 1).isEmpty)
    }

    @Test("It is told of also where members refused it under ever more incarnations before")
    func sameNumberAtLast() {
        var limits = Limits()
        limits.peers = 8
        var replicator = replicator(limits)
        var told = 0
        for incarnation in 77..<100 {
            var introduction = heads(Self.own)
            introduction.met = [ActorID(node: World.id(1), incarnation: UInt64(incarnation))]
            let bytes = Envelope(
                cluster: "test", sender: World.id(1), message: .heads(introduction)
            ).encoded()
            for socket in [World.id(2), World.id(9)] {
                told +=
                    replicator.handle(
                        .messageReceived(bytes: bytes, from: socket, over: .exchange, now: 1)
                    ).count
            }
        }
        #expect(told == limits.peers)
        let twin = heads(ActorID(node: World.id(1), incarnation: 177))
        #expect(
            tell(&replicator, .heads(twin), from: 1)
                == [.alarm(.twoNodesWithOneID(World.id(1), incarnation: nil))])
    }

    @Test("A peer that asks and asks costs one log read at a time, and one page within its credit")
    func slowPeer() {
        var replicator = replicator()
        _ = tell(&replicator, .heads(heads()))
        var reads: [UInt64] = []
        for id in 1...1_000 {
            let pull = Pull(id: UInt64(id), vector: VersionVector(), credit: .max)
            for case .readLog(let id, _, let limit) in tell(&replicator, .pull(pull)) {
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
        guard case .reply(_, let bytes)? = effects.first, effects.count == 1,
            let envelope = try? Envelope.decode(bytes, cluster: "test"),
            case .page(let page) = envelope.message
        else {
            Issue.record("expected one page")
            return
        }
        #expect(page.id == 1_000)
        #expect(page.transactions.count == 41)
        #expect(!page.reachedEnd)
        #expect(replicator.status.gauges.readsOutstanding == 0)
    }

    /// Tells of a pull and answers the log reads that it makes with a log.
    ///
    /// - Returns: the message that it was answered with, and how often the log was read.
    private func ask(
        _ replicator: inout Replicator, _ pull: Pull, from node: Int,
        log: [EncodedTransaction], now: UInt64 = 1
    ) throws -> (answer: Message?, reads: Int) {
        var effects = tell(&replicator, .pull(pull), from: node, now: now)
        var reads = 0
        for case .readLog(let id, let after, _) in effects {
            reads += 1
            let left = log.filter { !after.contains($0.dot) }.map(\.bytes)
            effects += replicator.handle(
                .logRead(id: id, transactions: left, reachedEnd: true, now: now))
        }
        let answers = try effects.compactMap { effect -> Message? in
            guard case .reply(_, let bytes) = effect else { return nil }
            return try Envelope.decode(bytes, cluster: "test").message
        }
        return (answers.first, reads)
    }

    /// A replicator with short pages, agreed with both peers, and a log of two long transactions.
    private func donor(
        outgoingBytes: Int? = nil
    ) throws -> (replicator: Replicator, log: [EncodedTransaction]) {
        let third = ActorID(node: World.id(3), incarnation: 9)
        let log = [Self.other, third].map { chain($0, count: 1, bytes: 10_000)[0] }
        var limits = Limits()
        limits.pageBytes = 1_000
        limits.notificationBytes = 1_000
        limits.outgoingBytes = outgoingBytes ?? 21_000
        var replicator = replicator(limits)
        _ = tell(&replicator, .heads(heads()))
        _ = tell(&replicator, .heads(heads(third)), from: 3)
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
    func pullTimeout() {
        var replicator = replicator()
        let missing = VersionVector([.init(actor: Self.other, sequence: 3)])
        let third = ActorID(node: World.id(3), incarnation: 1)
        _ = tell(&replicator, .heads(heads(third)), from: 3)
        var asked: [NodeID] = []
        for now in stride(from: UInt64(10), to: 9_000, by: 50) {
            let effects =
                replicator.handle(.tick(now: now, wallMilliseconds: World.wallStart + now))
                + tell(&replicator, .heads(heads(vector: missing)), now: now)
                + tell(&replicator, .heads(heads(third, vector: missing)), from: 3, now: now)
            for case .send(let peer, let bytes) in effects {
                guard let envelope = try? Envelope.decode(bytes, cluster: "test"),
                    case .pull = envelope.message
                else { continue }
                asked.append(peer)
            }
        }
        #expect(asked.prefix(2) == [World.id(2), World.id(3)])
        #expect(asked.count <= 5)
    }

    @Test("Status tells how far each side is behind, and how far the clocks are apart")
    func status() {
        var replicator = replicator()
        let vector = VersionVector([.init(actor: Self.other, sequence: 12)])
        _ = tell(&replicator, .heads(heads(vector: vector)), now: 50)
        let peer = replicator.status.peers[0]
        #expect(peer.missingHere == 12)
        #expect(peer.missingThere == 0)
        #expect(peer.clockOffsetMilliseconds == 200)
        #expect(peer.isConnected && peer.isAgreed && peer.isPulling)
        _ = replicator.handle(.tick(now: 5_051, wallMilliseconds: World.wallStart))
        #expect(!replicator.status.peers[0].isConnected)
    }
}
