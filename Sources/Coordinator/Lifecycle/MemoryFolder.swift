import Foundation
import Glibc
public import Merge
import Synchronization

/// A folder for a store that is kept in memory alone. It goes with the last reference, and is swept away
/// by the next one if its program was killed.
///
/// It is in the system's memory file system, so that the store is SQLite's with its log, as others are.
final class MemoryFolder: Sendable {
    /// The folder.
    let path: String

    private let descriptor: Int32
    private let isThere = Mutex(true)

    private static let parent = "/dev/shm"
    private static let prefix = "tributary-memory-"

    /// Makes a folder of its own.
    ///
    /// - Throws: ``CoordinatorError`` `inputOutput` where there is no memory file system, or no room.
    init() throws {
        Self.sweep()
        let name = UUID().uuidString
        // Nobody sweeps it away before it is locked.
        let unlocked = "\(Self.parent)/tributary-new-\(name)"
        path = "\(Self.parent)/\(Self.prefix)\(name)"
        guard mkdir(unlocked, 0o700) == 0 else {
            let reason = String(cString: strerror(errno))
            descriptor = -1
            throw CoordinatorError(
                .inputOutput, "There is no room for a store in memory: \(unlocked): \(reason).")
        }
        descriptor = open(unlocked, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0, flock(descriptor, LOCK_EX | LOCK_NB) == 0,
            rename(unlocked, path) == 0
        else {
            let reason = String(cString: strerror(errno))
            rmdir(unlocked)
            throw CoordinatorError(
                .inputOutput, "A store in memory cannot be made: \(unlocked): \(reason).")
        }
    }

    /// Removes the folder with what is in it; more than once is harmless.
    func remove() {
        let isFirst = isThere.withLock { isThere in
            defer { isThere = false }
            return isThere
        }
        guard isFirst, descriptor >= 0 else { return }
        try? FileManager.default.removeItem(atPath: path)
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    deinit { remove() }

    /// Removes folders of programs that have ended without.
    private static func sweep() {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: parent)) ?? []
        for name in names where name.hasPrefix(prefix) {
            let path = "\(parent)/\(name)"
            let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
            guard descriptor >= 0 else { continue }
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 {
                try? FileManager.default.removeItem(atPath: path)
            }
            close(descriptor)
        }
    }
}

extension PersistentStoreCoordinator {
    /// Opens a new store that is kept in memory alone, as an NSInMemoryStoreType's: it is gone when the
    /// coordinator is closed or released. All else is as with a store on a disk: constraints, history,
    /// query generations, backups.
    ///
    /// Nobody finds it again, but it takes memory until it is closed: close it before the program ends.
    /// What a program has left is removed when the same user next opens a store in memory, or at
    /// the next start of the machine.
    ///
    /// - Parameters:
    ///   - model: the schema.
    ///   - cluster: the name of the cluster; what is never to be a node's may keep the default.
    ///   - node: the node; nil for the first.
    ///   - options: as for a store on a disk.
    /// - Throws: ``CoordinatorError``: `inputOutput` where the system has no memory file system, and
    ///   `diskFull` where it is full.
    public convenience init(
        inMemory model: ManagedObjectModel, cluster: String = "local", node: NodeID? = nil,
        options: Options = Options()
    ) throws {
        let folder = try MemoryFolder()
        var options = options
        options.memory = folder
        try self.init(
            storeAt: folder.path + "/store.sqlite", model: model, cluster: cluster,
            node: node ?? .first,
            options: options)
    }
}
