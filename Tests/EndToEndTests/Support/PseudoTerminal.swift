import Foundation
import Synchronization
import TestSupport

/// A terminal without a person: a program runs on it, keys go in, and what is seen can be asked.
final class PseudoTerminal: Sendable {
    let pid: Int32
    private let master: Int32
    private let seen: Mutex<Seen>

    /// What a terminal shows, as far as the program uses one.
    private struct Seen {
        var columns: Int
        var rows: Int
        var cells: [[Character]]
        var row = 0
        var column = 0
        var raw: [UInt8] = []
        var rest: [UInt8] = []

        init(_ columns: Int, _ rows: Int) {
            (self.columns, self.rows) = (columns, rows)
            cells = Self.blank(columns, rows)
        }

        static func blank(_ columns: Int, _ rows: Int) -> [[Character]] {
            Array(repeating: Array(repeating: " ", count: columns), count: rows)
        }

        mutating func take(_ bytes: [UInt8]) {
            raw += bytes
            rest += bytes
            while let first = rest.first {
                if first == 0x1B {
                    // ESC [ numbers letter; anything else is none of ours.
                    guard rest.count > 2,
                        let end = rest[2...].firstIndex(where: { (0x40...0x7E).contains($0) })
                    else { return }
                    let text = String(decoding: rest[2..<end], as: UTF8.self)
                    follow(text, rest[end])
                    rest.removeFirst(end + 1)
                    continue
                }
                let length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4
                guard rest.count >= length else { return }
                let character = String(decoding: rest.prefix(length), as: UTF8.self)
                rest.removeFirst(length)
                if first == 0x0D {
                    column = 0
                } else if first == 0x0A {
                    row += 1
                } else {
                    put(Character(character))
                }
            }
        }

        private mutating func put(_ character: Character) {
            if row < rows, column < columns { cells[row][column] = character }
            column += 1
        }

        private mutating func follow(_ text: String, _ last: UInt8) {
            let numbers = text.split(separator: ";").map { Int($0) ?? 0 }
            switch last {
            case UInt8(ascii: "H"):
                (row, column) = ((numbers.first ?? 1) - 1, (numbers.last ?? 1) - 1)
            case UInt8(ascii: "J"): cells = Self.blank(columns, rows)
            default: break
            }
        }
    }

    /// Runs a program on a new terminal.
    ///
    /// - Parameter arguments: the program's path first.
    init(
        _ arguments: [String], columns: Int = 80, rows: Int = 24,
        environment: [String: String] = [:]
    ) throws {
        master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard master >= 0 else { throw SystemError("/dev/ptmx") }
        // TIOCSPTLCK and TIOCGPTN, which Swift does not import.
        var (lock, number): (Int32, Int32) = (0, 0)
        guard ioctl(master, 0x4004_5431, &lock) == 0, ioctl(master, 0x8004_5430, &number) == 0
        else { throw SystemError("pseudo-terminal") }
        seen = Mutex(Seen(columns, rows))
        var size = winsize()
        (size.ws_col, size.ws_row) = (UInt16(columns), UInt16(rows))
        _ = ioctl(master, UInt(TIOCSWINSZ), &size)
        var variables = ProcessInfo.processInfo.environment.filter {
            !$0.key.hasPrefix("TRIBUTARY_") && !$0.key.hasPrefix("LC_") && $0.key != "NO_COLOR"
        }
        variables.merge(["TERM": "xterm-256color", "LANG": "C.UTF-8", "USER": "eva"]) { $1 }
        variables.merge(environment) { $1 }
        pid = try Self.spawn(arguments, "/dev/pts/\(number)", variables)
        Thread.detachNewThread { [self] in
            var chunk = [UInt8](repeating: 0, count: 65_536)
            while true {
                let count = read(master, &chunk, chunk.count)
                if count < 0, errno == EINTR { continue }
                // The other end has closed, with EIO on Linux.
                guard count > 0 else { return }
                seen.withLock { $0.take(Array(chunk.prefix(count))) }
            }
        }
    }

    private static func spawn(
        _ arguments: [String], _ terminal: String, _ environment: [String: String]
    ) throws -> Int32 {
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        // A session of its own (POSIX_SPAWN_SETSID), which controls the first terminal it opens.
        posix_spawnattr_setflags(&attributes, 0x80)
        posix_spawn_file_actions_addopen(&actions, 0, terminal, O_RDWR, 0)
        posix_spawn_file_actions_adddup2(&actions, 0, 1)
        posix_spawn_file_actions_adddup2(&actions, 0, 2)
        // A socket that the program held too would stay open when the test closes it.
        for descriptor in Int32(3)..<1_024 {
            posix_spawn_file_actions_addclose(&actions, descriptor)
        }
        let words = arguments.map { strdup($0) } + [nil]
        let variables = environment.sorted { $0.key < $1.key }.map {
            strdup("\($0.key)=\($0.value)")
        }
        defer { for text in words + variables { free(text) } }
        var pid: Int32 = 0
        let result = posix_spawn(
            &pid, arguments[0], &actions, &attributes, words, variables + [nil])
        guard result == 0 else { throw SystemError(arguments[0], result) }
        return pid
    }

    // MARK: What is seen

    /// The rows.
    var lines: [String] { seen.withLock { $0.cells.map { String($0) } } }

    /// The rows in one text.
    var text: String { lines.joined(separator: "\n") }

    /// All that came so far, as it came.
    var raw: String { seen.withLock { String(decoding: $0.raw, as: UTF8.self) } }

    /// Waits until a text is seen.
    func wait(for wanted: String) async throws {
        try await eventually("\"\(wanted)\" was seen on\n\(text)", within: .seconds(60)) {
            text.contains(wanted)
        }
    }

    /// Presses keys.
    func press(_ keys: String) {
        let bytes = Array(keys.utf8)
        _ = write(master, bytes, bytes.count)
    }

    /// Gives the terminal another size; the system tells the program.
    func resize(columns: Int, rows: Int) {
        seen.withLock {
            ($0.columns, $0.rows) = (columns, rows)
            $0.cells = Seen.blank(columns, rows)
        }
        var size = winsize()
        (size.ws_col, size.ws_row) = (UInt16(columns), UInt16(rows))
        _ = ioctl(master, UInt(TIOCSWINSZ), &size)
    }

    /// Whether lines are read whole and letters echoed, as outside of the inspector.
    var isCooked: Bool {
        var settings = termios()
        guard tcgetattr(master, &settings) == 0 else { return false }
        return settings.c_lflag & tcflag_t(ICANON) != 0 && settings.c_lflag & tcflag_t(ECHO) != 0
    }

    // MARK: The program

    func send(_ signal: Int32) { kill(pid, signal) }

    /// Waits for the program's end and gives its exit code; minus the signal that ended it.
    func waitForExit() async throws -> Int32 {
        var status: Int32 = 0
        try await eventually("the program had ended; it shows\n\(text)", within: .seconds(30)) {
            waitpid(pid, &status, WNOHANG) == pid
        }
        let signal = status & 0x7F
        return signal == 0 ? (status >> 8) & 0xFF : -signal
    }

    /// Runs a program on a terminal, and ends it whatever happens.
    static func with<Result>(
        _ arguments: [String], columns: Int = 80, rows: Int = 24,
        environment: [String: String] = [:], _ body: (PseudoTerminal) async throws -> Result
    ) async throws -> Result {
        let terminal = try PseudoTerminal(
            arguments, columns: columns, rows: rows, environment: environment)
        // Its whole session: a shell may have started it.
        defer {
            kill(-terminal.pid, SIGKILL)
            kill(terminal.pid, SIGKILL)
            waitpid(terminal.pid, nil, 0)
        }
        do {
            return try await body(terminal)
        } catch {
            throw EndToEndError("\(error)\nThe terminal shows:\n\(terminal.text)")
        }
    }
}
