// Input of the loop from other threads: commits, and the answers to the store's jobs.
//
// Threading: `offer` and `give` from any thread, `take` from the loop only.

internal import Coordinator
internal import Merge
internal import NodeCore
internal import Replication
internal import Synchronization

/// Something that has happened elsewhere in the process.
enum NodeEvent: Sendable {
    /// Local saves are durable.
    case committed([EncodedTransaction], StoreState)
    /// The outcome of a job of the store.
    case answered(StoreJob, Result<StoreOutcome, any Error>)
    /// The mesh goes on with other keys.
    case rekeyed(MeshChange)
    /// Somebody waits for an acknowledgement from now on.
    case awaited
    /// An operator ends all quarantines.
    case quarantinesLifted
    /// The writer has stopped for good, or a read has found the store damaged.
    case failed(any Error)
    /// The loop is to end.
    case stop
}

/// The way into the loop, bounded.
///
/// Commits that do not fit are left out, their states are not: peers hear of the vector with the
/// next heads and pull what they were not told. Answers are never left out; there is at most one
/// of each kind outstanding, and one log read and one part of a copy a peer.
final class HandoverQueue: Sendable {
    /// How much of what was committed may wait for the loop.
    struct Bounds: Hashable, Sendable {
        /// Transactions: a second of saves at full speed.
        var transactions = 20_000
        /// Their bytes; a single transaction may be longer while nothing else waits.
        var bytes = 64 << 20
    }

    /// How full the queue is.
    struct Gauges: Hashable, Sendable {
        /// Transactions that wait to be announced.
        var transactions = 0
        /// Their bytes.
        var bytes = 0
        /// Transactions left out since the start.
        var dropped: UInt64 = 0
    }

    private struct State {
        var events: [NodeEvent] = []
        var gauges = Gauges()
        var wakeup: Wakeup?
    }

    private let bounds: Bounds
    private let state = Mutex(State())

    init(bounds: Bounds = Bounds()) { self.bounds = bounds }

    var gauges: Gauges { state.withLock { $0.gauges } }

    /// Rings this bell for every event from now on, and once for those that wait already.
    func attach(_ wakeup: Wakeup) {
        state.withLock { $0.wakeup = wakeup }
        wakeup.wake()
    }

    /// Hands over a commit, or only its state where there is no room.
    func offer(_ transactions: [EncodedTransaction], _ committed: StoreState) {
        let bytes = transactions.reduce(0) { $0 + $1.plainSize }
        let wakeup = state.withLock { state in
            let gauges = state.gauges
            let fits =
                gauges.transactions == 0
                || (gauges.transactions + transactions.count <= bounds.transactions
                    && gauges.bytes + bytes <= bounds.bytes)
            if fits {
                state.gauges.transactions += transactions.count
                state.gauges.bytes += bytes
                state.events.append(.committed(transactions, committed))
            } else {
                state.gauges.dropped += UInt64(transactions.count)
                if case .committed(let waiting, _)? = state.events.last {
                    state.events[state.events.count - 1] = .committed(waiting, committed)
                } else {
                    state.events.append(.committed([], committed))
                }
            }
            return state.wakeup
        }
        wakeup?.wake()
    }

    /// Hands over anything else.
    func give(_ event: NodeEvent) {
        let wakeup = state.withLock { state in
            state.events.append(event)
            return state.wakeup
        }
        wakeup?.wake()
    }

    /// All that waits, in order.
    func take() -> [NodeEvent] {
        state.withLock { state in
            guard !state.events.isEmpty else { return [] }
            state.gauges.transactions = 0
            state.gauges.bytes = 0
            var events: [NodeEvent] = []
            swap(&events, &state.events)
            return events
        }
    }
}
