import Merge
import Replication
import Testing

@Suite("What is wrong with a peer stays with the peer")
struct ProtectionTests {
    private static let other = Reporter.second
    private static let own = Reporter.own

    @Test("At its start a node asks every peer where it stands, and publishes its own heads")
    func start() throws {
        var replicator = Replicator(
            configuration: .init(cluster: "test", actor: Self.own, modelHash: model),
            generator: SeededGenerator(seed: 1))
        let effects = replicator.handle(
            .started(
                state: .empty, peers: [2, 1, 3].map(World.id), now: 0, wallMilliseconds: 0))
        #expect(try effects.sent().map(\.peer) == [World.id(2), World.id(3)])
        #expect(effects.contains { $0.isPublish })
    }

    @Test("Nothing is merged from a peer before its heads have shown that it belongs to us")
    func handshakeFirst() {
        var replicator = Replicator.started()
        let transaction = chain(count: 1)[0]
        let notification = Message.notification([transaction.bytes])
        #expect(!replicator.hear(notification, from: 2).contains(.apply([transaction])))
        replicator.hear(.heads(Heads(Self.other)), from: 2)
        #expect(replicator.hear(notification, from: 2).contains(.apply([transaction])))
    }

    /// Two nodes that start together may meet in any order. A pull that was dropped because the
    /// asked did not know the asker yet cost the asker its whole time-out, two seconds.
    @Test("A pull that comes before the peer's heads is answered as soon as they are there")
    func earlyPull() {
        var replicator = Replicator.started()
        let pull = Message.pull(Pull(id: 7, vector: VersionVector(), credit: 1 << 20))
        let heads = Message.heads(Heads(Self.other))
        let reads = [pull, heads, heads].map { message in
            replicator.hear(message, from: 2).count { $0.isLogRead }
        }
        #expect(reads == [0, 1, 0])
    }

    @Test("A pull of a peer whose model differs is not answered")
    func refusedPull() {
        var replicator = Replicator.started()
        let other = [UInt8](repeating: 9, count: 32)
        replicator.hear(.heads(Heads(Self.other, modelHash: other)), from: 2)
        let pull = Message.pull(Pull(id: 7, vector: VersionVector(), credit: 1 << 20))
        let effects = replicator.hear(pull, from: 2)
        #expect(!effects.contains { $0.isLogRead })
    }

    @Test("The queue keeps its bounds whatever arrives early, and keeps what is nearest")
    func queueBound() {
        var limits = Limits()
        limits.waitingCount = 100
        limits.backlogCount = 1_000
        var replicator = Replicator.agreed(limits)
        let transactions = chain(count: 500)
        for transaction in transactions[1...].reversed() {
            replicator.hear(.notification([transaction.bytes]), from: 2)
            #expect(replicator.status.gauges.waitingCount <= 100)
        }
        #expect(replicator.status.gauges.droppedCount == 399)
        let effects = replicator.hear(.notification([transactions[0].bytes]), from: 2)
        #expect(effects.contains(.apply(Array(transactions[..<101]))))
        #expect(replicator.status.gauges.waitingCount == 0)
        #expect(replicator.status.gauges.waitingBytes == 0)
    }

    @Test("The queue keeps its bound in bytes, too")
    func queueBytes() {
        var limits = Limits()
        limits.waitingBytes = 10_000
        var replicator = Replicator.agreed(limits)
        for transaction in chain(count: 100, bytes: 1_000)[1...] {
            replicator.hear(.notification([transaction.bytes]), from: 2)
        }
        #expect(replicator.status.gauges.waitingBytes <= 10_000)
        #expect(replicator.status.gauges.waitingCount > 5)
    }

    @Test("While the store does not answer, what is published is dropped beyond the backlog")
    func stuckStore() {
        var limits = Limits()
        limits.backlogCount = 50
        var replicator = Replicator.agreed(limits)
        for transaction in chain(count: 500) {
            replicator.hear(.notification([transaction.bytes]), from: 2)
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
        var replicator = Replicator.started(limits)
        let third = ActorID(3, 9)
        let written = [2: chain(count: 10), 3: chain(third, count: 10)]
        func all(_ actor: ActorID) -> VersionVector {
            VersionVector([.init(actor: actor, sequence: 10)])
        }
        var effects =
            replicator.hear(.heads(Heads(Self.other, vector: all(Self.other))), from: 2)
            + replicator.hear(.heads(Heads(third, vector: all(third))), from: 3)
        var (now, most): (UInt64, Int) = (1, 0)
        var vector = VersionVector()
        var batch: [EncodedTransaction] = []
        // The peers answer at once; the store only when no answer is on its way.
        for _ in 1...50 {
            var next: [Effect] = []
            for case .apply(let taken) in effects { batch = taken }
            for case (let peer, .pull(let pull)) in try effects.sent() {
                let node = Int(peer.rawValue)
                let missing = try #require(written[node]).filter { !pull.vector.contains($0.dot) }
                let page = Page(
                    id: pull.id, transactions: missing.map(\.bytes), reachedEnd: true,
                    vector: VersionVector())
                next += replicator.hear(.page(page), from: node, now: now)
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
        var replicator = Replicator.agreed()
        let garbage = Input.messageReceived(
            bytes: [1, 2, 3], from: World.id(2), over: .exchange, now: 10)
        let until = replicator.handle(garbage).compactMap { effect -> UInt64? in
            if case .quarantined(_, _, let until) = effect { until } else { nil }
        }
        #expect(until == [60_010])
        let transactions = chain(count: 2)
        #expect(replicator.hear(.notification([transactions[0].bytes]), from: 2, now: 20).isEmpty)
        let third = ActorID(3, 1)
        replicator.hear(.heads(Heads(third)), from: 3, now: 30)
        let good = chain(third, count: 1)[0]
        #expect(
            replicator.hear(.notification([good.bytes]), from: 3, now: 40)
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

    @Test("Damage on a socket that does not know its sender harms nobody and is reported once")
    func unknownSocket() {
        var replicator = Replicator.agreed()
        let damaged = Input.messageReceived(bytes: [1], from: nil, over: .publish, now: 5)
        #expect(replicator.handle(damaged).count == 1)
        #expect(replicator.handle(damaged).isEmpty)
        let transaction = chain(count: 1)[0]
        let bytes = Envelope(
            cluster: "test", sender: World.id(2), message: .notification([transaction.bytes])
        ).encoded()
        let heard = Input.messageReceived(bytes: bytes, from: nil, over: .publish, now: 6)
        #expect(replicator.handle(heard) == [.apply([transaction])])
    }

    @Test("A transaction that is no transaction quarantines who sent it")
    func badTransaction() {
        var replicator = Replicator.agreed()
        var bytes = chain(count: 1)[0].bytes
        bytes.removeLast()
        replicator.hear(.notification([bytes]), from: 2)
        #expect(replicator.status.peers[0].quarantinedUntil == 60_001)
    }

    @Test(
        "A peer of another model or cluster is refused once, on both sides",
        arguments: [Refusal.Part.model, .cluster])
    func otherModelOrCluster(part: Refusal.Part) {
        let world = World(seed: 1)
        world.addNode(1, peers: [2])
        if part == .model {
            world.addNode(2, model: [UInt8](repeating: 8, count: 32), peers: [1])
        } else {
            world.addNode(2, cluster: "elsewhere", peers: [1])
        }
        world.start()
        world.save(0)
        world.save(1)
        world.run(5_000)
        for index in 0...1 {
            #expect(world.nodes[index].store.log.count == 1)
            #expect(world.nodes[index].alarms.count == 1)
            #expect(world.status(index).peers[0].refusal?.part == part)
        }
        // Once it starts as one of ours it is agreed with.
        world.stop(1)
        world.restart(1)
        world.run(3_000)
        #expect(world.isConverged)
        #expect(world.status(0).peers[0].refusal == nil)
    }

    @Test("Equal vectors with different digests raise an alarm, once a vector")
    func digestMismatch() {
        var replicator = Replicator.started()
        let bad = ProjectionDigest(high: 1, low: 1)
        let alarm = Effect.alarm(
            .digestMismatch(
                peer: World.id(2), vector: VersionVector(), ours: ProjectionDigest(), theirs: bad))
        #expect(replicator.hear(.heads(Heads(Self.other, digest: bad)), from: 2).contains(alarm))
        #expect(!replicator.hear(.heads(Heads(Self.other, digest: bad)), from: 2).contains(alarm))
        #expect(!replicator.hear(.heads(Heads(Self.other)), from: 2).contains(alarm))
    }

    @Test("What a peer last told of its digest is kept, unless its model is another")
    func toldDigest() {
        var replicator = Replicator.started()
        let digest = ProjectionDigest(high: 1, low: 1)
        replicator.hear(.heads(Heads(Self.other, digest: digest)), from: 2)
        let told = ToldDigest(vector: VersionVector(), digest: digest)
        #expect(replicator.status.peers.first?.told == told)
        replicator.hear(.hello(Heads(Self.other)), from: 2)
        #expect(replicator.status.peers.first?.told?.digest == ProjectionDigest())
        let strange = Heads(Self.other, modelHash: [UInt8](repeating: 9, count: 32))
        replicator.hear(.heads(strange), from: 2)
        #expect(replicator.status.peers.first?.told == nil)
    }

    @Test("A timestamp far ahead is held with what depends on it, and applied in its time")
    func future() {
        let world = World(seed: 1, started: 2)
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
        var replicator = Replicator.started()
        let stolen = chain(Self.own, count: 1)[0]
        let heads = Heads(Self.other, vector: VersionVector(upTo: [stolen.dot]))
        let effects =
            replicator.hear(.heads(heads), from: 2)
            + replicator.hear(.notification([stolen.bytes]), from: 2)
        let alarms = effects.filter { $0.isAlarm }
        #expect(alarms == [.alarm(.dotReused(stolen.dot, from: World.id(2)))])
        #expect(!effects.contains { $0.isApply })
        _ = replicator.handle(.tick(now: 1_000, wallMilliseconds: World.wallStart + 1_000))
        #expect(replicator.status.gauges.pullCount == 0)
    }

    // A member that is announced at this node's address ended it: it met itself there, at every start.
    @Test("At a peer's address a node may find itself, and is not its own double")
    func itself() {
        var replicator = Replicator.started()
        func tellItself(_ message: Message) -> [Effect] {
            replicator.hear(message, from: 2, named: 1, over: .publish)
        }
        let own = Heads(Self.own)
        let alarm = Alarm.unexpectedSender(expected: World.id(2), claimed: World.id(1))
        #expect(tellItself(.notification([])).isEmpty)
        #expect(tellItself(.heads(own)) == [.alarm(alarm)])
        #expect(tellItself(.heads(own)).isEmpty)
        let twin = Heads(ActorID(1, 77))
        #expect(
            tellItself(.hello(twin)) == [.alarm(.twoNodesWithOneID(World.id(1), incarnation: nil))])
    }

    @Test("Another process with our number is reported once and not listened to")
    func sameNumber() {
        var replicator = Replicator.started()
        let twin = Message.heads(Heads(ActorID(1, 77)))
        let alarm = Alarm.twoNodesWithOneID(World.id(1), incarnation: nil)
        #expect(replicator.hear(twin, from: 1) == [.alarm(alarm)])
        #expect(replicator.hear(twin, from: 1).isEmpty)
    }

    @Test("It is reported also if members refused it under ever more incarnations before")
    func sameNumberAtLast() {
        var limits = Limits()
        limits.peers = 8
        var replicator = Replicator.started(limits)
        var told = 0
        for incarnation in 77..<100 {
            var introduction = Heads(Self.own)
            introduction.met = [ActorID(1, UInt64(incarnation))]
            for socket in [2, 9] {
                told += replicator.hear(.heads(introduction), from: socket, named: 1).count
            }
        }
        #expect(told == limits.peers)
        let twin = replicator.hear(.heads(Heads(ActorID(1, 177))), from: 1)
        #expect(twin == [.alarm(.twoNodesWithOneID(World.id(1), incarnation: nil))])
    }

    @Test("Status tells how far each side is behind, and how far the clocks are apart")
    func status() {
        var replicator = Replicator.started()
        let vector = VersionVector([.init(actor: Self.other, sequence: 12)])
        let heads = Heads(Self.other, vector: vector, wallMilliseconds: World.wallStart + 250)
        replicator.hear(.heads(heads), from: 2, now: 50)
        let peer = replicator.status.peers[0]
        #expect(peer.missingHere == 12)
        #expect(peer.missingThere == 0)
        #expect(peer.clockOffsetMilliseconds == 200)
        #expect(peer.isConnected && peer.isAgreed && peer.isPulling)
        _ = replicator.handle(.tick(now: 5_051, wallMilliseconds: World.wallStart))
        #expect(!replicator.status.peers[0].isConnected)
    }
}
