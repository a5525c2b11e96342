import Foundation
import GRDB

@testable import Coordinator
@testable import Merge

/// A store's file whose bytes are known, to be damaged again and again.
struct StoreFile {
    /// Made at the first use; libFuzzer uses one thread.
    static let shared = must { try StoreFile() }

    /// The sound file.
    let bytes: [UInt8]
    private let path: String

    private static var options: PersistentStoreCoordinator.Options {
        var options = PersistentStoreCoordinator.Options()
        options.readers = 1
        options.wallMilliseconds = SampleRows.environment.wallMilliseconds
        options.random = SampleRows.environment.random
        return options
    }

    private init() throws {
        let folder = Self.folder
        atexit { try? FileManager.default.removeItem(at: StoreFile.folder) }
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        path = folder.appendingPathComponent("store.sqlite").path
        Self.remove(path)
        let store = try PersistentStoreCoordinator(
            storeAt: path, model: SampleModel.model, cluster: SampleModel.cluster,
            node: SampleRows.node, options: Self.options)
        let saved = try store.save(
            SaveRequest(operations: SampleRows.inserts(), saveID: "the first"))
        var rows: [Int: RowID] = [:]
        for inserted in saved.insertedRows {
            rows[Int(-inserted.temporary.rawValue)] = inserted.row
        }
        let foreign = SampleRows.foreign(rows, seen: try store.currentToken.versionVector)
        let applied = try store.apply(foreign.map { EncodedTransaction($0) })
        precondition(applied.rejected.isEmpty, "The sample does not fit: \(applied.rejected)")
        store.close()
        bytes = try Array(Data(contentsOf: URL(fileURLWithPath: path)))
    }

    /// One of this process's own; `run` has it made in memory.
    private static var folder: URL {
        FileManager.default.temporaryDirectory
            .appendingPathComponent("store-\(ProcessInfo.processInfo.processIdentifier)")
    }

    private static func remove(_ path: String) {
        for suffix in ["", "-wal", "-shm", "-lock", "-incarnation"] {
            try? FileManager.default.removeItem(atPath: path + suffix)
        }
    }

    /// Puts a file in place and reads all of it, first for reading only, then for writing.
    func open(_ bytes: [UInt8]) {
        Self.remove(path)
        must { try Data(bytes).write(to: URL(fileURLWithPath: path)) }
        openAsItIs()
    }

    /// Puts the sound file in place and changes it by SQL.
    func open(changedBy body: (Database) throws -> Void) {
        Self.remove(path)
        must {
            try Data(self.bytes).write(to: URL(fileURLWithPath: path))
            let queue = try DatabaseQueue(path: path)
            try queue.writeWithoutTransaction(body)
            try queue.close()
        }
        openAsItIs()
    }

    private func openAsItIs() {
        let reading = attempt(throwing: CoordinatorError.self) {
            try PersistentStoreCoordinator(readingStoreAt: path, options: Self.options)
        }
        if let reading {
            examine(reading)
            reading.close()
        }
        let writing = attempt(throwing: CoordinatorError.self) {
            try PersistentStoreCoordinator(
                storeAt: path, model: SampleModel.model, cluster: SampleModel.cluster,
                node: SampleRows.node, options: Self.options)
        }
        guard let writing else { return }
        examine(writing)
        change(writing)
        writing.close()
    }

    private func examine(_ store: PersistentStoreCoordinator) {
        _ = attempt(throwing: CoordinatorError.self) { try store.verify() }
        _ = attempt(throwing: CoordinatorError.self) {
            try store.read { _ = try $0.conflicts(ConflictQuery()) }
        }
        _ = attempt(throwing: CoordinatorError.self) {
            try store.read { _ = try $0.history(afterPosition: 0, limit: 100) }
        }
        _ = attempt(throwing: CoordinatorError.self) {
            try store.read {
                _ = try $0.transactions(notCoveredBy: VersionVector(), byteLimit: 1 << 20)
            }
        }
        _ = attempt(throwing: CoordinatorError.self) {
            try store.read { _ = try $0.savedAnswer("the first") }
        }
        for entity in store.model.entities {
            _ = attempt(throwing: CoordinatorError.self) {
                try store.read { reader in
                    let request = FetchRequest(entity.name)
                    for snapshot in try reader.fetch(request).prefix(20) {
                        let row = snapshot.objectID.row
                        _ = try reader.registers(entity, row)
                        for relationship in entity.relationships {
                            _ = try reader.members(of: relationship, entity: entity, row: row)
                        }
                    }
                }
            }
        }
    }

    private func change(_ store: PersistentStoreCoordinator) {
        for entity in store.model.entities where !entity.isAbstract {
            _ = attempt(throwing: CoordinatorError.self) {
                try store.save(
                    SaveRequest(
                        operations: [
                            SaveOperation(kind: .insert, entity: entity, row: RowID(-1))
                        ], mergePolicy: .overwrite))
            }
            let found = attempt(throwing: CoordinatorError.self) {
                try store.read { try $0.objectIDs(FetchRequest(entity.name)) }
            }
            for object in (found ?? []).prefix(4) {
                _ = attempt(throwing: CoordinatorError.self) {
                    try store.save(
                        SaveRequest(
                            operations: [
                                SaveOperation(
                                    kind: object.row.rawValue.isMultiple(of: 2) ? .update : .delete,
                                    entity: entity, row: object.row,
                                    values: entity.properties.isEmpty ? [] : [(0, .null)],
                                    resolves: true)
                            ], mergePolicy: .overwrite))
                }
            }
        }
    }
}
