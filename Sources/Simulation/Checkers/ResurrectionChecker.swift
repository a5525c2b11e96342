internal import Coordinator
internal import Merge
internal import ReferenceModel

/// Law 7: no old message brings a deleted row back.
///
/// A row that a node has shown dead shows again there only by a transaction applied since that
/// revives it, or that wrote to it without having seen the delete. And no row is there that nobody
/// in the reading's vector has inserted.
struct ResurrectionChecker: Checker {
    let law = 7

    /// A row that a store has shown dead.
    private struct Death {
        /// The deletes that it held by then.
        let deletes: [Dot]
        /// Whether something has come since that may bring the row back.
        var mayReturn = false
    }

    /// The rows that a store has shown.
    private struct Store {
        var vector = VersionVector()
        /// By row: a model may call an entity otherwise than the one before.
        var known: [RowID: ManagedObjectID] = [:]
        var deaths: [RowID: Death] = [:]
    }

    private var stores: [Int: Store] = [:]
    private var index = WriteIndex()
    private var findings = Findings()

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        index.take(run.archive)
        switch observation {
        case .started(let node, _, let vector, _):
            var store = stores[node] ?? Store()
            // What was committed right before the last process ended was not told of, unless the
            // world finds it; it may be what brings a row back.
            if !store.vector.covers(vector) {
                for row in store.deaths.keys { store.deaths[row]?.mayReturn = true }
            }
            store.vector = vector
            // A delete that was not durable may be lost with the power: then the row lives on.
            store.deaths = store.deaths.filter { _, death in
                death.deletes.allSatisfy(vector.contains)
            }
            stores[node] = store
        case .ended(let node, .wiped), .ended(let node, .restored),
            .ended(let node, .copyRemoved):
            stores[node] = nil
        case .found(let node, let transactions):
            for transaction in transactions { apply(transaction.transaction, node) }
        case .committed(let node, let notice): commit(notice, node, run)
        case .read(let node, let reading): read(reading, node, run)
        case .settled(let final, _):
            for node in final.keys.sorted() {
                if let reading = final[node] { read(reading, node, run) }
            }
        default: break
        }
        return findings.take()
    }

    // MARK: Commits

    private mutating func commit(_ notice: CommitNotice, _ node: Int, _ run: RunContext) {
        for transaction in notice.transactions { apply(transaction.transaction, node) }
        stores[node, default: Store()].vector = notice.token.versionVector
        // A group that deletes a row and brings it back, or the other way round, tells both; then
        // readings say what it left.
        let both = Set(notice.inserted).intersection(notice.deleted)
        for id in notice.inserted where !both.contains(id) {
            show(id, node, notice.token.generation, run)
        }
        for id in notice.deleted where !both.contains(id) { die(id, node, run) }
    }

    /// Notes which of the dead a transaction may bring back.
    private mutating func apply(_ transaction: Transaction, _ node: Int) {
        guard stores[node]?.deaths.isEmpty == false else { return }
        for change in transaction.changes {
            guard [.insert, .update, .revival].contains(change.kind),
                let death = stores[node]?.deaths[change.row], !death.mayReturn
            else { continue }
            let hasSeen = death.deletes.allSatisfy(transaction.seen.contains)
            if change.kind == .revival || !hasSeen {
                stores[node]?.deaths[change.row]?.mayReturn = true
            }
        }
    }

    private mutating func die(_ id: ManagedObjectID, _ node: Int, _ run: RunContext) {
        // In place: a copy of a store's rows for each of its deaths would take half of a run's time.
        stores[node, default: Store()].known[id.row] = nil
        let vector = stores[node]?.vector ?? VersionVector()
        let deletes = index.deletes(of: id.row).filter(vector.contains)
        // Without a delete the row is eclipsed, or was never there; other laws tell of that. One
        // that was deleted and brought back may be eclipsed too: it is not dead.
        if deletes.isEmpty || isEclipsed(id, at: vector, run) { return }
        stores[node]?.deaths[id.row] = Death(deletes: deletes)
    }

    private func isEclipsed(
        _ id: ManagedObjectID, at vector: VersionVector, _ run: RunContext
    ) -> Bool {
        guard let root = run.model.entity(named: id.entityName)?.root,
            UniqueKeys.entities(run.model).contains(where: { $0.root == root }),
            run.archive.covers(vector)
        else { return false }
        let subjects = OracleChecker.subjects(ofEntity: id.entityName, run.model)
        return run.archive.oracle(at: vector, of: subjects).survivor(of: id.row) != nil
    }

    /// A row is visible.
    private mutating func show(
        _ id: ManagedObjectID, _ node: Int, _ generation: UInt64, _ run: RunContext
    ) {
        stores[node, default: Store()].known[id.row] = id
        guard let death = stores[node]?.deaths.removeValue(forKey: id.row), !death.mayReturn else {
            return
        }
        // Under a row-grained policy the end of one sibling can let another be seen again, such as
        // a second delete that replaces the first and is later than an edit: the oracle knows. So it
        // does where a second delete comes of the model before, whose policy settles the row then.
        let policies = run.model.entity(named: id.entityName)?.policies
        if policies?.isRowGrained == true || run.archive.hasOtherPolicies(id.entityName),
            let vector = stores[node]?.vector,
            run.archive.covers(vector), run.archive.oracle(at: vector).isAlive(id.row)
        {
            return
        }
        findings.note(
            "resurrected",
            "\(Telling.node(node)) generation \(generation) \(id): expected gone since "
                + "\(Telling.dots(death.deletes)), because all that came since had seen it, "
                + "found alive: \(run.archive.history(of: id.row))")
    }

    // MARK: Readings

    private mutating func read(_ reading: Reading, _ node: Int, _ run: RunContext) {
        let vector = reading.token.versionVector
        let isKnown = run.archive.covers(vector)
        for entity in reading.entities {
            for row in entity.rows {
                show(row.objectID, node, reading.token.generation, run)
                guard isKnown,
                    !index.births(of: row.objectID.row).contains(where: vector.contains)
                else { continue }
                findings.note(
                    "unborn",
                    "\(Telling.node(node)) \(row.objectID): expected gone, because nobody in its "
                        + "vector has inserted it, found with version \(row.version)")
            }
        }
        guard reading.isWhole, let known = stores[node]?.known else { return }
        let living = Set(reading.entities.flatMap(\.rows).map(\.objectID.row))
        for id in known.values.sorted() where !living.contains(id.row) { die(id, node, run) }
    }
}

/// The inserts, revivals and deletes of each row, of all that the archive has.
private struct WriteIndex {
    private var birthsOfRows: [RowID: [Dot]] = [:]
    private var deletesOfRows: [RowID: [Dot]] = [:]
    private var count = 0

    /// Takes in what the archive has got since.
    mutating func take(_ archive: TransactionArchive) {
        while count < archive.transactions.count {
            let transaction = archive.transactions[count]
            count += 1
            for change in transaction.changes {
                switch change.kind {
                case .insert, .revival:
                    birthsOfRows[change.row, default: []].append(transaction.dot)
                case .delete: deletesOfRows[change.row, default: []].append(transaction.dot)
                case .update, .link, .unlink: break
                }
            }
        }
    }

    func births(of row: RowID) -> [Dot] { birthsOfRows[row] ?? [] }

    func deletes(of row: RowID) -> [Dot] { deletesOfRows[row] ?? [] }
}
