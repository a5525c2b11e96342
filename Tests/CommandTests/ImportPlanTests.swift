import Console
import Coordinator
import Testing

@testable import TributaryCLI

@Suite("What the flags of an import ask for")
struct ImportPlanTests {
    private func plan(
        _ format: RecordFormat = .csv, maps: [String] = [], references: [String] = []
    ) throws -> ImportPlan {
        let json = """
            {"entities": [
              {"name": "Person", "attributes": [{"name": "name", "type": "string"},
                {"name": "nick", "type": "string", "optional": false, "default": "x"},
                {"name": "age", "type": "integer64"}, {"name": "born", "type": "date"}],
               "relationships": [
                {"name": "manager", "destination": "Person", "inverse": "reports"},
                {"name": "reports", "destination": "Person", "inverse": "manager", "toMany": true}]},
              {"name": "Chief", "parent": "Person"}]}
            """
        return try ImportPlan(
            model: try ManagedObjectModel(json: Array(json.utf8)), entity: "Person", maps: maps,
            key: "name", references: references.map { try ReferenceRule($0) }, format: format)
    }

    private func record(_ fields: JSONObject) -> ImportRecord {
        ImportRecord(line: 2, fields: fields)
    }

    @Test("Two columns that fill one property are refused")
    func twoColumns() throws {
        let mapped = try plan(maps: ["Alter=age"])
        #expect(throws: CommandFailure.usage("The columns age and Alter both fill age.")) {
            try mapped.check(columns: ["age", "Alter"], conditions: [])
        }
        #expect(throws: RecordError(line: 2, "age and Alter both fill age")) {
            try mapped.values(of: record(["age": 1, "Alter": 2]))
        }
        #expect(throws: CommandFailure.self) { try plan(maps: ["a=age", "b=age"]) }
        #expect(throws: CommandFailure.self) { try plan(maps: ["a=age", "a=name"]) }
        #expect(throws: CommandFailure.self) {
            try plan(references: ["a=manager:Person.name", "b=manager:Person.name"])
        }
        #expect(throws: CommandFailure.self) {
            try plan(maps: ["a=age"], references: ["a=manager:Person.name"])
        }
    }

    @Test("A column that a flag names and the file lacks is refused by name")
    func missingColumns() throws {
        let plan = try plan(maps: ["Alter=age"], references: ["boss=manager:Person.name"])
        let cases: [(columns: [String], conditions: [String], missing: String)] = [
            (["boss"], [], "Alter, which --map"), (["Alter"], [], "boss, which --reference"),
            (["Alter", "boss"], ["x"], "x, which --where"),
        ]
        for (columns, conditions, missing) in cases {
            #expect {
                try plan.check(columns: columns, conditions: conditions)
            } throws: {
                "\($0)".contains("has no column \(missing) names")
            }
        }
        try plan.check(columns: ["Alter", "boss", "x"], conditions: ["x"])
        var missed = ColumnsMissed(plan, try RecordFilter(conditions: ["x=1"], part: nil))
        missed.see(record(["Alter": 1]), plan)
        missed.see(record(["boss": "a"]), plan)
        #expect(missed.first?.column == "x")
        missed.see(record(["x": "a"]), plan)
        #expect(missed.first == nil)
    }

    @Test("An empty cell clears a to-one as it clears an attribute; a missing one leaves both")
    func clearing() throws {
        let plan = try plan(references: ["boss=manager:Person.name", "team=reports:Person.name"])
        let empty = record(["name": "a", "age": .null, "boss": .null, "team": .null])
        #expect(try plan.clearedReferences(of: empty) == ["manager"])
        #expect(try plan.values(of: empty) == ["name": "a", "age": .null])
        #expect(try plan.clearedReferences(of: record(["name": "a"])) == [])
        #expect(try plan.clearedReferences(of: record(["boss": "b"])) == [])
    }

    @Test("An empty field of CSV is null, but an empty text where null is not taken")
    func empty() throws {
        let values = try plan().values(of: record(["name": .null, "nick": .null, "age": ""]))
        #expect(values == ["name": .null, "nick": "", "age": .null])
        #expect(try plan().values(of: record(["name": ""])) == ["name": ""])
    }

    @Test("Fields of control files are known in any case")
    func fieldNames() throws {
        let plan = try plan(
            .control, maps: ["Package=name"], references: ["Boss=manager:Person.name"])
        let stanza = record(["PACKAGE": "a", "Age": "5", "boss": "b", "Name": "c"])
        #expect(try plan.values(of: stanza) == ["name": "a", "age": 5])
        #expect(try plan.keys(of: stanza, plan.references[0]) == ["b"])
        #expect(plan.fieldsLeftOut(of: stanza) == ["Name"])
        let filter = try RecordFilter(conditions: ["AGE=5"], part: nil)
        #expect(try filter.takes(stanza, of: stanza, plan))
    }

    @Test("A record whose key, or whose reference, several objects have is refused")
    func shared() throws {
        let plan = try plan(references: ["boss=manager:Person.name"])
        let prepared = PreparedRecord(line: 2, values: ["name": "a"], key: "a", references: [["b"]])
        var existing = ExistingObjects()
        existing.sharedReferences = [[]]
        #expect(existing.ambiguity(of: prepared, plan) == nil)
        existing.sharedReferences = [["b"]]
        #expect(
            existing.ambiguity(of: prepared, plan) == "boss: several objects of Person have name b")
        existing.sharedKeys = ["a"]
        #expect(existing.ambiguity(of: prepared, plan) == "several objects have name a")
    }

    @Test("Rows of an export are taken for their own entity only, which --where can choose")
    func otherEntities() throws {
        let row = record(["id": "x-tributary://c/Chief/p1", "entity": "Chief", "name": "a"])
        #expect(throws: RecordError.self) { try plan().unwrapped(row) }
        let filter = try RecordFilter(conditions: ["entity=^Person$"], part: nil)
        #expect(filter.isOtherEntity(row))
        let own = record(["id": "x-tributary://c/Person/p1", "entity": "Person", "name": "a"])
        #expect(!filter.isOtherEntity(own))
        #expect(try filter.takes(try plan().unwrapped(own), of: own, plan()))
    }

    @Test(
        "Dates have an offset, no time, or more digits than milliseconds",
        arguments: [
            ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000Z", false),
            ("2026-01-31T12:00:00+01:00", "2026-01-31T11:00:00.000Z", false),
            ("2026-01-31 23:30:00.5-0130", "2026-02-01T01:00:00.500Z", false),
            ("2026-01-31T12:00+01", "2026-01-31T11:00:00.000Z", false),
            ("2026-01-31", "2026-01-31T00:00:00.000Z", false),
            ("2026-01-31T12:00:00.123456Z", "2026-01-31T12:00:00.123Z", true),
            ("2026-01-31T23:59:59.9996Z", "2026-02-01T00:00:00.000Z", true),
            ("2026-01-31T12:00:00.1230000Z", "2026-01-31T12:00:00.123Z", false),
        ])
    func dates(_ text: String, _ expected: String, _ isRounded: Bool) throws {
        let date = try #require(ImportDate(text))
        #expect(date.text == expected)
        #expect(date.isRounded == isRounded)
        let row = record(["born": .string(text)])
        #expect(try plan().values(of: row) == ["born": .string(expected)])
        #expect(try plan().roundedDates(of: row) == (isRounded ? 1 : 0))
    }

    @Test(
        "What could be another date is refused",
        arguments: [
            "2026-01-31T12:00:00", "31.01.2026", "01/31/2026", "2026-02-30", "2026-1-1", "",
            "2026-01-31T12:00:00+25:00", "2026-01-31T12:00:00+1:00", "2026-01-31T",
            "2026-01-31T25:00Z",
            "2026-01-31T12:00:00.Z", "2026-01-31T12:00:00.1.2Z", "2026-01-31T12:00:00+01:000",
        ])
    func noDates(_ text: String) { #expect(ImportDate(text) == nil) }
}
