internal import Synchronization

/// A machine's wall clock: the world's time and what it is off.
///
/// Sendable because the coordinator's doors are; everything runs on one thread.
final class SimulatedClock: Sendable {
    /// When the world begins: 2026-01-01, in milliseconds since 1970.
    static let beginning: UInt64 = 1_767_225_600_000

    private struct State {
        var milliseconds = SimulatedClock.beginning
        var offset: Int64 = 0
    }

    private let state = Mutex(State())

    /// The time that the machine's clock shows, in milliseconds since 1970.
    var wallMilliseconds: UInt64 {
        state.withLock { state in
            UInt64(max(0, Int64(state.milliseconds) + state.offset))
        }
    }

    /// The world's time, whatever the machine believes.
    var monotonicMilliseconds: UInt64 { state.withLock { $0.milliseconds } }

    /// Sets the world's time.
    func set(_ milliseconds: UInt64) { state.withLock { $0.milliseconds = milliseconds } }

    /// Steps the clock; 0 for right.
    var offset: Int64 {
        get { state.withLock { $0.offset } }
        set { state.withLock { $0.offset = newValue } }
    }
}
