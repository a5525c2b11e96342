/// A file that a connection of SQLite has open.
///
/// Its disk's lock guards what changes.
final class SimulatedHandle {
    let disk: SimulatedDisk
    let file: DiskFile
    let name: String
    /// The life of the disk it belongs to: in a later one every call on it fails.
    let life: UInt64
    /// Which handle of its disk; never 0.
    let number: UInt64
    let isReadOnly: Bool
    let deletesOnClose: Bool
    /// Whether the next sync makes the folder durable too, as SQLite has it for a new log or
    /// journal.
    var syncsFolder: Bool
    /// Its lock on the file: one of SQLite's levels.
    var level: Int32 = 0
    var sharedMemory: SharedMemory?
    /// The slots of the shared memory that it has locked with others, as bits.
    var sharedSlots: UInt32 = 0

    init(
        disk: SimulatedDisk, file: DiskFile, name: String, life: UInt64, number: UInt64,
        isReadOnly: Bool, deletesOnClose: Bool, syncsFolder: Bool
    ) {
        self.disk = disk
        self.file = file
        self.name = name
        self.life = life
        self.number = number
        self.isReadOnly = isReadOnly
        self.deletesOnClose = deletesOnClose
        self.syncsFolder = syncsFolder
    }
}
