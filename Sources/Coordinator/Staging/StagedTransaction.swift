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
/// Its inserts are staged by ``StagedInserts``, the links that it makes or takes away by ``StagedLinks``, its
/// updates and deletes by ``StagedChanges``, in this order: what these find in the tables are also the hidden rows
/// and links. Other kinds of transaction, and those of another model, are written in one piece, however
/// large.
final class StagedTransaction {
    /// Where the transaction comes from.
    enum Origin {
        case save(SaveRequest)
        case foreign(Transaction)

        /// Whether some of its operations or changes set to-ones.
        fileprivate func assignsReferences(at places: [Int], _ engine: StoreEngine) -> Bool {
            func isReference(_ value: PropertyValue) -> Bool {
                if case .reference = value { true } else { false }
            }
            switch self {
            case .save(let request):
                return places.contains { place in
                    request.operations[place].values.contains { isReference($0.value) }
                }
            case .foreign(let transaction):
                return places.contains {
                    transaction.changes[$0].values.contains(where: isReference)
                }
            }
        }
    }

    /// Which of its operations or changes insert, make links or take them away, and do what else; of a
    /// save one may be of two kinds.
    private struct Division {
        var inserts: [Int] = []
        var links: [Int] = []
        var others: [Int] = []

        init(_ origin: Origin) {
            switch origin {
            case .save(let request):
                let operations = request.operations
                for place in operations.indices {
                    let kind = operations[place].kind
                    if kind == .insert { inserts.append(place) } else { others.append(place) }
                    if kind != .delete, !operations[place].relationships.isEmpty {
                        links.append(place)
                    }
                }
            case .foreign(let transaction):
                for place in transaction.changes.indices {
                    switch transaction.changes[place].kind {
                    case .insert: inserts.append(place)
                    case .link, .unlink: links.append(place)
                    case .update, .delete, .revival: others.append(place)
                    }
                }
            }
        }
    }

    enum Phase {
        /// Until it is shown or given up; it is checked as well.
        case writing
        case folding, discarding, done
    }

    private(set) var phase = Phase.writing
    /// Whether it is to be written in one piece once nothing of it is left.
    private(set) var isGivenUp = false
    /// What it consists of, in the order in which that is written.
    private let writes: [any StagedWrites]
    /// What is still to be folded or discarded, in that order.
    private var unfinished: [any StagedWrites] = []
    /// How many rows of the first of these are.
    private var position = 0
    /// All its changes, also as the log holds them, once all is written; of a save.
    private var assembled: (changes: [Change], encoded: CBORWriter)?

    private init(_ writes: [any StagedWrites]) { self.writes = writes }

    /// The transaction in the form that suits it; nil where it is of no kind that can be staged.
    static func of(_ origin: Origin, _ engine: StoreEngine) -> StagedTransaction? {
        switch origin {
        case .save(let request):
            guard request.membership.isEmpty else { return nil }
            return writes(of: origin, engine).map(StagedTransaction.init)
        case .foreign(let transaction):
            guard transaction.modelHash == engine.model.modelHash,
                transaction.dot.actor != engine.actor
            else { return nil }
            if let writes = writes(of: origin, engine) { return StagedTransaction(writes) }
            // What cannot be staged of it may be little.
            let changes = StagedChanges(origin, Array(transaction.changes.indices), engine)
            return changes.map { StagedTransaction([$0]) }
        }
    }

    private static func writes(
        of origin: Origin, _ engine: StoreEngine
    ) -> [any StagedWrites]? {
        let division = Division(origin)
        var writes: [any StagedWrites] = []
        var inserts: StagedInserts?
        if !division.inserts.isEmpty {
            let areLedTo =
                !division.links.isEmpty || origin.assignsReferences(at: division.others, engine)
            inserts = StagedInserts(origin, division.inserts, areLedTo: areLedTo, engine)
            guard let inserts else { return nil }
            writes.append(inserts)
        }
        if !division.links.isEmpty {
            guard let links = StagedLinks(origin, division.links, after: inserts, engine) else {
                return nil
            }
            writes.append(links)
        }
        if !division.others.isEmpty {
            guard let changes = StagedChanges(origin, division.others, after: writes, engine)
            else { return nil }
            writes.append(changes)
        }
        return writes
    }

    /// Whether all of it is written, and it can be shown.
    var isComplete: Bool { phase == .writing && writes.allSatisfy(\.isComplete) }

    /// Whether something came between that it cannot be shown with.
    func isOvertaken(_ engine: StoreEngine) throws -> Bool {
        try writes.contains { try $0.isOvertaken(engine) }
    }

    /// How many parts were written anew, since something had come between.
    var rewrites: Int { writes.reduce(0) { $0 + $1.rewrites } }

    /// Whether whoever asked for it has heard what came of it.
    var isAnswered: Bool {
        switch phase {
        case .folding: true
        case .discarding, .done: !isGivenUp
        case .writing: false
        }
    }

    /// Does the next part of checking, writing, folding or discarding, outside a group.
    ///
    /// - Throws: ``NotStageable`` where it must be written in one piece, and what SQLite throws.
    ///   Nothing of the part is written then.
    func advance(_ engine: StoreEngine, atMost count: Int) throws {
        if phase == .writing {
            try writes.first { !$0.isComplete }?.advance(engine, atMost: count)
            // Here and not while it is shown, for which others wait as well.
            assembled = isComplete ? assemble() : nil
        } else if let next = unfinished.first {
            let rows = next.writtenCount
            let end = min(position + max(1, count / next.weight), rows)
            try engine.unseen {
                try next.finish(position..<end, engine)
                if end < rows { return }
                try next.end(engine)
                if unfinished.count == 1 { try engine.endStaging() }
            }
            position = end
            guard end == rows else { return }
            position = 0
            unfinished.removeFirst()
            if unfinished.isEmpty { phase = .done }
        }
    }

    /// Goes on after the attempt to show it; or after a failure, which does not begin anew what is
    /// already being discarded.
    func proceed(isShown: Bool) {
        guard phase == .writing else { return }
        // Successors first: as long as there are some, tables are views, and dearer to write to.
        unfinished = writes.filter(\.hasBegun).reversed()
        phase = unfinished.isEmpty ? .done : isShown ? .folding : .discarding
    }

    /// Removes what is written of it, so that it can be written in one piece.
    func giveUp() {
        isGivenUp = true
        proceed(isShown: false)
    }

    /// Takes note that whoever asked for it has been told that it failed.
    func noteFailed() { isGivenUp = false }

    // MARK: Showing

    /// Carries out the save that it is, within the open group; what it writes is shown, not written.
    ///
    /// In the transaction, and in the answer, inserts come before all else.
    func save(_ request: SaveRequest, _ engine: StoreEngine) throws -> SaveResult {
        let seen = engine.state.versionVector
        let closedBefore = engine.group.closedConflicts.count
        let (changes, encoded) = assembled ?? assemble()
        var transaction: Transaction?
        if !changes.isEmpty, let shapes = writes.last?.shapeTable.shapes {
            let made = engine.transaction(of: request, shapes, changes)
            try engine.apply(
                try engine.checkReadable(
                    EncodedTransaction(
                        made, beginnings: engine.state.beginnings, changes: encoded)),
                isLocal: true)
            transaction = made
        }
        let result = SaveResult(
            transaction: transaction?.dot, timestamp: transaction?.timestamp, seen: seen,
            token: engine.token, insertedRows: all(\.inserted),
            conflicts: Array(engine.group.closedConflicts[closedBefore...]),
            rows: try all { try $0.saved(as: transaction?.dot, engine) })
        if let saveID = request.saveID { try engine.remember(result, to: request, under: saveID) }
        return result
    }

    private func assemble() -> (changes: [Change], encoded: CBORWriter) {
        guard let first = writes.first else { return ([], CBORWriter()) }
        var encoded = first.encoded
        for part in writes.dropFirst() { encoded.append(part.encoded) }
        return (all(\.changes), encoded)
    }

    /// What each part has of something, in their order; of one it is not copied.
    private func all<Element>(
        _ list: (any StagedWrites) throws -> [Element]
    ) rethrows -> [Element] {
        writes.count == 1 ? try list(writes[0]) : try writes.flatMap(list)
    }

    /// Lets readers see all that is written, from the open group's commit on.
    ///
    /// - Returns: the changes that are still to be applied as if they were alone.
    func show(_ engine: StoreEngine, as stamp: Stamp) throws -> [Change] {
        try engine.markShown(as: stamp)
        return try writes.flatMap { try $0.show(engine, as: stamp) }
    }

    // MARK: What comes between

    /// Takes note that a row is written that is there, or is shown no more.
    func noteWritten(_ row: RowID, isShown: Bool) {
        for part in writes { part.noteWritten(row, isShown: isShown) }
    }

    /// Takes note that a row, or a link, comes to refer to another row.
    func noteReferred(_ row: RowID) {
        for part in writes { part.noteReferred(row) }
    }

    /// Takes note of what a row refers to.
    func noteReferences(of values: some Sequence<PropertyValue>) {
        for case .reference(let row) in values { noteReferred(row) }
    }

    /// Takes note that a save takes a key of a row that nobody sees yet.
    func noteKeyTaken() {
        for part in writes { part.noteKeyTaken() }
    }

    /// Takes note that somebody looks for the rows that have a key, perhaps to take it.
    func noteSought(
        _ key: UniqueKey, of constraint: UniqueConstraint, shownBy rows: [RowID],
        _ engine: StoreEngine
    ) throws {
        // What is put in place or taken back loses its tables one after the other, and nothing
        // hangs on who has its keys any more.
        guard phase == .writing else { return }
        for part in writes {
            try part.noteSought(key, of: constraint, shownBy: rows, engine)
        }
    }

    /// Takes note that a link is written, or taken away.
    func noteLinked(_ link: LinkKey) {
        for part in writes { part.noteLinked(link) }
    }
}

/// What a staged transaction does of one kind.
protocol StagedWrites: AnyObject {
    /// Whether all is written that can be before it is shown.
    var isComplete: Bool { get }
    /// Whether something of it is in the store.
    var hasBegun: Bool { get }
    /// Whether something came between that it cannot be shown with.
    func isOvertaken(_ engine: StoreEngine) throws -> Bool
    /// How many parts were written anew, since something had come between.
    var rewrites: Int { get }

    /// Checks or writes the next part.
    ///
    /// - Throws: see ``StagedTransaction/advance(_:atMost:)``.
    func advance(_ engine: StoreEngine, atMost count: Int) throws
    /// Has what is written belong to the store's state, in which it is shown.
    ///
    /// - Returns: the changes that are still to be applied as if they were alone.
    func show(_ engine: StoreEngine, as stamp: Stamp) throws -> [Change]

    /// How many rows are to be folded or discarded.
    var writtenCount: Int { get }
    /// How many inserts it costs to do that with one.
    var weight: Int { get }
    /// Folds rows where the transaction is shown, and discards them where it is not.
    func finish(_ range: Range<Int>, _ engine: StoreEngine) throws
    /// Removes what is left when all rows are folded or discarded.
    func end(_ engine: StoreEngine) throws

    /// Of a save, the shapes of its changes and of all written before, with what they stand for.
    var shapeTable: ShapeTable { get }
    var resolved: [ResolvedShape] { get }
    var changes: [Change] { get }
    /// Its changes as the log holds them.
    var encoded: CBORWriter { get }
    var inserted: [SaveResult.InsertedRow] { get }
    /// What the save's answer says of each object.
    func saved(as dot: Dot?, _ engine: StoreEngine) throws -> [SaveResult.SavedRow]

    /// Takes note that a row is written that is there, or is shown no more.
    func noteWritten(_ row: RowID, isShown: Bool)
    /// Takes note that a row, or a link, comes to refer to another row.
    func noteReferred(_ row: RowID)
    /// Takes note that a save takes a key of a row that nobody sees yet.
    func noteKeyTaken()
    /// Takes note that somebody looks for the rows that have a key, perhaps to take it.
    ///
    /// - Parameter rows: those that readers see.
    func noteSought(
        _ key: UniqueKey, of constraint: UniqueConstraint, shownBy rows: [RowID],
        _ engine: StoreEngine) throws
    /// Takes note that a link is written, or taken away.
    func noteLinked(_ link: LinkKey)
}

/// That something must be written in one piece, which also says what is wrong with it.
struct NotStageable: Error {}
