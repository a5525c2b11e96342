import Foundation
import Inspector
import TestSupport
import Testing

/// Whole screens as files under `Screens`: what is seen, and below it how it looks.
/// `TRIBUTARY_MAKE_FIXTURES=1` in the environment writes them again.
@Suite("Inspector's screens") struct ScreenTests {
    /// A screen's name, and the keys that lead to it.
    struct Scene: Sendable, CustomStringConvertible {
        let description: String
        let keys: [Key]
        var isReadOnly = false
        var isASCII = false
    }

    private static func typed(_ text: String) -> [Key] { text.map { .character($0) } }

    static let scenes = [
        Scene(description: "conflicts", keys: []),
        Scene(description: "filter", keys: typed("/phone ana")),
        Scene(description: "groups", keys: typed("gggg")),
        Scene(description: "marks", keys: [.character("v"), .down, .character("v")]),
        Scene(description: "phone", keys: typed("/phone") + [.enter, .enter]),
        Scene(description: "notes", keys: typed("/notes") + [.enter, .enter]),
        Scene(description: "photo", keys: typed("/photo") + [.enter, .enter]),
        Scene(description: "row", keys: typed("/row") + [.enter, .enter]),
        Scene(description: "take-side", keys: typed("/phone") + [.enter] + typed("1asked Ada")),
        Scene(description: "policies", keys: typed("ap")),
        Scene(description: "blame", keys: typed("/phone") + [.enter] + typed("b")),
        Scene(description: "object", keys: typed("/phone") + [.enter] + typed("o")),
        Scene(description: "nodes", keys: typed("n")),
        Scene(description: "log", keys: typed("/phone") + [.enter, .enter] + typed("l")),
        Scene(description: "help", keys: typed("?")),
        Scene(description: "read-only", keys: typed("1"), isReadOnly: true),
        Scene(description: "ascii", keys: typed("/row") + [.enter, .enter], isASCII: true),
    ]

    @Test("Each scene is drawn as its file has it", arguments: scenes, ["80x24", "132x43"])
    func golden(scene: Scene, size: String) throws {
        let numbers = size.split(separator: "x").compactMap { Int($0) }
        var inspector = TestInspector(
            columns: numbers[0], rows: numbers[1], isReadOnly: scene.isReadOnly,
            isASCII: scene.isASCII)
        inspector.answers["GET /v1/objects/Person/p17/blame"] = TestInspector.json(Self.blame)
        inspector.answers["GET /v1/objects/Person/p17/log"] = TestInspector.json(Self.life)
        for key in scene.keys { inspector.press(key) }
        let drawn = Self.text(inspector.screen)
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Screens/\(scene)-\(size).txt")
        if Fixtures.areMade { try Data(drawn.utf8).write(to: file) }
        let kept = try String(contentsOf: file, encoding: .utf8)
        #expect(drawn == kept, "run with TRIBUTARY_MAKE_FIXTURES=1:\n\(drawn)")
    }

    /// The rows, and a letter for the style of each cell: `b` bold, `d` dim, `u` underlined, in capitals
    /// where reversed; colours by their first letter instead of plain text.
    private static func text(_ screen: Screen) -> String {
        var lines = screen.lines
        lines.append(String(repeating: "=", count: screen.size.columns))
        for row in 0..<screen.size.rows {
            var line = ""
            for column in 0..<screen.size.columns {
                let style = screen[row, column].style
                var sign: Character =
                    switch style.hue {
                    case .plain: style.isBold ? "b" : style.isDim ? "d" : " "
                    case .red: "r"
                    case .green: "g"
                    case .yellow: style.isUnderlined ? "u" : "y"
                    case .blue: "l"
                    case .cyan: "c"
                    }
                if style.isReversed { sign = sign == " " ? "R" : Character(sign.uppercased()) }
                line.append(sign)
            }
            while line.last == " " { line.removeLast() }
            lines.append(line)
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static let blame = """
        {"object": "\(TestInspector.ada)", "entity": "Person", "alive": true, "version": "v1",
         "inserted": {"dot": "\(TestInspector.one)-1", "node": 1, "author": "import", "context": null,
           "note": null, "saveID": null, "timestamp": {"milliseconds": 1794900000000, "counter": 0}},
         "properties": [
           {"property": "name", "value": "Ada Lovelace",
            "write": {"dot": "\(TestInspector.one)-1", "node": 1, "author": "import",
              "timestamp": {"milliseconds": 1794900000000, "counter": 0}},
            "seen": {}, "previous": null, "beat": [], "undo": null},
           {"property": "age", "value": null, "write": null, "seen": null, "previous": null, "beat": []},
           {"property": "phone", "value": "+46 70 777 45 67",
            "write": {"dot": "\(TestInspector.two)-117", "node": 2, "author": "ben",
              "note": "she called", "timestamp": {"milliseconds": 1795000030000, "counter": 0}},
            "previous": {"value": "+46 70 123 45 67", "write": {"dot": "\(TestInspector.one)-3",
              "node": 1, "author": "import", "timestamp": {"milliseconds": 1794900000000, "counter": 0}}},
            "beat": [{"conflict": "Person.p17.phone", "short": "3fa2c1", "state": "settled",
              "write": {"dot": "\(TestInspector.one)-41", "node": 1, "author": "ana",
                "timestamp": {"milliseconds": 1795000000000, "counter": 0}},
              "value": "+46 70 123 99 67", "deleted": false, "rule": "latest",
              "text": "Policy mergeByPropertyObjectTrump: the latest write wins on every node."}],
            "undo": {"kind": "conflict", "conflict": "Person.p17.phone"}}],
         "token": "t1"}
        """

    private static let life = """
        {"object": "\(TestInspector.ada)", "complete": true, "token": "t1", "entries": [
          {"dot": "\(TestInspector.one)-1", "node": 1, "author": "import", "kind": "insert",
           "timestamp": {"milliseconds": 1794900000000, "counter": 0},
           "values": {"name": "Ada Lovelace", "phone": "+46 70 123 45 67"}, "after": []},
          {"dot": "\(TestInspector.one)-41", "node": 1, "author": "ana", "kind": "update",
           "timestamp": {"milliseconds": 1795000000000, "counter": 0},
           "values": {"phone": "+46 70 123 99 67"}, "after": ["\(TestInspector.one)-1"]},
          {"dot": "\(TestInspector.two)-117", "node": 2, "author": "ben", "kind": "update",
           "timestamp": {"milliseconds": 1795000030000, "counter": 0}, "note": "she called",
           "values": {"phone": "+46 70 777 45 67"}, "after": ["\(TestInspector.one)-1"]}]}
        """

    @Test("What somebody stored cannot move the cursor, paint, or change the direction of text")
    func hostileValues() {
        let hostile = "\\u001b[2J\\u001b]0;gone\\u0007\\r\\n\\u202egnp\\u200b\\u009b31m"
        let conflict = TestInspector.conflict(
            "phone", short: "3fa2c1", base: "\"\(hostile)\"", one: "\"\(hostile)1\"",
            two: "\"\(hostile)2\"")
        var inspector = TestInspector(conflicts: [conflict])
        for keys in ["", "\r", "b", "o", "l", "?"] {
            inspector.press(.escape, .escape)
            for key in keys { inspector.press(key == "\r" ? .enter : .character(key)) }
            for cell in inspector.screen.cells {
                for scalar in cell.character.unicodeScalars {
                    #expect(scalar.value >= 0x20 && !(0x7F..<0xA0).contains(scalar.value))
                    #expect(scalar.properties.generalCategory != .format)
                }
            }
        }
    }

    @Test("Text of wide characters keeps its columns")
    func wideCharacters() {
        var screen = Screen(size: Size(columns: 10, rows: 2))
        screen.write("日本語", row: 0, column: 0)
        screen.write("x", row: 0, column: 1)
        screen.write("語語語語語語", row: 1, column: 0, limit: 5)
        #expect(screen.lines == [" x本語", "語語"])
        #expect(screen[1, 4].character == " ")
        var ascii = Screen(size: Size(columns: 20, rows: 1), isASCII: true)
        ascii.write("é─…", row: 0, column: 0)
        #expect(ascii.lines == ["\\u{e9}-~"])
    }

    @Test("Any size is drawn, down to one cell")
    func sizes() {
        for columns in [1, 2, 39, 40, 41, 60, 79, 81, 109, 110, 300] {
            for rows in [1, 2, 11, 12, 13, 24, 100] {
                var inspector = TestInspector(columns: columns, rows: rows)
                for key in "gn?lbop" {
                    inspector.press(.character(key))
                    #expect(inspector.screen.cells.count == columns * rows)
                }
            }
        }
    }
}
