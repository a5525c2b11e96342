import Merge

/// A transaction of very many inserts, staged.
///
/// Its rows are in their own tables, with ``ActorTable/stagedVersion`` for a version, and readers leave
/// them out until `_staged` says whose they are.
///
/// Invariants
/// 1. Hidden rows are of identities that nobody knows yet, of entities without one-to-ones and counts
///    of members, and are no such members: no save that comes between can depend on them.
/// 2. They depend on others by references and unique keys. What they refer to was shown when they were
///    written, and no other row had their keys: the unique index is theirs too. Where what they refer to
///    is not shown any more when all are, or a save that came between took one of their keys (the row
///    that had it made way), they are removed, and the transaction is written in one piece. Eclipsed
///    rows are in no such index: where one had a key of theirs, nothing is staged, and where one comes
///    to have it, whoever looks for its group finds the hidden row.
final class StagedInserts: StagedTransaction {
    /// The changes; of a save as far as they are worked out.
    private(set) var inserts: PlainInserts
    /// The changes as the log holds them, as far as they are written; of a save.
    private(set) var encoded: CBORWriter?
    private var shapes: [ResolvedShape] = []
    /// How many values an insert of each shape assigns.
    private var assigned: [Int] = []
    /// What the rows add to the digest, but for the dot.
    private var hashers: [RowHasher] = []
    /// The objects whose rows are written.
    private var written: [ManagedObjectID] = []
    /// The roots of the rows' own entities, where they may refer to each other.
    private var roots: [RowID: String] = [:]
    /// The rows of others that they refer to.
    private var targets: Set<RowID> = []

    override var hasBegun: Bool { !written.isEmpty }

    /// Begins with a save or a foreign transaction.
    ///
    /// - Returns: nil where it is of no kind that can be staged.
    init?(_ origin: Origin, _ engine: StoreEngine) {
        var phase = Phase.checking
        switch origin {
        case .save(let request):
            guard request.membership.isEmpty,
                request.operations.allSatisfy({ $0.kind == .insert })
            else { return nil }
            inserts = PlainInserts(capacity: request.operations.count)
            if engine.haveReferences(request.operations) {
                guard let named = engine.name(request.operations) else { return nil }
                inserts.named = named
                // A group that fails must not bring the identities back.
                engine.adoptState()
            }
            encoded = CBORWriter(capacity: request.operations.count * 64)
        case .foreign(let encoded):
            let transaction = encoded.transaction
            guard transaction.modelHash == engine.model.versionHash,
                transaction.dot.actor != engine.actor,
                let shapes = try? engine.resolve(transaction), StoreEngine.isStageable(shapes),
                transaction.changes.allSatisfy({ $0.kind == .insert })
            else { return nil }
            inserts = PlainInserts(capacity: 0)
            inserts.changes = transaction.changes
            self.shapes = shapes
            assigned = transaction.shapes.map(\.assigned.count)
            if !shapes.contains(where: { $0.hasReferences }) { phase = .writing }
        }
        super.init(origin, phase: phase)
    }

    override func advance(_ engine: StoreEngine, atMost count: Int) throws {
        switch (phase, origin) {
        case (.checking, .save(let request)):
            let end = min(position + count, request.operations.count)
            let part = request.operations[position..<end]
            guard try engine.prepare(part, into: &inserts, mayHaveKeys: true) else {
                throw NotStageable()
            }
            if inserts.areNamed {
                noteRoots(inserts.changes[position..<end], inserts.shapes.shapes, engine)
            }
            // A group that fails must not bring the identities back.
            engine.adoptState()
            position = end
            guard position == request.operations.count else { return }
            shapes = try inserts.shapes.shapes.map(engine.resolve)
            assigned = inserts.shapes.shapes.map(\.assigned.count)
            position = 0
            phase = .writing
        case (.checking, .foreign(let encoded)):
            let end = min(position + count, inserts.changes.count)
            noteRoots(inserts.changes[position..<end], encoded.transaction.shapes, engine)
            position = end
            guard position == inserts.changes.count else { return }
            position = 0
            phase = .writing
        case (.writing, _):
            let part = inserts.changes[position..<min(position + count, inserts.changes.count)]
            if case .foreign(let encoded) = origin {
                try engine.checkForeign(part, of: encoded.transaction, shapes)
                engine.avoidIdentities(part, of: encoded.dot.actor)
            }
            let before = written.count
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
            for change in part { encoded?.write(change) }
            position = part.endIndex
            if position == inserts.changes.count { phase = .complete }
        case (.folding, _), (.discarding, _):
            let isFolding = phase == .folding
            let part = written[position..<min(position + count, written.count)]
            try engine.unseen {
                for object in part {
                    try isFolding ? engine.fold(object) : engine.discard(object)
                }
                if part.endIndex == written.count { try engine.endStaging() }
            }
            position = part.endIndex
            if position == written.count { phase = .done }
        case (.complete, _), (.done, _): return
        }
    }

    private func noteRoots(
        _ part: ArraySlice<Change>, _ shapes: [ChangeShape], _ engine: StoreEngine
    ) {
        for change in part {
            roots[change.row] = engine.table(shapes[change.shape].entity).entity.root
        }
    }

    /// Sees that what the rows refer to is shown, or is one of them.
    private func checkReferences(of part: ArraySlice<Change>, _ engine: StoreEngine) throws {
        for change in part {
            guard case .rows(let table, let positions) = shapes[change.shape],
                !table.references.isEmpty
            else { continue }
            for (place, position) in positions.enumerated() {
                guard case .reference(let target) = change.values[place],
                    let root = table.references.first(where: { $0.position == position })?.root,
                    roots[target] != root, !targets.contains(target)
                else { continue }
                guard try engine.shownRow(target, root: root) == target else {
                    throw NotStageable()
                }
                targets.insert(target)
            }
        }
    }

    /// Sees that no eclipsed row has a key of theirs.
    private func checkKeys(of part: ArraySlice<Change>, _ engine: StoreEngine) throws {
        guard engine.state.eclipsed > 0 else { return }
        for change in part {
            guard case .rows(let table, let positions) = shapes[change.shape] else { continue }
            for constraint in table.constraints {
                let key = constraint.key { position in
                    positions.firstIndex(of: position).map { change.values[$0] } ?? .null
                }
                if let key, try !engine.eclipsedRows(with: key).isEmpty { throw NotStageable() }
            }
        }
    }

    override func noteWritten(_ row: RowID, isShown: Bool) {
        if !isShown, targets.contains(row) { isOvertaken = true }
    }

    override func noteKeyTaken() { isOvertaken = true }

    private func write(_ part: ArraySlice<Change>, _ engine: StoreEngine) throws {
        do {
            try engine.insertPlain(
                part, shapes, version: ActorTable.stagedVersion, timestamp: 0, dot: nil,
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

    override func save(_ request: SaveRequest, _ engine: StoreEngine) throws -> SaveResult {
        try engine.write(request, inserts, encoded: encoded)
    }

    override func show(_ engine: StoreEngine, as stamp: Stamp) throws -> [Change] {
        try engine.markShown(as: stamp)
        var digest = ProjectionDigest()
        for hasher in hashers { digest.add(hasher.finalize(insertion: stamp.dot)) }
        engine.state.digest.add(digest)
        engine.group.inserted.append(contentsOf: written)
        return []
    }
}
