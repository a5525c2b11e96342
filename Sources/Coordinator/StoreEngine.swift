import GRDB
import GRDBSQLite
import Merge

/// The synchronous heart of a coordinator: the only code that writes a store.
///
/// No async, no lock, no clock of its own: it belongs to one queue, time and chance come in
/// through ``Environment``, and a simulator can drive it as the product does. What is decided
/// (who wins, what a save leaves) is decided by pure functions of Merge and of Saving; here it
/// is read and written.
///
/// A *group* is one SQLite commit of several saves or several foreign transactions:
///
///     begin() ──► save(...) / apply(...) ... ──► commit() ──► CommitNotice
///        └──────────── any SQLite failure ─────► rollBack()
///
/// Invariants
/// 1. A save that throws has written nothing and used no sequence (checks come before writes).
/// 2. `state` equals what the open SQLite transaction would leave on disk; `committed` what is
///    on disk. A rollback makes the first equal to the second.
/// 3. A row is in its entity's table exactly while it is visible; in `_eclipsed` while it is alive
///    but an earlier row shows its unique key; else in `_tombstone`, until stability has it
///    collected.
/// 4. A reference column holds a visible row, the target's survivor where that is eclipsed, or
///    NULL; `_dangling` lists what reads as NULL.
/// 5. `state.digest` is the sum of the hashes of all living rows and links.
final class StoreEngine {
    /// What the engine needs from outside: the doors of time and chance.
    struct Environment: Sendable {
        /// Wall time in milliseconds since 1970.
        var wallMilliseconds: @Sendable () -> UInt64
        /// 64 random bits.
        var random: @Sendable () -> UInt64
    }

    /// The part of the engine that a group changes; a value, so that a rollback is an assignment.
    struct State {
        var actors: ActorTable
        var versionVector: VersionVector
        var beginnings: Beginnings
        var generation: UInt64
        var position: UInt64
        var clock: HybridClock
        var digest: ProjectionDigest
        var allocator: RowIDAllocator
        var tombstones: Int
        var eclipsed: Int
        var recovery: StoreRecovery
        var membership: Membership
        var log: LogStanding
        /// What is kept as orphans, sorted: few, and nearly always none.
        var orphans: [Dot]
    }

    enum Limits {
        /// The longest save: what the mesh carries (Replication's bound), far below SQLite's.
        static let transactionBytes = 256 << 20
    }

    let database: Database
    let model: ManagedObjectModel
    let history: ModelHistory
    let tables: [String: EntityTable]
    let cluster: String
    let store: UInt64
    let actor: ActorID
    let environment: Environment
    /// Not of the state, for it outlives a group that is given up.
    let owedRecovery = OwedRecovery()

    var state: State
    private(set) var committed: State
    var group = GroupChanges()

    /// Rows known to be alive within this group, each with the root of its entity, so that a
    /// thousand references to one row cost one look. Bounded, because a group is; forgotten with
    /// it.
    var knownAlive: [RowID: String] = [:]

    /// Rows known to be eclipsed within this group, each with its survivor. Before an apply writes
    /// rows it notes here and in ``knownAlive`` what will be shown, so that references find it.
    var knownEclipsed: [RowID: RowID] = [:]

    /// The entities' tables of rows that an apply is about to write, as far as others may be shown in their
    /// places, or they in others': what leads to one of them asks before the row is there.
    var knownTables: [RowID: EntityTable] = [:]

    /// The rows that the last transaction wrote without naming them, for their groups were changed, of
    /// those that were shown before or are now.
    var regrouped: [(row: RowID, table: EntityTable)] = []

    /// The roots of the hierarchies that have uniqueness constraints.
    let groupedRoots: Set<String>

    /// Many-to-manys of which a side has a least or greatest count, by their links' names.
    let countedLinks: Set<String>

    /// Rows that may lead to more or fewer objects than before, with the table of their entity or of
    /// one it inherits from; counted when all that a transaction writes is written.
    var recounted: [RowID: EntityTable] = [:]

    /// Entries of one-to-ones that the transaction being applied opens and closes, held back until all of
    /// its rows are written; nil where entries are written at once.
    var heldClaims: HeldClaims?

    /// Dead rows as the transaction that is being applied leaves them; their tombstones may come later.
    var dying: [RowID: RowState] = [:]

    /// Whether the store is being held to other constraints than before.
    var isAdopting = false

    /// What the last insert used, for the next one is nearly always like it.
    var lastInsert: (table: EntityTable, statement: SQLStatement)?
    var lastVersion: (dot: Dot, integer: Int64)?

    /// The transaction being applied, which is not in the log yet.
    var applying: Transaction?

    /// What transactions of the log had seen that this generation has asked for.
    var pasts: (generation: UInt64, seen: [Dot: VersionVector]) = (0, [:])

    /// What is to be journalled at the end of a join, in the midst of which rows are as no
    /// transaction left them.
    var journalLater: JournalLater?

    /// What a group has changed so far.
    struct GroupChanges {
        var transactions: [EncodedTransaction] = []
        var inserted: [ManagedObjectID] = []
        var updated: [ManagedObjectID] = []
        var deleted: [ManagedObjectID] = []
        var actors = Set<ActorID>()
        /// Conflicts closed in this group, for the answers of its saves.
        var closedConflicts: [ConflictID] = []
        /// Whether something was written besides transactions.
        var wroteApart = false

        /// How far the group has come; lengths only, for copies of the lists would cost more
        /// than the work.
        var mark: [Int] {
            [
                transactions.count, inserted.count, updated.count, deleted.count,
                closedConflicts.count,
            ]
        }

        /// Forgets what came after a mark.
        mutating func rewind(to mark: [Int]) {
            transactions.removeLast(transactions.count - mark[0])
            inserted.removeLast(inserted.count - mark[1])
            updated.removeLast(updated.count - mark[2])
            deleted.removeLast(deleted.count - mark[3])
            closedConflicts.removeLast(closedConflicts.count - mark[4])
        }
    }

    init(
        database: Database, model: ManagedObjectModel, history: ModelHistory, names: NameTable,
        cluster: String, store: UInt64, actor: ActorID, state: State, environment: Environment
    ) {
        self.database = database
        self.model = model
        self.history = history
        tables = Dictionary(
            uniqueKeysWithValues: model.entities.map {
                ($0.name, EntityTable($0, names: names, model: model, history: history))
            })
        groupedRoots = Set(model.entities.map(\.root).filter { model.hasConstraints(root: $0) })
        countedLinks = Set(
            tables.values.flatMap(\.counted).compactMap { counted in
                guard case .link(let name, _) = counted.relationship.storage else { return nil }
                return name
            })
        self.cluster = cluster
        self.store = store
        self.actor = actor
        self.state = state
        committed = state
        self.environment = environment
    }

    /// Takes the state for committed, outside a group; the caller commits what belongs to it.
    func adoptState() { committed = state }

    /// The token of the open group, or of the store where none is open.
    var token: QueryGenerationToken {
        // A group that comes to nothing makes no generation.
        let isEmpty = group.transactions.isEmpty && !group.wroteApart
        return QueryGenerationToken(
            store: store, generation: isEmpty ? committed.generation : state.generation,
            position: state.position,
            versionVector: state.versionVector, beginnings: state.beginnings)
    }

    // MARK: Groups

    /// Opens a group: one SQLite transaction that makes one generation.
    ///
    /// - Parameter isDurable: whether the commit waits for the disk. Only what came from elsewhere
    ///   may go without: it can be fetched again, and a later durable commit covers it, for the
    ///   write-ahead log is written and synced in order.
    func begin(isDurable: Bool) throws {
        try setDurability(isDurable)
        try database.prepared("BEGIN IMMEDIATE").run()
        state.generation += 1
        group = GroupChanges()
        knownAlive.removeAll(keepingCapacity: true)
        knownEclipsed.removeAll()
        knownTables.removeAll()
        recounted.removeAll()
        heldClaims = nil
        pasts.seen = [:]
        lastVersion = nil
    }

    /// Commits the group.
    ///
    /// - Returns: what changed; nil where the group came to nothing, and nothing was written.
    func commit(isLocal: Bool) throws -> CommitNotice? {
        if group.transactions.isEmpty, !group.wroteApart {
            try rollBack()
            return nil
        }
        try writeState()
        try database.prepared("COMMIT").run()
        committed = state
        return CommitNotice(
            token: token, digest: state.digest, membership: state.membership,
            transactions: group.transactions,
            isLocal: isLocal, inserted: group.inserted, updated: group.updated,
            deleted: group.deleted)
    }

    /// Gives the group up; the store is as it was before ``begin()``.
    func rollBack() throws {
        state = committed
        group = GroupChanges()
        knownAlive.removeAll()
        knownEclipsed.removeAll()
        knownTables.removeAll()
        recounted.removeAll()
        heldClaims = nil
        pasts.seen = [:]
        if sqlite3_get_autocommit(database.sqliteConnection) == 0 {
            try database.prepared("ROLLBACK").run()
        }
    }

    /// Commits durably, so that all commits before are durable too.
    ///
    /// The commit must change something: SQLite writes no page whose bytes stay the same, and
    /// where it writes none it syncs none. So it counts.
    func makeDurable() throws {
        try setDurability(true)
        try database.prepared("BEGIN IMMEDIATE").run()
        do {
            try database.prepared("UPDATE _state SET syncs = syncs + 1 WHERE id = 1").run()
            try database.prepared("COMMIT").run()
        } catch {
            try? rollBack()
            throw error
        }
    }

    private var currentDurability: Bool?

    /// In WAL mode synchronous = NORMAL writes a commit without waiting for the disk, FULL waits.
    /// SQLite lets it be changed between transactions only.
    private func setDurability(_ isDurable: Bool) throws {
        guard currentDurability != isDurable else { return }
        // Prepared anew each time: SQLite carries this pragma out while it compiles it, so that
        // running a kept statement once more changes nothing.
        try database.execute(sql: "PRAGMA synchronous = \(isDurable ? "FULL" : "NORMAL")")
        currentDurability = isDurable
    }

    func writeState() throws {
        let statement = try database.prepared(
            """
            UPDATE _state SET generation = ?1, clock = ?2, block = ?3, digestHigh = ?4,
                digestLow = ?5 WHERE id = 1
            """)
        statement.bind(1, Int64(bitPattern: state.generation))
        statement.bind(2, Int64(bitPattern: state.clock.highWaterMark.rawValue))
        statement.bind(3, Int64(state.allocator.block))
        statement.bind(4, Int64(bitPattern: state.digest.high))
        statement.bind(5, Int64(bitPattern: state.digest.low))
        try statement.run()
        let actorStatement = try database.prepared(
            "UPDATE _actor SET sequence = ?2 WHERE code = ?1")
        for actor in group.actors.sorted() {
            guard let code = state.actors.code(of: actor) else { continue }
            actorStatement.bind(1, code)
            actorStatement.bind(2, Int64(bitPattern: state.versionVector[actor]))
            try actorStatement.run()
        }
    }

    // MARK: The log

    /// Notes what an actor that has been met had seen at first.
    func noteBeginning(of actor: ActorID, _ frontier: VersionVector) throws {
        guard state.beginnings[actor] == nil, let code = state.actors.code(of: actor) else {
            return
        }
        state.beginnings.note(actor, frontier)
        var writer = CBORWriter(capacity: 8 + 20 * frontier.entries.count)
        writer.write(frontier)
        let statement = try database.prepared(
            "INSERT INTO _beginning (actor, frontier) VALUES (?1, ?2)")
        statement.bind(1, code)
        statement.bind(2, writer.bytes)
        try statement.run()
    }

    /// Numbers an actor that may be new.
    func intern(_ actor: ActorID) throws {
        guard state.actors.code(of: actor) == nil else { return }
        let code = state.actors.intern(actor).code
        let statement = try database.prepared(
            "INSERT INTO _actor (code, node, incarnation, sequence) VALUES (?1, ?2, ?3, 0)")
        statement.bind(1, code)
        statement.bind(2, Int64(actor.node.rawValue))
        statement.bind(3, Int64(bitPattern: actor.incarnation))
        try statement.run()
    }

    /// Appends a transaction to the log and advances the vector.
    func log(_ encoded: EncodedTransaction) throws {
        let transaction = encoded.transaction
        state.position += 1
        let statement = try database.prepared(
            """
            INSERT INTO _transaction (position, dot, generation, checksum, bytes)
            VALUES (?1, ?2, ?3, ?4, ?5)
            """)
        statement.bind(1, Int64(bitPattern: state.position))
        statement.bind(2, state.actors.integer(transaction.dot))
        statement.bind(3, Int64(bitPattern: state.generation))
        statement.bind(4, Int64(bitPattern: Transaction.checksum(encoded.bytes)))
        statement.bind(5, encoded.bytes)
        try statement.run()
        state.log.append(position: state.position, bytes: encoded.bytes.count)
        if transaction.dot.sequence == 1 {
            try noteBeginning(of: transaction.dot.actor, encoded.frontier)
        }
        state.versionVector.advance(to: transaction.dot)
        state.clock.observe(transaction.timestamp)
        group.actors.insert(transaction.dot.actor)
        group.transactions.append(encoded)
        try forgetOrphan(transaction.dot)
        try rebuildAnswer(to: transaction, at: state.position)
    }
}
