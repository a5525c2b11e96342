import GRDB
import Merge

/// What there is of a store under its path, to be removed.
struct StoreRemoval {
    let path: String
    let files: any StoreFiles

    /// The suffixes of what is removed: a restoring's copy first, for opening refuses to go on without
    /// it, then the store. Its log alone is no store, but the store without its log would be an older one.
    private var suffixes: [String] { ["-restored", "", "-wal", "-shm"] }

    var isThere: Bool { suffixes.contains { files.size(of: path + $0) != nil } }

    /// Refuses what is not known to be a store: its file says that it is one, or there is the file beside it
    /// that names its last incarnation.
    ///
    /// - Throws: ``CoordinatorError`` `storeLayout`.
    func requireStore() throws {
        if try IncarnationRecord.read(path, files) != nil { return }
        guard StoreConnection.isMarked(path, files) else {
            throw CoordinatorError(.storeLayout, "\(path) is no Tributary store.")
        }
    }

    func remove() throws { for suffix in suffixes { try files.remove(path + suffix) } }
}

extension PersistentStoreCoordinator {
    /// Removes a store, under its lock. Opening it again makes an empty one. Does nothing where there is
    /// none.
    ///
    /// The small file stays that names the store's last incarnation, so that a node of a cluster never
    /// uses one twice. If it is cut off, destroying once more finishes it.
    ///
    /// - Parameter path: the store's file.
    /// - Throws: ``CoordinatorError``: `storeInUse` where a process has it open, `storeLayout` where the
    ///   file is no store, `inputOutput`.
    public static func destroyPersistentStore(at path: String) throws {
        let files = SystemFiles()
        let removal = StoreRemoval(path: files.resolved(path), files: files)
        guard removal.isThere else { return }
        try removal.requireStore()
        let lock = try files.lock(storePath: removal.path)
        defer { lock.release() }
        try removal.remove()
    }

    /// Puts a copy of a store in the place of another, which is removed, or where there is none. Nobody has
    /// either open for writing meanwhile.
    ///
    /// The copy belongs to the cluster and the node that the source belongs to. As a node's store it
    /// takes no saves until a member has told it what it lacks, as after a restoring. If it is cut off
    /// while there is no store, opening refuses to make one, and replacing once more finishes it.
    ///
    /// - Parameters:
    ///   - path: the place.
    ///   - source: the store to copy, with its log. Its folder must be one that can be written, because the
    ///     store's lock is there.
    /// - Throws: ``CoordinatorError``: `storeInUse`, `storeLayout` where either is there and no store,
    ///   `storeDamaged`, `diskFull` or `inputOutput`. Until the last step the store is as it was.
    public static func replacePersistentStore(
        at path: String, withPersistentStoreFrom source: String
    ) throws {
        let files = SystemFiles()
        let removal = StoreRemoval(path: files.resolved(path), files: files)
        let source = files.resolved(source)
        guard removal.path != source else {
            throw CoordinatorError(.malformed, "\(path) cannot take its own place.")
        }
        guard files.size(of: source) != nil else {
            throw CoordinatorError(.inputOutput, "There is no file \(source).")
        }
        try StoreRemoval(path: source, files: files).requireStore()
        if removal.isThere { try removal.requireStore() }
        let sourceLock = try files.lock(storePath: source)
        defer { sourceLock.release() }
        let lock = try files.lock(storePath: removal.path)
        defer { lock.release() }
        let copy = StoreBackup.pathRestored(removal.path)
        do {
            let reader = try StoreConnection.connection(to: source)
            _ = try BackupFile(path: copy, files: files).write(from: reader)
            try reader.close()
        } catch { throw CoordinatorError(mapping: error).naming(source) }
        for suffix in ["", "-wal", "-shm"] { try files.remove(removal.path + suffix) }
        try files.move(copy, to: removal.path)
    }
}
