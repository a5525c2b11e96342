import Merge

extension TransactionApplier {
    func applyChanges(
        _ transaction: Transaction, shapes: [ResolvedShape], isLocal: Bool,
        loaded: [LoadedRow?], isPlain: Bool
    ) throws {
        let stamp = transaction.stamp
        scratch.regrouped = []
        if Self.isPlain(shapes) {
            if transaction.changes.allSatisfy({ $0.kind == .insert }) {
                return try rowWriter.insertPlain(
                    transaction, shapes, mayBeDead: !isLocal && state.tombstones > 0)
            }
            if Self.isOneByOne(transaction),
                try Self.isApart(shapes) || isPlain
                    || (!isLocal && self.isPlainUpdate(transaction, shapes))
            {
                return try applyOneByOne(transaction, shapes)
            }
        }
        var touched = RowTable<TouchedRow>(capacity: transaction.changes.count)
        var fresh: [(EntityTable, Change, [Int])] = []
        let hasReferences = shapes.contains { $0.hasReferences }

        // First every row's new state, so that references within the transaction find rows that
        // come later in it.
        for (place, change) in transaction.changes.enumerated() {
            guard case .rows(let table, let positions) = shapes[change.shape] else { continue }
            if change.kind == .insert, table.constraints.isEmpty, touched[change.row] == nil {
                if !isLocal, try rowStore.loadTombstone(table, change.row) != nil {
                    throw RowAlarm.identityExists
                }
                fresh.append((table, change, positions))
                rowStore.noteTable(table, of: change.row)
                if hasReferences { scratch.knownAlive[change.row] = table.entity.root }
                continue
            }
            if change.kind == .link || change.kind == .unlink { continue }
            let known = touched[change.row]
            let old =
                try known?.old ?? (place < loaded.count ? loaded[place] : nil)
                ?? rowStore.load(table, change.row)
            let concrete = known?.table ?? old?.table ?? table
            // The positions of its values are those of the entity it names, and no others.
            guard concrete === table else {
                throw change.kind == .insert ? RowAlarm.identityExists : RowAlarm.entityDiffers
            }
            let state = try state(
                known?.state ?? old?.state, of: concrete, after: change, positions, transaction)
            touched[change.row] = TouchedRow(old: old, table: concrete, state: state)
        }

        let transitions = noteTransitions(touched)
        defer { scratch.dying = [:] }
        let regrouping = try groupStore.regroup(touched)
        scratch.heldClaims = HeldClaims()
        var contested = Set<Claim>()
        for (table, change, positions) in fresh {
            do {
                try insert(
                    table, change, positions, stamp: stamp, seen: transaction.seen,
                    contested: &contested)
            } catch let failure as SQLFailure where failure.isIdentityTaken {
                throw RowAlarm.identityExists
            }
        }
        do {
            try write(
                touched, transitions, regrouping, contested: contested, by: stamp)
        } catch let failure as SQLFailure where failure.isIdentityTaken {
            throw RowAlarm.identityExists
        }
        try journal.journalHeldClaims(by: stamp)
        for change in transaction.changes where shapes[change.shape].isMembership {
            let shape = transaction.shapes[change.shape]
            if let change = MembershipChange(change, shape: shape) {
                try membershipStore.apply(change, stamp: stamp)
            }
        }
        for change in transaction.changes {
            guard case .link(let link) = shapes[change.shape], let target = change.target else {
                continue
            }
            try linkWriter.applyLink(
                link, source: change.row, target: target, isAlive: change.kind == .link,
                stamp: stamp, seen: transaction.seen)
        }
        try countTracker.settleCounts(by: stamp)
        try derivedAttributes.settle()
    }

    /// Whether a transaction does nothing but update and delete rows, each once.
    private static func isOneByOne(_ transaction: Transaction) -> Bool {
        var last = RowID(0)
        return transaction.changes.allSatisfy { change in
            defer { last = change.row }
            return (change.kind == .update || change.kind == .delete) && change.row > last
        }
    }

    /// Whether what is done with rows of these shapes is nothing to any other row.
    private static func isApart(_ shapes: [ResolvedShape]) -> Bool {
        shapes.allSatisfy {
            if case .rows(let table, _) = $0 { table.isApart && !table.isGrouped } else { false }
        }
    }

    /// Whether a transaction does nothing but update living rows that no two concurrent writes have left.
    ///
    /// - Precondition: ``isPlain(_:)``, ``isOneByOne(_:)``.
    private func isPlainUpdate(
        _ transaction: Transaction, _ shapes: [ResolvedShape]
    ) throws -> Bool {
        try transaction.changes.allSatisfy { change in
            guard change.kind == .update, case .rows(let table, _) = shapes[change.shape],
                let old = try rowStore.load(table, change.row)
            else { return false }
            return old.isPlain && old.table === table
        }
    }

    /// Updates and deletes rows one by one. Few are kept in hand, because there may be very many.
    private func applyOneByOne(
        _ transaction: Transaction, _ shapes: [ResolvedShape]
    ) throws {
        let changes = transaction.changes
        let stores = try shapes.map { shape -> PlainRowStore? in
            guard case .rows(let table, _) = shape else { return nil }
            return try PlainRowStore(session, table)
        }
        var start = 0
        while start < changes.count {
            let first = changes[start]
            guard case .rows(let table, let positions) = shapes[first.shape] else {
                fatalError("Change \(start) of \(transaction.dot) is of no row.")
            }
            var end = PlainRowStore.end(of: changes, from: start, \.row)
            let other = changes[start..<end].firstIndex {
                $0.kind != first.kind || $0.shape != first.shape
            }
            end = other ?? end
            let plain = try stores[first.shape]?.load(first.row, count: end - start)
            var fresh: [(row: PlainRow, values: [PropertyValue])] = []
            func settle() throws {
                defer { fresh.removeAll(keepingCapacity: true) }
                if first.kind == .delete {
                    try stores[first.shape]?.delete(fresh.map(\.row), by: transaction.stamp)
                } else {
                    try stores[first.shape]?.update(fresh, at: positions, by: transaction.stamp)
                }
            }
            for (place, change) in changes[start..<end].enumerated() {
                if let store = stores[first.shape], let row = plain?[place],
                    try store.isSeen(row, by: transaction.seen)
                {
                    fresh.append((row, change.values))
                    continue
                }
                try settle()
                try apply(change, to: table, positions, transaction)
            }
            try settle()
            start = end
        }
        try derivedAttributes.settle()
    }

    /// Updates or deletes any row to which others are nothing.
    private func apply(
        _ change: Change, to table: EntityTable, _ positions: [Int], _ transaction: Transaction
    ) throws {
        let old = try rowStore.load(table, change.row)
        guard old.map({ $0.table === table }) ?? true else { throw RowAlarm.entityDiffers }
        let state = try state(old?.state, of: table, after: change, positions, transaction)
        try rowWriter.write(table, row: change.row, old: old, state: state, by: transaction.stamp)
    }

    /// A row's registers after a change.
    ///
    /// - Parameter known: before; nil where nothing is known of it.
    private func state(
        _ known: RowState?, of table: EntityTable, after change: Change, _ positions: [Int],
        _ transaction: Transaction
    ) throws -> RowState {
        let kind: RowWrite.Kind =
            switch change.kind {
            case .insert: .insert
            case .delete: .delete
            case .revival: .revival
            case .update, .link, .unlink: .update
            }
        var state = known ?? RowState(propertyCount: table.entity.properties.count)
        if kind == .delete, state.isEmpty {
            // Somebody who still had the tombstone decided that the row stays deleted. The word is
            // kept, because a revival may be concurrent with it.
            state.existence.apply(
                Sibling(stamp: transaction.stamp, value: .dead), seen: transaction.seen)
            return state
        }
        let assignedCount = transaction.shapes[change.shape].assigned.count
        try state.apply(
            rowWrite(kind, table, positions, change.values, assignedCount: assignedCount),
            stamp: transaction.stamp, seen: transaction.seen, policies: table.entity.policies)
        return state
    }

    /// Whether inserts and updates of these shapes change nothing that other rows show.
    static func isPlain(_ shapes: [ResolvedShape]) -> Bool {
        !shapes.contains {
            $0.hasReferences || $0.hasConstraints || $0.isMembership || $0.isCounted
        }
    }

    /// Rows that are made alive, and rows that are made dead.
    typealias Transitions = (died: [(RowID, EntityTable)], revived: [(RowID, EntityTable)])

    /// Writes rows with their new registers, and brings all that depends on them up to date: groups,
    /// references, claims, links.
    ///
    /// - Parameters:
    ///   - contested: claims that must be settled in any case.
    ///   - stamp: that of the writer of the change.
    func write(
        _ touched: RowTable<TouchedRow>, _ transitions: Transitions, _ regrouping: Regrouping,
        contested: Set<Claim> = [], by stamp: Stamp
    ) throws {
        var contested = contested
        for (old, new) in try rowWriter.write(touched, regrouping, by: stamp) {
            if touched[new.row] == nil, new.isVisible || old?.isVisible ?? false {
                scratch.regrouped.append((new.row, new.table))
            }
            if new.table.exclusive.isEmpty { continue }
            if let old { contested.formUnion(try claimStore.claims(old)) }
            contested.formUnion(try claimStore.claims(new))
        }
        try rowWriter.judgeReferences(touched, by: stamp)
        for (row, table) in transitions.died where regrouping.rows[row] == nil {
            try rowWriter.releaseReferences(to: row, table, by: stamp)
        }
        for (row, _) in transitions.revived where regrouping.rows[row] == nil {
            try rowWriter.restoreReferences(to: row, by: stamp)
        }
        try rowWriter.moveReferences(regrouping, &contested, by: stamp)
        if !contested.isEmpty { try rowWriter.settleClaims(contested, by: stamp) }
        try linkWriter.settleLinks(died: transitions.died, revived: transitions.revived, by: stamp)
        try linkWriter.moveLinks(regrouping)
        try linkWriter.hideLinks(toMisfits: transitions.revived)
    }

    /// Rows that a transaction makes alive or dead, known before any of them is projected.
    func noteTransitions(_ touched: RowTable<TouchedRow>) -> Transitions {
        var died: [(RowID, EntityTable)] = []
        var revived: [(RowID, EntityTable)] = []
        scratch.dying = [:]
        for (row, entry) in touched {
            let isAlive = entry.isAlive
            if !isAlive, !session.referrers(to: entry.table.entity.root).isEmpty {
                scratch.dying[row] = entry.state
            }
            rowStore.noteTable(entry.table, of: row)
            if entry.old?.survivor == nil {
                scratch.knownAlive[row] = isAlive ? entry.table.entity.root : nil
            }
            switch (entry.old?.isAlive ?? false, isAlive) {
            case (true, false): died.append((row, entry.table))
            case (false, true): revived.append((row, entry.table))
            default: break
            }
        }
        return (died, revived)
    }

    /// The effect of a change on a row; of rows under constraints also what is no assignment.
    private func rowWrite(
        _ kind: RowWrite.Kind, _ table: EntityTable, _ positions: [Int],
        _ values: [PropertyValue], assignedCount: Int
    ) -> RowWrite {
        var written = Array(zip(positions, values)).map { (position: $0, value: $1) }
        guard kind == .insert || kind == .revival, !table.constraints.isEmpty else {
            return RowWrite(kind: kind, values: written)
        }
        let listed = Set(positions)
        if kind == .insert {
            // An insertion says of what it does not name that it is null.
            for position in table.entity.properties.indices where !listed.contains(position) {
                written.append((position, .null))
            }
        }
        if table.entity.policies.isRowGrained { return RowWrite(kind: kind, values: written) }
        return RowWrite(
            kind: kind, values: written,
            exceptions: Self.exceptions(values, at: positions, assigned: assignedCount))
    }

    /// The properties that an insert wrote as null, and those that it did not write and that are
    /// not null. Rows with unique keys keep them, because another of a group may show what one did
    /// not write.
    ///
    /// - Parameter assigned: how many of the values, from the first, the insert assigned.
    static func exceptions(
        _ values: [PropertyValue], at positions: [Int], assigned: Int
    ) -> [Int] {
        zip(positions, values).enumerated().filter { index, entry in
            (index < assigned) == entry.1.isNull
        }.map(\.element.0).sorted()
    }

    func insert(
        _ table: EntityTable, _ change: Change, _ positions: [Int], stamp: Stamp,
        seen: VersionVector, contested: inout Set<Claim>
    ) throws {
        var values = [PropertyValue](repeating: .null, count: table.entity.properties.count)
        for (index, position) in positions.enumerated() {
            values[position] = change.values[index]
        }
        let isLed = try table.references.allSatisfy { position, _ in
            guard case .reference(let target) = values[position] else { return true }
            return try rowStore.ledTo(target, from: table, position) == target
                && !claimStore.isContested(table, position, target, by: change.row)
        }
        if !isLed || table.mandatoryReferences.contains(where: { values[$0].isNull }) {
            // A concurrent delete took the target, another row is shown in its place, or others
            // claim it too: the register keeps the reference. Or another model asked for none.
            var state = RowState(propertyCount: values.count)
            let write = RowWrite(kind: .insert, values: values.enumerated().map { ($0, $1) })
            try state.apply(write, stamp: stamp, seen: seen, policies: table.entity.policies)
            let new = try rowWriter.write(
                table, row: change.row, old: nil, state: state, by: stamp)
            contested.formUnion(try claimStore.claims(new))
            return
        }
        try rowWriter.insertPristine(table, row: change.row, stamp: stamp, values: values)
    }
}
