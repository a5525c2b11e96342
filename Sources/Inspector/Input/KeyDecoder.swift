// From the bytes that a terminal sends to keys.

/// Decodes keys. A sequence may come in pieces.
package struct KeyDecoder: Sendable {
    /// What was pasted beyond this is dropped: no field takes as much.
    static let maximumPaste = 65_536
    private static let maximumSequence = 64
    private static let endOfPaste: [UInt8] = Array("\u{1B}[201~".utf8)

    private var pending: [UInt8] = []
    private var pasted: [UInt8]?

    /// A decoder at the beginning.
    package init() {}

    /// Whether a sequence has begun that may go on. After an escape nothing more may come: then it
    /// was the key.
    package var isPending: Bool { !pending.isEmpty && pasted == nil }

    /// Takes bytes, and gives the keys that are complete.
    package mutating func feed(_ bytes: some Sequence<UInt8>) -> [Key] {
        var keys: [Key] = []
        for byte in bytes {
            if pasted != nil {
                paste(byte, &keys)
            } else {
                pending.append(byte)
                take(&keys)
            }
        }
        return keys
    }

    /// Ends a sequence that did not go on.
    package mutating func flush() -> [Key] {
        guard isPending else { return [] }
        let rest = pending
        pending = []
        guard rest.first == 0x1B else { return [] }
        return [.escape] + feed(rest.dropFirst())
    }

    private mutating func paste(_ byte: UInt8, _ keys: inout [Key]) {
        pasted?.append(byte)
        guard var text = pasted else { return }
        if text.suffix(Self.endOfPaste.count).elementsEqual(Self.endOfPaste) {
            text.removeLast(Self.endOfPaste.count)
            keys.append(.paste(String(decoding: text, as: UTF8.self)))
            pasted = nil
        } else if text.count > Self.maximumPaste + Self.endOfPaste.count {
            pasted?.remove(at: Self.maximumPaste)
        }
    }

    private mutating func take(_ keys: inout [Key]) {
        guard let first = pending.first else { return }
        switch first {
        case 0x1B: takeSequence(&keys)
        case 0x0D, 0x0A: finish(.enter, &keys)
        case 0x09: finish(.tab, &keys)
        case 0x08, 0x7F: finish(.backspace, &keys)
        case 0x00..<0x20:
            finish(.control(Character(Unicode.Scalar(first == 0 ? 0x20 : first + 0x60))), &keys)
        case 0x20..<0x7F: finish(.character(Character(Unicode.Scalar(first))), &keys)
        default: takeScalar(first, &keys)
        }
    }

    private mutating func finish(_ key: Key?, _ keys: inout [Key]) {
        pending = []
        if let key { keys.append(key) }
    }

    private mutating func takeScalar(_ first: UInt8, _ keys: inout [Key]) {
        let length =
            switch first {
            case 0xC2...0xDF: 2
            case 0xE0...0xEF: 3
            case 0xF0...0xF4: 4
            default: 1
            }
        if length == 1 { return finish(nil, &keys) }
        if let last = pending.last, pending.count > 1, last & 0xC0 != 0x80 {
            // Cut off: what came instead begins something else.
            pending = [last]
            return take(&keys)
        }
        guard pending.count == length else { return }
        let text = String(decoding: pending, as: UTF8.self)
        finish(
            text.unicodeScalars.contains("\u{FFFD}") ? nil : text.first.map { .character($0) },
            &keys)
    }

    private mutating func takeSequence(_ keys: inout [Key]) {
        guard pending.count > 1 else { return }
        switch pending[1] {
        case UInt8(ascii: "["):
            guard let last = pending.last, pending.count > 2 else { return }
            if (0x40...0x7E).contains(last) {
                let text = String(decoding: pending.dropFirst(2).dropLast(), as: UTF8.self)
                pending = []
                interpret(text, last, &keys)
            } else if pending.count > Self.maximumSequence || last < 0x20 {
                pending = []
            }
        case UInt8(ascii: "O"):
            guard pending.count > 2 else { return }
            let last = pending[2]
            pending = []
            interpret("", last, &keys)
        default:
            let rest = pending.dropFirst()
            pending = []
            keys.append(.escape)
            keys += feed(rest)
        }
    }

    private mutating func interpret(_ text: String, _ last: UInt8, _ keys: inout [Key]) {
        let key: Key? =
            switch last {
            case UInt8(ascii: "A"): .up
            case UInt8(ascii: "B"): .down
            case UInt8(ascii: "C"): .right
            case UInt8(ascii: "D"): .left
            case UInt8(ascii: "H"): .home
            case UInt8(ascii: "F"): .end
            case UInt8(ascii: "M") where text.isEmpty: .enter
            case UInt8(ascii: "Z"): .backTab
            case UInt8(ascii: "M") where text.hasPrefix("<"): Self.mouse(text)
            case UInt8(ascii: "~"): numbered(text)
            default: nil
            }
        if let key { keys.append(key) }
    }

    private mutating func numbered(_ text: String) -> Key? {
        switch text.prefix(while: { $0 != ";" }) {
        case "1", "7": return .home
        case "3": return .delete
        case "4", "8": return .end
        case "5": return .pageUp
        case "6": return .pageDown
        case "200": pasted = []
        default: break
        }
        return nil
    }

    private static func mouse(_ text: String) -> Key? {
        let numbers = text.dropFirst().split(separator: ";").map { Int($0) ?? 0 }
        guard numbers.count == 3, numbers[1] > 0, numbers[2] > 0 else { return nil }
        let (row, column) = (numbers[2] - 1, numbers[1] - 1)
        return switch numbers[0] {
        case 0: .click(row: row, column: column)
        case 64, 65: .wheel(isDown: numbers[0] == 65, row: row, column: column)
        default: nil
        }
    }
}
