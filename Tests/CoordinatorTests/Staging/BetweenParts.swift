import Coordinator
import Foundation

/// Says what comes between the parts of what is staged: the writer stands still until it waits, so no
/// clock and no load of the machine decides.
enum BetweenParts {
    /// How long the writer stands at most, should what it waits for never come.
    private static let patience = Duration.seconds(60)

    /// Does what is large, and something else once some parts of it are done.
    ///
    /// - Parameters:
    ///   - parts: how many; fewer than there are.
    ///   - large: hands in one job that is staged, and waits for it.
    ///   - meanwhile: hands in one small job, and waits for it.
    static func run<Outcome: Sendable>(
        _ coordinator: PersistentStoreCoordinator, parts: Int = 3,
        large: @escaping @Sendable () async throws -> Outcome, meanwhile: () throws -> Void
    ) async throws -> Outcome {
        let (stream, reached) = AsyncStream.makeStream(of: Void.self)
        coordinator.makeDurable { _ in
            awaitWaiting(coordinator)
            pass(parts, coordinator, reached)
        }
        async let outcome = large()
        for await _ in stream {}
        try meanwhile()
        return try await outcome
    }

    /// With each job of the writer a part is done.
    private static func pass(
        _ left: Int, _ coordinator: PersistentStoreCoordinator,
        _ reached: AsyncStream<Void>.Continuation
    ) {
        coordinator.makeDurable { _ in
            guard left == 0 else { return pass(left - 1, coordinator, reached) }
            reached.finish()
            awaitWaiting(coordinator)
        }
    }

    private static func awaitWaiting(_ coordinator: PersistentStoreCoordinator) {
        let deadline = ContinuousClock.now + patience
        while coordinator.waitingSaves == 0, ContinuousClock.now < deadline { usleep(100) }
    }
}
