import GRDB
import GRDBSQLite
import Merge

/// The state that the parts of the writer share: the connection, the model, and what the open group
/// has changed.
///
/// A *group* is one SQLite commit of several saves or several foreign transactions:
///
///     begin() ──► save(...) / apply(...) ... ──► commit() ──► CommitNotice
///        └──────────── any SQLite failure ─────► rollBack()
///
/// Invariant: ``state`` equals what the open SQLite transaction would leave on disk, ``committed`` what
/// is on disk. A rollback makes the first equal to the second.
final class StoreSession {
    /// The doors to the outside: time and chance.
    struct Environment: Sendable {
        /// Wall time in milliseconds since 1970.
        var wallMilliseconds: @Sendable () -> UInt64
        /// 64 random bits.
        var random: @Sendable () -> UInt64
    }

    /// The changes of a group; a value, so that a rollback is an assignment.
    struct State {
        var actors: ActorTable
        var recent: RecentSequences
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
        /// The orphans that are kept, sorted: few, and nearly always none.
        var orphans: [Dot]
    }

    let database: Database
    let model: ManagedObjectModel
    let history: ModelHistory
    let tables: [String: EntityTable]
    let cluster: String
    let store: UInt64
    let actor: ActorID
    let environment: Environment
    /// Not of the state, because it outlives a group that is given up.
    let owedRecovery = OwedRecovery()

    var state: State
    private(set) var committed: State
    var group = GroupChanges()
    private var isGroupOpen = false
    /// What the groups that were closed and not committed yet have changed.
    private(set) var closed: [CommitNotice] = []

    /// Knowledge that lasts for one save.
    var plannedRows = PlannedRows()

    /// Knowledge that lasts while rows are written.
    var scratch = ApplyScratch()

    private(set) var keptStatements = Set<String>()
    private static let keptStatementsLimit = 128

    /// What the index of history is kept by; nil where none is kept.
    var historyNames: HistoryNames?

    /// The to-ones that lead to each hierarchy, by its root; in order of the entities' names.
    private let referrers: [String: [(table: EntityTable, position: Int)]]

    /// The to-ones that lead to the entities of a hierarchy.
    func referrers(to root: String) -> [(table: EntityTable, position: Int)] {
        referrers[root] ?? []
    }

    /// The roots of the hierarchies that have uniqueness constraints.
    let groupedRoots: Set<String>

    /// Many-to-manys that have a least or greatest count at one side, by their links' names.
    let countedLinks: Set<String>

    /// Many-to-manys that derived attributes of objects at their ends look into, by their links' names.
    let derivedLinks: [String: (source: Bool, target: Bool)]

    /// The changes of the group so far.
    struct GroupChanges {
        var transactions: [EncodedTransaction] = []
        var inserted: [ManagedObjectID] = []
        var updated: [ManagedObjectID] = []
        var deleted: [ManagedObjectID] = []
        var actors = Set<ActorID>()
        var conflicts = GroupConflicts()
        /// Whether something was written besides transactions.
        var wroteApart = false

        /// How far the group has come; lengths only, for copies of the lists would cost more
        /// than the work.
        var mark: [Int] {
            [
                transactions.count, inserted.count, updated.count, deleted.count,
                conflicts.lengths.events, conflicts.lengths.closed,
            ]
        }

        /// Forgets what came after a mark.
        mutating func rewind(to mark: [Int]) {
            transactions.removeLast(transactions.count - mark[0])
            inserted.removeLast(inserted.count - mark[1])
            updated.removeLast(updated.count - mark[2])
            deleted.removeLast(deleted.count - mark[3])
            conflicts.rewind(events: mark[4], closed: mark[5])
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
        var referrers: [String: [(table: EntityTable, position: Int)]] = [:]
        for table in tables.values.sorted(by: { $0.entity.name < $1.entity.name }) {
            for (position, root) in table.references {
                referrers[root, default: []].append((table, position))
            }
        }
        self.referrers = referrers
        groupedRoots = Set(model.entities.map(\.root).filter { model.hasConstraints(root: $0) })
        countedLinks = Set(
            tables.values.flatMap(\.counted).compactMap { counted in
                guard case .link(let name, _) = counted.relationship.storage else { return nil }
                return name
            })
        var derivedLinks: [String: (source: Bool, target: Bool)] = [:]
        for entity in model.entities {
            for attribute in entity.derivedAttributes {
                guard let name = attribute.derivation.relationship,
                    case .link(let link, let isFirst)? = entity.relationship(named: name)?.storage
                else { continue }
                let known = derivedLinks[link] ?? (false, false)
                // One that is its own inverse leads both ways.
                let isBoth = entity.relationship(named: name).map(model.isOwnInverse) ?? false
                derivedLinks[link] = (
                    known.source || isFirst || isBoth, known.target || !isFirst || isBoth
                )
            }
        }
        self.derivedLinks = derivedLinks
        self.cluster = cluster
        self.store = store
        self.actor = actor
        self.state = state
        committed = state
        self.environment = environment
    }

    /// Takes the state for committed, outside a group; the caller commits what belongs to it.
    func adoptState() { committed = state }

    /// The token of the open group, once it has come to something, or of the store where none is open.
    var token: QueryGenerationToken {
        let isEmpty = isGroupOpen && group.transactions.isEmpty && !group.wroteApart
        return QueryGenerationToken(
            store: store, generation: isEmpty ? state.generation - 1 : state.generation,
            position: state.position,
            versionVector: state.versionVector, beginnings: state.beginnings)
    }

    // MARK: Groups

    /// Begins an SQLite transaction.
    ///
    /// - Parameter isDurable: whether the commit waits for the disk. Only what came from elsewhere
    ///   may go without: it can be fetched again, and a later durable commit covers it, for the
    ///   write-ahead log is written and synced in order.
    func begin(isDurable: Bool) throws {
        try setDurability(isDurable)
        try database.prepared("BEGIN IMMEDIATE").run()
        closed = []
    }

    /// Opens a group, which makes one generation.
    func openGroup() {
        state.generation += 1
        isGroupOpen = true
        group = GroupChanges()
        scratch = ApplyScratch()
    }

    /// Closes the group. One that came to nothing makes no generation.
    func closeGroup(isLocal: Bool) {
        isGroupOpen = false
        if group.transactions.isEmpty, !group.wroteApart {
            state.generation -= 1
            return
        }
        noteSequences()
        let conflicts = group.conflicts.told
        closed.append(
            CommitNotice(
                token: token, digest: state.digest, membership: state.membership,
                transactions: group.transactions,
                isLocal: isLocal, inserted: group.inserted, updated: group.updated,
                deleted: group.deleted, openedConflicts: conflicts.opened,
                closedConflicts: conflicts.closed, hasMoreConflicts: conflicts.hasMore))
        group = GroupChanges()
    }

    /// Commits the groups that were closed.
    ///
    /// - Returns: what each changed; none where all came to nothing, and nothing was written.
    func commit() throws -> [CommitNotice] {
        if closed.isEmpty {
            try rollBack()
            return []
        }
        try writeState()
        try database.prepared("COMMIT").run()
        committed = state
        defer { closed = [] }
        return closed
    }

    /// Gives all groups up; the store is as it was before ``begin(isDurable:)``.
    func rollBack() throws {
        state = committed
        isGroupOpen = false
        closed = []
        group = GroupChanges()
        scratch = ApplyScratch()
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
        // Prepared each time: SQLite carries this pragma out while it compiles it, so that running
        // a kept statement once more changes nothing.
        try database.execute(sql: "PRAGMA synchronous = \(isDurable ? "FULL" : "NORMAL")")
        currentDurability = isDurable
    }

    func writeState() throws {
        try writeSequences()
        let statement = try database.prepared(
            """
            UPDATE _state SET generation = ?1, clock = ?2, block = ?3, digestHigh = ?4,
                digestLow = ?5, recent = ?6 WHERE id = 1
            """)
        statement.bind(1, Int64(bitPattern: state.generation))
        statement.bind(2, Int64(bitPattern: state.clock.highWaterMark.rawValue))
        statement.bind(3, Int64(state.allocator.block))
        statement.bind(4, Int64(bitPattern: state.digest.high))
        statement.bind(5, Int64(bitPattern: state.digest.low))
        statement.bind(6, state.recent.text)
        try statement.run()
    }

    /// Takes note of how far the group's actors have come.
    private func noteSequences() {
        for actor in group.actors {
            guard let code = state.actors.code(of: actor) else { continue }
            state.recent.note(state.versionVector[actor], of: code)
        }
    }

    /// Writes sequences to the actors' rows: an actor's first, so that the row tells that there is
    /// something of it, and all where many wait.
    private func writeSequences() throws {
        noteSequences()
        var written = state.recent.sequences.filter { code, _ in
            committed.versionVector[state.actors.actors[code - 1]] == 0
        }
        if state.recent.isFull {
            written = state.recent.sequences
            state.recent = RecentSequences()
        }
        guard !written.isEmpty else { return }
        let statement = try database.prepared("UPDATE _actor SET sequence = ?2 WHERE code = ?1")
        for (code, sequence) in written.sorted(by: { $0.key < $1.key }) {
            statement.bind(1, code)
            statement.bind(2, Int64(bitPattern: sequence))
            try statement.run()
        }
    }

    /// Reads what has been written so far.
    func reader() throws -> StoreReader {
        StoreReader(
            database: database,
            catalog: StoreCatalog(
                model: model, cluster: cluster, names: try StoreLayout.readNames(in: database),
                actors: state.actors, history: history))
    }

    /// The side file's text about this incarnation.
    func incarnationRecord(generation: UInt64) -> IncarnationRecord {
        IncarnationRecord(
            store: store, incarnation: actor.incarnation, generation: generation)
    }

    /// The table of an entity of the model.
    func table(_ entity: String) -> EntityTable {
        guard let table = tables[entity] else {
            fatalError("Entity \(entity) is not in the model of this store.")
        }
        return table
    }

    /// Whether a statement of some of a table's columns is one of those that are prepared once and kept: the
    /// first ones, for others may name ever other columns.
    func keepsStatement(_ sql: String) -> Bool {
        if keptStatements.count < Self.keptStatementsLimit { keptStatements.insert(sql) }
        return keptStatements.contains(sql)
    }

    /// How the table's rows are written.
    func coding(_ table: EntityTable) -> RowCoding {
        RowCoding(table: table, actors: state.actors)
    }
}
