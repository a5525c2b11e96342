// What SQLite and GRDB throw, as errors of a coordinator.

internal import GRDB
internal import GRDBSQLite

extension CoordinatorError {
    /// The same error with the file it is about, where its message does not name it yet.
    func naming(_ path: String) -> CoordinatorError {
        if message.contains(path) { return self }
        return CoordinatorError(
            code, "\(path): \(message)", conflicts: conflicts, failures: failures)
    }

    /// The meaning of a full disk for a running node.
    static let diskFullWhileRunning = "The disk is full; nothing was saved, and reads go on."

    /// Makes a typed error of whatever SQLite or GRDB threw.
    ///
    /// - Parameter diskFull: what a full disk means there.
    init(mapping error: any Error, diskFull: String = diskFullWhileRunning) {
        let primary: Int32
        let message: String
        switch error {
        case let error as CoordinatorError:
            self = error
            return
        case let failure as SQLFailure: (primary, message) = (failure.primary, failure.message)
        case let failure as DatabaseError:
            primary = failure.resultCode.rawValue
            message = failure.message ?? "\(failure)"
        default: (primary, message) = (SQLITE_IOERR, "\(error)")
        }
        switch primary {
        case SQLITE_FULL:
            self.init(.diskFull, diskFull)
        case SQLITE_CORRUPT:
            self.init(.storeDamaged, "The store is damaged: \(message).")
        case SQLITE_NOTADB:
            self.init(
                .storeDamaged,
                "It is no Tributary store, or the store's beginning is damaged: \(message).")
        case SQLITE_BUSY, SQLITE_LOCKED:
            self.init(.storeInUse, "The store is in use by another process: \(message).")
        default: self.init(.inputOutput, "SQLite failed: \(message) (\(primary)).")
        }
    }
}
