internal import Coordinator
internal import Merge
internal import Replication
internal import Synchronization

/// A machine of the virtual world: a disk, a clock, and the process that runs on it, if any.
final class Machine {
    /// Its number, from 0; copies have numbers after all others.
    let number: Int
    /// The node that it runs.
    let node: NodeID
    let disk: SimulatedDisk
    let clock = SimulatedClock()
    let settings: MachineSettings
    /// The memory of its clients; they outlive its processes.
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
    /// The vector of the store in that image.
    var imageVector = VersionVector()
    /// The store's vector when its last process ended.
    var heldAtEnd = VersionVector()
    /// The vector of its store.
    var held: VersionVector { process?.vectorInStore ?? heldAtEnd }
    /// Whether it is a copy that was taken away again.
    var isRemoved = false
    /// Whether it stays down until the faults are over.
    var isOut = false
    /// Which of the run's models its store is opened with.
    var edition = 0
    /// Those that its store is known to have had.
    var hadEditions: Set<Int> = []
    /// The same of the store in ``image``.
    var imageEditions: Set<Int> = []
    /// Whether it may be started: those that join may once a majority of members knows them.
    var isEnrolled = true
    /// The nodes that its configuration names besides its own.
    var configured: [NodeID] = []
    /// The members, by its store.
    var membership: Membership { process?.state.membership ?? membershipAtEnd }
    /// The members, by its store, when its last process ended.
    var membershipAtEnd = Membership()
    /// The members, by the store in ``image``.
    var imageMembership = Membership()
    /// The vector that the consumer of its history has read, or knew when it was registered.
    var consumed: VersionVector?
    /// Whether its disk has been full, and no client has been told of a save since.
    var wasFull = false
    /// The later incarnations that its process has begun.
    var reopenings = Reopenings()

    /// Where its store is.
    var storePath: String { disk.path("store.sqlite") }

    /// How its store is opened.
    func options(seed: UInt64) -> PersistentStoreCoordinator.Options {
        let clock = clock
        let chance = SharedGenerator(seed: seed)
        var options = PersistentStoreCoordinator.Options()
        options.readers = 2
        options.files = disk
        options.wallMilliseconds = { clock.wallMilliseconds }
        options.monotonicMilliseconds = { clock.monotonicMilliseconds }
        options.random = { chance.next() }
        options.walLimit = settings.walLimit
        options.pinLimitMilliseconds = settings.pinLimitMilliseconds
        options.checkpointPages = settings.checkpointPages
        options.worksAlone = true
        options.objectsInBatchTransaction = 3
        options.joinsAlways = settings.joinsAlways
        options.indexesHistory = number.isMultiple(of: 2)
        return options
    }

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

/// Chance for the coordinator's door, which is Sendable; everything runs on one thread.
private final class SharedGenerator: Sendable {
    private let generator: Mutex<SeededGenerator>

    init(seed: UInt64) { generator = Mutex(SeededGenerator(seed: seed)) }

    func next() -> UInt64 { generator.withLock { $0.next() } }
}
