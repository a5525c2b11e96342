// Reads through one pin come one after the other, and wait for that on no thread.

internal import Coordinator
internal import Synchronization

/// The turns of those who read pinned generations: of each pin one reads at a time, in the order in
/// which they came. Thread-safe.
///
/// A pin is one connection, so its readers wait for each other in any case. Were they to wait on
/// the threads for reading, a few of them would keep those from everybody else. Who waits is a
/// request of some connection, and so they are bounded as those are.
final class PinTurns: Sendable {
    /// The reads that wait for each pin that is being read.
    private let waiting = Mutex<[ObjectIdentifier: [CheckedContinuation<Void, Never>]]>([:])

    /// How many wait.
    var waitingCount: Int { waiting.withLock { $0.values.reduce(0) { $0 + $1.count } } }

    /// Does something once it is a pin's turn.
    ///
    /// A cancelled read comes to its turn like others; what it does then is its own matter.
    func take<Result: Sendable>(
        _ pin: GenerationPin, _ body: () async throws -> Result
    ) async rethrows -> Result {
        let id = ObjectIdentifier(pin)
        await withCheckedContinuation { continuation in
            let isFree = waiting.withLock { waiting in
                guard waiting[id] == nil else {
                    waiting[id]?.append(continuation)
                    return false
                }
                waiting[id] = []
                return true
            }
            if isFree { continuation.resume() }
        }
        // Until then the pin lives, so that its identity is nobody else's.
        defer { withExtendedLifetime(pin) { pass(id) } }
        return try await body()
    }

    private func pass(_ id: ObjectIdentifier) {
        let next = waiting.withLock { waiting -> CheckedContinuation<Void, Never>? in
            guard waiting[id]?.isEmpty == false else {
                waiting[id] = nil
                return nil
            }
            return waiting[id]?.removeFirst()
        }
        next?.resume()
    }
}
