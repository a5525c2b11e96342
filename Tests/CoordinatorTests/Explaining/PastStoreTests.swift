import Coordinator
import Merge
import Synchronization
import Testing

/// Reading the store as it was.
@Suite struct PastStoreTests {
    private func names(_ reader: StoreReader) throws -> [PropertyValue] {
        try reader.fetch(FetchRequest("Tag")).compactMap { row in row.values.first { !$0.isNull } }
    }

    @Test("The past shows at each vector what was shown then, in any order of asking")
    func past() throws {
        let (a, b) = try EngineNode.pair()
        let id = try a.insert("Note", ["p": .string("0")])
        try b.take(from: a)
        var points: [(vector: VersionVector, row: RowSnapshot?, digest: ProjectionDigest)] = []
        func note() throws {
            points.append((try a.vector, try a.row(id), try a.coordinator.currentDigest))
        }
        try note()
        try a.update(id, ["p": .string("1")])
        try note()
        try b.update(id, ["p": .string("2")])
        try a.take(from: b)
        try note()
        try a.delete(id, resolves: true)
        try note()
        let past = PastStore(of: a.coordinator)
        defer { past.close() }
        let note = try a.entity("Note")
        for index in [0, 1, 2, 3, 1, 3, 0, 2] {
            let point = points[index]
            let (row, digest) = try past.read(at: point.vector) {
                (try $0.row(note, id.row), try $0.digest)
            }
            #expect(row == point.row && digest == point.digest, "point \(index)")
        }
    }

    @Test("A store that has purged history refuses to tell the past, and names why")
    func purged() async throws {
        let a = try EngineNode()
        for _ in 0..<5 { try a.insert("Tag") }
        let vector = try a.vector
        let past = PastStore(of: a.coordinator)
        defer { past.close() }
        #expect(try past.read(at: vector) { try $0.count(FetchRequest("Tag")) } == 5)
        let token = try a.coordinator.currentToken
        _ = try await a.coordinator.purgeHistory(before: token, stable: vector)
        try a.insert("Tag")
        let error = #expect(throws: CoordinatorError.self) {
            try PastStore(of: a.coordinator).read(at: vector) { _ in }
        }
        #expect(error?.code == .historyTokenExpired)
    }

    @Test("A point that the store has not got yet is not told")
    func ahead() throws {
        let (a, b) = try EngineNode.pair()
        try b.insert("Tag")
        let error = #expect(throws: CoordinatorError.self) {
            try PastStore(of: a.coordinator).read(at: try b.vector) { _ in }
        }
        #expect(error?.code == .generationTimeout)
    }

    @Test("A time covers the saves up to it, at every node alike")
    func times() throws {
        let clock = Clock()
        let configure: (inout PersistentStoreCoordinator.Options) -> Void = { options in
            options.wallMilliseconds = { clock.now.withLock { $0 } }
        }
        let a = try EngineNode(node: 1, configure: configure)
        let b = try EngineNode(a.model, node: 2, configure: configure)
        var vectors: [VersionVector] = [VersionVector()]
        for step in 1...6 {
            clock.now.withLock { $0 += 1_000 }
            let node = step.isMultiple(of: 2) ? b : a
            try node.insert("Tag")
            try exchange(a, b)
            vectors.append(try a.vector)
        }
        for node in [a, b] {
            for step in 0...6 {
                let time = Clock.start + UInt64(step) * 1_000 + 500
                let vector = try node.coordinator.read { try $0.vector(at: time) }
                #expect(vector == vectors[step], "step \(step)")
            }
        }
    }

    private final class Clock: Sendable {
        static let start: UInt64 = 1_795_000_000_000
        let now = Mutex<UInt64>(start)
    }
}
