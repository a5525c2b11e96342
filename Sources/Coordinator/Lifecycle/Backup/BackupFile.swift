import GRDB
import Glibc
import Merge

/// Makes a copy of a store that is a store in its own right, and marks it as one.
///
/// The copy is made beside its place and moved there when it is whole and, where that is wanted, on
/// disk, so that nothing half copied is ever found under its name.
struct BackupFile {
    let path: String
    let files: any StoreFiles
    /// Whether the copy waits for the disk. One that is made to be read by others soon, who check
    /// it, need not: to sync a large file keeps the saves of its store waiting.
    var isDurable = true

    /// Pages copied at a time, and the pause in between, in microseconds: others come to the source,
    /// and to the processor and the disk. A gigabyte takes three seconds longer by it.
    private static let pagesInStep: CInt = 100
    private static let pauseMicroseconds: UInt32 = 1_000

    /// The suffixes of a file that is being written and of those that SQLite may put beside it.
    static let suffixes = ["", "-journal", "-wal", "-shm"]

    private var unfinished: String { path + "-unfinished" }

    /// Copies what a connection reads, checks the copy, and puts it in its place.
    ///
    /// - Throws: ``CoordinatorError``: `diskFull`, `inputOutput` or `storeDamaged`; then there is
    ///   nothing in its place that was not there before.
    func write(from source: any DatabaseReader) throws -> StoreBackup {
        do {
            try discard()
            var backup = try copy(source)
            backup.bytes = files.size(of: unfinished) ?? 0
            try files.move(unfinished, to: path)
            return backup
        } catch {
            try? discard()
            throw CoordinatorError(
                mapping: error, diskFull: "The disk is full, so that the copy could not be made."
            ).naming(path)
        }
    }

    /// Removes what a copying that did not end has left.
    func discard() throws {
        for suffix in Self.suffixes {
            try files.remove(unfinished + suffix)
        }
    }

    private func copy(_ source: any DatabaseReader) throws -> StoreBackup {
        var configuration = Configuration()
        configuration.label = "tributary.backup"
        let copy = try DatabaseQueue(path: unfinished, configuration: configuration)
        defer { try? copy.close() }
        return try copy.writeWithoutTransaction { database in
            let mode = isDurable ? "FULL" : "OFF"
            try database.execute(sql: "PRAGMA synchronous = \(mode)")
            try source.read { source in
                // Begins the transaction in which all steps copy one state.
                _ = try Int.fetchOne(source, sql: "SELECT count(*) FROM _state")
                try source.backup(to: database, pagesPerStep: Self.pagesInStep) { progress in
                    if !progress.isCompleted { usleep(Self.pauseMicroseconds) }
                }
            }
            // One file, whole in itself: the log's mode came with the header.
            try database.execute(
                sql: "PRAGMA journal_mode = DELETE; PRAGMA synchronous = \(mode)")
            // It lacks what its node will have told others by the time it is put in its place.
            try database.execute(
                sql: "UPDATE _state SET recovery = ?", arguments: [StoreRecovery.restored.rawValue])
            try database.execute(sql: "DELETE FROM _founder")
            try StoreOpening.check(database, path: unfinished)
            return try Self.describe(database, path: path)
        }
    }

    /// Describes the content of a store's file.
    private static func describe(_ database: Database, path: String) throws -> StoreBackup {
        let owner = try owner(of: database, path: path)
        return StoreBackup(
            path: path, bytes: 0, cluster: owner.cluster, node: owner.node,
            generation: owner.generation,
            versionVector: try StoreLayout.readActors(in: database).1,
            membership: try StoreLayout.readMembership(in: database))
    }

    /// A store's owner, and its generation.
    static func owner(
        of database: Database, path: String
    ) throws -> (cluster: String, node: NodeID, generation: UInt64) {
        guard
            let row = try Row.fetchOne(
                database, sql: "SELECT cluster, node, generation FROM _state"),
            let node = NodeID(try row.integer("node"))
        else { throw CoordinatorError(.storeDamaged, "\(path) has lost its state.") }
        return (
            try row.text("cluster"), node, UInt64(bitPattern: try row.integer("generation"))
        )
    }
}
