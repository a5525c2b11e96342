package import Merge

/// Saves that wait until other nodes have them on disk.
///
/// A peer has acknowledged a save when its durable vector, from its heads, contains it. Vectors
/// only grow here, so what was confirmed once stays confirmed.
package struct AcknowledgementBook: Sendable {
    package enum Limits {
        /// Saves that may wait at once, each with a task.
        package static let waiters = 10_000
    }

    /// The condition that a caller waits for.
    package struct Wish: Hashable, Sendable {
        /// The save.
        package var dot: Dot
        /// The peers that may confirm.
        package var peers: [NodeID]
        /// How many of them must.
        package var needed: Int
        /// Monotonic milliseconds after which it is given up.
        package var deadline: UInt64

        /// Describes a wish.
        package init(dot: Dot, peers: [NodeID], needed: Int, deadline: UInt64) {
            self.dot = dot
            self.peers = peers
            self.needed = needed
            self.deadline = deadline
        }
    }

    /// How waiting for a save ended.
    package enum Outcome: Hashable, Sendable {
        /// Enough nodes have it.
        case confirmed
        /// The time is over, or there is no room to wait: these have not confirmed.
        case missing([NodeID])
    }

    /// The outcome of adding a wish.
    package enum Beginning: Hashable, Sendable {
        /// It waits under this number.
        case waits(Int)
        /// Nobody waits for it.
        case ended(Outcome)
    }

    private var last = 0
    private var wishes: [Int: Wish] = [:]
    private var isEnded = false
    /// The vector that each peer is known to have on disk.
    private var durable: [NodeID: VersionVector] = [:]

    /// Begins with nobody who waits.
    package init() {}

    /// How many wait.
    package var count: Int { wishes.count }

    /// The peers that somebody still waits for, lowest first.
    package var awaitedPeers: [NodeID] { Set(wishes.values.flatMap { missing($0) }).sorted() }

    /// Begins to wait, unless enough peers are known to have the save, or nobody may wait any more.
    package mutating func begin(_ wish: Wish) -> Beginning {
        let missing = missing(wish)
        if wish.peers.count - missing.count >= wish.needed { return .ended(.confirmed) }
        guard !isEnded, wishes.count < Limits.waiters else { return .ended(.missing(missing)) }
        last += 1
        wishes[last] = wish
        return .waits(last)
    }

    /// Takes in what the peers have on disk.
    ///
    /// - Returns: whose waiting ends, in the order in which it began.
    package mutating func update(
        _ confirmations: [(node: NodeID, vector: VersionVector)]
    ) -> [(number: Int, outcome: Outcome)] {
        for (node, vector) in confirmations { durable[node] = vector }
        return finish { $0.peers.count - $1.count >= $0.needed }
    }

    /// Ends the waiting of those whose time is over.
    package mutating func expire(now: UInt64) -> [(number: Int, outcome: Outcome)] {
        finish { wish, _ in now >= wish.deadline }
    }

    /// Ends all waiting; nobody may wait from now on.
    package mutating func end() -> [(number: Int, outcome: Outcome)] {
        isEnded = true
        return finish { _, _ in true }
    }

    private func missing(_ wish: Wish) -> [NodeID] {
        wish.peers.filter { !(durable[$0]?.contains(wish.dot) ?? false) }
    }

    /// Ends the waiting of those for whom the condition on them and the peers they miss holds.
    private mutating func finish(
        where isFinished: (Wish, [NodeID]) -> Bool
    ) -> [(number: Int, outcome: Outcome)] {
        var finished: [(number: Int, outcome: Outcome)] = []
        for (number, wish) in wishes.sorted(by: { $0.key < $1.key }) {
            let missing = missing(wish)
            guard isFinished(wish, missing) else { continue }
            wishes[number] = nil
            let isConfirmed = wish.peers.count - missing.count >= wish.needed
            finished.append((number, isConfirmed ? .confirmed : .missing(missing)))
        }
        return finished
    }
}
