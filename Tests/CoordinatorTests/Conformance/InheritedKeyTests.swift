import Coordinator
import Merge
import Testing

/// Unique keys that objects of an entity and of its heirs compete for, at saves in which the store stands.
@Suite("Unique keys of heirs, where the store stands")
struct InheritedKeyTests {
    private let node: EngineNode
    private let taken: ManagedObjectID
    private let user: ManagedObjectID
    private let admin: ManagedObjectID

    init() throws {
        // An admin's properties are at other places than a user's, for they are in order of their names.
        node = try EngineNode(
            ManagedObjectModel(entities: [
                EntityDescription(
                    "User",
                    attributes: ["first", "last", "mail", "note"].map {
                        AttributeDescription($0, .string)
                    }, uniquenessConstraints: [["mail"], ["first", "last"]]),
                EntityDescription("Admin", parent: "User", attributes: [.init("badge", .string)]),
            ]))
        taken = try node.insert("User", ["mail": .string("taken")])
        user = try node.insert("User", ["mail": .string("user")])
        admin = try node.insert("Admin", ["mail": .string("admin")])
    }

    private func save(_ operations: [SaveOperation]) throws -> SaveResult {
        try node.save(SaveRequest(operations: operations, mergePolicy: .mergeByPropertyStoreTrump))
    }

    private func expect(
        _ object: ManagedObjectID, _ values: [String: PropertyValue],
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        for (name, value) in values.sorted(by: { $0.key < $1.key }) {
            #expect(
                try node.value(object, name) == value, "\(object.entityName).\(name)",
                sourceLocation: sourceLocation)
        }
    }

    @Test("Both give up the key that is taken, and nothing else", arguments: [false, true])
    func bothWantWhatIsTaken(isReversed: Bool) throws {
        let values: [String: PropertyValue] = [
            "mail": .string("taken"), "first": .string("f"), "last": .string("l"),
            "note": .string("n"),
        ]
        var second = values
        second["last"] = .string("m")
        var operations = [try node.change(user, values), try node.change(admin, second)]
        if isReversed { operations.reverse() }
        _ = try save(operations)
        try expect(
            user,
            [
                "mail": .string("user"), "first": .string("f"), "last": .string("l"),
                "note": .string("n"),
            ])
        try expect(
            admin,
            [
                "mail": .string("admin"), "first": .string("f"), "last": .string("m"),
                "note": .string("n"),
            ])
        try expect(taken, ["mail": .string("taken"), "note": .null])
    }

    @Test("What an insert becomes one with stands, and an heir's change of key is given up")
    func insertAndHeir() throws {
        let result = try save([
            try node.insertion("User", -1, ["mail": .string("taken"), "note": .string("new")]),
            try node.change(admin, ["mail": .string("taken"), "last": .string("z")]),
        ])
        #expect(result.insertedRows.map(\.row) == [taken.row])
        try expect(admin, ["mail": .string("admin"), "last": .string("z")])
        try expect(taken, ["mail": .string("taken"), "note": .null])
    }

    @Test(
        "Where each wants the key of the next, of another entity, all stay",
        arguments: [false, true])
    func chain(isReversed: Bool) throws {
        let (first, second) = isReversed ? (user, admin) : (admin, user)
        let name: PropertyValue = .string(isReversed ? "user" : "admin")
        _ = try save([
            try node.change(first, ["mail": .string("taken"), "note": .string("1")]),
            try node.change(second, ["mail": name, "note": .string("2")]),
        ])
        try expect(user, ["mail": .string("user"), "note": .string(isReversed ? "1" : "2")])
        try expect(admin, ["mail": .string("admin"), "note": .string(isReversed ? "2" : "1")])
    }

    @Test("Of two that want the same names, the first in the save has them")
    func newKeyOfBoth() throws {
        _ = try save([
            try node.change(
                admin, ["first": .string("f"), "last": .string("l"), "note": .string("1")]),
            try node.change(
                user, ["first": .string("f"), "last": .string("l"), "note": .string("2")]),
        ])
        try expect(admin, ["first": .string("f"), "last": .string("l"), "note": .string("1")])
        try expect(
            user, ["first": .null, "last": .null, "note": .string("2"), "mail": .string("user")])
    }
}
