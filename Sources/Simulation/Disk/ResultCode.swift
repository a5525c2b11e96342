import GRDBSQLite

/// SQLite's extended result codes, whose macros Swift does not import.
enum ResultCode {
    static let readError = SQLITE_IOERR | (1 << 8)
    static let shortRead = SQLITE_IOERR | (2 << 8)
    static let writeError = SQLITE_IOERR | (3 << 8)
    static let syncError = SQLITE_IOERR | (4 << 8)
    static let folderSyncError = SQLITE_IOERR | (5 << 8)
    static let truncateError = SQLITE_IOERR | (6 << 8)
    static let sizeError = SQLITE_IOERR | (7 << 8)
    static let removeError = SQLITE_IOERR | (10 << 8)
    static let accessError = SQLITE_IOERR | (13 << 8)
    static let lockError = SQLITE_IOERR | (15 << 8)
    static let sharedLockError = SQLITE_IOERR | (20 << 8)
    static let sharedMapError = SQLITE_IOERR | (21 << 8)
    static let removeMissing = SQLITE_IOERR | (23 << 8)
}
