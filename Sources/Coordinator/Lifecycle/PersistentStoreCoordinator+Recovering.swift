package import Merge
import Synchronization

/// The coordinator's permissions at the moment.
struct Standing {
    /// Whether somebody must vouch for the store.
    var recovery: StoreRecovery
    /// Whether the store was made in the place of one that its node had before.
    var isMadeAnew = false
    /// Whether saves are let through.
    var maySave = true
    /// Whether the clock is too far off to stamp saves.
    var isClockOff = false
    /// Whether the node is not a member any more.
    var isDeparted = false
    /// Whether its files are not where they were opened.
    var isRemoved = false
    /// Whether it was closed.
    var isClosed = false
}

extension CoordinatorError {
    /// Nobody has vouched for the store yet.
    package static var recovering: CoordinatorError {
        CoordinatorError(
            .recovering,
            "This node's store lacks what the node had before, because it is from a backup or a "
                + "copy, or is new; it takes no saves until it has all that another "
                + "member has. Save at another node, or try again.")
    }
}

extension PersistentStoreCoordinator {
    /// Why saves are refused at present: `storeRemoved`, `clockDrift`, `memberDeparted` or `recovering`; nil
    /// where they are let through. May be asked from any thread.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package var savingRefusal: CoordinatorError? {
        get throws {
            let standing = standing.withLock { $0 }
            if standing.isRemoved, !standing.isClosed {
                return CoordinatorError(
                    .storeRemoved,
                    "The file \(storePath) or its log was removed or replaced while this node has it "
                        + "open, so it takes no saves: they would be gone when it ends. Put the files "
                        + "back, or make a backup of the running node and restore that.")
            }
            if standing.isClockOff {
                return CoordinatorError(
                    .clockDrift,
                    "This node's clock is more than five minutes off from the other members', so it "
                        + "takes no saves until that is put right. Save at another node.")
            }
            if standing.maySave { return nil }
            let isDeparted = try standing.isDeparted || membership[node]?.departure != nil
            return isDeparted ? .departed(node) : .recovering
        }
    }

    /// Whether saves are let through at present: not while the store of a node is new or restored and has
    /// yet to hear of what others have, nor while its clock is off. Usable from any thread.
    public var takesSaves: Bool {
        guard writer != nil else { return false }
        return (try? savingRefusal) ?? nil == nil
    }

    /// Whether the store's files are not where they were opened, as ``maintain()`` has found last.
    package var isStoreRemoved: Bool { standing.withLock(\.isRemoved) }

    /// Whether somebody must vouch for the store; ``StoreRecovery/none`` once they have.
    package var recovery: StoreRecovery { standing.withLock(\.recovery) }

    /// Whether the store was made, when it was opened, in the place of one that its node had before, and
    /// nobody has vouched for it since: what was saved under an ID may be known to others only.
    package var mayLackSaveIDs: Bool {
        // Told so, it is vouched for, whether that could be written down yet or not.
        let told = writer?.owedRecovery.record?.recovery
        return standing.withLock { $0.isMadeAnew && (told ?? $0.recovery) != .none }
    }

    /// Vouches for the store: it has all that its node ever had, as far as anybody can know.
    /// Blocks until it is on disk.
    ///
    /// - Parameter founders: the incarnations that were vouched for together with this one when all
    ///   stores were new, at most one a node. Kept until the store is vouched for again.
    /// - Throws: ``CoordinatorError`` where the store cannot be written.
    package func vouch(founders: [ActorID] = []) throws {
        try setRecovery(.none, founders: founders)
    }

    /// Notes that the store, which is new, is one of the founders of its cluster. What is applied
    /// afterwards is not on disk without this. Blocks until it is recorded.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be written.
    package func noteFounder() throws { try setRecovery(.founder) }

    /// Notes that the store takes over from others, so that somebody must vouch for it before it
    /// may save. What is applied afterwards is not on disk without this. Blocks likewise.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be written.
    package func outgrow() throws { try setRecovery(.restored) }

    private func setRecovery(_ recovery: StoreRecovery, founders: [ActorID] = []) throws {
        let record = RecoveryRecord(recovery: recovery, founders: founders)
        writer?.owedRecovery.note(record)
        try maintainBlocking { try $0.incarnationStore.record(record) }
        standing.withLock { $0.recovery = recovery }
        if recovery == .none { try makeDurable() }
    }

    /// The incarnations of other nodes that the store remembers, by node.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package var rememberedIncarnations: [ActorID] {
        get throws {
            try read { try StoreLayout.readIncarnations(in: $0.database) }
        }
    }

    /// The incarnations that ``vouch(founders:)`` named last, by node.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package var founders: [ActorID] {
        get throws {
            try read { try StoreLayout.readFounders(in: $0.database) }
        }
    }

    /// The incarnations of this node in which the store was open before, from the one that made it
    /// on; none where that was another node. To be asked before anything is applied: others may
    /// tell of incarnations that this node had with another store.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package var formerIncarnations: [ActorID] {
        get throws {
            let actors = try read { try StoreLayout.readActors(in: $0.database).0.actors }
            guard let first = actors.first, first.node == node else { return [] }
            return actors.filter { $0.node == node && $0 >= first && $0 != actor }
        }
    }

    /// The incarnation of this node whose process had the store's lock before this one, and so has ended;
    /// nil where that is not certain, as the store may be a copy.
    package var predecessor: ActorID? {
        ownership?.lastHolder.flatMap { $0.node == node ? $0 : nil }
    }

    /// Whether saves are to wait until a member has met this incarnation: the store is new, or may be a
    /// copy of one that is in use.
    package var mayBeUnknown: Bool { predecessor == nil || recovery == .new }

    /// Remembers the newest incarnation of another node that was met, instead of the one before,
    /// and waits until that is on disk. Blocks meanwhile.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be written.
    package func remember(_ actor: ActorID) throws {
        try maintainBlocking { try $0.incarnationStore.remember(actor) }
        try makeDurable()
    }

    /// The same without blocking; the completion is called on the writer's queue.
    package func remember(
        _ actor: ActorID, completion: @escaping @Sendable (Result<Void, any Error>) -> Void
    ) {
        maintain({ try $0.incarnationStore.remember(actor) }) { [self] result in
            switch result {
            case .success: makeDurable(completion: completion)
            case .failure: completion(result)
            }
        }
    }

    /// Does what ``vouch(founders:)``, ``noteFounder()`` and ``outgrow()`` do without blocking. It
    /// is recorded before whatever is handed to the coordinator later; the completion is called on
    /// the writer's queue.
    package func setRecovery(
        _ recovery: StoreRecovery, founders: [ActorID] = [],
        completion: @escaping @Sendable (Result<Void, any Error>) -> Void
    ) {
        let record = RecoveryRecord(recovery: recovery, founders: founders)
        writer?.owedRecovery.note(record)
        maintain({ try $0.incarnationStore.record(record) }) { [self] result in
            if case .success = result { standing.withLock { $0.recovery = recovery } }
            // A store that forgot that it was vouched for would be taken for one that is new.
            guard case .success = result, recovery == .none else { return completion(result) }
            makeDurable(completion: completion)
        }
    }

    /// Writes beside the store how far it has come on disk, so that an older backup in its place
    /// will be noticed, also if this process was killed. Blocks until that is on disk: two waits,
    /// for a small file.
    ///
    /// Only what this has recorded may others rely on when they collect. To be called every few
    /// seconds while something changes, from any thread.
    ///
    /// - Returns: all that is recorded now.
    /// - Throws: ``CoordinatorError`` where the file cannot be written.
    package func recordStanding() throws -> VersionVector {
        guard let writer else {
            throw CoordinatorError(.notWritable, "The store is open for reading only.")
        }
        // In turn, so that an older record never replaces a newer one; closing writes the last.
        return try recording.withLock { recorded in
            let current = writer.current
            if standing.withLock(\.isClosed) {
                throw CoordinatorError(.notWritable, "The store was closed.")
            }
            if recorded == current.durableGeneration { return current.durable }
            let record = IncarnationRecord(
                store: current.token.store, incarnation: writer.actor.incarnation,
                generation: current.durableGeneration)
            do {
                try record.write(storePath, options.files)
            } catch { throw CoordinatorError(mapping: error).naming(storePath) }
            recorded = current.durableGeneration
            return current.durable
        }
    }

    /// Lets saves through, or refuses them with `recovering`; at first they are let through.
    /// Other nodes' transactions are applied in either case. Saves that wait already go on, but
    /// those that are executed after ``outgrow()``.
    package func setSaving(allowed: Bool) {
        standing.withLock {
            $0.maySave = allowed
            // The node that told of a departure has turned out to be no member itself.
            if allowed { $0.isDeparted = false }
        }
    }

    /// Refuses saves with `memberDeparted` from now on: a member has told that this node is one no
    /// more. Where this node's own store tells it, nobody needs to.
    package func setDeparted() { standing.withLock { $0.isDeparted = true } }

    /// Refuses saves with `clockDrift`, or lets them through again; at first they are let through.
    /// Other nodes' transactions are applied in either case.
    package func setClockOff(_ isOff: Bool) { standing.withLock { $0.isClockOff = isOff } }
}
