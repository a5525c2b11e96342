import Merge

/// Knowledge that lasts while rows are written, and goes with the group.
struct ApplyScratch {
    /// Why rows are written.
    enum Mode {
        /// For no transaction in particular: a save is being planned, or something collected.
        case none
        /// For a transaction, which is not in the log yet.
        case applying(Transaction)
        /// The store is being held to another model than before.
        case adopting
        /// Two stores are being joined, and rows are as no transaction left them.
        case joining(JournalLater)
    }

    var mode = Mode.none

    /// Rows known to be alive, each with the root of its entity, so that a thousand references to one
    /// row cost one look.
    var knownAlive: [RowID: String] = [:]

    /// Rows known to be eclipsed, each with its survivor. Before an apply writes rows it notes here
    /// and in ``knownAlive`` what will be shown, so that references find it.
    var knownEclipsed: [RowID: RowID] = [:]

    /// The tables of rows that are about to be written, as far as others may be shown in their places,
    /// or they in others': what leads to one of them asks before the row is there.
    var knownTables: [RowID: EntityTable] = [:]

    /// Dead rows as the transaction that is being applied leaves them; their tombstones may come later.
    var dying: [RowID: RowState] = [:]

    /// The rows that the last transaction wrote without naming them, because their groups were
    /// changed, of those that were shown before or are now.
    var regrouped: [(row: RowID, table: EntityTable)] = []

    /// Rows that may lead to more or fewer objects than before, with the table of their entity or of
    /// one it inherits from; counted when all that a transaction writes is written.
    var recounted: [RowID: EntityTable] = [:]

    /// Rows with derived attributes that look into a to-many which may lead elsewhere than before, each
    /// with the root of its entity; computed when all that a transaction writes is written.
    var derivedOwners: [RowID: String] = [:]

    /// Entries of one-to-ones that are held back until all rows of a transaction are written; nil where
    /// entries are written at once.
    var heldClaims: HeldClaims?

    /// The vectors that transactions of the log had seen, as far as somebody asked.
    var pasts: [Dot: VersionVector] = [:]

    /// The tools of the last insert, because the next one is nearly always like it.
    var lastInsert: (table: EntityTable, statement: SQLStatement)?
    var lastVersion: (dot: Dot, integer: Int64)?

    /// Forgets what is known of rows.
    mutating func forgetRows() {
        knownAlive.removeAll(keepingCapacity: true)
        knownEclipsed.removeAll()
        knownTables.removeAll()
        regrouped = []
    }

    /// Forgets everything but why rows are written.
    mutating func forget() { self = ApplyScratch(mode: mode) }
}

extension ApplyScratch {
    /// The transaction being applied.
    var applying: Transaction? {
        if case .applying(let transaction) = mode { transaction } else { nil }
    }

    /// Whether the store is being held to another model than before.
    var isAdopting: Bool {
        if case .adopting = mode { true } else { false }
    }

    /// The entries to journal at the end of a join.
    var journalLater: JournalLater? {
        if case .joining(let later) = mode { later } else { nil }
    }
}
