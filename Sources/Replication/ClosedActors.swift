import Merge

/// Which actors are closed, because a later incarnation or a departure of their node is known; and what
/// that does to what is on its way into the store.
///
/// Nothing of closed actors may be applied, once heads say that the later incarnation was met, that
/// no member's log has. What waits or is ready of them is dropped, pulled or not: it may be from a
/// log that its owner has lost since. It is pulled again from a node that has it.
struct ClosedActors: Sendable {
    /// The newest incarnation known of each node, this one included.
    var incarnations = Incarnations()
    /// Those of other nodes that the store remembers, so that they are known after a restart.
    var remembered = Incarnations()
    /// The transactions dropped from the queue since their actor was closed.
    var dropped = DroppedTransactions()
    /// Whether the store was applying something of a closed actor when such was dropped: what it
    /// leaves of that is to go as well, before anything is reported.
    private(set) var isDropOwed = false

    /// Whether the store is applying something of a closed actor, which cannot be called back.
    func areApplied(by queue: CausalQueue) -> Bool {
        queue.applying.contains { incarnations.isClosed($0.dot.actor) }
    }

    /// Whether the store is applying something of an actor of a departed node, which only a
    /// departure that was decided here can catch on its way.
    func areDepartedApplied(by queue: CausalQueue) -> Bool {
        !incarnations.departed.isEmpty
            && queue.applying.contains { incarnations.departed.contains($0.dot.actor.node) }
    }

    /// The incarnations that the store is to be asked now to remember, before they are met.
    ///
    /// It is remembered first because of two live stores of one node. A node that has told the
    /// later one what it needs to save must not, after a restart, meet the earlier one and report
    /// to it what the later one has not seen: that would be stable there too early.
    func beginRemembering(_ peers: inout [PeerProgress], now: UInt64) -> [ActorID] {
        peers.indices.compactMap { peers[$0].beginRemembering(beside: remembered, now: now) }
    }

    /// Meets the incarnations that the store remembers, unless it is applying something of a closed
    /// actor: the meeting waits for that.
    ///
    /// - Returns: whether one is new.
    func meet(_ peers: inout [PeerProgress], queue: CausalQueue) -> Bool {
        let settled = peers.indices.filter {
            peers[$0].isAgreed && peers[$0].isRemembered(remembered)
        }
        guard settled.contains(where: { peers[$0].isMeetingOpen }), !areApplied(by: queue) else {
            return false
        }
        for index in settled { peers[index].met = peers[index].actor }
        return true
    }

    /// Drops what waits of closed actors. What comes back of what the store is applying of them,
    /// because it could not be applied, is dropped then.
    ///
    /// - Parameter vector: what is applied.
    /// - Returns: those whose names found no room either, so that nobody will know whether they are
    ///   pulled again; nil if nothing was dropped.
    mutating func drop(
        from queue: inout CausalQueue, beyond vector: VersionVector, limits: Limits
    ) -> [Dot]? {
        isDropOwed = areApplied(by: queue)
        let incarnations = incarnations
        let transactions = queue.drop(to: vector) { incarnations.isClosed($0) }
        guard !transactions.isEmpty else { return nil }
        dropped.forget(coveredBy: vector)
        return transactions.filter { !dropped.add($0, limits) }.map(\.dot)
    }
}
