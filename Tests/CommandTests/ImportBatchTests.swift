import Console
public import Coordinator
import Foundation
import Testing

@testable import TributaryCLI

@Suite("A batch of an import")
struct ImportBatchTests {
    private func plan() throws -> ImportPlan {
        let json = """
            {"entities": [{"name": "Package",
              "attributes": [{"name": "name", "type": "string"}, {"name": "size", "type": "integer64"}],
              "relationships": [
                {"name": "dependencies", "destination": "Package", "inverse": "users",
                 "toMany": true, "deleteRule": "nullify"},
                {"name": "users", "destination": "Package", "inverse": "dependencies",
                 "toMany": true, "deleteRule": "nullify"}]}]}
            """
        return try ImportPlan(
            model: try ManagedObjectModel(json: Array(json.utf8)), entity: "Package",
            maps: ["Package=name", "Size=size"], key: "name",
            references: [try ReferenceRule("Depends=dependencies:Package.name")], format: .control)
    }

    private func prepared(_ plan: ImportPlan, _ fields: JSONObject) throws -> PreparedRecord {
        let record = ImportRecord(line: 1, fields: fields)
        let values = try plan.values(of: record)
        return PreparedRecord(
            line: 1, values: values, key: values["name"],
            references: try plan.references.map { try plan.keys(of: record, $0) })
    }

    @Test("What was exported is read as it was; what fills nothing is named")
    func exported() throws {
        let plan = try plan()
        func record(_ fields: JSONObject) -> ImportRecord { ImportRecord(line: 3, fields: fields) }
        let values: JSONObject = ["name": "a", "size": 5, "users": .array([]), "colour": "red"]
        let exported: JSONObject = [
            "id": "x-tributary://test/Package/p1", "entity": "Package",
            "version": .array(["1.1-1"]), "conflicted": .boolean(false), "values": .object(values),
        ]
        let unwrapped = try plan.unwrapped(record(exported))
        #expect(unwrapped == record(values))
        #expect(try plan.values(of: unwrapped) == ["name": "a", "size": 5])
        #expect(plan.fieldsLeftOut(of: unwrapped) == ["users", "colour"])
        // An object under that name is nothing of ours elsewhere.
        let flat: JSONObject = ["name": "a", "values": .object(values)]
        #expect(try plan.unwrapped(record(flat)) == record(flat))
        var foreign = exported
        foreign["entity"] = "Other"
        #expect(throws: RecordError.self) { try plan.unwrapped(record(foreign)) }
        #expect(plan.fieldsLeftOut(of: record(["naem": "a", "Depends": "b"])) == ["naem"])
    }

    @Test("New records refer to each other in any order, and to what is made for them")
    func inserts() throws {
        let plan = try plan()
        let records = [
            try prepared(plan, ["Package": "a", "Size": "5", "Depends": "b (>= 1), c | d"]),
            try prepared(plan, ["Package": "b"]),
        ]
        let batch = ImportBatch(
            records, plan: plan, existing: ExistingObjects(references: [[:]]), onlyExisting: false)
        #expect(
            batch.operations == [
                ["insert": "Package", "id": "@c2", "values": ["name": "c"]],
                [
                    "insert": "Package", "id": "@r0",
                    "values": ["name": "a", "size": 5, "dependencies": .array(["@r1", "@c2"])],
                ],
                ["insert": "Package", "id": "@r1", "values": ["name": "b"]],
            ])
        #expect(batch.report.inserted == 2)
        #expect(batch.report.referenced == 1)
    }

    @Test("Of what is there, only what differs is written")
    func updates() throws {
        let plan = try plan()
        let existing = ExistingObjects(
            records: [
                "a": [
                    "id": "U/a",
                    "values": ["name": "a", "size": 5, "dependencies": .array(["U/b"])],
                ]
            ], references: [["b": "U/b", "e": "U/e"]])
        let same = ImportBatch(
            [try prepared(plan, ["Package": "a", "Size": "5", "Depends": "b"])], plan: plan,
            existing: existing, onlyExisting: false)
        #expect(same.operations == [])
        #expect(same.report.unchanged == 1)
        let other = ImportBatch(
            [try prepared(plan, ["Package": "a", "Size": "6", "Depends": "b, e, gone"])],
            plan: plan, existing: existing, onlyExisting: true)
        #expect(
            other.operations == [
                ["update": "U/a", "values": ["size": 6], "add": ["dependencies": .array(["U/e"])]]
            ])
        #expect(other.report.referencesSkipped == 1)
    }

    @Test("No save has more than 10,000 operations, unless one record alone needs them")
    func divided() async throws {
        let node = try CannedNode(status: 200, body: "{}")
        let interface = try NodeInterface(url: node.url, token: nil)
        var importer = Importer(
            node: interface, plan: try plan(), onlyExisting: false, batchSize: 10_000, runID: "run")
        func record(_ number: Int, references: Int) -> ImportRecord {
            let names = (0..<references).map { JSONValue.string("\(number).\($0)") }
            return ImportRecord(
                line: number,
                fields: ["Package": .string("\(number)"), "Depends": .array(names)])
        }
        // With each of these comes the insert of what it refers to.
        for number in 1...3 { try await importer.add(record(number, references: 4_000)) }
        try await importer.add(record(4, references: 10_000))
        try await importer.flush()
        await interface.close()
        let saves = zip(node.requests, node.bodies).filter { $0.0.contains("/v1/save") }.map(\.1)
        let inserts = saves.map { $0.components(separatedBy: #""insert":"#).count - 1 }
        #expect(inserts == [8_002, 4_001, 10_001])
        #expect(saves.map { $0.contains(#""bulk":true"#) } == [false, false, true])
    }

    @Test("A value of another type than its attribute's is reported with line and column")
    func wrongType() throws {
        let plan = try plan()
        #expect(throws: RecordError(line: 1, "Size: expected an integer, not \"big\"")) {
            try prepared(plan, ["Package": "a", "Size": "big"])
        }
    }

    @Test(
        "Flags that the model does not know are refused",
        arguments: [
            "Depends", "Depends=dependencies", "Depends=nothing:Package.name",
            "Depends=dependencies:Package.nothing", "Depends=dependencies:Other.name",
        ])
    func wrongReference(_ text: String) throws {
        #expect(throws: CommandFailure.self) {
            let model = try ManagedObjectModel(
                json: [UInt8](
                    """
                    {"entities": [{"name": "Package", "attributes": [{"name": "name", "type": "string"}],
                      "relationships": [{"name": "dependencies", "destination": "Package",
                      "toMany": true, "inverse": "dependencies", "deleteRule": "nullify"}]}]}
                    """.utf8))
            _ = try ImportPlan(
                model: model, entity: "Package", maps: [], key: nil,
                references: [try ReferenceRule(text)], format: .csv)
        }
    }
}

@Suite("Values that are imported")
struct ImportedValueTests {
    // What was there was not found by its key, and came once more with each import.
    @Test(
        "They are as a node writes them, however the file does",
        arguments: [
            (.uuid, "0f8fad5b-d9cb-469f-a165-70867728950e", "0F8FAD5B-D9CB-469F-A165-70867728950E"),
            (.date, "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000Z"),
            (.decimal, "+1.50", "1.5"), (.decimal, .integer(7), "7"),
            (.double, .integer(5), .double(5)), (.double, "5", .double(5)),
            (.float, "0.1", .double(Double(Float(0.1)))),
            (.float, .double(0.1), .double(Double(Float(0.1)))),
            (.integer64, " 7 ", .integer(7)), (.boolean, "yes", .boolean(true)),
            (.string, " a ", " a "),
        ] as [(AttributeType, JSONValue, JSONValue)])
    func canonical(_ type: AttributeType, _ text: JSONValue, _ expected: JSONValue) throws {
        #expect(try ImportValue.json(text, type) == expected)
    }
}

@Suite("Empty texts that are imported")
struct EmptyTextTests {
    @Test("They are values where the file tells them from null, and none where it does not")
    func texts() throws {
        let name = AttributeDescription("name", .string)
        let bytes = AttributeDescription("bytes", .binary)
        let count = AttributeDescription("count", .integer64)
        for attribute in [name, bytes] {
            #expect(try ImportValue.json("", attribute, isTyped: true) == "")
            #expect(try ImportValue.json("", attribute, isTyped: false) == .null)
        }
        #expect(try ImportValue.json("", count, isTyped: true) == .null)
        let mandatory = AttributeDescription("name", .string, isOptional: false)
        #expect(try ImportValue.json("", mandatory, isTyped: false) == "")
    }
}

extension JSONValue: ExpressibleByStringLiteral {
    /// A string.
    public init(stringLiteral text: String) { self = .string(text) }
}

extension JSONValue: ExpressibleByUnicodeScalarLiteral {}
extension JSONValue: ExpressibleByExtendedGraphemeClusterLiteral {}

extension JSONValue: ExpressibleByIntegerLiteral {
    /// An integer.
    public init(integerLiteral number: Int64) { self = .integer(number) }
}

extension JSONValue: ExpressibleByBooleanLiteral {
    /// A truth value.
    public init(booleanLiteral truth: Bool) { self = .boolean(truth) }
}
