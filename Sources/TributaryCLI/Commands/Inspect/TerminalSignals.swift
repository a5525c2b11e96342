// Signals that a program with a terminal gets, as bytes to read.

import Console
import Foundation

/// Where the handler writes. Safe: it is set before the handler is, and never again.
nonisolated(unsafe) private var signalPipe: Int32 = -1

/// The system's signals about the terminal and the end. There is one, for a process has one handler
/// for each.
struct TerminalSignals: Sendable {
    /// Becomes readable when a signal comes.
    let descriptor: Int32

    private static let numbers = [SIGWINCH, SIGTSTP, SIGCONT, SIGTERM, SIGINT, SIGHUP]

    /// Begins to take signals.
    ///
    /// - Throws: ``CommandFailure`` where the system has no pipe left.
    init() throws {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else {
            throw CommandFailure(.failed, "No pipe: \(String(cString: strerror(errno))).")
        }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            // A handler must not wait.
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        descriptor = ends[0]
        signalPipe = ends[1]
        for number in Self.numbers { Self.handle(number) }
    }

    /// The signals that came, each once.
    func take() -> [Int32] {
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = read(descriptor, &bytes, bytes.count)
        let came = Set(bytes.prefix(max(0, count)).map(Int32.init))
        return Self.numbers.filter(came.contains)
    }

    /// Stops the process, as the terminal's own key would, until it is continued.
    func stop() {
        signal(SIGTSTP, SIG_DFL)
        // The threads of tasks block signals, and one that is blocked stops nobody.
        var wanted = sigset_t()
        sigemptyset(&wanted)
        sigaddset(&wanted, SIGTSTP)
        pthread_sigmask(SIG_UNBLOCK, &wanted, nil)
        raise(SIGTSTP)
        Self.handle(SIGTSTP)
    }

    private static func handle(_ number: Int32) {
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { number in
            let before = errno
            var byte = UInt8(truncatingIfNeeded: number)
            _ = write(signalPipe, &byte, 1)
            errno = before
        }
        action.sa_flags = SA_RESTART
        sigaction(number, &action, nil)
    }
}
