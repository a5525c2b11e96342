import TestSupport
import Testing

@testable import Inspector

@Suite("Screen painter") struct ScreenPainterTests {
    private let painter = ScreenPainter(isColoured: true)

    private func screen(_ lines: String..., columns: Int = 20) -> Screen {
        var screen = Screen(size: Size(columns: columns, rows: lines.count))
        for (row, line) in lines.enumerated() { screen.write(line, row: row, column: 0) }
        return screen
    }

    /// A terminal that knows what the painter uses.
    private struct Terminal {
        var screen: [[Character]]
        var (row, column) = (0, 0)

        init(_ size: Size) {
            screen = Array(
                repeating: Array(repeating: " ", count: size.columns), count: size.rows)
        }

        mutating func take(_ bytes: [UInt8]) {
            let text = Array(String(decoding: bytes, as: UTF8.self).unicodeScalars)
            var index = 0
            while index < text.count {
                guard text[index] == "\u{1B}" else {
                    put(Character(text[index]))
                    index += 1
                    continue
                }
                let end = text[index...].firstIndex { $0.value >= 0x40 && $0 != "[" } ?? index
                let numbers = String(String.UnicodeScalarView(text[(index + 2)..<end]))
                    .split(separator: ";").map { Int($0) ?? 0 }
                if text[end] == "H" { (row, column) = (numbers[0] - 1, numbers[1] - 1) }
                if text[end] == "J" {
                    for row in screen.indices {
                        for column in screen[row].indices { screen[row][column] = " " }
                    }
                }
                index = end + 1
            }
        }

        private mutating func put(_ character: Character) {
            screen[row][column] = character
            column += 1
        }
    }

    @Test("A first screen is drawn whole, the same one again by nothing")
    func first() {
        let one = screen("one", "two")
        let bytes = painter.bytes(from: nil, to: one)
        #expect(String(decoding: bytes, as: UTF8.self).contains("\u{1B}[2J"))
        #expect(painter.bytes(from: one, to: one).isEmpty)
    }

    @Test("Only cells that differ are written")
    func difference() {
        let bytes = painter.bytes(from: screen("value 1", "two"), to: screen("value 2", "two"))
        #expect(String(decoding: bytes, as: UTF8.self) == "\u{1B}[1;7H2")
    }

    @Test("Another size is drawn whole")
    func resized() {
        let bytes = painter.bytes(from: screen("one"), to: screen("one", "two"))
        #expect(String(decoding: bytes, as: UTF8.self).contains("\u{1B}[2J"))
    }

    @Test("Without colours text is still bold, underlined and reversed")
    func colourless() {
        var styled = Screen(size: Size(columns: 10, rows: 1))
        styled.write("x", row: 0, column: 0, CellStyle(hue: .red, isBold: true, isReversed: true))
        let plain = ScreenPainter(isColoured: false).bytes(from: nil, to: styled)
        #expect(String(decoding: plain, as: UTF8.self).contains("\u{1B}[0;1;7mx"))
        let coloured = painter.bytes(from: nil, to: styled)
        #expect(String(decoding: coloured, as: UTF8.self).contains("\u{1B}[0;1;7;31mx"))
    }

    @Test("After a wide character the cursor is placed again")
    func wide() {
        let bytes = painter.bytes(from: screen("     "), to: screen("日x"))
        #expect(String(decoding: bytes, as: UTF8.self) == "\u{1B}[1;1H日\u{1B}[1;3Hx")
    }

    @Test("A terminal that follows shows what each screen has, whatever was before")
    func anything() {
        var generator = SeededGenerator(seed: 3)
        let size = Size(columns: 12, rows: 4)
        var terminal = Terminal(size)
        var old: Screen?
        for _ in 0..<500 {
            var new = old ?? Screen(size: size)
            for _ in 0..<Int.random(in: 0...6, using: &generator) {
                let length = Int.random(in: 0...8, using: &generator)
                let text = String(
                    (0..<length).map { _ in
                        "ab z".randomElement(using: &generator) ?? " "
                    })
                let style = CellStyle(isBold: Bool.random(using: &generator))
                new.write(
                    text, row: Int.random(in: 0..<4, using: &generator),
                    column: Int.random(in: 0..<12, using: &generator), style)
            }
            terminal.take(painter.bytes(from: old, to: new))
            let shown = (0..<4).map { row in (0..<12).map { new[row, $0].character } }
            #expect(terminal.screen == shown)
            old = new
        }
    }
}
