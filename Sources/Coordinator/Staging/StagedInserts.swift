import Merge

/// The inserts of a staged transaction.
///
/// Its rows are in their own tables, with ``ActorTable/stagedVersion`` for a version, and readers leave
/// them out until `_staged` says whose they are.
///
/// Invariants
/// 1. Hidden rows are of identities that nobody knows yet, of entities without counts of members, and are
///    no such members: no save that comes between can depend on them.
/// 2. They depend on others by references and unique keys. What they refer to was shown when they were
///    written, and no other row had their keys: the unique index is theirs too. Where what they refer to
///    is not shown any more when all are, or a save that came between took one of their keys (the row
///    that had it made way), they are removed, and the transaction is written in one piece. Eclipsed
///    rows are in no such index: where one had a key of theirs, nothing is staged, and where one comes
///    to have it, whoever looks for its group finds the hidden row.
/// 3. The target of a one-to-one that one of them claims is claimed by no other row, visible or not, and
///    by one of them only. Where another one comes to refer to it, they are removed as well: its claim is
///    made as if theirs were not there, for a hidden row is no claimant.
final class StagedInserts: StagedWrites {
    private let origin: StagedTransaction.Origin
    /// The operations or changes that insert.
    private let places: [Int]
    private var isChecked = false
    /// How many operations or changes are checked, or then written.
    private var position = 0
    private var isOvertaken = false
    /// The changes; of a save as far as they are worked out.
    private var inserts: PlainInserts
    /// The changes as the log holds them, as far as they are written; of a save.
    private(set) var encoded = CBORWriter(capacity: 0)
    /// What the shapes of the changes stand for.
    private(set) var resolved: [ResolvedShape] = []
    /// How many values an insert of each shape assigns.
    private var assigned: [Int] = []
    /// What the rows add to the digest, but for the dot.
    private var hashers: [RowHasher] = []
    /// The objects whose rows are written.
    private var written: [ManagedObjectID] = []
    /// The rows' own entities, where something else of the transaction may lead to them.
    private var entities: [RowID: ManagedObjectModel.Entity] = [:]
    /// The rows of others that they refer to.
    private var targets: Set<RowID> = []
    /// What they claim for themselves alone, and the rows of others among that.
    private var claims: Set<Claim> = []
    private var claimedOthers: Set<RowID> = []
    private var isWriting = false

    var hasBegun: Bool { !written.isEmpty }

    var isComplete: Bool { isChecked && position == places.count }

    let rewrites = 0

    private var isForeign: Bool { if case .foreign = origin { true } else { false } }

    /// Begins with the inserts of a save or a foreign transaction.
    ///
    /// - Parameter areLedTo: whether links and updates of the same transaction may lead to them.
    /// - Returns: nil where they are of no kind that can be staged.
    init?(
        _ origin: StagedTransaction.Origin, _ places: [Int], areLedTo: Bool,
        _ engine: StoreEngine
    ) {
        switch origin {
        case .save(let request):
            inserts = PlainInserts(capacity: places.count)
            if areLedTo || engine.haveReferences(request.operations, at: places) {
                guard let named = engine.name(request.operations, at: places) else { return nil }
                inserts.named = named
                // A group that fails must not bring the identities back.
                engine.adoptState()
            }
            encoded = CBORWriter(capacity: places.count * 64)
        case .foreign(let transaction):
            let isAll = places.count == transaction.changes.count
            let changes = isAll ? transaction.changes : places.map { transaction.changes[$0] }
            guard let resolved = try? engine.resolve(transaction) else { return nil }
            let used = Set(changes.lazy.map(\.shape)).sorted().map { resolved[$0] }
            guard StoreEngine.isStageable(used) else { return nil }
            inserts = PlainInserts(capacity: 0)
            inserts.changes = changes
            self.resolved = resolved
            assigned = transaction.shapes.map(\.assigned.count)
            isChecked = !areLedTo && !used.contains { $0.hasReferences }
        }
        self.origin = origin
        self.places = places
    }

    /// An object that the save inserts, by its temporary identity; where they had to be named.
    func named(_ name: RowID) -> PlainInserts.Named? { inserts.named[name] }

    /// The entity of a row that is inserted; where they had to be noted.
    func entity(of row: RowID) -> ManagedObjectModel.Entity? { entities[row] }

    func advance(_ engine: StoreEngine, atMost count: Int) throws {
        if isChecked {
            try write(atMost: count, engine)
        } else {
            try check(atMost: count, engine)
        }
    }

    private func check(atMost count: Int, _ engine: StoreEngine) throws {
        switch origin {
        case .save(let request):
            let end = min(position + count, places.count)
            let part = places[position..<end].map { request.operations[$0] }
            guard try engine.prepare(part[...], into: &inserts, areStaged: true) else {
                throw NotStageable()
            }
            if inserts.areNamed {
                noteEntities(inserts.changes[position..<end], inserts.shapes.shapes, engine)
            }
            // A group that fails must not bring the identities back.
            engine.adoptState()
            position = end
            guard position == places.count else { return }
            resolved = try inserts.shapes.shapes.map(engine.resolve)
            assigned = inserts.shapes.shapes.map(\.assigned.count)
        case .foreign(let transaction):
            let end = min(position + count, inserts.changes.count)
            noteEntities(inserts.changes[position..<end], transaction.shapes, engine)
            position = end
            guard position == inserts.changes.count else { return }
        }
        position = 0
        isChecked = true
    }

    private func write(atMost count: Int, _ engine: StoreEngine) throws {
        let part = inserts.changes[position..<min(position + count, inserts.changes.count)]
        if case .foreign(let transaction) = origin {
            try engine.checkForeign(part, of: transaction, resolved)
            engine.avoidIdentities(part, of: transaction.dot.actor)
        }
        let before = written.count
        isWriting = true
        defer { isWriting = false }
        do {
            try engine.unseen {
                if position == 0 { try engine.beginStaging() }
                try checkReferences(of: part, engine)
                try checkKeys(of: part, engine)
                try write(part, engine)
            }
        } catch {
            // Nothing of the part is there, nor of the beginning where this was the first.
            written.removeLast(written.count - before)
            throw error
        }
        if !isForeign {
            for change in part { encoded.write(change) }
        }
        position = part.endIndex
    }

    private func noteEntities(
        _ part: ArraySlice<Change>, _ shapes: [ChangeShape], _ engine: StoreEngine
    ) {
        for change in part {
            entities[change.row] = engine.table(shapes[change.shape].entity).entity
        }
    }

    /// Sees that what the rows refer to is shown, or is one of them.
    private func checkReferences(of part: ArraySlice<Change>, _ engine: StoreEngine) throws {
        for change in part {
            guard case .rows(let table, let positions) = resolved[change.shape],
                !table.references.isEmpty
            else { continue }
            // What must lead to something and does not is a conflict.
            let isComplete = table.mandatoryReferences.allSatisfy { position in
                positions.firstIndex(of: position).map { !change.values[$0].isNull } ?? false
            }
            if !isComplete { throw NotStageable() }
            for (place, position) in positions.enumerated() {
                guard case .reference(let target) = change.values[place],
                    case .toOne(let name) = table.entity.properties[position].content
                else { continue }
                let destination = engine.table(name).entity
                let isNew =
                    entities[target].map { destination.familyNames.contains($0.name) } ?? false
                // What is of an heir's hierarchy may not be of the heir's entity.
                let isKnown = destination.parent == nil && targets.contains(target)
                if !isNew, !isKnown {
                    guard try engine.ledTo(target, from: table, position) == target else {
                        throw NotStageable()
                    }
                    targets.insert(target)
                }
                if let exclusive = table.exclusive.first(where: { $0.position == position }) {
                    try claim(target, isNew: isNew, by: change.row, exclusive, engine)
                }
            }
        }
    }

    /// Notes what a row claims for itself alone, and sees that nobody else does.
    private func claim(
        _ target: RowID, isNew: Bool, by row: RowID, _ exclusive: ExclusiveReference,
        _ engine: StoreEngine
    ) throws {
        let claim = Claim(owner: exclusive.owner, property: exclusive.property, target: target)
        guard claims.insert(claim).inserted else { throw NotStageable() }
        // What is new nobody else can know.
        if isNew { return }
        guard try engine.claimants(claim, besides: row).isEmpty else { throw NotStageable() }
        claimedOthers.insert(target)
    }

    /// Sees that no eclipsed row has a key of theirs.
    private func checkKeys(of part: ArraySlice<Change>, _ engine: StoreEngine) throws {
        guard engine.state.eclipsed > 0 else { return }
        for change in part {
            guard case .rows(let table, let positions) = resolved[change.shape] else { continue }
            for constraint in table.constraints {
                let key = constraint.key { position in
                    positions.firstIndex(of: position).map { change.values[$0] } ?? .null
                }
                if let key, try !engine.eclipsedRows(with: key).isEmpty { throw NotStageable() }
            }
        }
    }

    func noteWritten(_ row: RowID, isShown: Bool) {
        if !isShown, targets.contains(row) { isOvertaken = true }
    }

    func isOvertaken(_ engine: StoreEngine) -> Bool { isOvertaken }

    func noteReferred(_ row: RowID) {
        if !isWriting, claimedOthers.contains(row) { isOvertaken = true }
    }

    func noteKeyTaken() { isOvertaken = true }

    func noteSought(
        _ key: UniqueKey, of constraint: UniqueConstraint, shownBy rows: [RowID],
        _ engine: StoreEngine
    ) {}

    func noteLinked(_ link: LinkKey) {}

    private func write(_ part: ArraySlice<Change>, _ engine: StoreEngine) throws {
        do {
            try engine.insertPlain(
                part, resolved, version: ActorTable.stagedVersion, timestamp: 0, dot: nil,
                mayBeDead: isForeign && engine.state.tombstones > 0, assigned: assigned
            ) { object, hasher in
                written.append(object)
                hashers.append(hasher)
            }
        } catch is RowAlarm {
            throw NotStageable()
        } catch let failure as SQLFailure where failure.isKeyTaken {
            throw NotStageable()
        }
    }

    // MARK: Showing

    func show(_ engine: StoreEngine, as stamp: Stamp) throws -> [Change] {
        var digest = ProjectionDigest()
        for hasher in hashers { digest.add(hasher.finalize(insertion: stamp.dot)) }
        engine.state.digest.add(digest)
        engine.group.inserted.append(contentsOf: written)
        return []
    }

    var shapeTable: ShapeTable { inserts.shapes }

    var changes: [Change] { inserts.changes }

    var inserted: [SaveResult.InsertedRow] { inserts.inserted }

    func saved(as dot: Dot?, _ engine: StoreEngine) -> [SaveResult.SavedRow] {
        let version = dot.map { RowVersion(dots: [$0]) }
        return written.map { .init(objectID: $0, version: version, values: nil) }
    }

    // MARK: Afterwards

    var writtenCount: Int { written.count }

    let weight = 1

    func finish(_ range: Range<Int>, _ engine: StoreEngine) throws {
        for object in written[range] {
            try engine.state.actors.staged == nil ? engine.discard(object) : engine.fold(object)
        }
    }

    func end(_ engine: StoreEngine) {}
}
