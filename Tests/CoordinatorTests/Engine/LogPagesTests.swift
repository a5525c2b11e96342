import Foundation
import Merge
import Testing

@testable import Coordinator

@Suite("What a save writes to the write-ahead log") struct LogPagesTests {
    private static let model = """
        {"entities": [
          {"name": "Plain", "attributes": [
            {"name": "count", "type": "integer64"}, {"name": "text", "type": "string"}]},
          {"name": "Indexed", "uniquenessConstraints": [["text"]], "attributes": [
            {"name": "count", "type": "integer64"}, {"name": "text", "type": "string"}]}]}
        """

    /// A frame is a page of 4,096 bytes and 24 before it.
    private static func pages(of node: EngineNode) throws -> Int {
        let bytes = try FileManager.default.attributesOfItem(atPath: node.path + "-wal")[.size]
        return try (#require(bytes as? Int) - 32) / 4_120
    }

    // Now and then a page is full and another begins; so most saves count, and not each.
    @Test(
        "One row is four pages, and one more for each index",
        arguments: [("Plain", 4), ("Indexed", 5)])
    func pages(entity: String, expected: Int) throws {
        let node = try EngineNode(try ManagedObjectModel(json: Array(Self.model.utf8)))
        var written: [Int] = []
        for number in 0..<60 {
            let before = try Self.pages(of: node)
            try node.insert(
                entity, ["count": .integer(Int64(number)), "text": .string("row \(number)")])
            written.append(try Self.pages(of: node) - before)
        }
        #expect(written.sorted()[written.count / 2] == expected, "\(written)")
    }
}

@Suite("The newest sequences of actors") struct RecentSequencesTests {
    @Test("Their text gives them back, and nothing else is taken for one")
    func text() throws {
        var recent = RecentSequences()
        #expect(recent.text.isEmpty && RecentSequences("") == recent)
        recent.note(5, of: 3)
        recent.note(17, of: 1)
        recent.note(.max, of: 200)
        #expect(recent.text == "1:17 3:5 200:18446744073709551615")
        #expect(RecentSequences(recent.text) == recent)
        for nonsense in ["1", "1:", ":1", "1:2:3", "1:-2", "a:1", "1:2,3:4"] {
            #expect(RecentSequences(nonsense) == nil, "\(nonsense)")
        }
    }

    @Test("With more actors than may wait they go to the rows, and the vector stays what it was")
    func many() throws {
        let (x, y) = try EngineNode.pair()
        for _ in 0...RecentSequences.limit + 3 {
            try x.insert("Note")
            try x.insert("Note")
            try exchange(x, y)
            try x.reopen()
        }
        let known = try y.vector
        #expect(known.entries.count == RecentSequences.limit + 4)
        y.close()
        let written = try y.look("SELECT count(*) FROM _actor WHERE sequence = 2")
        #expect(written > RecentSequences.limit)
        try y.open()
        #expect(try y.vector == known)
        #expect(try y.coordinator.verify().isOK)
    }

    @Test("A store that has lost them is damaged, and says so")
    func lost() throws {
        let node = try EngineNode()
        try node.insert("Note")
        node.close()
        try node.tamper("UPDATE _state SET recent = 'gone'")
        #expect(try node.code { try node.open() } == .storeDamaged)
    }
}
