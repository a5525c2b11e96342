import Merge

/// Collection: the removal of what is stable and not needed (DESIGN sections 5.1 and 5.3, MODEL P1
/// to P7).
///
/// Candidates are listed in `_uncollected` by the code that writes registers with siblings,
/// tombstones and links, so nothing is ever scanned. Each waits for *one* dot of its siblings
/// that was not stable when it was last looked at. A call looks at those alone whose dot is
/// stable by now, and each of them is collected, or waits for another dot, or leaves the list;
/// so a candidate is looked at as often as it has siblings, and costs nothing while it waits.
///
/// Invariant: whatever a vector that covers everything would remove is in the list.
///
/// Neither what readers see, nor a row's version, nor the digest, nor an unresolved conflict
/// changes. Links of rows that are gone stay: a revival would bring them back on other nodes.
struct Collector: StorePart {
    let session: StoreSession

    /// Candidates looked at in one call, at most: a group of saves may have as many operations,
    /// and waiting saves shall not wait longer for this.
    static let collectionLimit = 10_000

    /// Collapses, within the open group, what a vector of stable dots permits.
    ///
    /// - Parameters:
    ///   - stable: dots with which nothing that is still to arrive can be concurrent.
    ///   - limit: how many candidates to look at, at least 1.
    func collect(stable: VersionVector, limit: Int) throws -> CollectionResult {
        var result = CollectionResult()
        var left = min(max(limit, 1), Self.collectionLimit)
        var floor: Int64 = 0
        while left > 0, let first = try firstAwaited(from: floor) {
            let code = first >> ActorTable.sequenceBits
            let base = code << ActorTable.sequenceBits
            let mask = UInt64(1) << UInt64(ActorTable.sequenceBits) - 1
            let sequence = stable[try state.actors.dot(first).actor]
            let candidates = try candidates(
                from: first, through: base | Int64(min(sequence, mask)), limit: left)
            for candidate in candidates where left > 0 {
                if let last = candidate.last {
                    left -= try collect(
                        candidate, through: last, limit: left, stable: stable, &result)
                } else {
                    try collect(candidate, stable: stable, &result)
                    left -= 1
                }
                group.wroteApart = true
            }
            floor = (code + 1) << ActorTable.sequenceBits
        }
        result.isDone = left > 0
        return result
    }

    // MARK: The list

    private struct Candidate {
        let row: RowID
        let target: RowID
        let name: String
        let waitsFor: Int64

        /// Of a range of rows its last one.
        var last: RowID? { target.rawValue < 0 ? RowID(-target.rawValue) : nil }
    }

    private func firstAwaited(from floor: Int64) throws -> Int64? {
        let statement = try database.prepared(
            "SELECT min(waitsFor) FROM _uncollected WHERE waitsFor >= ?1")
        statement.bind(1, floor)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return statement.isNull(0) ? nil : statement.integer(0)
    }

    private func candidates(
        from first: Int64, through last: Int64, limit: Int
    ) throws -> [Candidate] {
        if last < first { return [] }
        let statement = try database.prepared(
            "SELECT row, target, name, waitsFor FROM _uncollected WHERE waitsFor BETWEEN ?1 AND ?2 "
                + "ORDER BY waitsFor, row, target, name LIMIT ?3")
        statement.bind(1, first)
        statement.bind(2, last)
        statement.bind(3, limit)
        var found: [Candidate] = []
        while try statement.step() {
            found.append(
                Candidate(
                    row: RowID(statement.integer(0)), target: RowID(statement.integer(1)),
                    name: statement.text(2), waitsFor: statement.integer(3)))
        }
        return found
    }

    /// Lets a candidate wait for another dot, or takes it off the list.
    private func wait(_ candidate: Candidate, for dot: Dot?) throws {
        let key = "WHERE row = ?1 AND target = ?2 AND name = ?3"
        let statement = try database.prepared(
            dot == nil
                ? "DELETE FROM _uncollected \(key)"
                : "UPDATE _uncollected SET waitsFor = ?4 \(key)")
        statement.bind(1, candidate.row.rawValue)
        statement.bind(2, candidate.target.rawValue)
        statement.bind(3, candidate.name)
        if let dot { statement.bind(4, state.actors.integer(dot)) }
        try statement.run()
    }

    // MARK: Collecting

    /// Looks at rows of a range, from its first on. What does not go waits by itself from then on.
    ///
    /// - Returns: how many were looked at.
    private func collect(
        _ candidate: Candidate, through last: RowID, limit: Int, stable: VersionVector,
        _ result: inout CollectionResult
    ) throws -> Int {
        let count = min(limit, Int(last.rawValue - candidate.row.rawValue) + 1)
        let next = RowID(candidate.row.rawValue + Int64(count))
        try wait(candidate, for: nil)
        guard let table = tables[candidate.name] else { return count }
        for number in candidate.row.rawValue..<next.rawValue {
            let row = RowID(number)
            let left = try collect(table, row, stable: stable, &result)
            if let dot = left.last(where: { !stable.contains($0) }) {
                try collectionList.noteUncollected(row, RowID(0), candidate.name, dot)
            }
        }
        if next <= last {
            try collectionList.noteUncollected(
                next...last, candidate.name, try state.actors.dot(candidate.waitsFor))
        }
        return count
    }

    private func collect(
        _ candidate: Candidate, stable: VersionVector, _ result: inout CollectionResult
    ) throws {
        let left: [Dot]
        if let table = tables[candidate.name] {
            left = try collect(table, candidate.row, stable: stable, &result)
        } else if let link = model.link(named: candidate.name) {
            left = try collect(
                link, source: candidate.row, target: candidate.target, stable: stable, &result)
        } else {
            left = []
        }
        try wait(candidate, for: left.last { !stable.contains($0) })
    }

    /// - Returns: the dots whose stability lets something more go, earliest first.
    func collect(
        _ table: EntityTable, _ row: RowID, stable: VersionVector,
        _ result: inout CollectionResult
    ) throws -> [Dot] {
        guard let old = try rowStore.load(table, row) else { return [] }
        let policies = old.table.policies(for: old.state)
        if old.isAlive { return try collapse(old, stable: stable, &result) }
        guard old.state.isCollectable(stable: stable, policies: policies) else {
            return old.state.uncollected(policies)
        }
        try rowStore.removeTombstone(row)
        result.tombstonesCollected += 1
        result.conflictsSettled += try journal.settle(
            from: try journal.conflicts(of: old, dangling: []), to: [], whole: old)
        return []
    }

    private func collapse(
        _ old: LoadedRow, stable: VersionVector, _ result: inout CollectionResult
    ) throws -> [Dot] {
        let policies = old.table.policies(for: old.state)
        // The sides of an unresolved delete list what their writers wrote, on every node the
        // same: the row waits for the decision as a whole.
        if old.state.uncollected(policies).isEmpty { return [] }
        var state = old.state
        let removed = state.collapse(stable: stable, policies: policies)
        let new = LoadedRow(
            table: old.table, row: old.row, state: state, isAlive: true, columns: old.columns,
            survivor: old.survivor, eclipsed: old.eclipsed)
        if !removed.isEmpty {
            // The visible siblings are those that stay, so the columns are what they were.
            if let survivor = new.survivor {
                try rowStore.writeEclipsed(new, survivor: survivor, isNew: false)
            } else {
                try rowStore.writeColumns(old.table.updateSQL, new)
            }
            result.siblingsCollapsed += removed.properties.count + removed.existence.count
            let dangling = old.dangling
            result.conflictsSettled += try journal.settle(
                from: try journal.conflicts(of: old, dangling: dangling),
                to: try journal.conflicts(of: new, dangling: dangling))
        }
        return state.uncollected(policies)
    }

    func collect(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, stable: VersionVector,
        _ result: inout CollectionResult
    ) throws -> [Dot] {
        let register = try linkStore.loadLink(link, source: source, target: target)
        let policy = history.settling(link, register).policy
        let dots = LinkCoding.uncollected(register, policy: policy)
        guard !dots.isEmpty, dots.allSatisfy({ stable.contains($0) }),
            let visible = LinkCoding.visible(register, policy: policy)
        else { return dots }
        result.siblingsCollapsed += register.siblings.count - 1
        if visible.value {
            try linkStore.writeLink(link, source: source, target: target, Register(visible))
        } else {
            try linkStore.removeLink(link, source: source, target: target)
            result.linksCollected += 1
        }
        try linkWriter.refreshGroupedLink(link, source: source, target: target)
        let before = ConflictReport.conflict(
            link, source: source, target: target, register, generation: state.generation)
        // The death of an end has closed it before.
        if let before, try !journal.isClosed(before) {
            result.conflictsSettled += try journal.settle(from: [before], to: [])
        }
        return []
    }
}
