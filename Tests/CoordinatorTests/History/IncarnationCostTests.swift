import Coordinator
import Merge
import Testing

/// What restarts cost (ARCHITECTURE, "Incarnations").
@Suite("What an incarnation costs")
struct IncarnationCostTests {
    @Test("A restart adds no bytes later: saves name no incarnation before the last")
    func bytes() throws {
        let nodes = try (1...3).map { try EngineNode(node: $0) }
        let note = try nodes[0].insert("Note")
        try exchange(nodes[0], nodes[1], nodes[2])
        var count = 100
        func saveLength(_ node: EngineNode) throws -> Int {
            count += 1
            try node.update(note, ["p": .string("\(count)")], resolves: true)
            return try #require(node.transactions.last).bytes.count
        }
        func restartAll() throws -> [Int] {
            for node in nodes {
                try node.reopen()
                _ = try saveLength(node)
                try exchange(nodes[0], nodes[1], nodes[2])
            }
            return try nodes.map { try saveLength($0) }
        }
        let first = try restartAll()
        for _ in 0..<20 { _ = try restartAll() }
        let last = try restartAll()
        #expect(try nodes[0].vector.entries.count == 3 * 22 + 1)
        for (one, other) in zip(first, last) { #expect(abs(one - other) <= 8, "\(first), \(last)") }
        try exchange(nodes[0], nodes[1], nodes[2])
        // Its `seen` is given whole, wherever it is read.
        let dot = try #require(nodes[2].transactions.last).dot
        for node in nodes {
            let read = try node.coordinator.read { try $0.transaction(dot) }
            #expect(read?.transaction.seen == nodes[2].transactions.last?.transaction.seen)
            #expect(try #require(read).transaction.seen.entries.count == 3 * 22 + 1)
        }
    }

    @Test("A token's text and a kept answer name as few, and mean what they meant")
    func tokens() throws {
        let nodes = try (1...2).map { try EngineNode(node: $0) }
        let note = try nodes[0].insert("Note")
        try exchange(nodes[0], nodes[1])
        for _ in 0..<40 {
            for node in nodes {
                try node.reopen()
                try node.update(note, ["q": .integer(1)], resolves: true)
                try exchange(nodes[0], nodes[1])
            }
        }
        let coordinator = nodes[0].coordinator
        var request = SaveRequest(
            operations: [try nodes[0].change(note, ["q": .integer(2)], resolves: true)])
        request.saveID = "kept"
        let answer = try coordinator.save(request)
        let token = try coordinator.currentToken
        #expect(token.text.utf8.count < 150)
        let read = try #require(QueryGenerationToken(text: token.text))
        #expect(read == token && read.hashValue == token.hashValue)
        #expect(!read.isWhole && token.isWhole)
        #expect(read.versionVector.entries.count < token.versionVector.entries.count)
        // It pins, and it is waited for, by its frontier.
        #expect(try coordinator.pin(read).token == token)
        #expect(!(try nodes[1].vector.covers(read.versionVector)))
        try nodes[0].update(note, ["q": .integer(3)])
        try exchange(nodes[0], nodes[1])
        #expect(try nodes[1].vector.covers(read.versionVector))
        // A store that knows nothing of its incarnation does not take a part for all.
        let stranger = try EngineNode(node: 3)
        let unknown = try stranger.coordinator.read { read.completed(by: try $0.beginnings()) }
        #expect(!unknown.isWhole && unknown == token)
        #expect(
            try stranger.code { try stranger.coordinator.setConsumer("c", to: read) }
                == .historyTokenExpired)
        // Later incarnations, here or there, go on where it was.
        for node in nodes {
            try node.coordinator.read { reader in
                let whole = read.completed(by: try reader.beginnings())
                #expect(whole.isWhole && whole.versionVector == token.versionVector)
                let last = try reader.token.position
                #expect(try reader.position(seen: whole.versionVector) == last - 1)
            }
        }
        var kept = try #require(try coordinator.read { try $0.savedAnswer("kept") })
        #expect(kept.seen == answer.seen && kept.token == answer.token)
        #expect(kept.token.versionVector == answer.token.versionVector)
        try nodes[0].reopen()
        kept = try #require(try nodes[0].coordinator.read { try $0.savedAnswer("kept") })
        #expect(kept.seen == answer.seen && kept.token == answer.token)
    }

    @Test("A restart without a save costs no vector anything")
    func idle() throws {
        let node = try EngineNode()
        try node.insert("Note")
        for _ in 0..<10 { try node.reopen() }
        #expect(try node.vector.entries.count == 1)
    }
}
