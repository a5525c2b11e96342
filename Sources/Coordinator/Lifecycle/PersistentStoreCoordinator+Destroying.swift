import Merge

extension PersistentStoreCoordinator {
    /// Removes a store, under its lock. Opening it again makes an empty one. Does nothing where there is
    /// none.
    ///
    /// The small file stays that names the store's last incarnation, so that a node of a cluster never
    /// uses one twice. Where it is cut off, destroying once more finishes it.
    ///
    /// - Parameter path: the store's file.
    /// - Throws: ``CoordinatorError``: `storeInUse` where a process has it open, `storeLayout` where the
    ///   file is no store, `inputOutput`.
    public static func destroyPersistentStore(at path: String) throws {
        let files = SystemFiles()
        let path = files.resolved(path)
        guard ["", "-wal", "-shm"].contains(where: { files.size(of: path + $0) != nil }) else {
            return
        }
        let lock = try files.lock(storePath: path)
        defer { lock.release() }
        try StoreConnection.checkHeader(path, files)
        // Its log alone is no store, but an older state of the store without its log would be one.
        for suffix in ["", "-wal", "-shm"] { try files.remove(path + suffix) }
    }

    /// Puts a copy of a store in the place of another, or where there is none. The other is removed.
    /// Nobody has either open for writing meanwhile.
    ///
    /// The copy belongs to the cluster and the node that the source belongs to. As a node's store it
    /// takes no saves until a member has told it what it lacks, as after a restoring.
    ///
    /// - Parameters:
    ///   - path: the place. What is there may be kept for a moment as `PATH-before-restore`.
    ///   - source: the store to copy, with its log.
    /// - Throws: ``CoordinatorError``: `storeInUse`, `storeLayout`, `storeDamaged`, `fileExists`,
    ///   `diskFull` or `inputOutput`. Until the last step the store is as it was.
    public static func replacePersistentStore(
        at path: String, withPersistentStoreFrom source: String
    ) throws {
        let files = SystemFiles()
        let (path, source) = (files.resolved(path), files.resolved(source))
        guard path != source else {
            throw CoordinatorError(.malformed, "\(path) cannot take its own place.")
        }
        guard files.size(of: source) != nil else {
            throw CoordinatorError(.inputOutput, "There is no file \(source).")
        }
        let lock = try files.lock(storePath: source)
        defer { lock.release() }
        let owner = try PersistentStoreCoordinator(readingStoreAt: source)
        defer { owner.close() }
        let wasThere = files.size(of: path) != nil
        _ = try StoreBackup.restore(
            source, to: path, cluster: owner.cluster, node: owner.node, isReplacing: true,
            files: files)
        if wasThere {
            for suffix in ["", "-wal", "-shm"] {
                try files.remove(path + "-before-restore" + suffix)
            }
        }
    }
}
