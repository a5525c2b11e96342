// The terminal in the hands of a program that draws whole screens.

import Console
import Foundation
import Inspector
import Synchronization

/// Standard input and output as a screen. What takes the terminal gives it back, whatever happens.
final class RawTerminal: Sendable {
    /// What the terminal was set to before; nil while this program does not have it.
    private let original = Mutex<termios?>(nil)

    /// The alternate screen, no line breaks at its edge, pasted text in brackets.
    private static let enter = "\u{1B}[?1049h\u{1B}[?7l\u{1B}[?2004h\u{1B}[?25l"
    private static let leave =
        "\u{1B}[?1006l\u{1B}[?1000l\u{1B}[?2004l\u{1B}[?7h\u{1B}[0m\u{1B}[?25h\u{1B}[?1049l"
    private static let mouseOn = "\u{1B}[?1000h\u{1B}[?1006h"
    private static let mouseOff = "\u{1B}[?1006l\u{1B}[?1000l"

    /// Takes the terminal: keys come one by one, and the alternate screen is shown.
    ///
    /// - Throws: ``CommandFailure`` where the terminal refuses.
    func take() throws {
        var settings = termios()
        guard tcgetattr(STDIN_FILENO, &settings) == 0 else { throw Self.failure() }
        original.withLock { if $0 == nil { $0 = settings } }
        cfmakeraw(&settings)
        // Until keys are taken, the terminal's own interrupt stays without effect: Ctrl-C is a key.
        guard tcsetattr(STDIN_FILENO, TCSAFLUSH, &settings) == 0 else { throw Self.failure() }
        write(Array(Self.enter.utf8))
    }

    /// Gives the terminal back as it was.
    func giveBack() {
        guard
            var settings = original.withLock({ original in
                defer { original = nil }
                return original
            })
        else { return }
        write(Array(Self.leave.utf8))
        _ = tcsetattr(STDIN_FILENO, TCSAFLUSH, &settings)
    }

    /// Has the terminal report the mouse, or not.
    func setMouse(_ isOn: Bool) { write(Array((isOn ? Self.mouseOn : Self.mouseOff).utf8)) }

    /// How large the terminal is.
    var size: Size {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0
        else { return Size(columns: 80, rows: 24) }
        return Size(columns: Int(size.ws_col), rows: Int(size.ws_row))
    }

    /// Writes bytes, all of them.
    func write(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.write(STDOUT_FILENO, $0.baseAddress, $0.count)
            }
            if count < 0, errno == EINTR { continue }
            // The terminal has gone: the keys' end says so too.
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    private static func failure() -> CommandFailure {
        CommandFailure(
            .failed, "The terminal cannot be set: \(String(cString: strerror(errno))).")
    }
}
