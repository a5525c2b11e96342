// Does the lock beside a store touch nothing but its own file?

import Dispatch
import Foundation
import GRDB
import Merge
import Synchronization
import Testing

@testable import Coordinator

@Suite("The lock beside a store")
struct StoreOwnershipTests {
    /// The files of the system, which note what is asked of them.
    private final class NotedFiles: StoreFiles {
        let reads = Mutex<[String]>([])
        private let files = SystemFiles()

        func lock(storePath: String) throws -> any StoreLock {
            try files.lock(storePath: storePath)
        }
        func resolved(_ path: String) -> String { files.resolved(path) }
        func size(of path: String) -> UInt64? { files.size(of: path) }
        func room(beside path: String) -> UInt64? { files.room(beside: path) }
        func read(_ path: String, from offset: UInt64, count: Int) -> [UInt8]? {
            reads.withLock { $0.append(path) }
            return files.read(path, from: offset, count: count)
        }
        func replace(_ path: String, with bytes: [UInt8]) throws {
            try files.replace(path, with: bytes)
        }
        func rewrite(_ path: String) throws { try files.rewrite(path) }
        func remove(_ path: String) throws { try files.remove(path) }
        func write(_ bytes: [UInt8], to path: String, at offset: UInt64) throws {
            try files.write(bytes, to: path, at: offset)
        }
        func move(_ path: String, to other: String) throws { try files.move(path, to: other) }
        func link(_ path: String, as other: String) throws { try files.link(path, as: other) }
    }

    /// To close any descriptor of a file drops all locks that the process has on it, SQLite's too.
    @Test("A second opening is refused before it touches the store's file")
    func refusedUntouched() throws {
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("tributary-\(UUID().uuidString)").path
        defer {
            for end in ["", "-wal", "-shm", "-lock", "-incarnation"] {
                try? FileManager.default.removeItem(atPath: path + end)
            }
        }
        let model = try EngineModel.everything()
        let node = try #require(NodeID(1))
        let first = try PersistentStoreCoordinator(
            storeAt: path, model: model, cluster: "test", node: node)
        defer { first.close() }
        var options = PersistentStoreCoordinator.Options()
        let files = NotedFiles()
        options.files = files
        let error = #expect(throws: CoordinatorError.self) {
            try PersistentStoreCoordinator(
                storeAt: path, model: model, cluster: "test", node: node, options: options)
        }
        #expect(error?.code == .storeInUse)
        #expect(files.reads.withLock(\.self).isEmpty)
    }

    @Test("A store that a link leads to is the same store, there already or not")
    func linked() throws {
        let manager = FileManager.default
        let folder = manager.temporaryDirectory
            .appendingPathComponent("tributary-\(UUID().uuidString)")
        defer { try? manager.removeItem(at: folder) }
        let (data, service) = (folder.appendingPathComponent("data"), folder.path + "/service")
        try manager.createDirectory(at: data, withIntermediateDirectories: true)
        let path = data.appendingPathComponent("n1.sqlite").path
        try manager.createSymbolicLink(atPath: service, withDestinationPath: "data")
        try manager.createSymbolicLink(
            atPath: folder.path + "/link.sqlite", withDestinationPath: "service/n1.sqlite")
        let model = try EngineModel.everything()
        let node = try #require(NodeID(1))
        let names = [path, service + "/n1.sqlite", folder.path + "/link.sqlite"]
        for first in names {
            let coordinator = try PersistentStoreCoordinator(
                storeAt: first, model: model, cluster: "test", node: node)
            defer { coordinator.close() }
            #expect(coordinator.storePath == path)
            for second in names {
                let error = #expect(throws: CoordinatorError.self) {
                    try PersistentStoreCoordinator(
                        storeAt: second, model: model, cluster: "test", node: node)
                }
                #expect(error?.code == .storeInUse)
                let refusal = #expect(throws: CoordinatorError.self) {
                    try StoreBackup.restore(
                        path, to: second, cluster: "test", node: node, isReplacing: true)
                }
                #expect(refusal?.code == .storeInUse)
            }
        }
        let found = try manager.contentsOfDirectory(atPath: folder.path).sorted()
        #expect(found == ["data", "link.sqlite", "service"])
    }

    @Test("Another program's file is refused, and no lock is left beside it")
    func noLockBesideForeignFile() throws {
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("tributary-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        do {
            let queue = try DatabaseQueue(path: path)
            try queue.write { try $0.execute(sql: "CREATE TABLE theirs (x)") }
            try queue.close()
        }
        let bytes = FileManager.default.contents(atPath: path)
        let error = #expect(throws: CoordinatorError.self) {
            try PersistentStoreCoordinator(
                storeAt: path, model: try EngineModel.everything(), cluster: "test",
                node: try #require(NodeID(1)))
        }
        #expect(error?.code == .storeLayout)
        #expect(!FileManager.default.fileExists(atPath: path + "-lock"))
        #expect(FileManager.default.contents(atPath: path) == bytes)
    }

    /// As while another thread begins a process, which has a copy of every open file until it runs
    /// its program.
    @Test("A released lock is free, even if another process has a copy of its file")
    func releasedWithCopy() throws {
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("tributary-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path + "-lock") }
        let held = try StoreOwnership(storePath: path)
        let names = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
        let number = names.first {
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)"))
                == path + "-lock"
        }
        let copy = dup(try #require(number.flatMap { Int32($0) }))
        #expect(copy >= 0)
        defer { close(copy) }
        #expect(throws: CoordinatorError.self) { try StoreOwnership(storePath: path) }
        held.release()
        let next = try StoreOwnership(storePath: path)
        next.release()
    }

    /// A refused lock was once closed twice, and the second time closed whatever another thread
    /// had opened in between: seen as a stray disk I/O error in a store that was sound.
    @Test("A refused one closes its own file only, once")
    func refusalClosesOnce() throws {
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("tributary-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path + "-lock") }
        let held = try StoreOwnership(storePath: path)
        defer { held.release() }
        let refusals = Atomic<Int>(0)
        let lost = Atomic<Int>(0)
        DispatchQueue.concurrentPerform(iterations: 2) { thread in
            for _ in 0..<30_000 {
                if thread == 0 {
                    if (try? StoreOwnership(storePath: path)) == nil {
                        refusals.add(1, ordering: .relaxed)
                    }
                    continue
                }
                let descriptor = open("/dev/null", O_RDONLY)
                for _ in 0..<8 where fcntl(descriptor, F_GETFD) < 0 {
                    lost.add(1, ordering: .relaxed)
                    return
                }
                if close(descriptor) < 0 { lost.add(1, ordering: .relaxed) }
            }
        }
        #expect(refusals.load(ordering: .relaxed) == 30_000)
        #expect(lost.load(ordering: .relaxed) == 0)
    }
}
