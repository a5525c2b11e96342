/// A rare path that a suite must have met, or it proves less than it seems to.
public enum Beacon: String, CaseIterable, Hashable, Sendable {
    /// A gap in what a node has was filled by a pull.
    case gapRepairedByPull
    /// The queue of what waits for predecessors was full; what was dropped was pulled again.
    case queueOverflowed
    /// A sibling that is stable was collapsed.
    case siblingCollapsed
    /// A write that had lost a merge was overwritten by one that had seen it.
    case loserOverwritten
    /// A tombstone was collected.
    case tombstoneCollected
    /// A dead link was collected.
    case linkCollected
    /// A transaction from a clock far ahead was held, and applied when its time came.
    case heldTimestampReleased
    /// A pinned generation was given up for the log's sake, or its age's.
    case pinExpired
    /// A pinned generation was read again after merges had moved the store on.
    case pinReadAfterMerge
    /// The past was read that a pin had shown.
    case pastRead
    /// Several saves were committed as one group.
    case groupCommitted
    /// A save of a group failed by itself, and the rest of the group went through.
    case saveOfGroupFailed
    /// A save's outcome was unknown to its client.
    case outcomeUnknown
    /// A save with an ID was repeated and gave its first outcome.
    case saveRepeated
    /// A save was repeated whose answer was rebuilt from its transaction, which others had brought
    /// back.
    case answerRebuilt
    /// A save was refused because its context was stale.
    case staleSaveRefused
    /// A save was refused because of an unresolved conflict.
    case unresolvedSaveRefused
    /// A conflict was resolved by a person's save.
    case conflictResolved
    /// A settled conflict was undone.
    case conflictUndone
    /// A resolution was refused, since it had not seen all sides.
    case resolutionRefused
    /// A dead row came back by a write that made it live again.
    case rowRevived
    /// A long transaction was sent in pieces.
    case sentInPieces
    /// A process was killed in the midst of a disk operation.
    case killedInWrite
    /// Power was lost while something was not synced.
    case powerLostUnsynced
    /// The disk was full, and saves went on once it was not.
    case diskFullRecovered
    /// A failed fsync stopped a writer.
    case syncFailed
    /// A read failed, and its reader got an error.
    case readFailed
    /// A restored store's own newer saves came back from its peers.
    case ownSavesReturned
    /// A node told of a later incarnation of itself began one later still.
    case incarnationReopened
    /// Two live processes with one number met.
    case doubleMet
    /// A founder of the cluster that was not vouched for yet was opened again.
    case founderReopened
    /// A closed incarnation's transactions reached a node through another's log.
    case closedActorPulled
    /// A write of a save was refused while a store was recovering.
    case savingHeldBack
    /// A save was refused while a clock was far off from the other members'.
    case clockDriftRefused
    /// Transactions were found that wait on a gap that nobody can fill.
    case orphanFound
    /// A store kept what waits on such a gap, for people.
    case orphanKept
    /// History was purged for its size, though a member was not known to have it.
    case historyPurged
    /// Closed conflicts were forgotten, because there were too many.
    case closedRecordsDropped
    /// History was kept beyond its time for a consumer.
    case historyKept
    /// A consumer heard that history could not wait for it.
    case consumerExpired
    /// A client heard that another node has its save on disk.
    case saveConfirmed
    /// A backup was made by the node itself.
    case backupMade
    /// A copy of another's store was taken over.
    case storeTransferred
    /// A node's own saves that the copy lacked were carried over to it.
    case savesCarriedOver
    /// A copy and the store whose place it took were joined by their rows.
    case storesJoined
    /// A merge brought rows with one unique key together: one of them was eclipsed.
    case groupFormedByMerge
    /// An eclipsed row was shown again.
    case eclipsedRowShown
    /// An eclipsed row has another survivor than before.
    case survivorChanged
    /// A reference to a row that became eclipsed led to its survivor.
    case referenceLedToSurvivor
    /// A reference that had led to a survivor led to its own target again.
    case referenceLedBack
    /// A save to a survivor was written to the rows of its group.
    case saveWrittenToGroup
    /// A change of a key let a row of a group be shown beside its former survivor.
    case groupDissolvedByKey
    /// A person decided over rows that have one unique key.
    case uniquenessResolved
    /// Saves together left a to-many with too few objects or too many.
    case countBroken
    /// A node that joined a cluster at work was started.
    case memberJoined
    /// A node left by itself.
    case memberLeft
    /// A node was retired by another.
    case memberRetired
    /// A node that was retired, and did not know, heard so from a member.
    case departedTold
    /// A save was refused because its node is not a member any more.
    case departedSaveRefused
    /// In the end the store of a node that departed alone had what it had saved.
    case savesDeparted
    /// A store that held something was opened with the next model.
    case storeMigrated
    /// A store that held something was opened with a model that has another name for something.
    case nameChanged
    /// A model was refused at an opening, and the node went on with its own.
    case modelRefused
    /// A model in which two attributes exchange their names was so.
    case swapRefused
    /// A peer was refused for its model while one node's deviates.
    case peerRefused
    /// A transaction was held, since its model was not known.
    case heldForModel
    /// A store made with the next model learnt of the one before from a peer.
    case modelLearnt
    /// A transaction of another node came that does not name all that it has seen, and was applied with
    /// what later incarnations had seen first.
    case incarnationCompacted
    /// Heads named an incarnation from which nothing had come yet, and were asked for whole.
    case headsAskedWhole
    /// A batch request was interrupted between two of its transactions.
    case batchInterrupted
    /// A batch request was done in several transactions.
    case batchDivided
}

/// How often each rare path was met.
public struct BeaconCounts: Hashable, Sendable, Codable {
    private var counts = [UInt64](repeating: 0, count: Beacon.allCases.count)

    /// Nothing met yet.
    public init() {}

    /// How often one was met.
    public subscript(_ beacon: Beacon) -> UInt64 {
        get { counts[Self.place(beacon)] }
        set { counts[Self.place(beacon)] = newValue }
    }

    /// Adds another run's.
    public mutating func add(_ other: BeaconCounts) {
        for place in counts.indices { counts[place] += other.counts[place] }
    }

    /// Those never met.
    public var missing: [Beacon] { Beacon.allCases.filter { self[$0] == 0 } }

    private static func place(_ beacon: Beacon) -> Int {
        Beacon.allCases.firstIndex(of: beacon) ?? 0
    }
}
