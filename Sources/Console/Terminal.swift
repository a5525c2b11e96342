// The program's output: a terminal with a width, or something that wants plain text.

import Foundation

/// Where output goes, and how it may look there.
package struct Terminal: Sendable {
    /// Whether a person looks at standard output.
    package let isInteractive: Bool
    /// Columns; without a terminal there is no bound.
    package let width: Int
    /// How text is painted.
    package let style: Style
    /// Whether it shows more than ASCII.
    package let isUnicode: Bool

    /// Standard output as it is now.
    package static var output: Terminal { Terminal(descriptor: STDOUT_FILENO) }
    /// Standard error as it is now.
    package static var error: Terminal { Terminal(descriptor: STDERR_FILENO) }

    package init(isInteractive: Bool, width: Int, isColoured: Bool, isUnicode: Bool = true) {
        self.isInteractive = isInteractive
        self.width = width
        self.isUnicode = isUnicode
        style = Style(isEnabled: isColoured)
    }

    /// A line as this terminal shows it.
    package func asShown(_ line: String) -> String {
        isUnicode || !isInteractive ? line : DisplayText.ascii(line)
    }

    private init(descriptor: Int32) {
        let environment = ProcessInfo.processInfo.environment
        let isTerminal = isatty(descriptor) == 1
        var size = winsize()
        // As of other programs, what the user has set counts before what the terminal says.
        let set = environment["COLUMNS"].flatMap { Int($0) }.flatMap { $0 > 0 ? $0 : nil }
        let asked =
            isTerminal && ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0
            ? Int(size.ws_col) : 80
        // https://no-color.org: any value that is not empty.
        let refuses = environment["NO_COLOR"].map { !$0.isEmpty } ?? false
        self.init(
            isInteractive: isTerminal, width: set ?? asked,
            isColoured: isTerminal && !refuses && environment["TERM"] != "dumb",
            isUnicode: Self.isUnicode(environment))
    }

    /// Whether the locale's characters are UTF-8: the first of the three settings that is there says so.
    static func isUnicode(_ environment: [String: String]) -> Bool {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { environment[$0] }.first {
            !$0.isEmpty
        }
        guard let locale = locale?.uppercased() else { return true }
        return locale.contains("UTF-8") || locale.contains("UTF8")
    }

    /// Writes a line to standard output.
    ///
    /// - Throws: ``CommandFailure`` where not all of it could be written.
    package static func print(_ text: String) throws(CommandFailure) {
        try print(bytes: Array(text.utf8))
    }

    /// Writes bytes and the end of a line to standard output.
    ///
    /// - Throws: ``CommandFailure`` where not all of it could be written.
    package static func print(bytes: [UInt8]) throws(CommandFailure) {
        if let reason = write(bytes + [0x0A], to: STDOUT_FILENO) {
            throw CommandFailure(unwrittenOutput: reason)
        }
    }

    /// Writes text to standard error as it is; there is nobody to tell where that fails.
    package static func complain(_ text: String) { _ = write(Array(text.utf8), to: STDERR_FILENO) }

    /// - Returns: the system's number for why not all was written; nil where it was.
    private static func write(_ bytes: [UInt8], to descriptor: Int32) -> Int32? {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 else {
                if count < 0, errno == EINTR { continue }
                return count < 0 ? errno : EIO
            }
            rest = rest.dropFirst(count)
        }
        return nil
    }
}
