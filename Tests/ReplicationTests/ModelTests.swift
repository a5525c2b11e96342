import Merge
import Replication
import Testing

/// Peers whose models differ, told to one replicator by hand.
@Suite struct ModelTests {
    private static let first = ModelText(hash: [UInt8](repeating: 1, count: 32), text: [1])
    private static let second = ModelText(hash: [UInt8](repeating: 2, count: 32), text: [2])
    private static let third = ModelText(hash: [UInt8](repeating: 3, count: 32), text: [3])

    private static func actor(_ node: Int) -> ActorID { ActorID(node, UInt64(node) << 32) }

    /// Node 1, which hears nodes 2 and 3.
    private struct Subject {
        var replicator: Replicator
        var now: UInt64 = 0

        init(_ models: [ModelText], limits: Limits = Limits()) {
            replicator = Replicator(
                started: ModelTests.actor(1), models.last?.hash ?? [], models: models,
                peers: [2, 3], limits: limits)
        }

        @discardableResult
        mutating func hear(_ message: Message, from node: Int) -> [Effect] {
            replicator.hear(message, from: node, now: now)
        }

        /// Hears a list of models, which answers one.
        @discardableResult
        mutating func hear(_ models: ModelText..., from node: Int) -> [Effect] {
            hear(.models(ModelList(isAnswer: true, models: models)), from: node)
        }

        @discardableResult
        mutating func hearHeads(
            _ model: ModelText, _ vector: VersionVector = VersionVector(), from node: Int
        ) -> [Effect] {
            hear(
                .heads(Heads(ModelTests.actor(node), vector: vector, modelHash: model.hash)),
                from: node)
        }

        @discardableResult
        mutating func tick(_ milliseconds: UInt64) -> [Effect] {
            now += milliseconds
            return replicator.handle(.tick(now: now, wallMilliseconds: World.wallStart + now))
        }

        func peer(_ node: Int) -> PeerStatus? {
            replicator.status.peers.first { $0.node == World.id(node) }
        }
    }

    private func transaction(
        _ node: Int, _ sequence: UInt64, _ model: ModelText, seen: VersionVector = VersionVector()
    ) throws -> EncodedTransaction {
        let actor = Self.actor(node)
        var seen = seen
        if sequence > 1 { seen.advance(actor, to: sequence - 1) }
        return EncodedTransaction(
            Transaction(
                dot: Dot(actor: actor, sequence: sequence),
                timestamp: try #require(
                    HybridTimestamp(milliseconds: 1_800_000_000_000, counter: UInt16(sequence))),
                seen: seen, modelHash: model.hash,
                shapes: [ChangeShape(entity: "E", assigned: [])],
                changes: [
                    Change(kind: .insert, shape: 0, row: RowID(Int64(node) << 40 | Int64(sequence)))
                ]))
    }

    private func vector(_ entries: (Int, UInt64)...) -> VersionVector {
        var vector = VersionVector()
        for (node, sequence) in entries { vector.advance(Self.actor(node), to: sequence) }
        return vector
    }

    @Test("A peer whose list has our model is agreed with, and both tell their lists")
    func newerPeer() throws {
        var subject = Subject([Self.first])
        let told = try subject.hearHeads(Self.second, from: 2).sent(to: 2)
        #expect(told.contains(.models(ModelList(isAnswer: false, models: [Self.first]))))
        #expect(subject.peer(2)?.isAgreed == false)
        #expect(subject.peer(2)?.refusal == nil)
        subject.now += 1_000
        subject.hear(Self.first, Self.second, from: 2)
        subject.hearHeads(Self.second, from: 2)
        #expect(subject.peer(2)?.isAgreed == true)
        // And one whose model is in ours is so at once.
        var newer = Subject([Self.first, Self.second])
        newer.hearHeads(Self.first, from: 2)
        #expect(newer.peer(2)?.isAgreed == true)
    }

    @Test("Texts of models are sent where pages are small: a frame has room for them")
    func smallPages() throws {
        var limits = Limits()
        limits.pageBytes = 256
        var subject = Subject([Self.first, Self.second], limits: limits)
        let told = try subject.hearHeads(Self.third, from: 2).sent(to: 2)
        let list = ModelList(isAnswer: false, models: [Self.first, Self.second])
        #expect(told.contains(.models(list)))
    }

    @Test("A peer that tells of ever other models has one compared in some seconds")
    func everOther() throws {
        var subject = Subject([Self.first])
        subject.hearHeads(Self.third, from: 2)
        var compared = 0
        for number in UInt8(10)..<60 {
            let text = ModelText(hash: [UInt8](repeating: number, count: 32), text: [number])
            let effects = subject.hear(text, from: 2)
            compared += effects.count { if case .compareModel = $0 { true } else { false } }
            subject.tick(200)
        }
        // Ten seconds, and one in five.
        #expect((1...3).contains(compared), "\(compared)")
    }

    @Test("A peer of another model is refused, and what differs is named once it is known")
    func stranger() throws {
        var subject = Subject([Self.first])
        subject.hearHeads(Self.third, from: 2)
        let effects = subject.hear(Self.third, from: 2)
        #expect(effects.contains(.compareModel(Self.third, of: Self.actor(2).node)))
        #expect(subject.peer(2)?.refusal?.part == .model)
        let compared = subject.replicator.handle(
            .modelCompared(
                Self.actor(2).node, hash: Self.third.hash, difference: "Person mergePolicy",
                now: subject.now))
        #expect(subject.peer(2)?.refusal?.difference == "Person mergePolicy")
        #expect(compared.contains { if case .alarm(.refused) = $0 { true } else { false } })
        // The difference stays, and so does the refusal, without another alarm.
        let again = subject.hearHeads(Self.third, from: 2)
        #expect(!again.contains { $0.isAlarm })
        #expect(subject.peer(2)?.refusal?.difference == "Person mergePolicy")
    }

    @Test("A peer that never sends its list is refused after a while")
    func silence() throws {
        var subject = Subject([Self.first])
        subject.hearHeads(Self.third, from: 2)
        #expect(subject.peer(2)?.refusal == nil)
        subject.tick(3_000)
        subject.hearHeads(Self.third, from: 2)
        #expect(subject.peer(2)?.refusal?.part == .model)
    }

    @Test("Transactions of a model that is not known are held, and keep nobody else's waiting")
    func held() throws {
        var subject = Subject([Self.first])
        subject.hearHeads(Self.second, from: 2)
        subject.hear(Self.first, Self.second, from: 2)
        subject.hearHeads(Self.second, vector((2, 3)), from: 2)
        subject.hearHeads(Self.first, vector((3, 1)), from: 3)
        let news = try (1...3).map { try transaction(2, $0, Self.second) }
        let effects = subject.hear(.notification(news.map(\.bytes)), from: 2)
        #expect(!effects.contains { $0.isApply })
        let status = subject.replicator.status
        let held = HeldTransaction(dot: news[0].dot, reason: .unknownModel(Self.second.hash))
        #expect(status.held == [held])
        // One is kept in memory, the others are left where they are and counted.
        #expect(status.gauges.waitingCount == 1)
        #expect(status.gauges.waitingForModelCount == 3)
        let other = try transaction(3, 1, Self.first)
        let applied = subject.hear(.notification([other.bytes]), from: 3)
        #expect(applied.contains(.apply([other])))
        _ = subject.replicator.handle(
            .applied(
                state: StoreState(vector: vector((3, 1)), digest: ProjectionDigest()),
                rejected: [], now: subject.now))
        // What cannot be applied is not asked for.
        for _ in 0..<20 {
            let asked = try subject.tick(500).sent(to: 2)
            #expect(!asked.contains { if case .pull = $0 { true } else { false } })
        }
    }

    @Test("What was held is pulled and applied by a node that has migrated")
    func migrated() throws {
        var subject = Subject([Self.first, Self.second])
        subject.hearHeads(Self.second, vector((2, 1)), from: 2)
        let transaction = try transaction(2, 1, Self.second)
        let effects = subject.hear(.notification([transaction.bytes]), from: 2)
        #expect(effects.contains(.apply([transaction])))
    }

    @Test("A node of the newest model learns of those before it from one that had them")
    func learning() throws {
        var subject = Subject([Self.second])
        subject.hearHeads(Self.second, vector((2, 1)), from: 2)
        let old = try transaction(2, 1, Self.first)
        subject.hear(.notification([old.bytes]), from: 2)
        #expect(subject.replicator.status.held.count == 1)
        let asked = try subject.tick(1_000).sent(to: 2)
        #expect(asked.contains(.models(ModelList(isAnswer: false, models: [Self.second]))))
        let effects = subject.hear(Self.first, Self.second, from: 2)
        #expect(effects.contains(.learnModels([Self.first])))
        let learnt = subject.replicator.handle(.modelsLearnt([Self.first], now: subject.now))
        #expect(learnt.contains(.apply([old])))
        #expect(subject.replicator.status.held.isEmpty)
    }

    @Test("Of a peer of a later model nothing is learnt: its list may be in another order")
    func laterPeer() throws {
        // Made with the second, migrated to the third, and told of the first then.
        var subject = Subject([Self.first])
        subject.hearHeads(Self.third, from: 2)
        let effects = subject.hear(Self.second, Self.first, Self.third, from: 2)
        #expect(!effects.contains { if case .learnModels = $0 { true } else { false } })
        subject.hearHeads(Self.third, from: 2)
        #expect(subject.peer(2)?.isAgreed == true)
        // One of the third learns of both.
        var newest = Subject([Self.third])
        newest.hearHeads(Self.third, from: 2)
        let learning = newest.hear(Self.second, Self.first, Self.third, from: 2)
        #expect(learning.contains(.learnModels([Self.second, Self.first])))
    }

    @Test("A former model that could not be recorded is taken up again when a peer tells of it")
    func learningAgain() throws {
        var subject = Subject([Self.second])
        subject.hearHeads(Self.second, vector((2, 1)), from: 2)
        let old = try transaction(2, 1, Self.first)
        subject.hear(.notification([old.bytes]), from: 2)
        subject.tick(1_000)
        let list = Message.models(ModelList(isAnswer: true, models: [Self.first, Self.second]))
        #expect(subject.hear(list, from: 2).contains(.learnModels([Self.first])))
        // Asked once it is not asked again, before it has answered.
        #expect(!subject.hear(list, from: 2).contains(.learnModels([Self.first])))
        _ = subject.replicator.handle(.modelsNotLearnt([Self.first], now: subject.now))
        #expect(subject.replicator.status.held.count == 1)
        var asked: [Message] = []
        for _ in 0..<8 {
            subject.hearHeads(Self.second, vector((2, 1)), from: 2)
            asked += try subject.tick(1_000).sent(to: 2)
        }
        #expect(asked.contains(.models(ModelList(isAnswer: false, models: [Self.second]))))
        #expect(subject.hear(list, from: 2).contains(.learnModels([Self.first])))
        let learnt = subject.replicator.handle(.modelsLearnt([Self.first], now: subject.now))
        #expect(learnt.contains(.apply([old])))
    }

    @Test("A list of models goes there and back as bytes, and is bounded")
    func coding() throws {
        let sender = Self.actor(2).node
        let list = Message.models(ModelList(isAnswer: true, models: [Self.first, Self.second]))
        let bytes = Envelope(cluster: "test", sender: sender, message: list).encoded()
        #expect(try Envelope.decode(bytes, cluster: "test").message == list)
        for models in [[], [ModelText(hash: [1], text: [])]] {
            let wrong = Message.models(ModelList(isAnswer: true, models: models))
            #expect(throws: MessageFailure.self) {
                _ = try Envelope.decode(
                    Envelope(cluster: "test", sender: sender, message: wrong).encoded(),
                    cluster: "test")
            }
        }
    }
}
