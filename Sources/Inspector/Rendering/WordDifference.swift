// What differs between two texts, to the character.

/// Marks what a text has that another has not.
package enum WordDifference {
    /// Longer texts are compared by their common beginning and end alone: comparing words costs their
    /// product.
    static let maximumWords = 600

    /// The text in pieces; what differs from `base` is marked.
    package static func spans(_ text: String, from base: String) -> [Span] {
        if text.utf8.elementsEqual(base.utf8) { return [Span(text)] }
        let old = words(base)
        let new = words(text)
        var pieces = Pieces()
        if old.count > maximumWords || new.count > maximumWords {
            pieces.add(old: Array(base), new: Array(text))
            return pieces.spans
        }
        var removed = Set<Int>()
        var inserted = Set<Int>()
        for change in new.difference(from: old) {
            switch change {
            case .remove(let offset, _, _): removed.insert(offset)
            case .insert(let offset, _, _): inserted.insert(offset)
            }
        }
        var (first, second) = (0, 0)
        var (gone, come): ([Character], [Character]) = ([], [])
        while first < old.count || second < new.count {
            if first < old.count, removed.contains(first) {
                gone += old[first]
                first += 1
            } else if second < new.count, inserted.contains(second) {
                come += new[second]
                second += 1
            } else {
                pieces.add(old: gone, new: come)
                (gone, come) = ([], [])
                if second < new.count { pieces.add(String(new[second]), isChanged: false) }
                first += 1
                second += 1
            }
        }
        pieces.add(old: gone, new: come)
        return pieces.spans
    }

    /// Words, spaces and single signs.
    private static func words(_ text: String) -> [[Character]] {
        var words: [[Character]] = []
        var kind = 0
        for character in text {
            let next =
                character.isLetter || character.isNumber ? 1 : character.isWhitespace ? 2 : 3
            if next == kind, next != 3 {
                words[words.count - 1].append(character)
            } else {
                words.append([character])
            }
            kind = next
        }
        return words
    }

    /// Pieces that are put together.
    private struct Pieces {
        private(set) var spans: [Span] = []

        mutating func add(_ text: String, isChanged: Bool) {
            guard !text.isEmpty else { return }
            let style: CellStyle = isChanged ? .changed : .plain
            if let last = spans.last, last.style == style {
                spans[spans.count - 1] = Span(last.text + text, style)
            } else {
                spans.append(Span(text, style))
            }
        }

        /// Adds what replaced something: its common beginning and end did not change.
        mutating func add(old: [Character], new: [Character]) {
            var start = 0
            while start < old.count, start < new.count, old[start] == new[start] { start += 1 }
            var end = 0
            while end < old.count - start, end < new.count - start,
                old[old.count - 1 - end] == new[new.count - 1 - end]
            {
                end += 1
            }
            add(String(new[..<start]), isChanged: false)
            add(String(new[start..<(new.count - end)]), isChanged: true)
            add(String(new[(new.count - end)...]), isChanged: false)
        }
    }
}

/// What differs between two texts of several lines.
package enum LineComparison {
    /// More lines are shown without a comparison.
    static let maximumLines = 2_000
    /// Equal lines that are shown around a difference.
    static let context = 2

    /// Whether a text is better shown by lines.
    package static func isLong(_ text: String) -> Bool {
        text.utf8.count > 200 || text.utf8.contains(0x0A)
    }

    /// The lines of a text with what differs from another, equal lines far from a difference left out.
    package static func lines(_ text: String, from base: String?, columns: Int) -> [StyledLine] {
        let new = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        guard let base, base != text else { return shown(new, columns) }
        let old = base.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        guard old.count <= maximumLines, new.count <= maximumLines else {
            return shown(new, columns)
        }
        var entries: [(mark: String, line: String, partner: String?)] = []
        var removed = Set<Int>()
        var inserted = Set<Int>()
        for change in new.difference(from: old) {
            switch change {
            case .remove(let offset, _, _): removed.insert(offset)
            case .insert(let offset, _, _): inserted.insert(offset)
            }
        }
        var (first, second) = (0, 0)
        while first < old.count || second < new.count {
            if first < old.count, removed.contains(first) {
                entries.append(("-", old[first], nil))
                first += 1
            } else if second < new.count, inserted.contains(second) {
                // The line that it took the place of, for the words that differ.
                let partner = entries.last.flatMap { $0.mark == "-" ? $0.line : nil }
                entries.append(("+", new[second], partner))
                second += 1
            } else {
                entries.append((" ", second < new.count ? new[second] : "", nil))
                first += 1
                second += 1
            }
        }
        return collapsed(entries, columns)
    }

    private static func shown(_ lines: [String], _ columns: Int) -> [StyledLine] {
        lines.prefix(maximumLines).flatMap { line in
            ValueLines.wrap(line, to: max(1, columns - 2)).map { [Span("  " + $0)] }
        } + (lines.count > maximumLines ? [[Span("  … \(lines.count) lines in all", .dim)]] : [])
    }

    private static func collapsed(
        _ entries: [(mark: String, line: String, partner: String?)], _ columns: Int
    ) -> [StyledLine] {
        var isShown = Array(repeating: false, count: entries.count)
        for index in entries.indices where entries[index].mark != " " {
            for near in max(0, index - context)...min(entries.count - 1, index + context) {
                isShown[near] = true
            }
        }
        var result: [StyledLine] = []
        var hidden = 0
        func tellHidden() {
            if hidden > 0 { result.append([Span("  … \(hidden) equal lines", .dim)]) }
            hidden = 0
        }
        for (index, entry) in entries.enumerated() {
            guard isShown[index] else {
                hidden += 1
                continue
            }
            tellHidden()
            switch entry.mark {
            case "-":
                for line in ValueLines.wrap(entry.line, to: max(1, columns - 2)) {
                    result.append([Span("- " + line, .red)])
                }
            case "+":
                let spans =
                    entry.partner.map { WordDifference.spans(entry.line, from: $0) }
                    ?? [Span(entry.line, .green)]
                result += StyledLines.wrap([Span("+ ", .green)] + spans, to: columns, indent: 2)
            default:
                for line in ValueLines.wrap(entry.line, to: max(1, columns - 2)) {
                    result.append([Span("  " + line)])
                }
            }
        }
        tellHidden()
        return result
    }
}
