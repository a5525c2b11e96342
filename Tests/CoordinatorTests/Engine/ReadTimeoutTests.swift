import Coordinator
import Merge
import Synchronization
import Testing

/// Reads that are given so long and no longer.
@Suite struct ReadTimeoutTests {
    private let node: EngineNode
    /// A clock that goes on by so much with each look.
    private let clock = Clock()

    private final class Clock: Sendable {
        private let state = Mutex<(now: UInt64, step: UInt64)>((0, 0))
        func tick() -> UInt64 {
            state.withLock {
                $0.now += $0.step
                return $0.now
            }
        }
        func run(by step: UInt64) { state.withLock { $0.step = step } }
    }

    init() throws {
        node = try EngineNode()
        node.close()
        let clock = clock
        node.configure = { $0.monotonicMilliseconds = { clock.tick() } }
        try node.open()
        let context = ManagedObjectContext(node.coordinator)
        try context.performAndWait {
            for number in 0..<3_000 {
                context.insert("Tag").setValue("tag \(number)", forKey: "name")
            }
            try context.save()
        }
    }

    private func count(_ pin: GenerationPin? = nil, milliseconds: UInt64?) throws -> Int {
        try node.coordinator.read(pin, milliseconds: milliseconds) {
            try $0.count(FetchRequest("Tag", predicate: Predicate(format: "name CONTAINS '9'")))
        }
    }

    @Test("One that takes longer is given up, and the next goes on as ever")
    func givenUp() throws {
        let pin = try node.coordinator.pinCurrentGeneration()
        let all = try count(milliseconds: nil)
        for pin in [nil, pin] {
            clock.run(by: 600)
            #expect(try node.code { _ = try count(pin, milliseconds: 500) } == .readTimeout)
            #expect(try count(pin, milliseconds: nil) == all)
            clock.run(by: 0)
            #expect(try count(pin, milliseconds: 500) == all)
            #expect(try count(pin, milliseconds: .max) == all)
        }
        try node.insert("Tag")
    }

    @Test("Of many short queries the time of all counts")
    func manyQueries() throws {
        clock.run(by: 0)
        let rows = try node.coordinator.read { try $0.objectIDs(FetchRequest("Tag")) }
        let tag = try node.entity("Tag")
        let code = try node.code {
            try node.coordinator.read(milliseconds: 500) { reader in
                for object in rows { _ = try reader.row(tag, object.row) }
                clock.run(by: 600)
                for object in rows { _ = try reader.row(tag, object.row) }
            }
        }
        #expect(code == .readTimeout)
    }
}
