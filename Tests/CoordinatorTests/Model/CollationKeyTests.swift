import GRDB
import Merge
import TestSupport
import Testing

@testable import Coordinator

/// Derived attributes that keep the keys of an order of texts, and what happens where the tables behind
/// derived texts are others.
@Suite("Kept sort keys")
struct CollationKeyTests {
    private static func model(_ isKept: Bool = true) throws -> ManagedObjectModel {
        let keys: [AttributeDescription] = [
            .init("key", .binary, derivation: .localizedStandard("name", locale: "sv_SE")),
            .init("rootKey", .binary, derivation: .localizedStandard("name", locale: "")),
            .init("canonical", .string, derivation: .canonical("name")),
            .init("lower", .string, derivation: .lowercase("name")),
            .init("upper", .string, derivation: .uppercase("name")),
        ]
        return try ManagedObjectModel(entities: [
            EntityDescription(
                "Person", attributes: [.init("name", .string)] + (isKept ? keys : []),
                relationships: [
                    .init("boss", to: "Person", inverse: "team"),
                    .init("team", to: "Person", inverse: "boss", isToMany: true),
                ],
                indexes: !isKept
                    ? []
                    : [
                        IndexDescription(name: "byName", elements: ["key"]),
                        IndexDescription(name: "backwards", elements: ["-key"]),
                    ])
        ])
    }

    private static let names: [PropertyValue] =
        ["ö", "file 10", "Å", "file 2", "z", "", "å", "ab\u{0}c", "File 2", "ÄÖ", "e\u{301}", "é"]
        .map { .string($0) } + [.null, .null]

    private static let sorts = ["sv_SE", "de", ""].flatMap { locale in
        ["name", "boss.name"].flatMap { key in
            [true, false].map { ascending in
                SortDescriptor(
                    key, ascending: ascending, comparison: .localizedStandard(locale: locale))
            }
        }
    }

    private func plan(_ node: EngineNode, _ sort: String) throws -> String {
        let request = FetchRequest("Person", sortDescriptors: [SortDescriptor(text: sort)])
        return try node.coordinator.read { reader in
            let compiled = try reader.compile(request, selecting: ["t0._id"])
            return try String.fetchAll(
                reader.database, sql: "EXPLAIN QUERY PLAN " + compiled.sql,
                adapter: SuffixRowAdapter(fromIndex: 3)
            ).joined(separator: "; ")
        }
    }

    @Test("A sort in an attribute's order goes by the attribute, and an index serves it")
    func plans() throws {
        let node = try EngineNode(Self.model())
        for (sort, index) in [
            ("localizedStandard:(name, sv_SE)", "byName"),
            ("-localizedStandard:(name, sv-se)", "backwards"),
        ] {
            #expect(try plan(node, sort) == "SCAN t0 USING COVERING INDEX Person.\(index)")
        }
        for sort in ["localizedStandard:(name, sv)", "localizedStandard:(name)", "name"] {
            #expect(try plan(node, sort).contains("TEMP B-TREE"), "\(sort)")
        }
        let request = FetchRequest(
            "Person", sortDescriptors: [SortDescriptor(text: "-localizedStandard:(name, sv_SE)")])
        let shape = try node.coordinator.read { try $0.compile(request).shape }
        #expect(shape.sort.map(\.property) == ["key"])
        #expect(shape.sort.map(\.isAscending) == [false])
    }

    @Test("With kept keys and without them the order is the same, with unsaved changes too")
    func sameOrder() throws {
        let orders = try [true, false].map { isKept in
            let node = try EngineNode(Self.model(isKept))
            var rows: [ManagedObjectID] = []
            for (place, name) in Self.names.enumerated() {
                var values = ["name": name]
                if place > 0 { values["boss"] = .reference(rows[place / 2].row) }
                rows.append(try node.insert("Person", values))
            }
            let context = node.coordinator.newBackgroundContext()
            return try context.performAndWait {
                var found: [[Int?]] = []
                for isChanged in [false, true] {
                    if isChanged {
                        try context.existingObject(with: rows[0])["name"] = "file 3"
                        try context.existingObject(with: rows[4])["name"] = PropertyValue.null
                        context.delete(try context.existingObject(with: rows[6]))
                    }
                    for sort in Self.sorts {
                        let request = FetchRequest("Person", sortDescriptors: [sort])
                        found.append(
                            try context.fetch(request).map { rows.firstIndex(of: $0.objectID) })
                    }
                }
                return found
            }
        }
        #expect(orders[0] == orders[1])
        #expect(orders[0].allSatisfy { !$0.contains(nil) })
        #expect(Set(orders[0]).count > 12)
    }

    @Test("Keys follow saves, are verified, and come and go with the model's description")
    func keeping() throws {
        let node = try EngineNode(Self.model(false))
        let person = try node.insert("Person", ["name": .string("Å")])
        try node.migrate(to: Self.model(), .none)
        let collation = try #require(Collation("sv_SE"))
        #expect(try node.value(person, "key") == .binary(collation.key(of: "Å")))
        try node.update(person, ["name": .string("b")])
        #expect(try node.value(person, "key") == .binary(collation.key(of: "b")))
        #expect(try node.coordinator.verify().derivedDifferences.isEmpty)
        try node.update(person, ["name": .null])
        #expect(try node.value(person, "key") == .null)
        node.close()
        try node.tamper("UPDATE Person SET key = x'01'")
        try node.open()
        #expect(
            try node.coordinator.verify().derivedDifferences
                == ["Person/\(person.row): key is not what it is derived from"])
    }

    @Test(
        "What other tables of Unicode made is computed once more at the opening",
        arguments: [
            ("canonical", "canonical"), ("lowercase", "lower"), ("uppercase", "upper"),
            ("localizedStandard:sv_SE", "key"), ("localizedStandard:", "rootKey"),
        ])
    func otherTables(derivation: String, column: String) throws {
        let node = try EngineNode(Self.model())
        let person = try node.insert("Person", ["name": .string("Åß")])
        let value = try node.value(person, column)
        let wrong = "UPDATE Person SET \(column) = CAST('?' AS BLOB)"
        for change in [
            "UPDATE _fingerprint SET fingerprint = 'other' WHERE derivation = '\(derivation)'",
            "DELETE FROM _fingerprint WHERE derivation = '\(derivation)'",
            "DROP TABLE _fingerprint",
        ] {
            node.close()
            try node.tamper("\(wrong); \(change)")
            try node.open()
            #expect(try node.value(person, column) == value, "\(change)")
            #expect(try node.coordinator.verify().derivedDifferences.isEmpty)
        }
        // By the same tables nothing is computed once more.
        node.close()
        #expect(try node.look("SELECT count(*) FROM _fingerprint") == 5)
        try node.tamper(wrong)
        try node.open()
        #expect(try node.coordinator.verify().derivedDifferences.count == 1)
        try node.migrate(to: Self.model(false), .none)
        node.close()
        #expect(try node.look("SELECT count(*) FROM _fingerprint") == 0)
    }

    @Test("The expression is read and written, and a model says what it cannot be of")
    func expressions() throws {
        for (text, derivation) in [
            ("localizedStandard:(name)", Derivation.localizedStandard("name", locale: "")),
            ("localizedStandard:(name, de_AT)", .localizedStandard("name", locale: "de_AT")),
        ] {
            #expect(Derivation(text) == derivation)
            #expect(derivation.expression == text)
        }
        for text in ["localizedStandard:(a.b)", "localizedStandard:(name, )"] {
            #expect(Derivation(text) == nil)
        }
        let model = try Self.model()
        let read = try ManagedObjectModel(json: Array(JSONWriter.text(of: model.jsonValue()).utf8))
        #expect(read.descriptions == model.descriptions)
        for (type, text, reason) in [
            ("string", "localizedStandard:(t)", "is of type binary"),
            ("binary", "localizedStandard:(t, d)", "locale \"d\""),
            ("binary", "localizedStandard:(n)", "no text attribute"),
        ] {
            let json = """
                {"entities": [{"name": "A", "attributes": [
                    {"name": "t", "type": "string"}, {"name": "n", "type": "integer64"},
                    {"name": "k", "type": "\(type)", "derivation": "\(text)"}]}]}
                """
            let error = #expect(throws: ModelError.self) {
                try ManagedObjectModel(json: Array(json.utf8))
            }
            #expect(error?.description.contains(reason) == true, "\(text): \(error as Any)")
        }
    }

    @Test("A model from elsewhere may have a language that has no order here; one's own may not")
    func unknownLanguage() throws {
        let json = """
            {"entities": [{"name": "A", "attributes": [{"name": "t", "type": "string"},
                {"name": "k", "type": "binary", "derivation": "localizedStandard:(t, xx)"}]}]}
            """
        let model = try ManagedObjectModel(json: Array(json.utf8))
        #expect(model.entity(named: "A")?.derivedAttributes.count == 1)
        let error = #expect(throws: CoordinatorError.self) { try TestStore(model) }
        #expect(error?.code == .malformed)
        #expect(error?.description.contains("A.k: there is no order of texts") == true)
        let written = try #require(Collation(written: "xx"))
        #expect(written.key(of: "b") == Collation("")?.key(of: "b"))
    }
}
