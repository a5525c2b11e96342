import Foundation

/// Does what blocks on a thread of its own, and waits for it on none.
///
/// Tasks share as many threads as there are processors. Two tests that each block one, for something
/// that a task is still to do, would wait for ever on a machine with two.
///
/// - Throws: what the body does.
public func onOwnThread<Result: Sendable>(
    _ body: @escaping @Sendable () throws -> Result
) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread {
            continuation.resume(with: Swift.Result(catching: body))
        }
    }
}
