// Saves that wait until other nodes have them on disk.
//
// Threading: waiting from any task; `update` and `expire` from the loop.

internal import Merge
internal import Synchronization

/// Which nodes must have a save on their disks before it counts as done. It always is on this
/// node's own.
public enum Acknowledgement: Hashable, Sendable {
    /// This node alone.
    case local
    /// So many nodes, this one among them; at least 1.
    case nodes(Int)
    /// More than half of the members, this one among them.
    case majority
    /// All members.
    case all

    /// How many nodes other than this one must confirm, in a cluster of so many.
    func confirmationsNeeded(members: Int) -> Int {
        switch self {
        case .local: 0
        case .nodes(let count): max(0, count - 1)
        case .majority: members / 2
        case .all: max(0, members - 1)
        }
    }
}

/// Those who wait for acknowledgements.
///
/// A peer has acknowledged a save when its durable vector, from its heads, contains it. Vectors
/// only grow here, so what was confirmed once stays confirmed.
final class Acknowledgements: Sendable {
    enum Limits {
        /// Saves that may wait at once, each with a task.
        static let waiters = 10_000
    }

    /// How waiting for a save ended.
    enum Outcome: Hashable, Sendable {
        /// Enough nodes have it.
        case confirmed
        /// The time is over, or there is no room to wait: these have not confirmed.
        case missing([NodeID])
    }

    private struct Waiter {
        let dot: Dot
        let peers: [NodeID]
        let needed: Int
        let deadline: UInt64
        let continuation: CheckedContinuation<Outcome, Never>
    }

    private struct State {
        var next = 0
        var waiters: [Int: Waiter] = [:]
        var isEnded = false
        /// What each peer is known to have on disk.
        var durable: [NodeID: VersionVector] = [:]

        func missing(_ waiter: Waiter) -> [NodeID] { missing(waiter.dot, of: waiter.peers) }

        func missing(_ dot: Dot, of peers: [NodeID]) -> [NodeID] {
            peers.filter { !(durable[$0]?.contains(dot) ?? false) }
        }
    }

    private let state = Mutex(State())

    /// Whether anybody waits.
    var isAwaited: Bool { state.withLock { !$0.waiters.isEmpty } }
    /// How many wait.
    var count: Int { state.withLock { $0.waiters.count } }

    /// Waits until enough of the peers have a save on disk.
    ///
    /// - Parameters:
    ///   - dot: the save.
    ///   - peers: who may confirm.
    ///   - needed: how many of them must.
    ///   - deadline: monotonic milliseconds after which it is given up.
    ///   - onWaiting: called once it is waiting.
    func wait(
        for dot: Dot, peers: [NodeID], needed: Int, deadline: UInt64,
        onWaiting: @Sendable () -> Void
    ) async -> Outcome {
        await withCheckedContinuation { continuation in
            let outcome: Outcome? = state.withLock { state in
                let missing = state.missing(dot, of: peers)
                if peers.count - missing.count >= needed { return .confirmed }
                if state.isEnded || state.waiters.count >= Limits.waiters {
                    return .missing(missing)
                }
                state.next += 1
                state.waiters[state.next] = Waiter(
                    dot: dot, peers: peers, needed: needed, deadline: deadline,
                    continuation: continuation)
                return nil
            }
            if let outcome { continuation.resume(returning: outcome) } else { onWaiting() }
        }
    }

    /// Takes in what the peers have on disk, and ends the waiting of those it is enough for.
    func update(_ durable: [(node: NodeID, vector: VersionVector)]) {
        finish { state in
            for (node, vector) in durable { state.durable[node] = vector }
        } where: {
            $0.peers.count - $1.count >= $0.needed
        }
    }

    /// Ends the waiting of those whose time is over.
    func expire(now: UInt64) {
        finish { _ in
        } where: { waiter, _ in
            now >= waiter.deadline
        }
    }

    /// Ends all waiting; nobody may wait from now on.
    func end() {
        finish {
            $0.isEnded = true
        } where: { _, _ in
            true
        }
    }

    /// The peers that somebody still waits for, lowest first.
    var awaitedPeers: [NodeID] {
        state.withLock { state in
            Set(state.waiters.values.flatMap { state.missing($0) }).sorted()
        }
    }

    /// Changes the state, then ends the waiting of those for whom the condition on them and the
    /// peers they miss holds.
    private func finish(
        _ change: (inout State) -> Void, where isFinished: (Waiter, [NodeID]) -> Bool
    ) {
        let finished = state.withLock { state in
            change(&state)
            var finished: [(CheckedContinuation<Outcome, Never>, Outcome)] = []
            // In the order of arrival, whatever order the dictionary has.
            for id in state.waiters.keys.sorted() {
                guard let waiter = state.waiters[id] else { continue }
                let missing = state.missing(waiter)
                guard isFinished(waiter, missing) else { continue }
                state.waiters[id] = nil
                let isConfirmed = waiter.peers.count - missing.count >= waiter.needed
                finished.append((waiter.continuation, isConfirmed ? .confirmed : .missing(missing)))
            }
            return finished
        }
        for (continuation, outcome) in finished { continuation.resume(returning: outcome) }
    }
}
