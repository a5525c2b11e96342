import Merge
import Testing

@testable import Coordinator

/// Links that are taken away, very many at once: readers see them until all are gone.
extension StagedLinksTests {
    /// Every note is linked to every topic, at both nodes.
    private func link() throws {
        _ = try other.coordinator.save(try linking(other))
        try node.take(from: other)
        node.finishStaging()
        try node.reopenStaging()
    }

    private func unlinking(_ node: EngineNode) throws -> SaveRequest {
        var request = try linking(node)
        for place in request.operations.indices {
            request.operations[place].relationships[0].kind = .remove
        }
        return request
    }

    private static var all: Int { notes * topics }

    @Test("They are saved as if they were few, and collected in time")
    func unlinked() throws {
        try link()
        let versions = try notes.map { try node.row($0)?.version }
        let result = try node.coordinator.save(try unlinking(node))
        #expect(node.coordinator.stagedTransactions == 1)
        #expect(result.rows.map(\.objectID) == notes)
        #expect(result.rows.map(\.version) == versions)
        #expect(result.conflicts.isEmpty)
        #expect(try links(node) == 0)
        let transaction = try #require(node.transactions.last?.transaction)
        #expect(transaction.changes.count == Self.all)
        #expect(transaction.changes.allSatisfy { $0.kind == .unlink })
        try expectEqualAndDone()
        #expect(other.coordinator.stagedTransactions == 0)
        for store in [node, other] {
            let stable = try store.vector
            #expect(try store.coordinator.collect(stable: stable).linksCollected == Self.all)
        }
        try expectEqualAndDone()
        // They can be made again, and are not taken away twice.
        _ = try node.coordinator.save(try unlinking(node))
        #expect(node.transactions.last?.dot == transaction.dot)
        _ = try node.coordinator.save(try linking(node))
        #expect(try links(node) == Self.all)
        try expectEqualAndDone()
    }

    @Test("Another node's are staged likewise; those that it has not seen stay")
    func unlinkedElsewhere() throws {
        try link()
        _ = try other.coordinator.save(try unlinking(other))
        // Made again here, later, which the other one does not know.
        for kind in [RelationshipOperation.Kind.remove, .add] {
            try node.save(
                try node.change(
                    notes[3], [:], [.init(name: "topics", kind: kind, members: [topics[1].row])]))
        }
        try node.take(from: other)
        #expect(node.coordinator.stagedTransactions == 1)
        #expect(try links(node) == 1)
        try expectEqualAndDone()
    }

    @Test("Links in conflict are decided by whoever has seen both sides")
    func unlinkedInConflict() throws {
        let first = [RelationshipOperation(name: "topics", kind: .add, members: [topics[0].row])]
        for store in [node, other] { try store.save(try store.change(notes[0], [:], first)) }
        try exchange(node, other)
        try link()
        _ = try other.coordinator.save(try unlinking(other))
        try node.take(from: other)
        #expect(node.coordinator.stagedTransactions == 1)
        #expect(try links(node) == 0)
        try expectEqualAndDone()
        #expect(try node.conflicts().isEmpty)
    }

    @Test(
        "Nobody sees a part of them gone, and what is made between is taken away or stays",
        arguments: Array(1...14) + [20, 30])
    func unlinkedBetween(parts: Int) throws {
        try link()
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try unlinking(node)
        let again = [RelationshipOperation(name: "topics", kind: .add, members: [topics[0].row])]
        var between: SaveResult?
        let result = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            let before = try links(node)
            #expect([0, Self.all].contains(before))
            #expect(try coordinator.verify().isOK)
            between = try node.save(
                try node.change(notes[0], ["title": .string("mine")], again),
                try node.change(topics[1], ["name": .string("mine")]))
            let after = try links(node)
            #expect([0, 1, Self.all].contains(after))
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 1)
        #expect(coordinator.overtakenTransactions == 0)
        let sequences = [try #require(result.transaction), try #require(between?.transaction)]
            .map(\.sequence)
        #expect(try links(node) == (sequences[0] < sequences[1] ? 1 : 0))
        #expect(try node.value(notes[0], "title") == .string("mine"))
        try expectEqualAndDone()
    }

    @Test(
        "What another node does to one of them between is as its policy says",
        arguments: Array(1...14) + [20, 30])
    func unlinkedAndMade(parts: Int) throws {
        try link()
        for kind in [RelationshipOperation.Kind.remove, .add] {
            try other.save(
                try other.change(
                    notes[0], [:], [.init(name: "topics", kind: kind, members: [topics[0].row])]))
        }
        let log = Array(other.transactions.suffix(2))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try unlinking(node)
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            let applied = try coordinator.apply(log)
            #expect(applied.rejected.isEmpty)
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 1)
        #expect(try links(node) <= 1)
        try expectEqualAndDone()
    }

    @Test("Those that a group shows elsewhere before they are in place are collected as well")
    func unlinkedThenGrouped() throws {
        // Of two labels of one name the earlier is shown: the links are those of the other.
        let nodes = [node, other]
        let labels = try nodes.map { try $0.insert("Label", ["name": .string("late")]) }
        let third = try EngineNode(node.model, node: 3)
        for node in nodes { try third.take(from: node) }
        let later = try third.row(labels[0])?.objectID == labels[0] ? 1 : 0
        let (here, label) = (nodes[later], labels[later])
        func request(_ kind: RelationshipOperation.Kind) throws -> SaveRequest {
            SaveRequest(
                operations: try notes.map {
                    try here.change(
                        $0, [:], [.init(name: "labels", kind: kind, members: [label.row])])
                })
        }
        try here.reopenStaging(atOnce: 2, worksAlone: false)
        _ = try here.coordinator.save(try request(.add))
        here.finishStaging()
        _ = try here.coordinator.save(try request(.remove))
        let applied = try here.coordinator.apply([
            try #require(nodes[1 - later].transactions.last)
        ])
        #expect(applied.rejected.isEmpty)
        here.finishStaging()
        #expect(here.coordinator.stagedTransactions == 2)
        #expect(try here.row(label)?.objectID == labels[1 - later])
        let stable = try here.vector
        #expect(try here.coordinator.collect(stable: stable).linksCollected == Self.notes)
        try here.expectNothingStaged()
        try expectEqualAndDone()
    }

    @Test("A link that comes between is taken away as well", arguments: [1, 2, 4])
    func unlinkedAbsent(parts: Int) throws {
        try link()
        let first = RelationshipOperation(name: "topics", kind: .remove, members: [topics[0].row])
        try node.save(try node.change(notes[0], [:], [first]))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try unlinking(node)
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            var again = first
            again.kind = .add
            try node.save(try node.change(notes[0], [:], [again]))
        }
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 1)
        #expect(try links(node) == 0)
        try expectEqualAndDone()
    }

    @Test(
        "An end that goes meanwhile, and a copy made meanwhile, have all of them or none",
        arguments: Array(1...14))
    func unlinkedAndCopied(parts: Int) throws {
        try link()
        _ = try other.coordinator.save(try unlinking(other))
        let log = Array(other.transactions.suffix(1))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let path = node.path + ".copy"
        var shown = 0
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.apply(log)
        } meanwhile: {
            _ = try coordinator.backUp(to: path)
            shown = try links(node)
            try node.delete(notes[5])
            #expect(try coordinator.verify().isOK)
        }
        #expect([0, Self.all].contains(shown))
        let copy = try PersistentStoreCoordinator(
            storeAt: path, model: node.model, cluster: "test", node: node.node)
        #expect(try copy.verify().isOK)
        let topic = try #require(copy.model.entity(named: "Topic"))
        let relationship = try #require(topic.relationship(named: "notes"))
        let found = try copy.read { read in
            try topics.reduce(0) {
                try $0 + read.members(of: relationship, entity: topic, row: $1.row).count
            }
        }
        #expect(found == shown)
        copy.close()
        node.finishStaging()
        #expect(try links(node) == 0)
        try expectEqualAndDone()
    }
}
