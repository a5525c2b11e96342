// Dates as files write them: ISO 8601 with an offset, without a time, with more digits than milliseconds.

import Coordinator

/// A date of a file, read strictly: year, month and day in this order, and with a time also its offset.
struct ImportDate: Hashable {
    /// The date as a node writes it.
    let text: String
    /// Whether it was rounded to milliseconds.
    let isRounded: Bool

    /// Nil where the text is no such date, or has a time and no offset.
    init?(_ given: String) {
        // The node's own form needs nothing done to it.
        if let exact = ValueText.milliseconds(fromDate: given) {
            self.init(milliseconds: exact, isRounded: false)
            return
        }
        guard let dash = given.dropFirst().lastIndex(where: { $0 == "T" || $0 == "t" || $0 == " " })
        else {
            guard let day = ValueText.milliseconds(fromDate: given + "T00:00:00Z") else {
                return nil
            }
            self.init(milliseconds: day, isRounded: false)
            return
        }
        var time = given[given.index(after: dash)...]
        guard let offset = Self.takeOffset(&time) else { return nil }
        var clock = String(time)
        if clock.utf8.count == 5 { clock += ":00" }
        let parts = clock.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard
            let seconds = ValueText.milliseconds(fromDate: "\(given[..<dash])T\(parts[0])Z"),
            let fraction = Self.fraction(parts.count == 2 ? parts[1] : "0")
        else { return nil }
        let (sum, overflow) = seconds.addingReportingOverflow(fraction.milliseconds - offset)
        guard !overflow else { return nil }
        self.init(milliseconds: sum, isRounded: fraction.isRounded)
    }

    private init(milliseconds: Int64, isRounded: Bool) {
        text = ValueText.date(milliseconds)
        self.isRounded = isRounded
    }

    /// Takes `Z`, `+01:00`, `+0100` or `+01` off the end; gives it in milliseconds.
    private static func takeOffset(_ time: inout Substring) -> Int64? {
        if time.last == "Z" || time.last == "z" {
            time.removeLast()
            return 0
        }
        guard let sign = time.lastIndex(where: { $0 == "+" || $0 == "-" }) else { return nil }
        let isNegative = time[sign] == "-"
        let digits = time[time.index(after: sign)...]
        let parts = digits.split(separator: ":", omittingEmptySubsequences: false)
        let plain = parts.joined()
        guard plain.utf8.count == 2 || plain.utf8.count == 4, parts.count <= 2,
            parts.allSatisfy({ parts.count == 1 || $0.utf8.count == 2 }),
            plain.utf8.allSatisfy({ (48...57).contains($0) }), let hours = Int64(plain.prefix(2)),
            let minutes = plain.utf8.count == 4 ? Int64(plain.suffix(2)) : 0, hours < 24,
            minutes < 60
        else { return nil }
        time = time[..<sign]
        return (isNegative ? -1 : 1) * (hours * 60 + minutes) * 60_000
    }

    /// The digits after the point, rounded half up.
    private static func fraction(_ digits: Substring) -> (milliseconds: Int64, isRounded: Bool)? {
        guard (1...100).contains(digits.utf8.count),
            digits.utf8.allSatisfy({ (48...57).contains($0) })
        else { return nil }
        let kept = digits.prefix(3)
        let rest = digits.dropFirst(3)
        guard let value = Int64(kept + String(repeating: "0", count: 3 - kept.count)) else {
            return nil
        }
        let up: Int64 = (rest.utf8.first ?? 48) >= 53 ? 1 : 0
        return (value + up, rest.contains { $0 != "0" })
    }
}
