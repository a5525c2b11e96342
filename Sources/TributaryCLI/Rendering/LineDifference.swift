// The differences between two texts, line by line.

/// Compares texts of several lines.
enum LineDifference {
    /// More lines than this are shown whole: comparing costs their product.
    static let maximumLines = 2_000

    /// Whether a value is so long that a comparison says more than the value.
    static func isLong(_ text: String) -> Bool { text.utf8.count > 120 || text.contains("\n") }

    /// The lines, each with `+`, `-` or a space before it; nil where there are too many.
    static func lines(from old: String, to new: String) -> [(mark: Character, line: String)]? {
        let before = old.split(separator: "\n", omittingEmptySubsequences: false)
        let after = new.split(separator: "\n", omittingEmptySubsequences: false)
        guard before.count <= maximumLines, after.count <= maximumLines else { return nil }
        let difference = after.difference(from: before)
        var removed = Set<Int>()
        var inserted = Set<Int>()
        for change in difference {
            switch change {
            case .remove(let offset, _, _): removed.insert(offset)
            case .insert(let offset, _, _): inserted.insert(offset)
            }
        }
        var result: [(Character, String)] = []
        var first = 0
        var second = 0
        while first < before.count || second < after.count {
            if first < before.count, removed.contains(first) {
                result.append(("-", String(before[first])))
                first += 1
            } else if second < after.count, inserted.contains(second) {
                result.append(("+", String(after[second])))
                second += 1
            } else {
                result.append((" ", first < before.count ? String(before[first]) : ""))
                first += 1
                second += 1
            }
        }
        return result
    }
}
