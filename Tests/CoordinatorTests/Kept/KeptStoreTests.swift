import Coordinator
import Foundation
import GRDB
import Merge
import TestSupport
import Testing

/// A store of layout 2 that is kept in the repository, with a description of what is in it
/// (``Fixtures`` tells how both are made).
@Suite("A kept store of layout 2", .serialized) struct KeptStoreTests {
    private static let store = Fixtures.folder.appendingPathComponent("store-2")

    init() throws { if Fixtures.areMade { try Self.make() } }

    private func open() throws -> EngineNode { try EngineNode(try Self.model(), from: Self.store) }

    @Test("It holds what it was made with, to the last value and version")
    func reads() throws {
        let node = try open()
        #expect(try node.look("PRAGMA user_version") == 2)
        #expect(try node.coordinator.verify().isOK)
        let (found, kept) = (try Self.describe(node), try Fixtures.lines("store-2.txt"))
        for (found, kept) in zip(found, kept) { #expect(found == kept) }
        #expect(found.count == kept.count)
    }

    @Test("It has a bit of everything a store keeps")
    func everything() throws {
        let node = try open()
        let counts = [
            "Person": 3, "Team": 1, "Tag": 2, "Person.tags": 2, "_tombstone": 2, "_eclipsed": 1,
            "_derived": 1, "_save": 1, "_transaction": 13, "_beginning": 2, "_member": 0,
            "_conflict WHERE closed = 0 AND state = 'unresolved'": 1,
        ]
        for (table, count) in counts.sorted(by: { $0.key < $1.key }) {
            let name = table.contains(" ") ? table : "\"\(table)\""
            #expect(try node.look("SELECT count(*) FROM \(name)") == count, "\(table)")
        }
        #expect(Set(try node.vector.entries.map(\.actor.node.rawValue)) == [1, 2])
    }

    @Test("It takes saves, undoes, resolves, and answers a save that is repeated")
    func writes() throws {
        let node = try open()
        let objects = try Self.objects(node)
        let team = try #require(objects["crimson"])
        let conflict = try #require(try node.conflicts(.unresolved).first)
        try node.resolve(conflict.id, .values(["name": .string("ruby")]))
        #expect(try node.conflicts(.unresolved).isEmpty)
        #expect(try node.value(team, "name") == .string("ruby"))
        let ada = try #require(objects["ada"])
        try node.update(ada, ["age": .integer(37), "team": .null])
        #expect(try node.value(ada, "age") == .integer(37))
        #expect(try node.members(team, "members") == [])
        #expect(
            try node.code { try node.insert("Person", ["mail": .string("bob")]) }
                == .constraintConflict)
        let answer = try #require(try node.coordinator.read { try $0.savedAnswer("kept") })
        let tags = objects.values.filter { $0.entityName == "Tag" }.map(\.row).sorted()
        let repeated = try node.save(
            SaveRequest(
                operations: [try Self.adasInsertion(node, team.row, tags)], author: "Grace",
                saveID: "kept"))
        #expect(repeated.transaction == answer.transaction)
        #expect(repeated.insertedRows.map(\.row) == [ada.row])
        #expect(try node.coordinator.verify().isOK)
    }

    @Test("Another node takes all of it over, and comes to the same")
    func exchanges() throws {
        let node = try open()
        let other = try EngineNode(try Self.model(), node: 3)
        try exchange(node, other)
        #expect(try Self.objects(other) == Self.objects(node))
        #expect(try other.conflicts().map(\.id) == node.conflicts().map(\.id))
    }
}

/// How it is made, and what is said of it.
extension KeptStoreTests {
    private static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Person", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("mail", .string), .init("age", .integer64)],
                relationships: [
                    .init("team", to: "Team", inverse: "members"),
                    .init("tags", to: "Tag", inverse: "people", isToMany: true),
                ], uniquenessConstraints: [["mail"]]),
            EntityDescription(
                "Team", mergePolicy: .error, attributes: [.init("name", .string)],
                relationships: [.init("members", to: "Person", inverse: "team", isToMany: true)]),
            EntityDescription(
                "Tag", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("name", .string)],
                relationships: [.init("people", to: "Person", inverse: "tags", isToMany: true)]),
        ])
    }

    /// A node whose clock and chance are the same at every making.
    private static func maker(_ number: UInt64) throws -> EngineNode {
        try EngineNode(try model(), node: Int(number)) {
            $0.wallMilliseconds = { 1_700_000_000_000 + number }
            $0.random = { number * 0x1234_5678_9ABC }
        }
    }

    private static func adasInsertion(
        _ node: EngineNode, _ team: RowID, _ tags: [RowID]
    ) throws -> SaveOperation {
        try node.insertion(
            "Person", -1,
            ["mail": .string("ada"), "age": .integer(36), "team": .reference(team)],
            [.init(name: "tags", kind: .add, members: tags)])
    }

    private static func make() throws {
        let (x, y) = (try maker(1), try maker(2))
        let red = try x.insert("Team", ["name": .string("red")])
        let blue = try x.insert("Team", ["name": .string("blue")])
        let tags = try ["new", "old"].map { try x.insert("Tag", ["name": .string($0)]).row }
        try x.save(
            SaveRequest(
                operations: [try adasInsertion(x, red.row, tags)], author: "Grace",
                saveID: "kept"))
        try x.insert("Person", ["mail": .string("bob"), "team": .reference(blue.row)])
        try exchange(x, y)
        // An error policy leaves this open.
        try x.update(red, ["name": .string("crimson")])
        try y.update(red, ["name": .string("scarlet")])
        // One key twice: the later is eclipsed.
        try x.insert("Person", ["mail": .string("eve"), "age": .integer(1)])
        try y.insert("Person", ["mail": .string("eve"), "age": .integer(2)])
        // Leaves a tombstone, and Bob without a team, which nobody writes.
        try y.delete(blue)
        try x.delete(try x.insert("Tag", ["name": .string("gone")]))
        try exchange(x, y)
        x.close()
        for suffix in ["", "-incarnation"] {
            try? FileManager.default.removeItem(atPath: store.path + suffix)
            try FileManager.default.copyItem(atPath: x.path + suffix, toPath: store.path + suffix)
        }
        // Small pages make a small file.
        let queue = try DatabaseQueue(path: store.path)
        try queue.writeWithoutTransaction {
            try $0.execute(sql: "PRAGMA journal_mode = DELETE; PRAGMA page_size = 1024; VACUUM")
        }
        try queue.close()
        try Fixtures.keep(try describe(EngineNode(model(), from: store)), as: "store-2.txt")
    }

    /// The objects that are shown, by what they are called.
    private static func objects(_ node: EngineNode) throws -> [String: ManagedObjectID] {
        var objects: [String: ManagedObjectID] = [:]
        for (entity, name) in [("Person", "mail"), ("Team", "name"), ("Tag", "name")] {
            let ids: [ManagedObjectID] = try node.coordinator.read {
                try $0.objectIDs(FetchRequest(entity))
            }
            for id in ids {
                guard case .string(let text)? = try node.value(id, name) else { continue }
                objects[text] = id
            }
        }
        return objects
    }

    /// All that readers see of a store, a fact a line.
    private static func describe(_ node: EngineNode) throws -> [String] {
        let answer = try #require(try node.coordinator.read { try $0.savedAnswer("kept") })
        let inserted = answer.insertedRows.map { "\($0.entityName) \($0.row)" }
        return [
            "digest \(try node.coordinator.currentDigest)",
            "vector \(text(try node.vector))",
            "answer \(answer.transaction?.description ?? "-") inserted \(text(inserted))",
        ] + (try describeObjects(node)) + (try describeConflicts(node))
            + (try describeHistory(node))
    }

    private static func text(_ vector: VersionVector) -> String {
        text(vector.entries.map { "\($0.actor)-\($0.sequence)" })
    }

    private static func text(_ words: [String]) -> String { words.joined(separator: " ") }

    private static func describeObjects(_ node: EngineNode) throws -> [String] {
        var lines: [String] = []
        for (name, id) in try objects(node).sorted(by: { $0.key < $1.key }) {
            let row = try #require(try node.row(id))
            let entity = try node.entity(id.entityName)
            lines.append("object \(name) \(id.entityName) \(id.row) version \(row.version)")
            for property in entity.properties {
                let value = try #require(try node.value(id, property.name))
                lines.append("  \(property.name) = \(value)")
            }
            for name in ["tags", "people", "members"]
            where entity.relationship(named: name) != nil {
                lines.append("  \(name): \(text(try node.members(id, name).map(\.description)))")
            }
        }
        return lines
    }

    private static func describeConflicts(_ node: EngineNode) throws -> [String] {
        try node.conflicts(isOpen: nil).flatMap { conflict in
            [
                "conflict \(conflict.id) \(conflict.kind) \(conflict.state)",
                "  \(conflict.explanation.text)",
            ]
                + conflict.sides.map { side in
                    let value = side.value.map { "\($0)" } ?? "-"
                    let dot = side.dot?.description ?? "-"
                    return "  side \(dot) \(value)\(side.isVisible ? " shown" : "")"
                }
        }
    }

    private static func describeHistory(_ node: EngineNode) throws -> [String] {
        var lines: [String] = []
        let history = try node.coordinator.read { try $0.history(afterPosition: 0, limit: 100) }
        for logged in history {
            let transaction = logged.encoded.transaction
            lines.append(
                "transaction \(logged.position) \(transaction.dot) \(transaction.timestamp) "
                    + "by \(transaction.author ?? "-") as \(transaction.saveID ?? "-")")
            lines.append("  seen: \(text(transaction.seen))")
            for change in transaction.changes {
                let shape = transaction.shapes[change.shape]
                let target = change.target.map { " to \($0)" } ?? ""
                let values = zip(shape.assigned + shape.carried, change.values).map {
                    "\($0)=\($1)"
                }
                lines.append(
                    "  \(change.kind) \(shape.entity) \(change.row)\(target): \(text(values))")
            }
            let derived = try node.coordinator.read { try $0.derivedChanges(of: transaction.dot) }
            for change in derived {
                let target = change.target?.description ?? "nothing"
                lines.append("  derived \(change.object.row).\(change.property) to \(target)")
            }
        }
        return lines
    }
}
