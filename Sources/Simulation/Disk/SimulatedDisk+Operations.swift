import GRDBSQLite
import Replication

// What a file system does, with the faults that are armed. To be called inside `guarded`.
extension SimulatedDisk {
    /// Counts an operation.
    ///
    /// - Parameter isStruck: which faults can strike it.
    /// - Returns: the fault that strikes it; nil where it shall be done.
    func beginOperation(_ isStruck: (DiskFault) -> Bool) -> DiskFault? {
        counters.operations += 1
        guard counters.operations > nextFault else { return nil }
        return takeFault(isStruck)
    }

    /// The fault that strikes a read, if one does.
    func beginRead() -> DiskFault? {
        guard counters.operations >= nextFault else { return nil }
        return takeFault { $0 == .readError }
    }

    private func takeFault(_ isStruck: (DiskFault) -> Bool) -> DiskFault? {
        var struck: DiskFault?
        for (index, each) in armed.enumerated().reversed() {
            switch each.fault {
            case .full:
                guard counters.operations > each.after else { continue }
                isFull = true
                armed.remove(at: index)
            case .readError:
                guard isStruck(.readError), counters.operations >= each.after else { continue }
                struck = .readError
                armed.remove(at: index)
            case let fault:
                guard struck == nil, counters.operations > each.after, isStruck(fault) else {
                    continue
                }
                struck = fault
                armed.remove(at: index)
            }
        }
        nextFault = armed.map(\.after).min() ?? .max
        if let struck { counters.faults[struck, default: 0] += 1 }
        if let struck, struck == .powerLoss || struck == .kill { stop(struck) }
        return struck
    }

    /// Whether files may grow by so much.
    func hasRoom(for growth: Int) -> Bool {
        if growth <= 0 { return true }
        let used = entries.reduce(0) { $0 + UInt64($1.file.size) }
        if !isFull, used + UInt64(growth) <= bound ?? .max { return true }
        counters.refusals += 1
        return false
    }

    func write(_ bytes: UnsafeRawBufferPointer, to file: DiskFile, at offset: Int) -> Int32 {
        let fault = beginOperation { $0 != .syncError && $0 != .readError }
        guard offset >= 0, offset + bytes.count <= Self.largestFile,
            hasRoom(for: offset + bytes.count - file.size)
        else { return SQLITE_FULL }
        switch fault {
        case nil: file.write(bytes, at: offset)
        case .powerLoss:
            // It was under way; the loss decides what of it arrived.
            file.write(bytes, at: offset)
            return ResultCode.writeError
        default:
            // A system may have written the front of it.
            let sectors = UInt64(bytes.count / DiskFile.sectorSize)
            let count = Int(generator.next() % (sectors + 1)) * DiskFile.sectorSize
            if count > 0 {
                file.write(UnsafeRawBufferPointer(rebasing: bytes[..<count]), at: offset)
            }
            return ResultCode.writeError
        }
        return SQLITE_OK
    }

    func resize(_ file: DiskFile, to length: Int) -> Int32 {
        let fault = beginOperation { $0 != .syncError && $0 != .readError }
        guard length >= 0, length <= Self.largestFile, hasRoom(for: length - file.size) else {
            return SQLITE_FULL
        }
        if fault == nil || isDoneInspite(of: fault) { file.resize(to: length) }
        return fault == nil ? SQLITE_OK : ResultCode.truncateError
    }

    /// Makes the bytes of a file durable, and its name.
    func sync(_ file: DiskFile, name: String, withFolder: Bool) -> Int32 {
        counters.syncs += 1
        switch beginOperation({ $0 != .writeError && $0 != .readError }) {
        case nil: break
        case .syncError:
            file.failSync(&generator)
            return ResultCode.syncError
        default: return ResultCode.syncError
        }
        file.sync()
        if withFolder {
            syncFolder()
        } else if !durableEntries.contains(where: { $0.file === file }), find(name) === file {
            durableEntries.removeAll { $0.name == name }
            durableEntries.append(Entry(name: name, file: file))
        }
        return SQLITE_OK
    }

    /// Makes all names durable.
    func syncFolder() { durableEntries = entries }

    /// Makes an empty file.
    func create(_ name: String) -> DiskFile? {
        let fault = beginOperation { $0 != .syncError && $0 != .readError }
        let file = DiskFile()
        if fault == nil || isDoneInspite(of: fault) {
            entries.append(Entry(name: name, file: file))
        }
        return fault == nil ? file : nil
    }

    func remove(_ name: String, withFolder: Bool) -> Int32 {
        guard let index = entries.firstIndex(where: { $0.name == name }) else {
            return ResultCode.removeMissing
        }
        let fault = beginOperation { $0 != .readError && (withFolder || $0 != .syncError) }
        if fault == nil || isDoneInspite(of: fault) { entries.remove(at: index) }
        if fault == nil, withFolder { syncFolder() }
        switch fault {
        case nil: return SQLITE_OK
        case .syncError: return ResultCode.folderSyncError
        default: return ResultCode.removeError
        }
    }

    /// Whether an operation that a fault strikes is done nevertheless; a later loss of power may
    /// still undo it.
    func isDoneInspite(of fault: DiskFault?) -> Bool {
        switch fault {
        case nil, .powerLoss, .syncError: true
        case .kill: generator.next().isMultiple(of: 2)
        default: false
        }
    }
}
