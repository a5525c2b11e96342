import GRDB
import Merge
import Synchronization
import TestSupport
import Testing

@testable import Coordinator

/// Attributes that the store computes: of texts, of to-manys, and of when an object was saved.
@Suite("Derived attributes")
struct DerivedAttributeTests {
    private final class Clock: Sendable {
        let milliseconds = Mutex<UInt64>(1_000_000)
    }

    private static func model(
        _ attributes: [AttributeDescription] = Self.all, indexes: [IndexDescription] = []
    ) throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Folder", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("name", .string)] + attributes,
                relationships: [
                    .init(
                        "items", to: "Item", inverse: "folder", isToMany: true, deleteRule: .nullify
                    ),
                    .init("labels", to: "Label", inverse: "folders", isToMany: true),
                ], indexes: indexes),
            EntityDescription(
                "Item", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [
                    .init("amount", .integer64), .init("price", .decimal),
                    .init("weight", .double),
                ],
                relationships: [.init("folder", to: "Folder", inverse: "items")]),
            EntityDescription(
                "Label", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("worth", .integer32)],
                relationships: [
                    .init("folders", to: "Folder", inverse: "labels", isToMany: true)
                ]),
        ])
    }

    private static let all: [AttributeDescription] = [
        .init("canonicalName", .string, derivation: .canonical("name")),
        .init("lower", .string, derivation: .lowercase("name")),
        .init("upper", .string, derivation: .uppercase("name")),
        .init("itemCount", .integer64, derivation: .count(relationship: "items")),
        .init("amount", .integer64, derivation: .sum(relationship: "items", attribute: "amount")),
        .init("price", .decimal, derivation: .sum(relationship: "items", attribute: "price")),
        .init("weight", .double, derivation: .sum(relationship: "items", attribute: "weight")),
        .init("labelCount", .integer64, derivation: .count(relationship: "labels")),
        .init("worth", .integer64, derivation: .sum(relationship: "labels", attribute: "worth")),
        .init("savedAt", .date, derivation: .now),
    ]

    /// Whether a verification finds nothing, of derived attributes too.
    private static func isRight(_ node: EngineNode) throws -> Bool {
        let report = try node.coordinator.verify()
        return report.isOK && report.derivedDifferences.isEmpty
    }

    @Test("A save keeps what is derived from a text, a to-many and the time")
    func saves() throws {
        let wall = Clock()
        let node = try EngineNode(Self.model()) {
            $0.wallMilliseconds = { wall.milliseconds.withLock { $0 } }
        }
        let folder = try node.insert("Folder", ["name": .string("Äpfel ß")])
        #expect(try node.value(folder, "canonicalName") == .string("apfel ss"))
        #expect(try node.value(folder, "lower") == .string("äpfel ß"))
        #expect(try node.value(folder, "upper") == .string("ÄPFEL SS"))
        #expect(try node.value(folder, "itemCount") == .integer(0))
        #expect(try node.value(folder, "amount") == .integer(0))
        #expect(try node.value(folder, "price") == .decimal("0"))
        #expect(try node.value(folder, "weight") == .double(0))
        #expect(try node.value(folder, "savedAt") == .date(1_000_000))

        wall.milliseconds.withLock { $0 = 2_000_000 }
        let item = try node.insert(
            "Item",
            [
                "amount": .integer(3), "price": .decimal("0.1"), "weight": .double(0.5),
                "folder": .reference(folder.row),
            ])
        try node.insert(
            "Item", ["price": .decimal("0.2"), "folder": .reference(folder.row)])
        let label = try node.insert(
            "Label", ["worth": .integer(7)], [.add(folder.row, to: "folders")])
        #expect(try node.value(folder, "itemCount") == .integer(2))
        #expect(try node.value(folder, "amount") == .integer(3))
        #expect(try node.value(folder, "price") == .decimal("0.3"))
        #expect(try node.value(folder, "weight") == .double(0.5))
        #expect(try node.value(folder, "labelCount") == .integer(1))
        #expect(try node.value(folder, "worth") == .integer(7))
        #expect(try node.value(folder, "savedAt") == .date(1_000_000))

        try node.update(item, ["amount": .integer(40)])
        try node.update(label, ["worth": .integer(-1)])
        #expect(try node.value(folder, "amount") == .integer(40))
        #expect(try node.value(folder, "worth") == .integer(-1))
        try node.update(folder, ["name": .null])
        #expect(try node.value(folder, "canonicalName") == .null)
        #expect(try node.value(folder, "savedAt") == .date(2_000_000))
        try node.delete(item)
        try node.update(label, [:], [.remove(folder.row, from: "folders")])
        #expect(try node.value(folder, "itemCount") == .integer(1))
        #expect(try node.value(folder, "labelCount") == .integer(0))
        #expect(try node.value(folder, "worth") == .integer(0))
        #expect(try Self.isRight(node))
    }

    @Test("A merge of another node's saves keeps it as a local save does")
    func merges() throws {
        let (first, second) = try EngineNode.pair(Self.model())
        let folder = try first.insert("Folder", ["name": .string("A")])
        try exchange(first, second)
        try first.insert("Item", ["amount": .integer(1), "folder": .reference(folder.row)])
        try second.insert("Item", ["amount": .integer(2), "folder": .reference(folder.row)])
        try second.update(folder, ["name": .string("Bé")])
        try exchange(first, second)
        for node in [first, second] {
            #expect(try node.value(folder, "itemCount") == .integer(2))
            #expect(try node.value(folder, "amount") == .integer(3))
            #expect(try node.value(folder, "canonicalName") == .string("be"))
        }
        #expect(try first.row(folder)?.values == second.row(folder)?.values)
    }

    @Test("When an object was saved hangs on what it shows, and not on what a node has forgotten")
    func forgotten() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Folder", mergePolicy: .mergeByPropertyStoreTrump,
                attributes: [
                    .init("name", .string), .init("savedAt", .date, derivation: .now),
                ])
        ])
        let wall = Clock()
        let nodes = try [1, 2].map { number in
            try EngineNode(model, node: number) {
                $0.wallMilliseconds = { wall.milliseconds.withLock { $0 } }
            }
        }
        let folder = try nodes[0].insert("Folder", ["name": .string("a")])
        try exchange(nodes)
        for (node, time) in zip(nodes, [UInt64(2_000_000), 3_000_000]) {
            wall.milliseconds.withLock { $0 = time }
            try node.update(folder, ["name": .string("at \(time)")])
        }
        try exchange(nodes)
        #expect(try nodes[0].value(folder, "name") == .string("at 2000000"))
        let result = try nodes[0].coordinator.collect(stable: try nodes[0].vector)
        #expect(result.siblingsCollapsed > 0)
        try nodes[0].reopen()
        for node in nodes {
            #expect(try node.value(folder, "savedAt") == .date(2_000_000))
            #expect(try Self.isRight(node))
        }
    }

    @Test("Each generation has its own: a pin goes on to show what was")
    func generations() throws {
        let node = try EngineNode(Self.model())
        let folder = try node.insert("Folder")
        let pin = try node.coordinator.pinCurrentGeneration()
        try node.insert("Item", ["folder": .reference(folder.row)])
        let position = try #require(try node.entity("Folder").columnPosition(of: "itemCount"))
        let then = try node.coordinator.read(pin) {
            try $0.row(try node.entity("Folder"), folder.row)?.values[position]
        }
        #expect(then == .integer(0))
        #expect(try node.value(folder, "itemCount") == .integer(1))
    }

    @Test("CD-111: derived values appear after save and refresh, and a save of others brings them")
    func appearing() throws {
        let node = try EngineNode(Self.model())
        let context = ManagedObjectContext(node.coordinator)
        context.automaticallyMergesChangesFromParent = true
        let folder = try context.performAndWait {
            let folder = context.insert("Folder", ["name": "É"])
            #expect(folder["canonicalName"] == PropertyValue.null)
            try context.save()
            context.refresh(folder, mergeChanges: true)
            #expect(folder["canonicalName"] == "e")
            folder["name"] = "Ö"
            #expect(folder["canonicalName"] == "e")
            try context.save()
            context.refresh(folder, mergeChanges: true)
            #expect(folder["canonicalName"] == "o")
            #expect(folder["itemCount"] == 0)
            return folder
        }
        let objectID = context.performAndWait { folder.objectID }
        try node.insert("Item", ["folder": .reference(objectID.row)])
        let count: Int64? = context.performAndWait { folder["itemCount"] }
        #expect(count == 1)
    }

    @Test("A fetch filters, sorts, counts and groups by them")
    func fetching() throws {
        let node = try EngineNode(Self.model())
        for (name, count) in [("a", 2), ("B", 0), ("á", 3)] {
            let folder = try node.insert("Folder", ["name": .string(name)])
            for _ in 0..<count { try node.insert("Item", ["folder": .reference(folder.row)]) }
        }
        let context = ManagedObjectContext(node.coordinator)
        try context.performAndWait {
            var request = FetchRequest("Folder")
            request.sortDescriptors = [SortDescriptor("itemCount", ascending: false)]
            let names = try context.fetch(request).map { $0["name"] as String? }
            #expect(names == ["á", "a", "B"])
            request.predicate = try Predicate(format: "itemCount > 0 AND canonicalName == 'a'")
            #expect(try context.count(for: request) == 2)
            request.predicate = nil
            request.sortDescriptors = []
            request.propertiesToFetch = [.keyPath("canonicalName")]
            request.propertiesToGroupBy = ["canonicalName"]
            let groups = try context.fetchDictionaries(request)
            #expect(groups.count == 2)
            var partial = FetchRequest("Folder")
            partial.propertiesToFetch = [.keyPath("itemCount")]
            let counts = try context.fetch(partial).map { $0["itemCount"] as Int64? }
            #expect(counts.compactMap { $0 }.sorted() == [0, 2, 3])
        }
    }

    @Test("Search without case and diacritics is a range over an indexed canonical attribute")
    func ranges() throws {
        let node = try EngineNode(
            Self.model(indexes: [IndexDescription(name: "byName", elements: ["canonicalName"])]))
        for name in ["Ab", "ábc", "ÄB", "b", "aC"] {
            try node.insert("Folder", ["name": .string(name)])
        }
        for (format, count, isRange) in [
            ("name BEGINSWITH[cd] 'Áb'", 3, true), ("name ==[cd] 'AB'", 2, true),
            ("name IN[cd] {'ab', 'B'}", 3, true), ("name CONTAINS[cd] 'Á'", 4, false),
            ("name ENDSWITH[cd] 'Ç'", 2, false), ("name LIKE[cd] 'Á?'", 3, false),
        ] {
            var request = FetchRequest("Folder")
            request.predicate = try Predicate(format: format)
            let (found, plan) = try node.coordinator.read { reader in
                let compiled = try reader.compile(request, selecting: ["t0._id"])
                let plan = try String.fetchAll(
                    reader.database, sql: "EXPLAIN QUERY PLAN " + compiled.sql,
                    arguments: StatementArguments(compiled.bindings.map { _ in "" as String? }),
                    adapter: SuffixRowAdapter(fromIndex: 3))
                return (try reader.fetch(request).count, plan.joined(separator: "; "))
            }
            #expect(found == count, "\(format)")
            #expect(plan.contains("SEARCH t0 USING") == isRange, "\(format): \(plan)")
            #expect(!plan.contains("SCAN") || !isRange, "\(format): \(plan)")
        }
    }

    @Test("They come, change and go with the model's description, without a migration")
    func adoption() throws {
        let plain = try Self.model([])
        let node = try EngineNode(plain)
        let folder = try node.insert("Folder", ["name": .string("É")])
        try node.insert("Item", ["amount": .integer(4), "folder": .reference(folder.row)])
        let whole = try Self.model(
            Self.all,
            indexes: [IndexDescription(name: "byCount", elements: ["itemCount", "lower"])])
        #expect(plain.modelHash == whole.modelHash)
        try node.migrate(to: whole, .none)
        #expect(try node.value(folder, "canonicalName") == .string("e"))
        #expect(try node.value(folder, "itemCount") == .integer(1))
        #expect(try node.value(folder, "amount") == .integer(4))
        #expect(try node.value(folder, "savedAt") != .null)
        #expect(try Self.isRight(node))

        let other = try Self.model([
            .init("itemCount", .string, derivation: .uppercase("name")),
            .init("lower", .integer64, derivation: .count(relationship: "labels")),
        ])
        try node.migrate(to: other, .none)
        #expect(try node.value(folder, "itemCount") == .string("É"))
        #expect(try node.value(folder, "lower") == .integer(0))
        try node.migrate(to: plain, .none)
        #expect(try node.row(folder)?.values == [.string("É")])
        #expect(try Self.isRight(node))
    }

    @Test("A migration computes them in the new model's tables")
    func migration() throws {
        let node = try EngineNode(Self.model())
        let folder = try node.insert("Folder", ["name": .string("É")])
        try node.insert("Item", ["folder": .reference(folder.row)])
        // `name` becomes `title`, and what was derived becomes an attribute of its own.
        let renamed = try ManagedObjectModel(entities: [
            EntityDescription(
                "Shelf", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [
                    .init("title", .string, renamingIdentifier: "name"), .init("lower", .string),
                    .init("canonicalName", .string, derivation: .canonical("title")),
                    .init("pieces", .integer64, derivation: .count(relationship: "items")),
                ],
                relationships: [
                    .init(
                        "items", to: "Item", inverse: "folder", isToMany: true, deleteRule: .nullify
                    )
                ],
                indexes: [
                    IndexDescription(name: "byPieces", elements: ["pieces", "canonicalName"])
                ],
                renamingIdentifier: "Folder"),
            EntityDescription(
                "Item", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("amount", .integer64)],
                relationships: [.init("folder", to: "Shelf", inverse: "items")]),
        ])
        try node.migrate(to: renamed)
        let shelf = ManagedObjectID(entityName: "Shelf", row: folder.row)
        #expect(try node.value(shelf, "canonicalName") == .string("e"))
        #expect(try node.value(shelf, "pieces") == .integer(1))
        #expect(try node.value(shelf, "lower") == .null)
        #expect(try Self.isRight(node))
        try node.reopen()
        #expect(try node.value(shelf, "pieces") == .integer(1))
    }

    @Test("A verification finds one that is not what it follows from")
    func verification() throws {
        for column in ["canonicalName", "itemCount", "savedAt", "price"] {
            let node = try EngineNode(Self.model())
            let folder = try node.insert("Folder", ["name": .string("a")])
            node.close()
            try node.tamper("UPDATE Folder SET \(column) = '5'")
            try node.open()
            let report = try node.coordinator.verify()
            // What is kept is sound: who takes the store over computes them once more.
            #expect(report.isOK)
            #expect(report.differences.isEmpty)
            #expect(
                report.derivedDifferences
                    == ["Folder/\(folder.row): \(column) is not what it is derived from"])
        }
    }

    @Test("A save's condition reads what the store would compute")
    func conditions() throws {
        let node = try EngineNode(Self.model())
        let folder = try node.insert("Folder", ["name": .string("É")])
        try node.insert("Item", ["amount": .integer(2), "folder": .reference(folder.row)])
        for (format, holds) in [
            ("itemCount == 1 AND canonicalName == 'e'", true), ("amount == 2", true),
            ("itemCount == nil", false), ("canonicalName == nil", false), ("savedAt != nil", true),
        ] {
            var operation = try node.change(folder, ["name": .string("É")])
            operation.condition = try SaveCondition(
                Predicate(format: format), entity: node.entity("Folder"), model: node.model)
            let code = try node.code { try node.save(operation) }
            #expect((code == nil) == holds, "\(format)")
        }
    }

    @Test(
        "An entity's name is no alias of the statements that count",
        arguments: ["T", "t", "M", "L"])
    func names(entity: String) throws {
        let node = try EngineNode(
            try ManagedObjectModel(entities: [
                EntityDescription(
                    entity,
                    attributes: [
                        .init("count", .integer64, derivation: .count(relationship: "items")),
                        .init("links", .integer64, derivation: .count(relationship: "others")),
                    ],
                    relationships: [
                        .init("items", to: "Item", inverse: "owner", isToMany: true),
                        .init("others", to: "Item", inverse: "owners", isToMany: true),
                    ]),
                EntityDescription(
                    "Item",
                    relationships: [
                        .init("owner", to: entity, inverse: "items"),
                        .init("owners", to: entity, inverse: "others", isToMany: true),
                    ]),
            ]))
        let owner = try node.insert(entity)
        let item = try node.insert("Item", ["owner": .reference(owner.row)])
        try node.update(item, [:], [.add(owner.row, to: "owners")])
        #expect(try node.value(owner, "count") == .integer(1))
        #expect(try node.value(owner, "links") == .integer(1))
        #expect(try Self.isRight(node))
    }

    @Test("A sum that its type cannot hold is null, and back when it fits")
    func overflow() throws {
        let node = try EngineNode(Self.model())
        let folder = try node.insert("Folder")
        try node.insert("Item", ["amount": .integer(.max), "folder": .reference(folder.row)])
        let item = try node.insert(
            "Item", ["amount": .integer(1), "folder": .reference(folder.row)])
        #expect(try node.value(folder, "amount") == .null)
        try node.update(item, ["folder": .null])
        #expect(try node.value(folder, "amount") == .integer(.max))
    }

    @Test("A model says what a derived attribute cannot be")
    func refusals() throws {
        let wrong: [(AttributeDescription, String)] = [
            (.init("d", .string, derivation: .canonical("none")), "no text attribute"),
            (.init("d", .integer64, derivation: .lowercase("name")), "is of type string"),
            (
                .init("d", .string, derivation: .count(relationship: "items")),
                "is of type integer64"
            ),
            (.init("d", .integer64, derivation: .count(relationship: "name")), "no to-many"),
            (
                .init("d", .double, derivation: .sum(relationship: "items", attribute: "amount")),
                "is of type integer64"
            ),
            (
                .init(
                    "d", .integer64, derivation: .sum(relationship: "items", attribute: "folder")),
                "no number of Item"
            ),
            (.init("d", .string, derivation: .now), "is of type date"),
            (.init("d", .date, isTransient: true, derivation: .now), "not transient"),
            (.init("d", .date, isOptional: false, derivation: .now), "is optional"),
        ]
        for (attribute, reason) in wrong {
            let error = #expect(throws: ModelError.self) { try Self.model([attribute]) }
            #expect(error?.description.contains(reason) == true, "\(String(describing: error))")
            #expect(error?.place == "Folder.d")
        }
        #expect(throws: ModelError.self) {
            try ManagedObjectModel(entities: [
                EntityDescription("A", isAbstract: true),
                EntityDescription("B", parent: "A", attributes: [.init("x", .string)]),
                EntityDescription(
                    "C", parent: "A", attributes: [.init("x", .date, derivation: .now)]),
            ])
        }
        #expect(throws: ModelError.self) {
            try ManagedObjectModel(entities: [
                EntityDescription("A", isAbstract: true, attributes: [.init("t", .string)]),
                EntityDescription(
                    "B", parent: "A", attributes: [.init("x", .string, derivation: .canonical("t"))]
                ),
                EntityDescription(
                    "C", parent: "A", attributes: [.init("x", .date, derivation: .now)]),
            ])
        }
        #expect(throws: ModelError.self) {
            try Self.model(
                indexes: [
                    IndexDescription(name: "i", elements: ["name"], predicate: "itemCount > 5")
                ])
        }
    }

    @Test("Expressions are read and written as Core Data has them")
    func expressions() throws {
        let all: [(String, Derivation)] = [
            ("canonical:(name)", .canonical("name")), ("lowercase:(name)", .lowercase("name")),
            ("uppercase:(name)", .uppercase("name")), ("now()", .now),
            ("items.@count", .count(relationship: "items")),
            ("items.amount.@sum", .sum(relationship: "items", attribute: "amount")),
        ]
        for (text, derivation) in all {
            #expect(Derivation(text) == derivation)
            #expect(derivation.expression == text)
        }
        #expect(Derivation("items.@sum.amount") == all[5].1)
        for text in ["", "name", "canonical:name", "a.b.@count", "items.@avg.x", "now", "@count"] {
            #expect(Derivation(text) == nil, "\(text)")
        }
        let model = try Self.model()
        let read = try ManagedObjectModel(json: Array(JSONWriter.text(of: model.jsonValue()).utf8))
        #expect(read.descriptions == model.descriptions)
        let json = """
            {"entities": [{"name": "A", "attributes": [
                {"name": "x", "type": "date", "derivation": "median:(y)"}]}]}
            """
        let error = #expect(throws: ModelError.self) {
            try ManagedObjectModel(json: Array(json.utf8))
        }
        #expect(error?.description.contains("A.x: \"derivation\" must be") == true)
    }
}
