import Coordinator
import Merge
import Testing

/// Transactions that no save makes: a node refuses them, or every node comes to the same from them.
@Suite("Forged transactions")
struct ForgedTransactionTests {
    private let author: EngineNode
    private let nodes: [EngineNode]

    init() throws {
        let model = try EngineModel.everything()
        author = try EngineNode(model, node: 1)
        nodes = try (2...3).map { try EngineNode(model, node: $0) }
    }

    @Test("A transaction that inserts a row and changes it as well is refused")
    func insertedAndChanged() throws {
        let tag = try author.insert("Tag", ["name": .string("before")])
        for node in nodes { try node.take(from: author) }
        try author.save(
            try author.insertion("Tag", -1, ["name": .string("new")]),
            try author.change(tag, ["name": .string("after")]))
        let honest = try #require(author.transactions.last)
        for place in [0, honest.transaction.changes.count] {
            for kind in [Change.Kind.update, .delete, .revival] {
                var forged = honest.transaction
                var change = try #require(forged.changes.first { $0.kind == .insert })
                change.kind = kind
                forged.changes.insert(change, at: place)
                for node in nodes {
                    let digest = try node.coordinator.currentDigest
                    let result = try node.coordinator.apply([EncodedTransaction(forged)])
                    #expect(result.rejected.map(\.dot) == [forged.dot])
                    #expect(try node.coordinator.currentDigest == digest)
                }
            }
        }
        for node in nodes {
            #expect(try node.coordinator.apply([honest]).rejected.isEmpty)
            #expect(try node.coordinator.verify().isOK)
        }
    }

    @Test("A transaction of the incarnation 0 is refused, for no opening has it")
    func incarnations() throws {
        let actor = ActorID(node: author.node, incarnation: 0)
        try author.insert("Tag")
        var forged = try #require(author.transactions.last).transaction
        forged.dot = Dot(actor: actor, sequence: 1)
        let result = try nodes[0].coordinator.apply([EncodedTransaction(forged)])
        #expect(result.rejected.map(\.dot) == [forged.dot])
    }

    @Test("A transaction that makes a link twice, and takes it away as well, comes out alike")
    func linkedTwice() throws {
        let note = try author.insert("Note")
        let tags = try (0..<4).map { _ in try author.insert("Tag") }
        for node in nodes { try node.take(from: author) }
        try author.update(note, [:], [.init(name: "tags", kind: .add, members: tags.map(\.row))])
        var forged = try #require(author.transactions.last).transaction
        var taking = forged.changes[2]
        taking.kind = .unlink
        forged.changes.insert(taking, at: 1)
        forged.changes.append(forged.changes[3])
        for node in nodes {
            #expect(try node.coordinator.apply([EncodedTransaction(forged)]).rejected.isEmpty)
            #expect(try node.coordinator.verify().isOK)
        }
        let digests = try nodes.map { try $0.coordinator.currentDigest }
        #expect(digests[0] == digests[1])
    }
}
