// Tables: aligned and fitted to the width on a terminal, separated by tabs elsewhere.

/// Rows under headings.
package struct Table {
    /// A value of a row, painted on a terminal.
    package struct Cell: ExpressibleByStringLiteral {
        package let text: String
        /// What is shown where the column has no room for the text; nil where the text is cut.
        package let short: String?
        package let colour: Colour?
        /// The parts of the text, which are shortened one by one; empty of a text that is one.
        private let parts: [String]

        /// A text of several parts, with a bar between them.
        package init(parts: [String]) {
            self.parts = parts.map(DisplayText.line)
            text = self.parts.joined(separator: " | ")
            short = nil
            colour = nil
        }

        package init(_ text: String, _ colour: Colour? = nil, short: String? = nil) {
            self.text = DisplayText.line(text)
            self.short = short.map(DisplayText.line)
            self.colour = colour
            parts = []
        }

        package init(stringLiteral text: String) { self.init(text) }

        /// The text, as far as so many columns have room for it.
        fileprivate func fitted(to width: Int, isCutInside: Bool) -> String {
            if DisplayText.width(text) <= width { return text }
            let share = parts.isEmpty ? 0 : (width - 3 * (parts.count - 1)) / parts.count
            if share >= 4 {
                return parts.map { DisplayText.shorten($0, to: share) }.joined(separator: " | ")
            }
            let rest = short.map { DisplayText.width($0) <= width ? $0 : text } ?? text
            return isCutInside
                ? DisplayText.shorten(rest, to: width) : DisplayText.cut(rest, to: width)
        }

        /// The columns that it takes at least where it is not to be cut.
        fileprivate var leastWidth: Int { DisplayText.width(short ?? text) }
    }

    /// A heading, and what becomes of its column where there is little room.
    package struct Column: ExpressibleByStringLiteral {
        /// What becomes of a column.
        package enum Fit {
            /// It is never cut: one must be able to copy it.
            case whole
            /// Its end is cut off.
            case end
            /// Its middle is left out, because both ends tell something.
            case middle
        }

        package let title: String
        package let isNumeric: Bool
        package let fit: Fit
        /// Where there is no room, columns of the greatest rank are left out first; those of rank 0 never.
        package let rank: Int
        /// Whether it is shown only where the others have all the room that they need.
        package let isExtra: Bool
        /// Whether it stands on a line of its own beneath the row where the row has no room for it.
        package let goesBelow: Bool
        /// To how many columns it is cut at most.
        package let least: Int

        package init(
            _ title: String, isNumeric: Bool = false, fit: Fit = .end, rank: Int = 0,
            least: Int = 4,
            isExtra: Bool = false, goesBelow: Bool = false
        ) {
            self.title = title
            self.isNumeric = isNumeric
            self.fit = fit
            self.rank = rank
            self.least = least
            self.isExtra = isExtra
            self.goesBelow = goesBelow
        }

        package init(stringLiteral title: String) { self.init(title) }
    }

    package let columns: [Column]
    package private(set) var rows: [[Cell]] = []
    /// The titles of the columns that are wanted, in that order; nil for those that fit.
    package var chosen: [String]?

    package init(_ columns: [Column]) { self.columns = columns }

    /// Adds a row, with a cell for each column.
    package mutating func add(_ cells: [Cell]) {
        guard cells.count == columns.count else {
            fatalError("A row has \(cells.count) cells, and the table \(columns.count) columns.")
        }
        rows.append(cells)
    }

    /// The lines, headings first.
    package func lines(_ terminal: Terminal) -> [String] {
        let wanted = chosen.map { titles in
            titles.compactMap { title in
                columns.firstIndex { $0.title.lowercased() == title.lowercased() }
            }
        }
        guard terminal.isInteractive else {
            let places = wanted ?? Array(columns.indices)
            return [places.map { columns[$0].title }.joined(separator: "\t")]
                + rows.map { row in places.map { row[$0].text }.joined(separator: "\t") }
        }
        var layout = Layout(self, wanted ?? Array(columns.indices))
        layout.fit(within: terminal.width, leavesOut: wanted == nil)
        let style = terminal.style
        let heading = layout.places.map { place in
            DisplayText.pad(
                DisplayText.cut(columns[place].title, to: layout.widths[place]),
                to: layout.widths[place], right: columns[place].isNumeric)
        }
        var lines = [style.paint(Self.joined(heading), .bold)]
        for row in rows {
            let cells = layout.places.map { place -> String in
                let width = layout.widths[place]
                let text = row[place].fitted(
                    to: width, isCutInside: columns[place].fit == .middle)
                // Painted after padding is measured: the escapes take no columns.
                let fill = String(repeating: " ", count: max(0, width - DisplayText.width(text)))
                let painted = style.paint(text, row[place].colour)
                return columns[place].isNumeric ? fill + painted : painted + fill
            }
            lines.append(Self.joined(cells))
            var room = max(1, terminal.width - 3)
            var below: [String] = []
            for place in layout.below where room > 0 && !row[place].text.isEmpty {
                let text =
                    row[place].short
                    ?? row[place].fitted(to: room, isCutInside: columns[place].fit == .middle)
                below.append(text)
                room -= DisplayText.width(text) + 2
            }
            if !below.isEmpty {
                lines.append(
                    DisplayText.cut("   " + below.joined(separator: "  "), to: terminal.width))
            }
        }
        return lines.map { terminal.asShown($0) }
    }

    private static func joined(_ cells: [String]) -> String {
        var line = cells.joined(separator: "  ")
        while line.last == " " { line.removeLast() }
        return line
    }
}

/// The columns that are shown, and how wide each is.
private struct Layout {
    /// Those that are shown, in order.
    private(set) var places: [Int]
    /// Those that stand beneath their rows.
    private(set) var below: [Int] = []
    /// By place, of all columns.
    private(set) var widths: [Int]
    private let table: Table
    private let natural: [Int]
    private let least: [Int]

    init(_ table: Table, _ places: [Int]) {
        self.table = table
        self.places = places
        natural = table.columns.indices.map { place in
            table.rows.reduce(DisplayText.width(table.columns[place].title)) {
                max($0, DisplayText.width($1[place].text))
            }
        }
        least = table.columns.indices.map { [natural] place in
            let column = table.columns[place]
            guard column.fit != .whole else {
                return table.rows.reduce(1) { max($0, $1[place].leastWidth) }
            }
            return min(natural[place], column.least)
        }
        widths = natural
    }

    private func total(_ widths: [Int]) -> Int {
        places.reduce(0) { $0 + widths[$1] } + 2 * max(0, places.count - 1)
    }

    /// Leaves out what has no room, and shares the rest.
    mutating func fit(within width: Int, leavesOut: Bool) {
        while leavesOut, let last = places.max(by: { rank($0) < rank($1) }), rank(last) > 0,
            total(table.columns[last].isExtra ? comfortable : least) > width
        {
            places.removeAll { $0 == last }
            if table.columns[last].goesBelow { below.append(last) }
        }
        below.sort()
        widths = least
        var left = width - total(least)
        // Columns that are cut are made narrower still; what must be copied is not.
        while left < 0, let widest = narrowable.max(by: { widths[$0] < widths[$1] }) {
            widths[widest] -= 1
            left += 1
        }
        share(&left, upTo: comfortable)
        // What has a short form is shown whole before long texts grow.
        for place in places where table.columns[place].fit == .whole {
            let more = natural[place] - widths[place]
            guard more > 0, more <= left else { continue }
            widths[place] = natural[place]
            left -= more
        }
        share(&left, upTo: natural)
    }

    /// Gives room to the columns that are cut, the narrowest first.
    private mutating func share(_ left: inout Int, upTo most: [Int]) {
        func growable() -> [Int] {
            places.filter { table.columns[$0].fit != .whole && widths[$0] < most[$0] }
        }
        while left > 0, let narrowest = growable().min(by: { widths[$0] < widths[$1] }) {
            widths[narrowest] += 1
            left -= 1
        }
    }

    private func rank(_ place: Int) -> Int { table.columns[place].rank }

    /// Widths with which nothing that matters is cut: a long text may be.
    private var comfortable: [Int] {
        natural.indices.map {
            table.columns[$0].fit == .whole
                ? max(least[$0], min(natural[$0], Self.comfort))
                : min(natural[$0], max(Self.comfort, table.columns[$0].least))
        }
    }

    private static let comfort = 24

    private var narrowable: [Int] {
        places.filter { table.columns[$0].fit != .whole && widths[$0] > 1 }
    }
}
