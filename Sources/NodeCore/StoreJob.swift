package import Coordinator
package import Merge
package import Replication

/// Something that the node asks of its store. Each is answered once, with a ``StoreOutcome`` or the
/// error that came of it.
package enum StoreJob: Sendable {
    /// Apply transactions of other nodes.
    case apply([EncodedTransaction])
    /// Read a page of the log for a peer.
    case readLog(id: UInt64, after: VersionVector, byteLimit: Int)
    /// Put on disk what is applied.
    case makeDurable
    /// Record beside the store how far it has come.
    case record
    /// Collect what is stable, and look at so many rows and links at the most.
    case collect(stable: VersionVector, limit: Int)
    /// Remember the newest incarnation of another node, on disk.
    case remember(ActorID)
    /// Record what is known of the store's recovery.
    case setRecovery(StoreRecovery, founders: [ActorID])
    /// Keep saves that can never be applied.
    case keepOrphans([EncodedTransaction])
    /// Take a step towards the limits of history.
    case tendHistory(HistoryLimits, HistoryKnowledge)
    /// Learn of models that nodes of this node's model had before it.
    case learnModels([ModelText])
    /// Find what a peer's model has otherwise.
    case compareModel(ModelText, of: NodeID)
    /// Read a part of this store's copy.
    case readTransfer(
        id: UInt64, number: UInt64, offset: UInt64, byteLimit: Int, for: NodeID,
        covering: VersionVector)
    /// Write a part of a member's copy.
    case takeTransfer(TransferCopy, donor: NodeID, offset: UInt64, bytes: [UInt8])
    /// Check a member's copy that is there whole.
    case checkTransfer
    /// Remove what there is of a member's copy.
    case discardTransfer
    /// Remove copies for others that nobody needs any more, or all.
    case tendTransfers(all: Bool)
    /// Give up pins that are too old, and look for the store's files.
    case maintain

    /// The queue of a job. A lane does one job at a time, in the order in which they were asked
    /// for.
    package enum Lane: Hashable, Sendable, CaseIterable {
        /// The store's writer. Handing a job to it takes no time.
        case writing
        /// Reads the log. Jobs of this lane and of those below wait for the disk.
        case reading
        /// Gives copies of this store.
        case giving
        /// Takes in a copy.
        case taking
        /// Looks after the store's files.
        case upkeep
    }

    /// The lane of this job.
    package var lane: Lane {
        switch self {
        case .apply, .makeDurable, .collect, .remember, .setRecovery, .keepOrphans, .tendHistory:
            .writing
        case .readLog, .learnModels, .compareModel: .reading
        case .readTransfer, .tendTransfers: .giving
        case .takeTransfer, .checkTransfer, .discardTransfer: .taking
        case .record, .maintain: .upkeep
        }
    }
}

/// The outcome of a ``StoreJob``.
package enum StoreOutcome: Sendable {
    /// The store after an apply, and what of it could not be applied.
    case applied(StoreState, rejected: [Rejection])
    /// A page of the log, with how far this node's own transactions reached in the state that was read.
    case logPage([[UInt8]], reachedEnd: Bool, ownSequence: UInt64)
    /// The store, when all that was applied before is on disk.
    case durable(StoreState)
    /// All that is recorded beside the store.
    case recorded(VersionVector)
    /// The removed siblings, tombstones and links.
    case collected(CollectionResult)
    /// Which orphans are kept, and which had no room.
    case orphansKept(OrphanKeeping)
    /// The purged history, and what holds the rest.
    case historyTended(HistoryTending)
    /// Models of transactions that can be applied from now on.
    case learnt([ModelText])
    /// The differences of a peer's model, for people.
    case compared(String)
    /// A part of this store's copy.
    case transferPart(TransferCopy, offset: UInt64, bytes: [UInt8])
    /// How much of a member's copy is on disk.
    case transferTaken(UInt64)
    /// How many pins were given up.
    case pinsExpired(Int)
    /// It is done, and there is nothing to tell.
    case done
}
