import Foundation
import Merge
import Testing

@testable import Coordinator

/// Openings of stores that are new, the node's own, older than that, or copied; and what an
/// opening must never use again.
@Suite struct RecoveryTests {
    private let node: EngineNode
    private var side: String { node.path + "-incarnation" }

    init() throws {
        node = try EngineNode()
        try node.insert("Tag")
    }

    private func open(
        _ change: (inout PersistentStoreCoordinator.Options) -> Void = { _ in }
    ) throws -> PersistentStoreCoordinator {
        var options = PersistentStoreCoordinator.Options()
        change(&options)
        return try PersistentStoreCoordinator(
            storeAt: node.path, model: node.model, cluster: "test", node: node.node,
            options: options)
    }

    /// What an opening finds the store to be; it is closed again.
    private func recovery() throws -> StoreRecovery {
        let coordinator = try open()
        defer { coordinator.close() }
        return coordinator.recovery
    }

    /// Opens the store and has somebody vouch for it; it is closed again.
    private func vouch() throws {
        let coordinator = try open()
        defer { coordinator.close() }
        try coordinator.vouch()
    }

    private func contents() throws -> Data {
        try #require(FileManager.default.contents(atPath: node.path))
    }

    /// Puts a file in the store's place, as people do.
    private func restore(_ data: Data) throws {
        for suffix in ["-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: node.path + suffix)
        }
        try data.write(to: URL(fileURLWithPath: node.path))
    }

    @Test("A new store is new until somebody vouches for it, over openings")
    func new() throws {
        #expect(node.coordinator.recovery == .new)
        node.close()
        #expect(try recovery() == .new)
        let coordinator = try open()
        try coordinator.vouch()
        #expect(coordinator.recovery == .none)
        coordinator.close()
        #expect(try recovery() == .none)
        #expect(try PersistentStoreCoordinator(readingStoreAt: node.path).recovery == .none)
    }

    @Test("An older backup is found, however old, and stays found until vouched for")
    func backup() throws {
        try node.coordinator.vouch()
        node.close()
        let first = try contents()
        // Older by one opening, and older by a save within the same incarnation.
        for openings in 0...2 {
            for _ in 0..<openings { #expect(try recovery() == .none) }
            if openings == 0 {
                let coordinator = try open()
                coordinator.close()
                let middle = try contents()
                try node.open()
                try node.insert("Tag")
                node.close()
                try restore(middle)
            } else {
                try restore(first)
            }
            #expect(try recovery() == .restored)
            #expect(try recovery() == .restored)
            try vouch()
            #expect(try recovery() == .none)
        }
    }

    @Test("A backup put back within one incarnation is found after a clean close")
    func sameIncarnation() throws {
        try node.coordinator.vouch()
        let early = try Data(contentsOf: URL(fileURLWithPath: node.path))
        let log = try Data(contentsOf: URL(fileURLWithPath: node.path + "-wal"))
        try node.insert("Tag")
        node.close()
        try restore(early)
        try log.write(to: URL(fileURLWithPath: node.path + "-wal"))
        #expect(try recovery() == .restored)
    }

    @Test("A copy without the side file, or with another store's or a torn one, is restored")
    func copies() throws {
        try node.coordinator.vouch()
        node.close()
        try FileManager.default.removeItem(atPath: side)
        #expect(try recovery() == .restored)
        let other = try EngineNode(node.model)
        other.close()
        for bytes in [
            try #require(FileManager.default.contents(atPath: other.path + "-incarnation")),
            Data("tributary-incarnation 1\nstore 5".utf8), Data(),
        ] {
            try vouch()
            try bytes.write(to: URL(fileURLWithPath: side))
            #expect(try recovery() == .restored)
        }
    }

    @Test(
        "Wherever an opening dies, the next one knows its own store", arguments: [1, 2],
        [false, true])
    func crash(write: Int, isDone: Bool) throws {
        try node.coordinator.vouch()
        node.close()
        let code = try node.code {
            _ = try open {
                $0.files = FailingFiles(failing: write, isDone: isDone, onlyReplacing: true)
            }
        }
        #expect(code == .inputOutput)
        let coordinator = try open()
        #expect(coordinator.recovery == .none)
        // And it is the file's again: the store as it was before is an older one by now.
        coordinator.close()
        let backup = try contents()
        #expect(try recovery() == .none)
        try restore(backup)
        #expect(try recovery() == .restored)
    }

    @Test(
        "Wherever the opening of an older store dies, it is found older", arguments: [false, true])
    func crashOfRestored(isDone: Bool) throws {
        try node.coordinator.vouch()
        node.close()
        let backup = try contents()
        #expect(try recovery() == .none)
        try restore(backup)
        let code = try node.code {
            _ = try open {
                $0.files = FailingFiles(failing: 1, isDone: isDone, onlyReplacing: true)
            }
        }
        #expect(code == .inputOutput)
        #expect(try recovery() == .restored)
        #expect(try recovery() == .restored)
    }

    @Test("Closing twice does not speak for the one that has the store by then")
    func closedTwice() throws {
        try node.coordinator.vouch()
        let first = node.coordinator
        node.close()
        let second = try open()
        let record = FileManager.default.contents(atPath: side)
        first.close()
        #expect(FileManager.default.contents(atPath: side) == record)
        second.close()
        #expect(try recovery() == .none)
    }

    @Test("While saves are not let through they fail, and others' are applied")
    func refused() throws {
        let other = try EngineNode(node.model, node: 2)
        let tag = try other.insert("Tag", ["name": .string("x")])
        node.coordinator.setSaving(allowed: false)
        #expect(try node.code { try node.insert("Tag") } == .recovering)
        try node.take(from: other)
        #expect(try node.value(tag, "name") == .string("x"))
        try node.coordinator.outgrow()
        #expect(node.coordinator.recovery == .restored)
        try node.coordinator.vouch()
        node.coordinator.setSaving(allowed: true)
        try node.insert("Tag")
    }

    // MARK: What is never used again

    @Test("Every incarnation is later than all before, though the clock goes back")
    func incarnations() throws {
        var last = try #require(node.coordinator.actor).incarnation
        node.close()
        for wall in [UInt64(2_000_000_000_000), 1_900_000_000_000, 0, 1_900_000_000_000] {
            let coordinator = try open { $0.wallMilliseconds = { wall } }
            let own = try #require(coordinator.actor).incarnation
            #expect(own > last)
            last = own
            coordinator.close()
        }
        let told = last + 5_000_000_000
        let coordinator = try open {
            $0.wallMilliseconds = { 0 }
            $0.minimumIncarnation = told
        }
        #expect(try #require(coordinator.actor).incarnation > told)
        coordinator.close()
        let late = try open { $0.minimumIncarnation = .max - 1 }
        #expect(try #require(late.actor).incarnation == .max)
        late.close()
        #expect(try node.code { _ = try open() } == .malformed)
    }

    /// A life in which fifty objects are made; the clock stands still, so that all lives fall into
    /// one minute.
    private func life(_ chance: UInt64) throws -> [RowID] {
        let coordinator = try open {
            $0.wallMilliseconds = { 1_795_000_000_000 }
            $0.random = { chance }
        }
        defer { coordinator.close() }
        let entity = try node.entity("Tag")
        return try coordinator.save(
            SaveRequest(
                operations: (1...50).map {
                    SaveOperation(kind: .insert, entity: entity, row: RowID(-$0))
                })
        ).insertedRows.map(\.row)
    }

    @Test("A restored store gives out none of the identities of its former life")
    func identities() throws {
        node.close()
        let backup = try contents()
        var rows = try life(1) + life(2)
        try restore(backup)
        try FileManager.default.removeItem(atPath: side)
        rows += try life(70_000) + life(3)
        #expect(Set(rows).count == rows.count)
    }

    /// Seed 2004344: the first block of the new store began elsewhere, its second did not.
    @Test("A new store in the minute of a lost one gives out none of its identities")
    func identitiesOfALostStore() throws {
        node.close()
        let directory = URL(fileURLWithPath: node.path).deletingLastPathComponent()
        var rows: [RowID] = []
        for chance: UInt64 in [70_000, 140_000] {
            try FileManager.default.removeItem(at: directory)
            try FileManager.default.createDirectory(
                at: directory, withIntermediateDirectories: true)
            for _ in 1...3 { rows += try life(chance) }
        }
        #expect(Set(rows).count == rows.count)
    }

    @Test("No own stamp comes twice or goes back: after failed saves, foreign ones, reopening")
    func clock() throws {
        node.close()
        var last = HybridTimestamp.zero
        func expectLater(_ result: SaveResult) throws {
            let stamp = try #require(result.timestamp)
            #expect(stamp > last)
            last = stamp
        }
        let other = try EngineNode(node.model, node: 2)
        let tag = try node.entity("Tag")
        let insertion = SaveRequest(
            operations: [SaveOperation(kind: .insert, entity: tag, row: RowID(-1))])
        for wall in [UInt64(1_795_000_000_000), 1_700_000_000_000, 5] {
            let coordinator = try open { $0.wallMilliseconds = { wall } }
            try expectLater(try coordinator.save(insertion))
            let failing = SaveRequest(operations: [
                SaveOperation(kind: .update, entity: tag, row: RowID(99))
            ])
            #expect(try node.code { _ = try coordinator.save(failing) as SaveResult } != nil)
            try expectLater(try coordinator.save(insertion))
            // One that comes from elsewhere counts too, and a store that is just reopened.
            let foreign = try other.save(try other.insertion("Tag"))
            _ = try coordinator.apply(Array(other.transactions.suffix(1)))
            last = max(last, try #require(foreign.timestamp))
            coordinator.close()
        }
    }
}
