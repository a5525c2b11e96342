import Merge

/// The part of a migration that needs the rows' registers.
struct RowMigration: StorePart {
    let session: StoreSession

    /// Finishes a migration whose tables are done: journal, references to what is gone, values in
    /// the place of null. To be called while opening, before constraints are adopted; the digest
    /// follows when they are.
    func finish(_ plan: MigrationPlan) throws {
        group = StoreSession.GroupChanges()
        state.generation += 1
        // Rows are eclipsed until constraints are adopted, though there be none any more.
        scratch.mode = .adopting
        defer { scratch.mode = .none }
        // By the new names first, which all that follows writes the journal by.
        if plan.isReshaping { try journalAnew(plan) }
        try markClosed(plan)
        try releaseReferences(toRowsGoneBy: plan)
        for (entity, values) in plan.substituted { try substitute(values, in: table(entity.name)) }
        try session.writeState()
        group = StoreSession.GroupChanges()
        scratch.forgetRows()
    }

    /// Computes the digest of a store again that is migrated and holds to the model's constraints.
    ///
    /// - Throws: ``CoordinatorError`` (`storeDamaged`) where a row cannot be read or is not shown
    ///   as it should be: a digest without it would hide the damage.
    func adoptDigest(_ plan: MigrationPlan) throws {
        guard plan.changesDigest else { return }
        let (digest, damages) = try session.reader().recomputeDigest()
        guard damages.isEmpty else {
            throw CoordinatorError(
                .storeDamaged,
                "The store is damaged, so it cannot be migrated and is as it was: "
                    + damages.prefix(3).joined(separator: "; ") + ".")
        }
        state.digest = digest
        try session.writeState()
    }

    /// Settles the claims of one-to-ones again, after a change of the policy that chooses between
    /// claims, or after claimants are gone. A contested claim is listed in `_dangling` unless it is
    /// the one that stood, so those rows name all there are. To be called while opening, once
    /// groups are settled.
    func settleAllClaims() throws {
        var contested = Set<Claim>()
        var newest: Stamp?
        let tables = Dictionary(
            self.tables.values.map { ($0.code, $0) }, uniquingKeysWith: { first, _ in first })
        var rows: [(row: RowID, entity: Int64)] = []
        let statement = try database.prepared(
            "SELECT DISTINCT row, entity FROM _dangling ORDER BY row")
        while try statement.step() {
            rows.append((RowID(statement.integer(0)), statement.integer(1)))
        }
        for (row, entity) in rows {
            guard let table = tables[entity], !table.exclusive.isEmpty,
                let loaded = try rowStore.load(table, row)
            else { continue }
            contested.formUnion(try claimStore.claims(loaded))
            guard let stamp = loaded.state.existence.siblings.last?.stamp else { continue }
            newest = max(newest ?? stamp, stamp)
        }
        guard !contested.isEmpty, let newest else { return }
        group = StoreSession.GroupChanges()
        state.generation += 1
        try rowWriter.settleClaims(contested, by: newest)
        try session.writeState()
        group = StoreSession.GroupChanges()
        scratch.forgetRows()
    }

    // MARK: References to what is gone

    /// Shows nil where a reference leads to a row that went with its entity. That is no conflict: nobody
    /// deleted the row at the same time.
    func releaseReferences(toRowsGoneBy plan: MigrationPlan) throws {
        let roots = Set(
            plan.tables.filter { !$0.removedEntities.isEmpty }.map(\.new.name))
        if roots.isEmpty { return }
        for table in tables.values.sorted(by: { $0.entity.name < $1.entity.name }) {
            for (position, root) in table.references where roots.contains(root) {
                let name = EntityTable.quote(table.entity.root)
                let column = EntityTable.quote(table.entity.properties[position].name)
                let own = table.entity.sharesTable ? " AND referring._entity = \(table.code)" : ""
                let statement = try database.prepared(
                    "SELECT _id FROM \(name) AS referring WHERE \(column) IS NOT NULL\(own) "
                        + "AND NOT EXISTS (SELECT 1 FROM \(EntityTable.quote(root)) AS target "
                        + "WHERE target._id = referring.\(column)) ORDER BY _id")
                var rows: [RowID] = []
                while try statement.step() { rows.append(RowID(statement.integer(0))) }
                for row in rows {
                    guard let loaded = try rowStore.load(table, row),
                        let stamp = loaded.state.existence.siblings.last?.stamp
                    else { continue }
                    try rowWriter.write(
                        loaded.table, row: row, old: loaded, state: loaded.state, by: stamp)
                }
            }
        }
    }

    // MARK: Values in the place of null

    fileprivate func substitute(_ values: [Int: PropertyValue], in table: EntityTable) throws {
        let root = EntityTable.quote(table.entity.root)
        let own = table.entity.sharesTable ? " AND _entity = \(table.code)" : ""
        var rows: [RowID] = []
        let columns = values.keys.sorted().map {
            EntityTable.quote(table.entity.properties[$0].name)
        }
        let isNull = columns.map { "\($0) IS NULL" }.joined(separator: " OR ")
        let isPlain = table.constraints.isEmpty
        for sql in [
            "SELECT _id FROM \(root) WHERE (_registers IS NOT NULL"
                + (isPlain ? "" : " OR \(isNull)") + ")\(own) ORDER BY _id",
            "SELECT row FROM _tombstone WHERE entity = \(table.code) ORDER BY row",
            "SELECT row FROM _eclipsed WHERE entity = \(table.code) ORDER BY row",
        ] {
            let statement = try database.prepared(sql)
            while try statement.step() { rows.append(RowID(statement.integer(0))) }
        }
        for row in rows {
            guard let old = try rowStore.load(table, row), old.table === table else { continue }
            var state = old.state
            state.substitute(values, in: table)
            guard state != old.state, let stamp = state.existence.siblings.last?.stamp else {
                continue
            }
            try rowWriter.write(table, row: row, old: old, state: state, by: stamp)
        }
        guard isPlain else { return }
        for (position, column) in zip(values.keys.sorted(), columns) {
            guard let value = values[position] else { continue }
            let statement = try database.prepared(
                "UPDATE \(root) SET \(column) = ?1 WHERE \(column) IS NULL "
                    + "AND _registers IS NULL\(own)")
            statement.bind(1, value)
            try statement.run()
        }
    }

    // MARK: The journal

    /// Lists open conflicts under the names of the new model; those about what is gone close.
    private func journalAnew(_ plan: MigrationPlan) throws {
        // Counts are looked at when all else is as the new model has it.
        let own = "closed = 0 AND kind <> '\(ConflictKind.count.rawValue)'"
        let statement = try database.prepared("SELECT id FROM _conflict WHERE \(own)")
        var ids: [ConflictID] = []
        while try statement.step() { if let id = ConflictID(statement.text(0)) { ids.append(id) } }
        let entries = try ids.sorted { $0.description < $1.description }.compactMap {
            try journal.openEntry($0)
        }
        let kept = Set(
            entries.flatMap { entry in
                entry.listedReferences.map {
                    ListedReference(id: renamed($0.id, plan), write: $0.write)
                }
            })
        try execute(sql: "DELETE FROM _conflict WHERE \(own)")
        let opened = Dictionary(
            entries.map { (renamed($0.id, plan), $0.openedAt) },
            uniquingKeysWith: { first, _ in first })
        var written = Set<ConflictID>()
        var rows = Set<RowID>()
        for entry in entries where !entry.id.subject.isEmpty {
            guard let table = plan.mapping.entities[entry.id.entity].map({ table($0.target.name) })
            else { continue }
            var current: [Conflict] = []
            if entry.kind == .link {
                current = try linkConflict(entry, plan).map { [$0] } ?? []
            } else if rows.insert(entry.id.row).inserted,
                let row = try rowStore.load(table, entry.id.row)
            {
                current = try journal.conflicts(of: row, dangling: row.dangling) { reference, _ in
                    kept.contains(reference)
                }
            }
            for var conflict in current where written.insert(conflict.id).inserted {
                conflict.openedAt = opened[conflict.id] ?? entry.openedAt
                try journal.writeOpen(conflict)
            }
        }
        for var entry in entries where !written.contains(renamed(entry.id, plan)) {
            entry.state = .settled
            entry.closedBy = nil
            try journal.writeClosed(entry)
        }
    }

    /// Marks closed entries with a name that stands for something else from now on, for writing
    /// what they tell by that name would change what they are not about; and those that can be
    /// undone only by writing what is gone.
    private func markClosed(_ plan: MigrationPlan) throws {
        for entity in model.entities {
            let identity = model.identity(ofEntity: entity.name)
            let former = plan.old.entity(named: entity.name)
            let isSame = former != nil && plan.old.identity(ofEntity: entity.name) == identity
            let (before, now) = (former?.storedIdentities ?? [:], entity.storedIdentities)
            let others = now.keys.filter { before[$0] != now[$0] }
            let kept = Set(now.values)
            let gone = before.filter { !kept.contains($0.value) }.keys
            if isSame, others.isEmpty, gone.isEmpty { continue }
            let look = try database.prepared(
                "SELECT id, closed, opened, record FROM _conflict "
                    + "WHERE entity = ?1 AND closed > 0")
            look.bind(1, entity.name)
            var entries: [Conflict] = []
            while try look.step() {
                // A damaged one stays as it is; a verification tells of it.
                if let entry = try? ConflictCoding.entry(look) { entries.append(entry) }
            }
            for var entry in entries
            where !isSame || others.contains(where: entry.names.contains)
                || gone.contains(where: entry.namesUndone.contains)
            {
                entry.hasFormerNames = true
                let write = try database.prepared(
                    "UPDATE _conflict SET record = ?3 WHERE id = ?1 AND closed = ?2")
                write.bind(1, entry.id.asOpen.description)
                write.bind(2, Int64(bitPattern: entry.id.closedAt ?? 0))
                write.bind(3, ConflictCoding.encode(entry))
                try write.run()
            }
        }
    }

    private func linkConflict(_ entry: Conflict, _ plan: MigrationPlan) throws -> Conflict? {
        let parts = entry.id.subject.split(separator: ".")
        guard parts.count == 2, let target = Int64(parts[1].dropFirst()),
            let old = plan.old.links.first(where: {
                $0.source == entry.id.entity && $0.name == "\($0.source).\(parts[0])"
            }), let name = plan.mapping.links[old.name] ?? nil,
            let link = model.link(named: name)
        else { return nil }
        let register = try linkStore.loadLink(link, source: entry.id.row, target: RowID(target))
        guard try linkStore.hasLivingEnds(link, source: entry.id.row, target: RowID(target)) else {
            return nil
        }
        return ConflictReport.conflict(
            history.settling(link, register), source: entry.id.row, target: RowID(target),
            register, generation: state.generation)
    }

    /// A conflict's name by the new model.
    func renamed(_ id: ConflictID, _ plan: MigrationPlan) -> ConflictID {
        guard let entity = plan.mapping.entities[id.entity] else { return id }
        var parts = id.subject.split(separator: ".", omittingEmptySubsequences: false).map(
            String.init)
        func now(_ name: String) -> String {
            if let here = entity.names[name] { return here }
            guard
                let identity = plan.old.entity(named: id.entity)?.identities[name],
                let again = entity.target.identities.first(where: { $0.value == identity })
            else { return name }
            return again.key
        }
        if parts.first == "unique" {
            parts = parts.map(now)
        } else if let first = parts.first {
            parts[0] = now(first)
        }
        return ConflictID(
            entity: entity.target.name, row: id.row, subject: parts.joined(separator: "."))
    }
}

extension Conflict {
    /// The names of all properties that it tells of.
    var names: Set<String> {
        var names = Set(property.map { [$0] } ?? [])
        for side in sides {
            names.formUnion(side.row.map(\.name))
            names.formUnion(side.relationships.map(\.name))
        }
        return names
    }

    /// The names of what undoing it writes: of the side that lost, or of what was decided against.
    var namesUndone: Set<String> {
        var names = Set(property.map { [$0] } ?? [])
        let wanted = sides.last { $0.isVisible != (state == .settled) } ?? sides.last
        guard let wanted, !wanted.isDeleted else { return names }
        names.formUnion(wanted.row.map(\.name))
        names.formUnion(wanted.relationships.map(\.name))
        return names
    }
}

extension RowState {
    /// Puts values in the place of nulls that were written, as if they had been written so.
    fileprivate mutating func substitute(_ substitutes: [Int: PropertyValue], in table: EntityTable)
    {
        for (position, value) in substitutes.sorted(by: { $0.key < $1.key }) {
            let register = properties[position]
            if table.entity.policies.isRowGrained {
                existence = Register(
                    siblings: existence.siblings.map { sibling in
                        guard case .whole(var row) = sibling.value, row[position].isNull else {
                            return sibling
                        }
                        row[position] = value
                        return Sibling(stamp: sibling.stamp, value: .whole(row))
                    })
                continue
            }
            let written =
                register.siblings.isEmpty
                ? insertion.siblings.map { Sibling(stamp: $0.stamp, value: PropertyValue.null) }
                : register.siblings
            for sibling in written where sibling.value.isNull {
                // An assigned value stays assigned, and others do not become so.
                if !table.constraints.isEmpty { toggleException(sibling.dot, position) }
            }
            properties[position] = Register(
                siblings: written.map {
                    $0.value.isNull ? Sibling(stamp: $0.stamp, value: value) : $0
                })
        }
    }

    /// Turns round whether an insertion's value counts as assigned.
    private mutating func toggleException(_ dot: Dot, _ position: Int) {
        guard insertion.siblings.contains(where: { $0.dot == dot }) else { return }
        var positions = Set(exceptions.first { $0.dot == dot }?.positions ?? [])
        if positions.remove(position) == nil { positions.insert(position) }
        exceptions.removeAll { $0.dot == dot }
        if !positions.isEmpty {
            exceptions.append(InsertionException(dot: dot, positions: positions.sorted()))
            exceptions.sort { $0.dot < $1.dot }
        }
    }
}
