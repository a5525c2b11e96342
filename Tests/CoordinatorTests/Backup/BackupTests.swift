import Foundation
import GRDB
import Merge
import Synchronization
import Testing

@testable import Coordinator

/// Backups, and what becomes of a store that one is put in the place of.
@Suite struct BackupTests {
    private let node: EngineNode
    private var backup: String { node.path + "-backup" }

    init() throws { node = try EngineNode() }

    private func restore(
        isReplacing: Bool = true, cluster: String = "test", to path: String? = nil
    ) throws -> StoreBackup {
        try StoreBackup.restore(
            backup, to: path ?? node.path, cluster: cluster, node: node.node,
            isReplacing: isReplacing)
    }

    private func digest(_ path: String) throws -> ProjectionDigest {
        let store = try PersistentStoreCoordinator(readingStoreAt: path)
        defer { store.close() }
        return try store.currentDigest
    }

    private func expect(_ code: CoordinatorError.Code, _ body: () throws -> Void) {
        #expect { try body() } throws: { ($0 as? CoordinatorError)?.code == code }
    }

    @Test("A backup is a store in its own right, of one file, with all that was saved by then")
    func whole() throws {
        for _ in 0..<50 { try node.insert("Tag") }
        let made = try node.coordinator.backUp(to: backup)
        let token = try node.coordinator.currentToken
        #expect(made.versionVector == token.versionVector && made.generation == token.generation)
        #expect(made.node == node.node && made.cluster == "test" && made.bytes > 0)
        let before = try node.coordinator.currentDigest
        try node.insert("Tag")
        #expect(try digest(backup) == before)
        #expect(try PersistentStoreCoordinator(readingStoreAt: backup).recovery == .restored)
        for suffix in ["-unfinished", "-wal", "-shm", "-journal"] {
            #expect(!FileManager.default.fileExists(atPath: backup + suffix))
        }
    }

    @Test("A backup made while others save holds whole saves, and a consistent state")
    func whileSaving() async throws {
        let coordinator = node.coordinator
        let backup = backup
        let copying = Task.detached {
            for number in 0..<5 { _ = try coordinator.backUp(to: "\(backup)\(number)") }
        }
        for _ in 0..<300 { try node.insert("Tag") }
        try await copying.value
        for number in 0..<5 {
            let store = try PersistentStoreCoordinator(readingStoreAt: "\(backup)\(number)")
            defer { store.close() }
            #expect(try store.verify().isOK)
        }
    }

    @Test("Of those who back up to one path at once one does, and what is there is its backup")
    func atOnce() async throws {
        for _ in 0..<2_000 { try node.insert("Tag") }
        let (coordinator, backup) = (node.coordinator, backup)
        let made = await withTaskGroup(of: Result<StoreBackup, any Error>.self) { group in
            for _ in 0..<4 { group.addTask { Result { try coordinator.backUp(to: backup) } } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        for case .failure(let error) in made {
            #expect((error as? CoordinatorError)?.code == .fileExists, "\(error)")
        }
        let kept = made.compactMap { try? $0.get() }
        #expect(kept.count == 1)
        let store = try PersistentStoreCoordinator(readingStoreAt: backup)
        defer { store.close() }
        #expect(try store.currentToken.versionVector == kept.first?.versionVector)
        #expect(try store.verify().isOK)
        let folder = URL(fileURLWithPath: backup).deletingLastPathComponent()
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        #expect(names.filter { $0.contains("-backup") }.count == 1, "\(names)")
    }

    @Test("A file is never replaced by a backup")
    func neverReplaces() throws {
        try Data([1]).write(to: URL(fileURLWithPath: backup))
        expect(.fileExists) { _ = try node.coordinator.backUp(to: backup) }
        #expect(FileManager.default.contents(atPath: backup) == Data([1]))
        let nowhere = node.path + "/none/backup"
        #expect { try node.coordinator.backUp(to: nowhere) } throws: {
            let error = $0 as? CoordinatorError
            return error?.code == .inputOutput && error?.message.contains("backup-") == false
        }
    }

    @Test("A restored store is a later incarnation that must be vouched for; the old one is kept")
    func restored() throws {
        try node.coordinator.vouch()
        try node.insert("Tag")
        _ = try node.coordinator.backUp(to: backup)
        let atBackup = try node.coordinator.currentDigest
        try node.insert("Tag")
        let atEnd = try node.coordinator.currentDigest
        let last = try #require(node.coordinator.actor)
        node.close()
        let made = try restore()
        #expect(made.path == node.path)
        #expect(try digest(node.path) == atBackup)
        #expect(try digest(node.path + "-before-restore") == atEnd)
        try node.open()
        #expect(node.coordinator.recovery == .restored)
        #expect(try #require(node.coordinator.actor) > last)
        node.close()
        expect(.fileExists) { _ = try restore() }
    }

    @Test("A backup put back at once, with nothing saved since, must be vouched for as well")
    func nothingSince() throws {
        try node.coordinator.vouch()
        try node.reopen()
        _ = try node.coordinator.backUp(to: backup)
        node.close()
        _ = try restore()
        try node.open()
        #expect(node.coordinator.recovery == .restored)
        node.close()
    }

    @Test("Restoring refuses a store in use, a store that is there, and another node's backup")
    func refused() throws {
        try node.insert("Tag")
        _ = try node.coordinator.backUp(to: backup)
        expect(.storeInUse) { _ = try restore() }
        node.close()
        let before = try digest(node.path)
        expect(.fileExists) { _ = try restore(isReplacing: false) }
        expect(.storeOwner) { _ = try restore(cluster: "other") }
        try FileManager.default.removeItem(atPath: backup)
        expect(.inputOutput) { _ = try restore() }
        try Data("no store".utf8).write(to: URL(fileURLWithPath: backup))
        #expect(throws: CoordinatorError.self) { _ = try restore() }
        #expect(try digest(node.path) == before)
        #expect(!FileManager.default.fileExists(atPath: node.path + "-before-restore"))
    }

    @Test("A damaged backup is refused")
    func damaged() throws {
        for _ in 0..<200 { try node.insert("Tag") }
        _ = try node.coordinator.backUp(to: backup)
        node.close()
        var bytes = try #require(FileManager.default.contents(atPath: backup))
        for offset in stride(from: 4096, to: bytes.count - 100, by: 512) {
            bytes.replaceSubrange(offset..<offset + 16, with: [UInt8](repeating: 0xFF, count: 16))
        }
        try bytes.write(to: URL(fileURLWithPath: backup))
        expect(.storeDamaged) { _ = try restore() }
    }

    @Test("A restored store goes to an empty place too, where there is no file beside it")
    func emptyPlace() throws {
        try node.coordinator.vouch()
        try node.insert("Tag")
        _ = try node.coordinator.backUp(to: backup)
        let digest = try node.coordinator.currentDigest
        node.close()
        let elsewhere = node.path + "-elsewhere"
        _ = try restore(isReplacing: false, to: elsewhere)
        let store = try PersistentStoreCoordinator(
            storeAt: elsewhere, model: node.model, cluster: "test", node: node.node)
        defer { store.close() }
        #expect(store.recovery == .restored)
        #expect(try store.currentDigest == digest)
    }

    // MARK: What is there already

    @Test(
        "A store is not kept beside what is left of one that was kept before",
        arguments: ["", "-wal", "-shm"])
    func keptBefore(_ suffix: String) throws {
        try node.insert("Tag")
        _ = try node.coordinator.backUp(to: backup)
        node.close()
        let before = try digest(node.path)
        let kept = node.path + "-before-restore" + suffix
        try Data([1]).write(to: URL(fileURLWithPath: kept))
        #expect {
            _ = try restore()
        } throws: {
            let error = $0 as? CoordinatorError
            return error?.code == .fileExists && error?.message.contains("\(kept) is there") == true
                && error?.message.contains("all of them") == true
        }
        #expect(try digest(node.path) == before)
        #expect(FileManager.default.contents(atPath: kept) == Data([1]))
    }

    @Test("What a backup that was killed has left goes with the next one to that path")
    func unfinished() throws {
        let folder = URL(fileURLWithPath: backup).deletingLastPathComponent()
        let left = ["-1f-unfinished", "-1f-unfinished-journal", "-ffffffffffffffff-unfinished"]
        let others = ["-unfinished", "-monday-unfinished", "-1f", "-1f-unfinished-kept"]
        for suffix in left + others {
            try Data([1]).write(to: URL(fileURLWithPath: backup + suffix))
        }
        _ = try node.coordinator.backUp(to: backup)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        let name = URL(fileURLWithPath: backup).lastPathComponent
        #expect(
            names.filter { $0.hasPrefix(name) }.sorted()
                == ([""] + others).map { name + $0 }.sorted())
    }

    // MARK: Messages

    @Test("A file that is no backup is reported as the backup, and not as the store")
    func noDatabase() throws {
        node.close()
        try Data(repeating: 0x5A, count: 8_192).write(to: URL(fileURLWithPath: backup))
        let error = #expect(throws: CoordinatorError.self) { _ = try restore() }
        #expect(error?.code == .storeDamaged)
        #expect(error?.message.contains(backup) == true)
        #expect(error?.message.contains("The store is damaged") == false)
    }

    @Test("A full disk's message says what it means: reads go on only if the node does")
    func fullDisk() throws {
        let files = FullFiles()
        node.close()
        var options = PersistentStoreCoordinator.Options()
        options.files = files
        let starting = #expect(throws: CoordinatorError.self) {
            _ = try PersistentStoreCoordinator(
                storeAt: node.path, model: node.model, cluster: "test", node: node.node,
                options: options)
        }
        #expect(starting?.code == .diskFull)
        #expect(starting?.message.contains("a start must write") == true)
        #expect(starting?.message.contains("reads go on") == false)
        try node.open()
        let writing = #expect(throws: CoordinatorError.self) {
            _ = try BackupFile(path: backup, files: files).write(from: node.coordinator.pool)
        }
        #expect(writing?.code == .diskFull)
        #expect(writing?.message.contains("reads go on") == false)
    }

    /// Files on a disk that SQLite finds full.
    private struct FullFiles: StoreFiles {
        private let system = SystemFiles()
        private static let full = DatabaseError(resultCode: .SQLITE_FULL)

        func lock(storePath: String) throws -> any StoreLock {
            try system.lock(storePath: storePath)
        }
        func size(of path: String) -> UInt64? { system.size(of: path) }
        func room(beside path: String) -> UInt64? { nil }
        func read(_ path: String, from offset: UInt64, count: Int) -> [UInt8]? {
            system.read(path, from: offset, count: count)
        }
        func replace(_ path: String, with bytes: [UInt8]) throws { throw Self.full }
        func rewrite(_ path: String) throws { throw Self.full }
        func write(_ bytes: [UInt8], to path: String, at offset: UInt64) throws { throw Self.full }
        func move(_ path: String, to other: String) throws { throw Self.full }
        func link(_ path: String, as other: String) throws { throw Self.full }
        func remove(_ path: String) throws { try system.remove(path) }
    }

    // MARK: Crashes

    @Test("A restore that is cut off is gone on with, and nothing is made or removed meanwhile")
    func crashes() throws {
        try node.coordinator.vouch()
        for _ in 0..<200 { try node.insert("Tag") }
        _ = try node.coordinator.backUp(to: backup)
        let atBackup = try node.coordinator.currentDigest
        try node.insert("Tag")
        // As it is after a kill; the log cannot be written again, so that it is kept as well.
        let files = FileManager.default
        let log = try #require(files.contents(atPath: node.path + "-wal"))
        #expect(!log.isEmpty)
        node.close()
        let store = try #require(files.contents(atPath: node.path))
        let aside = node.path + "-before-restore"
        var refused = 0
        for isDone in [false, true] {
            for step in 1... {
                for suffix in ["", "-wal", "-shm", "-restored"] {
                    try? files.removeItem(atPath: node.path + suffix)
                    try? files.removeItem(atPath: aside + suffix)
                }
                try store.write(to: URL(fileURLWithPath: node.path))
                try log.write(to: URL(fileURLWithPath: node.path + "-wal"))
                let failing = FailingFiles(failing: step, isDone: isDone, rewrites: false)
                _ = try? StoreBackup.restore(
                    backup, to: node.path, cluster: "test", node: node.node, isReplacing: true,
                    files: failing)
                if files.contents(atPath: node.path) == nil {
                    refused += 1
                    // Neither is a new store made, nor does the log go.
                    let had = files.contents(atPath: node.path + "-wal")
                    #expect(try node.code { try node.open() }?.rawValue == "storeIncomplete")
                    #expect(files.contents(atPath: node.path) == nil)
                    #expect(files.contents(atPath: node.path + "-wal") == had)
                    #expect(files.contents(atPath: aside + "-wal") == log)
                    // What the refusal names.
                    _ = try restore(isReplacing: false)
                }
                if files.contents(atPath: node.path) == store {
                    #expect(files.contents(atPath: node.path + "-wal") == log)
                } else {
                    #expect(try digest(node.path) == atBackup)
                    #expect(files.contents(atPath: aside) == store)
                    #expect(files.contents(atPath: aside + "-wal") == log)
                }
                if failing.left.withLock({ $0 }) > 0 { break }
            }
        }
        #expect(refused > 2)
    }
}
