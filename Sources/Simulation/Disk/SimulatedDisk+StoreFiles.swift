package import Coordinator
import GRDBSQLite
import Merge
import Replication

extension SimulatedDisk: StoreFiles {
    /// Releases a store's lock unless its process is dead.
    private final class Lock: StoreLock {
        private let disk: SimulatedDisk
        private let storePath: String
        private let life: UInt64
        let lastHolder: ActorID?

        init(_ disk: SimulatedDisk, _ storePath: String, _ life: UInt64) {
            self.disk = disk
            self.storePath = storePath
            self.life = life
            lastHolder = disk.lastHolder
        }

        func note(holder: ActorID) {
            disk.guarded { if disk.life == life { disk.lastHolder = holder } }
        }

        func release() {
            disk.guarded {
                if disk.life == life { disk.lockedStores.removeAll { $0 == storePath } }
            }
        }

        deinit { release() }
    }

    /// As ``SystemFiles`` has it; the lock makes no file, and forgets its holder with the power.
    package func lock(storePath: String) throws -> any StoreLock {
        try guarded {
            if isOut { throw Self.failure("lock", storePath) }
            guard !lockedStores.contains(storePath) else {
                throw CoordinatorError(
                    .storeInUse, "The store \(storePath) is in use by another process.")
            }
            lockedStores.append(storePath)
            return Lock(self, storePath, life)
        }
    }

    /// The length of a file in bytes; nil if there is none, or the disk does not answer any more.
    package func size(of path: String) -> UInt64? {
        guard let name = name(path) else { return nil }
        return guarded { isOut ? nil : find(name).map { UInt64($0.size) } }
    }

    /// Nobody can tell: it is full when a fault says so.
    package func room(beside path: String) -> UInt64? { nil }

    /// As ``SystemFiles`` has it.
    package func read(_ path: String, from offset: UInt64, count: Int) -> [UInt8]? {
        guard let name = name(path), let start = Int(exactly: offset), count >= 0 else {
            return nil
        }
        return guarded {
            guard !isOut, let file = find(name), beginRead() == nil else { return nil }
            return [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
                filled = file.running.read(
                    into: UnsafeMutableRawBufferPointer(buffer), from: start)
            }
        }
    }

    /// One operation: a fault that strikes it leaves the old file or the new one.
    package func replace(_ path: String, with bytes: [UInt8]) throws {
        guard let name = name(path) else { throw Self.failure("replace", path) }
        try guarded {
            if isOut { throw Self.failure("replace", path) }
            counters.syncs += 1
            let fault = beginOperation { $0 != .readError }
            // Both are there for a moment.
            guard hasRoom(for: bytes.count) else {
                throw CoordinatorError(.diskFull, "The disk is full: cannot replace \(path).")
            }
            let isDone =
                fault == nil || (fault != .writeError && generator.next().isMultiple(of: 2))
            if isDone {
                let entry = Entry(name: name, file: DiskFile(bytes))
                entries.removeAll { $0.name == name }
                entries.append(entry)
                durableEntries.removeAll { $0.name == name }
                durableEntries.append(entry)
            }
            if fault != nil { throw Self.failure("replace", path) }
        }
    }

    /// As ``SystemFiles`` has it, in two operations: a write and a sync.
    package func rewrite(_ path: String) throws {
        guard let name = name(path) else { throw Self.failure("rewrite", path) }
        try guarded {
            if isOut { throw Self.failure("rewrite", path) }
            guard let file = find(name), file.size > 0 else { return }
            guard beginRead() == nil else { throw Self.failure("rewrite", path) }
            // A copy, because the file's own bytes move when it is written.
            let bytes = Array(file.running.bytes)
            guard bytes.withUnsafeBytes({ write($0, to: file, at: 0) }) == SQLITE_OK,
                sync(file, name: name, withFolder: true) == SQLITE_OK
            else { throw Self.failure("rewrite", path) }
        }
    }

    /// As ``SystemFiles`` has it, in two operations: a write and a sync.
    package func write(_ bytes: [UInt8], to path: String, at offset: UInt64) throws {
        guard let name = name(path), let start = Int(exactly: offset) else {
            throw Self.failure("write", path)
        }
        try guarded {
            if isOut { throw Self.failure("write", path) }
            guard let file = find(name) ?? create(name) else {
                throw Self.failure("create", path)
            }
            switch bytes.withUnsafeBytes({ write($0, to: file, at: start) }) {
            case SQLITE_OK: break
            case SQLITE_FULL:
                throw CoordinatorError(.diskFull, "The disk is full: cannot write \(path).")
            default: throw Self.failure("write", path)
            }
            guard sync(file, name: name, withFolder: true) == SQLITE_OK else {
                throw Self.failure("sync", path)
            }
        }
    }

    /// As ``SystemFiles`` has it; one operation that is done or not, as a system's is.
    package func move(_ path: String, to other: String) throws {
        guard let name = name(path), let newName = self.name(other) else {
            throw Self.failure("rename", path)
        }
        try rename("rename", path) {
            guard let file = find(name) else { return false }
            entries.removeAll { $0.name == newName || $0.name == name }
            entries.append(Entry(name: newName, file: file))
            return true
        }
    }

    /// As ``SystemFiles`` has it, likewise.
    package func link(_ path: String, as other: String) throws {
        guard let name = name(path), let newName = self.name(other) else {
            throw Self.failure("link", path)
        }
        try rename("link", path) {
            guard let file = find(name), find(newName) == nil else { return false }
            entries.append(Entry(name: newName, file: file))
            return true
        }
    }

    private func rename(_ verb: String, _ path: String, _ change: () -> Bool) throws {
        try guarded {
            if isOut { throw Self.failure(verb, path) }
            counters.syncs += 1
            let fault = beginOperation { $0 != .readError }
            let isDone =
                fault == nil || (fault != .writeError && generator.next().isMultiple(of: 2))
            guard isDone, change() else { throw Self.failure(verb, path) }
            syncFolder()
            if fault != nil { throw Self.failure(verb, path) }
        }
    }

    /// As ``SystemFiles`` has it, in one operation.
    package func remove(_ path: String) throws {
        guard let name = name(path) else { throw Self.failure("remove", path) }
        let code = remove(name, syncsFolder: true)
        guard code == SQLITE_OK || code == ResultCode.removeMissing else {
            throw Self.failure("remove", path)
        }
    }

    /// The name of a file of this disk; nil for every other path.
    private func name(_ path: String) -> String? {
        let folder = self.path("")
        return path.hasPrefix(folder) ? String(path.dropFirst(folder.count)) : nil
    }

    private static func failure(_ verb: String, _ path: String) -> CoordinatorError {
        CoordinatorError(.inputOutput, "Cannot \(verb) \(path): the simulated disk failed.")
    }
}
