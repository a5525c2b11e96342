import Synchronization

/// The simulated disks of the process by their numbers, as SQLite finds them from a path.
enum DiskRegistry {
    private struct Entry {
        weak var disk: SimulatedDisk?
    }

    private struct Disks {
        // Bounded by the disks alive: each takes itself out.
        var entries: [UInt64: Entry] = [:]
        var last: UInt64 = 0
    }

    private static let disks = Mutex(Disks())
    /// The beginning of every simulated file's path.
    static let root = "/simulated/"
    private static let rootBytes = Array(root.utf8)

    /// A number that no disk has had.
    static func newNumber() -> UInt64 {
        disks.withLock { disks in
            disks.last += 1
            return disks.last
        }
    }

    static func add(_ disk: SimulatedDisk) {
        disks.withLock { $0.entries[disk.number] = Entry(disk: disk) }
    }

    static func remove(_ number: UInt64) {
        _ = disks.withLock { $0.entries.removeValue(forKey: number) }
    }

    /// The disk and the name of the file that a path leads to.
    ///
    /// - Returns: nil for a path of the real file system; a nil disk if it is gone.
    static func find(_ path: UnsafePointer<CChar>) -> (disk: SimulatedDisk?, name: String)? {
        var position = 0
        while position < rootBytes.count {
            guard UInt8(bitPattern: path[position]) == rootBytes[position] else { return nil }
            position += 1
        }
        var number: UInt64 = 0
        while case let digit = UInt8(bitPattern: path[position]), (0x30...0x39).contains(digit) {
            number = number &* 10 &+ UInt64(digit - 0x30)
            position += 1
        }
        guard path[position] == 0x2F else { return nil }
        let disk = disks.withLock { $0.entries[number]?.disk }
        return (disk, String(cString: path + position + 1))
    }
}
