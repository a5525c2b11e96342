// A child process whose standard output is read to its end.

import Foundation
import Glibc
import Synchronization

/// A worker of the simulator as the system sees it.
///
/// It is no `Process` of Foundation, which waits for ever for a child that has ended where a process
/// lives on that the child started.
///
/// Threading: ``kill()`` from any thread, everything else from one.
final class WorkerProcess: Sendable {
    /// How a process ended.
    enum Ending {
        case exit(code: Int32)
        case signal(number: Int32)
    }

    private let identifier: pid_t
    private let output: Int32
    /// Whether its number may be another process's.
    private let isReaped = Mutex(false)

    /// One starts at a time: no other inherits its pipe, whose end would not be seen then.
    private static let starting = Mutex(())

    /// Starts a program with this process's environment.
    ///
    /// - Throws: ``POSIXError`` where the system refuses.
    init(_ program: String, _ arguments: [String]) throws {
        (identifier, output) = try Self.starting.withLock { _ in
            try Self.start(program, arguments)
        }
    }

    private static func start(
        _ program: String, _ arguments: [String]
    ) throws -> (identifier: pid_t, output: Int32) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw failure(errno) }
        defer { close(ends[1]) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
        let words = pointers([program] + arguments)
        var environment = ProcessInfo.processInfo.environment
        // What prints a backtrace of a trap keeps the output open, and outlives a process that is
        // killed meanwhile. Who replays the seed has the backtrace.
        environment["SWIFT_BACKTRACE"] = "enable=no"
        let settings = pointers(environment.map { "\($0.key)=\($0.value)" })
        defer { for pointer in words + settings { free(pointer) } }
        var number: pid_t = 0
        let refusal = posix_spawn(&number, program, &actions, nil, words, settings)
        guard refusal == 0 else {
            close(ends[0])
            throw failure(refusal)
        }
        return (number, ends[0])
    }

    private static func pointers(_ texts: [String]) -> [UnsafeMutablePointer<CChar>?] {
        texts.map { strdup($0) } + [nil]
    }

    private static func failure(_ number: Int32) -> POSIXError {
        POSIXError(POSIXErrorCode(rawValue: number) ?? .EIO)
    }

    /// The next bytes of its output; waits for them. None at the end.
    func read() -> Data {
        var bytes = Data(count: 64 << 10)
        while true {
            let count = bytes.withUnsafeMutableBytes {
                Glibc.read(output, $0.baseAddress, $0.count)
            }
            if count < 0, errno == EINTR { continue }
            return bytes.prefix(max(0, count))
        }
    }

    /// Ends it at once, if it lives.
    func kill() { isReaped.withLock { if !$0 { _ = Glibc.kill(identifier, SIGKILL) } } }

    /// Waits for its end. To be called once, after all its output is read.
    func wait() -> Ending {
        var status: Int32 = 0
        var information = siginfo_t()
        // It keeps its number until nobody can send a signal to that any more.
        while waitid(P_PID, id_t(identifier), &information, WEXITED | WNOWAIT) == -1,
            errno == EINTR
        {}
        isReaped.withLock { isReaped in
            while waitpid(identifier, &status, 0) == -1, errno == EINTR {}
            isReaped = true
        }
        close(output)
        let signal = status & 0x7f
        return signal == 0 ? .exit(code: (status >> 8) & 0xff) : .signal(number: signal)
    }
}
