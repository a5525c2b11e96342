import Merge

/// A very large transaction on its way into the store, a part at a time, so that others are saved
/// between: SQLite has one writer, and all of it at once would hold that up for long.
///
/// What it leaves of each row is written first, in commits of their own, where nobody reads it. One
/// commit then gives the transaction its place in the log, and has readers see all of it: from there
/// on it is like any other. Last the rows are put into the form that they would have had, part by part
/// again.
///
///     check ──► write ──► show ──► fold       each part by part, but for show
///       │         └────────┴──► discard       where it cannot be shown
///       └───────────────────────┴──► in one piece: it is of another kind, something in it is not
///                                    valid, or has come to be so meanwhile
///
/// Invariants
/// 1. At most one transaction is staged; the next begins when the rows of the last are folded.
/// 2. What is written before it is shown changes nothing that anybody reads, and nothing that a save
///    in between decides by.
/// 3. When it is shown it leaves what it would have left in one piece: whatever came between that it
///    depends on has had that part written anew, or all of it given up.
/// 4. An opening finds what a crash has left, by `_staged`: it folds or removes it.
///
/// Inserts are staged by ``StagedInserts``, updates and deletes by ``StagedChanges``; other kinds of transaction, and
/// those of another model, are written in one piece, however large.
class StagedTransaction {
    /// Where the transaction comes from.
    enum Origin {
        case save(SaveRequest)
        case foreign(EncodedTransaction)
    }

    enum Phase {
        case checking, writing, complete, folding, discarding, done
    }

    let origin: Origin
    final var phase: Phase
    /// How many operations, changes or rows the phase has come past.
    final var position = 0
    /// Whether something came between that it cannot be shown with.
    final var isOvertaken = false
    /// How many parts were written anew, since something had come between.
    final var rewrites = 0
    /// Whether it is to be written in one piece once nothing of it is left.
    final private(set) var isGivenUp = false

    init(_ origin: Origin, phase: Phase) {
        self.origin = origin
        self.phase = phase
    }

    /// The transaction in the form that suits it; nil where it is of no kind that can be staged.
    static func of(_ origin: Origin, _ engine: StoreEngine) -> StagedTransaction? {
        StagedInserts(origin, engine) ?? StagedChanges(origin, engine)
    }

    /// Whether whoever asked for it has heard what came of it.
    final var isAnswered: Bool {
        switch phase {
        case .folding: true
        case .discarding, .done: !isGivenUp
        case .checking, .writing, .complete: false
        }
    }

    final var isForeign: Bool { if case .foreign = origin { true } else { false } }

    /// Goes on after the attempt to show it.
    final func proceed(isShown: Bool) {
        position = 0
        phase = isShown ? .folding : hasBegun ? .discarding : .done
    }

    /// Removes what is written of it, so that it can be written in one piece.
    final func giveUp() {
        isGivenUp = true
        proceed(isShown: false)
    }

    /// Takes note that whoever asked for it has been told that it failed.
    final func noteFailed() { isGivenUp = false }

    // MARK: What each kind does

    /// Whether something of it is in the store.
    var hasBegun: Bool { preconditionFailure("Each kind says it.") }

    /// Does the next part of checking, writing, folding or discarding, outside a group.
    ///
    /// - Throws: ``NotStageable`` where it must be written in one piece, and what SQLite throws.
    ///   Nothing of the part is written then.
    func advance(_ engine: StoreEngine, atMost count: Int) throws {
        preconditionFailure("Each kind does it.")
    }

    /// Carries out the save that it is, within the open group; what it writes is shown, not written.
    func save(_ request: SaveRequest, _ engine: StoreEngine) throws -> SaveResult {
        preconditionFailure("Each kind does it.")
    }

    /// Lets readers see all that is written, from the open group's commit on.
    ///
    /// - Returns: the changes that are still to be applied as if they were alone.
    func show(_ engine: StoreEngine, as stamp: Stamp) throws -> [Change] {
        preconditionFailure("Each kind does it.")
    }

    /// Takes note that a row is written that is there, or is shown no more.
    func noteWritten(_ row: RowID, isShown: Bool) {}

    /// Takes note that a row, or a link, comes to refer to another row.
    func noteReferred(_ row: RowID) {}

    /// Takes note of what a row refers to.
    final func noteReferences(of values: some Sequence<PropertyValue>) {
        for case .reference(let row) in values { noteReferred(row) }
    }

    /// Takes note that a save takes a key of a row that nobody sees yet.
    func noteKeyTaken() {}
}

/// That something must be written in one piece, which also says what is wrong with it.
struct NotStageable: Error {}
