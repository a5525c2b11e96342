// Text in columns: how wide it is on a terminal, and where to cut it.

/// Measures and cuts text.
package enum DisplayText {
    /// A single line that a terminal shows as it is: control characters are made visible, so that a
    /// stored value can neither move the cursor nor paint.
    package static func line(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar.value {
            case 0x0A: result += "\\n"
            case 0x0D: result += "\\r"
            case 0x09: result += "\\t"
            case 0..<0x20, 0x7F..<0xA0, 0x061C, 0x200E...0x200F, 0x202A...0x202E, 0x2066...0x2069:
                result += "\\u{\(String(scalar.value, radix: 16))}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    /// The columns that text takes.
    package static func width(_ text: String) -> Int { text.reduce(0) { $0 + width($1) } }

    /// Text of at most so many columns; what is cut ends in an ellipsis.
    package static func cut(_ text: String, to columns: Int) -> String {
        guard width(text) > columns else { return text }
        guard columns > 0 else { return "" }
        var result = ""
        var used = 0
        for character in text {
            let next = width(character)
            guard used + next <= columns - 1 else { break }
            result.append(character)
            used += next
        }
        return result + "…"
    }

    /// Text of at most so many columns; what is too long has an ellipsis in its middle, because its end
    /// often tells it from others.
    package static func shorten(_ text: String, to columns: Int) -> String {
        guard width(text) > columns, columns > 4 else { return cut(text, to: columns) }
        let tail = (columns - 1) / 2
        var end: [Character] = []
        var used = 0
        for character in text.reversed() {
            let next = width(character)
            guard used + next <= tail else { break }
            end.append(character)
            used += next
        }
        return cut(text, to: columns - used) + String(end.reversed())
    }

    /// Text in lines of at most so many columns, divided between words.
    package static func wrap(_ text: String, to columns: Int) -> [String] {
        var lines: [String] = []
        var line = ""
        for word in text.split(separator: " ") {
            if !line.isEmpty, width(line) + 1 + width(String(word)) > columns {
                lines.append(line)
                line = ""
            }
            line += (line.isEmpty ? "" : " ") + word
        }
        if !line.isEmpty || lines.isEmpty { lines.append(line) }
        return lines
    }

    /// Text in ASCII alone, for terminals that show no more; what is not becomes a question mark.
    package static func ascii(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "…": result += "~"
            case "◀": result += "<"
            case _ where scalar.isASCII: result.unicodeScalars.append(scalar)
            default: result += "?"
            }
        }
        return result
    }

    /// Text filled up with spaces to so many columns.
    package static func pad(_ text: String, to columns: Int, right: Bool = false) -> String {
        let fill = String(repeating: " ", count: max(0, columns - width(text)))
        return right ? fill + text : text + fill
    }

    private static func width(_ character: Character) -> Int {
        guard let first = character.unicodeScalars.first else { return 0 }
        if first.properties.isEmojiPresentation { return 2 }
        switch first.value {
        case 0x0300...0x036F, 0x200B...0x200D, 0xFE00...0xFE0F: return 0
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF,
            0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1FAFF, 0x20000...0x3FFFD:
            return 2
        default: return 1
        }
    }
}
