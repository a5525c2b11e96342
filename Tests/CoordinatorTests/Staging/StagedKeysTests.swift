import Coordinator
import Dispatch
import Merge
import Testing

/// Very many inserts of objects with unique keys: no other row has one of them, in whatever state the
/// transaction is.
@Suite("Staged transactions with unique keys")
struct StagedKeysTests {
    static let count = 50

    let model: ManagedObjectModel
    let node: EngineNode
    let other: EngineNode

    init() throws {
        // A default and a null say what an insertion did not write, and that is kept with the row.
        model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Product", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [
                    AttributeDescription("code", .string), AttributeDescription("area", .integer64),
                    AttributeDescription("state", .string, defaultValue: .string("new")),
                    AttributeDescription("note", .string),
                ], uniquenessConstraints: [["code"], ["area", "note"]]),
            EntityDescription(
                "Sheet", mergePolicy: .overwrite,
                attributes: [
                    AttributeDescription("code", .string),
                    AttributeDescription("state", .string, defaultValue: .string("new")),
                ], uniquenessConstraints: [["code"]]),
            EntityDescription("Box", attributes: [AttributeDescription("name", .string)]),
            // A key of some rows of their table only.
            EntityDescription(
                "Crate", parent: "Box", mergePolicy: .mergeByPropertyStoreTrump,
                attributes: [
                    AttributeDescription("code", .string),
                    AttributeDescription("state", .string, defaultValue: .string("new")),
                ], uniquenessConstraints: [["code"]]),
        ])
        node = try EngineNode(model, node: 1)
        try node.reopenStaging(atOnce: 3, worksAlone: true)
        other = try EngineNode(model, node: 2)
    }

    func insertions(
        _ node: EngineNode, _ entity: String = "Product", from first: Int = 1, count: Int = count
    ) throws -> SaveRequest {
        SaveRequest(
            operations: try (first..<first + count).map { number in
                var values: [String: PropertyValue] = ["code": .string("key \(number)")]
                if number % 2 == 0 { values["state"] = .null }
                if entity == "Product", number % 3 == 0 { values["area"] = .integer(1) }
                if entity == "Product", number % 5 == 0 { values["note"] = .string("\(number)") }
                return try node.insertion(entity, -Int64(number), values)
            })
    }

    func objects(_ node: EngineNode, _ entity: String = "Product") throws -> Int {
        try node.coordinator.read { try $0.count(FetchRequest(entity)) }
    }

    /// Both nodes have the same, and each has what its rows say.
    func checkEqual() throws {
        try node.take(from: other)
        try other.take(from: node)
        #expect(try node.coordinator.currentDigest == other.coordinator.currentDigest)
        #expect(try node.coordinator.verify().isOK)
        #expect(try other.coordinator.verify().isOK)
    }

    @Test("They are staged, here and as another node's", arguments: ["Product", "Sheet"])
    func staged(entity: String) throws {
        _ = try node.coordinator.save(try insertions(node, entity))
        #expect(node.coordinator.stagedTransactions == 1)
        _ = try other.coordinator.save(try insertions(other, entity, from: 1_000))
        try checkEqual()
        #expect(node.coordinator.stagedTransactions == 2)
        #expect(other.coordinator.stagedTransactions == 0)
        #expect(try objects(node, entity) == 2 * Self.count)
        node.close()
        #expect(try node.look("SELECT count(*) FROM \"\(entity)\" WHERE _version >= 1 << 62") == 0)
        try node.open()
        try checkEqual()
    }

    @Test("A staged row that is one register has that and no others")
    func oneRegister() throws {
        _ = try node.coordinator.save(try insertions(node, "Sheet"))
        try other.take(from: node)
        let entity = try node.entity("Sheet")
        let ids = try node.coordinator.read { read in try read.objectIDs(FetchRequest("Sheet")) }
        for id in ids {
            let states = try [node, other].map { node in
                try node.coordinator.read { try $0.registers(entity, id.row) }
            }
            #expect(states[0] == states[1])
            #expect(states[0]?.properties.allSatisfy { $0.siblings.isEmpty } == true)
        }
    }

    @Test("What an insertion did not write is known of a staged row as of any other")
    func exceptions() throws {
        // The same in one piece, under the other's name.
        _ = try node.coordinator.save(try insertions(node))
        try other.take(from: node)
        let ids = try node.coordinator.read { read in try read.objectIDs(FetchRequest("Product")) }
        #expect(ids.count == Self.count)
        for id in ids {
            let entity = try node.entity("Product")
            let staged = try node.coordinator.read { try $0.registers(entity, id.row) }
            let whole = try other.coordinator.read { try $0.registers(entity, id.row) }
            #expect(staged != nil)
            #expect(staged == whole)
        }
        // So a group is united alike.
        for number in 1...6 {
            _ = try other.insert(
                "Product", ["code": .string("other \(number)"), "note": .string("other")])
        }
        let first = try #require(
            try other.coordinator.read { try $0.objectIDs(FetchRequest("Product")) }.last)
        try other.update(first, ["area": .integer(9)])
        try checkEqual()
    }

    @Test("A key that another row has, or two have: in one piece, which forms the group")
    func taken() throws {
        let shown = try node.insert("Product", ["code": .string("key 40")])
        let request = try insertions(node)
        #expect(try node.code { _ = try node.coordinator.save(request) } == .constraintConflict)
        #expect(node.coordinator.stagedTransactions == 0)
        #expect(try objects(node) == 1)
        _ = try other.coordinator.save(try insertions(other))
        try checkEqual()
        #expect(node.coordinator.stagedTransactions == 0)
        #expect(try objects(node) == Self.count)
        #expect(try node.value(shown, "code") == .string("key 40"))
        // Other keys than those of the group are nothing to it.
        _ = try other.coordinator.save(try insertions(other, from: 1_000))
        try checkEqual()
        #expect(node.coordinator.stagedTransactions == 1)
        var twice = try insertions(node, from: 2_000)
        twice.operations += try insertions(node, from: 2_010, count: 1).operations.map {
            var operation = $0
            operation.row = RowID(-9_999)
            return operation
        }
        #expect(try node.code { _ = try node.coordinator.save(twice) } == .constraintConflict)
        try checkEqual()
    }

    @Test("A key that nobody but an eclipsed row has: in one piece", arguments: [false, true])
    func keyOfEclipsed(isForeign: Bool) throws {
        let hidden: [String: PropertyValue] = ["area": .integer(7), "note": .string("hidden")]
        _ = try node.insert("Product", ["code": .string("one")])
        let values = hidden.merging(["code": .string("one")]) { first, _ in first }
        _ = try other.insert("Product", values)
        let third = try EngineNode(model, node: 3)
        func request(_ node: EngineNode) throws -> SaveRequest {
            var request = try insertions(node)
            request.operations.append(try node.insertion("Product", -9_999, hidden))
            return request
        }
        if isForeign { _ = try third.coordinator.save(try request(third)) }
        try checkEqual()
        #expect(try node.onlyConflict().kind == .uniqueness)
        if isForeign {
            try node.take(from: third)
        } else {
            _ = try node.coordinator.save(try request(node))
        }
        #expect(node.coordinator.stagedTransactions == 0)
        // The first of the code is shown, its shadow's other key binds nobody.
        #expect(try objects(node) == Self.count + 2)
        try checkEqual()
        _ = try node.coordinator.save(try insertions(node, from: 1_000))
        #expect(node.coordinator.stagedTransactions == 1)
        try checkEqual()
    }

    @Test("A key that a save takes meanwhile", arguments: [false, true])
    func takenMeanwhile(isForeign: Bool) throws {
        let request = try insertions(isForeign ? other : node)
        var log: [EncodedTransaction] = []
        if isForeign {
            _ = try other.coordinator.save(request)
            log = Array(other.transactions.suffix(1))
        }
        try node.reopenStaging(atOnce: 1, worksAlone: false)
        let coordinator = node.coordinator
        var mine: ManagedObjectID?
        let error = try BetweenParts.run(coordinator) { [log] () -> CoordinatorError? in
            do {
                if isForeign {
                    #expect(try coordinator.apply(log).rejected.isEmpty)
                } else {
                    _ = try coordinator.save(request)
                }
                return nil
            } catch { return error as? CoordinatorError }
        } meanwhile: {
            mine = try node.insert("Product", ["code": .string("key 3")])
        }
        #expect(error?.code == (isForeign ? nil : .constraintConflict))
        #expect(coordinator.stagedTransactions == 0)
        #expect(coordinator.overtakenTransactions == (isForeign ? 1 : 0))
        #expect(try objects(node) == (isForeign ? Self.count : 1))
        #expect(try node.row(#require(mine)) != nil)
        try checkEqual()
        node.close()
        #expect(try node.look("SELECT count(*) FROM Product WHERE _version >= 1 << 62") == 0)
        #expect(try node.look("SELECT count(*) FROM _staged") == 0)
    }

    @Test(
        "What a process has left that ended before it was done gets its version, in registers too")
    func finished() throws {
        try node.reopenStaging(atOnce: 1, worksAlone: false)
        // Once it has shown them the writer stands still until the store is being closed.
        let coordinator = node.coordinator
        let observation = coordinator.observeCommits { [weak coordinator] notice in
            guard notice.isLocal else { return }
            let closing = DispatchSemaphore(value: 0)
            coordinator?.makeDurable { _ in closing.signal() }
            closing.wait()
        }
        let result = try coordinator.save(try insertions(node, count: 1_000))
        let digest = try coordinator.currentDigest
        node.close()
        observation.cancel()
        #expect(
            try node.look(
                """
                SELECT count(*) FROM Product WHERE _version >= 1 << 62 AND _registers IS NOT NULL
                """) > 0)
        try node.open()
        #expect(node.coordinator.hasFinishedStaging)
        #expect(try node.coordinator.currentDigest == digest)
        try checkEqual()
        let entity = try node.entity("Product")
        for row in result.rows.map(\.objectID.row) {
            #expect(
                try node.coordinator.read { try $0.registers(entity, row) }
                    == other.coordinator.read { try $0.registers(entity, row) })
        }
        node.close()
        #expect(try node.look("SELECT count(*) FROM Product WHERE _version >= 1 << 62") == 0)
    }
}
