import Merge

/// The reads that planning may do of a store, with every earlier save of the group. It has no way
/// to write.
struct StoreView {
    private let session: StoreSession

    init(_ session: StoreSession) { self.session = session }

    // MARK: The store

    var model: ManagedObjectModel { session.model }
    var history: ModelHistory { session.history }
    var tables: [String: EntityTable] { session.tables }
    var cluster: String { session.cluster }
    /// The store's own name as an author of transactions.
    var actor: ActorID { session.actor }
    var groupedRoots: Set<String> { session.groupedRoots }
    var countedLinks: Set<String> { session.countedLinks }
    var state: StoreSession.State { _read { yield session.state } }

    func table(_ entity: String) -> EntityTable { session.table(entity) }

    // MARK: Rows

    private var rows: RowStore { RowStore(session: session) }

    /// A row, alive, eclipsed or dead; nil where nothing is kept of it.
    func load(_ table: EntityTable, _ row: RowID) throws -> LoadedRow? {
        try rows.load(table, row)
    }

    /// The plain rows of an entity; nil where it has none.
    func plainRows(of table: EntityTable) throws -> PlainRowStore? {
        try PlainRowStore(session, table)
    }

    /// The version of a plain row.
    func version(of row: PlainRow) throws -> RowVersion {
        RowVersion(dots: [try state.actors.dot(row.latest.dot)])
    }

    /// The value of a derived attribute of a row; null where it is none.
    func derivedValue(_ name: String, of row: LoadedRow) throws -> PropertyValue {
        let derived = row.table.derived
        if let place = derived.own.firstIndex(where: { $0.name == name }) {
            return derived.ownValues(row.columns, newest: row.newestShown)[place]
        }
        guard let place = derived.collected.firstIndex(where: { $0.name == name }) else {
            return .null
        }
        let statement = try session.database.prepared(row.table.collectedSQL)
        statement.bind(1, row.row.rawValue)
        defer { statement.reset() }
        guard try statement.step() else { return .null }
        return try statement.value(
            Int32(2 * place + 1), .attribute(derived.collected[place].type))
    }

    /// Whether a row is alive, eclipsed or not.
    func isAlive(_ row: RowID, root: String) throws -> Bool { try rows.isAlive(row, root: root) }

    /// Whether readers who are to find an object of an entity find the row, or another in its place.
    func isFound(_ row: RowID, as destination: String) throws -> Bool {
        try rows.isFound(row, as: destination)
    }

    /// Whether readers see a row itself.
    func isVisible(_ row: RowID, root: String) throws -> Bool {
        try rows.isVisible(row, root: root)
    }

    /// The row that readers see in a row's place; nil if it is not alive.
    func shownRow(_ row: RowID, root: String) throws -> RowID? {
        try rows.shownRow(row, root: root)
    }

    /// The row in a row's place for readers that look for an object of an entity.
    func shownRow(_ row: RowID, as destination: EntityTable) throws -> RowID? {
        try rows.shownRow(row, as: destination)
    }

    /// Where a reference of a row leads readers; nil where they find nothing.
    func ledTo(_ target: RowID, from table: EntityTable, _ position: Int) throws -> RowID? {
        try rows.ledTo(target, from: table, position)
    }

    /// The rows of an entity that show a row at one of their references; sorted.
    func rowsShowing(
        _ target: RowID, at position: Int, of table: EntityTable
    ) throws -> [RowID] {
        try rows.rowsShowing(target, at: position, of: table)
    }

    /// The survivor of a row that the store has as eclipsed; nil of any other.
    func survivor(of row: RowID) throws -> RowID? { try rows.survivor(of: row) }

    // MARK: Keys and claims

    /// The rows that readers see under a key.
    func rows(showing key: UniqueKey, of constraint: UniqueConstraint) throws -> [RowID] {
        try UniqueGroupStore(session: session).rows(showing: key, of: constraint)
    }

    /// The rows with a key that others of their keys eclipse.
    func eclipsedRows(with key: UniqueKey) throws -> [RowID] {
        try UniqueGroupStore(session: session).eclipsedRows(with: key)
    }

    /// Rows that claim a target of a one-to-one without readers' seeing it.
    func hiddenClaimants(_ claim: Claim) throws -> [RowID] {
        try ClaimStore(session: session).hiddenClaimants(claim)
    }

    // MARK: Links and counts

    private var links: LinkStore { LinkStore(session: session) }
    private var counts: CountTracker { CountTracker(session: session) }

    /// The register of a link; empty where the link was never made.
    func loadLink(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> Register<Bool> {
        try links.loadLink(link, source: source, target: target)
    }

    /// Whether readers see a link between two visible rows.
    func isShown(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> Bool {
        try links.isShown(link, source: source, target: target)
    }

    /// Whether both ends of a link are alive.
    func hasLivingEnds(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> Bool {
        try links.hasLivingEnds(link, source: source, target: target)
    }

    /// Whether a link table's rows may stand for those of groups.
    func isGrouped(_ link: ManagedObjectModel.Link) -> Bool { links.isGrouped(link) }

    /// A row's links that are there by their own registers, at that end of them.
    func livingLinks(
        _ link: ManagedObjectModel.Link, _ end: String, _ row: RowID
    ) throws -> [(source: RowID, target: RowID)] {
        try links.livingLinks(link, end, row)
    }

    /// The links of the rows of two groups by their own registers.
    func memberLinks(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> [(source: RowID, target: RowID, register: Register<Bool>, isAlive: Bool)] {
        try links.memberLinks(link, source: source, target: target)
    }

    /// The other ends of the links that readers see of a row.
    func linked(_ link: ManagedObjectModel.Link, with near: String, _ row: RowID) throws -> [RowID]
    {
        try links.linked(link, with: near, row)
    }

    /// The rows a to-many, or the derived side of a one-to-one, leads to; sorted.
    func members(
        of relationship: ManagedObjectModel.Relationship, row: RowID
    ) throws -> [RowID] {
        try links.members(of: relationship, row: row)
    }

    /// The to-many at one side of a link, where it has a least or greatest count.
    func counted(_ link: ManagedObjectModel.Link, isFirst: Bool) -> CountedRelationship? {
        counts.counted(link, isFirst: isFirst)
    }

    /// How many objects a to-many of a row shows, and no more than so many.
    func count(
        _ counted: CountedRelationship, of row: RowID, atMost limit: Int
    ) throws -> Int {
        try counts.count(counted, of: row, atMost: limit)
    }

    // MARK: The log and the journal

    private var log: TransactionLog { TransactionLog(session: session) }
    private var journal: ConflictJournal { ConflictJournal(session: session) }

    /// A transaction of the log; nil where it is not there.
    func transaction(_ dot: Dot) throws -> EncodedTransaction? { try log.transaction(dot) }

    /// The generation that a transaction of the log is of; nil where it is not there.
    func generation(of dot: Dot) throws -> UInt64? { try log.generation(of: dot) }

    /// Transactions of the log before a position, newest first, as they were logged.
    ///
    /// - Parameter byteLimit: the last of them is the one with which they are longer than this.
    func logged(
        before position: Int64, limit: Int, byteLimit: Int
    ) throws -> [(position: Int64, bytes: [UInt8])] {
        try log.logged(before: position, limit: limit, byteLimit: byteLimit)
    }

    /// A transaction by the names of the store's own model, with what has no place in it.
    func asOwn(
        _ transaction: Transaction
    ) throws -> (transaction: Transaction, parked: [ParkedValues]) {
        try log.asOwn(transaction)
    }

    /// The conflicts of a row.
    func conflicts(of row: LoadedRow) throws -> [Conflict] {
        try journal.conflicts(of: row, dangling: row.dangling)
    }

    /// The entry of an open conflict as it was last written.
    func openEntry(_ id: ConflictID) throws -> Conflict? { try journal.openEntry(id) }

    /// The entry of that very name, open or closed; nil where there is none.
    func entry(_ id: ConflictID) throws -> Conflict? { try journal.entry(id) }

    /// The entry of a closed conflict, or the newest of those of an open one's name; nil where there is
    /// none that can be read.
    func closedEntry(_ id: ConflictID) throws -> Conflict? { try journal.closedEntry(id) }
}
