// The signals by which somebody ends a command that has something to put away first.

import Foundation
import Synchronization

/// Notices SIGTERM, SIGINT and SIGHUP in place of dying by them, from ``trap()`` on.
///
/// One for the process, as signals are. A handler rather than ignoring: programs that are started
/// meanwhile have the usual ones again.
enum EndingSignals {
    private static let last = Atomic<Int32>(0)

    /// The signal that came last; nil before the first.
    static var received: Int32? {
        let signal = last.load(ordering: .relaxed)
        return signal == 0 ? nil : signal
    }

    static func trap() {
        for number in [SIGTERM, SIGINT, SIGHUP] {
            signal(number) { EndingSignals.last.store($0, ordering: .relaxed) }
        }
        // A write tells of a reader that is gone.
        signal(SIGPIPE, SIG_IGN)
    }

    /// Does some work, which is cancelled when one of the signals comes.
    ///
    /// - Throws: ``Received`` where one came, else what the work threw.
    static func cancelling(_ work: @escaping @Sendable () async throws -> Void) async throws {
        let task = Task(operation: work)
        let watch = Task {
            while received == nil { try await Task.sleep(for: .milliseconds(50)) }
            task.cancel()
        }
        defer { watch.cancel() }
        let result = await task.result
        if let received { throw Received(signal: received) }
        try result.get()
    }

    /// The error thrown when one of the signals came.
    struct Received: Error {
        let signal: Int32
    }
}
