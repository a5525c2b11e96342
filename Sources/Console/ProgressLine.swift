// How far long work has come: in place on a terminal, a line now and then elsewhere.

import Foundation

/// Shows progress on standard error. Used by one task.
package struct ProgressLine {
    private let start = ContinuousClock.now
    private var lastShown: ContinuousClock.Instant?
    private var isShown = false
    private let terminal: Terminal
    private let isQuiet: Bool

    /// Begins to count.
    ///
    /// - Parameter isQuiet: shows nothing at all.
    package init(isQuiet: Bool = false, terminal: Terminal = .error) {
        self.isQuiet = isQuiet
        self.terminal = terminal
    }

    /// Seconds since the beginning.
    package var seconds: Double { Double((ContinuousClock.now - start) / .milliseconds(1)) / 1000 }

    /// Tells where the work stands; shown at most each second, or each five without a terminal.
    package mutating func update(records: Int, fraction: Double?) {
        guard !isQuiet else { return }
        let now = ContinuousClock.now
        let pause: Duration = terminal.isInteractive ? .seconds(1) : .seconds(5)
        guard now - (lastShown ?? start) >= pause else { return }
        lastShown = now
        isShown = true
        let line = Self.line(records: records, seconds: seconds, fraction: fraction)
        Terminal.complain(terminal.isInteractive ? "\r\u{1B}[K\(line)" : "\(line)\n")
    }

    /// Takes the line away.
    package mutating func end() {
        if isShown, terminal.isInteractive { Terminal.complain("\r\u{1B}[K") }
        isShown = false
    }

    /// The line: records, rate and, where the end is known, share and time left.
    package static func line(records: Int, seconds: Double, fraction: Double?) -> String {
        let rate = seconds > 0 ? Int((Double(records) / seconds).rounded()) : 0
        var line = "\(records) records, \(rate)/s"
        if let fraction, fraction > 0, fraction <= 1 {
            let left = Int((seconds / fraction - seconds).rounded())
            line += ", \(Int(fraction * 100)) %, \(duration(left)) left"
        }
        return line
    }

    /// Seconds as `1 h 02 min`, `2 min 03 s` or `4 s`.
    package static func duration(_ seconds: Int) -> String {
        func padded(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        if seconds >= 3600 { return "\(seconds / 3600) h \(padded(seconds / 60 % 60)) min" }
        return seconds >= 60 ? "\(seconds / 60) min \(padded(seconds % 60)) s" : "\(seconds) s"
    }
}
