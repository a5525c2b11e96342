// Lines of styled text: their width, and where they are cut or go on.

internal import Console

/// Measures and cuts lines.
enum StyledLines {
    static func width(_ line: StyledLine) -> Int {
        line.reduce(0) { $0 + DisplayText.width($1.text) }
    }

    /// A line of at most so many columns; what is cut ends in an ellipsis.
    static func cut(_ line: StyledLine, to columns: Int) -> StyledLine {
        let visible = line.map { Span(VisibleText.of($0.text, isASCII: false), $0.style) }
        guard width(visible) > columns else { return visible }
        var result: StyledLine = []
        var used = 0
        for span in visible {
            let width = DisplayText.width(span.text)
            if used + width >= columns {
                // One column stays for the ellipsis, also where the piece alone would fit.
                let cut = DisplayText.cut(span.text + "……", to: columns - used)
                result.append(Span(cut, span.style))
                return result
            }
            result.append(span)
            used += width
        }
        return result
    }

    /// A line filled up with spaces.
    static func pad(_ line: StyledLine, to columns: Int) -> StyledLine {
        let cut = cut(line, to: columns)
        let fill = columns - width(cut)
        return fill > 0 ? cut + [Span(String(repeating: " ", count: fill))] : cut
    }

    /// A line in several of at most so many columns, broken between words where there is a place.
    ///
    /// - Parameter indent: the columns that all but the first begin with.
    static func wrap(_ line: StyledLine, to columns: Int, indent: Int = 0) -> [StyledLine] {
        let columns = max(indent + 1, columns)
        var cells: [(character: Character, style: CellStyle, width: Int)] = []
        for span in line {
            for character in VisibleText.of(span.text, isASCII: false) {
                cells.append((character, span.style, DisplayText.width(String(character))))
            }
        }
        var lines: [StyledLine] = []
        var start = 0
        repeat {
            let fill = lines.isEmpty ? 0 : indent
            var end = start
            var used = fill
            while end < cells.count, used + cells[end].width <= columns || end == start {
                used += cells[end].width
                end += 1
            }
            var next = end
            if end < cells.count,
                let space = cells[start...end].lastIndex(where: { $0.character == " " }),
                cells[start..<space].contains(where: { $0.character != " " })
            {
                (end, next) = (space, space + 1)
            }
            var result: StyledLine =
                fill > 0 ? [Span(String(repeating: " ", count: fill))] : []
            var piece = ""
            for index in start..<end {
                piece.append(cells[index].character)
                if index + 1 == end || cells[index + 1].style != cells[index].style {
                    result.append(Span(piece, cells[index].style))
                    piece = ""
                }
            }
            lines.append(result)
            start = next
        } while start < cells.count
        return lines
    }
}
