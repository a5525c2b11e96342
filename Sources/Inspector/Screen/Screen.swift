// What a terminal shows, as a value.

internal import Console

/// A place of the screen.
package struct Cell: Hashable, Sendable {
    /// The character; a space in the right half of a wide one.
    package let character: Character
    /// Its columns; 0 in the right half of a wide one.
    package let width: UInt8
    /// How it looks.
    package let style: CellStyle

    static let blank = Cell(character: " ", width: 1, style: .plain)
}

/// Columns and rows of a terminal.
package struct Size: Hashable, Sendable {
    /// The columns, at least 1.
    package let columns: Int
    /// The rows, at least 1.
    package let rows: Int

    /// A size.
    package init(columns: Int, rows: Int) {
        self.columns = max(1, columns)
        self.rows = max(1, rows)
    }
}

/// A grid of cells. Nothing in it can move a terminal's cursor: ``write(_:row:column:limit:_:)`` makes
/// control characters visible and drops what has no width.
package struct Screen: Hashable, Sendable {
    /// A place: row and column from 0.
    package struct Place: Hashable, Sendable {
        package let row: Int
        package let column: Int
    }

    /// How large it is.
    package let size: Size
    /// Whether it must hold nothing but ASCII.
    package let isASCII: Bool
    /// Row by row.
    package private(set) var cells: [Cell]
    /// Where the cursor is seen; nil for nowhere.
    package var cursor: Place?

    /// An empty screen.
    package init(size: Size, isASCII: Bool = false) {
        self.size = size
        self.isASCII = isASCII
        cells = Array(repeating: .blank, count: size.columns * size.rows)
    }

    /// Writes text; what has no room before `limit` is left out.
    ///
    /// - Parameter limit: the first column that is not written; nil for the screen's end.
    /// - Returns: the column after the text.
    @discardableResult
    package mutating func write(
        _ text: String, row: Int, column: Int, limit: Int? = nil, _ style: CellStyle = .plain
    ) -> Int {
        let limit = min(limit ?? size.columns, size.columns)
        guard (0..<size.rows).contains(row), column >= 0 else { return column }
        var column = column
        for character in VisibleText.of(text, isASCII: isASCII) {
            let width = DisplayText.width(String(character))
            if width == 0 { continue }
            guard column + width <= limit else { return limit }
            let shown = character.unicodeScalars.count > 8 ? Character("?") : character
            put(Cell(character: shown, width: UInt8(width), style: style), row, column)
            if width == 2 {
                put(Cell(character: " ", width: 0, style: style), row, column + 1)
            }
            column += width
        }
        return column
    }

    /// Writes pieces of text one after the other.
    @discardableResult
    package mutating func write(
        _ line: StyledLine, row: Int, column: Int, limit: Int? = nil, isChosen: Bool = false
    ) -> Int {
        var column = column
        for span in line {
            let style = isChosen ? span.style.chosen : span.style
            column = write(span.text, row: row, column: column, limit: limit, style)
        }
        return column
    }

    /// Gives a part of a row a style, with spaces.
    package mutating func fill(row: Int, from: Int, to: Int, _ style: CellStyle) {
        guard (0..<size.rows).contains(row) else { return }
        for column in max(0, from)..<max(max(0, from), min(to, size.columns)) {
            put(Cell(character: " ", width: 1, style: style), row, column)
        }
    }

    /// A cell.
    package subscript(row: Int, column: Int) -> Cell { cells[row * size.columns + column] }

    private mutating func put(_ cell: Cell, _ row: Int, _ column: Int) {
        let index = row * size.columns + column
        // Half of a wide character is none.
        if cells[index].width == 0, cell.width > 0, column > 0, cells[index - 1].width == 2 {
            cells[index - 1] = .blank
        }
        if cells[index].width == 2, cell.width != 2, column + 1 < size.columns {
            cells[index + 1] = .blank
        }
        cells[index] = cell
    }

    /// The rows as text, without spaces at their ends.
    package var lines: [String] {
        (0..<size.rows).map { row in
            var line = ""
            for column in 0..<size.columns where self[row, column].width > 0 {
                line.append(self[row, column].character)
            }
            while line.last == " " { line.removeLast() }
            return line
        }
    }
}

/// Text as cells may hold it.
enum VisibleText {
    /// A single line without anything that a terminal would act on. Whatever is invisible, or changes
    /// the direction of text, is shown by its number.
    static func of(_ text: String, isASCII: Bool) -> String {
        if text.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F }) { return text }
        var result = ""
        for scalar in DisplayText.line(text).unicodeScalars {
            if isASCII, scalar.value >= 0x7F {
                result += substitutes[scalar] ?? number(scalar)
                continue
            }
            switch scalar.properties.generalCategory {
            case .format where scalar.value == 0x200D: result.unicodeScalars.append(scalar)
            case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .unassigned,
                .privateUse:
                result += number(scalar)
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    private static func number(_ scalar: Unicode.Scalar) -> String {
        "\\u{\(String(scalar.value, radix: 16))}"
    }

    /// What stands for the inspector's own signs where there is only ASCII.
    private static let substitutes: [Unicode.Scalar: String] = [
        "…": "~", "─": "-", "│": "|", "●": "*", "○": "o", "▸": ">", "▾": "v", "◀": "<", "✓": "+",
        "·": "-", "→": ">", "←": "<", "↑": "^", "↓": "v", "⚠": "!", "✗": "x", "×": "x", "┼": "+",
        "↔": "-", "“": "\"", "”": "\"",
    ]
}
