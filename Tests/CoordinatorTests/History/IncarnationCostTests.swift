import Coordinator
import Merge
import Testing

/// What restarts cost, since incarnations are not compacted (ARCHITECTURE, "Incarnations").
@Suite("What an incarnation costs")
struct IncarnationCostTests {
    /// The most bytes that one more incarnation adds to a vector: a node's number (1 to 3), its
    /// incarnation (9), a sequence (1 to 6, for up to 2^40).
    private static let most = 18

    @Test("A restart with a save costs each later save and each heads 18 bytes at the most")
    func bytes() throws {
        let node = try EngineNode(try EngineModel.everything(), node: 1)
        let note = try node.insert("Note")
        var count = 10
        func saveLength() throws -> Int {
            count += 1
            try node.update(note, ["p": .string("\(count)")])
            return try #require(node.transactions.last).bytes.count
        }
        let first = try saveLength()
        let restarts = 40
        for _ in 0..<restarts {
            node.close()
            try node.open()
            _ = try saveLength()
        }
        node.close()
        try node.open()
        let last = try saveLength()
        #expect(try node.vector.entries.count == restarts + 2)
        #expect(last > first)
        #expect(last - first <= (restarts + 1) * Self.most)
        var writer = CBORWriter()
        writer.write(try node.vector)
        #expect(writer.bytes.count <= (restarts + 2) * Self.most + 5)
    }

    @Test("A restart without a save costs no vector anything")
    func idle() throws {
        let node = try EngineNode(try EngineModel.everything(), node: 1)
        _ = try node.insert("Note")
        for _ in 0..<10 {
            node.close()
            try node.open()
        }
        #expect(try node.vector.entries.count == 1)
    }
}
