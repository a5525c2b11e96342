import Dispatch
import Synchronization

/// Runs a task while the caller waits. Its jobs have a queue of their own: a test is called on one
/// of the few threads that all other tasks share, and blocks it.
final class BlockingTask: TaskExecutor {
    /// Where the caller finds the result.
    private final class Outcome<Value: Sendable>: Sendable {
        private let value = Mutex<Value?>(nil)
        private let signal = DispatchSemaphore(value: 0)

        func complete(_ result: Value) {
            value.withLock { $0 = result }
            signal.signal()
        }

        func wait() -> Value {
            signal.wait()
            guard let value = value.withLock({ $0 }) else {
                preconditionFailure("A task has ended without a result.")
            }
            return value
        }
    }

    private static let shared = BlockingTask()
    private let queue = DispatchQueue(label: "tributary.fuzz")

    func enqueue(_ job: consuming ExecutorJob) {
        let next = UnownedJob(job)
        queue.async { next.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }

    /// Runs a task, and blocks until it has ended.
    static func run<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) -> Value {
        let outcome = Outcome<Value>()
        Task(executorPreference: shared) { outcome.complete(await body()) }
        return outcome.wait()
    }
}
