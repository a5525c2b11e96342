import GRDB
import GRDBSQLite
import Merge

/// Opening a store for writing: checks it, or makes it, and begins a new incarnation.
enum StoreOpening {
    /// Opens a store for writing: checks it, or makes it, and begins a new incarnation.
    ///
    /// - Parameters:
    ///   - minimumIncarnation: the new one is later than this too.
    ///   - migration: what is done where the store was written with another model.
    ///   - files: where the side file is that names the last incarnation.
    ///   - indexesHistory: whether history is to have an index.
    /// - Throws: ``CoordinatorError`` that says what is wrong with the file.
    static func open(
        _ database: Database, path: String, model: ManagedObjectModel, cluster: String,
        node: NodeID, environment: StoreSession.Environment, minimumIncarnation: UInt64,
        migration: ModelMigration, files: any StoreFiles, indexesHistory: Bool = false
    ) throws -> StoreEngine {
        let isNew = try isEmpty(database)
        // The check reads the whole file once: an idle node shall not keep it in its cache.
        let cacheSize = try Int.fetchOne(database, sql: "PRAGMA cache_size") ?? -8192
        try database.execute(sql: "PRAGMA cache_size = -256")
        if !isNew { try check(database, path: path) }
        try database.execute(sql: "PRAGMA cache_size = \(cacheSize)")
        let beside = try IncarnationRecord.read(path, files)
        // The store must have on disk, too, what the side file says.
        try database.execute(sql: "PRAGMA synchronous = FULL")
        try database.execute(sql: "BEGIN IMMEDIATE")
        let engine: StoreEngine
        do {
            if isNew { try create(database, model, cluster, node, environment) }
            try checkOwner(database, path: path, cluster: cluster, node: node)
            let (remainder, unfilled) = try adopt(model, migration, in: database, path: path)
            let outdated = try DerivedFingerprints.adopt(model, in: database)
            engine = try begin(
                database, model, cluster, node, environment,
                Beginning(
                    path: path, remainder: remainder, unfilled: unfilled,
                    outdated: outdated, isNew: isNew,
                    minimumIncarnation: minimumIncarnation, beside: beside,
                    announce: { try $0.write(path, files) }))
            try HistoryIndex(session: engine.session).adopt(isWanted: indexesHistory)
            try database.prepared("COMMIT").run()
        } catch {
            try? database.execute(sql: "ROLLBACK")
            throw error
        }
        try engine.session.incarnationRecord(generation: engine.state.generation).write(path, files)
        return engine
    }

    static func isEmpty(_ database: Database) throws -> Bool {
        // A file that somebody has marked as theirs is not ours to fill, though it have no tables.
        try Int.fetchOne(database, sql: "SELECT count(*) FROM sqlite_master") == 0
            && Int32.fetchOne(database, sql: "PRAGMA application_id") == 0
            && Int32.fetchOne(database, sql: "PRAGMA user_version") == 0
    }

    /// Checks that a file is a store of this layout, and sound.
    static func check(_ database: Database, path: String) throws {
        let application = try Int32.fetchOne(database, sql: "PRAGMA application_id")
        guard application == StoreLayout.applicationID else {
            throw CoordinatorError(.storeLayout, "\(path) is no Tributary store.")
        }
        try StoreLayout.check(
            version: try Int32.fetchOne(database, sql: "PRAGMA user_version") ?? 0, path: path)
        let report = try String.fetchOne(database, sql: "PRAGMA quick_check(1)") ?? ""
        guard report == "ok" else {
            // A page that cannot be read at the moment is no damage; SQLite reports both.
            guard !tellsOfReadError(report) else {
                throw CoordinatorError(.inputOutput, "\(path) cannot be read whole: \(report).")
            }
            throw CoordinatorError(.storeDamaged, "\(path) is damaged: \(report).")
        }
    }

    /// Whether a report of SQLite's checks names an error of input or output, which it gives by
    /// its number, "error code=266" or "error code 10".
    private static func tellsOfReadError(_ report: String) -> Bool {
        let words = report.split { !$0.isLetter && !$0.isNumber }
        return zip(words, words.dropFirst()).contains { word, next in
            word == "code" && Int32(next).map { $0 & 0xFF == SQLITE_IOERR } ?? false
        }
    }

    private static func create(
        _ database: Database, _ model: ManagedObjectModel, _ cluster: String, _ node: NodeID,
        _ environment: StoreSession.Environment
    ) throws {
        try database.execute(
            sql: """
                PRAGMA application_id = \(StoreLayout.applicationID);
                PRAGMA user_version = \(StoreLayout.version);
                \(StoreLayout.systemTables)
                """)
        try database.execute(
            sql: """
                INSERT INTO _state (id, store, cluster, node, incarnation, generation, clock,
                    block, digestHigh, digestLow, recovery, syncs, recent)
                VALUES (1, ?, ?, ?, 0, 0, 0, 0, 0, 0, ?, 0, '')
                """,
            arguments: [
                Int64(bitPattern: environment.random()), cluster, Int64(node.rawValue),
                StoreRecovery.new.rawValue,
            ])
    }

    /// - Throws: ``CoordinatorError`` with `storeOwner` where a store is another node's.
    static func checkOwner(
        _ database: Database, path: String, cluster: String, node: NodeID
    ) throws {
        guard
            let row = try Row.fetchOne(
                database, sql: "SELECT cluster, node FROM _state WHERE id = 1")
        else { throw CoordinatorError(.storeDamaged, "\(path) has lost its state.") }
        let owner = try row.text("cluster")
        let number = try row.integer("node")
        guard owner == cluster, number == Int64(node.rawValue) else {
            throw CoordinatorError(
                .storeOwner,
                "\(path) belongs to node \(number) of cluster \(owner), not to node "
                    + "\(node) of cluster \(cluster).")
        }
    }

    /// Makes the model the store's, or refuses one that it cannot be migrated to.
    ///
    /// Indexes and validation may differ: they are no part of the hash. Where defaults alone do
    /// there is nothing to migrate, but what stands for missing values must stay.
    ///
    /// - Returns: the migration whose tables are done, where there was one, and the roots of the
    ///   entities that have derived attributes yet to be computed.
    private static func adopt(
        _ model: ManagedObjectModel, _ migration: ModelMigration, in database: Database,
        path: String
    ) throws -> (StoreMigration.Remainder?, unfilled: Set<String>) {
        let kept = try StoreModels.all(in: database, path: path)
        guard let current = kept.first(where: \.isCurrent), current.hash != model.modelHash
        else {
            var roots = Set<String>()
            if let current = kept.first(where: \.isCurrent),
                current.json != JSONWriter.text(of: model.jsonValue())
            {
                let former = try current.model()
                roots = DerivedLayout.rootsUnlike(former, model)
                try DerivedLayout.drop(of: former, roots: roots, in: database)
                try DerivedLayout.add(of: model, roots: roots, in: database)
            }
            try StoreModels.keep(model, isCurrent: true, in: database)
            try StoreLayout.createEntityTables(model, in: database)
            return (nil, roots)
        }
        let differences = ModelDifference.between(try current.model(), model)
        guard migration != .none || differences.isEmpty else {
            throw CoordinatorError(
                .modelMismatch,
                "The store was written with another model, and is not to be migrated. The store's "
                    + "model and this one differ: \(ModelDifference.summary(differences)).")
        }
        let plan = try StoreModels.plan(to: model, from: current, of: kept, in: database)
        let former = try current.model()
        try DerivedLayout.drop(
            of: former, roots: DerivedLayout.roots(of: former), in: database)
        let work = StoreMigration(
            database: database, plan: plan, formerHash: current.hash)
        let remainder = try work.run()
        let newNames = try StoreLayout.nameTable(model, in: database)
        for former in kept where former.hash != model.modelHash {
            try StoreModels.settle(
                ModelMapping(from: try former.model(), to: model) { _, _ in nil }, in: database,
                names: newNames)
        }
        if migration == .inferred { try work.refuseDuplicates() }
        return (remainder, DerivedLayout.roots(of: model))
    }

    /// The inputs of an opening besides the store.
    private struct Beginning {
        let path: String
        let remainder: StoreMigration.Remainder?
        /// The roots of entities that have derived attributes yet to be computed.
        let unfilled: Set<String>
        /// The roots of those with derived texts by other tables than the program's.
        let outdated: Set<String>
        let isNew: Bool
        let minimumIncarnation: UInt64
        let beside: IncarnationRecord?
        /// Puts a record beside the store.
        let announce: (IncarnationRecord) throws -> Void
    }

    private static func begin(
        _ database: Database, _ model: ManagedObjectModel, _ cluster: String, _ node: NodeID,
        _ environment: StoreSession.Environment, _ beginning: Beginning
    ) throws -> StoreEngine {
        guard
            let row = try Row.fetchOne(
                database,
                sql: """
                    SELECT *, \(StoreLayout.lastPosition) AS position,
                        (SELECT count(*) FROM _tombstone) AS tombstones,
                        (SELECT count(*) FROM _eclipsed) AS eclipsed FROM _state
                    """)
        else { throw CoordinatorError(.storeDamaged, "The store has lost its state.") }
        func unsigned(_ name: String) throws -> UInt64 {
            UInt64(bitPattern: try row.integer(name))
        }
        let store = try unsigned("store")
        let generation = try unsigned("generation")
        let names = try StoreLayout.nameTable(model, in: database)
        let (actors, vector) = try StoreLayout.readActors(in: database)
        let wall = environment.wallMilliseconds()
        let last = try unsigned("incarnation")
        let beside = beginning.beside
        let isOwn =
            beside?.isOf(store: store, incarnation: last, generation: generation) ?? false
        // A caller that asks for a later incarnation than the store knows has heard of another
        // store of this node, which may have told others what this one does not hold.
        let isNewest = isOwn && beginning.minimumIncarnation <= last
        let kept = StoreRecovery(rawValue: Int(try row.integer("recovery"))) ?? .restored
        let recovery: StoreRecovery =
            beginning.isNew ? .new : isNewest ? kept : .restored
        let former = FormerLives(
            store: store,
            incarnations: actors.actors.filter { $0.node == node }.map(\.incarnation) + [
                last, beginning.minimumIncarnation, beside?.incarnation ?? 0,
            ], lastBlock: UInt32(truncatingIfNeeded: try unsigned("block")),
            isNew: beginning.isNew, isOwn: isOwn)
        let actor = try incarnation(
            of: node, after: former, wallMilliseconds: wall, random: environment.random())
        if isOwn || beginning.isNew {
            try beginning.announce(
                IncarnationRecord(
                    store: store, incarnation: actor.incarnation, previous: last,
                    generation: isOwn ? beside?.generation ?? 0 : 0))
        }
        let clock = HybridClock(
            highWaterMark: HybridTimestamp(rawValue: try unsigned("clock")) ?? .zero)
        let state = StoreSession.State(
            actors: actors, recent: try StoreLayout.readRecent(in: database), versionVector: vector,
            beginnings: try StoreLayout.readBeginnings(in: database, actors),
            generation: generation,
            position: try unsigned("position"), clock: clock,
            digest: ProjectionDigest(
                high: try unsigned("digestHigh"), low: try unsigned("digestLow")),
            allocator: allocator(
                of: node, after: former, wallMilliseconds: wall, random: environment.random),
            tombstones: Int(try unsigned("tombstones")), eclipsed: Int(try unsigned("eclipsed")),
            recovery: recovery, membership: try StoreLayout.readMembership(in: database),
            log: try StoreLayout.readLogStanding(in: database),
            orphans: try StoreLayout.readOrphans(in: database))
        let session = StoreSession(
            database: database, model: model,
            history: try StoreModels.history(of: model, in: database, path: beginning.path),
            names: names, cluster: cluster,
            store: store, actor: actor, state: state, environment: environment)
        let engine = StoreEngine(session)
        try engine.transactionLog.intern(actor)
        try engine.orphanStore.forgetAppliedOrphans()
        try database.execute(
            sql: "UPDATE _state SET incarnation = ?, block = ?, recovery = ? WHERE id = 1",
            arguments: [
                Int64(bitPattern: actor.incarnation), Int64(engine.state.allocator.block),
                recovery.rawValue,
            ])
        let plan = beginning.remainder?.plan
        let migration = RowMigration(session: session)
        let adoption = ModelAdoption(session: session)
        if let plan { try migration.finish(plan) }
        try adoption.adoptConstraints(after: beginning.remainder)
        try engine.derivedAttributes.fill(
            beginning.unfilled, outdated: beginning.outdated)
        if let plan {
            if plan.hasOtherClaims { try migration.settleAllClaims() }
            try migration.adoptDigest(plan)
            try adoption.adoptValidation()
        }
        try engine.derivedAttributes.settle()
        engine.group = StoreSession.GroupChanges()
        session.adoptState()
        return engine
    }
}
