// Writes that wait for their clients.

internal import Coordinator
internal import NIOCore
internal import Synchronization

/// The writes that wait for clients to make room, and what becomes of those that wait for too long.
/// Thread-safe.
final class PendingWrites: Sendable {
    private struct Write {
        var begunAt: UInt64
        var isOfLargeAnswer: Bool
        var cutOff: @Sendable () -> Void
    }

    private struct State {
        var next = 0
        var writes: [Int: Write] = [:]
        var cutOff: UInt64 = 0
    }

    private let patience: UInt64
    private let busyPatience: UInt64
    private let now: @Sendable () -> UInt64
    private let state = Mutex(State())

    /// - Parameters:
    ///   - milliseconds: for how long a client may take nothing.
    ///   - busyMilliseconds: for how long where its answer is in the way of others.
    init(
        milliseconds: UInt64, busyMilliseconds: UInt64,
        now: @escaping @Sendable () -> UInt64 = { MonotonicClock.milliseconds }
    ) {
        patience = milliseconds
        busyPatience = min(milliseconds, busyMilliseconds)
        self.now = now
    }

    /// How many clients were cut off.
    var cutOff: UInt64 { state.withLock { $0.cutOff } }
    /// How many writes are under way.
    var count: Int { state.withLock { $0.writes.count } }

    /// Begins a write.
    ///
    /// - Parameters:
    ///   - isOfLargeAnswer: whether the answer is in the budget of all.
    ///   - cutOff: ends the connection.
    /// - Returns: what ``end(_:)`` takes.
    func begin(isOfLargeAnswer: Bool, cutOff: @escaping @Sendable () -> Void) -> Int {
        state.withLock { state in
            state.next += 1
            state.writes[state.next] = Write(
                begunAt: now(), isOfLargeAnswer: isOfLargeAnswer, cutOff: cutOff)
            return state.next
        }
    }

    /// A write has been done, or has failed.
    func end(_ id: Int) { state.withLock { _ = $0.writes.removeValue(forKey: id) } }

    /// Cuts off those that have waited for too long. To be called now and again.
    func sweep() {
        let now = now()
        take { writes in
            writes.filter { now - min(now, $0.value.begunAt) >= patience }.map(\.key)
        }
    }

    /// Cuts off the large answer that has waited longest, where that is some seconds, to make room for
    /// others.
    func cutOffStalest() {
        let now = now()
        take { writes in
            let large = writes.filter(\.value.isOfLargeAnswer)
            guard let eldest = large.min(by: { $0.value.begunAt < $1.value.begunAt }),
                now - min(now, eldest.value.begunAt) >= busyPatience
            else { return [] }
            return [eldest.key]
        }
    }

    private func take(_ choose: ([Int: Write]) -> [Int]) {
        let chosen = state.withLock { state in
            let chosen = choose(state.writes).compactMap { state.writes.removeValue(forKey: $0) }
            state.cutOff += UInt64(chosen.count)
            return chosen
        }
        for write in chosen { write.cutOff() }
    }
}
