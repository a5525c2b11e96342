import GRDB
import Merge

extension PersistentStoreCoordinator {
    /// Copies the newest state of the store to a file, which is a store in its own right. Saves
    /// and reads go on meanwhile; the write-ahead log grows by what is saved.
    ///
    /// The copy is marked. Put in the store's place, it opens as an incarnation of its own, which
    /// takes no saves until a member has told it what it lacks (DESIGN section 13). Blocks, so it
    /// must not run on the threads of tasks. Copying a store's files while it is open makes no
    /// backup.
    ///
    /// - Parameter path: the new file; its folder must exist. Meanwhile a file beside it is used.
    ///   Its name is the path with a random number, so that two backups to one path do not meet.
    ///   The file of a killed backup to this path is removed.
    /// - Throws: ``CoordinatorError``: `fileExists`, `diskFull`, `inputOutput`, or `storeDamaged`
    ///   where the copy is found to be. Then there is no file.
    public func backUp(to path: String) throws -> StoreBackup {
        let files = options.files
        func checkPath() throws {
            guard files.size(of: path) == nil else {
                throw CoordinatorError(
                    .fileExists, "\(path) exists already; a backup never replaces a file.")
            }
        }
        try checkPath()
        let made = path + "-" + String(options.random(), radix: 16)
        return try BackupsUnderWay.writing(made, files: files) {
            BackupsUnderWay.removeLeftovers(of: path, files: files)
            return try backUp(to: path, by: made, checkPath)
        }
    }

    /// Backs up to a path by way of another name.
    private func backUp(
        to path: String, by made: String, _ checkPath: () throws -> Void
    ) throws -> StoreBackup {
        let files = options.files
        var backup: StoreBackup
        do {
            backup = try BackupFile(path: made, files: files).write(from: pool)
        } catch let error as CoordinatorError {
            // The caller does not know the names in between.
            let message = error.message.replacing(made + "-unfinished", with: path)
            throw CoordinatorError(error.code, message.replacing(made, with: path))
        }
        backup.path = path
        do {
            // A second name is refused where somebody has the path by now; a file system that
            // knows no second names moves it.
            do { try files.link(made, as: path) } catch {
                try checkPath()
                try files.move(made, to: path)
            }
            try files.remove(made)
        } catch {
            try? files.remove(made)
            throw CoordinatorError(mapping: error).naming(path)
        }
        return backup
    }
}
