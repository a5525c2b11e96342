import GRDBSQLite
import Glibc
import Replication
import Synchronization

/// The file system that simulated disks put before SQLite's default one: it serves the paths
/// below "/simulated/", and passes all others on.
///
/// SQLite opens connections with its default file system where none is named, as GRDB does; so it
/// is registered as that, once a process.
enum VirtualFileSystem {
    /// SQLite's memory for an open file of ours: `handle` is a retained ``SimulatedHandle``.
    struct OpenFile {
        var base: sqlite3_file
        var handle: UnsafeMutableRawPointer?
    }

    private struct Run {
        var generator: SeededGenerator
        var wallMilliseconds: (@Sendable () -> UInt64)?
    }

    private static let run = Mutex<Run?>(nil)

    // Safe: both are set before they are shared and live as long as the process; SQLite's own
    // file system is made for all threads.
    nonisolated(unsafe) static let original = sqlite3_vfs_find(nil)
    private nonisolated(unsafe) static let own = makeFileSystem()

    /// Set in a thread whose lock was refused last: SQLite sleeps next, and must not, because
    /// nobody but this thread could release it, and time is not real.
    private static let wasRefused: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    private static let registered: Bool = {
        guard original != nil else { return false }
        return sqlite3_vfs_register(own, 1) == SQLITE_OK
    }()

    /// Puts it before the default one, the first time.
    static func register() {
        guard registered else { fatalError("SQLite takes no file system.") }
    }

    /// Starts SQLite's chance over from a seed.
    static func beginRun(seed: UInt64, wallMilliseconds: (@Sendable () -> UInt64)?) {
        register()
        run.withLock {
            $0 = Run(
                generator: SeededGenerator(seed: seed), wallMilliseconds: wallMilliseconds)
        }
        // No bytes asked for: SQLite forgets its chance, and asks for a seed with the next one.
        sqlite3_randomness(0, nil)
    }

    /// Notes a refused lock; gives the code on.
    static func noting(_ code: Int32) -> Int32 {
        if code == SQLITE_BUSY {
            pthread_setspecific(wasRefused, UnsafeRawPointer(bitPattern: 1))
        }
        return code
    }

    private static func makeFileSystem() -> UnsafeMutablePointer<sqlite3_vfs> {
        let system = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        // What is not replaced, loading extensions, asks nothing of the structure it is given.
        system.initialize(to: original?.pointee ?? sqlite3_vfs())
        // Version 2 has no system calls to replace, which are the original's.
        system.pointee.iVersion = 2
        system.pointee.pNext = nil
        system.pointee.zName = UnsafePointer(strdup("tributary-simulation"))
        system.pointee.szOsFile = max(
            system.pointee.szOsFile, Int32(MemoryLayout<OpenFile>.size))
        setPathFunctions(&system.pointee)
        setProcessFunctions(&system.pointee)
        return system
    }

    private static func setPathFunctions(_ system: inout sqlite3_vfs) {
        system.xOpen = { _, path, file, flags, outFlags in
            guard let path, let file, let found = DiskRegistry.find(path) else {
                return VirtualFileSystem.original?.pointee.xOpen?(
                    VirtualFileSystem.original, path, file, flags, outFlags)
                    ?? SQLITE_CANTOPEN
            }
            return VirtualFileSystem.open(found.disk, found.name, file, flags, outFlags)
        }
        system.xDelete = { _, path, syncsFolder in
            guard let path, let found = DiskRegistry.find(path) else {
                return VirtualFileSystem.original?.pointee.xDelete?(
                    VirtualFileSystem.original, path, syncsFolder) ?? SQLITE_IOERR
            }
            return found.disk?.remove(found.name, syncsFolder: syncsFolder != 0)
                ?? ResultCode.removeError
        }
        system.xAccess = { _, path, flags, answer in
            guard let path, let found = DiskRegistry.find(path) else {
                return VirtualFileSystem.original?.pointee.xAccess?(
                    VirtualFileSystem.original, path, flags, answer) ?? SQLITE_IOERR
            }
            guard let exists = found.disk?.exists(found.name) else {
                return ResultCode.accessError
            }
            answer?.pointee = exists ? 1 : 0
            return SQLITE_OK
        }
        system.xFullPathname = { _, path, size, target in
            guard let path, let target, DiskRegistry.find(path) != nil else {
                return VirtualFileSystem.original?.pointee.xFullPathname?(
                    VirtualFileSystem.original, path, size, target)
                    ?? SQLITE_CANTOPEN
            }
            let length = strlen(path) + 1
            guard length <= Int(size) else { return SQLITE_CANTOPEN }
            memcpy(target, path, length)
            return SQLITE_OK
        }
    }

    private static func setProcessFunctions(_ system: inout sqlite3_vfs) {
        system.xRandomness = { _, count, target in
            let isDone = VirtualFileSystem.run.withLock { run in
                guard run != nil, let target else { return false }
                for index in 0..<Int(max(0, count)) {
                    let number = run?.generator.next() ?? 0
                    target[index] = CChar(truncatingIfNeeded: number)
                }
                return true
            }
            if isDone { return count }
            return VirtualFileSystem.original?.pointee.xRandomness?(
                VirtualFileSystem.original, count, target) ?? 0
        }
        system.xSleep = { _, microseconds in
            guard pthread_getspecific(VirtualFileSystem.wasRefused) == nil else {
                pthread_setspecific(VirtualFileSystem.wasRefused, nil)
                return microseconds
            }
            return VirtualFileSystem.original?.pointee.xSleep?(
                VirtualFileSystem.original, microseconds) ?? 0
        }
        system.xCurrentTime = { _, days in
            guard let milliseconds = VirtualFileSystem.julianMilliseconds() else {
                return VirtualFileSystem.original?.pointee.xCurrentTime?(
                    VirtualFileSystem.original, days) ?? SQLITE_ERROR
            }
            days?.pointee = Double(milliseconds) / 86_400_000
            return SQLITE_OK
        }
        system.xCurrentTimeInt64 = { _, time in
            guard let milliseconds = VirtualFileSystem.julianMilliseconds() else {
                return VirtualFileSystem.original?.pointee.xCurrentTimeInt64?(
                    VirtualFileSystem.original, time) ?? SQLITE_ERROR
            }
            time?.pointee = milliseconds
            return SQLITE_OK
        }
    }

    /// The run's time as SQLite counts it, from noon of the first Julian day.
    private static func julianMilliseconds() -> Int64? {
        guard let clock = run.withLock({ $0?.wallMilliseconds }) else { return nil }
        return 210_866_760_000_000 + Int64(clamping: clock() & (1 << 62 - 1))
    }

    private static func open(
        _ disk: SimulatedDisk?, _ name: String, _ file: UnsafeMutablePointer<sqlite3_file>,
        _ flags: Int32, _ outFlags: UnsafeMutablePointer<Int32>?
    ) -> Int32 {
        // Without methods SQLite does not close it.
        file.pointee.pMethods = nil
        guard let disk else { return SQLITE_CANTOPEN }
        let (code, handle) = disk.open(name, flags: flags)
        guard let handle else { return code }
        outFlags?.pointee = flags
        // SQLite made room for `szOsFile` bytes, which an OpenFile fits in.
        UnsafeMutableRawPointer(file).storeBytes(
            of: OpenFile(
                base: sqlite3_file(pMethods: FileMethods.table),
                handle: Unmanaged.passRetained(handle).toOpaque()), as: OpenFile.self)
        return SQLITE_OK
    }
}
