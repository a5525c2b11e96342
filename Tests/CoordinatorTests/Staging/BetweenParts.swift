import Coordinator
import Foundation
import Synchronization

/// Says what comes between the parts of what is staged: the writer stands still until it waits, so no
/// clock and no load of the machine decides. It blocks, on threads of its own: tasks may wait for
/// minutes while other tests have all their threads.
enum BetweenParts {
    /// How long the writer stands at most, should what it waits for never come.
    private static let patience = Duration.seconds(60)

    private final class Outcome<Value: Sendable>: Sendable {
        let result = Mutex<Result<Value, any Error>?>(nil)
        let isThere = DispatchSemaphore(value: 0)
    }

    /// Does what is large, and something else once some parts of it are done.
    ///
    /// - Parameters:
    ///   - parts: how many; fewer than there are.
    ///   - large: hands in one job that is staged, and waits for it.
    ///   - meanwhile: hands in one small job, and waits for it.
    static func run<Value: Sendable>(
        _ coordinator: PersistentStoreCoordinator, parts: Int = 3,
        large: @escaping @Sendable () throws -> Value, meanwhile: () throws -> Void
    ) throws -> Value {
        let reached = DispatchSemaphore(value: 0)
        coordinator.makeDurable { _ in
            awaitWaiting(coordinator)
            pass(parts, coordinator, reached)
        }
        let outcome = Outcome<Value>()
        Thread {
            let result = Result { try large() }
            outcome.result.withLock { $0 = result }
            outcome.isThere.signal()
        }.start()
        reached.wait()
        let other = Result { try meanwhile() }
        outcome.isThere.wait()
        try other.get()
        guard let result = outcome.result.withLock({ $0 }) else {
            preconditionFailure("It was there.")
        }
        return try result.get()
    }

    /// With each job of the writer a part is done.
    private static func pass(
        _ left: Int, _ coordinator: PersistentStoreCoordinator, _ reached: DispatchSemaphore
    ) {
        coordinator.makeDurable { _ in
            guard left == 0 else { return pass(left - 1, coordinator, reached) }
            reached.signal()
            awaitWaiting(coordinator)
        }
    }

    private static func awaitWaiting(_ coordinator: PersistentStoreCoordinator) {
        let deadline = ContinuousClock.now + patience
        while coordinator.waitingSaves == 0, ContinuousClock.now < deadline { usleep(100) }
    }
}
