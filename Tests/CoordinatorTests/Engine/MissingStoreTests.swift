// What if the store's file is gone, and something that was beside it is not?

import Foundation
import Merge
import Testing

@testable import Coordinator

@Suite("A store whose file is missing")
struct MissingStoreTests {
    private let node: EngineNode
    private let files = FileManager.default

    init() throws { node = try EngineNode() }

    /// What the opening says, which is to make nothing.
    private func refusal() throws -> CoordinatorError {
        let error = try #require(throws: CoordinatorError.self) { try node.open() }
        #expect(!files.fileExists(atPath: node.path))
        return error
    }

    /// Ends the node as a kill does: its log has all.
    private func kill() throws -> Data {
        let log = try #require(files.contents(atPath: node.path + "-wal"))
        #expect(!log.isEmpty)
        let store = try #require(files.contents(atPath: node.path))
        node.close()
        try log.write(to: URL(fileURLWithPath: node.path + "-wal"))
        try store.write(to: URL(fileURLWithPath: node.path))
        return log
    }

    @Test("A log without its store is refused and kept, and is the store's again beside it")
    func logAlone() throws {
        let tag = try node.insert("Tag")
        let log = try kill()
        let elsewhere = node.path + "-elsewhere"
        try files.moveItem(atPath: node.path, toPath: elsewhere)
        let error = try refusal()
        #expect(error.code.rawValue == "storeIncomplete")
        #expect(error.message.contains("\(node.path)-wal"))
        #expect(files.contents(atPath: node.path + "-wal") == log)
        try files.moveItem(atPath: elsewhere, toPath: node.path)
        try node.open()
        #expect(try node.row(tag) != nil)
    }

    @Test("A restore keeps a log that it finds without its store")
    func logKept() throws {
        try node.insert("Tag")
        let backup = node.path + "-backup"
        _ = try node.coordinator.backUp(to: backup)
        let log = try kill()
        try files.removeItem(atPath: node.path)
        func restore() throws {
            _ = try StoreBackup.restore(backup, to: node.path, cluster: "test", node: node.node)
        }
        let kept = node.path + "-before-restore-wal"
        try Data([1]).write(to: URL(fileURLWithPath: kept))
        #expect(try node.code(restore) == .fileExists)
        #expect(files.contents(atPath: node.path + "-wal") == log)
        try files.removeItem(atPath: kept)
        try restore()
        #expect(files.contents(atPath: kept) == log)
        try node.open()
        #expect(node.coordinator.recovery == .restored)
    }

    @Test("A copy of a backup that was not put in place yet is refused, and named")
    func restoredAlone() throws {
        node.close()
        try files.moveItem(atPath: node.path, toPath: node.path + "-restored")
        let error = try refusal()
        #expect(error.code.rawValue == "storeIncomplete")
        #expect(error.message.contains("\(node.path)-restored"))
    }

    @Test("A copy of a backup beside a store that is there goes")
    func restoredBeside() throws {
        node.close()
        try files.copyItem(atPath: node.path, toPath: node.path + "-restored")
        try node.open()
        #expect(!files.fileExists(atPath: node.path + "-restored"))
    }

    @Test("An empty log is nobody's: a new store is made beside it")
    func emptyLog() throws {
        node.close()
        try files.removeItem(atPath: node.path)
        try Data().write(to: URL(fileURLWithPath: node.path + "-wal"))
        try node.open()
    }
}
