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

    /// A line in several of at most so many columns.
    ///
    /// - Parameter indent: the columns that all but the first begin with.
    static func wrap(_ line: StyledLine, to columns: Int, indent: Int = 0) -> [StyledLine] {
        let columns = max(indent + 1, columns)
        var lines: [StyledLine] = []
        var current: StyledLine = []
        var used = 0
        for span in line {
            var piece = ""
            for character in VisibleText.of(span.text, isASCII: false) {
                let width = DisplayText.width(String(character))
                if used + width > columns {
                    if !piece.isEmpty { current.append(Span(piece, span.style)) }
                    lines.append(current)
                    current = [Span(String(repeating: " ", count: indent))]
                    used = indent
                    piece = ""
                }
                piece.append(character)
                used += width
            }
            if !piece.isEmpty { current.append(Span(piece, span.style)) }
        }
        return lines + [current]
    }
}
