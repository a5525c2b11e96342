import CSQLite
import GRDB
import GRDBSQLite

/// Writes the write-ahead log back into the store's file whenever it has grown long enough, and
/// when the store is closed.
///
/// SQLite would do so by itself, and keep to itself how it went. But a checkpoint begins with a
/// sync of the log, and where that fails the system forgets what it had to write: the next sync
/// succeeds, though a part of the log in the midst is on no disk. Saves after it would be
/// acknowledged, and gone with the power. So a checkpoint that the disk fails fails the commit it
/// follows, and that stops the writer.
///
/// Nor may the log be deleted then. Where readers keep a checkpoint from reaching the log's end,
/// SQLite syncs nothing and leaves it to a later one; if that one's sync fails, the pages of both
/// are on no disk, and a third, which writes only what the second did not, would succeed. The next
/// process begins with none written back.
enum LogCheckpoint {
    /// Has a connection write the log back after commits; in place of SQLite's own automatism,
    /// which `PRAGMA wal_autocheckpoint` would bring back.
    ///
    /// - Parameter pages: how long the log must be, in pages; 0 for never.
    static func follow(commitsOf database: Database, pages: Int) {
        // The number goes along as an address that nobody looks at, as SQLite itself does it.
        let length = UnsafeMutableRawPointer(bitPattern: max(0, pages))
        sqlite3_wal_hook(
            database.sqliteConnection,
            { length, connection, name, pages in
                guard let length, Int(pages) >= Int(bitPattern: length) else { return SQLITE_OK }
                let code = sqlite3_wal_checkpoint_v2(
                    connection, name, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
                // Readers in the way, or a full disk: a later commit tries again.
                return code & 0xFF == SQLITE_IOERR ? code : SQLITE_OK
            }, length)
    }

    /// Has the log's file shrink to so many pages whenever the log starts over: SQLite truncates it
    /// with the first commit of the new log. Without it the file keeps the greatest length it had.
    ///
    /// - Parameter pages: how long the log is to become; 0 for no limit.
    static func limitFile(of database: Database, pages: Int) throws {
        let bytes = pages > 0 ? Int64(pages) * fileSlack * pageBytes : -1
        try database.execute(sql: "PRAGMA journal_size_limit = \(bytes)")
    }

    /// How much longer the file may stay than the log is to become: commits that come while a checkpoint
    /// runs make it so, and a file that shrinks and grows all the time costs the disk.
    private static let fileSlack: Int64 = 2
    private static let pageBytes: Int64 = 4_096

    /// Writes the log back to its end, and has it start over with the next commit.
    ///
    /// A checkpoint after a commit gets no further than the oldest reader. If readers overlap
    /// without a pause, there always is one from before the commit, and the log grows for as long
    /// as they go on. Here new readers read the latest commit, and those from before are waited
    /// for, for a moment.
    ///
    /// - Parameter patience: how long they are waited for, in milliseconds.
    /// - Throws: `DatabaseError` where the disk failed; what else is in the way leaves the log as it is.
    static func restart(_ database: Database, patience: Int32) throws {
        let connection = database.sqliteConnection
        sqlite3_busy_timeout(connection, patience)
        let code = sqlite3_wal_checkpoint_v2(
            connection, nil, SQLITE_CHECKPOINT_RESTART, nil, nil)
        sqlite3_busy_timeout(connection, Int32(busySeconds * 1_000))
        if code & 0xFF == SQLITE_IOERR {
            throw DatabaseError(
                resultCode: ResultCode(rawValue: code), message: "The log cannot be written back.")
        }
    }

    /// How long a connection waits for a lock that another has.
    static let busySeconds = 5.0

    /// Has a connection leave the log as it is when it closes, or write it back and delete it, as
    /// SQLite does by itself.
    static func setAtClosing(_ isOn: Bool, of database: Database) {
        let code = sqlite3_set_checkpoint_on_close(database.sqliteConnection, isOn ? 1 : 0)
        guard code == SQLITE_OK else {
            fatalError("SQLite knows no SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE.")
        }
    }
}
