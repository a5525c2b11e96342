import Merge
import Testing

@testable import Coordinator

/// Very many updates that lead rows elsewhere, and deletes of rows together with what refers to them.
@Suite("Staged references")
struct StagedReferencesTests {
    private static let lines = 24
    private static let orders = 4

    private let node: EngineNode
    private let other: EngineNode
    private let orders: [ManagedObjectID]
    /// Each is of an order, in turn.
    private let lines: [ManagedObjectID]

    init() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Order", attributes: [AttributeDescription("name", .string)],
                relationships: [
                    RelationshipDescription("lines", to: "Line", inverse: "order", isToMany: true),
                    RelationshipDescription("next", to: "Order", inverse: "previous"),
                    RelationshipDescription(
                        "previous", to: "Order", inverse: "next", isToMany: true),
                ]),
            EntityDescription(
                "Line", mergePolicy: .error,
                attributes: [
                    AttributeDescription("text", .string), AttributeDescription("note", .string),
                ],
                relationships: [RelationshipDescription("order", to: "Order", inverse: "lines")]),
        ])
        let nodes = try [EngineNode(model, node: 1), EngineNode(model, node: 2)]
        (node, other) = (nodes[0], nodes[1])
        var made: [ManagedObjectID] = []
        for number in 0..<Self.orders {
            var values: [String: PropertyValue] = ["name": .string("order \(number)")]
            if let last = made.last { values["next"] = .reference(last.row) }
            made.append(try nodes[0].insert("Order", values))
        }
        orders = made
        lines = try (0..<Self.lines).map { number in
            try nodes[0].insert(
                "Line",
                [
                    "text": .string("line \(number)"),
                    "order": .reference(made[number % Self.orders].row),
                ])
        }
        try other.take(from: node)
        try node.reopenStaging()
    }

    /// Nothing of a staged transaction is left in the file, and both nodes are equal.
    private func expectEqualAndDone() throws {
        try node.expectNothingStaged()
        try exchange(node, other)
        for id in orders + lines {
            #expect(try node.row(id)?.values == other.row(id)?.values)
            let entity = try node.entity(id.entityName)
            let registers = try [node, other].map { node in
                try node.coordinator.read { try $0.registers(entity, id.row) }
            }
            #expect(registers[0] == registers[1])
        }
        let conflicts = try [node, other].map { Set(try $0.conflicts().map(\.id)) }
        #expect(conflicts[0] == conflicts[1])
    }

    private func members(_ node: EngineNode, _ order: ManagedObjectID) throws -> Int {
        let members = try node.members(order, "lines")
        var request = FetchRequest("Line")
        let name = try #require(try node.value(order, "name")).text
        request.predicate = try Predicate("order.name == '\(name)'")
        #expect(try node.coordinator.read { try $0.count(request) } == members.count)
        return members.count
    }

    /// Leads all lines to one order.
    private func moves(
        _ node: EngineNode, to order: RowID, version: ((ManagedObjectID) -> RowVersion?)? = nil
    ) throws -> SaveRequest {
        SaveRequest(
            operations: try lines.map {
                try node.change($0, ["order": .reference(order)], version: version?($0))
            })
    }

    @Test("All are led to one that is there: rows, members, log, and the other node's")
    func moved() throws {
        let third = try EngineNode(node.model, node: 3)
        try third.reopenStaging()
        try third.take(from: node)
        let result = try node.coordinator.save(try moves(node, to: orders[0].row))
        #expect(node.coordinator.stagedTransactions == 1)
        let dot = try #require(result.transaction)
        #expect(result.rows.map(\.objectID) == lines)
        #expect(try members(node, orders[0]) == Self.lines)
        #expect(try members(node, orders[1]) == 0)
        for (number, line) in lines.enumerated() {
            let isMoved = number % Self.orders != 0
            #expect(try node.value(line, "order") == .reference(orders[0].row))
            #expect(try node.row(line)?.version.dots.contains(dot) == isMoved)
        }
        try expectEqualAndDone()
        #expect(other.coordinator.stagedTransactions == 0)
        try third.take(from: node)
        #expect(third.coordinator.stagedTransactions == 1)
        try exchange(node, other, third)
        // To nothing, and back.
        _ = try node.coordinator.save(
            SaveRequest(operations: try lines.map { try node.change($0, ["order": .null]) }))
        #expect(node.coordinator.stagedTransactions == 1)
        #expect(try members(node, orders[0]) == 0)
        try expectEqualAndDone()
    }

    @Test("All are led to a new one, and those that they were led to are deleted")
    func movedToNew() throws {
        var request = try moves(node, to: RowID(-1))
        request.operations.insert(
            try node.insertion("Order", -1, ["name": .string("new")]), at: 3)
        request.operations += try orders.map { try node.deletion($0) }
        let result = try node.coordinator.save(request)
        #expect(node.coordinator.stagedTransactions == 1)
        let new = ManagedObjectID(
            entityName: "Order", row: try #require(result.insertedRows.first).row)
        #expect(try members(node, new) == Self.lines)
        for order in orders { #expect(try node.row(order) == nil) }
        #expect(try node.conflicts().isEmpty)
        try expectEqualAndDone()
        #expect(try members(other, new) == Self.lines)
    }

    @Test("Another node's are staged likewise")
    func movedElsewhere() throws {
        var request = try moves(other, to: RowID(-1))
        request.operations.insert(
            try other.insertion("Order", -1, ["name": .string("new")]), at: 3)
        request.operations += try orders.map { try other.deletion($0) }
        _ = try other.coordinator.save(request)
        try node.take(from: other)
        #expect(node.coordinator.stagedTransactions == 1)
        #expect(try node.conflicts().isEmpty)
        try expectEqualAndDone()
    }

    /// Orders and lines, by turns.
    private func clearing(_ node: EngineNode) throws -> SaveRequest {
        var ids = lines
        for (place, order) in orders.enumerated() { ids.insert(order, at: place * 5) }
        return SaveRequest(operations: try ids.map { try node.deletion($0) })
    }

    @Test("Rows are deleted together with all that refers to them", arguments: [false, true])
    func cleared(isForeign: Bool) throws {
        let source = isForeign ? other : node
        _ = try source.coordinator.save(try clearing(source))
        try node.take(from: other)
        #expect(node.coordinator.stagedTransactions == 1)
        for id in orders + lines { #expect(try node.row(id) == nil) }
        #expect(try node.conflicts().isEmpty)
        try expectEqualAndDone()
        for store in [node, other] {
            let stable = try store.vector
            let collected = try store.coordinator.collect(stable: stable).tombstonesCollected
            #expect(collected == Self.orders + Self.lines)
        }
        try exchange(node, other)
    }

    @Test("Deletes that lose against an update leave a row that refers to what is gone")
    func clearedInConflict() throws {
        try node.update(lines[5], ["text": .string("mine")])
        try node.update(lines[6], ["order": .reference(orders[0].row)])
        _ = try other.coordinator.save(try clearing(other))
        try node.take(from: other)
        #expect(node.coordinator.stagedTransactions == 1)
        #expect(try node.value(lines[5], "order") == .null)
        // The deletes had seen where the first one leads; where the other one does, they had not.
        #expect(try node.conflicts(kind: .dangling).map(\.id.row) == [lines[6].row])
        #expect(try node.conflicts(kind: .delete).count == 2)
        try expectEqualAndDone()
    }

    static let moments = Array(1...32) + [40, 60]

    @Test("What is written between counts, and what they refer to may go", arguments: moments)
    func between(parts: Int) throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        var request = try moves(node, to: orders[0].row)
        request.operations += try orders[1...].map { try node.deletion($0) }
        let asked = request
        var isRefused = false
        let outcome = try node.code {
            _ = try BetweenParts.run(coordinator, parts: parts) {
                try coordinator.save(asked)
            } meanwhile: {
                let before = try members(node, orders[0])
                #expect([Self.lines / Self.orders, Self.lines].contains(before))
                #expect(try coordinator.verify().isOK)
                let isThere = try node.row(orders[1]) != nil
                // Back to one that goes, a line of its own, and a text.
                isRefused =
                    try node.code {
                        try node.save(
                            try node.change(lines[7], ["order": .reference(orders[1].row)]),
                            try node.change(lines[8], ["text": .string("mine")]))
                    } == .validationFailed
                // All may be shown before it has its turn.
                #expect(isThere || isRefused)
                #expect(try coordinator.verify().isOK)
            }
        }
        #expect(outcome == nil)
        node.finishStaging()
        #expect(try members(node, orders[0]) == Self.lines)
        #expect(try node.row(orders[1]) == nil)
        #expect(try node.conflicts().isEmpty)
        #expect(coordinator.stagedTransactions == 1)
        try expectEqualAndDone()
    }

    @Test("What they are led to is deleted between", arguments: moments)
    func targetGone(parts: Int) throws {
        _ = try other.coordinator.save(try moves(other, to: orders[3].row))
        let log = Array(other.transactions.suffix(1))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        var expected = 0
        let result = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.apply(log)
        } meanwhile: {
            #expect(try coordinator.verify().isOK)
            // All may be shown by then, and what led there before is no conflict in any case.
            let deletion = try node.delete(orders[3])
            expected =
                deletion.seen.contains(log[0].dot) ? 0 : Self.lines - Self.lines / Self.orders
            #expect(try coordinator.verify().isOK)
        }
        #expect(result.rejected.isEmpty)
        node.finishStaging()
        #expect(try node.value(lines[1], "order") == .null)
        #expect(try node.conflicts(kind: .dangling).count == expected)
        try expectEqualAndDone()
    }

    @Test("Whoever leads theirs to what is deleted between is refused", arguments: [2, 9, 20])
    func targetGoneAtHome(parts: Int) throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try moves(node, to: orders[3].row)
        let code = try node.code {
            _ = try BetweenParts.run(coordinator, parts: parts) {
                try coordinator.save(request)
            } meanwhile: {
                try node.delete(orders[3])
            }
        }
        #expect(code == .validationFailed)
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 0)
        #expect(try node.value(lines[0], "order") == .reference(orders[0].row))
        try expectEqualAndDone()
    }

    @Test(
        "A line that another save keeps with what is deleted is seen", arguments: [5, 12, 20, 40])
    func keptWithDeleted(parts: Int) throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let versions = Dictionary(
            uniqueKeysWithValues: try lines.map { ($0, try #require(try node.row($0)).version) })
        var request = try moves(node, to: orders[0].row) { versions[$0] }
        for place in request.operations.indices {
            request.operations[place].snapshot = try node.row(lines[place])?.values
        }
        request.mergePolicy = .mergeByPropertyStoreTrump
        request.operations += try orders[1...].map { try node.deletion($0) }
        let asked = request
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(asked)
        } meanwhile: {
            // It is led to another one that goes, which is what the store's policy keeps.
            let code = try node.code {
                try node.update(lines[1], ["order": .reference(orders[2].row)])
            }
            #expect(code == nil || code == .validationFailed)
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        for order in orders[1...] { #expect(try node.row(order) == nil) }
        #expect(try coordinator.verify().isOK)
        // It reads as nil where it was led there in time.
        let isLed = try node.value(lines[1], "order") == .null
        #expect(try node.conflicts(kind: .dangling).isEmpty)
        #expect(try members(node, orders[0]) == Self.lines - (isLed ? 1 : 0))
        try expectEqualAndDone()
    }

    @Test(
        "A line that another save leads to what is deleted, in a later part",
        arguments: [3, 6, 9, 20])
    func ledToDeleted(parts: Int) throws {
        let free = try (0..<3).map { try node.insert("Order", ["name": .string("free \($0)")]) }
        try exchange(node, other)
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        // The order goes in the first part; its line to be is of a later one.
        var operations = try free.map { try node.deletion($0) }
        operations += try lines.map { try node.change($0, ["text": .string("new")]) }
        let request = SaveRequest(operations: operations)
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            let line = lines[max(0, parts - 5)]
            try node.update(line, ["order": .reference(free[0].row)])
        }
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 0)
        #expect(try node.row(free[0]) == nil)
        #expect(try node.value(lines[max(0, parts - 5)], "order") == .null)
        #expect(try node.value(lines[max(0, parts - 5)], "text") == .string("new"))
        // The save that deletes it comes after, and so has seen it.
        #expect(try node.conflicts(kind: .dangling).isEmpty)
        try expectEqualAndDone()
    }

    @Test(
        "Who leads what is in conflict to a row that goes meanwhile is refused", arguments: [5, 12])
    func targetOfConflictGone(parts: Int) throws {
        // An order of two names, settled: what changes it is applied when all is shown.
        try node.update(orders[0], ["name": .string("mine")])
        try other.update(orders[0], ["name": .string("theirs")])
        let new = try other.insert("Order", ["name": .string("next")])
        try exchange(node, other)
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        var operations = [try node.change(orders[0], ["next": .reference(new.row)])]
        operations += try lines.map { try node.change($0, ["text": .string("new")]) }
        let request = SaveRequest(operations: operations)
        let code = try node.code {
            _ = try BetweenParts.run(coordinator, parts: parts) {
                try coordinator.save(request)
            } meanwhile: {
                try node.delete(new)
            }
        }
        #expect(code == .validationFailed)
        node.finishStaging()
        #expect(try node.value(lines[0], "text") == .string("line 0"))
        try expectEqualAndDone()
    }
}

extension PropertyValue {
    fileprivate var text: String { if case .string(let text) = self { text } else { "" } }
}
