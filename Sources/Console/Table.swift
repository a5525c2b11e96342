// Tables: aligned and cut to the width on a terminal, separated by tabs elsewhere.

/// Rows under headings.
package struct Table {
    /// A value of a row, painted on a terminal.
    package struct Cell: ExpressibleByStringLiteral {
        package let text: String
        package let colour: Colour?

        package init(_ text: String, _ colour: Colour? = nil) {
            self.text = DisplayText.line(text)
            self.colour = colour
        }

        package init(stringLiteral text: String) { self.init(text) }
    }

    /// A heading and how its column is aligned.
    package struct Column: ExpressibleByStringLiteral {
        package let title: String
        package let isNumeric: Bool

        package init(_ title: String, isNumeric: Bool = false) {
            self.title = title
            self.isNumeric = isNumeric
        }

        package init(stringLiteral title: String) { self.init(title) }
    }

    package let columns: [Column]
    package private(set) var rows: [[Cell]] = []

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
        guard terminal.isInteractive else {
            return [columns.map(\.title).joined(separator: "\t")]
                + rows.map { $0.map(\.text).joined(separator: "\t") }
        }
        let widths = widths(within: terminal.width)
        let heading = zip(columns, widths).map { column, width in
            DisplayText.pad(
                DisplayText.cut(column.title, to: width), to: width, right: column.isNumeric)
        }
        let style = terminal.style
        var lines = [style.paint(Self.joined(heading), .bold)]
        for row in rows {
            let cells = row.indices.map { index in
                let cut = DisplayText.cut(row[index].text, to: widths[index])
                // Painted after padding is measured: the escapes take no columns.
                let fill = String(
                    repeating: " ", count: max(0, widths[index] - DisplayText.width(cut)))
                let painted = style.paint(cut, row[index].colour)
                return columns[index].isNumeric ? fill + painted : painted + fill
            }
            lines.append(Self.joined(cells))
        }
        return lines
    }

    private static func joined(_ cells: [String]) -> String {
        var line = cells.joined(separator: "  ")
        while line.last == " " { line.removeLast() }
        return line
    }

    /// Column widths: natural ones, the widest made narrower until all fit.
    private func widths(within total: Int) -> [Int] {
        var widths = columns.enumerated().map { index, column in
            rows.reduce(DisplayText.width(column.title)) {
                max($0, DisplayText.width($1[index].text))
            }
        }
        let available = max(total - 2 * (widths.count - 1), widths.count)
        while widths.reduce(0, +) > available, let widest = widths.max(), widest > 4,
            let index = widths.firstIndex(of: widest)
        {
            let excess = widths.reduce(0, +) - available
            let second = widths.filter { $0 < widest }.max() ?? 4
            widths[index] = max(widest - excess, min(second, widest - 1), 4)
        }
        return widths
    }
}
