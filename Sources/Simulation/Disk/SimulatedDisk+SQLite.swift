import GRDBSQLite

// What SQLite asks of a file system, for one connection's handle.
extension SimulatedDisk {
    /// Opens a file.
    func open(_ name: String, flags: Int32) -> (code: Int32, handle: SimulatedHandle?) {
        guarded {
            if isOut { return (SQLITE_IOERR, nil) }
            let isCreating = flags & SQLITE_OPEN_CREATE != 0
            let file: DiskFile
            if let found = find(name) {
                if flags & SQLITE_OPEN_EXCLUSIVE != 0, isCreating { return (SQLITE_CANTOPEN, nil) }
                file = found
            } else {
                guard isCreating else { return (SQLITE_CANTOPEN, nil) }
                guard let created = create(name) else { return (SQLITE_IOERR, nil) }
                file = created
            }
            lastHandle += 1
            let isJournal =
                flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL)
                != 0
            return (
                SQLITE_OK,
                SimulatedHandle(
                    disk: self, file: file, name: name, life: life, number: lastHandle,
                    isReadOnly: flags & SQLITE_OPEN_READONLY != 0,
                    deletesOnClose: flags & SQLITE_OPEN_DELETEONCLOSE != 0,
                    syncsFolder: isCreating && isJournal)
            )
        }
    }

    /// Whether a file is there; one without bytes is not, for SQLite.
    func exists(_ name: String) -> Bool? {
        guarded { isOut ? nil : (find(name)?.size ?? 0) > 0 }
    }

    func remove(_ name: String, syncsFolder: Bool) -> Int32 {
        guarded { isOut ? ResultCode.removeError : remove(name, withFolder: syncsFolder) }
    }

    /// Does something for a handle of this life.
    private func living(
        _ handle: SimulatedHandle, otherwise code: Int32, _ body: () -> Int32
    ) -> Int32 {
        guarded { isOut || handle.life != life ? code : body() }
    }

    func close(_ handle: SimulatedHandle) {
        guarded {
            let isDead = isOut || handle.life != life
            if !isDead {
                unmap(handle)
                handle.file.locks.lower(&handle.level, to: SQLITE_LOCK_NONE, of: handle.number)
                if handle.deletesOnClose { _ = remove(handle.name, withFolder: false) }
            }
            handle.sharedMemory = nil
        }
    }

    func read(_ handle: SimulatedHandle, _ target: UnsafeMutableRawBufferPointer, at offset: Int64)
        -> Int32
    {
        living(handle, otherwise: ResultCode.readError) {
            if beginRead() != nil { return ResultCode.readError }
            let count = handle.file.running.read(into: target, from: Int(offset))
            if count == target.count { return SQLITE_OK }
            UnsafeMutableRawBufferPointer(rebasing: target[count...])
                .initializeMemory(as: UInt8.self, repeating: 0)
            return ResultCode.shortRead
        }
    }

    func write(_ handle: SimulatedHandle, _ bytes: UnsafeRawBufferPointer, at offset: Int64)
        -> Int32
    {
        living(handle, otherwise: ResultCode.writeError) {
            write(bytes, to: handle.file, at: Int(offset))
        }
    }

    func truncate(_ handle: SimulatedHandle, to length: Int64) -> Int32 {
        living(handle, otherwise: ResultCode.truncateError) {
            resize(handle.file, to: Int(length))
        }
    }

    func sync(_ handle: SimulatedHandle) -> Int32 {
        living(handle, otherwise: ResultCode.syncError) {
            let code = sync(handle.file, name: handle.name, withFolder: handle.syncsFolder)
            if code == SQLITE_OK { handle.syncsFolder = false }
            return code
        }
    }

    func size(_ handle: SimulatedHandle, into size: inout Int64) -> Int32 {
        living(handle, otherwise: ResultCode.sizeError) {
            size = Int64(handle.file.size)
            return SQLITE_OK
        }
    }

    func lock(_ handle: SimulatedHandle, level: Int32) -> Int32 {
        living(handle, otherwise: ResultCode.lockError) {
            // As POSIX has it: a lock for writing needs a file that is open for writing.
            if handle.isReadOnly, level > SQLITE_LOCK_SHARED { return ResultCode.lockError }
            return handle.file.locks.raise(&handle.level, to: level, of: handle.number)
                ? SQLITE_OK : SQLITE_BUSY
        }
    }

    func unlock(_ handle: SimulatedHandle, level: Int32) -> Int32 {
        living(handle, otherwise: SQLITE_OK) {
            handle.file.locks.lower(&handle.level, to: level, of: handle.number)
            return SQLITE_OK
        }
    }

    func isReserved(_ handle: SimulatedHandle, into answer: inout Int32) -> Int32 {
        living(handle, otherwise: ResultCode.lockError) {
            answer = handle.file.locks.isReserved ? 1 : 0
            return SQLITE_OK
        }
    }

    // MARK: Shared memory

    func map(
        _ handle: SimulatedHandle, region: Int32, size: Int32, makes: Bool,
        into pointer: inout UnsafeMutableRawPointer?
    ) -> Int32 {
        living(handle, otherwise: ResultCode.sharedMapError) {
            let memory: SharedMemory
            if let mapped = handle.sharedMemory {
                memory = mapped
            } else {
                memory = handle.file.sharedMemory ?? SharedMemory()
                handle.file.sharedMemory = memory
                handle.sharedMemory = memory
                memory.connections += 1
            }
            pointer = memory.region(Int(region), size: Int(size), makes: makes)
            return SQLITE_OK
        }
    }

    func lockShared(_ handle: SimulatedHandle, first: Int32, count: Int32, flags: Int32) -> Int32 {
        living(handle, otherwise: ResultCode.sharedLockError) {
            guard let memory = handle.sharedMemory, first >= 0, count > 0,
                first + count <= SQLITE_SHM_NLOCK
            else { return ResultCode.sharedLockError }
            let slots = Int(first)..<Int(first + count)
            if flags & SQLITE_SHM_UNLOCK != 0 {
                memory.unlock(slots, of: handle)
                return SQLITE_OK
            }
            let isExclusive = flags & SQLITE_SHM_EXCLUSIVE != 0
            return memory.lock(slots, isExclusive: isExclusive, of: handle)
                ? SQLITE_OK : SQLITE_BUSY
        }
    }

    func unmapShared(_ handle: SimulatedHandle) {
        guarded {
            if handle.life == life { unmap(handle) }
            handle.sharedMemory = nil
        }
    }

    /// The last connection takes the memory along: the next one begins with zeros, as it does
    /// with a file that nobody has locked.
    private func unmap(_ handle: SimulatedHandle) {
        guard let memory = handle.sharedMemory else { return }
        memory.unlock(0..<Int(SQLITE_SHM_NLOCK), of: handle)
        memory.connections -= 1
        if memory.connections == 0, handle.file.sharedMemory === memory {
            handle.file.sharedMemory = nil
        }
        handle.sharedMemory = nil
    }
}
