import Merge
import Synchronization
import Testing

@testable import Coordinator

/// Very many links: they are written where nobody reads them, and shown at once.
@Suite("Staged links")
struct StagedLinksTests {
    static let notes = 12
    static let topics = 3

    let node: EngineNode
    let other: EngineNode
    let notes: [ManagedObjectID]
    let topics: [ManagedObjectID]
    /// Labels have a unique name.
    let label: ManagedObjectID

    init() throws {
        func toMany(
            _ name: String, to entity: String, inverse: String
        ) -> RelationshipDescription {
            RelationshipDescription(name, to: entity, inverse: inverse, isToMany: true)
        }
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Note", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [AttributeDescription("title", .string)],
                relationships: [
                    toMany("topics", to: "Topic", inverse: "notes"),
                    toMany("labels", to: "Label", inverse: "notes"),
                    toMany("related", to: "Note", inverse: "related"),
                ]),
            EntityDescription(
                "Topic", attributes: [AttributeDescription("name", .string)],
                relationships: [toMany("notes", to: "Note", inverse: "topics")]),
            EntityDescription(
                "Label", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [AttributeDescription("name", .string)],
                relationships: [toMany("notes", to: "Note", inverse: "labels")],
                uniquenessConstraints: [["name"]]),
        ])
        let nodes = try [EngineNode(model, node: 1), EngineNode(model, node: 2)]
        (node, other) = (nodes[0], nodes[1])
        notes = try (0..<Self.notes).map { number in
            try Self.make("Note", ["title": .string("note \(number)")], in: nodes)
        }
        topics = try (0..<Self.topics).map { number in
            try Self.make("Topic", ["name": .string("topic \(number)")], in: nodes)
        }
        label = try Self.make("Label", ["name": .string("one")], in: nodes)
        try node.reopenStaging()
    }

    private static func make(
        _ entity: String, _ values: [String: PropertyValue], in nodes: [EngineNode]
    ) throws -> ManagedObjectID {
        let made = try nodes[0].insert(entity, values)
        try nodes[1].take(from: nodes[0])
        return made
    }

    /// Every note is linked to every topic.
    func linking(_ node: EngineNode, saveID: String? = nil) throws -> SaveRequest {
        SaveRequest(
            operations: try notes.map {
                try node.change(
                    $0, [:], [.init(name: "topics", kind: .add, members: topics.map(\.row))])
            }, saveID: saveID)
    }

    /// How many links readers see, by every way of reading.
    func links(_ node: EngineNode) throws -> Int {
        try node.coordinator.read { read in
            let entities = try ["Note", "Topic"].map { try node.entity($0) }
            var counts: [Int] = []
            for (entity, name) in zip(entities, ["topics", "notes"]) {
                let relationship = try #require(entity.relationship(named: name))
                let rows = try read.objectIDs(FetchRequest(entity.name))
                let members = try rows.reduce(0) {
                    try $0
                        + read.members(of: relationship, entity: entity, row: $1.row).count
                }
                var fetched = 0
                for count in 1...2 * Self.notes {
                    var request = FetchRequest(entity.name)
                    request.predicate = try Predicate("\(name).@count == \(count)")
                    fetched += try read.count(request) * count
                }
                counts += [members, fetched]
            }
            #expect(Set(counts).count == 1)
            return counts[0]
        }
    }

    /// Nothing of a staged transaction is left in the file, and both nodes are equal.
    func expectEqualAndDone() throws {
        try node.expectNothingStaged()
        try exchange(node, other)
        #expect(try links(node) == (try links(other)))
    }

    @Test("They are saved as if they were few: answer, members, log, digest, notice")
    func saved() throws {
        let versions = try notes.map { try node.row($0)?.version }
        let request = try linking(node, saveID: "links")
        let result = try node.coordinator.save(request)
        #expect(node.coordinator.stagedTransactions == 1)
        let dot = try #require(result.transaction)
        #expect(result.insertedRows.isEmpty)
        #expect(result.rows.map(\.objectID) == notes)
        // A row that only gains a link is not written.
        #expect(result.rows.map(\.version) == versions)
        #expect(try links(node) == Self.notes * Self.topics)
        let transaction = try #require(node.transactions.last?.transaction)
        #expect(transaction.dot == dot)
        #expect(transaction.changes.count == Self.notes * Self.topics)
        #expect(transaction.changes.allSatisfy { $0.kind == .link })
        #expect(try node.coordinator.save(request).transaction == dot)
        try expectEqualAndDone()
        #expect(other.coordinator.stagedTransactions == 0)
        // They can be taken away again, by whoever has seen them.
        try other.save(
            try other.change(
                notes[0], [:], [.init(name: "topics", kind: .remove, members: [topics[0].row])]))
        try expectEqualAndDone()
        #expect(try node.members(notes[0], "topics") == topics.dropFirst().map(\.row).sorted())
    }

    /// New notes and topics, linked to each other and to those that are there, from both sides; and
    /// what is there gets a new title, and a link to them.
    private func mixed(_ node: EngineNode) throws -> SaveRequest {
        var operations: [SaveOperation] = []
        for number in 1...Int64(10) {
            let isNote = number % 2 == 0
            let members = isNote ? [RowID(-number + 1), topics[0].row] : [notes[0].row]
            operations.append(
                try node.insertion(
                    isNote ? "Note" : "Topic", -number, [isNote ? "title" : "name": .string("new")],
                    [
                        .init(
                            name: isNote ? "topics" : "notes", kind: isNote ? .add : .replace,
                            members: members)
                    ]))
        }
        operations[3].relationships.append(
            .init(name: "related", kind: .replace, members: [RowID(-2), notes[3].row]))
        operations[3].relationships.append(
            .init(name: "labels", kind: .replace, members: [label.row]))
        operations.append(
            try node.change(
                notes[1], ["title": .string("new")],
                [.init(name: "topics", kind: .add, members: [RowID(-1), topics[1].row])]))
        operations.append(try node.change(notes[2], ["title": .string("new")]))
        return SaveRequest(operations: operations)
    }

    private static let mixedLinks = 17

    @Test("New objects are linked to each other and to others, which are changed as well")
    func withInserts() throws {
        let third = try EngineNode(node.model, node: 3)
        try third.reopenStaging()
        try third.take(from: node)
        let result = try node.coordinator.save(try mixed(node))
        #expect(node.coordinator.stagedTransactions == 1)
        #expect(try links(node) == Self.mixedLinks)
        let row = { (number: Int) in result.insertedRows[number - 1].row }
        #expect(try node.members(topics[0], "notes").count == 5)
        #expect(try node.members(notes[1], "topics") == [row(1), topics[1].row].sorted())
        let fourth = ManagedObjectID(entityName: "Note", row: row(4))
        #expect(try node.members(fourth, "topics") == [row(3), topics[0].row].sorted())
        #expect(try node.members(fourth, "related") == [row(2), notes[3].row].sorted())
        #expect(try node.members(notes[3], "related") == [row(4)])
        #expect(try node.members(label, "notes") == [row(4)])
        #expect(try node.value(notes[1], "title") == .string("new"))
        let dot = try #require(result.transaction)
        #expect(try node.row(notes[1])?.version.dots.contains(dot) == true)
        try expectEqualAndDone()
        #expect(try other.members(notes[3], "related") == [row(4)])
        // Staged at the one, in one piece at the other.
        try third.take(from: node)
        #expect(third.coordinator.stagedTransactions == 1)
        try exchange(node, other, third)
    }

    @Test(
        "A link that is there, and is taken away more than once between, is made once",
        arguments: [1, 2, 4])
    func madeOnce(parts: Int) throws {
        func change(_ kind: RelationshipOperation.Kind) throws {
            try other.save(
                try other.change(
                    notes[0], [:], [.init(name: "topics", kind: kind, members: [topics[0].row])]))
        }
        try change(.add)
        try node.take(from: other)
        for kind in [RelationshipOperation.Kind.remove, .add, .remove] { try change(kind) }
        let log = Array(other.transactions.suffix(3))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try linking(node)
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            let applied = try coordinator.apply(log)
            #expect(applied.rejected.isEmpty)
        }
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 1)
        let transaction = try #require(node.transactions.last?.transaction)
        #expect(transaction.changes.count == Self.notes * Self.topics)
        try expectEqualAndDone()
    }

    @Test(
        "Nobody sees a part of them, and what is linked and changed between is kept",
        arguments: Array(1...14) + [20, 30])
    func between(parts: Int) throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try linking(node)
        let all = Self.notes * Self.topics
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            let before = try links(node)
            #expect([0, all].contains(before))
            #expect(try coordinator.verify().isOK)
            // A link of theirs, another one, and a change of what they lead to.
            try node.save(
                try node.change(
                    notes[0], ["title": .string("mine")],
                    [.init(name: "topics", kind: .add, members: [topics[0].row])]),
                try node.change(topics[1], ["name": .string("mine")]),
                try node.change(
                    notes[0], [:], [.init(name: "related", kind: .add, members: [notes[1].row])]))
            let after = try links(node)
            #expect([1, all].contains(after))
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 1)
        #expect(coordinator.overtakenTransactions == 0)
        #expect(try links(node) == all)
        #expect(try node.value(notes[0], "title") == .string("mine"))
        #expect(try node.members(notes[1], "related") == [notes[0].row])
        try expectEqualAndDone()
    }

    @Test(
        "A link that was there and is taken away meanwhile is made again", arguments: [1, 2, 5, 8])
    func foundAndTakenAway(parts: Int) throws {
        let link = [
            RelationshipOperation(name: "topics", kind: .add, members: [topics[0].row])
        ]
        try node.save(try node.change(notes[0], [:], link))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try linking(node)
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            try node.save(
                try node.change(
                    notes[0], [:],
                    [.init(name: "topics", kind: .remove, members: [topics[0].row])]))
        }
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 1)
        #expect(try links(node) == Self.notes * Self.topics)
        #expect(
            node.transactions.last?.transaction.changes.count == Self.notes * Self.topics)
        try expectEqualAndDone()
    }

    @Test("An end that is written all the time does not keep them from being shown")
    func busyEnd() async throws {
        let count = 400
        for number in 0..<count {
            try other.update(topics[0], ["name": .string("\(number)")])
        }
        let log = Array(other.transactions.suffix(count))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try linking(node)
        let writer = OneByOne(coordinator, log)
        writer.start()
        let saved = try await coordinator.save(request)
        #expect(coordinator.stagedTransactions == 1)
        // One comes between each two parts, of which there are some ten; and as many before the save is
        // begun as there is time for, on a machine with much else to do.
        let actor = try #require(log.first).dot.actor
        let seen = saved.seen[actor] - (try #require(log.first).dot.sequence)
        #expect(seen < 300)
        let deadline = ContinuousClock.now + .seconds(60)
        while writer.count < log.count, ContinuousClock.now < deadline { await Task.yield() }
        #expect(writer.count == log.count)
        try expectEqualAndDone()
    }

    @Test(
        "A link of theirs that another node has taken away meanwhile is as its policy says",
        arguments: [2, 6, 9, 10, 12, 30])
    func takenAway(parts: Int) throws {
        // Another node makes one of the links and takes it away, not knowing of these.
        try other.save(
            try other.change(
                notes[0], [:], [.init(name: "topics", kind: .add, members: [topics[0].row])]))
        try other.save(
            try other.change(
                notes[0], [:], [.init(name: "topics", kind: .remove, members: [topics[0].row])]))
        let log = Array(other.transactions.suffix(2))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try linking(node)
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            let result = try coordinator.apply(log)
            #expect(result.rejected.isEmpty)
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 1)
        #expect(coordinator.overtakenTransactions == 0)
        try expectEqualAndDone()
        // Whoever has seen that it was taken away makes it again.
        #expect(try links(node) == Self.notes * Self.topics)
    }

    @Test(
        "An end that goes before they are shown has all refused, or written in one piece",
        arguments: [2, 6, 8])
    func endDeleted(parts: Int) throws {
        _ = try other.coordinator.save(try linking(other))
        let log = Array(other.transactions.suffix(1))
        for isForeign in [false, true] {
            try node.reopenStaging(worksAlone: false)
            let coordinator = node.coordinator
            let request = try linking(node)
            let gone = topics[isForeign ? 1 : 0]
            let code = try node.code {
                _ = try BetweenParts.run(coordinator, parts: parts) {
                    if isForeign {
                        #expect(try coordinator.apply(log).rejected.isEmpty)
                    } else {
                        _ = try coordinator.save(request)
                    }
                } meanwhile: {
                    try node.delete(gone)
                }
            }
            node.finishStaging()
            #expect(code == (isForeign ? nil : .validationFailed))
            #expect(coordinator.stagedTransactions == 0)
            // Where the topic goes before a link of it is met, they are found to be of no such kind.
            #expect(coordinator.overtakenTransactions <= 1)
            #expect(try links(node) == (isForeign ? Self.notes : 0))
            #expect(try node.coordinator.verify().isOK)
        }
        try expectEqualAndDone()
    }

    @Test(
        "An end that comes to eclipse another one meanwhile is linked with its group",
        arguments: [1, 2, 4])
    func endsOfGroups(parts: Int) throws {
        // Another node has a label of the same name, made later.
        let apart = try EngineNode(node.model, node: 3)
        _ = try apart.insert("Label", ["name": .string("one")])
        let log = apart.transactions
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let members = notes[3..<6].map(\.row)
        var operations = try notes.map { try node.change($0, ["title": .string("new")]) }
        operations.append(
            try node.change(label, [:], [.init(name: "notes", kind: .add, members: members)]))
        let request = SaveRequest(operations: operations)
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            let result = try coordinator.apply(log)
            #expect(result.rejected.isEmpty)
        }
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 0)
        #expect(try node.members(label, "notes") == members.sorted())
        // A link for each of the two.
        let written = try #require(node.transactions.last).transaction
        let links = written.changes.filter { $0.kind == .link }
        #expect(links.count == 2 * members.count)
        try expectEqualAndDone()
    }

    @Test("What is linked already is left as it is, and what is in conflict is written")
    func linkedAlready() throws {
        try node.save(
            try node.change(
                notes[0], [:], [.init(name: "topics", kind: .add, members: topics.map(\.row))]))
        try node.save(
            try node.change(
                notes[0], [:], [.init(name: "topics", kind: .remove, members: [topics[2].row])]))
        _ = try node.coordinator.save(try linking(node))
        #expect(node.coordinator.stagedTransactions == 1)
        let written = try #require(node.transactions.last).transaction
        // Two are there, and one was.
        #expect(written.changes.count == Self.notes * Self.topics - 2)
        #expect(try links(node) == Self.notes * Self.topics)
        try expectEqualAndDone()
        let count = node.transactions.count
        #expect(try node.coordinator.save(try linking(node)).transaction == nil)
        #expect(node.transactions.count == count)
        try expectEqualAndDone()
    }

    @Test("What replaces members, and what is deleted as well, is in one piece")
    func inOnePiece() throws {
        var replacing = try linking(node)
        replacing.operations[5].relationships[0].kind = .replace
        var removing = try linking(node)
        // A link that is made and taken away by one save.
        removing.operations[5].relationships.append(
            .init(name: "topics", kind: .remove, members: [topics[1].row]))
        var named = try mixed(node)
        // The fourth has been named by the third, whose link this replaces.
        named.operations[2].relationships.append(
            .init(name: "notes", kind: .add, members: [RowID(-4)]))
        named.operations[3].relationships = [
            .init(name: "topics", kind: .replace, members: [topics[2].row])
        ]
        var deleting = try linking(node)
        deleting.operations.append(try node.deletion(topics[2]))
        for request in [replacing, removing, named, deleting] {
            let result = try node.coordinator.save(request)
            #expect(node.coordinator.stagedTransactions == 0)
            if !result.insertedRows.isEmpty {
                let fourth = ManagedObjectID(
                    entityName: "Note", row: result.insertedRows[3].row)
                #expect(try node.members(fourth, "topics") == [topics[2].row])
            }
            try expectEqualAndDone()
        }
        #expect(try node.row(topics[2]) == nil)
    }

    private func code(_ request: SaveRequest) throws -> CoordinatorError.Code? {
        try node.code { _ = try node.coordinator.save(request) }
    }

    @Test("What is not there is refused, and nothing is left")
    func invalid() throws {
        var request = try linking(node)
        request.operations[8].relationships[0].members.append(RowID(4_711))
        #expect(try code(request) == .validationFailed)
        request = try linking(node)
        request.operations[8].relationships[0].members.append(notes[0].row)
        #expect(try code(request) == .validationFailed)
        request = try mixed(node)
        request.operations[8].relationships[0].members.append(RowID(-2))
        #expect(try code(request) == nil)
        request = try mixed(node)
        request.operations[8].relationships[0].members.append(RowID(-3))
        #expect(try code(request) == .validationFailed)
        #expect(node.coordinator.stagedTransactions == 1)
        try expectEqualAndDone()
    }

    @Test("A forged transaction that makes a link twice, or takes it away as well, comes out alike")
    func forged() throws {
        _ = try other.coordinator.save(try linking(other))
        let honest = try #require(other.transactions.last)
        let third = try EngineNode(node.model, node: 3)
        try third.take(from: node)
        var forged = honest.transaction
        var taking = forged.changes[4]
        taking.kind = .unlink
        forged.changes.insert(taking, at: 2)
        forged.changes.append(forged.changes[7])
        for store in [node, third] {
            #expect(
                try store.coordinator.apply([EncodedTransaction(forged)]).rejected.isEmpty)
            #expect(try store.coordinator.verify().isOK)
        }
        #expect(node.coordinator.stagedTransactions == 0)
        #expect(try node.coordinator.currentDigest == third.coordinator.currentDigest)
    }

    @Test(
        "A copy made meanwhile is finished by its opening", arguments: [2, 6, 8, 10, 11, 12, 14])
    func copied(parts: Int) throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try mixed(node)
        let path = node.path + ".copy"
        var shown = 0
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            _ = try coordinator.backUp(to: path)
            shown = try links(node)
            try node.update(notes[5], ["title": .string("later")])
        }
        let reader = try PersistentStoreCoordinator(readingStoreAt: path)
        #expect(try reader.verify().isOK)
        reader.close()
        let copy = try PersistentStoreCoordinator(
            storeAt: path, model: node.model, cluster: "test", node: node.node)
        #expect(try copy.verify().isOK)
        let table = try #require(copy.model.entity(named: "Topic"))
        let relationship = try #require(table.relationship(named: "notes"))
        let found = try copy.read { read in
            try read.objectIDs(FetchRequest("Topic")).reduce(0) {
                try $0 + read.members(of: relationship, entity: table, row: $1.row).count
            }
        }
        #expect(found == shown)
        #expect([0, Self.mixedLinks].contains(shown))
        copy.close()
        try expectEqualAndDone()
    }
}

/// Applies transactions, each when the one before is applied.
private final class OneByOne: Sendable {
    private let coordinator: PersistentStoreCoordinator
    private let log: [EncodedTransaction]
    private let applied = Mutex(0)

    init(_ coordinator: PersistentStoreCoordinator, _ log: [EncodedTransaction]) {
        self.coordinator = coordinator
        self.log = log
    }

    var count: Int { applied.withLock { $0 } }

    func start() {
        let next = count
        guard next < log.count else { return }
        coordinator.apply([log[next]]) { [self] _ in
            applied.withLock { $0 += 1 }
            start()
        }
    }
}
