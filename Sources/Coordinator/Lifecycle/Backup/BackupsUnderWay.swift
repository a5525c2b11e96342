import Synchronization

/// The backups that this process is writing. Unfinished files of others have no writer any more.
///
/// A backup is written beside its path under a name of its own, `PATH-<number>-unfinished`, and one that
/// is killed leaves that, as large as the store. Thread-safe; calls block on the disk.
enum BackupsUnderWay {
    /// The names in between, with their folders, without what follows them.
    private static let names = Mutex<Set<String>>([])

    /// Notes that a backup is written under a name, for as long as something is done.
    static func writing<Value>(
        _ name: String, files: any StoreFiles, _ action: () throws -> Value
    ) rethrows -> Value {
        let name = files.resolved(name)
        _ = names.withLock { $0.insert(name) }
        defer { _ = names.withLock { $0.remove(name) } }
        return try action()
    }

    /// Removes what backups to a path have left that were killed; what cannot be removed stays.
    ///
    /// A process writes to a path of its own: nobody can tell what another one is writing from what
    /// it has left.
    static func removeLeftovers(of path: String, files: any StoreFiles) {
        let (folder, name) = split(path)
        for other in files.names(beside: path) {
            guard let number = number(in: other, of: name) else { continue }
            let written = files.resolved("\(folder)\(name)-\(number)")
            guard !names.withLock({ $0.contains(written) }) else { continue }
            try? files.remove(folder + other)
        }
    }

    /// The number in `NAME-<number>-unfinished`, with or without a suffix of SQLite's.
    private static func number(in other: String, of name: String) -> Substring? {
        guard other.hasPrefix(name + "-") else { return nil }
        let rest = other.dropFirst(name.count + 1)
        let number = rest.prefix { $0.isHexDigit }
        guard (1...16).contains(number.count) else { return nil }
        let suffix = rest.dropFirst(number.count)
        let isOurs = BackupFile.suffixes.contains { suffix == "-unfinished" + $0 }
        return isOurs ? number : nil
    }

    private static func split(_ path: String) -> (folder: String, name: String) {
        guard let slash = path.lastIndex(of: "/") else { return ("", path) }
        return (String(path[...slash]), String(path[path.index(after: slash)...]))
    }
}
