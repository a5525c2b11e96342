import Console
import Coordinator
import Testing

@testable import TributaryCLI

@Suite("Tables")
struct TableTests {
    private var table: Table {
        var table = Table(["NAME", Table.Column("AGE", isNumeric: true), "NOTE"])
        table.add([Table.Cell("Ada", .cyan), "36", "wrote the first program for a machine"])
        table.add(["Grace\u{1B}[31m", "7", "東京"])
        return table
    }

    @Test("On a terminal columns are aligned and the widest is cut to fit")
    func terminal() {
        let lines = table.lines(Terminal(isInteractive: true, width: 40, isColoured: false))
        #expect(
            lines == [
                "NAME             AGE  NOTE",
                "Ada               36  wrote the first p…",
                "Grace\\u{1b}[31m    7  東京",
            ])
    }

    @Test("Elsewhere columns are separated by tabs, whole and without colour")
    func plain() {
        let lines = table.lines(Terminal(isInteractive: false, width: 10, isColoured: false))
        #expect(
            lines == [
                "NAME\tAGE\tNOTE", "Ada\t36\twrote the first program for a machine",
                "Grace\\u{1b}[31m\t7\t東京",
            ])
    }

    @Test("Colours do not count as columns")
    func colours() {
        let lines = table.lines(Terminal(isInteractive: true, width: 80, isColoured: true))
        #expect(lines[1].hasPrefix("\u{1B}[36mAda\u{1B}[0m               36  wrote"))
    }

    @Test("No line is wider than the terminal", arguments: [20, 25, 33, 60, 200])
    func width(_ columns: Int) {
        let lines = table.lines(Terminal(isInteractive: true, width: columns, isColoured: false))
        #expect(lines.allSatisfy { DisplayText.width($0) <= columns })
    }
}

@Suite("The three-way view")
struct ThreeWayTests {
    private func conflict(
        base: String, values: [String], state: String = "unresolved", visible: Int = 0
    ) -> JSONValue {
        [
            "id": "Person.p17.name", "kind": "update", "state": .string(state), "open": true,
            "entity": "Person", "object": "x-tributary://demo/Person/p17", "property": "name",
            "policy": "error",
            "sides": .array(
                values.enumerated().map { index, value in
                    [
                        "dot": .string("\(index + 1).00000000000000aa-5"),
                        "node": .integer(Int64(index + 1)), "author": "import", "context": .null,
                        "timestamp": ["milliseconds": 1_795_000_000_000, "counter": 0],
                        "value": .string(value), "visible": .boolean(index == visible),
                    ]
                }),
            "base": ["dot": "1.00000000000000aa-2", "value": .string(base)],
            "reason": ["rule": "earliest", "text": "The earliest write is shown."],
            "closedBy": .null,
        ]
    }

    @Test("It shows the base, every side with its origin, and why one is visible")
    func whole() {
        let lines = ThreeWay(
            conflict(base: "Augusta", values: ["Ada", "Eve"]), style: Style(isEnabled: false)
        ).lines()
        #expect(
            lines == [
                "Person.p17.name  unresolved", "kind      update",
                "object    x-tributary://demo/Person/p17", "property  name", "policy    error", "",
                "base      1.00000000000000aa-2", "          \"Augusta\"", "",
                "side 1    1.00000000000000aa-5  ◀ visible",
                "          node 1, author import, 2026-11-18T11:06:40.000Z", "          \"Ada\"",
                "", "side 2    2.00000000000000aa-5",
                "          node 2, author import, 2026-11-18T11:06:40.000Z", "          \"Eve\"",
                "", "why       The earliest write is shown.",
                "resolve   tributary conflicts resolve 'Person.p17.name' "
                    + "--side 2 "
                    + "--seen 1.00000000000000aa-5,2.00000000000000aa-5",
            ])
    }

    @Test("What was decided can be decided otherwise and undone, by those who have seen all sides")
    func decided() {
        let settled = ThreeWay(
            conflict(base: "Augusta", values: ["Ada", "Eve"], state: "settled"),
            style: Style(isEnabled: false)
        ).lines()
        let seen = "--seen 1.00000000000000aa-5,2.00000000000000aa-5"
        #expect(
            Array(settled.suffix(2)) == [
                "change    tributary conflicts resolve 'Person.p17.name' "
                    + "--side 2 \(seen)",
                "undo      tributary conflicts undo 'Person.p17.name' \(seen)",
            ])
        var closed = conflict(base: "Augusta", values: ["Ada"], state: "resolved").object
        closed?["open"] = .boolean(false)
        closed?["id"] = .string("Person.p17.name@9")
        let lines = ThreeWay(.object(closed ?? JSONObject()), style: Style(isEnabled: false))
            .lines()
        #expect(
            lines.last
                == "undo      tributary conflicts undo 'Person.p17.name@9' "
                + "--seen 1.00000000000000aa-5")
        #expect(!lines.joined().contains("conflicts resolve"))
    }

    @Test(
        "A closed one tells who decided, when, to what and why, and names a command by short names")
    func whoDecided() throws {
        var closed = try #require(
            conflict(base: "", values: ["Ada", "Eve"], state: "resolved").object)
        closed["open"] = .boolean(false)
        closed["short"] = "3f9a2c"
        closed["sides"] = .array(
            (closed["sides"]?.array ?? []).enumerated().map { index, side in
                var side = side.object ?? JSONObject()
                side["dot"] = .string("\(index + 1).6f3a91c04be1d277-5")
                return .object(side)
            })
        closed["decision"] = [
            "by": 3, "author": "carl", "context": .null, "note": "he said so himself",
            "timestamp": ["milliseconds": 1_795_000_000_000, "counter": 0],
            "dot": "3.6f3a91c04be1d277-9", "value": "Eve",
        ]
        let lines = ThreeWay(.object(closed), style: Style(isEnabled: false), width: 80).lines()
        #expect(lines.contains("short     3f9a2c"))
        #expect(
            lines.suffix(4) == [
                "decided   carl on node 3 at 2026-11-18 11:06 UTC by 3.6f3a91c0-9",
                "to        \"Eve\"", "note      he said so himself",
                "undo      tributary conflicts undo 3f9a2c --seen 1.6f3a91c0-5,2.6f3a91c0-5",
            ])
        #expect(lines.allSatisfy { DisplayText.width($0) <= 80 })
    }

    @Test("To decide otherwise is to choose a side that does not stand")
    func otherwise() {
        func lines(_ values: [String], _ state: String) -> [String] {
            ThreeWay(
                conflict(base: "", values: values, state: state, visible: values.count - 1),
                style: Style(isEnabled: false)
            ).lines()
        }
        let settled = lines(["Ada", "Eve"], "settled")
        #expect(settled.contains { $0.hasPrefix("change") && $0.contains("--side 1 ") })
        #expect(!lines(["Ada"], "settled").joined().contains("conflicts resolve"))
        #expect(lines(["Ada"], "unresolved").contains { $0.contains("--side 1 ") })
    }

    @Test("Only of writes to a property it says that the value before is not known")
    func withoutBase() {
        func lines(_ kind: String) -> [String] {
            var object = conflict(base: "", values: ["Ada", "Eve"]).object ?? JSONObject()
            object["base"] = .null
            object["kind"] = .string(kind)
            return ThreeWay(.object(object), style: Style(isEnabled: false)).lines()
        }
        #expect(
            lines("update").contains(
                "base      not known: no write came before, or history no longer has it"))
        for kind in ["delete", "row", "uniqueness", "dangling", "link", "save"] {
            #expect(!lines(kind).joined().contains("not known"), "\(kind)")
        }
    }

    @Test("It shows which rule of the model is broken, and how to mend that")
    func violation() {
        let lines = ThreeWay(
            [
                "id": "Pet.p17.keeper.target", "kind": "dangling", "state": "settled",
                "open": true, "object": "x-tributary://demo/Pet/p17", "property": "keeper",
                "policy": "error", "violation": "missingMandatoryProperty",
                "sides": .array([["dot": "1.00000000000000aa-5", "visible": false, "value": "p9"]]),
                "base": .null, "reason": ["rule": "targetGone", "text": "It is gone."],
            ], style: Style(isEnabled: false)
        ).lines()
        #expect(lines.contains("violates  missingMandatoryProperty"))
        #expect(
            lines.suffix(2).first?.hasSuffix(
                #"--values '{"keeper": "URI"}' --seen 1.00000000000000aa-5"#) == true)
        #expect(
            lines.last
                == "undo      tributary conflicts undo 'Pet.p17.keeper.target' "
                + "--seen 1.00000000000000aa-5")
        let count = ThreeWay(
            [
                "id": "Team.p17.players.count", "kind": "count", "state": "settled",
                "open": true, "object": "x-tributary://demo/Team/p17", "property": "players",
                "policy": "error", "violation": "relationshipLacksMinimumCount",
                "sides": .array([]), "base": .null,
                "reason": ["rule": "memberCount", "text": "It needs more."],
            ], style: Style(isEnabled: false)
        ).lines()
        #expect(
            count == [
                "Team.p17.players.count  settled", "kind      count",
                "object    x-tributary://demo/Team/p17", "property  players", "policy    error",
                "violates  relationshipLacksMinimumCount", "", "why       It needs more.",
            ])
    }

    @Test("Long texts are compared line by line with the base")
    func longTexts() {
        let lines = ThreeWay(
            conflict(base: "one\ntwo\nthree", values: ["one\n2\nthree", "one\ntwo\nthree\nfour"]),
            style: Style(isEnabled: false)
        ).lines()
        let first = lines.firstIndex { $0.hasPrefix("side 1") } ?? 0
        #expect(
            Array(lines[(first + 2)...(first + 5)]) == [
                "          one", "        - two", "        + 2", "          three",
            ])
        let second = lines.firstIndex { $0.hasPrefix("side 2") } ?? 0
        #expect(lines[second + 5] == "        + four")
    }

    @Test("A stored text cannot control the terminal")
    func control() {
        let lines = ThreeWay(
            conflict(base: "\u{1B}]0;x", values: ["\u{1B}[2J\n\u{7}", "b"]),
            style: Style(isEnabled: false)
        ).lines()
        #expect(lines.allSatisfy { line in line.unicodeScalars.allSatisfy { $0.value >= 0x20 } })
    }
}

@Suite("Progress")
struct ProgressTests {
    @Test("The line tells rate, share and time left")
    func line() {
        #expect(
            ProgressLine.line(records: 500, seconds: 10, fraction: 0.1)
                == "500 records, 50/s, 10 %, 1 min 30 s left")
        #expect(ProgressLine.line(records: 0, seconds: 0, fraction: nil) == "0 records, 0/s")
        #expect(ProgressLine.duration(3_725) == "1 h 02 min")
    }
}
