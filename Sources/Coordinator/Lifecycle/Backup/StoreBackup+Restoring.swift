import GRDB
public import Merge

extension StoreBackup {
    /// Puts a backup in a store's place. The store that was there is kept beside it, as
    /// `STORE-before-restore`, with its `-wal` and `-shm`, because it may hold saves that nobody
    /// else has; so is the file that names its last incarnation, by which the node knows what must
    /// not be used again.
    ///
    /// - Parameters:
    ///   - backup: a file that ``backUp(to:)`` has made.
    ///   - path: the store's place.
    ///   - cluster: the cluster, which must be the backup's.
    ///   - node: the node, which must be the backup's.
    ///   - isReplacing: whether a store may be there.
    /// - Returns: what was restored.
    /// - Throws: ``CoordinatorError``: `storeInUse` where a process has the store, `fileExists`,
    ///   `storeOwner`, `storeLayout`, `storeDamaged`, `diskFull` or `inputOutput`. Until the
    ///   last step the store is as it was.
    public static func restore(
        _ backup: String, to path: String, cluster: String, node: NodeID,
        isReplacing: Bool = false
    ) throws -> StoreBackup {
        try restore(
            backup, to: path, cluster: cluster, node: node, isReplacing: isReplacing,
            files: SystemFiles())
    }

    /// The same by way of another door to the store's files.
    ///
    /// Where it is cut off while there is no store, the copy of the backup is there, which opening refuses;
    /// then restoring once more finishes it.
    static func restore(
        _ backup: String, to path: String, cluster: String, node: NodeID, isReplacing: Bool,
        files: any StoreFiles
    ) throws -> StoreBackup {
        let path = files.resolved(path)
        guard files.size(of: backup) != nil else {
            throw CoordinatorError(.inputOutput, "There is no file \(backup).")
        }
        let lock = try files.lock(storePath: path)
        defer { lock.release() }
        let isThere = files.size(of: path) != nil
        if isThere, !isReplacing {
            throw CoordinatorError(
                .fileExists, "\(path) is there already; say that it is to be replaced.")
        }
        let aside = path + "-before-restore"
        // It may be all that there is of a store's saves. If an earlier restoring was cut off, the
        // store is kept already.
        let isLogAlone =
            !isThere && files.size(of: path + "-wal") ?? 0 > 0
            && !files.areOne(path + "-wal", aside + "-wal")
        if isThere || isLogAlone { try requireFree(aside, files) }
        let source = try open(backup: backup, cluster: cluster, node: node)
        defer { try? source.close() }
        let copy = Self.pathRestored(path)
        var restored: StoreBackup
        do { restored = try BackupFile(path: copy, files: files).write(from: source) } catch {
            throw blaming(backup, for: error, of: copy)
        }
        if isThere {
            // So that it is one file. A damaged one keeps its log under the new name, and so does
            // one whose disk fails: nothing may build on a log that may have lost a part.
            if (try? files.rewrite(path + "-wal")) != nil {
                try? StoreConnection.emptyLog(of: path)
            }
            try files.link(path, as: aside)
            if files.size(of: path + "-wal") != nil {
                try files.link(path + "-wal", as: aside + "-wal")
                // Without its log it is not the store any more.
                try files.remove(path)
            }
        } else if isLogAlone {
            try files.link(path + "-wal", as: aside + "-wal")
        }
        // Another store's log would be taken for this one's.
        try files.remove(path + "-wal")
        try files.remove(path + "-shm")
        try files.move(copy, to: path)
        restored.path = path
        return restored
    }

    /// Where a backup's copy is before it takes a store's place.
    static func pathRestored(_ path: String) -> String { path + "-restored" }

    /// Refuses a name under which a store is kept already, or what is left of one: another's log beside
    /// it would be taken for its own.
    private static func requireFree(_ aside: String, _ files: any StoreFiles) throws {
        for suffix in ["", "-wal", "-shm"] where files.size(of: aside + suffix) != nil {
            throw CoordinatorError(
                .fileExists,
                "\(aside)\(suffix) is there already, from an earlier restoring. Move \(aside), its -wal "
                    + "and its -shm away, all of them that are there.")
        }
    }

    private static func open(
        backup: String, cluster: String, node: NodeID
    ) throws -> DatabaseQueue {
        do {
            var configuration = Configuration()
            configuration.readonly = true
            let source = try DatabaseQueue(path: backup, configuration: configuration)
            let found = try source.read { database in
                try StoreOpening.check(database, path: backup)
                return try BackupFile.owner(of: database, path: backup)
            }
            guard found.cluster == cluster, found.node == node else {
                throw CoordinatorError(
                    .storeOwner,
                    "\(backup) is of node \(found.node) of cluster \(found.cluster), not of node "
                        + "\(node) of \(cluster).")
            }
            return source
        } catch { throw blaming(backup, for: error, of: backup).naming(backup) }
    }

    /// Names the backup as damaged, also if the damage was seen in its copy; the store may be
    /// sound.
    private static func blaming(
        _ backup: String, for error: any Error, of copy: String
    ) -> CoordinatorError {
        let mapped = CoordinatorError(mapping: error)
        guard mapped.code == .storeDamaged else { return mapped }
        let message = mapped.message
            .replacing("The store is damaged", with: "The backup is damaged, or is none")
            .replacing(copy + "-unfinished", with: backup).replacing(copy, with: backup)
        return CoordinatorError(.storeDamaged, message)
    }
}
