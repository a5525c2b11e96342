import Merge

/// Saves within the open group: plans, writes, and tells what came of it.
struct SaveWriter: StorePart {
    enum Limits {
        /// The longest save: what the mesh carries (Replication's bound), far below SQLite's.
        static let transactionBytes = 256 << 20
    }

    let session: StoreSession

    /// Saves within the open group.
    ///
    /// All checks see the store with every earlier save of the group (MODEL A6), and come before
    /// the first write.
    ///
    /// - Throws: ``CoordinatorError``; nothing is then written and no sequence used.
    func save(_ request: SaveRequest) throws -> SaveResult {
        if let saveID = request.saveID {
            guard SaveAnswer.isSaveID(saveID) else {
                throw CoordinatorError(.malformed, "A save ID has 1 to 200 bytes.")
            }
            if let answer = try saveAnswers.repeatedAnswer(to: request, saveID) { return answer }
        }
        try SaveDescription(note: request.note).check()
        if request.exceedsLimit { throw CoordinatorError.notBulk(request.countedOperations) }
        // Checked here, because what follows a departure in its own group would reach nobody.
        if state.membership[actor.node]?.departure != nil {
            throw CoordinatorError.departed(actor.node)
        }
        // It was let through before, and waited: a row that it writes may be one of the others'.
        if session.owedRecovery.record?.recovery == .restored { throw CoordinatorError.recovering }
        if !request.membership.isEmpty { return try saveMembership(request) }
        if let inserts = InsertPlanner(view: view).plainInserts(request.operations) {
            return try write(inserts, request)
        }
        if let changes = try PlainPlanner(view: view).plainChanges(request.operations) {
            return try write(changes, request)
        }
        return try execute(try SavePlanner(view: view).plan(request), request)
    }

    /// Saves inserts whose changes are worked out.
    private func write(_ inserts: PlainInserts, _ request: SaveRequest) throws -> SaveResult {
        state.allocator = inserts.allocator
        let seen = state.versionVector
        let shapes = inserts.shapes.shapes
        let transaction = transaction(of: request, shapes, inserts.changes)
        try applier.apply(try encode(transaction), isLocal: true)
        let version = RowVersion(dots: [transaction.dot])
        let result = SaveResult(
            transaction: transaction.dot, timestamp: transaction.timestamp, seen: seen,
            token: session.token, insertedRows: inserts.inserted, conflicts: [],
            rows: inserts.changes.map { change in
                SaveResult.SavedRow(
                    objectID: ManagedObjectID(
                        entityName: shapes[change.shape].entity, row: change.row),
                    version: version, values: nil)
            })
        if let saveID = request.saveID {
            try saveAnswers.remember(result, to: request, under: saveID)
        }
        return result
    }

    /// Saves updates and deletes with their changes worked out.
    private func write(_ plain: PlainChanges, _ request: SaveRequest) throws -> SaveResult {
        let seen = state.versionVector
        let transaction = transaction(of: request, plain.shapes.shapes, plain.changes)
        try applier.apply(try encode(transaction), isLocal: true, isPlain: true)
        let written = RowVersion(dots: [transaction.dot])
        // Nobody asks which objects a batch request has written, but that request itself.
        let rows = request.batch == nil ? plain.objects : []
        let result = SaveResult(
            transaction: transaction.dot, timestamp: transaction.timestamp, seen: seen,
            token: session.token, insertedRows: [], conflicts: [],
            rows: rows.map { objectID, outcome in
                let version: RowVersion? =
                    switch outcome {
                    case .written: written
                    case .unchanged(let version): version
                    case .deleted: nil
                    }
                return SaveResult.SavedRow(objectID: objectID, version: version, values: nil)
            })
        if let saveID = request.saveID {
            try saveAnswers.remember(result, to: request, under: saveID)
        }
        return result
    }

    // MARK: Execution

    /// Writes what was planned: one transaction, applied by the same path as a foreign one.
    func execute(_ plan: SavePlan, _ request: SaveRequest) throws -> SaveResult {
        state.allocator = plan.allocator
        let changeMaker = ChangeMaker(view: view)
        let discards = SaveDiscards(view: view)
        var shapes = ShapeTable()
        var changes: [Change] = []
        changes.reserveCapacity(plan.rows.rows.count)
        var loaded: [LoadedRow?] = []
        loaded.reserveCapacity(plan.rows.rows.count)
        for (row, planned) in plan.rows {
            for change in changeMaker.changes(planned, row, &shapes) {
                changes.append(change)
                loaded.append(
                    change.row == row
                        ? planned.loaded
                        : planned.loaded?.eclipsed.first { $0.row == change.row })
            }
        }
        for key in plan.linkOrder {
            guard let isAlive = plan.links[key], let link = model.link(named: key.link) else {
                continue
            }
            for ends in try changeMaker.linksToWrite(link, key, isAlive: isAlive) {
                changes.append(
                    Change(
                        kind: isAlive ? .link : .unlink,
                        shape: shapes.position(of: ChangeShape(entity: key.link, assigned: [])),
                        row: ends.source, target: ends.target))
            }
        }

        let closedBefore = group.conflicts.closed.count
        let seen = state.versionVector
        var stamp: Stamp?
        var written: [RowID: [ConflictSide.RowValue]] = [:]
        if !changes.isEmpty {
            let transaction = transaction(of: request, shapes.shapes, changes)
            stamp = transaction.stamp
            written = discards.written(plan.journal, transaction)
            try applier.apply(
                try encode(transaction), loaded: loaded, isLocal: true)
        }
        // Where the save wrote nothing, it has no stamp: then the clock on the wall tells when it was.
        let timestamp =
            stamp?.timestamp
            ?? HybridTimestamp(milliseconds: environment.wallMilliseconds(), counter: 0)
        for conflict in plan.journal {
            guard
                let conflict = discards.completed(
                    conflict, plan, written, stamp?.dot, at: timestamp)
            else { continue }
            try journal.writeClosed(conflict)
        }
        var result = SaveResult(
            transaction: stamp?.dot, timestamp: stamp?.timestamp, seen: seen, token: session.token,
            insertedRows: plan.inserted,
            conflicts: group.conflicts.closed[closedBefore...].map(\.id),
            rows: try savedRows(plan, changes, stamp))
        result.incremented = try PremisePlanner.incremented(plan, rowStore.load)
        if let saveID = request.saveID {
            try saveAnswers.remember(result, to: request, under: saveID)
        }
        return result
    }

    /// The transaction that a request's changes make: the next of this store, now.
    func transaction(
        of request: SaveRequest, _ shapes: [ChangeShape], _ changes: [Change]
    ) -> Transaction {
        let seen = state.versionVector
        return Transaction(
            dot: Dot(actor: actor, sequence: seen[actor] + 1),
            timestamp: state.clock.now(wallMilliseconds: environment.wallMilliseconds()),
            seen: seen, author: request.author, contextName: request.contextName,
            saveID: request.saveID, note: request.note, modelHash: model.modelHash,
            shapes: shapes, changes: changes)
    }

    /// Encodes a save, before anything of it is written.
    ///
    /// - Throws: ``CoordinatorError`` where other nodes would refuse it: `limitExceeded` for its size,
    ///   `malformed` where it assigns a property twice.
    func encode(_ transaction: Transaction) throws -> EncodedTransaction {
        let encoded = EncodedTransaction(transaction, beginnings: state.beginnings)
        let shapes = transaction.shapes
        guard shapes.count <= Transaction.Bounds.shapes,
            shapes.reduce(0, { $0 + $1.valueCount }) <= Transaction.Bounds.names
        else {
            throw CoordinatorError(
                .limitExceeded,
                "The objects of one save may have \(Transaction.Bounds.shapes) different lists of "
                    + "assigned properties, with \(Transaction.Bounds.names) names; divide it.")
        }
        guard shapes.allSatisfy(\.namesEachOnce) else {
            throw CoordinatorError(.malformed, "The save assigns a property of an object twice.")
        }
        guard encoded.plainSize <= Limits.transactionBytes,
            transaction.changes.count <= Transaction.Bounds.changes,
            transaction.changes.reduce(0, { $0 + $1.values.count })
                <= Transaction.Bounds.values
        else {
            throw CoordinatorError(
                .limitExceeded,
                "One save may have \(Limits.transactionBytes >> 20) MiB, "
                    + "\(Transaction.Bounds.changes) changes and \(Transaction.Bounds.values) values "
                    + "of properties; divide it.")
        }
        return encoded
    }

    /// The rows as the save left them.
    private func savedRows(
        _ plan: SavePlan, _ changes: [Change], _ stamp: Stamp?
    ) throws -> [SaveResult.SavedRow] {
        var result: [SaveResult.SavedRow] = []
        result.reserveCapacity(plan.rows.rows.count)
        let written = stamp.map { RowVersion(dots: [$0.dot]) }
        // A row that only gained a link is not written, so it keeps its version.
        let changed = Set(changes.filter { $0.kind != .link && $0.kind != .unlink }.map(\.row))
        for (row, planned) in plan.rows {
            let isWritten = changed.contains(row)
            let id = ManagedObjectID(entityName: planned.table.entity.name, row: row)
            if planned.kind == .delete {
                result.append(.init(objectID: id, version: nil, values: nil))
                continue
            }
            if let saved = try savedGroup(planned, row) {
                result.append(saved)
                continue
            }
            // Read again, because what a reference shows hangs on other rows of the save as well;
            // and whether a claim to a one-to-one stands, on those that others have made.
            let mayDiffer = planned.isSettled || !planned.table.exclusive.isEmpty
            let values = mayDiffer ? try rowStore.load(planned.table, row)?.columns : nil
            result.append(
                .init(
                    objectID: id,
                    version: isWritten ? written : planned.loaded?.version, values: values))
        }
        // A client that holds one of them would find a version there that its own save made, or
        // that another is shown in its place.
        for (row, table) in stamp == nil ? [] : scratch.regrouped where plan.rows[row] == nil {
            guard let now = try rowStore.load(table, row) else { continue }
            result.append(
                .init(
                    objectID: now.objectID, version: now.isVisible ? now.version : nil,
                    values: now.isVisible ? now.columns : nil))
        }
        for (index, id) in plan.droppedIDs.enumerated() {
            // The rest of the save may delete its targets.
            let store = try plan.dropped[index].map { try rowStore.load($0.table, $0.row) ?? $0 }
            // An eclipsed row is alive, and its object is not shown any more.
            let isShown = store?.isVisible ?? false
            result.append(
                .init(
                    objectID: id, version: isShown ? store?.version : nil,
                    values: isShown ? store?.columns : nil, isDropped: true))
        }
        return result
    }

    /// A row that may be of a group as the save left it; nil where it is of none.
    private func savedGroup(_ planned: SavePlan.Row, _ row: RowID) throws -> SaveResult.SavedRow? {
        let wasGrouped = planned.loaded.map { !$0.eclipsed.isEmpty || $0.survivor != nil } ?? false
        guard wasGrouped || state.eclipsed > 0, planned.table.isGrouped,
            let now = try rowStore.load(planned.table, row)
        else { return nil }
        guard now.isVisible else {
            return .init(objectID: now.objectID, version: nil, values: nil)
        }
        guard wasGrouped || !now.eclipsed.isEmpty else { return nil }
        return .init(objectID: now.objectID, version: now.version, values: now.columns)
    }

    /// Saves a change of membership: a transaction like any other, which carries no rows.
    ///
    /// The first one carries all members there are, so that every node that applies it knows them
    /// all.
    private func saveMembership(_ request: SaveRequest) throws -> SaveResult {
        guard request.operations.isEmpty else {
            throw CoordinatorError(
                .malformed, "A change of membership is saved by itself, without objects.")
        }
        for change in request.membership { try check(change) }
        let seen = state.versionVector
        let transaction = transaction(
            of: request, MembershipChange.shapes, request.membership.map(\.change))
        try applier.apply(try encode(transaction), isLocal: true)
        let result = SaveResult(
            transaction: transaction.dot, timestamp: transaction.timestamp, seen: seen,
            token: session.token, insertedRows: [], conflicts: [], rows: [])
        if let saveID = request.saveID {
            try saveAnswers.remember(result, to: request, under: saveID)
        }
        return result
    }

    func check(_ change: MembershipChange) throws {
        let member = state.membership[change.node]
        if member?.departure != nil {
            throw CoordinatorError(
                .memberDeparted,
                "Node \(change.node) is not a member any more, and its number is not used again.")
        }
        guard case .join(_, let address) = change else { return }
        let texts = [address.publish, address.exchange] + address.publicKeys
        guard texts.allSatisfy({ $0.utf8.count <= 1024 && !$0.contains(" ") }),
            address.publicKeys.count <= 16
        else { throw CoordinatorError(.malformed, "An address of a member is too long.") }
    }
}
