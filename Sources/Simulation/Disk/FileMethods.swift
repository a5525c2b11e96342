import GRDBSQLite

/// The functions that SQLite calls for an open file of a simulated disk.
enum FileMethods {
    // Safe: it is set before it is shared, never changes, and lives as long as the process.
    nonisolated(unsafe) static let table: UnsafePointer<sqlite3_io_methods> = {
        let table = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        table.initialize(to: makeMethods())
        return UnsafePointer(table)
    }()

    /// The handle of an open file, which is retained until it is closed.
    private static func handle(_ file: UnsafeMutablePointer<sqlite3_file>?) -> SimulatedHandle? {
        guard let file else { return nil }
        let open = UnsafeRawPointer(file).load(as: VirtualFileSystem.OpenFile.self)
        return open.handle.map { Unmanaged<SimulatedHandle>.fromOpaque($0).takeUnretainedValue() }
    }

    private static func close(_ file: UnsafeMutablePointer<sqlite3_file>?) -> Int32 {
        guard let file, let handle = FileMethods.handle(file) else { return SQLITE_OK }
        handle.disk.close(handle)
        UnsafeMutableRawPointer(file).storeBytes(
            of: VirtualFileSystem.OpenFile(base: sqlite3_file(pMethods: nil), handle: nil),
            as: VirtualFileSystem.OpenFile.self)
        Unmanaged.passUnretained(handle).release()
        return SQLITE_OK
    }

    private static func makeMethods() -> sqlite3_io_methods {
        var methods = sqlite3_io_methods()
        methods.iVersion = 2
        setByteMethods(&methods)
        setLockMethods(&methods)
        setSharedMemoryMethods(&methods)
        methods.xFileControl = { _, _, _ in SQLITE_NOTFOUND }
        // As the system's own, with default settings: sectors of 4096 bytes, and a write that is
        // cut short spares the bytes beside it (SQLITE_IOCAP_POWERSAFE_OVERWRITE). Saying less
        // would have SQLite pad its log as it does nowhere in production.
        methods.xSectorSize = { _ in 4096 }
        methods.xDeviceCharacteristics = { _ in 0x1000 }
        return methods
    }

    private static func setByteMethods(_ methods: inout sqlite3_io_methods) {
        methods.xClose = { FileMethods.close($0) }
        methods.xRead = { file, target, count, offset in
            guard let handle = FileMethods.handle(file), let target else {
                return ResultCode.readError
            }
            return handle.disk.read(
                handle, UnsafeMutableRawBufferPointer(start: target, count: Int(max(0, count))),
                at: offset)
        }
        methods.xWrite = { file, bytes, count, offset in
            guard let handle = FileMethods.handle(file), let bytes else {
                return ResultCode.writeError
            }
            return handle.disk.write(
                handle, UnsafeRawBufferPointer(start: bytes, count: Int(max(0, count))),
                at: offset)
        }
        methods.xTruncate = { file, length in
            guard let handle = FileMethods.handle(file) else { return ResultCode.truncateError }
            return handle.disk.truncate(handle, to: length)
        }
        methods.xSync = { file, _ in
            guard let handle = FileMethods.handle(file) else { return ResultCode.syncError }
            return handle.disk.sync(handle)
        }
        methods.xFileSize = { file, size in
            guard let handle = FileMethods.handle(file), let size else {
                return ResultCode.sizeError
            }
            return handle.disk.size(handle, into: &size.pointee)
        }
    }

    private static func setLockMethods(_ methods: inout sqlite3_io_methods) {
        methods.xLock = { file, level in
            guard let handle = FileMethods.handle(file) else { return ResultCode.lockError }
            return VirtualFileSystem.noting(handle.disk.lock(handle, level: level))
        }
        methods.xUnlock = { file, level in
            guard let handle = FileMethods.handle(file) else { return SQLITE_OK }
            return handle.disk.unlock(handle, level: level)
        }
        methods.xCheckReservedLock = { file, answer in
            guard let handle = FileMethods.handle(file), let answer else {
                return ResultCode.lockError
            }
            return handle.disk.isReserved(handle, into: &answer.pointee)
        }
    }

    private static func setSharedMemoryMethods(_ methods: inout sqlite3_io_methods) {
        methods.xShmMap = { file, region, size, makes, pointer in
            guard let handle = FileMethods.handle(file), let pointer else {
                return ResultCode.sharedMapError
            }
            var address: UnsafeMutableRawPointer?
            let code = handle.disk.map(
                handle, region: region, size: size, makes: makes != 0, into: &address)
            UnsafeMutableRawPointer(pointer).storeBytes(
                of: address, as: UnsafeMutableRawPointer?.self)
            return code
        }
        methods.xShmLock = { file, first, count, flags in
            guard let handle = FileMethods.handle(file) else { return ResultCode.sharedLockError }
            return VirtualFileSystem.noting(
                handle.disk.lockShared(handle, first: first, count: count, flags: flags))
        }
        methods.xShmBarrier = { file in
            // Taking and releasing a lock is the barrier.
            if let handle = FileMethods.handle(file) { handle.disk.guarded {} }
        }
        methods.xShmUnmap = { file, _ in
            if let handle = FileMethods.handle(file) { handle.disk.unmapShared(handle) }
            return SQLITE_OK
        }
    }
}
