// Saves that wait until other nodes have them on disk.
//
// Threading: waiting from any task; `update` and `expire` from the loop.

internal import Merge
internal import NodeCore
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

/// Those who wait for acknowledgements: the book behind a lock, and whom to wake.
final class Acknowledgements: Sendable {
    private struct State {
        var book = AcknowledgementBook()
        var waiting: [Int: CheckedContinuation<AcknowledgementBook.Outcome, Never>] = [:]
    }

    private let state = Mutex(State())

    /// How many wait.
    var count: Int { state.withLock { $0.book.count } }
    /// The peers that somebody still waits for, lowest first.
    var awaitedPeers: [NodeID] { state.withLock { $0.book.awaitedPeers } }

    /// Waits until enough of the peers have a save on disk.
    ///
    /// - Parameter onWaiting: called once it is waiting.
    func wait(
        for wish: AcknowledgementBook.Wish, onWaiting: @Sendable () -> Void
    ) async -> AcknowledgementBook.Outcome {
        await withCheckedContinuation { continuation in
            let beginning = state.withLock { state in
                let beginning = state.book.begin(wish)
                if case .waits(let number) = beginning { state.waiting[number] = continuation }
                return beginning
            }
            switch beginning {
            case .waits: onWaiting()
            case .ended(let outcome): continuation.resume(returning: outcome)
            }
        }
    }

    /// Takes in what the peers have on disk, and wakes those for whom it is enough.
    func update(_ confirmations: @autoclosure () -> [(node: NodeID, vector: VersionVector)]) {
        guard count > 0 else { return }
        let confirmations = confirmations()
        finish { $0.update(confirmations) }
    }

    /// Wakes those whose time is over.
    func expire(now: UInt64) { finish { $0.expire(now: now) } }

    /// Ends all waiting; nobody may wait from now on.
    func end() { finish { $0.end() } }

    private func finish(
        _ change: (inout AcknowledgementBook) -> [(
            number: Int, outcome: AcknowledgementBook.Outcome
        )]
    ) {
        let finished = state.withLock { state in
            change(&state.book).map { (state.waiting.removeValue(forKey: $0), $1) }
        }
        for (continuation, outcome) in finished { continuation?.resume(returning: outcome) }
    }
}
