import Foundation
import Merge
import Replication

/// The disk of a simulated machine, in memory: SQLite's files and the coordinator's, with what a
/// real one may do to them when processes die, the power goes or it fails.
///
/// SQLite comes to it by its path, ``path(_:)``: the first disk puts a file system of its own
/// before the process's default one, which stays in charge of all other paths.
///
/// For every file it knows what is durable: writes since the last sync of a file, and names made
/// or removed since the last sync of the folder, may be lost with the power; the death of a
/// process loses nothing written. A sync of a new file makes its name durable.
///
/// The same calls in the same order do the same: chance comes from the seed, and there is no
/// time. Usable from any thread.
///
/// `@unchecked Sendable`: everything that changes, here and in files, handles and shared memory,
/// is touched inside ``guarded(_:)`` only, which holds the lock.
package final class SimulatedDisk: @unchecked Sendable {
    /// A file and its name.
    struct Entry {
        var name: String
        var file: DiskFile
    }

    /// A fault and the count of operations after which it strikes.
    struct ArmedFault {
        var fault: DiskFault
        var after: UInt64
    }

    /// The largest file, in bytes: a damaged page must not make one that takes all memory.
    static let largestFile = 1 << 30

    /// Which disk of the process.
    package let number: UInt64
    private let guarding = NSLock()
    var generator: SeededGenerator
    /// The names as processes see them, and those that outlive a power loss; a handful.
    var entries: [Entry] = []
    var durableEntries: [Entry] = []
    var armed: [ArmedFault] = []
    /// The least count of operations at which a fault may strike.
    var nextFault = UInt64.max
    /// Which life of processes; handles of others are dead.
    var life: UInt64 = 0
    var lastHandle: UInt64 = 0
    var lockedStores: [String] = []
    /// The last holder of a store's lock, which no image has.
    var lastHolder: ActorID?
    var isFull = false
    var counters = Counters()
    var bound: UInt64?
    private var outage: DiskFault?

    /// The counts of a disk's operations.
    struct Counters {
        var operations: UInt64 = 0
        var syncs: UInt64 = 0
        /// How often each kind of fault that was armed has struck.
        var faults: [DiskFault: UInt64] = [:]
        /// How often a file was to grow for which there was no room.
        var refusals: UInt64 = 0
    }

    /// Makes a disk, empty or with the files of another.
    ///
    /// - Parameters:
    ///   - seed: decides what faults leave of the writes they strike.
    ///   - image: the files, durable.
    package init(seed: UInt64, image: DiskImage = DiskImage()) {
        VirtualFileSystem.register()
        number = DiskRegistry.newNumber()
        generator = SeededGenerator(seed: seed)
        setFiles(image)
        DiskRegistry.add(self)
    }

    deinit { DiskRegistry.remove(number) }

    /// Takes the disk out of the process: no path leads to it any more, and what is open is dead.
    package func unmount() {
        DiskRegistry.remove(number)
        kill()
    }

    /// The path of a file, for SQLite and the coordinator.
    ///
    /// - Parameter name: a file's name, without a folder.
    package func path(_ name: String) -> String { "\(DiskRegistry.root)\(number)/\(name)" }

    /// Begins a run: SQLite's own chance and time, which it keeps for the process and not for a
    /// file, start over. Without it the salts of a log differ from run to run, and nothing else.
    ///
    /// To be called while no other thread uses SQLite.
    ///
    /// - Parameters:
    ///   - seed: decides SQLite's chance.
    ///   - wallMilliseconds: SQLite's clock, in milliseconds since 1970; nil for the real one.
    package static func beginRun(
        seed: UInt64, wallMilliseconds: (@Sendable () -> UInt64)? = nil
    ) {
        VirtualFileSystem.beginRun(seed: seed, wallMilliseconds: wallMilliseconds)
    }

    /// Does something while nobody else touches the disk.
    func guarded<Result>(_ body: () throws -> Result) rethrows -> Result {
        guarding.lock()
        defer { guarding.unlock() }
        return try body()
    }

    // MARK: Lives

    /// The process dies: what it has open is dead, its locks and shared memory go, and every byte
    /// written stays.
    package func kill() {
        guarded {
            endLife()
            if outage == .kill { outage = nil }
        }
    }

    /// The machine loses its power and gets it again. The process dies, and of what was not
    /// synced all is lost, nothing is, or each write is lost, kept or torn at a sector of 512
    /// bytes apart from the others, by a draw.
    package func losePower(_ generator: inout some RandomNumberGenerator) {
        guarded {
            endLife()
            let extent = LossExtent(&generator)
            durableEntries = entriesAfterLoss(extent, &generator)
            entries = durableEntries
            for entry in entries {
                entry.file.forgetProcesses()
                entry.file.losePower(extent, &generator)
            }
            outage = nil
            lastHolder = nil
        }
    }

    /// Whether a fault has taken the power, so that every call fails until ``losePower(_:)``.
    package var isPowerLost: Bool { guarded { outage == .powerLoss } }

    /// Whether a fault has killed the process, so that every call fails until ``kill()``.
    package var isKilled: Bool { guarded { outage == .kill } }

    /// Whether no call can succeed.
    var isOut: Bool { outage != nil }

    /// From now on every call fails.
    func stop(_ fault: DiskFault) { outage = fault }

    private func endLife() {
        life += 1
        lockedStores.removeAll()
        for entry in entries { entry.file.forgetProcesses() }
    }

    private func entriesAfterLoss(
        _ extent: LossExtent, _ generator: inout some RandomNumberGenerator
    ) -> [Entry] {
        var names = (durableEntries + entries).map(\.name).sorted()
        names = zip(names, names.dropFirst() + [""]).filter { $0 != $1 }.map(\.0)
        return names.compactMap { name in
            let before = durableEntries.first { $0.name == name }
            let after = entries.first { $0.name == name }
            if before?.file === after?.file { return before }
            switch extent {
            case .all: return before
            case .none: return after
            case .each: break
            }
            // Where a file was removed and another made, the removal alone may have come through.
            let isReplaced = before != nil && after != nil
            switch generator.next() % (isReplaced ? 3 : 2) {
            case 0: return before
            case 1: return after
            default: return nil
            }
        }
    }

    // MARK: Counting and limits

    /// Writes, truncations, syncs, removals and creations so far, failed ones too.
    package var operationCount: UInt64 { guarded { counters.operations } }

    /// Syncs so far.
    package var syncCount: UInt64 { guarded { counters.syncs } }

    /// How many faults have struck, of those that were armed.
    package var faultCount: UInt64 {
        guarded { counters.faults.values.reduce(0, +) }
    }

    /// How many faults of one kind have struck, of those that were armed.
    package func count(of fault: DiskFault) -> UInt64 {
        guarded { counters.faults[fault, default: 0] }
    }

    /// How often a file was to grow for which there was no room.
    package var refusalCount: UInt64 { guarded { counters.refusals } }

    /// The most bytes all files may have together: past it no file grows. Nil: no bound.
    package var capacity: UInt64? {
        get { guarded { bound } }
        set { guarded { bound = newValue } }
    }

    // MARK: Faults

    /// Arms a fault. It strikes at the first operation it can strike after the next
    /// `operations`; several may be armed.
    ///
    /// - Parameter operations: how many operations, as ``operationCount`` has them, are spared;
    ///   0 for the next one.
    package func arm(_ fault: DiskFault, afterOperations operations: UInt64) {
        guarded {
            armed.append(ArmedFault(fault: fault, after: counters.operations + operations))
            nextFault = armed.map(\.after).min() ?? .max
        }
    }

    /// Forgets the faults that are armed, and lets files grow again.
    package func disarm() {
        guarded {
            armed.removeAll()
            nextFault = .max
            isFull = false
        }
    }

    // MARK: Contents

    /// The files as processes see them now: what copying them gives, the machine being on.
    package func image() -> DiskImage {
        guarded {
            DiskImage(
                files: entries.map { .init(name: $0.name, bytes: Array($0.file.running.bytes)) })
        }
    }

    /// Replaces all files by those of an image, durable. What is open is dead; power that was
    /// lost is there again.
    package func restore(_ image: DiskImage) {
        guarded {
            endLife()
            setFiles(image)
            outage = nil
        }
    }

    /// Removes all files. What is open is dead.
    package func wipe() {
        restore(DiskImage())
        guarded { lastHolder = nil }
    }

    /// Flips a bit of a file, as a disk that rots.
    ///
    /// - Parameters:
    ///   - offset: which byte.
    ///   - bit: which of its bits, 0...7.
    /// - Returns: whether there is such a byte.
    @discardableResult
    package func flipBit(file name: String, offset: Int, bit: Int) -> Bool {
        guarded { find(name)?.flip(offset, bit: bit) ?? false }
    }

    /// The names of the files, sorted.
    package var fileNames: [String] { guarded { entries.map(\.name).sorted() } }

    /// The bytes of a file as processes see them; nil where there is no such file.
    package func bytes(of name: String) -> [UInt8]? {
        guarded { find(name).map { Array($0.running.bytes) } }
    }

    /// The file of that name.
    func find(_ name: String) -> DiskFile? { entries.first { $0.name == name }?.file }

    private func setFiles(_ image: DiskImage) {
        entries = image.files.map { Entry(name: $0.name, file: DiskFile($0.bytes)) }
        durableEntries = entries
    }
}
