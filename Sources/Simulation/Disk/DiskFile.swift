/// One file of a simulated disk: its bytes as processes see them, those that are on the platter
/// for certain, and the writes in between.
///
/// Guarded by its disk's lock.
final class DiskFile {
    /// The remains of one write after a power loss.
    private enum Remains {
        case nothing, everything
        /// The front up to a sector's boundary, or the back from one.
        case front(Int), back(Int)
    }

    /// A write since the last sync, its bytes at `start` of `changedBytes`; or, where `count` is
    /// negative, a new length.
    private struct Change {
        var offset: Int
        var count: Int
        var start: Int
    }

    /// The bytes that a disk writes whole or not at all.
    static let sectorSize = 512

    /// The bytes as processes see them.
    private(set) var running = ByteStore()
    private var durable = ByteStore()
    // Bounded by what SQLite writes between two syncs: it syncs the log before each checkpoint.
    private var changes: [Change] = []
    private var changedBytes = ByteStore()
    /// The locks that SQLite's connections have on it.
    var locks = FileLocks()
    /// The index of the write-ahead log, while a connection has it mapped.
    var sharedMemory: SharedMemory?

    init() {}

    /// A file that is durable as it is.
    init(_ bytes: [UInt8]) {
        running = ByteStore(bytes)
        durable = ByteStore(bytes)
    }

    var size: Int { running.count }

    func write(_ source: UnsafeRawBufferPointer, at offset: Int) {
        running.write(source, at: offset)
        changes.append(Change(offset: offset, count: source.count, start: changedBytes.count))
        changedBytes.write(source, at: changedBytes.count)
    }

    func resize(to length: Int) {
        running.resize(to: length)
        changes.append(Change(offset: length, count: -1, start: 0))
    }

    /// Everything written becomes durable.
    func sync() {
        for change in changes { keep(change, .everything) }
        forgetChanges()
    }

    /// A sync that failed: the system forgets what it had to write, as Linux does, so each write
    /// is durable or not, by a draw, whatever later syncs say.
    func failSync(_ generator: inout some RandomNumberGenerator) {
        for change in changes { keep(change, draw(change, .each, &generator)) }
        forgetChanges()
    }

    /// The power goes: of the writes since the last sync some remain, and there is nothing else.
    func losePower(_ extent: LossExtent, _ generator: inout some RandomNumberGenerator) {
        for change in changes { keep(change, draw(change, extent, &generator)) }
        forgetChanges()
        running.copy(durable)
    }

    /// No process has it open any more.
    func forgetProcesses() {
        locks = FileLocks()
        sharedMemory = nil
    }

    func flip(_ offset: Int, bit: Int) -> Bool {
        _ = durable.flip(offset, bit: bit)
        return running.flip(offset, bit: bit)
    }

    private func forgetChanges() {
        changes.removeAll(keepingCapacity: true)
        changedBytes.resize(to: 0)
    }

    private func keep(_ change: Change, _ remains: Remains) {
        guard change.count >= 0 else {
            if case .nothing = remains { return }
            return durable.resize(to: change.offset)
        }
        let whole = UnsafeRawBufferPointer(
            rebasing: changedBytes.bytes[change.start..<change.start + change.count])
        switch remains {
        case .nothing: return
        case .everything: durable.write(whole, at: change.offset)
        case .front(let cut):
            durable.write(UnsafeRawBufferPointer(rebasing: whole[..<cut]), at: change.offset)
        case .back(let cut):
            durable.write(UnsafeRawBufferPointer(rebasing: whole[cut...]), at: change.offset + cut)
        }
    }

    private func draw(
        _ change: Change, _ extent: LossExtent, _ generator: inout some RandomNumberGenerator
    ) -> Remains {
        switch extent {
        case .all: return .nothing
        case .none: return .everything
        case .each: break
        }
        let choice = generator.next() % 4
        guard choice >= 2, change.count > 0 else { return choice % 2 == 0 ? .nothing : .everything }
        let size = Self.sectorSize
        let firstCut = (change.offset / size + 1) * size
        let cuts = (change.offset + change.count - 1) / size - change.offset / size
        guard cuts > 0 else { return choice == 2 ? .nothing : .everything }
        let cut = firstCut + Int(generator.next() % UInt64(cuts)) * size - change.offset
        return choice == 2 ? .front(cut) : .back(cut)
    }
}

/// How much a power loss takes of what was not synced.
enum LossExtent {
    case all, none
    /// Each write apart, by a draw.
    case each

    init(_ generator: inout some RandomNumberGenerator) {
        switch generator.next() % 4 {
        case 0: self = .all
        case 1: self = .none
        default: self = .each
        }
    }
}
