import Coordinator
import Merge
import Testing

/// Conditions and increments of saves (decision 0031).
@Suite("Hot rows") struct HotRowTests {
    private let node: EngineNode

    init() throws { node = try EngineNode(Self.model()) }

    private static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Counter", mergePolicy: .mergeByPropertyStoreTrump,
                attributes: [
                    .init("count", .integer64, defaultValue: .integer(0)),
                    .init("small", .integer16), .init("middle", .integer32),
                    .init("price", .decimal), .init("ratio", .double), .init("part", .float),
                    .init("name", .string),
                    .init(
                        "limited", .integer64,
                        validation: .init(minimum: .integer(0), maximum: .integer(10))),
                    .init("disputed", .integer64, mergePolicy: .error),
                ],
                relationships: [
                    .init("shelf", to: "Shelf", inverse: "counters"),
                    .init("twin", to: "Counter", inverse: "other"),
                    .init("other", to: "Counter", inverse: "twin"),
                ]),
            EntityDescription("Gauge", parent: "Counter", attributes: [.init("a", .string)]),
            EntityDescription(
                "Shelf", attributes: [.init("room", .integer64)],
                relationships: [
                    .init("counters", to: "Counter", inverse: "shelf", isToMany: true)
                ]),
            EntityDescription(
                "Sheet", mergePolicy: .errorByRow,
                attributes: [.init("x", .integer64), .init("y", .string)]),
        ])
    }

    // MARK: Helpers

    private func increment(
        _ id: ManagedObjectID, _ amounts: [String: PropertyValue],
        values: [String: PropertyValue] = [:], if condition: String? = nil,
        as entity: String? = nil, version: RowVersion? = nil
    ) throws -> SaveOperation {
        let named = ManagedObjectID(entityName: entity ?? id.entityName, row: id.row)
        var operation = try node.change(named, values, version: version)
        operation.increments = try node.values(named.entityName, amounts)
            .map { ($0.position, $0.value) }
        operation.condition = try condition.map { try self.condition($0, named.entityName) }
        return operation
    }

    private func condition(_ text: String, _ entity: String) throws -> SaveCondition {
        try SaveCondition(
            Predicate(format: text), entity: try node.entity(entity), model: node.model)
    }

    /// The error that a save fails with; nil where it does not fail.
    private func failure(
        _ operations: SaveOperation..., policy: MergePolicy = .error
    ) throws -> CoordinatorError? {
        do {
            try node.save(SaveRequest(operations: operations, mergePolicy: policy))
            return nil
        } catch let error as CoordinatorError { return error }
    }

    // MARK: Sums

    @Test("Each kind of number is added to, and the answer has the sums")
    func sums() throws {
        let id = try node.insert(
            "Counter",
            [
                "small": .integer(-20_000), "middle": .integer(5), "price": .decimal("0.3"),
                "ratio": .double(0.5), "part": .double(0.25),
            ])
        let result = try node.save(
            try increment(
                id,
                [
                    "count": .integer(3), "small": .integer(40_000), "middle": .integer(-7),
                    "price": .decimal("-0.5"), "ratio": .double(1e300), "part": .double(0.5),
                ], values: ["name": .string("a")]))
        let wanted: [String: PropertyValue] = [
            "count": .integer(3), "small": .integer(20_000), "middle": .integer(-2),
            "price": .decimal("-0.2"), "ratio": .double(1e300), "part": .double(0.75),
        ]
        for (name, value) in wanted {
            #expect(try node.value(id, name) == value)
            #expect(result.incremented.first { $0.property == name }?.value == value)
        }
        #expect(result.incremented.count == 6)
        #expect(result.incremented.allSatisfy { $0.objectID == id })
        #expect(try node.value(id, "name") == .string("a"))
        // Other nodes see an ordinary write.
        let transaction = try #require(node.transactions.last?.transaction)
        #expect(transaction.changes.count == 1)
        #expect(transaction.changes[0].values.contains(.integer(20_000)))
    }

    @Test("A sum that its type cannot hold is refused, and nothing is written")
    func overflow() throws {
        let most = PropertyValue.decimal(String(repeating: "9", count: 38))
        let id = try node.insert(
            "Counter",
            [
                "count": .integer(.max), "small": .integer(.init(Int16.max)),
                "middle": .integer(.init(Int32.min)), "price": most,
                "ratio": .double(.greatestFiniteMagnitude),
                "part": .double(-Double(Float.greatestFiniteMagnitude)), "limited": .integer(10),
            ])
        let position = try node.coordinator.currentToken.position
        let cases: [(String, PropertyValue, ValidationFailure.Code)] = [
            ("count", .integer(1), .numberTooLarge), ("small", .integer(1), .numberTooLarge),
            ("middle", .integer(-1), .numberTooSmall), ("price", .decimal("1"), .numberTooLarge),
            ("price", .decimal("0.1"), .wrongType),
            ("ratio", .double(.greatestFiniteMagnitude), .numberTooLarge),
            ("part", .double(-Double(Float.greatestFiniteMagnitude)), .numberTooSmall),
            ("limited", .integer(1), .numberTooLarge), ("limited", .integer(-11), .numberTooSmall),
        ]
        for (name, amount, code) in cases {
            let error = try failure(
                try increment(id, [name: amount], values: ["name": .string("x")]))
            #expect(error?.code == .validationFailed, "\(name)")
            #expect(error?.failures.map(\.code) == [code], "\(name): \(String(describing: error))")
            #expect(error?.failures.first?.property == name)
        }
        #expect(try node.coordinator.currentToken.position == position)
        #expect(try node.value(id, "name") == .null)
    }

    @Test("Nothing adds to null, and the failure says what to do")
    func null() throws {
        let id = try node.insert("Counter")
        let error = try failure(try increment(id, ["small": .integer(1)]))
        #expect(error?.code == .validationFailed)
        #expect(error?.failures.map(\.code) == [.missingMandatoryProperty])
        #expect(error?.message.hasPrefix("Counter.small is null") == true)
        // A default is a value.
        try node.save(try increment(id, ["count": .integer(1)]))
        #expect(try node.value(id, "count") == .integer(1))
    }

    @Test("Decimals are added exactly, to their last digit")
    func decimals() throws {
        let id = try node.insert("Counter", ["price": .decimal("0")])
        for _ in 0..<10 { try node.save(try increment(id, ["price": .decimal("0.1")])) }
        #expect(try node.value(id, "price") == .decimal("1"))
        let tiny = PropertyValue.decimal("0." + String(repeating: "0", count: 36) + "1")
        try node.save(try increment(id, ["price": tiny]))
        #expect(
            try node.value(id, "price") == .decimal("1." + String(repeating: "0", count: 36) + "1"))
        #expect(
            try failure(try increment(id, ["price": .decimal("10")]))?.failures.first?.code
                == .wrongType)
    }

    @Test("Infinity and NaN in the store stay what they are")
    func infinity() throws {
        let id = try node.insert("Counter", ["ratio": .double(.infinity), "part": .double(.nan)])
        let result = try node.save(
            try increment(id, ["ratio": .double(-1), "part": .double(1)]))
        #expect(try node.value(id, "ratio") == .double(.infinity))
        #expect(try node.value(id, "part") == .double(.nan))
        #expect(result.transaction == nil && result.incremented.count == 2)
    }

    @Test("Increments mean nothing of inserts, deletes, texts and what is assigned as well")
    func malformed() throws {
        let id = try node.insert("Counter")
        var insert = try node.insertion("Counter")
        insert.increments = try node.values("Counter", ["count": .integer(1)])
            .map { ($0.position, $0.value) }
        var conditional = try node.insertion("Counter")
        conditional.condition = try condition("count == 0", "Counter")
        var delete = try node.deletion(id)
        delete.increments = insert.increments
        let both = try increment(
            id, ["count": .integer(1)], values: ["count": .integer(1)])
        let text = try increment(id, ["name": .integer(1)])
        let reference = try increment(id, ["shelf": .integer(1)])
        let other = try increment(id, ["count": .double(1)])
        let endless = try increment(id, ["ratio": .double(.infinity)])
        for operation in [
            insert, conditional, delete, both, text, reference, other, endless,
        ] {
            #expect(try failure(operation)?.code == .malformed)
        }
        #expect(try failure(text)?.message.hasPrefix("Counter.name is no number") == true)
    }

    // MARK: Order

    @Test("Saves of one group add up, each to what the one before it left")
    func group() throws {
        let id = try node.insert("Counter", ["limited": .integer(0)])
        let requests = try (0..<15).map { _ in
            SaveRequest(operations: [
                try increment(id, ["limited": .integer(1)], if: "limited < 7")
            ])
        }
        let results = node.coordinator.saveTogether(requests)
        let saved = results.compactMap { try? $0.get() }
        #expect(saved.count == 7)
        #expect(Set(saved.map(\.token.generation)).count == 1)
        #expect(saved.map { $0.incremented.first?.value } == (1...7).map { .integer($0) })
        for result in results.dropFirst(7) {
            #expect(throws: CoordinatorError.self) { try result.get() }
        }
        #expect(try node.value(id, "limited") == .integer(7))
    }

    @Test("Operations of one save add up in order, and conditions see the object before the save")
    func operations() throws {
        let id = try node.insert("Counter", ["count": .integer(1)])
        let result = try node.save(
            try increment(id, ["count": .integer(1)]),
            try node.change(id, ["count": .integer(10)]),
            try increment(id, ["count": .integer(5)], if: "count == 1"))
        #expect(try node.value(id, "count") == .integer(15))
        #expect(result.incremented.map(\.value) == [.integer(15)])
    }

    @Test("What a save inserts can be added to, but no condition holds of it")
    func inserted() throws {
        let id = ManagedObjectID(entityName: "Counter", row: RowID(-1))
        let insert = try node.insertion("Counter", -1, ["small": .integer(2)])
        let result = try node.save(
            insert, try increment(id, ["small": .integer(3), "count": .integer(4)]))
        let row = try #require(result.insertedRows.first).row
        let made = ManagedObjectID(entityName: "Counter", row: row)
        #expect(try node.value(made, "small") == .integer(5))
        #expect(try node.value(made, "count") == .integer(4))
        #expect(result.incremented.map(\.objectID) == [made, made])
        #expect(
            try failure(insert, try increment(id, [:], if: "small == 2"))?.code == .malformed)
    }

    @Test("An object named by an entity that its own inherits from is added to and judged")
    func inherited() throws {
        let id = try node.insert("Gauge", ["a": .string("b"), "small": .integer(1)])
        let result = try node.save(
            try increment(
                id, ["small": .integer(1)], values: ["name": .string("g")], if: "small == 1",
                as: "Counter"))
        #expect(try node.value(id, "small") == .integer(2))
        #expect(try node.value(id, "a") == .string("b"))
        #expect(result.incremented.map(\.objectID) == [id])
    }

    // MARK: Conditions

    @Test("A save whose condition does not hold writes nothing and tells what the store has")
    func conditions() throws {
        let id = try node.insert("Counter", ["count": .integer(1)])
        let other = try node.insert("Counter")
        let take = try increment(id, ["count": .integer(-1)], if: "count > 0")
        try node.save(take)
        let error = try failure(take, try node.change(other, ["name": .string("x")]))
        #expect(error?.code == .conditionFailed)
        #expect(error?.message.hasSuffix("does not meet the condition: count > 0") == true)
        #expect(error?.conflicts.map(\.object) == [id])
        #expect(error?.conflicts.first?.properties == ["count"])
        #expect(error?.conflicts.first?.newVersion == (try node.version(id)))
        #expect(error?.conflicts.first?.cachedSnapshot?["count"] == .integer(0))
        #expect(try node.value(other, "name") == .null)
        let both = try failure(take, try increment(other, [:], if: "name == 'x'"))
        #expect(both?.conflicts.map(\.object) == [id, other])
        // Unknown is no match, as in a fetch.
        #expect(try failure(try increment(id, [:], if: "small != 3"))?.code == .conditionFailed)
    }

    @Test("Deletes and updates that write nothing take conditions too")
    func guards() throws {
        let id = try node.insert("Counter")
        var delete = try node.deletion(id)
        delete.condition = try condition("count == 1", "Counter")
        #expect(try failure(delete)?.code == .conditionFailed)
        let other = try node.insert("Counter")
        let guarded = try increment(id, [:], if: "count == 0")
        try node.save(guarded, try node.change(other, ["name": .string("x")]))
        #expect(try node.value(other, "name") == .string("x"))
        try node.save(try increment(id, ["count": .integer(1)]))
        try node.save(delete)
        #expect(try node.row(id) == nil)
    }

    @Test("Conditions follow relationships as fetches do")
    func relationships() throws {
        let shelf = try node.insert("Shelf", ["room": .integer(2)])
        let first = try node.insert(
            "Counter", ["shelf": .reference(shelf.row), "name": .string("a")])
        let second = try node.insert(
            "Gauge", ["shelf": .reference(shelf.row), "other": .reference(first.row)])
        let cases: [(ManagedObjectID, String, Bool)] = [
            (first, "shelf.room == 2", true), (first, "shelf.room > 2", false),
            (first, "shelf != nil AND other == nil", true),
            (first, "twin.shelf.counters.@count == 2", true),
            (first, "twin.name == nil", true),
            (second, "other.name BEGINSWITH 'a'", true), (second, "other.name == name", false),
            (shelf, "counters.@count < 3", true), (shelf, "counters.@count < 2", false),
            (shelf, "ANY counters.name == 'a'", true), (shelf, "ALL counters.name == 'a'", false),
            (shelf, "NONE counters.count > 0", true),
            (shelf, "ANY counters.other.name == 'a'", true),
        ]
        for (id, text, holds) in cases {
            let error = try failure(try increment(id, [:], if: text))
            #expect(error?.code == (holds ? nil : .conditionFailed), "\(text)")
            let fetched = try node.coordinator.read {
                try $0.objectIDs(
                    FetchRequest(id.entityName, predicate: try Predicate(format: text)))
            }
            #expect(fetched.contains(id) == holds, "\(text)")
        }
    }

    @Test("A stale version comes before the condition, and a policy drops the increment")
    func versions() throws {
        let id = try node.insert("Counter", ["count": .integer(1)])
        let version = try node.version(id)
        try node.save(
            try increment(id, ["count": .integer(1)], if: "count == 1", version: version))
        let stale = try increment(
            id, ["count": .integer(1)], if: "count == 1", version: version)
        #expect(try failure(stale)?.code == .mergeConflict)
        #expect(
            try failure(stale, policy: .mergeByPropertyObjectTrump)?.code == .conditionFailed)
        let unconditional = try increment(id, ["count": .integer(1)], version: version)
        let dropped = try node.save(unconditional, policy: .mergeByPropertyStoreTrump)
        #expect(dropped.transaction == nil && dropped.incremented.isEmpty)
        let written = try node.save(unconditional, policy: .mergeByPropertyObjectTrump)
        #expect(written.incremented.map(\.value) == [.integer(3)])
        #expect(try node.value(id, "count") == .integer(3))
    }

    @Test("An object that is gone is not found, and no policy brings it back")
    func gone() throws {
        let id = try node.insert("Counter")
        let version = try node.version(id)
        try node.delete(id)
        let blind = try increment(id, ["count": .integer(1)])
        #expect(try failure(blind)?.code == .objectNotFound)
        #expect(try failure(try increment(id, [:], if: "TRUEPREDICATE"))?.code == .objectNotFound)
        let known = try increment(id, ["count": .integer(1)], version: version)
        #expect(try failure(known)?.code == .mergeConflict)
        for policy in [MergePolicy.mergeByPropertyObjectTrump, .overwrite] {
            let error = try failure(known, policy: policy)
            #expect(error == nil || error?.code == .objectNotFound)
            #expect(try node.row(id) == nil)
        }
        var deciding = blind
        deciding.resolves = true
        #expect(try failure(deciding)?.code == .objectNotFound)
        let never = ManagedObjectID(entityName: "Counter", row: RowID(77))
        #expect(
            try failure(try increment(never, ["count": .integer(1)]))?.code == .objectNotFound)
    }

    @Test("A row that merges as a whole is added to")
    func rowGrained() throws {
        let id = try node.insert("Sheet", ["x": .integer(1), "y": .string("a")])
        try node.save(try increment(id, ["x": .integer(2)]))
        #expect(try node.value(id, "x") == .integer(3))
        #expect(try node.value(id, "y") == .string("a"))
    }

    // MARK: Repeats

    @Test("A save with an ID is not added again, and gives the same sums after reopening")
    func repeated() throws {
        let id = try node.insert("Counter")
        func request(_ amount: Int64, if condition: String = "count == 0") throws -> SaveRequest {
            var request = SaveRequest(
                operations: [
                    try increment(id, ["count": .integer(amount)], if: condition)
                ], saveID: "once")
            request.isWordByWord = true
            return request
        }
        let first = try node.save(try request(1))
        // The condition does not hold any more, and is not asked.
        #expect(try node.save(try request(1)).incremented == first.incremented)
        try node.reopen()
        let again = try node.save(try request(1))
        #expect(again.incremented == first.incremented && again.transaction == first.transaction)
        #expect(try node.value(id, "count") == .integer(1))
        #expect(try node.code { try node.save(try request(2)) } == .saveIDReused)
        #expect(try node.code { try node.save(try request(1, if: "count == 1")) } == .saveIDReused)
    }

    // MARK: Several nodes

    @Test("What is shown of concurrent writes is added to, and the sum is a write over all of them")
    func siblings() throws {
        let (a, b) = try EngineNode.pair(Self.model())
        func add(_ to: EngineNode, _ id: ManagedObjectID, _ name: String) throws -> SaveOperation {
            var operation = try to.change(id)
            operation.increments = try to.values("Counter", [name: .integer(1)])
                .map { ($0.position, $0.value) }
            return operation
        }
        let id = try a.insert("Counter", ["disputed": .integer(0)])
        try exchange(a, b)
        try a.save(try add(a, id, "count"))
        try b.save(try add(b, id, "count"))
        try a.save(try add(a, id, "disputed"))
        try b.update(id, ["disputed": .integer(7)])
        try exchange(a, b)
        // An increment is no merging counter: concurrent ones of two nodes are concurrent writes.
        #expect(try a.value(id, "count") == .integer(1))
        let shown = try #require(try b.value(id, "disputed"))
        guard case .integer(let number) = shown else { throw CancellationError() }
        var operation = try add(b, id, "disputed")
        #expect(try b.code { try b.save(operation) } == .unresolvedConflict)
        operation.resolves = true
        let result = try b.save(operation)
        #expect(result.incremented.map(\.value) == [.integer(number + 1)])
        try exchange(a, b)
        #expect(try a.value(id, "disputed") == .integer(number + 1))
        #expect(try a.conflicts(.unresolved).isEmpty)
    }

    @Test("Increments of many clients at one node add up", .timeLimit(.minutes(2)))
    func concurrent() async throws {
        let id = try node.insert("Counter")
        let coordinator = node.coordinator
        let operation = try increment(id, ["count": .integer(1)])
        let sums = try await withThrowingTaskGroup(of: PropertyValue?.self) { group in
            for _ in 0..<200 {
                group.addTask {
                    try await coordinator.save(SaveRequest(operations: [operation]))
                        .incremented.first?.value
                }
            }
            return try await group.reduce(into: Set<PropertyValue>()) {
                if let sum = $1 { $0.insert(sum) }
            }
        }
        #expect(sums == Set((1...200).map { .integer($0) }))
        #expect(try node.value(id, "count") == .integer(200))
    }
}
