internal import Merge

/// A machine of the virtual world: a disk, a clock, and the process that runs on it, if any.
final class Machine {
    /// Its number, from 0; copies have numbers after all others.
    let number: Int
    /// The node that it runs.
    let node: NodeID
    let disk: SimulatedDisk
    let clock = SimulatedClock()
    let settings: MachineSettings
    /// What its clients remember; they outlive its processes.
    let memory: ClientMemory
    /// Whether it is a copy of another machine.
    let isCopy: Bool
    /// How many processes have run on it.
    var lives = 0
    var process: SimulatedProcess?
    /// The incarnation in which its store was last opened.
    var incarnation: UInt64 = 0
    /// The last image of its disk, as a copy of its files while they were in use.
    var image: DiskImage?
    /// What the store in that image holds.
    var imageVector = VersionVector()
    /// What the store held when its last process ended.
    var heldAtEnd = VersionVector()
    /// What its store holds.
    var held: VersionVector { process?.vectorInStore ?? heldAtEnd }
    /// Whether it is a copy that was taken away again.
    var isRemoved = false
    /// Whether it stays down until the faults are over.
    var isOut = false
    /// When it was last told of a later incarnation of itself.
    var reopenedAt: UInt64?

    init(
        number: Int, node: NodeID, disk: SimulatedDisk, settings: MachineSettings,
        isCopy: Bool = false
    ) {
        self.number = number
        self.node = node
        self.disk = disk
        self.settings = settings
        self.isCopy = isCopy
        memory = ClientMemory()
        clock.offset = settings.clockOffset
    }
}
