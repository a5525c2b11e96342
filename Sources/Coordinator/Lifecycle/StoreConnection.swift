import GRDB
import Merge

/// Looks at a store's file for an opening, and connects to it.
enum StoreConnection {
    /// Whether a file says that it is a store. One that was just made may say so in its log alone.
    static func isMarked(_ path: String, _ files: any StoreFiles) -> Bool {
        guard let header = files.read(path, from: 0, count: 100), header.count == 100,
            header.starts(with: Array("SQLite format 3\0".utf8))
        else { return false }
        let mark = header[68..<72].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        return Int32(bitPattern: mark) == StoreLayout.applicationID
    }

    /// Refuses another program's database, and a store of another layout, before SQLite opens it,
    /// because opening it for writing changes its journal mode.
    ///
    /// A file that uses no page but the first has no tables, so it is another program's only if it
    /// is marked: a failed creation leaves such a file, because the pool first makes and drops a
    /// table in it. If a log lies beside it, the header may be out of date; the checks after
    /// opening see to that.
    ///
    /// Only the holder of the store's lock may call it: reading the file closes a descriptor of it,
    /// and with that the kernel drops all locks on it that SQLite holds for this process.
    private static func checkHeader(_ path: String, _ files: any StoreFiles) throws {
        guard let header = files.read(path, from: 0, count: 100), header.count == 100,
            header.starts(with: Array("SQLite format 3\0".utf8)),
            let size = files.size(of: path), files.size(of: path + "-wal") ?? 0 == 0
        else { return }
        func number(at offset: Int) -> Int32 {
            let bytes = header[offset..<offset + 4]
            return Int32(bitPattern: bytes.reduce(UInt32(0)) { $0 << 8 | UInt32($1) })
        }
        let application = number(at: 68)
        let isMarked = application != 0 || number(at: 60) != 0
        // 1 stands for 65,536, which two bytes cannot hold.
        let field = UInt64(header[16]) << 8 | UInt64(header[17])
        let pageSize: UInt64 = field == 1 ? 65_536 : max(field, 512)
        let pagesFree = UInt64(UInt32(bitPattern: number(at: 36)))
        let isBare = size <= pageSize || size == (pagesFree + 1) * pageSize
        guard application == StoreLayout.applicationID || (isBare && !isMarked) else {
            throw CoordinatorError(.storeLayout, "\(path) is no Tributary store.")
        }
        if application == StoreLayout.applicationID {
            try StoreLayout.check(version: number(at: 60), path: path)
        }
    }

    /// Refuses to make a new store if more than the name of its last incarnation is there: SQLite
    /// removes a log that it finds beside a new file, and that may hold all saves.
    ///
    /// - Throws: ``CoordinatorError``: `storeIncomplete`.
    static func checkCompleteness(_ path: String, _ files: any StoreFiles) throws {
        let copy = StoreBackup.pathRestored(path)
        guard files.size(of: path) == nil else {
            // Its restoring was cut off while the store was as before: it shall not be taken for the store
            // once that is gone.
            if files.size(of: copy) != nil { try? files.remove(copy) }
            return
        }
        if files.size(of: copy) != nil {
            throw CoordinatorError(
                .storeIncomplete,
                "There is no store \(path), but \(copy): a restoring was cut off. Restore the backup once "
                    + "more, which finishes it. Where the backup is gone, move \(path)-wal and "
                    + "\(path)-shm away, if they are there, and rename \(copy) to \(path).")
        }
        if files.size(of: path + "-wal") ?? 0 > 0 {
            throw CoordinatorError(
                .storeIncomplete,
                "There is no store \(path), but its log \(path)-wal, which may hold saves that are nowhere "
                    + "else. Put the store's file back beside its log. Where it is lost, rebuild the store "
                    + "or restore a backup: both keep the log under another name.")
        }
    }

    /// Takes a store's lock, and refuses another program's database, and what is left of a store,
    /// without leaving a trace.
    ///
    /// - Throws: ``CoordinatorError``: `storeInUse`, `storeIncomplete`, `storeLayout` or `inputOutput`.
    static func takeOwnership(_ path: String, _ files: any StoreFiles) throws -> any StoreLock {
        let lockFile = path + "-lock"
        let wasThere = files.size(of: lockFile) != nil
        let lock = try files.lock(storePath: path)
        do {
            try checkCompleteness(path, files)
            try checkHeader(path, files)
        } catch {
            if !wasThere { try? files.remove(lockFile) }
            lock.release()
            throw error
        }
        return lock
    }

    /// Opens the store that a pool has open, as ``StoreEngine`` does.
    ///
    /// The pool closes where this fails, and with that SQLite writes the log back, but not after a
    /// failure of the disk, nor into what was found damaged: the log may be what makes it whole.
    static func open(
        _ pool: DatabasePool, _ model: ManagedObjectModel, _ cluster: String, _ node: NodeID,
        _ options: PersistentStoreCoordinator.Options
    ) throws -> StoreEngine {
        let environment = StoreSession.Environment(
            wallMilliseconds: options.wallMilliseconds, random: options.random)
        return try pool.writeWithoutTransaction { database in
            LogCheckpoint.follow(commitsOf: database, pages: options.checkpointPages)
            do {
                try LogCheckpoint.limitFile(of: database, pages: options.checkpointPages)
                return try StoreOpening.open(
                    database, path: pool.path, model: model, cluster: cluster, node: node,
                    environment: environment,
                    minimumIncarnation: options.minimumIncarnation, migration: options.migration,
                    files: options.files, indexesHistory: options.indexesHistory)
            } catch {
                let code = CoordinatorError(mapping: error).code
                if ![.inputOutput, .storeDamaged].contains(code) {
                    LogCheckpoint.setAtClosing(true, of: database)
                }
                throw error
            }
        }
    }

    static func readOwner(_ database: Database, path: String) throws -> (
        model: ManagedObjectModel, cluster: String, node: NodeID, names: NameTable,
        actors: ActorTable, recovery: StoreRecovery, history: ModelHistory
    ) {
        let statement = try database.prepared(
            "SELECT cluster, node, (SELECT json FROM _model WHERE current = 1), recovery "
                + "FROM _state")
        guard try statement.step(), let node = NodeID(statement.integer(1)) else {
            throw CoordinatorError(.storeDamaged, "\(path) has lost its state.")
        }
        defer { statement.reset() }
        let model: ManagedObjectModel
        do {
            model = try ManagedObjectModel(json: Array(statement.text(2).utf8))
        } catch {
            throw CoordinatorError.keptModel(of: path, error)
        }
        return (
            model, statement.text(0), node, try StoreLayout.readNames(in: database),
            try StoreLayout.readActors(in: database).0,
            StoreRecovery(rawValue: Int(statement.integer(3))) ?? .restored,
            try StoreModels.history(of: model, in: database, path: path)
        )
    }

    static func configuration(_ options: PersistentStoreCoordinator.Options) -> Configuration {
        var configuration = Configuration()
        configuration.maximumReaderCount = min(max(options.readers, 1), 64)
        configuration.busyMode = .timeout(LogCheckpoint.busySeconds)
        configuration.label = "tributary.store"
        // The connections hold this closure, and so the trace, as long as they are open.
        let trace = options.sqlDebug.flatMap { SQLTrace($0) }
        configuration.prepareDatabase { database in
            if !database.configuration.readonly {
                try database.execute(
                    sql: """
                        PRAGMA journal_mode = WAL;
                        PRAGMA wal_autocheckpoint = 0;
                        """)
            }
            LogCheckpoint.setAtClosing(false, of: database)
            try database.execute(sql: "PRAGMA cache_size = -8192; PRAGMA temp_store = MEMORY")
            PredicateFunctions.register(on: database)
            trace?.follow(database)
        }
        return configuration
    }

    /// Writes a store's log back into its file, and waits for those who read it for some seconds.
    ///
    /// - Throws: GRDB's error, SQLITE_BUSY where somebody reads on.
    static func emptyLog(of path: String) throws {
        let store = try connection(to: path)
        try store.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        try store.close()
    }

    /// A connection to a store that nobody has open, though its file may be read: by `tributary sql
    /// --store`, or by a program that copies it.
    static func connection(to path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(busySeconds)
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// How long those who read a store's file are waited for.
    static let busySeconds: Double = 5
}
