import Merge
import Testing

@testable import Replication

@Suite("The causal queue")
struct CausalQueueTests {
    private static let year: UInt64 = 365 * 86_400_000

    private static func actor(_ number: Int) -> ActorID { ActorID(2, UInt64(number)) }

    private static func queue(_ change: (inout Limits) -> Void = { _ in }) -> CausalQueue {
        var limits = Limits()
        change(&limits)
        var queue = CausalQueue(limits: limits)
        queue.horizon = World.wallStart
        return queue
    }

    /// The first transaction of an actor, a year ahead or not.
    private static func first(_ number: Int, ahead: UInt64 = year) -> EncodedTransaction {
        makeTransaction(
            Dot(actor: actor(number), sequence: 1), seen: VersionVector(),
            milliseconds: World.wallStart + ahead)
    }

    /// A page of them froze the loop: each that came had all lanes looked at, and all holds for each.
    @Test("However many actors are made up far ahead, each costs a look, and holds are bounded")
    func madeUpActors() {
        var queue = Self.queue {
            $0.waitingCount = 400
            $0.actors = 600
        }
        for number in 1...2_000 {
            let outcome = queue.insert(Self.first(number))
            #expect(outcome == .waitsForSeen)
            #expect(min(number, 400)...600 ~= queue.holds.count)
        }
        #expect(queue.waitingCount == 400 && queue.droppedCount == 1_600)
        let told = queue.takeNewHolds().count
        #expect(told == Limits().peers)
        // Others' go on beside them.
        var seen = VersionVector()
        for sequence in 1...500 {
            let dot = Dot(actor: Self.actor(3_000), sequence: UInt64(sequence))
            let outcome = queue.insert(makeTransaction(dot, seen: seen))
            #expect(outcome == .deliverable)
            seen.advance(to: dot)
        }
        #expect(queue.looksCount == 2_000)
        queue.horizon += Self.year
        queue.release(now: 1)
        #expect(queue.holds.isEmpty && queue.waitingCount == 0 && queue.applyingCount == 900)
    }

    @Test("Of more actors than there are nodes only what can be applied at once is taken in")
    func lanes() {
        var queue = Self.queue { $0.lanes = 3 }
        for number in 1...5 {
            let outcome = queue.insert(Self.first(number))
            #expect(outcome == .waitsForSeen)
        }
        #expect(queue.waitingCount == 3 && queue.droppedCount == 2)
        let outcome = queue.insert(Self.first(6, ahead: 0))
        #expect(outcome == .deliverable)
        queue.horizon += Self.year
        queue.release(now: 1)
        let late = queue.insert(Self.first(4))
        #expect(late == .deliverable && queue.waitingCount == 0 && queue.applyingCount == 5)
    }

    /// Seed 1000007525: a new store never heard of the model that its first transactions are of, for
    /// what came after them had taken the room.
    @Test("What waits for its model is noted though there is no room, and applied once it is known")
    func modelInACrowd() {
        let (known, former) = ([UInt8](repeating: 1, count: 32), [UInt8](repeating: 2, count: 32))
        var queue = Self.queue { $0.lanes = 1 }
        queue.models = [known]
        let first = Dot(actor: Self.actor(1), sequence: 1)
        let second = Dot(actor: Self.actor(2), sequence: 1)
        let later = makeTransaction(
            second, seen: VersionVector([.init(actor: first.actor, sequence: 1)]),
            milliseconds: World.wallStart, modelHash: known)
        let earlier = makeTransaction(
            first, seen: VersionVector(), milliseconds: World.wallStart, modelHash: former)
        let outcomes = [later, earlier].map { queue.insert($0) }
        #expect(outcomes == [.waitsForSeen, .waitsForSeen])
        #expect(queue.waitingCount == 1 && queue.droppedCount == 1)
        #expect(queue.holdsForModel)
        queue.models.insert(former)
        queue.release(now: 1)
        let again = queue.insert(earlier)
        #expect(again == .deliverable && queue.waitingCount == 0 && queue.applyingCount == 2)
        #expect(queue.holds.isEmpty)
    }

    /// A byte each on the wire; decoded, each of them took 24.
    private static func nulls(_ number: Int, values: Int, changes: Int) -> EncodedTransaction {
        let names = (0..<values).map { "p\($0)" }
        let dot = Dot(actor: actor(number), sequence: 1)
        return EncodedTransaction(
            Transaction(
                dot: dot, timestamp: .zero, seen: VersionVector(), modelHash: model,
                shapes: [ChangeShape(entity: "Note", assigned: names)],
                changes: (0..<changes).map {
                    Change(
                        kind: .update, shape: 0,
                        row: RowID(node: dot.actor.node, block: 1, counter: UInt32($0)),
                        values: Array(repeating: .null, count: values))
                }))
    }

    @Test("What waits takes what was sent, and of what is applied the values count as well")
    func values() {
        var queue = Self.queue { $0.applyValues = 250_000 }
        let all = (1...3).map { Self.nulls($0, values: 1_000, changes: 100) }
        for transaction in all {
            #expect(transaction.bytes.count < 120_000)
            _ = queue.insert(transaction)
        }
        #expect(queue.applyingBytes == all.reduce(0) { $0 + $1.bytes.count })
        let first = queue.takeBatch()
        #expect(first == Array(all[0..<2]))
        var vector = VersionVector()
        for transaction in first { vector.advance(to: transaction.dot) }
        _ = queue.finishBatch(vector: vector, rejected: [], now: 1)
        let second = queue.takeBatch()
        #expect(second == [all[2]])
    }

    @Test("Made-up actors that lack something cost a look each as well")
    func gaps() {
        var queue = Self.queue { $0.waitingCount = 400 }
        for number in 1...2_000 {
            var seen = VersionVector()
            seen.advance(Self.actor(9_000), to: UInt64(1 + number % 7))
            let dot = Dot(actor: Self.actor(number), sequence: 1)
            let outcome = queue.insert(makeTransaction(dot, seen: seen))
            #expect(outcome == .waitsForSeen)
        }
        var seen = VersionVector()
        for sequence in 1...500 {
            let dot = Dot(actor: Self.actor(8_000), sequence: UInt64(sequence))
            let outcome = queue.insert(makeTransaction(dot, seen: seen))
            #expect(outcome == .deliverable)
            seen.advance(to: dot)
        }
        #expect(queue.looksCount == 2_000)
        #expect(queue.waitingCount == 400 && queue.holds.isEmpty)
    }

    @Test("What would be held beyond the bound is dropped, and taken when it comes again")
    func holdBound() {
        var queue = Self.queue { $0.actors = 3 }
        for number in 1...5 { _ = queue.insert(Self.first(number)) }
        #expect(queue.holds.map(\.dot.actor) == (1...3).map(Self.actor))
        #expect(queue.waitingCount == 3 && queue.droppedCount == 2)
        #expect(!queue.has(Self.first(5).dot))
        queue.horizon += Self.year
        queue.release(now: 1)
        let outcome = queue.insert(Self.first(5))
        #expect(outcome == .deliverable)
    }

    /// Seed 923: what waited for its model was pulled again and again, and no copy was asked for.
    @Test("A held transaction stays so, and is reported once, though dropped for lack of room")
    func droppedHold() {
        var queue = Self.queue { $0.waitingCount = 1 }
        for number in [1, 2, 1, 2] { _ = queue.insert(Self.first(number)) }
        #expect(queue.holds.map(\.dot.actor) == [1, 2].map(Self.actor))
        #expect(queue.waitingCount == 1 && queue.droppedCount == 2)
        let told = queue.takeNewHolds().map(\.dot.actor)
        #expect(told == [1, 2].map(Self.actor))
    }

    @Test("What was rejected beyond that bound is dropped as well, and taken when it comes again")
    func rejectedBound() {
        var queue = Self.queue { $0.actors = 1 }
        let both = [1, 2].map { Self.first($0, ahead: 0) }
        for transaction in both { _ = queue.insert(transaction) }
        let batch = queue.takeBatch()
        #expect(batch == both)
        let rejected = both.map { Rejection(dot: $0.dot, reason: "no such row") }
        let isForward = queue.finishBatch(vector: VersionVector(), rejected: rejected, now: 1)
        #expect(!isForward)
        #expect(queue.holds.map(\.dot) == [both[0].dot])
        #expect(queue.waitingCount == 1 && queue.applyingCount == 0 && queue.droppedCount == 1)
        #expect(queue.deliveredCount == 0 && queue.applyingBytes == 0)
        let outcome = queue.insert(both[1])
        #expect(outcome == .deliverable)
    }

    @Test("All that could be applied is ready, in causal order, in whatever order it came")
    func allIsReady() {
        for seed in UInt64(1)...40 {
            var generator = SeededGenerator(seed: seed)
            let all = Self.history(200, &generator)
            var queue = Self.queue()
            var applied = VersionVector()
            var here: [EncodedTransaction] = []
            for transaction in all.shuffled(using: &generator) {
                _ = queue.insert(transaction)
                here.append(transaction)
                #expect(queue.delivered == Self.closure(of: here))
                #expect(queue.waitingCount == here.count { !queue.delivered.contains($0.dot) })
                guard Int.random(in: 0..<8, using: &generator) == 0 else { continue }
                let batch = queue.takeBatch()
                // Now and then a part of a batch cannot be applied.
                let isWhole = Bool.random(using: &generator)
                for applying in batch.prefix(isWhole ? batch.count : batch.count / 2) {
                    #expect(applied.covers(applying.transaction.seen))
                    applied.advance(to: applying.dot)
                }
                _ = queue.finishBatch(vector: applied, rejected: [], now: 1)
                #expect(queue.delivered == Self.closure(of: here))
            }
            #expect(queue.waitingCount == 0 && queue.waitingBytes == 0)
        }
    }

    /// Saves of a few actors. Each has seen some of the others'.
    private static func history(
        _ count: Int, _ generator: inout SeededGenerator
    ) -> [EncodedTransaction] {
        var vectors = [VersionVector](repeating: VersionVector(), count: 12)
        return (0..<count).map { _ in
            let index = Int.random(in: vectors.indices, using: &generator)
            let other = Int.random(in: vectors.indices, using: &generator)
            if Bool.random(using: &generator) { vectors[index].join(vectors[other]) }
            let actor = actor(index + 1)
            let dot = Dot(actor: actor, sequence: vectors[index][actor] + 1)
            defer { vectors[index].advance(to: dot) }
            return makeTransaction(dot, seen: vectors[index])
        }
    }

    /// All that could be applied of what is here.
    private static func closure(of transactions: [EncodedTransaction]) -> VersionVector {
        var (vector, isMoving) = (VersionVector(), true)
        while isMoving {
            isMoving = false
            for transaction in transactions where !vector.contains(transaction.dot) {
                guard vector.covers(transaction.transaction.seen) else { continue }
                vector.advance(to: transaction.dot)
                isMoving = true
            }
        }
        return vector
    }
}

extension CausalQueue {
    /// Takes a transaction in as it would come from a peer.
    mutating func insert(_ transaction: EncodedTransaction) -> Outcome {
        do throws(DecodingFailure) {
            return insert(try ReceivedTransaction(checking: transaction.bytes))
        } catch {
            fatalError("a transaction of a test: \(error)")
        }
    }
}
