// From one screen to the next by as few bytes as needed.

/// Writes what a terminal must get to show a screen.
package struct ScreenPainter: Sendable {
    /// Whether colours are used; bold, reverse and underline always are.
    package let isColoured: Bool

    /// A painter.
    package init(isColoured: Bool) { self.isColoured = isColoured }

    /// The bytes that lead from what a terminal shows to a screen.
    ///
    /// - Parameter old: what the terminal shows; nil where nobody knows.
    package func bytes(from old: Screen?, to new: Screen) -> [UInt8] {
        var output = Output(isColoured: isColoured)
        let old = old?.size == new.size ? old : nil
        if old == nil { output.text += "\u{1B}[0m\u{1B}[2J" }
        for row in 0..<new.size.rows { paint(row, old, new, &output) }
        let isSame = old?.cursor == new.cursor
        if output.text.isEmpty, isSame { return [] }
        if output.style != .plain { output.text += "\u{1B}[0m" }
        if let cursor = new.cursor {
            output.text += "\u{1B}[\(cursor.row + 1);\(cursor.column + 1)H\u{1B}[?25h"
        } else if !isSame || old == nil {
            output.text += "\u{1B}[?25l"
        }
        return Array(output.text.utf8)
    }

    private func paint(_ row: Int, _ old: Screen?, _ new: Screen, _ output: inout Output) {
        var column = 0
        while column < new.size.columns {
            let cell = new[row, column]
            let before = old?[row, column] ?? .blank
            // A wide character is written whole or not at all.
            let isSame =
                cell == before
                && (cell.width != 2
                    || old.map { $0[row, column + 1] == new[row, column + 1] }
                        ?? true)
            if cell.width == 0 || isSame {
                column += 1
                continue
            }
            output.write(cell, row, column)
            column += Int(cell.width)
        }
    }

    /// What was written, and what the terminal is set to after it.
    private struct Output {
        let isColoured: Bool
        var text = ""
        var style = CellStyle.plain
        /// Where the terminal's cursor is; nil where terminals do not agree.
        private var place: Screen.Place?

        init(isColoured: Bool) { self.isColoured = isColoured }

        mutating func write(_ cell: Cell, _ row: Int, _ column: Int) {
            if place != Screen.Place(row: row, column: column) {
                text += "\u{1B}[\(row + 1);\(column + 1)H"
            }
            if cell.style != style {
                text += Self.sequence(cell.style, isColoured)
                style = cell.style
            }
            text.append(cell.character)
            // How wide anything else is, terminals do not agree on.
            let isCertain =
                cell.character.unicodeScalars.count == 1
                && cell.character.unicodeScalars.allSatisfy {
                    $0.value < 0x300 || (0x2010...0x25FF).contains($0.value)
                }
            place = isCertain ? Screen.Place(row: row, column: column + 1) : nil
        }

        private static func sequence(_ style: CellStyle, _ isColoured: Bool) -> String {
            var codes = ["0"]
            if style.isBold { codes.append("1") }
            if style.isDim { codes.append("2") }
            if style.isUnderlined { codes.append("4") }
            if style.isReversed { codes.append("7") }
            if isColoured {
                switch style.hue {
                case .plain: break
                case .red: codes.append("31")
                case .green: codes.append("32")
                case .yellow: codes.append("33")
                case .blue: codes.append("34")
                case .cyan: codes.append("36")
                }
            }
            return "\u{1B}[\(codes.joined(separator: ";"))m"
        }
    }
}
