import Merge

extension StoreEngine {
    // MARK: Validation

    /// Checks every value the save writes; all failures are listed, not the first alone. Counts are
    /// looked at by ``validateCounts(_:)``.
    func validate(_ plan: inout SavePlan) throws {
        for row in plan.order {
            guard let planned = plan.rows[row], planned.kind != .delete else { continue }
            try validate(planned, row, &plan)
        }
        for key in plan.linkOrder where plan.links[key] ?? false {
            if plan.deletes(key.source) || plan.deletes(key.target) {
                plan.links[key] = false
            }
        }
    }

    private func validate(
        _ planned: SavePlan.Row, _ row: RowID, _ plan: inout SavePlan
    ) throws {
        let properties = planned.table.entity.properties
        for (index, (position, value)) in planned.values.enumerated() {
            // What is brought back is not the caller's to be refused for: where it cannot be any more
            // what the store has stays.
            let isBroughtBack = planned.isBroughtBack(position)
            if !planned.hiddenClaims.contains(position),
                let failure = ValueValidation.failure(
                    value, of: properties[position], object: told(planned))
            {
                if isBroughtBack {
                    plan.rows[row]?.leave { $0 == position }
                } else {
                    plan.failures.append(failure)
                }
            }
            guard case .reference(let target) = value else { continue }
            guard case .toOne(let destination) = properties[position].content else { continue }
            let isThere = try !plan.deletes(target) && isThere(target, destination, plan)
            if isThere { continue }
            if isBroughtBack, !properties[position].isOptional {
                plan.rows[row]?.leave { $0 == position }
            }
            // What goes with a change or a revival may refer to what is gone: it is projected to nil.
            if index < planned.assignedCount || planned.kind == .insert {
                plan.failures.append(
                    ValidationFailure(
                        object: told(planned), property: properties[position].name,
                        code: .danglingReference,
                        message: "\(planned.table.entity.name).\(properties[position].name) "
                            + "refers to an object that is not there: \(target)."))
            }
        }
        guard planned.kind == .insert else { return }
        for (position, property) in properties.enumerated()
        where !property.isOptional && !planned.values.contains(where: { $0.position == position }) {
            plan.failures.append(
                ValidationFailure(
                    object: told(planned), property: property.name,
                    code: .missingMandatoryProperty,
                    message: "\(planned.table.entity.name).\(property.name) is mandatory."))
        }
    }

    // MARK: Execution

    /// Writes what was planned: one transaction, applied by the same path as a foreign one.
    func execute(_ plan: SavePlan, _ request: SaveRequest) throws -> SaveResult {
        var shapes = ShapeTable()
        var changes: [Change] = []
        changes.reserveCapacity(plan.order.count)
        var loaded: [RowID: LoadedRow] = [:]
        for row in plan.order {
            guard let planned = plan.rows[row] else { continue }
            let made = self.changes(planned, row, &shapes)
            if made.isEmpty { continue }
            if let known = planned.loaded {
                loaded[row] = known
                for member in known.eclipsed { loaded[member.row] = member }
            }
            changes += made
        }
        for key in plan.linkOrder {
            guard let isAlive = plan.links[key], let link = model.link(named: key.link) else {
                continue
            }
            for ends in try linksToWrite(link, key, isAlive: isAlive) {
                changes.append(
                    Change(
                        kind: isAlive ? .link : .unlink,
                        shape: shapes.position(of: ChangeShape(entity: key.link, assigned: [])),
                        row: ends.source, target: ends.target))
            }
        }

        let closedBefore = group.closedConflicts.count
        let seen = state.versionVector
        var stamp: Stamp?
        var written: [RowID: [ConflictSide.RowValue]] = [:]
        if !changes.isEmpty {
            let transaction = transaction(of: request, shapes.shapes, changes)
            stamp = transaction.stamp
            written = self.written(plan.journal, transaction)
            try apply(try encode(transaction), loaded: loaded, isLocal: true)
        }
        for conflict in plan.journal {
            guard let conflict = completed(conflict, plan, written, stamp) else { continue }
            try writeClosed(conflict)
        }
        let result = SaveResult(
            transaction: stamp?.dot, timestamp: stamp?.timestamp, seen: seen, token: token,
            insertedRows: plan.inserted,
            conflicts: Array(group.closedConflicts[closedBefore...]),
            rows: try savedRows(plan, changes, stamp))
        if let saveID = request.saveID { try remember(result, to: request, under: saveID) }
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
            saveID: request.saveID, modelHash: model.modelHash, shapes: shapes,
            changes: changes)
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
        guard encoded.bytes.count <= Limits.transactionBytes,
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

    func change(
        _ planned: SavePlan.Row, _ row: RowID, _ shapes: inout ShapeTable
    ) -> Change? {
        let table = planned.table
        let policies = table.entity.policies
        switch planned.kind {
        case .insert:
            let assigned = planned.values.prefix(planned.assignedCount)
            var carried = Array(planned.values.dropFirst(planned.assignedCount))
            if policies.isRowGrained { carried += rest(planned, table) { _ in .null } }
            return change(.insert, table, row, Array(assigned), carried, &shapes)
        case .revival:
            let assigned = planned.values
            return change(
                .revival, table, row, assigned, rest(planned, table) { _ in .null }, &shapes)
        case .update:
            guard let loaded = planned.loaded else { return nil }
            let raw: (Int) -> PropertyValue = { loaded.shown($0)?.value ?? .null }
            let values = planned.resolves ? planned.values : planned.changedValues
            if values.isEmpty, !planned.resolves { return nil }
            // A property not assigned carries the register's value, never its projection: a
            // reference projected to nil must not become nil (MODEL P13).
            let carried =
                policies.isRowGrained
                ? table.entity.properties.indices.filter { position in
                    !values.contains { $0.position == position }
                }.map { ($0, raw($0)) } : []
            return change(.update, table, row, values, carried, &shapes)
        case .delete:
            guard let loaded = planned.loaded, loaded.isAlive || planned.resolves else {
                return nil
            }
            return change(.delete, table, row, [], [], &shapes)
        }
    }

    private func rest(
        _ planned: SavePlan.Row, _ table: EntityTable, _ value: (Int) -> PropertyValue
    ) -> [(position: Int, value: PropertyValue)] {
        table.entity.properties.indices.filter { position in
            !planned.values.contains { $0.position == position }
        }.map { ($0, value($0)) }
    }

    func change(
        _ kind: Change.Kind, _ table: EntityTable, _ row: RowID,
        _ assigned: [(position: Int, value: PropertyValue)],
        _ carried: [(position: Int, value: PropertyValue)], _ shapes: inout ShapeTable
    ) -> Change {
        let shape = shapes.position(of: table, assigned: assigned, carried: carried)
        var values: [PropertyValue] = []
        values.reserveCapacity(assigned.count + carried.count)
        for entry in assigned { values.append(entry.value) }
        for entry in carried { values.append(entry.value) }
        return Change(kind: kind, shape: shape, row: row, values: values)
    }

    /// The rows as the save left them.
    private func savedRows(
        _ plan: SavePlan, _ changes: [Change], _ stamp: Stamp?
    ) throws -> [SaveResult.SavedRow] {
        var result: [SaveResult.SavedRow] = []
        result.reserveCapacity(plan.order.count)
        let written = stamp.map { RowVersion(dots: [$0.dot]) }
        // A row that only gained a link is not written, so it keeps its version.
        let changed = Set(changes.filter { $0.kind != .link && $0.kind != .unlink }.map(\.row))
        for row in plan.order {
            guard let planned = plan.rows[row] else { continue }
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
            // Read again, for what a reference shows hangs on other rows of the save as well; and
            // whether a claim to a one-to-one stands, on those that others have made.
            let mayDiffer = planned.isSettled || !planned.table.exclusive.isEmpty
            let values = mayDiffer ? try load(planned.table, row)?.columns : nil
            result.append(
                .init(
                    objectID: id,
                    version: isWritten ? written : planned.loaded?.version, values: values))
        }
        // Who holds one of them would find a version there that its own save made, or that another
        // is shown in its place.
        for (row, table) in stamp == nil ? [] : regrouped where plan.rows[row] == nil {
            guard let now = try load(table, row) else { continue }
            result.append(
                .init(
                    objectID: now.objectID, version: now.isVisible ? now.version : nil,
                    values: now.isVisible ? now.columns : nil))
        }
        for (index, id) in plan.droppedIDs.enumerated() {
            // What it refers to may be deleted by the rest of the save.
            let store = try plan.dropped[index].map { try load($0.table, $0.row) ?? $0 }
            // An eclipsed row is alive, and its object is shown no more.
            let isShown = store?.isVisible ?? false
            result.append(
                .init(
                    objectID: id, version: isShown ? store?.version : nil,
                    values: isShown ? store?.columns : nil, isDropped: true))
        }
        return result
    }
}

/// The shapes of a transaction in the making: each once, in order of first use.
struct ShapeTable {
    private(set) var shapes: [ChangeShape] = []
    private var places: [ChangeShape: Int] = [:]
    private var last: (table: EntityTable, assigned: [Int], carried: [Int], position: Int)?

    mutating func position(of shape: ChangeShape) -> Int {
        if let found = places[shape] { return found }
        places[shape] = shapes.count
        shapes.append(shape)
        return shapes.count - 1
    }

    /// A bulk save has long runs of one shape, so the last one is tried first.
    mutating func position(
        of table: EntityTable, assigned: [(position: Int, value: PropertyValue)],
        carried: [(position: Int, value: PropertyValue)]
    ) -> Int {
        if let last, last.table === table,
            last.assigned.elementsEqual(assigned, by: { $0 == $1.position }),
            last.carried.elementsEqual(carried, by: { $0 == $1.position })
        {
            return last.position
        }
        let names = table.entity.properties
        let found = position(
            of: ChangeShape(
                entity: table.entity.name, assigned: assigned.map { names[$0.position].name },
                carried: carried.map { names[$0.position].name }))
        last = (table, assigned.map(\.position), carried.map(\.position), found)
        return found
    }
}
