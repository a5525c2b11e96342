import Coordinator
import Merge
import Testing

/// Who decided, and why; and the short names by which people decide.
@Suite struct WhoDecidedTests {
    let a: EngineNode
    let b: EngineNode

    init() throws { (a, b) = try EngineNode.pair() }

    private func contested(_ property: String = "p") throws -> ManagedObjectID {
        let id = try a.insert("Note")
        try b.take(from: a)
        try a.update(id, [property: .string("one")], author: "anna")
        try b.update(id, [property: .string("two")], author: "bob")
        try exchange(a, b)
        return id
    }

    @Test("A resolution's author, context, note and value are told on every node")
    func note() throws {
        let id = try contested()
        let conflict = try a.onlyConflict()
        let result = try a.coordinator.resolve(
            conflict.id, .side(try #require(conflict.sides[1].dot)), author: "carl",
            contextName: "desk", note: "Bob phoned him")
        try b.take(from: a)
        for node in [a, b] {
            let closed = try #require(try node.conflicts(kind: .update, isOpen: false).first)
            let one = try #require(try node.coordinator.conflict(closed.id))
            let decision = try #require(one.decision)
            #expect(decision.dot == result.transaction)
            #expect(decision.author == "carl" && decision.contextName == "desk")
            #expect(decision.note == "Bob phoned him")
            #expect(decision.value == .string("two"))
            // The others are told as they had been.
            #expect(one.sides.map(\.value) == [.string("one"), .string("two")])
            #expect(one.sides.map(\.author) == ["anna", "bob"])
            #expect(try node.value(id, "p") == .string("two"))
        }
        let again = #expect(throws: CoordinatorError.self) {
            try a.coordinator.resolve(conflict.id, .sideNumber(1), author: "dora")
        }
        #expect(again?.decision?.note == "Bob phoned him")
    }

    @Test("An undo has a note too, and history keeps it")
    func undo() throws {
        _ = try contested("r")
        let conflict = try a.onlyConflict()
        let result = try a.coordinator.undo(conflict.id, author: "carl", note: "wrong way round")
        let dot = try #require(result.transaction)
        try b.take(from: a)
        for node in [a, b] {
            let logged = try node.coordinator.read { try $0.transaction(dot) }
            #expect(logged?.transaction.note == "wrong way round")
        }
    }

    @Test("A note that is empty or too long is refused, and nothing is saved")
    func bounds() throws {
        _ = try contested()
        let conflict = try a.onlyConflict()
        for note in ["", String(repeating: "n", count: 1_001)] {
            let error = #expect(throws: CoordinatorError.self) {
                try a.coordinator.resolve(conflict.id, .sideNumber(1), note: note)
            }
            #expect(error?.code == .malformed)
        }
        #expect(try a.onlyConflict().isOpen)
    }

    @Test("A short name names its conflict on every node, also once that is closed")
    func shortNames() throws {
        _ = try contested()
        let open = try a.onlyConflict().id
        let short = String(open.shortName.prefix(6))
        for node in [a, b] {
            #expect(try node.coordinator.read { try $0.conflicts(named: short) } == [open])
        }
        _ = try a.coordinator.resolve(open, .sideNumber(1))
        let closed = try #require(try a.conflicts(kind: .update, isOpen: false).first?.id)
        let found = { (text: String) in
            try a.coordinator.read { try $0.conflicts(named: text) }
        }
        #expect(try found(String(closed.shortName.prefix(6))) == [closed])
        // The former name stands for the name of the open one, which an undo takes.
        #expect(try found(short) == [open])
        #expect(try found("0123456789abcdef").isEmpty)
        #expect(
            ConflictID.isShort("3f9a") && !ConflictID.isShort("3f9") && !ConflictID.isShort("3F9A"))
    }

    @Test("A short name that several conflicts have stands for all of them")
    func ambiguous() throws {
        for _ in 0..<300 {
            let id = try a.insert("Note")
            try b.take(from: a)
            try a.update(id, ["p": .string("one")])
            try b.update(id, ["p": .string("two")])
        }
        try exchange(a, b)
        let ids = try a.coordinator.read {
            try $0.conflicts(ConflictQuery(limit: 10_000)).map(\.id)
        }
        let groups = Dictionary(grouping: ids) { $0.shortName.prefix(1) }
        let (prefix, named) = try #require(groups.max { $0.value.count < $1.value.count })
        let found = try a.coordinator.read { try $0.conflicts(named: String(prefix)) }
        #expect(found.count == min(named.count, 10))
        let digits = try a.coordinator.read { try $0.shortNameLength() }
        #expect(Set(ids.map { $0.shortName.prefix(digits) }).count == ids.count)
    }

    @Test("A transaction's short name may leave out its incarnation, or the end of it")
    func shortTransactions() throws {
        let dot = try #require(
            try a.save(try a.insertion("Tag")).transaction)
        let found = { (text: String) in
            try a.coordinator.read { try $0.transactions(named: text) }
        }
        #expect(try found("1-\(dot.sequence)") == [dot])
        let begin = dot.actor.description.prefix(6)
        #expect(try found("\(begin)-\(dot.sequence)") == [dot])
        #expect(try found("1-\(dot.sequence + 1)").isEmpty)
        for text in ["2-1", "1", "x-1", "1.zz-1"] {
            let none = try found(text)
            #expect(none.isEmpty, "\(text)")
        }
        try a.reopen()
        try a.insert("Tag")
        #expect(try found("1-1").count == 2)
    }

    @Test("Many conflicts are resolved by one save, and those that changed meanwhile are left open")
    func many() async throws {
        var ids: [ManagedObjectID] = []
        for _ in 0..<3 {
            let id = try a.insert("Note")
            try b.take(from: a)
            try a.update(id, ["p": .string("one"), "q": .integer(1)])
            try b.update(id, ["p": .string("two"), "q": .integer(2)])
            ids.append(id)
        }
        try exchange(a, b)
        let open = try a.coordinator.read {
            try $0.conflicts(ConflictQuery(state: .unresolved, isOpen: true))
        }
        let seen = open.map(SeenConflict.init)
        #expect(open.count >= 3)
        // Nobody has seen what a third node wrote.
        let c = try EngineNode(a.model, node: 3)
        try c.take(from: a)
        let third = try #require(open.first { $0.object == ids[0] })
        let value = third.property == "q" ? PropertyValue.integer(3) : .string("three")
        try c.update(ids[0], [try #require(third.property): value], resolves: true)
        let before = try a.coordinator.currentToken.position
        let tried = try a.coordinator.read { try $0.tryResolving(seen, .overwrite) }
        #expect(tried.decided.count == open.count && tried.save == nil)
        try a.take(from: c)
        let outcome = try await a.coordinator.resolve(
            seen, .overwrite, by: SaveDescription(author: "carl", note: "all the latest"))
        #expect(outcome.decided.count == open.count - 1)
        #expect(outcome.skipped.map(\.id) == [third.id])
        let position = try a.coordinator.currentToken.position
        #expect(position == before + 2)
        let left = try a.coordinator.read {
            try $0.conflicts(ConflictQuery(state: .unresolved, isOpen: true))
        }
        #expect(left.isEmpty)
        for id in ids.dropFirst() {
            let value = try a.value(id, "p")
            #expect(value == .string("two"))
        }
    }
}
