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
/// A lane is looked at only when what its first waits for is there, so that what one more costs does
/// not grow with how many wait: a peer that makes up actors makes as many lanes as it likes.
///
/// Invariants: `delivered` is causally closed and covers all that is ready or applying; lanes are
/// sorted by actor, none is empty, and within a lane sequences rise strictly and lie above
/// `delivered`; the first of no lane could be applied; the byte counts are those of the entries.
struct CausalQueue: Sendable {
    /// The fate of a transaction that was inserted.
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
        var entries = Fifo<ReceivedTransaction>()
        /// The last sequence of the actor that was delivered, and the last one here.
        var known: UInt64
        var last: UInt64
        /// The first that is missing of what its first has seen; it is among the waiters then.
        var awaited: Dot?
    }

    /// A lane that waits for something of an actor, its own or another.
    private struct Waiter: Sendable {
        var awaited: Dot
        var actor: ActorID
    }

    private let limits: Limits
    private var lanes: [Lane] = []
    /// Sorted by what is awaited, then by actor; one a lane that awaits something.
    private var waiters: [Waiter] = []
    private var ready = Fifo<ReceivedTransaction>()
    private(set) var applying: [ReceivedTransaction] = []
    /// All that is applied, being applied or ready.
    private(set) var delivered: VersionVector
    /// Sorted by dot; at most ``Limits/actors``. What would be held beyond that is dropped, and is
    /// pulled again.
    private(set) var holds: [Hold] = []
    /// Holds made since the replicator last took them, for its alarms; at most ``Limits/peers``.
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
    /// How often a lane was looked at, which is what the work goes with.
    private(set) var looksCount: UInt64 = 0

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
        for index in lanes.indices {
            vector.advance(lanes[index].actor, to: reach(ofLane: index))
        }
        return vector
    }

    /// Takes a transaction in and delivers what it makes deliverable.
    mutating func insert(_ transaction: ReceivedTransaction) -> Outcome {
        let dot = transaction.dot
        if delivered.contains(dot) { return .duplicate }
        let place = laneIndex(dot.actor)
        if place.found == nil, isDeliverable(transaction) {
            settle(deliver(transaction))
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
        // What is given up for it would be the next to come again. What waits for its model is noted all the
        // same, because that is asked for only where something is held; then it is applied at once.
        if place.found == nil, lanes.count >= limits.lanes {
            if !isModelKnown(transaction), dot.sequence == delivered[dot.actor] + 1 {
                _ = hold(dot, .unknownModel(transaction.modelHash), retryAt: 0)
            }
            droppedCount += 1
            return .waitsForSeen
        }
        guard put(transaction) else { return .duplicate }
        // Behind another nothing has changed for its lane.
        if lanes[place.place].entries.first?.dot == dot { settle([dot.actor]) }
        if delivered.contains(dot) { return .deliverable }
        let lane = laneIndex(dot.actor).found
        let hasGap = lane.map { reach(ofLane: $0) < dot.sequence } ?? false
        enforceBounds()
        return hasGap ? .waitsForSequence : .waitsForSeen
    }

    /// Learns what the store has applied by itself: local saves.
    mutating func join(_ vector: VersionVector) {
        guard !delivered.covers(vector) else { return }
        var woken: [ActorID] = []
        for entry in vector.entries where entry.sequence > delivered[entry.actor] {
            delivered.advance(entry.actor, to: entry.sequence)
            woken.append(entry.actor)
            woken += waiting(for: Dot(actor: entry.actor, sequence: entry.sequence))
        }
        settle(woken.sorted())
    }

    /// The next batch to apply; empty while one is outstanding or nothing is ready.
    mutating func takeBatch() -> [EncodedTransaction] {
        guard applying.isEmpty, !ready.isEmpty else { return [] }
        var (bytes, changes, values) = (0, 0, 0)
        while let next = ready.first, applying.count < limits.applyCount,
            applying.isEmpty
                || bytes + completedSize(next) <= limits.applyBytes
                    && changes + next.changeCount <= limits.applyChanges
                    && values + next.valueCount <= limits.applyValues
        {
            bytes += completedSize(next)
            changes += next.changeCount
            values += next.valueCount
            applying.append(next)
            _ = ready.popFirst()
        }
        return applying.map { $0.decoded() }
    }

    /// The memory of a transaction once the store has completed what it has seen: about all that is
    /// here.
    private func completedSize(_ transaction: ReceivedTransaction) -> Int {
        let implied = max(0, delivered.entries.count - transaction.seen.entries.count)
        return transaction.plainSize + implied * MemoryLayout<VersionVector.Entry>.stride
    }

    /// Ends the outstanding batch.
    ///
    /// - Returns: whether the store's vector has gone forward by any of it.
    mutating func finishBatch(
        vector: VersionVector, rejected: [Rejection], now: UInt64
    ) -> Bool {
        let batch = applying
        applying = []
        var left = batch.filter { !vector.contains($0.dot) }
        let isForward = batch.isEmpty || left.count < batch.count
        for transaction in batch { applyingBytes -= transaction.size }
        holds.removeAll { vector.contains($0.dot) }
        for rejection in rejected where !vector.contains(rejection.dot) {
            let isHeld = hold(
                rejection.dot, .rejected(rejection.reason),
                retryAt: now + limits.rejectedMilliseconds)
            if isHeld { continue }
            let count = left.count
            left.removeAll { $0.dot == rejection.dot }
            droppedCount += UInt64(count - left.count)
            deliveredCount -= UInt64(count - left.count)
        }
        if left.isEmpty, batch.allSatisfy({ vector.contains($0.dot) }) {
            join(vector)
        } else {
            rewind(left, to: vector)
        }
        return isForward
    }

    /// Releases held transactions whose time has come.
    mutating func release(now: UInt64) {
        guard !holds.isEmpty else { return }
        var woken: [ActorID] = []
        for index in holds.indices where !holds[index].isTrying {
            if case .rejected = holds[index].reason, holds[index].retryAt <= now {
                holds[index].isTrying = true
                woken.append(holds[index].dot.actor)
            }
        }
        let horizon = horizon
        let models = models
        holds.removeAll {
            let isOver =
                switch $0.reason {
                case .timestampInFuture(let time): time.milliseconds <= horizon
                case .unknownModel(let hash): models.isEmpty || models.contains(hash)
                case .rejected: false
                }
            if isOver { woken.append($0.dot.actor) }
            return isOver
        }
        settle(woken.sorted())
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
    ) -> [ReceivedTransaction] {
        let isAnyReady = (0..<ready.count).contains { isClosed(ready[$0].dot.actor) }
        guard isAnyReady || lanes.contains(where: { isClosed($0.actor) }) else { return [] }
        delivered = vector
        for transaction in applying { delivered.advance(to: transaction.dot) }
        while let next = ready.popFirst() {
            applyingBytes -= next.size
            deliveredCount -= 1
            _ = put(next)
        }
        var dropped: [ReceivedTransaction] = []
        for index in lanes.indices where isClosed(lanes[index].actor) {
            while let next = lanes[index].entries.popFirst() {
                waitingCount -= 1
                waitingBytes -= next.size
                dropped.append(next)
            }
        }
        holds.removeAll { isClosed($0.dot.actor) }
        settleAll()
        enforceBounds()
        return dropped
    }

    /// Whether something waits for its model to be known.
    var holdsForModel: Bool {
        holds.contains { if case .unknownModel = $0.reason { true } else { false } }
    }

    // MARK: - Delivering

    private func isModelKnown(_ transaction: ReceivedTransaction) -> Bool {
        models.isEmpty || models.contains(transaction.modelHash)
    }

    private func isDeliverable(_ transaction: ReceivedTransaction) -> Bool {
        let dot = transaction.dot
        // A decoded transaction has seen its actor's earlier ones, so `seen` says it all.
        guard delivered.covers(transaction.seen) else { return false }
        guard transaction.timestamp.milliseconds <= horizon,
            isModelKnown(transaction)
        else { return false }
        let place = holdPlace(of: dot)
        return !place.found || holds[place.place].isTrying
    }

    /// - Returns: the actors whose lanes may be deliverable by it.
    private mutating func deliver(_ transaction: ReceivedTransaction) -> [ActorID] {
        delivered.advance(to: transaction.dot)
        applyingBytes += transaction.size
        deliveredCount += 1
        ready.append(transaction)
        return waiting(for: transaction.dot)
    }

    /// Moves on all that can be of some actors, and of those whose lanes wait for it, until nothing
    /// moves. Held ones are noted as such.
    ///
    /// - Parameter actors: sorted. It goes over them in that order, and again over those before whom
    ///   something has moved since.
    private mutating func settle(_ actors: [ActorID]) {
        guard !lanes.isEmpty else { return }
        var pass = actors
        while !pass.isEmpty {
            var next: [ActorID] = []
            var index = 0
            while index < pass.count {
                let actor = pass[index]
                index += 1
                for woken in advance(actor) where woken != actor {
                    if woken > actor {
                        Self.add(woken, to: &pass, from: index)
                    } else {
                        Self.add(woken, to: &next, from: 0)
                    }
                }
            }
            pass = next
        }
    }

    /// Adds to what is sorted from a place on.
    private static func add(_ actor: ActorID, to actors: inout [ActorID], from start: Int) {
        var low = start
        var high = actors.count
        while low < high {
            let middle = (low + high) / 2
            if actors[middle] < actor { low = middle + 1 } else { high = middle }
        }
        guard low == actors.count || actors[low] != actor else { return }
        actors.insert(actor, at: low)
    }

    /// Starts over with all lanes, because what is delivered may be less than before.
    private mutating func settleAll() {
        waiters = []
        for index in lanes.indices { lanes[index].awaited = nil }
        lanes.removeAll { $0.entries.isEmpty }
        settle(lanes.map(\.actor))
    }

    /// Moves on what can be of an actor, and notes what the rest of it waits for.
    ///
    /// - Returns: the actors whose lanes may be deliverable by it.
    private mutating func advance(_ actor: ActorID) -> [ActorID] {
        guard let lane = laneIndex(actor).found else { return [] }
        looksCount += 1
        while let first = lanes[lane].entries.first, delivered.contains(first.dot) {
            takeFirst(ofLane: lane)
        }
        var woken: [ActorID] = []
        while let first = lanes[lane].entries.first, isDeliverable(first) {
            takeFirst(ofLane: lane)
            woken += deliver(first)
        }
        lanes[lane].known = delivered[actor]
        while let first = lanes[lane].entries.first, !awaitPredecessors(of: first, inLane: lane) {
            takeFirst(ofLane: lane)
            droppedCount += 1
        }
        if lanes[lane].entries.isEmpty { removeLane(lane) }
        return woken
    }

    /// Notes what the first of a lane waits for: something it has seen, its time or its model.
    ///
    /// - Returns: false where it would have to be held and too many are.
    private mutating func awaitPredecessors(
        of first: ReceivedTransaction, inLane lane: Int
    ) -> Bool {
        let seen = first.seen
        let missing =
            delivered.covers(seen)
            ? nil : seen.entries.first { $0.sequence > delivered[$0.actor] }
        setAwaited(missing.map { Dot(actor: $0.actor, sequence: $0.sequence) }, ofLane: lane)
        if !isModelKnown(first), first.dot.sequence == delivered[first.dot.actor] + 1 {
            return hold(first.dot, .unknownModel(first.modelHash), retryAt: 0)
        }
        let timestamp = first.timestamp
        guard timestamp.milliseconds > horizon, missing == nil else { return true }
        return hold(first.dot, .timestampInFuture(timestamp), retryAt: 0)
    }

    /// - Returns: false where too many are held already.
    private mutating func hold(_ dot: Dot, _ reason: HeldReason, retryAt: UInt64) -> Bool {
        let hold = Hold(dot: dot, reason: reason, retryAt: retryAt, isTrying: false)
        let place = holdPlace(of: dot)
        if place.found {
            holds[place.place] = hold
            return true
        }
        if holds.count >= limits.actors { forgetDroppedHolds() }
        guard holds.count < limits.actors else { return false }
        holds.insert(hold, at: holdPlace(of: dot).place)
        if newHolds.count < limits.peers {
            newHolds.append(HeldTransaction(dot: dot, reason: reason))
        }
        return true
    }

    /// A hold outlives its transaction where that is dropped for want of room, so that it is neither
    /// told of again nor tried at once when it comes again; until its own room is needed.
    private mutating func forgetDroppedHolds() {
        var kept = holds
        kept.removeAll { !$0.isTrying && !has($0.dot) }
        holds = kept
    }

    private func holdPlace(of dot: Dot) -> (found: Bool, place: Int) {
        var low = 0
        var high = holds.count
        while low < high {
            let middle = (low + high) / 2
            if holds[middle].dot < dot { low = middle + 1 } else { high = middle }
        }
        return (low < holds.count && holds[low].dot == dot, low)
    }

    /// Takes all that is ready or left of a batch back to the lanes, and begins again.
    private mutating func rewind(_ left: [ReceivedTransaction], to vector: VersionVector) {
        var back = left
        while let next = ready.popFirst() { back.append(next) }
        applyingBytes = 0
        delivered = vector
        deliveredCount -= UInt64(back.count)
        for transaction in back { _ = put(transaction) }
        settleAll()
        enforceBounds()
    }

    // MARK: - Waiters

    /// The actors whose lanes wait for a dot, or for an earlier one of its actor.
    private func waiting(for dot: Dot) -> [ActorID] {
        var place = waiterPlace { $0.awaited.actor < dot.actor }
        var actors: [ActorID] = []
        while place < waiters.count, waiters[place].awaited.actor == dot.actor,
            waiters[place].awaited.sequence <= dot.sequence
        {
            actors.append(waiters[place].actor)
            place += 1
        }
        return actors
    }

    private mutating func setAwaited(_ awaited: Dot?, ofLane lane: Int) {
        let actor = lanes[lane].actor
        guard lanes[lane].awaited != awaited else { return }
        if let former = lanes[lane].awaited {
            waiters.remove(at: waiterPlace { ($0.awaited, $0.actor) < (former, actor) })
        }
        lanes[lane].awaited = awaited
        guard let awaited else { return }
        waiters.insert(
            Waiter(awaited: awaited, actor: actor),
            at: waiterPlace { ($0.awaited, $0.actor) < (awaited, actor) })
    }

    private func waiterPlace(where isBefore: (Waiter) -> Bool) -> Int {
        var low = 0
        var high = waiters.count
        while low < high {
            let middle = (low + high) / 2
            if isBefore(waiters[middle]) { low = middle + 1 } else { high = middle }
        }
        return low
    }

    // MARK: - Lanes

    /// How far all of an actor is delivered or here without a gap.
    private func reach(ofLane index: Int) -> UInt64 {
        let (entries, known) = (lanes[index].entries, lanes[index].known)
        guard let first = entries.first, first.dot.sequence == known + 1 else { return known }
        // Sequences rise strictly, so the run without a gap is found by halving.
        var low = 0
        var high = entries.count - 1
        while low < high {
            let middle = (low + high + 1) / 2
            if entries[middle].dot.sequence == first.dot.sequence + UInt64(middle) {
                low = middle
            } else {
                high = middle - 1
            }
        }
        return first.dot.sequence + UInt64(low)
    }

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

    private mutating func put(_ transaction: ReceivedTransaction) -> Bool {
        let dot = transaction.dot
        let place = laneIndex(dot.actor)
        if place.found == nil {
            let known = delivered[dot.actor]
            lanes.insert(
                Lane(actor: dot.actor, known: known, last: dot.sequence), at: place.place)
        }
        let position = position(of: dot.sequence, inLane: place.place)
        guard !position.found else { return false }
        lanes[place.place].entries.insert(transaction, at: position.place)
        lanes[place.place].last = max(lanes[place.place].last, dot.sequence)
        waitingCount += 1
        waitingBytes += transaction.size
        return true
    }

    private mutating func takeFirst(ofLane lane: Int) {
        guard let first = lanes[lane].entries.popFirst() else { return }
        waitingCount -= 1
        waitingBytes -= first.size
    }

    private mutating func removeLane(_ lane: Int) {
        setAwaited(nil, ofLane: lane)
        lanes.remove(at: lane)
    }

    /// Looks at each lane for each that is dropped: there are ``Limits/lanes``, and those of actors that
    /// were ready before a batch was given up.
    private mutating func enforceBounds() {
        while waitingCount > limits.waitingCount || waitingBytes > limits.waitingBytes {
            var furthest: (lane: Int, distance: UInt64)?
            for index in lanes.indices {
                let distance = lanes[index].last - lanes[index].known
                if distance > furthest?.distance ?? 0 { furthest = (index, distance) }
            }
            guard let furthest, let dropped = lanes[furthest.lane].entries.popLast() else { return }
            waitingCount -= 1
            waitingBytes -= dropped.size
            droppedCount += 1
            if let last = lanes[furthest.lane].entries.last {
                lanes[furthest.lane].last = last.dot.sequence
                continue
            }
            removeLane(furthest.lane)
        }
    }
}
