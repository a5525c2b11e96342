import Console
import Coordinator
import Foundation
import Testing

@testable import TributaryCLI

@Suite("Tables that fit")
struct FittedTableTests {
    private static func conflict(_ number: Int, property: String) -> JSONObject {
        let sides = [("anna", 1, "*"), ("bob", 2, "")].map { author, node, _ -> JSONValue in
            [
                "dot": .string("\(node).6f3a91c04be1d277-\(number)"), "node": .integer(Int64(node)),
                "author": .string(author), "context": .null,
                "timestamp": ["milliseconds": 1_795_000_000_000, "counter": 0],
                "value": .string("+49 30 555 00\(node) extension \(number)"),
                "visible": .boolean(node == 1),
            ]
        }
        return [
            "id": .string("Contact.p29432318796907\(number).\(property)"),
            "short": .string("89464\(number)"), "kind": "update", "state": "unresolved",
            "open": true, "entity": "Contact",
            "object": .string("x-tributary://local/Contact/p29432318796907\(number)"),
            "property": .string(property), "policy": "error", "sides": .array(sides),
            "violation": .null,
        ]
    }

    private static let conflicts = [
        conflict(1, property: "phone"), conflict(2, property: "emergencyPhoneNumber"),
    ]

    private func lines(_ width: Int, chosen: [String]? = nil) -> [String] {
        ConflictTable.table(Self.conflicts, chosen: chosen).lines(
            Terminal(isInteractive: true, width: width, isColoured: false))
    }

    @Test(
        "At any width the IDs are whole, and what, who, when and the values are told",
        arguments: [40, 60, 80, 100, 120, 200])
    func widths(_ width: Int) {
        let lines = lines(width)
        #expect(lines.allSatisfy { DisplayText.width($0) <= width })
        let text = lines.joined(separator: "\n")
        for part in ["894641", "894642", "11-18 11:06", "*+"] {
            #expect(text.contains(part), "\(part) at \(width)")
        }
        #expect(text.contains("anna@1 / bob@2") || text.contains("1/2"))
        #expect(text.contains("Cont"))
        if width >= 80 { #expect(text.contains("Contact.phone")) }
        if width >= 200 { #expect(text.contains("Contact/p294323187969071")) }
    }

    @Test("Values are shortened in their middle, because their ends differ")
    func middle() {
        #expect(DisplayText.shorten("+49 30 555 001 extension 1", to: 11) == "+49 3…ion 1")
        #expect(DisplayText.shorten("short", to: 11) == "short")
        #expect(DisplayText.width(DisplayText.shorten("東京東京東京東京", to: 9)) <= 9)
    }

    @Test("--columns shows those columns, in that order, at any width")
    func chosen() {
        let lines = lines(200, chosen: ["policy", "id"])
        #expect(lines == ["POLICY  ID", "error   894641", "error   894642"])
    }

    @Test("A terminal that shows ASCII alone gets nothing else")
    func ascii() {
        let terminal = Terminal(
            isInteractive: true, width: 40, isColoured: false, isUnicode: false)
        let lines = ConflictTable.table(Self.conflicts).lines(terminal)
        #expect(lines.joined().utf8.allSatisfy { $0 < 0x80 })
        #expect(lines.joined().contains("~"))
    }

    @Test("A number stands for the last list's conflict, with the sides that it showed")
    func numbers() throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("recent-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let recent = RecentConflicts(
            of: "http://127.0.0.1:7100", ["XDG_STATE_HOME": folder.path])
        #expect(recent[1] == nil)
        recent.keep(Self.conflicts)
        let entry = try recent.entry(named: "2")
        #expect(entry.id == "Contact.p294323187969072.emergencyPhoneNumber")
        #expect(entry.sides == ["1.6f3a91c04be1d277-2", "2.6f3a91c04be1d277-2"])
        #expect(throws: CommandFailure.self) { try recent.entry(named: "3") }
        // Four digits begin a short ID.
        #expect(try recent.entry(named: "8946") == .init(id: "8946", sides: []))
        let other = RecentConflicts(of: "other", ["XDG_STATE_HOME": folder.path])
        #expect(other[1] == nil)
        #expect(RecentConflicts(of: "x", [:]).file == nil)
    }

    @Test(
        "An object is named as tables show it, as conflicts do, or by its URI, with a property or without"
    )
    func objects() throws {
        for (text, property) in [
            ("Contact/p17", nil), ("Contact.p17", nil), ("x-tributary://demo/Contact/p17", nil),
            ("Contact/p17.phone", "phone"), ("Contact.p17.phone", "phone"),
            ("x-tributary://demo/Contact/p17.phone", "phone"),
        ] as [(String, String?)] {
            let name = try ObjectName(text)
            #expect(name.short == "Contact/p17" && name.property == property, "\(text)")
        }
        for text in ["Contact", "p17", "Contact/17", ""] {
            #expect(throws: CommandFailure.self) { try ObjectName(text) }
        }
    }

    @Test("A point is a time in UTC, how long ago, or a token as it is")
    func points() {
        let now: UInt64 = 1_795_000_000_000
        #expect(PointText.point("2026-01-31 14:02", now: now) == "2026-01-31T14:02:00Z")
        #expect(PointText.point("2026-01-31", now: now) == "2026-01-31T00:00:00Z")
        #expect(PointText.point("2026-01-31T14:02:03Z", now: now) == "2026-01-31T14:02:03Z")
        #expect(PointText.point("2h", now: now) == ValueText.date(Int64(now) - 7_200_000))
        #expect(PointText.point("5min", now: now) == ValueText.date(Int64(now) - 300_000))
        #expect(PointText.point("abcDEF_1", now: now) == "abcDEF_1")
    }

    @Test("Branches part where saves had not seen each other, and join where one had seen both")
    func graph() {
        let rows = BranchGraph([
            .init(id: "a", after: []), .init(id: "b", after: ["a"]), .init(id: "c", after: ["a"]),
            .init(id: "d", after: ["b", "c"]), .init(id: "e", after: ["d"]),
        ]).rows
        #expect(
            rows.map(\.drawing) == ["*", "*", "|\\", "| *", "* |", "|/", "*"])
        #expect(rows.compactMap(\.commit) == [4, 3, 2, 1, 0])
    }

    @Test("There is a man page for each command that is shown, and completions for three shells")
    func manual() {
        let pages = ManualPage.all()
        let names = pages.map(\.name)
        for name in ["tributary.1", "tributary-conflicts-resolve.1", "tributary-blame.1"] {
            #expect(names.contains(name))
        }
        #expect(!names.contains("tributary-manual.1"))
        for (name, text) in pages {
            #expect(text.hasPrefix(".TH ") && text.contains(".SH NAME"), "\(name)")
            // A line of text that begins with a dot would be an instruction.
            let known = [".TH", ".SH", ".PP", ".nf", ".fi"]
            for line in text.split(separator: "\n") where line.hasPrefix(".") {
                #expect(known.contains { line.hasPrefix($0) }, "\(name): \(line)")
            }
        }
        let completions = ManualCommand.completions()
        #expect(completions.map(\.name) == ["tributary", "_tributary", "tributary.fish"])
        #expect(completions.allSatisfy { $0.text.contains("blame") })
    }
}
