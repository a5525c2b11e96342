import GRDB
package import Merge

/// The outcome of putting a copy in a store's place.
package struct TransferInstallation: Hashable, Sendable {
    /// The node whose store was copied.
    package var donor: NodeID
    /// All that is applied now.
    package var versionVector: VersionVector
    /// How many transactions the former store had that the copy had not: the store has them now.
    package var carriedCount: Int
    /// Whether the former store's log did not tell of all of them, so that they came of its rows: others
    /// who lack them get them with a copy.
    package var isJoined: Bool
}

/// A *store transfer* is taken in like one large apply: afterwards the store has all that the copy
/// has and all that it had itself, and it is the same node's. So there is nothing that anybody
/// would have to vouch for, and nothing that is lost:
///
/// - transactions that the copy lacks, the node's own unsent saves among them, are applied to it;
///   where the former store's log does not tell of all of them, its rows are joined into the copy's;
/// - incarnations that were met, and what is known of them, are the later of both;
/// - outcomes of saves with an ID, and saves' conflicts, which only their node has, are carried
///   over, and so are consumers of history. The donor's own outcomes are left out, because another
///   node's clients may have given other saves the same IDs; those of saves that this node has
///   lost, and the copy's log brings back, are made again;
/// - orphans, which are acknowledged saves, are kept of both.
///
/// The former store is kept as `STORE-before-transfer`, the latest only: its journal may tell of
/// what the donor never witnessed. Tokens of the former store are of another store from then on,
/// for places in the log are others.
package enum TransferInstaller {
    /// Puts a received copy, which ``IncomingTransfer/check(cluster:model:)`` has found sound, in
    /// the place of a store that nobody has open.
    ///
    /// Until the last step the store is as it was; a crash in the midst leaves it, or the new one.
    /// Blocks; not for the threads of tasks.
    ///
    /// - Parameters:
    ///   - path: the store.
    ///   - model: the store's model, which must be the copy's.
    ///   - cluster: the cluster.
    ///   - node: the node that owns the store.
    ///   - options: as for opening the store.
    /// - Throws: ``CoordinatorError``: `storeInUse` where a process has the store; `storeBusy` where
    ///   somebody reads its file for long; `storeDamaged` where there is no whole copy;
    ///   `limitExceeded` where the copy cannot take what it lacks of this store's; `modelMismatch`
    ///   where the model is not the copy's; `memberDeparted` where the store knows that the donor is
    ///   not a member any more; `storeOwner`, `diskFull` or `inputOutput`.
    package static func install(
        at path: String, model: ManagedObjectModel, cluster: String, node: NodeID,
        options: PersistentStoreCoordinator.Options = PersistentStoreCoordinator.Options()
    ) throws -> TransferInstallation {
        let files = options.files
        let path = files.resolved(path)
        let incoming = IncomingTransfer(storeAt: path, files: files)
        let offer = try incoming.whole()
        let lock = try files.lock(storePath: path)
        defer { lock.release() }
        do {
            // A store whose file is gone would be made again without its log.
            try StoreConnection.checkCompleteness(path, files)
            try files.rewrite(path + "-wal")
            try StoreConnection.emptyLog(of: path)
            let former = try StoreConnection.connection(to: path)
            defer { try? former.close() }
            let identity = try former.read { database in
                try StoreOpening.check(database, path: path)
                return try StoreIdentity(of: database, path: path)
            }
            guard identity.cluster == cluster, identity.node == node else {
                throw CoordinatorError(.storeOwner, "\(path) is not node \(node)'s of \(cluster).")
            }
            // Its own saves would come to nodes that have called stable what is concurrent to them.
            let membership = try former.read { try StoreLayout.readMembership(in: $0) }
            guard membership[offer.donor]?.departure == nil else {
                throw CoordinatorError(
                    .memberDeparted,
                    "Node \(offer.donor), the donor, has departed meanwhile.")
            }
            try incoming.forgetOffer()
            let record = try relabel(incoming.path, as: identity, options)
            try record.write(incoming.path, files)
            let (vector, count, isJoined) = try carry(
                from: former, identity, to: incoming.path, model: model, options,
                moved: record.generation - UInt64(bitPattern: identity.generation))
            try former.close()
            try replace(path, by: incoming.path, keepsFormer: !identity.vector.isEmpty, files)
            // It is in place: what is left over is nothing without it, and is found at the next.
            try? incoming.discard()
            return TransferInstallation(
                donor: offer.donor, versionVector: vector, carriedCount: count, isJoined: isJoined)
        } catch {
            let mapped = CoordinatorError(
                mapping: error, diskFull: "The disk is full; the store is as it was."
            ).naming(path)
            // No process has its lock, because that was taken above.
            guard mapped.code == .storeInUse else { throw mapped }
            throw CoordinatorError(
                .storeBusy,
                "\(path) could not be replaced, for somebody reads the file, as `tributary sql --store` "
                    + "does: end that. It is tried again. (\(mapped.message))")
        }
    }

    /// Removes a copy that was taken in, whole or in part; the store is as it was.
    ///
    /// - Throws: ``CoordinatorError`` (`inputOutput`).
    package static func discard(at path: String) throws {
        try IncomingTransfer(storeAt: path, files: SystemFiles()).discard()
    }

    /// Makes a copy the node's own, in one commit.
    ///
    /// - Returns: what the file beside it is to say.
    private static func relabel(
        _ copy: String, as identity: StoreIdentity, _ options: PersistentStoreCoordinator.Options
    ) throws -> IncarnationRecord {
        let queue = try StoreConnection.connection(to: copy)
        defer { try? queue.close() }
        // Places in its log are not those of the former store's.
        let store = options.random()
        try queue.writeWithoutTransaction { try identity.take($0, store: store) }
        let generation = try queue.read {
            try Int64.fetchOne($0, sql: "SELECT generation FROM _state") ?? 0
        }
        return IncarnationRecord(
            store: store, incarnation: identity.incarnation,
            generation: UInt64(bitPattern: generation))
    }

    /// Brings into the copy what the former store has and it has not.
    ///
    /// - Parameter moved: how much later the copy's generations are than the former store's.
    private static func carry(
        from former: DatabaseQueue, _ identity: StoreIdentity, to copy: String,
        model: ManagedObjectModel, _ options: PersistentStoreCoordinator.Options, moved: UInt64
    ) throws -> (VersionVector, count: Int, isJoined: Bool) {
        let coordinator = try PersistentStoreCoordinator(
            storeAt: copy, model: model, cluster: identity.cluster, node: identity.node,
            options: options)
        defer { coordinator.close() }
        try coordinator.maintainBlocking { try $0.saveAnswers.rebuildAnswers() }
        let known = try coordinator.currentToken.versionVector
        let purged = try former.read { try reader(of: $0, identity, model).purgedVector }
        let isJoined = !known.covers(purged) || options.joinsAlways
        let count =
            isJoined
            ? try join(former, identity, into: coordinator)
            : try send(former, identity, to: coordinator, moved: moved)
        // A consumer that has its place in no log any more stays without one, and hears so when it
        // reads on: that the log begins with the first position does not say that it has all there
        // was.
        for consumer in try coordinator.historyStatus().consumers {
            do {
                try coordinator.setConsumer(consumer.name, to: consumer.token)
            } catch let error as CoordinatorError where error.code == .historyTokenExpired {}
        }
        try coordinator.makeDurable()
        let vector = try coordinator.currentToken.versionVector
        guard vector.covers(identity.vector) else {
            throw CoordinatorError(
                .storeDamaged,
                "The log of \(identity.path) does not have all that its store has had.")
        }
        return (vector, count, isJoined)
    }

    /// Applies what the former store's log has beyond the copy.
    ///
    /// In the copy's log its transactions keep the generations that they had, moved like the
    /// entries of the journal: those are kept for as long as the transactions of their time.
    private static func send(
        _ former: DatabaseQueue, _ identity: StoreIdentity,
        to coordinator: PersistentStoreCoordinator, moved: UInt64
    ) throws -> Int {
        // The donor may never have known a model that this store had. One that cannot be learnt is
        // in the way only where a transaction is of it.
        let models = try former.read { try StoreModels.all(in: $0, path: identity.path) }
        _ = try coordinator.learn(models.map { try $0.model() })
        var count = 0
        var position: Int64 = 0
        while true {
            let known = try coordinator.currentToken.versionVector
            let page = try former.read {
                try identity.transactions(of: $0, after: &position, beyond: known)
            }
            if page.isEmpty { return count }
            let rejected = try coordinator.apply(page.map(\.transaction)).rejected
            if let (dot, reason) = rejected.first {
                throw CoordinatorError(
                    .limitExceeded,
                    "The copy cannot take this store's transaction \(dot): \(reason)")
            }
            try coordinator.maintainBlocking { engine in
                let statement = try engine.database.prepared(
                    "UPDATE _transaction SET generation = ?2 WHERE dot = ?1")
                engine.group.wroteApart = true
                for (transaction, generation) in page {
                    statement.bind(1, engine.state.actors.integer(transaction.dot))
                    statement.bind(2, Int64(bitPattern: generation + moved))
                    try statement.run()
                }
            }
            count += page.count
        }
    }

    /// Joins the former store's rows into the copy, because its log does not have all that the copy
    /// lacks. Then computes the digest of the outcome from its rows, because nobody else vouches
    /// for it.
    private static func join(
        _ former: DatabaseQueue, _ identity: StoreIdentity,
        into coordinator: PersistentStoreCoordinator
    ) throws -> Int {
        let model = coordinator.model
        let count = try coordinator.maintainBlocking { engine in
            try former.read { database in
                try StoreJoining(engine.session, former: reader(of: database, identity, model))
                    .run()
            }
        }
        let report = try coordinator.verify()
        guard report.isOK else {
            throw CoordinatorError(
                .storeDamaged,
                "The two stores did not join to what they are to: "
                    + report.differences.prefix(3).joined(separator: "; "))
        }
        return count
    }

    private static func reader(
        of database: Database, _ identity: StoreIdentity, _ model: ManagedObjectModel
    ) throws -> StoreReader {
        let former = try StoreConnection.readOwner(database, path: identity.path)
        guard former.model.modelHash == model.modelHash else {
            throw CoordinatorError(
                .modelMismatch, "\(identity.path) was written with another model than the copy.")
        }
        return StoreReader(
            database: database,
            catalog: StoreCatalog(
                model: former.model, cluster: former.cluster, names: former.names,
                actors: former.actors, history: former.history))
    }

    private static func replace(
        _ path: String, by copy: String, keepsFormer: Bool, _ files: any StoreFiles
    ) throws {
        try StoreConnection.emptyLog(of: copy)
        let record = try IncarnationRecord.read(copy, files)
        let aside = path + "-before-transfer"
        try files.remove(aside)
        if keepsFormer { try files.link(path, as: aside) }
        // Another store's log would be taken for this one's; both are empty.
        for suffix in ["-wal", "-shm"] {
            try files.remove(path + suffix)
            try files.remove(copy + suffix)
        }
        try files.move(copy, to: path)
        // Without this the store is taken for one that somebody put there, which must be vouched for
        // before it saves: slower, and right. So it is no failure, because the copy is in place.
        try? record?.write(path, files)
    }
}

/// A store's owner, and the data that only its own node can have.
struct StoreIdentity {
    let path: String
    let cluster: String
    let node: NodeID
    let incarnation: UInt64
    let generation: Int64
    let clock: Int64
    let block: Int64
    let recovery: Int
    let actors: ActorTable
    let vector: VersionVector

    /// Reads it of a store's file.
    init(of database: Database, path: String) throws {
        self.path = path
        guard let row = try Row.fetchOne(database, sql: "SELECT * FROM _state"),
            let node = NodeID(try row.integer("node"))
        else { throw CoordinatorError(.storeDamaged, "\(path) has lost its state.") }
        self.node = node
        cluster = try row.text("cluster")
        incarnation = UInt64(bitPattern: try row.integer("incarnation"))
        generation = try row.integer("generation")
        clock = try row.integer("clock")
        block = try row.integer("block")
        recovery = Int(try row.integer("recovery"))
        (actors, vector) = try StoreLayout.readActors(in: database)
    }

    /// Gives it to a copy of another node's store, in one commit.
    func take(_ database: Database, store: UInt64) throws {
        try database.execute(sql: "PRAGMA synchronous = FULL")
        try database.execute(sql: "ATTACH ? AS former", arguments: [path])
        defer { try? database.execute(sql: "DETACH former") }
        try database.inTransaction {
            try database.execute(
                sql: """
                    UPDATE main._state SET store = ?, node = ?, incarnation = ?, block = ?,
                        recovery = ?, clock = max(clock, ?),
                        generation = generation + ? + 1, syncs = 0
                    """,
                arguments: [
                    Int64(bitPattern: store), Int64(node.rawValue),
                    Int64(bitPattern: incarnation), block, recovery, clock, generation,
                ])
            try database.execute(sql: Self.whatOnlyItsNodeKnows)
            try takeOrphans(database)
            try database.execute(
                sql: "DELETE FROM main._incarnation WHERE node = ?",
                arguments: [Int64(node.rawValue)])
            return .commit
        }
    }

    /// Numbers of incarnations are compared as unsigned, by their halves: SQLite's are signed.
    ///
    /// Data that goes with history counts as of the copy's end: places and generations of the
    /// former store are long gone from the copy's log. So generations go on from the copy's and the
    /// former store's together, and conflicts keep their order behind all of the copy's.
    private static let whatOnlyItsNodeKnows = """
        INSERT INTO main._incarnation (node, incarnation)
            SELECT node, incarnation FROM former._incarnation WHERE true
            ON CONFLICT (node) DO UPDATE SET incarnation = excluded.incarnation
                WHERE (excluded.incarnation < 0) > (incarnation < 0)
                    OR ((excluded.incarnation < 0) = (incarnation < 0)
                        AND excluded.incarnation > incarnation);
        DELETE FROM main._save;
        INSERT INTO main._save (saveID, position, answer)
            SELECT saveID, (SELECT coalesce(max(position), 0) FROM main._transaction), answer
            FROM former._save;
        INSERT OR IGNORE INTO main._conflict
            (id, closed, entity, row, kind, state, opened, record)
            SELECT id, closed + moved, entity, row, kind, state, opened + moved, record
            FROM former._conflict AS own, (
                SELECT main._state.generation - former._state.generation AS moved
                FROM main._state, former._state)
            WHERE kind = 'save' AND closed > 0 AND NOT EXISTS (
                SELECT 1 FROM main._conflict AS known
                WHERE known.id = own.id AND known.closed > 0 AND known.record = own.record)
            ORDER BY position;
        DELETE FROM main._consumer;
        INSERT INTO main._consumer (name, position, token, told)
            SELECT name, -1, token, told FROM former._consumer;
        """

    /// Adds the former store's orphans to those of the copy: each may be the last that there is of a
    /// save. Where both have more than is kept, the donor's go that it kept last, because it has
    /// them.
    private func takeOrphans(_ database: Database) throws {
        let bounds = OrphanedTransaction.Bounds()
        let columns = "node, incarnation, sequence"
        try database.execute(
            sql: """
                INSERT OR IGNORE INTO main._orphan (\(columns), kept, checksum, bytes)
                    SELECT \(columns), kept, checksum, bytes FROM former._orphan
                    ORDER BY position;
                DELETE FROM main._orphan WHERE position IN (
                    SELECT position FROM (
                        SELECT position, row_number() OVER own AS place,
                            sum(length(bytes)) OVER own AS size
                        FROM main._orphan AS all_ WINDOW own AS (
                            ORDER BY NOT EXISTS (
                                SELECT 1 FROM former._orphan AS mine
                                WHERE mine.node = all_.node AND mine.sequence = all_.sequence
                                    AND mine.incarnation = all_.incarnation), position
                            ROWS UNBOUNDED PRECEDING))
                    WHERE place > ? OR size > ?)
                """,
            arguments: [bounds.count, bounds.bytes])
    }

    /// The next transactions of the log that a vector does not cover, in the order applied there.
    ///
    /// - Parameter position: where the last call ended; 0 at first.
    func transactions(
        of database: Database, after position: inout Int64, beyond vector: VersionVector
    ) throws -> [(transaction: EncodedTransaction, generation: UInt64)] {
        let statement = try database.prepared(
            "SELECT position, dot, checksum, bytes, generation FROM _transaction "
                + "WHERE position > ?1 "
                + "ORDER BY position")
        statement.bind(1, position)
        defer { statement.reset() }
        var found: [(EncodedTransaction, UInt64)] = []
        var bytesFound = 0
        while try statement.step() {
            position = statement.integer(0)
            if vector.contains(try actors.dot(statement.integer(1))) { continue }
            let bytes = statement.bytes(3)
            guard Transaction.checksum(bytes) == UInt64(bitPattern: statement.integer(2)),
                let encoded = try? EncodedTransaction(decoding: bytes)
            else {
                throw CoordinatorError(.storeDamaged, "The log of \(path) is damaged.")
            }
            found.append((encoded, UInt64(bitPattern: statement.integer(4))))
            bytesFound += bytes.count
            if found.count == 1_000 || bytesFound >= 4 << 20 { break }
        }
        return found
    }
}
