import Coordinator
import Foundation
import Merge
import Testing

/// What a save promises (DESIGN section 6).
@Suite struct SavingTests {
    private let node: EngineNode

    init() throws { node = try EngineNode() }

    // MARK: Identities and outcomes

    @Test("Temporary identities lead to each other within a save")
    func temporary() throws {
        let result = try node.save(
            try node.insertion("Note", -7, ["folder": .reference(RowID(-3))]),
            try node.insertion("Folder", -3, ["owner": .reference(RowID(-1))]),
            try node.insertion("Person", -1))
        #expect(result.insertedRows.map(\.temporary.rawValue) == [-7, -3, -1])
        let rows = result.insertedRows.map(\.row)
        #expect(Set(rows).count == 3)
        let note = ManagedObjectID(entityName: "Note", row: rows[0])
        #expect(try node.value(note, "folder") == .reference(rows[1]))
        #expect(
            try node.code {
                try node.save(try node.insertion("Note", -1, ["folder": .reference(RowID(-2))]))
            } == .validationFailed)
    }

    @Test("A save with an ID is done once, and gives the same answer after reopening")
    func saveID() throws {
        let request = SaveRequest(
            operations: [try node.insertion("Tag")], author: "x", saveID: "once")
        let first = try node.save(request)
        let second = try node.save(request)
        try node.reopen()
        let third = try node.save(request)
        for again in [second, third] {
            #expect(again.transaction == first.transaction && again.timestamp == first.timestamp)
            #expect(again.seen == first.seen && again.token == first.token)
            #expect(again.insertedRows == first.insertedRows)
        }
        #expect(try node.coordinator.read { try $0.count(FetchRequest("Tag")) } == 1)
    }

    @Test("A save that changes nothing has no transaction, and its token names what is there")
    func nothing() throws {
        let id = try node.insert("Tag", ["name": .string("a")])
        let before = try node.coordinator.currentToken
        let result = try node.update(id, ["name": .string("a")])
        #expect(result.transaction == nil)
        #expect(try node.coordinator.currentToken == before)
        #expect(result.token == before)
    }

    @Test("A version whose sequence no actor can have is nobody's, and no other transaction's")
    func impossibleVersion() throws {
        let id = try node.insert("Tag", ["name": .string("a")])
        let actor = try #require(node.coordinator.actor)
        for sequence: UInt64 in [1 << 40 | 1, 1 << 62 | 1, .max] {
            let dot = Dot(actor: actor, sequence: sequence)
            #expect(try node.coordinator.read { try $0.transaction(dot) } == nil)
            let change = try node.change(
                id, ["name": .string("b")], version: RowVersion(dots: [dot]))
            for policy in [MergePolicy.error, .overwrite, .rollback] {
                let request = SaveRequest(operations: [change], mergePolicy: policy)
                let code = try node.code { try node.save(request) }
                #expect(code == (policy == .error ? .mergeConflict : nil))
            }
        }
    }

    @Test("Savers at the same time are all saved, or fail alone", .timeLimit(.minutes(2)))
    func concurrent() async throws {
        let coordinator = node.coordinator
        let valid = try node.entity("Tag")
        let note = try node.entity("Note")
        let position = try #require(valid.position(of: "name"))
        let folder = try #require(note.position(of: "folder"))
        let saved = await withTaskGroup(of: [String]?.self) { group in
            for number in 0..<320 {
                group.addTask {
                    let names = ["\(number)a", "\(number)b"]
                    var operations = names.enumerated().map { index, name in
                        SaveOperation(
                            kind: .insert, entity: valid, row: RowID(Int64(-1 - index)),
                            values: [(position, .string(name))])
                    }
                    if number % 5 == 0 {
                        // The last operation is not valid, so the whole save must not be there.
                        operations.append(
                            SaveOperation(
                                kind: .insert, entity: note, row: RowID(-3),
                                values: [(folder, .reference(RowID(5)))]))
                    }
                    let request = SaveRequest(operations: operations)
                    do {
                        _ = try await coordinator.save(request)
                        return names
                    } catch { return nil }
                }
            }
            return await group.reduce(into: [[String]]()) { if let names = $1 { $0.append(names) } }
        }
        #expect(saved.count == 256)
        let rows = try coordinator.read { try $0.fetch(FetchRequest("Tag")) }
        let names = rows.map { $0.values[position] }
        #expect(Set(names) == Set(saved.joined().map { .string($0) }))
        #expect(names.count == 512)
        #expect(try coordinator.verify().isOK)
        #expect(node.transactions.map(\.dot.sequence) == Array(1...256))
    }

    // MARK: Validation

    @Test("A save that is not valid lists everything that is wrong")
    func validation() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Thing",
                attributes: [
                    .init("must", .string, isOptional: false), .init("small", .integer16),
                    .init(
                        "bounded", .integer64,
                        validation: AttributeValidation(minimum: .integer(1), maximum: .integer(9))),
                    .init("short", .string, validation: AttributeValidation(maximum: .integer(2))),
                ], relationships: [.init("next", to: "Thing")])
        ])
        let node = try EngineNode(model)
        let error = try #require(throws: CoordinatorError.self) {
            try node.save(
                try node.insertion(
                    "Thing", -1,
                    [
                        "small": .integer(40_000), "bounded": .integer(0),
                        "short": .string("abc"), "next": .reference(RowID(77)),
                    ]), try node.insertion("Thing", -2, ["must": .integer(1)]))
        }
        #expect(error.code == .validationFailed)
        let codes = Set(error.failures.map(\.code))
        #expect(
            codes == [
                .missingMandatoryProperty, .wrongType, .numberTooSmall, .stringTooLong,
                .danglingReference,
            ])
        #expect(error.failures.count == 6)
        #expect(node.transactions.isEmpty)
    }

    @Test("A reference must lead to an object of its destination, however recently made")
    func wrongDestination() throws {
        let tag = try node.insert("Tag")
        #expect(
            try node.code { try node.insert("Note", ["folder": .reference(tag.row)]) }
                == .validationFailed)
        let dog = try node.insert("Dog")
        let add = RelationshipOperation.add(dog.row, to: "enemies")
        #expect(try node.code { try node.insert("Dog", [:], [add]) } == .validationFailed)
    }

    @Test("A row can be addressed by the name of an entity it inherits from")
    func inherited() throws {
        let dog = try node.insert("Dog", ["name": .string("Rex"), "bark": .integer(3)])
        let animal = ManagedObjectID(entityName: "Animal", row: dog.row)
        try node.update(animal, ["name": .string("Max")])
        #expect(try node.value(dog, "name") == .string("Max"))
        #expect(try node.value(dog, "bark") == .integer(3))
        let person = try node.insert("Person")
        try node.update(animal, ["keeper": .reference(person.row)])
        #expect(try node.members(person, "animals") == [dog.row])
        #expect(try node.coordinator.verify().isOK)
    }

    // MARK: Constraints

    private func unique() throws -> EngineNode {
        try EngineNode(
            try ManagedObjectModel(entities: [
                EntityDescription(
                    "User", attributes: [.init("mail", .string), .init("age", .integer64)],
                    uniquenessConstraints: [["mail"]]),
                EntityDescription(
                    "Admin", parent: "User", attributes: [.init("badge", .string)],
                    uniquenessConstraints: [["badge"]]),
                EntityDescription("Guest", parent: "User", attributes: [.init("badge", .string)]),
            ]))
    }

    @Test("A unique key is taken once, by rows of the store and of the save, heirs included")
    func constraints() throws {
        let node = try unique()
        let first = try node.insert("User", ["mail": .string("a")])
        for entity in ["User", "Admin"] {
            #expect(
                try node.code { try node.insert(entity, ["mail": .string("a")]) }
                    == .constraintConflict)
        }
        #expect(
            try node.code {
                try node.save(
                    try node.insertion("User", -1, ["mail": .string("b")]),
                    try node.insertion("Admin", -2, ["mail": .string("b")]))
            } == .constraintConflict)
        // A key that the same save gives up is free.
        try node.save(
            try node.change(first, ["mail": .string("c")]),
            try node.insertion("User", -1, ["mail": .string("a")]))
        // Nil is no key, and a constraint binds only those that inherit it.
        try node.insert("User")
        try node.insert("User")
        try node.insert("Guest", ["badge": .string("x")])
        try node.insert("Admin", ["badge": .string("x")])
        #expect(
            try node.code { try node.insert("Admin", ["badge": .string("x")]) }
                == .constraintConflict)
        try node.update(first, ["age": .integer(4)])
    }

    @Test("A bulk insert under a constraint is checked whole")
    func bulk() throws {
        let node = try unique()
        let entity = try node.entity("User")
        let mail = try #require(entity.position(of: "mail"))
        func request(_ last: String) -> SaveRequest {
            SaveRequest(
                operations: (1...5_000).map { number in
                    SaveOperation(
                        kind: .insert, entity: entity, row: RowID(Int64(-number)),
                        values: [(mail, .string(number == 5_000 ? last : "m\(number)"))])
                })
        }
        #expect(try node.code { try node.save(request("m1")) } == .constraintConflict)
        try node.save(request("z"))
        #expect(try node.coordinator.read { try $0.count(FetchRequest("User")) } == 5_000)
    }

    // MARK: Deletes and relationships

    @Test("Cascades go round a cycle once, and deny refuses what remains")
    func deletes() throws {
        let node = try EngineNode(try TestStore.standardModel())
        let first = try node.insert("Book")
        let second = try node.insert("Book", ["prequel": .reference(first.row)])
        try node.update(first, ["prequel": .reference(second.row)])
        try node.delete(first)
        #expect(try node.row(second) == nil)

        let person = try node.insert("Person", ["name": .string("n")])
        let debt = try node.insert("Debt", ["debtor": .reference(person.row)])
        let pet = try node.insert("Pet", ["keeper": .reference(person.row)])
        #expect(try node.code { try node.delete(person) } == .deleteDenied)
        try node.delete(debt)
        // The pet's keeper is mandatory, so nullify is no way out.
        #expect(try node.code { try node.delete(person) } == .validationFailed)
        try node.save(try node.deletion(person), try node.deletion(pet))
        #expect(try node.row(person) == nil)
        #expect(try node.coordinator.verify().isOK)
    }

    @Test("A one-to-one is taken from the object that had it, from either side")
    func steal() throws {
        let one = try node.insert("Person")
        let two = try node.insert("Person")
        let first = try node.insert("Passport", ["holder": .reference(one.row)])
        let second = try node.insert("Passport", ["holder": .reference(one.row)])
        #expect(try node.value(first, "holder") == .null)
        #expect(try node.members(one, "passport") == [second.row])
        let take = RelationshipOperation(name: "passport", kind: .replace, members: [second.row])
        try node.update(two, [:], [take])
        #expect(try node.members(one, "passport").isEmpty)
        #expect(try node.members(two, "passport") == [second.row])
        #expect(try node.conflicts().isEmpty)
    }

    // MARK: Versions

    @Test(
        "A stale version without a snapshot is settled by the save's policy",
        arguments: [
            (MergePolicy.error, nil), (.mergeByPropertyStoreTrump, ["store", "mine"]),
            (.mergeByPropertyObjectTrump, ["mine", "mine"]), (.rollback, ["store", "old"]),
            (.overwrite, ["mine", "mine"]),
        ] as [(MergePolicy, [String]?)])
    func versions(policy: MergePolicy, expected: [String]?) throws {
        let id = try node.insert("Tag", ["name": .string("old"), "color": .string("old")])
        let version = try node.version(id)
        try node.update(id, ["name": .string("store")])
        let values: [String: PropertyValue] = ["name": .string("mine"), "color": .string("mine")]
        func save() throws { try node.update(id, values, version: version, policy: policy) }
        guard let expected else {
            #expect(try node.code(save) == .mergeConflict)
            return
        }
        try save()
        #expect(try node.value(id, "name") == .string(expected[0]))
        #expect(try node.value(id, "color") == .string(expected[1]))
    }

    @Test("A second operation on an object is checked against its version too")
    func secondOperation() throws {
        let id = try node.insert("Tag", ["name": .string("old")])
        let version = try node.version(id)
        try node.update(id, ["name": .string("store")])
        #expect(
            try node.code {
                try node.save(
                    try node.change(id, ["color": .string("c")]),
                    try node.change(id, ["name": .string("mine")], version: version))
            } == .mergeConflict)
    }

    // MARK: Values

    static let values: [(AttributeType, [PropertyValue])] = [
        (.integer16, [.integer(-32_768), .integer(32_767)]),
        (.integer32, [.integer(-2_147_483_648), .integer(2_147_483_647)]),
        (.integer64, [.integer(.min), .integer(.max), .integer(0)]),
        (
            .double,
            [
                .double(.nan), .double(-0.0), .double(0.0), .double(.infinity),
                .double(-.infinity), .double(.leastNonzeroMagnitude),
                .double(.greatestFiniteMagnitude), .double(3), .double(0.1),
            ]
        ),
        (.float, [.double(-0.0), .double(Double(Float(0.1))), .double(.nan)]),
        (
            .string,
            [
                .string(""), .string("a\u{0}b"), .string("👩‍👩‍👧‍👦 é e\u{301}"), .string("007"),
                .string("1e5"), .string(" "), .string(String(repeating: "ß", count: 100_000)),
            ]
        ),
        (.decimal, [.decimal("0"), .decimal("-0.1"), .decimal("123456789012345678901234567890")]),
        (.boolean, [.boolean(true), .boolean(false)]),
        (.date, [.date(.min), .date(.max), .date(0), .date(1_795_000_000_123)]),
        (.binary, [.binary([]), .binary([0, 255]), .binary(big)]),
        (.uuid, [.uuid(0, 0), .uuid(.max, .max), .uuid(0x0123_4567_89AB_CDEF, 1)]),
        (.uri, [.uri(""), .uri("x:y")]),
    ]
    private static let big = (0..<1 << 20).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }

    @Test("Values are the same bits after saving, reopening and replication", arguments: values)
    func roundTrip(type: AttributeType, values: [PropertyValue]) throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription("Value", attributes: [.init("v", type)])
        ])
        let (node, other) = try EngineNode.pair(model)
        var ids: [ManagedObjectID] = []
        for value in values { ids.append(try node.insert("Value", ["v": value])) }
        // Once as first written, once as an update.
        let updated = try node.insert("Value")
        for value in values {
            try node.update(updated, ["v": value])
            #expect(try node.value(updated, "v") == value)
        }
        try node.reopen()
        try exchange(node, other)
        for (id, value) in zip(ids, values) {
            #expect(try node.value(id, "v") == value)
            #expect(try other.value(id, "v") == value)
        }
        #expect(try other.value(updated, "v") == values.last)
    }

    @Test("Heirs may give one name to properties of different types")
    func sharedNames() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription("Base"),
            EntityDescription("Counted", parent: "Base", attributes: [.init("code", .integer64)]),
            EntityDescription("Named", parent: "Base", attributes: [.init("code", .string)]),
        ])
        let node = try EngineNode(model)
        let named = try node.insert("Named", ["code": .string("007")])
        let counted = try node.insert("Counted", ["code": .integer(7)])
        #expect(try node.value(named, "code") == .string("007"))
        #expect(try node.value(counted, "code") == .integer(7))
        #expect(try node.coordinator.verify().isOK)
    }

    @Test("Two inserts under one temporary identity are malformed")
    func sameIdentity() throws {
        let code = try node.code {
            try node.save(node.insertion("Dog", -1), node.insertion("Dog", -1))
        }
        #expect(code == .malformed)
        #expect(try node.vector.entries.isEmpty)
    }
}
