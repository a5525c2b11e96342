import GRDB
import Merge
import TestSupport
import Testing

@testable import Coordinator

/// The index of history, against the same history without it.
@Suite("The index of history")
struct HistoryIndexTests {
    private static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Thing", isAbstract: true, attributes: [.init("name", .string)],
                relationships: [.init("near", to: "Thing", inverse: "near", isToMany: true)]),
            EntityDescription("Box", parent: "Thing"),
            EntityDescription(
                "Bag", parent: "Thing",
                relationships: [.init("owner", to: "Person", inverse: "bags")]),
            EntityDescription(
                "Person", attributes: [.init("name", .string)],
                relationships: [.init("bags", to: "Bag", inverse: "owner", isToMany: true)]),
            EntityDescription("Other", attributes: [.init("name", .string)]),
        ])
    }

    private static let filters = [
        HistoryFilter(author: "anna"), HistoryFilter(author: "nobody"),
        HistoryFilter(entityName: "Thing"), HistoryFilter(entityName: "Bag"),
        HistoryFilter(entityName: "Person"), HistoryFilter(author: "ben", entityName: "Box"),
        HistoryFilter(entityName: "Other", property: "name"),
    ]

    private func node(_ number: Int = 1, isIndexed: Bool = true) throws -> EngineNode {
        try EngineNode(try Self.model(), node: number) { $0.indexesHistory = isIndexed }
    }

    private func reopen(_ node: EngineNode, isIndexed: Bool) throws {
        node.configure = { $0.indexesHistory = isIndexed }
        try node.reopen()
    }

    private func history(
        _ node: EngineNode, _ filter: HistoryFilter, after token: QueryGenerationToken? = nil
    ) throws -> [PersistentHistoryTransaction] {
        var request = PersistentHistoryChangeRequest.fetchHistory(after: token)
        request.filter = filter
        return try #require(node.coordinator.execute(request).transactions)
    }

    /// Saves of two nodes that change and delete objects, also the same ones at the same time.
    private func fill(_ nodes: [EngineNode], _ random: inout SeededGenerator, saves: Int) throws {
        var ids: [ManagedObjectID] = []
        for _ in 0..<saves {
            let node = nodes.randomElement(using: &random) ?? nodes[0]
            let author = ["anna", "ben", nil].randomElement(using: &random) ?? nil
            let known = try ids.filter { try node.row($0) != nil }
            var operations: [SaveOperation] = []
            if let id = known.randomElement(using: &random),
                Int.random(in: 0..<3, using: &random) > 0
            {
                switch Int.random(in: 0..<5, using: &random) {
                case 0: operations.append(try node.deletion(id, resolves: true))
                case 1 where ["Bag", "Box"].contains(id.entityName):
                    let other = known.filter { ["Bag", "Box"].contains($0.entityName) }
                        .randomElement(using: &random)
                    guard let other, other != id else { continue }
                    operations.append(
                        try node.change(
                            id, [:], [.init(name: "near", kind: .add, members: [other.row])],
                            resolves: true))
                case 2 where id.entityName == "Bag":
                    let owner = known.filter { $0.entityName == "Person" }
                        .randomElement(using: &random)
                    operations.append(
                        try node.change(
                            id, ["owner": owner.map { .reference($0.row) } ?? .null],
                            resolves: true))
                default:
                    operations.append(
                        try node.change(
                            id, ["name": .string("\(UInt8.random(in: 0..<99, using: &random))")],
                            resolves: true))
                }
            } else {
                let entity =
                    ["Box", "Bag", "Person", "Other"].randomElement(using: &random) ?? "Box"
                operations.append(try node.insertion(entity))
            }
            let result = try node.save(SaveRequest(operations: operations, author: author))
            ids += result.insertedRows.map {
                ManagedObjectID(entityName: $0.entityName, row: $0.row)
            }
            if Int.random(in: 0..<4, using: &random) == 0 {
                try nodes[0].take(from: nodes[1])
                try nodes[1].take(from: nodes[0])
            }
        }
        try nodes[0].take(from: nodes[1])
        try nodes[1].take(from: nodes[0])
    }

    @Test(
        "Finds what is found without it, with the same tokens", arguments: 0..<12 as Range<UInt64>)
    func same(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let nodes = [try node(1, isIndexed: false), try node(2, isIndexed: false)]
        try fill(nodes, &random, saves: 40)
        for node in nodes { try reopen(node, isIndexed: true) }
        // Half of it is in an index that was made, and half in one that was kept.
        try fill(nodes, &random, saves: 40)
        for node in nodes {
            #expect(try node.coordinator.read { try $0.hasHistoryIndex() })
            #expect(try node.coordinator.verify().isOK)
            let found = try Self.filters.map { try history(node, $0) }
            try reopen(node, isIndexed: false)
            #expect(try !node.coordinator.read { try $0.hasHistoryIndex() })
            for (filter, found) in zip(Self.filters, found) {
                #expect(found == (try history(node, filter)), "seed \(seed), \(filter)")
            }
            try reopen(node, isIndexed: true)
            for filter in Self.filters {
                let all = try history(node, filter)
                for (place, transaction) in all.enumerated() {
                    let rest = try history(node, filter, after: transaction.token)
                    #expect(rest.map(\.dot) == all.dropFirst(place + 1).map(\.dot))
                }
            }
        }
    }

    @Test("Places far apart have the vectors of what lies between")
    func farApart() throws {
        let nodes = [try node(1), try node(2)]
        func save(_ node: EngineNode, _ author: String?) throws {
            try node.save(
                SaveRequest(operations: [try node.insertion("Other")], author: author))
        }
        for round in 0..<4 {
            try save(nodes[round % 2], "anna")
            for _ in 0..<700 { for node in nodes { try save(node, nil) } }
            for (node, other) in [(nodes[0], nodes[1]), (nodes[1], nodes[0])] {
                try node.take(from: other)
            }
        }
        let anna = HistoryFilter(author: "anna")
        let found = try history(nodes[0], anna)
        #expect(found.count == 4)
        var plain: [String: QueryGenerationToken] = [:]
        for transaction in try history(nodes[0], HistoryFilter()) {
            plain["\(transaction.dot)"] = transaction.token
        }
        #expect(found.map(\.token) == found.map { plain["\($0.dot)"] })
    }

    @Test("One that was left behind is not used, and made anew by the next opening")
    func leftBehind() throws {
        let node = try node()
        try node.insert("Box")
        node.close()
        // As a program does that does not know of it.
        try node.tamper("UPDATE _historyIndexed SET last = 0; DELETE FROM _historyIndex")
        try node.open()
        try node.insert("Box")
        #expect(try node.coordinator.read { try $0.hasHistoryIndex() })
        #expect(try history(node, HistoryFilter(entityName: "Thing")).count == 2)
        node.close()
        #expect(try node.look("SELECT count(*) FROM _historyIndex") == 4)
        node.configure = { $0.indexesHistory = false }
        try node.open()
        node.close()
        #expect(
            try node.look("SELECT count(*) FROM sqlite_master WHERE name LIKE '_historyIndex%'")
                == 0)
    }

    @Test(
        "Authors are compared by their bytes, with the index and without", arguments: [true, false])
    func bytes(isIndexed: Bool) throws {
        let node = try node(isIndexed: isIndexed)
        for author in ["Jos\u{E9}", "Jose\u{301}"] {
            try node.save(
                SaveRequest(operations: [try node.insertion("Other")], author: author))
        }
        #expect(
            try history(node, HistoryFilter(author: "Jose\u{301}")).map(\.transactionNumber) == [2])
    }

    @Test("A verification tells of what it lacks")
    func lacking() throws {
        let node = try node()
        let id = try node.insert("Box")
        node.close()
        try node.tamper("DELETE FROM _historyIndex WHERE name = 'eBox'")
        try node.open()
        let report = try node.coordinator.verify()
        #expect(!report.isOK)
        #expect(report.differences == ["the index of history lacks transaction 1 as eBox"])
        #expect(try node.row(id) != nil)
    }

    @Test("What is purged leaves it, and a place before it is refused")
    func purged() throws {
        let node = try node()
        for _ in 0..<3 { try node.insert("Box") }
        let token = try node.coordinator.currentToken
        for entity in ["Other", "Box", "Other"] { try node.insert(entity) }
        let boxes = HistoryFilter(entityName: "Box")
        let second = try #require(try history(node, boxes).dropFirst().first)
        _ = try node.coordinator.execute(
            PersistentHistoryChangeRequest.deleteHistory(before: token))
        #expect(try history(node, boxes).map(\.transactionNumber) == [5])
        #expect(try history(node, boxes, after: token).map(\.transactionNumber) == [5])
        let error = #expect(throws: CoordinatorError.self) {
            try history(node, boxes, after: second.token)
        }
        #expect(error?.code == .historyTokenExpired)
        #expect(
            try node.coordinator.read {
                try Int.fetchOne($0.database, sql: "SELECT count(*) FROM _historyIndex")
            } == 4)
    }
}
