internal import Coordinator
internal import Merge
internal import Replication

/// An event that the world saw, in order. Checkers live on observations alone, and on the readings
/// in them: they never touch a node.
enum Observation {
    /// A process opened its store. `vector` is what the store held then.
    case started(node: Int, actor: ActorID, vector: VersionVector, recovery: StoreRecovery)
    /// A store held transactions at its opening that no notice had told of: its process had ended
    /// right after their commit. Follows ``started(node:actor:vector:recovery:)``.
    case found(node: Int, transactions: [EncodedTransaction])
    /// A process made a generation: of local saves, or of other nodes' transactions.
    case committed(node: Int, notice: CommitNotice)
    /// A client heard that its save is done.
    case acknowledged(node: Int, save: SaveRequest, result: SaveResult)
    /// Saves made through a context or by resolving a conflict are done: their dots.
    case performed(node: Int, dots: [Dot])
    /// A client heard that a node has its save on disk, too.
    case confirmed(node: Int, dot: Dot, by: NodeID)
    /// A client heard that its save is not done, and why.
    case refused(node: Int, save: SaveRequest, error: CoordinatorError)
    /// A client heard that its save may have been done.
    case unknown(node: Int, save: SaveRequest, error: CoordinatorError)
    /// A client read.
    case read(node: Int, reading: Reading)
    /// A client pinned a generation and read all of it; `pin` is the pin's number in the run.
    case pinned(node: Int, pin: Int, reading: Reading)
    /// A client read a pinned generation again.
    case pinRead(node: Int, pin: Int, reading: Reading)
    /// The past was read at the vector of an earlier reading.
    case pastRead(node: Int, then: Reading, reading: Reading)
    /// A pinned generation was given up, and its reader gets an error. It is due if the pin is old,
    /// or the log may be long.
    case pinExpired(node: Int, pin: Int, isDue: Bool)
    /// A context saved: what it had fetched, what it changed, and what became of it.
    case contextSaved(node: Int, record: ContextRecord)
    /// A process ended, and what became of its disk.
    case ended(node: Int, how: Ending)
    /// A store's place was taken by a copy of another node's, which its process goes on with.
    case tookOver(node: Int, donor: NodeID)
    /// The part of a store that would survive a power loss from now on.
    case durable(node: Int, vector: VersionVector)
    /// A replicator declared a vector stable, `members` being who was a member to it, this node
    /// among them or not; nil where no transaction had told it of members, so that the founders
    /// were.
    case stable(node: Int, vector: VersionVector, members: [NodeID]? = nil)
    /// A store collapsed and collected what a vector covers that was declared stable.
    case collected(node: Int, stable: VersionVector, result: CollectionResult)
    /// A store's history was looked after; of what the vector covers it has none.
    case purged(node: Int, vector: VersionVector)
    /// A replicator raised an alarm.
    case alarm(node: Int, alarm: Alarm)
    /// How full a process's queues are, told with every second of the world.
    case gauges(node: Int, gauges: ProcessGauges)
    /// A process took a step towards the limits of its history, and what that left.
    case tended(
        node: Int, limits: HistoryLimits, tending: HistoryTending, status: HistoryStatus)
    /// The faults are over; from here on the world only heals.
    case healed
    /// Every member's process was read whole. Told twice: after converging, and once more after
    /// all were closed and opened again.
    case settled(final: [Int: Reading], isReopened: Bool)
}

/// How a process ended.
enum Ending: Hashable, Sendable {
    /// Closed in order.
    case closed
    /// Killed: what was written stays.
    case killed
    /// Without power: of what was not synced, some or none stays.
    case powerLost
    /// Stopped by itself, after a failure of its disk or on hearing of its double.
    case stopped(reason: String)
    /// Its disk was lost, and is empty.
    case wiped
    /// Its disk was replaced by an older image of itself.
    case restored
    /// A copy of the machine, started beside it, came to its end.
    case copyRemoved
}

/// A consistent view of one generation, or of a part of it.
struct Reading: Hashable, Sendable {
    /// Which generation, and the vector that explains it.
    var token: QueryGenerationToken
    /// The digest kept with it.
    var digest: ProjectionDigest
    /// The rows of each entity read, by the entity they were fetched as: concrete entities only,
    /// without those of heirs; sorted by entity, then row.
    var entities: [EntityReading] = []
    /// The members of many-to-many relationships read, sorted.
    var members: [MembersReading] = []
    /// The counts of entities' objects, and which objects, that a client read.
    var lists: [ListReading] = []
    /// The objects that were asked for one by one, and told to be gone.
    var absent: [ManagedObjectID] = []
    /// Whether everything was read: all entities, all members, all conflicts.
    var isWhole = false
    /// The conflict journal, open and closed entries; nil where it was not read.
    var conflicts: [Conflict]?
    /// Closed entries that some node's journal had and that may have gone with its history, or with
    /// a store whose place a copy took.
    var pastConflicts: [Conflict] = []
    /// How much waits to be collapsed or collected; nil where it was not read.
    var uncollected: Int?

    /// The rows of one concrete entity.
    struct EntityReading: Hashable, Sendable {
        var entity: String
        var rows: [RowSnapshot]
        /// Whether it has all its rows, not some of them alone.
        var isWhole = true
    }

    /// How many objects an entity and its heirs have, at most `limit` of them counted; and which,
    /// by number, where that was asked.
    struct ListReading: Hashable, Sendable {
        var entity: String
        var limit = Int.max
        var count: Int
        var objects: [ManagedObjectID]?
    }

    /// The members of one object's relationship.
    struct MembersReading: Hashable, Sendable {
        var object: ManagedObjectID
        var relationship: String
        var members: [ManagedObjectID]
    }
}

/// How full a process's queues and files are.
struct ProcessGauges: Hashable, Sendable {
    var replicator: ReplicatorGauges
    var held: Int
    var limits: Limits
    var writeAheadLogBytes: UInt64
    /// How long the log may be before pins are given up for its sake.
    var writeAheadLogLimit: UInt64
    var pins: Int
}

/// A context's work, for the checker of law 10.
struct ContextRecord: Sendable {
    /// The context's policy.
    var policy: MergePolicy
    /// The store's vector right before the save.
    var before: VersionVector
    /// One changed object.
    struct Object: Sendable {
        var id: ManagedObjectID
        /// The values and version as the context had fetched them.
        var fetched: RowSnapshot
        /// The context's values, by position; nil if it deleted the object.
        var assigned: [Int: PropertyValue]?
        /// The row as the store held it right before the save; nil where it was gone.
        var stored: RowSnapshot?
        /// The row after the save; nil where it is gone.
        var after: RowSnapshot?
    }
    var objects: [Object]
    /// nil where the save went through.
    var error: CoordinatorError?
    /// Whether the context still has its changes.
    var hasChanges: Bool
    /// Whether the context inserted objects too, which may have the unique keys of others.
    var hasInserts = false
}
