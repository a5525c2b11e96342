import GRDBSQLite

/// The index of a write-ahead log, which all connections of a file share, and its locks.
///
/// Its disk's lock guards everything but the bytes of the regions, which SQLite itself guards by
/// the locks here. Each mapping keeps a reference, so that the regions outlive the life of a
/// process that was killed while connections of it are still to be closed.
final class SharedMemory {
    private var regions: [UnsafeMutableRawPointer] = []
    private var shared = [Int](repeating: 0, count: Int(SQLITE_SHM_NLOCK))
    private var exclusive = [UInt64](repeating: 0, count: Int(SQLITE_SHM_NLOCK))
    /// How many connections have it mapped.
    var connections = 0

    deinit { for region in regions { region.deallocate() } }

    /// A region; nil where there is none and it is not to be made.
    func region(_ index: Int, size: Int, makes: Bool) -> UnsafeMutableRawPointer? {
        guard index >= 0, size > 0 else { return nil }
        while makes, regions.count <= index {
            let region = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 4096)
            region.initializeMemory(as: UInt8.self, repeating: 0, count: size)
            regions.append(region)
        }
        return index < regions.count ? regions[index] : nil
    }

    /// Takes slots for a connection that has `sharedSlots` and `exclusiveSlots`, as bits.
    ///
    /// - Returns: false where another connection's lock forbids it; then nothing was taken.
    func lock(_ slots: Range<Int>, isExclusive: Bool, of handle: SimulatedHandle) -> Bool {
        for slot in slots {
            let owner = exclusive[slot]
            guard owner == 0 || owner == handle.number else { return false }
            let own = handle.sharedSlots >> UInt32(slot) & 1 == 0 ? 0 : 1
            if isExclusive, shared[slot] > own { return false }
        }
        for slot in slots {
            let bit: UInt32 = 1 << UInt32(slot)
            if isExclusive {
                exclusive[slot] = handle.number
            } else if handle.sharedSlots & bit == 0 {
                handle.sharedSlots |= bit
                shared[slot] += 1
            }
        }
        return true
    }

    /// Releases all that a connection holds of some slots.
    func unlock(_ slots: Range<Int>, of handle: SimulatedHandle) {
        for slot in slots {
            let bit: UInt32 = 1 << UInt32(slot)
            if exclusive[slot] == handle.number { exclusive[slot] = 0 }
            if handle.sharedSlots & bit != 0 {
                handle.sharedSlots &= ~bit
                shared[slot] -= 1
            }
        }
    }
}
