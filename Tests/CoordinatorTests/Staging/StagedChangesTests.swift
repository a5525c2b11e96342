import Merge
import Synchronization
import Testing

@testable import Coordinator

/// Very many updates and deletes: what they leave is written beside the rows, and shown at once.
@Suite("Staged updates and deletes")
struct StagedChangesTests {
    static let count = 40
    /// Some of these come while they are written, when they are shown, while they are folded, and
    /// after it.
    static let moments = [1, 2, 20] + Array(37...46) + [55, 63, 64, 65, 66, 90]

    let model: ManagedObjectModel
    let node: EngineNode
    let other: EngineNode
    /// Objects of each entity, known to both nodes.
    let ids: [ManagedObjectID]

    init() throws {
        model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Item", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [
                    AttributeDescription("title", .string), AttributeDescription("note", .string),
                    AttributeDescription("size", .integer64, defaultValue: .integer(7)),
                ],
                relationships: [
                    RelationshipDescription("folder", to: "Folder", inverse: "items"),
                    RelationshipDescription("tags", to: "Item", inverse: "tagged", isToMany: true),
                    RelationshipDescription("tagged", to: "Item", inverse: "tags", isToMany: true),
                ]),
            EntityDescription(
                "Special", parent: "Item", attributes: [AttributeDescription("extra", .double)]),
            EntityDescription(
                "Folder", attributes: [AttributeDescription("name", .string)],
                relationships: [
                    RelationshipDescription("items", to: "Item", inverse: "folder", isToMany: true)
                ]),
            EntityDescription(
                "Sheet", mergePolicy: .overwrite,
                attributes: [
                    AttributeDescription("code", .string), AttributeDescription("title", .string),
                    AttributeDescription("note", .string),
                ], uniquenessConstraints: [["code"]]),
            EntityDescription(
                "Plan", mergePolicy: .error,
                attributes: [
                    AttributeDescription("title", .string), AttributeDescription("note", .string),
                ]),
        ])
        node = try EngineNode(model, node: 1)
        other = try EngineNode(model, node: 2)
        let folder = try node.insert("Folder", ["name": .string("all")])
        var ids: [ManagedObjectID] = []
        for number in 0..<Self.count {
            let entity = ["Item", "Special", "Sheet", "Plan"][number % 4]
            var values: [String: PropertyValue] = ["title": .string("before \(number)")]
            if number % 4 < 2 { values["folder"] = .reference(folder.row) }
            if entity == "Sheet" { values["code"] = .string("\(number)") }
            ids.append(try node.insert(entity, values))
        }
        self.ids = ids
        try other.take(from: node)
        try node.reopenStaging()
    }

    func updates(
        _ node: EngineNode, _ values: [String: PropertyValue] = ["title": .string("after")],
        saveID: String? = nil
    ) throws -> SaveRequest {
        SaveRequest(operations: try ids.map { try node.change($0, values) }, saveID: saveID)
    }

    /// How many objects of all entities have the title.
    func titled(_ node: EngineNode, _ title: String = "after") throws -> Int {
        try node.coordinator.read { read in
            try ["Item", "Sheet", "Plan"].reduce(0) {
                var request = FetchRequest($1)
                request.predicate = try Predicate("title == '\(title)'")
                return try $0 + read.count(request)
            }
        }
    }

    func checkEqual() throws {
        try exchange(node, other)
        for id in ids {
            let entity = try node.entity(id.entityName)
            let registers = try [node, other].map { node in
                try node.coordinator.read { try $0.registers(entity, id.row) }
            }
            #expect(registers[0] == registers[1])
            #expect(try node.row(id)?.values == other.row(id)?.values)
        }
    }

    @Test("They are saved as if they were few: answer, rows, registers, log, digest, notice")
    func saved() throws {
        let before = try node.row(ids[1])?.version
        var request = try updates(node)
        // One object is named that stays as it is.
        request.operations[1].values = [
            (
                try #require(try node.entity("Special").position(of: "title")), .string("before 1")
            )
        ]
        let result = try node.coordinator.save(request)
        #expect(node.coordinator.stagedTransactions == 1)
        let dot = try #require(result.transaction)
        #expect(result.rows.map(\.objectID) == ids)
        for (id, row) in zip(ids, result.rows) {
            let version = id == ids[1] ? before : RowVersion(dots: [dot])
            #expect(row.version == version)
            #expect(try node.row(id)?.version == version)
        }
        #expect(node.transactions.last?.transaction.changes.count == Self.count - 1)
        #expect(try titled(node) == Self.count - 1)
        try node.expectNothingStaged()
        try checkEqual()
        #expect(other.coordinator.stagedTransactions == 0)
    }

    @Test("Another node's are applied likewise, with whatever else the transaction changes")
    func applied() throws {
        var request = try updates(other)
        request.operations += [
            try other.insertion("Item", -1, ["title": .string("after")]),
            try other.deletion(ids[3]),
            try other.change(ids[0], [:], [.init(name: "tags", kind: .add, members: [ids[1].row])]),
        ]
        request.operations.remove(at: 3)
        _ = try other.coordinator.save(request)
        try node.take(from: other)
        #expect(node.coordinator.stagedTransactions == 1)
        #expect(try titled(node) == Self.count)
        #expect(try node.members(ids[0], "tags") == [ids[1].row])
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test("What is in conflict with them is settled and listed as ever")
    func inConflict() throws {
        for id in ids.prefix(8) { try node.update(id, ["title": .string("mine")]) }
        for id in ids.suffix(4) { try node.delete(id) }
        _ = try other.coordinator.save(try updates(other))
        try node.take(from: other)
        #expect(node.coordinator.stagedTransactions == 1)
        // A sheet is one register, an item has one a property, and a plan waits for a decision.
        #expect(try node.conflicts(kind: .update).count == 6)
        #expect(try node.conflicts(kind: .row).count == 2)
        #expect(try node.conflicts(kind: .delete).count == 4)
        try node.expectNothingStaged()
        try checkEqual()
        // A save over what was in conflict closes that.
        var request = try updates(node, ["title": .string("at last")])
        request.operations = Array(request.operations.dropLast(4))
        for index in request.operations.indices { request.operations[index].resolves = true }
        let closed = try node.coordinator.save(request).conflicts
        #expect(closed.count == 8)
        try checkEqual()
    }

    @Test("What hangs on others, or is not valid, is written in one piece or refused whole")
    func inOnePiece() throws {
        var keyed = try updates(node, ["title": .string("keyed")])
        keyed.operations[2] = try node.change(ids[2], ["code": .string("new")])
        _ = try node.coordinator.save(keyed)
        // A key that nobody has is not what others hang on.
        #expect(node.coordinator.stagedTransactions == 1)
        var twice = try updates(node, ["title": .string("twice")])
        twice.operations.append(try node.change(ids[0], ["note": .string("again")]))
        _ = try node.coordinator.save(twice)
        #expect(try node.value(ids[0], "note") == .string("again"))
        var invalid = try updates(node)
        invalid.operations[30].values = [(0, .double(5))]
        #expect(try node.code { _ = try node.coordinator.save(invalid) } == .validationFailed)
        var stale = try updates(node)
        stale.operations[20].version = RowVersion(dots: [])
        #expect(try node.code { _ = try node.coordinator.save(stale) } == .mergeConflict)
        #expect(try titled(node, "twice") == Self.count)
        #expect(node.coordinator.stagedTransactions == 1)
        try node.expectNothingStaged()
        try checkEqual()
    }

    /// Whose seats are one register with the rest of them.
    private static func seats() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Person", mergePolicy: .rollback,
                attributes: [AttributeDescription("name", .string)],
                relationships: [RelationshipDescription("seat", to: "Seat", inverse: "person")]),
            EntityDescription(
                "Seat", attributes: [AttributeDescription("name", .string)],
                relationships: [RelationshipDescription("person", to: "Person", inverse: "seat")]),
        ])
    }

    @Test(
        "A context is told of a one-to-one that its own save lost, for its claim is as new as that",
        arguments: [false, true])
    func lostClaims(isStaged: Bool) throws {
        let nodes = try (1...2).map { try EngineNode(try Self.seats(), node: $0) }
        let node = nodes[0]
        if isStaged { try node.reopenStaging() }
        let seat = try node.insert("Seat")
        let persons = try (0..<20).map { _ in try node.insert("Person") }
        try exchange(node, nodes[1])
        try node.update(persons[0], ["seat": .reference(seat.row)])
        try nodes[1].update(persons[1], ["seat": .reference(seat.row)])
        try exchange(node, nodes[1])
        let context = ManagedObjectContext(node.coordinator)
        try context.performAndWait {
            let objects = persons.map { context.object(with: $0) }
            #expect(objects[0].relatedObject(forKey: "seat") != nil)
            for object in objects where object.objectID != persons[1] { object["name"] = "renewed" }
            try context.save()
            for object in objects.prefix(2) {
                let shown = try node.value(object.objectID, "seat")
                #expect(shown == (object === objects[0] ? .null : .reference(seat.row)))
                let id = object.relatedObject(forKey: "seat")?.objectID
                #expect(id.map { .reference($0.row) } ?? .null == shown)
            }
        }
        #expect(node.coordinator.stagedTransactions == (isStaged ? 1 : 0))
    }

    @Test("Where a row is one register, an update makes its claim to a one-to-one as new")
    func claims() throws {
        let model = try Self.seats()
        let nodes = try (1...3).map { try EngineNode(model, node: $0) }
        try nodes[0].reopenStaging()
        let seat = try nodes[0].insert("Seat")
        let persons = try (0..<20).map { _ in try nodes[0].insert("Person") }
        try exchange(nodes[0], nodes[1], nodes[2])
        // Two nodes give the same seat away, and the earlier claim is renewed by a large update.
        try nodes[1].update(persons[0], ["seat": .reference(seat.row)])
        try nodes[2].update(persons[1], ["seat": .reference(seat.row)])
        try nodes[0].take(from: nodes[1])
        try nodes[2].take(from: nodes[1])
        _ = try nodes[1].coordinator.save(
            SaveRequest(
                operations: try persons.filter { $0 != persons[1] }.map {
                    try nodes[1].change($0, ["name": .string("renewed")])
                }))
        try nodes[0].take(from: nodes[2])
        try nodes[0].take(from: nodes[1])
        #expect(nodes[0].coordinator.stagedTransactions == 1)
        try exchange(nodes[0], nodes[1], nodes[2])
        let shown = try nodes.map { node in
            try persons.prefix(2).map { try node.value($0, "seat") }
        }
        #expect(shown[0] == shown[1] && shown[0] == shown[2])
    }

    @Test("A save ID holds for them")
    func saveID() throws {
        let request = try updates(node, saveID: "all")
        let results = try node.coordinator.saveTogether([request, request]).map { try $0.get() }
        #expect(results[0].transaction == results[1].transaction)
        #expect(try node.coordinator.save(request).transaction == results[0].transaction)
        #expect(node.coordinator.stagedTransactions == 1)
        try node.expectNothingStaged()
    }

    @Test("Nobody sees a part of them, and what is written between is kept", arguments: moments)
    func between(parts: Int) throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try updates(node)
        let fresh = ManagedObjectID(entityName: "Item", row: RowID(0))
        var inserted = fresh
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            #expect([0, Self.count].contains(try titled(node)))
            #expect(try coordinator.verify().isOK)
            let result = try node.save(
                try node.change(ids[0], ["note": .string("mine")]),
                try node.change(ids[2], ["note": .string("mine")]),
                try node.insertion(
                    "Item", -1,
                    ["title": .string("mine"), "folder": .reference(try node.folder().row)]))
            inserted = ManagedObjectID(
                entityName: "Item", row: try #require(result.insertedRows.first).row)
            #expect([0, Self.count].contains(try titled(node)))
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 1)
        #expect(coordinator.overtakenTransactions == 0)
        #expect(try titled(node) == Self.count)
        #expect(try node.value(ids[0], "note") == .string("mine"))
        #expect(try node.value(ids[2], "note") == .string("mine"))
        #expect(try node.members(try node.folder(), "items").contains(inserted.row))
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test("A row that is deleted or was changed meanwhile: all of them are refused")
    func refused() throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        for isDeleted in [false, true] {
            var request = try updates(node)
            request.operations[4].version = try node.row(ids[4])?.version
            let code = try node.code { [request] in
                _ = try BetweenParts.run(coordinator, parts: 20) {
                    try coordinator.save(request)
                } meanwhile: {
                    if isDeleted {
                        try node.delete(ids[4])
                    } else {
                        try node.update(ids[4], ["note": .string("mine")])
                    }
                }
            }
            #expect(code == .mergeConflict)
            #expect(try titled(node) == 0)
        }
        #expect(coordinator.stagedTransactions == 0)
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test("Another node's are merged with what was written meanwhile", arguments: [5, 30, 60])
    func merged(parts: Int) throws {
        _ = try other.coordinator.save(try updates(other))
        let log = Array(other.transactions.suffix(1))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let result = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.apply(log)
        } meanwhile: {
            try node.save(
                try node.change(ids[0], ["title": .string("mine")]),
                try node.change(ids[3], ["note": .string("mine")]), try node.deletion(ids[8]))
        }
        #expect(result.rejected.isEmpty)
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 1)
        // The plan was written to another property; and who saves when all is shown has seen it.
        #expect(try node.conflicts().count == (parts < 45 ? 2 : 0))
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test("Another node's are staged whatever incarnation of it had written the rows before")
    func ofLaterIncarnation() throws {
        // More than may be left to be merged when all is shown.
        let plans = try (0..<250).map { number in
            try other.insertion("Plan", Int64(-1 - number), ["title": .string("before")])
        }
        let inserted = try other.coordinator.save(SaveRequest(operations: plans)).insertedRows
        for _ in 0..<2 {
            other.close()
            try other.open()
            try other.update(ids[0], ["note": .string("restarted")])
        }
        let changes = try inserted.map { inserted in
            try other.change(
                ManagedObjectID(entityName: "Plan", row: inserted.row), ["title": .string("after")])
        }
        _ = try other.coordinator.save(SaveRequest(operations: changes))
        let change = try #require(other.transactions.last)
        // It does not name the incarnation that inserted them.
        #expect(change.frontier?.entries.count == 1)
        for transaction in other.transactions where try !node.vector.contains(transaction.dot) {
            let told = try EncodedTransaction(decoding: transaction.bytes)
            #expect(try node.coordinator.apply([told]).rejected.isEmpty)
            node.finishStaging()
        }
        #expect(node.coordinator.stagedTransactions == 2)
        #expect(try node.conflicts().isEmpty)
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test("Where one of them is written again and again, they are written in one piece")
    func neverQuiet() throws {
        for number in 0..<300 { try other.update(ids[0], ["note": .string("\(number)")]) }
        let log = other.transactions.suffix(300)
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let next = Mutex(log.startIndex)
        @Sendable func apply() {
            let number = next.withLock { number in
                defer { number += 1 }
                return number
            }
            guard log.indices.contains(number) else { return }
            coordinator.apply([log[number]]) { _ in apply() }
        }
        let request = try updates(node)
        let saved = try BetweenParts.run(coordinator, parts: 1) {
            try coordinator.save(request)
        } meanwhile: {
            apply()
            try node.update(ids[1], ["note": .string("mine")])
        }
        #expect(saved.transaction != nil)
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 0)
        #expect(try titled(node) == Self.count)
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test("Where very much of another node's is in conflict, it is written in one piece")
    func muchInConflict() throws {
        func titles(_ ids: [ManagedObjectID], _ title: String) throws -> SaveRequest {
            SaveRequest(operations: try ids.map { try node.change($0, ["title": .string(title)]) })
        }
        let inserted = try node.coordinator.save(
            SaveRequest(operations: try (1...450).map { try node.insertion("Item", -Int64($0)) }))
        let items = inserted.rows.map(\.objectID)
        try other.take(from: node)
        for (number, isStaged) in [(200, true), (201, false)] {
            let before = node.coordinator.stagedTransactions
            _ = try other.coordinator.save(try titles(items, "theirs \(number)"))
            _ = try node.coordinator.save(try titles(Array(items.prefix(number)), "\(number)"))
            let own = node.coordinator.stagedTransactions
            #expect(own == before + 1)
            try node.take(from: other)
            #expect(node.coordinator.stagedTransactions == own + (isStaged ? 1 : 0))
            #expect(try node.conflicts().count == number)
            try node.expectNothingStaged()
            try exchange(node, other)
            _ = try other.coordinator.save(try titles(items, "both"))
            try node.take(from: other)
            #expect(try node.conflicts().isEmpty)
        }
    }

    @Test("While they are put in their rows' places all that writes rows writes those")
    func whileFolding() throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try updates(node)
        let (first, second) = (ids[36], ids[37])
        _ = try BetweenParts.run(coordinator, parts: 44) {
            try coordinator.save(request)
        } meanwhile: {
            #expect(try titled(node) == Self.count)
            let version = try #require(try node.row(first)?.version)
            try node.save(
                try node.deletion(first, version: version),
                try node.change(second, ["title": .string("later")]),
                try node.change(
                    ids[33], [:], [.init(name: "tags", kind: .add, members: [second.row])]),
                try node.insertion("Sheet", -1, ["code": .string("a key")]))
            #expect(try node.row(first) == nil)
            #expect(try titled(node) == Self.count - 2)
            #expect(try coordinator.verify().isOK)
        }
        #expect(try node.row(first) == nil)
        #expect(try node.value(second, "title") == .string("later"))
        #expect(
            try node.code { try node.update(first, ["note": .string("none")]) } == .objectNotFound)
        try node.update(first, ["title": .string("back")], resolves: true)
        try node.expectNothingStaged()
        try checkEqual()
    }

    /// What fetches give that go through relationships in all ways.
    private func answers(_ store: PersistentStoreCoordinator) throws -> [[ManagedObjectID]] {
        let fetches: [(String, String, String)] = [
            ("Item", "folder.name == 'all' AND title == 'after'", "folder.name"),
            ("Item", "folder != nil AND size > 5", "title"),
            ("Item", "ANY tags.folder.name == 'all' OR folder.items.@count > 3", "-folder.name"),
            ("Folder", "ANY items.title == 'after'", "name"),
            ("Folder", "NONE items.folder.name == 'all' OR items.@count > 2", "name"),
            ("Special", "folder.name BEGINSWITH 'a'", "title"), ("Sheet", "title != code", "code"),
        ]
        return try fetches.map { entity, predicate, key in
            var fetch = FetchRequest(entity)
            fetch.predicate = try Predicate(predicate)
            fetch.sortDescriptors = [
                SortDescriptor(
                    key.hasPrefix("-") ? String(key.dropFirst()) : key,
                    ascending: !key.hasPrefix("-"))
            ]
            return try store.read { try $0.objectIDs(fetch) }
        }
    }

    @Test("Nothing is joined while a table may be a view: SQLite would copy all of it")
    func joins() throws {
        var fetch = FetchRequest("Item")
        fetch.predicate = try Predicate("folder.name == 'all' AND ANY tags.folder.name == 'all'")
        fetch.sortDescriptors = [SortDescriptor("folder.name")]
        let codes = EntityCodes(["Item": 1, "Special": 2, "Folder": 3])
        for hasViews in [false, true] {
            let sql = try FetchCompiler(model: model, codes: codes, hasViews: hasViews)
                .compile(fetch).sql
            #expect(sql.contains("LEFT JOIN") == !hasViews)
        }
    }

    // MARK: What a process that ended has left

    @Test(
        "A copy made meanwhile is finished by its opening, and read as it is",
        arguments: [20, 42, 50])
    func copied(parts: Int) throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        var request = try updates(node)
        request.operations[39] = try node.deletion(ids[39])
        request.operations[3] = try node.deletion(ids[3])
        let path = node.path + ".copy"
        _ = try BetweenParts.run(coordinator, parts: parts) { [request] in
            try coordinator.save(request)
        } meanwhile: {
            _ = try coordinator.backUp(to: path)
            try node.update(ids[0], ["note": .string("later")])
        }
        let isShown = parts > 41
        let reader = try PersistentStoreCoordinator(readingStoreAt: path)
        #expect(try reader.verify().isOK)
        let tombstones = try reader.read {
            try $0.rows(in: .tombstones, after: nil, limit: 10)
        }
        #expect(tombstones == (isShown ? [ids[3].row, ids[39].row] : []))
        var fetch = FetchRequest("Item")
        fetch.predicate = try Predicate("title == 'after' AND folder.name == 'all'")
        fetch.sortDescriptors = [SortDescriptor("title")]
        #expect(try reader.read { try $0.fetch(fetch).count } == (isShown ? Self.count / 2 : 0))
        let shown = try answers(reader)
        reader.close()
        let copy = try PersistentStoreCoordinator(
            storeAt: path, model: model, cluster: "test", node: node.node)
        #expect(copy.hasFinishedStaging)
        #expect(try copy.verify().isOK)
        #expect(try answers(copy) == shown)
        #expect(try copy.read { try $0.count(FetchRequest("Plan")) } == (isShown ? 8 : 10))
        #expect(try copy.read { try $0.fetch(fetch).count } == (isShown ? Self.count / 2 : 0))
        copy.close()
        try checkEqual()
    }
}

extension EngineNode {
    /// The one folder there is.
    func folder() throws -> ManagedObjectID {
        try #require(try coordinator.read { try $0.objectIDs(FetchRequest("Folder")) }.first)
    }
}
