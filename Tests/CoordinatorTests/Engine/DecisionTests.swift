import Coordinator
import Merge
import Testing

/// What a person's decision over a conflict writes, and what it must leave alone.
@Suite("Decisions over conflicts")
struct DecisionTests {
    private let a: EngineNode
    private let b: EngineNode

    init() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Task", mergePolicy: .error, attributes: [.init("title", .string)],
                relationships: [.init("user", to: "User", inverse: "tasks")]),
            EntityDescription(
                "User", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("mail", .string), .init("nick", .string, mergePolicy: .error)],
                relationships: [.init("tasks", to: "Task", inverse: "user", isToMany: true)],
                uniquenessConstraints: [["mail"]]),
        ])
        (a, b) = try EngineNode.pair(model)
    }

    private func shared(
        _ entity: String, _ values: [String: PropertyValue] = [:]
    ) throws -> ManagedObjectID {
        let id = try a.insert(entity, values)
        try b.take(from: a)
        return id
    }

    private func resolve(_ conflict: Conflict, _ resolution: ConflictResolution) throws {
        try a.resolve(conflict.id, resolution, sides: conflict.sides.compactMap(\.dot))
    }

    @Test("To undo what became of a property does not bring its object back")
    func undoOfDeleted() throws {
        let task = try shared("Task")
        try a.update(task, ["title": .string("one")])
        try b.update(task, ["title": .string("two")])
        try exchange(a, b)
        let conflict = try a.onlyConflict()
        let sides = conflict.sides.compactMap(\.dot)
        try resolve(conflict, .side(sides[1]))
        try exchange(a, b)
        try b.delete(task)
        try exchange(a, b)
        for node in [a, b] {
            let closed = try #require(
                try node.conflicts(isOpen: false).first { $0.property == "title" })
            for seen in [nil, sides] {
                let code = try node.code { try node.undo(closed.id, sides: seen) }
                #expect(code == .objectNotFound)
            }
            #expect(try node.row(task) == nil)
        }
    }

    @Test("A value that refers to what is not there is refused, and the conflict stays open")
    func valueOfNothing() throws {
        let users = [try shared("User"), try shared("User")]
        let task = try shared("Task")
        try a.update(task, ["user": .reference(users[0].row)])
        try b.update(task, ["user": .reference(users[1].row)])
        try exchange(a, b)
        let conflict = try a.onlyConflict()
        let error = #expect(throws: CoordinatorError.self) {
            try resolve(conflict, .values(["user": .reference(RowID(999))]))
        }
        #expect(error?.code == .validationFailed)
        #expect(error?.failures.map(\.code) == [.danglingReference])
        #expect(try a.onlyConflict().state == .unresolved)
        #expect(try a.value(task, "user") == .reference(users[0].row))
    }

    @Test("Choosing a reference to what is gone means nil where it is shown; else it is refused")
    func sideOfNothing() throws {
        for isShown in [true, false] {
            let (kept, gone) = (try shared("User"), try shared("User"))
            let task = try shared("Task")
            try a.update(task, ["user": .reference(isShown ? gone.row : kept.row)])
            try b.update(task, ["user": .reference(isShown ? kept.row : gone.row)])
            // By somebody who knows of nothing that leads there.
            try (isShown ? b : a).delete(gone)
            try exchange(a, b)
            let conflict = try #require(try a.conflicts(.unresolved).first)
            let side = try #require(conflict.sides.first { $0.value == .reference(gone.row) }?.dot)
            if isShown {
                try resolve(conflict, .side(side))
                #expect(try a.conflicts(.unresolved).isEmpty)
                #expect(try a.value(task, "user") == .null)
            } else {
                #expect(try a.code { try resolve(conflict, .side(side)) } == .objectNotFound)
                #expect(try a.conflicts(.unresolved).count == 1)
                #expect(try a.value(task, "user") == .reference(kept.row))
            }
            try exchange(a, b)
        }
    }

    @Test("A decision over an object that another one is shown for leaves that one alone")
    func eclipsed() throws {
        let users = try ["1", "2"].map { try shared("User", ["mail": .string($0)]) }
        for user in users {
            try a.update(user, ["nick": .string("one")])
            try b.update(user, ["nick": .string("two")])
        }
        // Apart from each other they give them one key.
        try a.update(users[0], ["mail": .string("m")])
        try b.update(users[1], ["mail": .string("m")])
        try exchange(a, b)
        let survivor = try #require(try users.first { try a.row($0) != nil })
        let other = try #require(users.first { $0 != survivor })
        let conflict = try #require(
            try a.conflicts(.unresolved).first { $0.property == "nick" && $0.object == other })
        let before = try a.value(survivor, "nick")
        let side = try #require(conflict.sides.last { !$0.isVisible }?.dot)
        try resolve(conflict, .side(side))
        try exchange(a, b)
        for node in [a, b] {
            #expect(try node.value(survivor, "nick") == before)
            let left = try node.conflicts(.unresolved).filter { $0.property == "nick" }
            #expect(left.map(\.object) == [survivor])
        }
    }
}
