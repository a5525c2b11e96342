import Merge

/// Transactions on their way to the store: those that wait for their predecessors, those that
/// may be applied, and those that are being applied.
///
///     insert ─► lane of its actor ──(predecessors there)──► ready ─► applying ─► store
///                     ▲                                        │         │
///                     └────────────── rewind, where one was rejected ────┘
///
/// When full it drops the transaction furthest from deliverable instead of spilling it to disk.
/// That gives the same guarantee with less: what waits is in some peer's log, or its writer's,
/// and heads go on showing that it is missing, so it is pulled again when there is room.
///
/// Invariants: `delivered` is causally closed and covers all that is ready or applying; lanes are
/// sorted by actor, none is empty, and within a lane sequences rise strictly and lie above
/// `delivered`; the byte counts are those of the entries.
struct CausalQueue: Sendable {
    /// What became of a transaction that was inserted.
    enum Outcome: Hashable, Sendable {
        /// It may be applied, and perhaps others after it.
        case deliverable
        /// It is here already, or applied.
        case duplicate
        /// An earlier one of its own actor is missing.
        case waitsForSequence
        /// Something it has seen is missing, or it or its predecessor is held.
        case waitsForSeen
    }

    /// Why and until when a transaction is held though its predecessors are there.
    struct Hold: Hashable, Sendable {
        var dot: Dot
        var reason: HeldReason
        /// When a rejected one is tried again, in monotonic milliseconds.
        var retryAt: UInt64
        /// Whether it is being tried again; it stays listed meanwhile.
        var isTrying: Bool
    }

    private struct Lane: Sendable {
        let actor: ActorID
        var entries = Fifo<EncodedTransaction>()
    }

    private let limits: Limits
    private var lanes: [Lane] = []
    private var ready = Fifo<EncodedTransaction>()
    private(set) var applying: [EncodedTransaction] = []
    /// All that is applied, being applied or ready.
    private(set) var delivered: VersionVector
    /// Sorted by dot; at most one an actor.
    private(set) var holds: [Hold] = []
    /// Holds made since the replicator last took them, for its alarms.
    private var newHolds: [HeldTransaction] = []
    /// Wall milliseconds; a later timestamp is held.
    var horizon: UInt64 = 0
    /// The models whose transactions can be applied; empty where all can.
    var models: Set<[UInt8]> = []

    private(set) var waitingCount = 0
    private(set) var waitingBytes = 0
    private(set) var applyingBytes = 0
    private(set) var droppedCount: UInt64 = 0
    private(set) var deliveredCount: UInt64 = 0

    init(limits: Limits, delivered: VersionVector = VersionVector()) {
        self.limits = limits
        self.delivered = delivered
    }

    /// How many are ready or being applied.
    var applyingCount: Int { ready.count + applying.count }

    /// Whether there is room for one that nobody asked for. It must not put us behind: the page
    /// that fills a gap would be dropped for it, again and again where a writer is fast.
    func hasRoom(for size: Int) -> Bool {
        waitingBytes + applyingBytes + size <= limits.backlogBytes
            && waitingCount + applyingCount < limits.backlogCount
    }

    /// Whether so much is about to be applied that nothing is asked for, nor anything more taken
    /// in. What waits does not count: the page that fills its gap must come in.
    ///
    /// So all that is here, waiting or about to be applied, is never more than the backlog, the
    /// bound of what waits, and one page (or one long transaction): a page is taken in only where
    /// what is to be applied is within the backlog, and what is published only where all is.
    var isApplyingBehind: Bool {
        applyingBytes > limits.backlogBytes || applyingCount > limits.backlogCount
    }

    /// Whether a transaction is applied or here.
    func has(_ dot: Dot) -> Bool {
        if delivered.contains(dot) { return true }
        guard let lane = laneIndex(dot.actor).found else { return false }
        return position(of: dot.sequence, inLane: lane).found
    }

    /// All that is applied or here without a gap of its own actor: what need not be pulled.
    func possessed() -> VersionVector {
        var vector = delivered
        for lane in lanes {
            let next = vector[lane.actor] + 1
            guard let first = lane.entries.first, first.dot.sequence == next else { continue }
            // Sequences rise strictly, so the run without a gap is found by halving.
            var low = 0
            var high = lane.entries.count - 1
            while low < high {
                let middle = (low + high + 1) / 2
                if lane.entries[middle].dot.sequence == next + UInt64(middle) {
                    low = middle
                } else {
                    high = middle - 1
                }
            }
            vector.advance(lane.actor, to: next + UInt64(low))
        }
        return vector
    }

    /// Takes a transaction in and delivers what it makes deliverable.
    mutating func insert(_ transaction: EncodedTransaction) -> Outcome {
        let dot = transaction.dot
        if delivered.contains(dot) { return .duplicate }
        let place = laneIndex(dot.actor)
        if place.found == nil, isDeliverable(transaction) {
            deliver(transaction)
            if !lanes.isEmpty { drain() }
            return .deliverable
        }
        // Nothing of that actor can be applied before the first that is held, and none of it in
        // this run but for a model that is learnt: the rest is left with the peers.
        if !isModelKnown(transaction), let lane = place.found,
            lanes[lane].entries.first.map({ $0.dot.sequence < dot.sequence }) ?? false
        {
            droppedCount += 1
            return .waitsForSeen
        }
        guard put(transaction) else { return .duplicate }
        drain()
        if delivered.contains(dot) { return .deliverable }
        let hasGap = possessed()[dot.actor] < dot.sequence
        enforceBounds()
        return hasGap ? .waitsForSequence : .waitsForSeen
    }

    /// Learns what the store has applied by itself: local saves.
    mutating func join(_ vector: VersionVector) {
        guard !delivered.covers(vector) else { return }
        delivered.join(vector)
        removeCovered()
        drain()
    }

    /// The next batch to apply; empty while one is outstanding or nothing is ready.
    mutating func takeBatch() -> [EncodedTransaction] {
        guard applying.isEmpty, !ready.isEmpty else { return [] }
        var (bytes, changes) = (0, 0)
        while let next = ready.first, applying.count < limits.applyCount,
            applying.isEmpty
                || bytes + next.bytes.count <= limits.applyBytes
                    && changes + next.transaction.changes.count <= limits.applyChanges
        {
            bytes += next.bytes.count
            changes += next.transaction.changes.count
            applying.append(next)
            _ = ready.popFirst()
        }
        return applying
    }

    /// Ends the outstanding batch.
    ///
    /// - Returns: whether the store's vector has gone forward by any of it.
    mutating func finishBatch(
        vector: VersionVector, rejected: [Rejection], now: UInt64
    ) -> Bool {
        let batch = applying
        applying = []
        let left = batch.filter { !vector.contains($0.dot) }
        for transaction in batch { applyingBytes -= transaction.bytes.count }
        holds.removeAll { vector.contains($0.dot) }
        for rejection in rejected where !vector.contains(rejection.dot) {
            hold(
                rejection.dot, .rejected(rejection.reason),
                retryAt: now + limits.rejectedMilliseconds)
        }
        if left.isEmpty {
            join(vector)
        } else {
            rewind(left, to: vector)
        }
        return batch.isEmpty || left.count < batch.count
    }

    /// Lets go of what is held and whose time has come.
    mutating func release(now: UInt64) {
        guard !holds.isEmpty else { return }
        for index in holds.indices {
            if case .rejected = holds[index].reason, holds[index].retryAt <= now {
                holds[index].isTrying = true
            }
        }
        let horizon = horizon
        let models = models
        holds.removeAll {
            switch $0.reason {
            case .timestampInFuture(let time): time.milliseconds <= horizon
            case .unknownModel(let hash): models.isEmpty || models.contains(hash)
            case .rejected: false
            }
        }
        drain()
    }

    /// The holds made since this was last asked.
    mutating func takeNewHolds() -> [HeldTransaction] {
        guard !newHolds.isEmpty else { return [] }
        defer { newHolds = [] }
        return newHolds
    }

    /// Takes out all that waits or is ready of actors that are closed. The outstanding batch stays as
    /// it is.
    ///
    /// - Parameter vector: what the store has applied.
    /// - Returns: what was taken out, by actor and sequence.
    mutating func drop(
        to vector: VersionVector, where isClosed: (ActorID) -> Bool
    ) -> [EncodedTransaction] {
        let isAnyReady = (0..<ready.count).contains { isClosed(ready[$0].dot.actor) }
        guard isAnyReady || lanes.contains(where: { isClosed($0.actor) }) else { return [] }
        delivered = vector
        for transaction in applying { delivered.advance(to: transaction.dot) }
        while let next = ready.popFirst() {
            applyingBytes -= next.bytes.count
            deliveredCount -= 1
            _ = put(next)
        }
        var dropped: [EncodedTransaction] = []
        for index in lanes.indices where isClosed(lanes[index].actor) {
            while let next = lanes[index].entries.popFirst() {
                waitingCount -= 1
                waitingBytes -= next.bytes.count
                dropped.append(next)
            }
        }
        lanes.removeAll { $0.entries.isEmpty }
        holds.removeAll { isClosed($0.dot.actor) }
        removeCovered()
        drain()
        enforceBounds()
        return dropped
    }

    /// Whether something waits for its model to be known.
    var holdsForModel: Bool {
        holds.contains { if case .unknownModel = $0.reason { true } else { false } }
    }

    // MARK: - Delivering

    private func isModelKnown(_ transaction: EncodedTransaction) -> Bool {
        models.isEmpty || models.contains(transaction.transaction.modelHash)
    }

    private func isDeliverable(_ transaction: EncodedTransaction) -> Bool {
        let dot = transaction.dot
        // A decoded transaction has seen its actor's earlier ones, so `seen` says it all.
        guard delivered.covers(transaction.transaction.seen) else { return false }
        guard transaction.transaction.timestamp.milliseconds <= horizon,
            isModelKnown(transaction)
        else { return false }
        return !holds.contains { $0.dot == dot && !$0.isTrying }
    }

    private mutating func deliver(_ transaction: EncodedTransaction) {
        delivered.advance(to: transaction.dot)
        applyingBytes += transaction.bytes.count
        deliveredCount += 1
        ready.append(transaction)
    }

    /// Moves on all that can be, until nothing moves. Held ones are noted as such.
    private mutating func drain() {
        var moved = true
        while moved, !lanes.isEmpty {
            moved = false
            for index in lanes.indices {
                while let first = lanes[index].entries.first, isDeliverable(first) {
                    _ = lanes[index].entries.popFirst()
                    waitingCount -= 1
                    waitingBytes -= first.bytes.count
                    deliver(first)
                    moved = true
                }
            }
            lanes.removeAll { $0.entries.isEmpty }
        }
        for lane in lanes {
            guard let first = lane.entries.first else { continue }
            if !isModelKnown(first), first.dot.sequence == delivered[lane.actor] + 1 {
                hold(first.dot, .unknownModel(first.transaction.modelHash), retryAt: 0)
                continue
            }
            let timestamp = first.transaction.timestamp
            if timestamp.milliseconds > horizon, delivered.covers(first.transaction.seen) {
                hold(first.dot, .timestampInFuture(timestamp), retryAt: 0)
            }
        }
    }

    private mutating func hold(_ dot: Dot, _ reason: HeldReason, retryAt: UInt64) {
        let hold = Hold(dot: dot, reason: reason, retryAt: retryAt, isTrying: false)
        let index = holds.firstIndex { $0.dot >= dot } ?? holds.endIndex
        if index < holds.endIndex, holds[index].dot == dot {
            holds[index] = hold
        } else {
            holds.insert(hold, at: index)
            newHolds.append(HeldTransaction(dot: dot, reason: reason))
        }
    }

    /// Takes all that is ready or left of a batch back to the lanes, and begins again.
    private mutating func rewind(_ left: [EncodedTransaction], to vector: VersionVector) {
        var back = left
        while let next = ready.popFirst() { back.append(next) }
        applyingBytes = 0
        delivered = vector
        deliveredCount -= UInt64(back.count)
        for transaction in back { _ = put(transaction) }
        removeCovered()
        drain()
        enforceBounds()
    }

    // MARK: - Lanes

    private func laneIndex(_ actor: ActorID) -> (found: Int?, place: Int) {
        var low = 0
        var high = lanes.count
        while low < high {
            let middle = (low + high) / 2
            if lanes[middle].actor < actor { low = middle + 1 } else { high = middle }
        }
        return (low < lanes.count && lanes[low].actor == actor ? low : nil, low)
    }

    private func position(of sequence: UInt64, inLane lane: Int) -> (found: Bool, place: Int) {
        let entries = lanes[lane].entries
        // Nearly everything arrives in order.
        if let last = entries.last, last.dot.sequence < sequence { return (false, entries.count) }
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].dot.sequence < sequence { low = middle + 1 } else { high = middle }
        }
        return (low < entries.count && entries[low].dot.sequence == sequence, low)
    }

    private mutating func put(_ transaction: EncodedTransaction) -> Bool {
        let dot = transaction.dot
        let place = laneIndex(dot.actor)
        if place.found == nil { lanes.insert(Lane(actor: dot.actor), at: place.place) }
        let position = position(of: dot.sequence, inLane: place.place)
        guard !position.found else { return false }
        lanes[place.place].entries.insert(transaction, at: position.place)
        waitingCount += 1
        waitingBytes += transaction.bytes.count
        return true
    }

    private mutating func removeCovered() {
        for index in lanes.indices {
            let known = delivered[lanes[index].actor]
            while let first = lanes[index].entries.first, first.dot.sequence <= known {
                _ = lanes[index].entries.popFirst()
                waitingCount -= 1
                waitingBytes -= first.bytes.count
            }
        }
        lanes.removeAll { $0.entries.isEmpty }
    }

    private mutating func enforceBounds() {
        while waitingCount > limits.waitingCount || waitingBytes > limits.waitingBytes {
            var furthest: (lane: Int, distance: UInt64)?
            for (index, lane) in lanes.enumerated() {
                guard let last = lane.entries.last else { continue }
                let distance = last.dot.sequence - delivered[lane.actor]
                if distance > furthest?.distance ?? 0 { furthest = (index, distance) }
            }
            guard let furthest, let dropped = lanes[furthest.lane].entries.popLast() else { return }
            waitingCount -= 1
            waitingBytes -= dropped.bytes.count
            droppedCount += 1
            if lanes[furthest.lane].entries.isEmpty { lanes.remove(at: furthest.lane) }
        }
    }
}
