import Merge

/// Why a transaction from elsewhere was not applied. It is held and reported, never dropped.
struct ApplyRejection: Error, Hashable, Sendable {
    let dot: Dot
    let reason: String
}

/// That a transaction names what this store's model lacks.
struct UnknownShape: Error {
    let reason: String

    init(_ reason: String) { self.reason = reason }
}

/// What a transaction's changes mean in this store: names looked up once a shape.
enum ResolvedShape {
    case rows(EntityTable, positions: [Int])
    case link(ManagedObjectModel.Link)
    case membership

    /// The root of the hierarchy that it is about.
    var root: String? { if case .rows(let table, _) = self { table.entity.root } else { nil } }

    var isMembership: Bool {
        if case .membership = self { true } else { false }
    }

    var hasReferences: Bool {
        switch self {
        case .rows(let table, _): !table.references.isEmpty
        case .link, .membership: false
        }
    }

    var hasConstraints: Bool {
        switch self {
        case .rows(let table, _): !table.constraints.isEmpty
        case .link, .membership: false
        }
    }

    var isCounted: Bool {
        switch self {
        case .rows(let table, _): table.isCounted
        case .link, .membership: false
        }
    }
}

extension StoreEngine {
    /// Applies a transaction that this node or another one made: the one path by which rows
    /// change.
    ///
    /// The transaction is applied whole or not at all. It must be causally ready: its sequence
    /// the next of its actor, and all it has seen applied.
    ///
    /// - Parameter isLocal: whether a save of ours made it, just now, after its checks.
    /// - Throws: ``ApplyRejection`` where it cannot be merged; the group is then as before.
    func apply(
        _ encoded: EncodedTransaction, loaded: [RowID: LoadedRow] = [:], isLocal: Bool = false
    ) throws {
        // Where all that it has seen is here, so are the beginnings of that.
        let encoded = isLocal ? encoded : encoded.completed(by: state.beginnings)
        let logged = encoded.transaction
        let (transaction, parked) = try asOwn(logged)
        guard state.versionVector[transaction.dot.actor] == transaction.dot.sequence - 1,
            state.versionVector.covers(transaction.seen)
        else { throw ApplyRejection(dot: transaction.dot, reason: "It is not causally ready.") }
        guard transaction.dot.actor.incarnation > 0 else {
            throw ApplyRejection(
                dot: transaction.dot, reason: "No opening of a store has the incarnation 0.")
        }
        let shapes = try resolve(transaction)
        if !isLocal, showing == nil { try checkForeign(transaction, shapes: shapes) }

        if !isLocal, let owed = owedRecovery.record { try record(owed) }
        applying = transaction
        defer { applying = nil }
        let before = state
        let mark = group.mark
        if !isLocal { try database.prepared("SAVEPOINT one").run() }
        do {
            try intern(transaction.dot.actor)
            if !isLocal { avoidIdentities(transaction.changes[...], of: transaction.dot.actor) }
            try noteModel(logged.modelHash, of: logged.dot.actor)
            try park(parked)
            try applyChanges(transaction, shapes: shapes, isLocal: isLocal, loaded: loaded)
            try log(encoded)
            if !isLocal { try database.prepared("RELEASE one").run() }
        } catch let alarm as RowAlarm {
            state = before
            group.rewind(to: mark)
            knownAlive.removeAll()
            knownEclipsed.removeAll()
            knownTables.removeAll()
            recounted.removeAll()
            heldClaims = nil
            pasts.seen = [:]
            lastVersion = nil
            precondition(!isLocal, "A save of ours was refused after its checks: \(alarm).")
            try database.prepared("ROLLBACK TO one").run()
            try database.prepared("RELEASE one").run()
            let reason =
                switch alarm {
                case .identityExists: "It inserts an object that is there already."
                case .rowMissing: "It changes an object that is not there."
                case .entityDiffers: "It changes an object of another entity than it names."
                }
            throw ApplyRejection(dot: transaction.dot, reason: reason)
        }
    }

    /// A transaction by the names of the store's own model, with what has no place in it.
    func asOwn(
        _ transaction: Transaction
    ) throws -> (transaction: Transaction, parked: [ParkedValues]) {
        if transaction.modelHash == model.modelHash { return (transaction, []) }
        guard let mapping = history.mapping(transaction.modelHash) else {
            throw ApplyRejection(dot: transaction.dot, reason: "Its model is not known here.")
        }
        do {
            return try mapping.translate(transaction)
        } catch let failure as TranslationFailure {
            throw ApplyRejection(dot: transaction.dot, reason: failure.reason)
        }
    }

    /// A former life of this node whose store was lost may have been ahead of our blocks.
    func avoidIdentities(_ changes: ArraySlice<Change>, of author: ActorID) {
        guard author.node == actor.node else { return }
        for change in changes where change.kind == .insert {
            state.allocator.avoid(change.row)
        }
    }

    /// What a save of ours checks before it writes, and another node's word is not enough for: a
    /// value of another type would make its row unreadable.
    private func checkForeign(_ transaction: Transaction, shapes: [ResolvedShape]) throws {
        guard transaction.dot.actor != actor else {
            throw ApplyRejection(
                dot: transaction.dot, reason: "It bears the name of this node's own saves.")
        }
        try checkForeign(transaction.changes[...], of: transaction, shapes)
        try checkInserts(transaction, shapes)
    }

    /// Refuses what no save does: to insert a row and to change it as well.
    private func checkInserts(_ transaction: Transaction, _ shapes: [ResolvedShape]) throws {
        let inserts = transaction.changes.lazy.filter { $0.kind == .insert }
        let count = inserts.count
        if count == 0 || count == transaction.changes.count { return }
        func root(_ change: Change) -> String? {
            if case .rows(let table, _) = shapes[change.shape] { table.entity.root } else { nil }
        }
        let inserted = Dictionary(
            inserts.map { ($0.row, root($0)) }, uniquingKeysWith: { first, _ in first })
        for change in transaction.changes where change.kind != .insert {
            guard let root = root(change), inserted[change.row] == root else { continue }
            throw ApplyRejection(
                dot: transaction.dot,
                reason: "It inserts \(change.row), and changes it as well.")
        }
    }

    /// The same of some of its changes.
    func checkForeign(
        _ changes: ArraySlice<Change>, of transaction: Transaction, _ shapes: [ResolvedShape]
    ) throws {
        for change in changes {
            let isSound: Bool
            switch shapes[change.shape] {
            case .link: isSound = change.target != nil
            case .membership:
                isSound =
                    MembershipChange(change, shape: transaction.shapes[change.shape]) != nil
            case .rows(let table, let positions):
                isSound =
                    change.target == nil
                    && zip(positions, change.values).allSatisfy { position, value in
                        switch (table.entity.properties[position].content, value) {
                        case (_, .null), (.toOne, .reference): true
                        case (.toOne, _): false
                        case (.attribute(let type), _): Validation.fits(value, type: type)
                        }
                    }
            }
            guard isSound else {
                throw ApplyRejection(
                    dot: transaction.dot,
                    reason: "A change of \(change.row) does not fit the model.")
            }
        }
    }

    /// What a transaction's shapes mean in this store.
    func resolve(_ transaction: Transaction) throws -> [ResolvedShape] {
        do {
            return try transaction.shapes.map(resolve)
        } catch {
            throw ApplyRejection(dot: transaction.dot, reason: error.reason)
        }
    }

    func resolve(_ shape: ChangeShape) throws(UnknownShape) -> ResolvedShape {
        if let table = tables[shape.entity] {
            var positions: [Int] = []
            positions.reserveCapacity(shape.valueCount)
            for name in shape.assigned + shape.carried {
                guard let position = table.entity.position(of: name) else {
                    throw UnknownShape("\(shape.entity) has no property \(name) here.")
                }
                positions.append(position)
            }
            return .rows(table, positions: positions)
        }
        if let link = model.link(named: shape.entity), shape.valueCount == 0 {
            return .link(link)
        }
        if shape.entity == MembershipChange.entity { return .membership }
        throw UnknownShape("There is no entity \(shape.entity) here.")
    }

    private func applyChanges(
        _ whole: Transaction, shapes: [ResolvedShape], isLocal: Bool,
        loaded: [RowID: LoadedRow]
    ) throws {
        let stamp = whole.stamp
        var transaction = whole
        if let showing {
            transaction.changes = try showing.show(self, as: stamp)
            if transaction.changes.isEmpty { return }
        }
        var touched: [RowID: TouchedRow] = [:]
        var order: [RowID] = []
        var fresh: [(EntityTable, Change, [Int])] = []
        regrouped = []

        let hasReferences = shapes.contains { $0.hasReferences }
        if Self.isPlain(shapes), transaction.changes.allSatisfy({ $0.kind == .insert }) {
            var digest = ProjectionDigest()
            try insertPlain(
                transaction.changes[...], shapes, version: state.actors.integer(transaction.dot),
                timestamp: Int64(bitPattern: transaction.timestamp.rawValue),
                dot: transaction.dot, mayBeDead: !isLocal && state.tombstones > 0
            ) { object, hasher in
                digest.add(hasher.finalize())
                group.inserted.append(object)
            }
            return state.digest.add(digest)
        }

        // First every row's new state, so that references within the transaction find rows that
        // come later in it.
        for change in transaction.changes {
            guard case .rows(let table, let positions) = shapes[change.shape] else { continue }
            if change.kind == .insert, table.constraints.isEmpty, touched[change.row] == nil {
                if !isLocal, try loadTombstone(table, change.row) != nil {
                    throw RowAlarm.identityExists
                }
                fresh.append((table, change, positions))
                noteTable(table, of: change.row)
                if hasReferences { knownAlive[change.row] = table.entity.root }
                continue
            }
            let kind: RowWrite.Kind
            switch change.kind {
            case .insert: kind = .insert
            case .update: kind = .update
            case .delete: kind = .delete
            case .revival: kind = .revival
            case .link, .unlink: continue
            }
            let old = try touched[change.row]?.old ?? loaded[change.row] ?? load(table, change.row)
            let concrete = touched[change.row]?.table ?? old?.table ?? table
            // The positions of its values are those of the entity it names, and no others.
            guard concrete === table else {
                throw kind == .insert ? RowAlarm.identityExists : RowAlarm.entityDiffers
            }
            var state =
                touched[change.row]?.state ?? old?.state
                ?? RowState(propertyCount: concrete.entity.properties.count)
            let assignedCount = transaction.shapes[change.shape].assigned.count
            let write = rowWrite(
                kind, concrete, positions, change.values, assignedCount: assignedCount)
            if kind == .delete, state.isEmpty {
                // Somebody who still had the tombstone decided that the row stays deleted. The
                // word is kept, for a revival may be concurrent with it.
                state.existence.apply(
                    Sibling(stamp: stamp, value: .dead), seen: transaction.seen)
            } else {
                try state.apply(
                    write, stamp: stamp, seen: transaction.seen,
                    policies: concrete.entity.policies)
            }
            if touched[change.row] == nil { order.append(change.row) }
            touched[change.row] = TouchedRow(old: old, table: concrete, state: state)
        }

        let transitions = noteTransitions(touched, order)
        defer { dying = [:] }
        let regrouping = try regroup(touched)
        heldClaims = HeldClaims()
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
                touched, order, transitions, regrouping, contested: contested, by: stamp)
        } catch let failure as SQLFailure where failure.isIdentityTaken {
            throw RowAlarm.identityExists
        }
        try journalHeldClaims(by: stamp)
        for change in transaction.changes where shapes[change.shape].isMembership {
            let shape = transaction.shapes[change.shape]
            if let change = MembershipChange(change, shape: shape) {
                try apply(change, stamp: stamp)
            }
        }
        for change in transaction.changes {
            guard case .link(let link) = shapes[change.shape], let target = change.target else {
                continue
            }
            try applyLink(
                link, source: change.row, target: target, isAlive: change.kind == .link,
                stamp: stamp, seen: transaction.seen)
        }
        try settleCounts(by: stamp)
    }

    /// Whether inserts of these shapes are independent of all other rows.
    static func isPlain(_ shapes: [ResolvedShape]) -> Bool {
        !shapes.contains {
            $0.hasReferences || $0.hasConstraints || $0.isMembership || $0.isCounted
        }
    }

    /// Whether inserts of these shapes depend on no other rows than those that they refer to, and
    /// those that have their keys or claim what they claim.
    static func isStageable(_ shapes: [ResolvedShape]) -> Bool {
        shapes.allSatisfy { shape in
            guard case .rows(let table, _) = shape else { return false }
            return !table.isCounted
        }
    }

    /// Rows that are made alive, and rows that are made dead.
    typealias Transitions = (died: [(RowID, EntityTable)], revived: [(RowID, EntityTable)])

    /// Writes rows with their new registers, and brings all that depends on them up to date: groups,
    /// references, claims, links.
    ///
    /// - Parameters:
    ///   - contested: claims that must be settled in any case.
    ///   - stamp: that of whoever makes the change.
    func write(
        _ touched: [RowID: TouchedRow], _ order: [RowID], _ transitions: Transitions,
        _ regrouping: Regrouping, contested: Set<Claim> = [], by stamp: Stamp
    ) throws {
        var contested = contested
        for (old, new) in try write(touched, order: order, regrouping, by: stamp) {
            if touched[new.row] == nil, new.isVisible || old?.isVisible ?? false {
                regrouped.append((new.row, new.table))
            }
            if new.table.exclusive.isEmpty { continue }
            if let old { contested.formUnion(try claims(old)) }
            contested.formUnion(try claims(new))
        }
        try judgeReferences(touched, order, by: stamp)
        for (row, table) in transitions.died where regrouping.rows[row] == nil {
            try releaseReferences(to: row, table, by: stamp)
        }
        for (row, _) in transitions.revived where regrouping.rows[row] == nil {
            try restoreReferences(to: row, by: stamp)
        }
        try moveReferences(regrouping, &contested, by: stamp)
        if !contested.isEmpty { try settleClaims(contested, by: stamp) }
        try settleLinks(died: transitions.died, revived: transitions.revived, by: stamp)
        try moveLinks(regrouping)
        try hideLinks(toMisfits: transitions.revived)
    }

    /// Rows that a transaction makes alive or dead, known before any of them is projected.
    func noteTransitions(_ touched: [RowID: TouchedRow], _ order: [RowID]) -> Transitions {
        var died: [(RowID, EntityTable)] = []
        var revived: [(RowID, EntityTable)] = []
        dying = [:]
        for row in order {
            guard let entry = touched[row] else { continue }
            let isAlive = entry.isAlive
            if !isAlive { dying[row] = entry.state }
            noteTable(entry.table, of: row)
            if entry.old?.survivor == nil {
                knownAlive[row] = isAlive ? entry.table.entity.root : nil
            }
            switch (entry.old?.isAlive ?? false, isAlive) {
            case (true, false): died.append((row, entry.table))
            case (false, true): revived.append((row, entry.table))
            default: break
            }
        }
        return (died, revived)
    }

    /// What a change does to a row; of rows under constraints also what is no assignment.
    func rowWrite(
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

    private func insert(
        _ table: EntityTable, _ change: Change, _ positions: [Int], stamp: Stamp,
        seen: VersionVector, contested: inout Set<Claim>
    ) throws {
        var values = [PropertyValue](repeating: .null, count: table.entity.properties.count)
        for (index, position) in positions.enumerated() {
            values[position] = change.values[index]
        }
        let isLed = try table.references.allSatisfy { position, _ in
            guard case .reference(let target) = values[position] else { return true }
            return try ledTo(target, from: table, position) == target
                && !isContested(table, position, target, by: change.row)
        }
        if !isLed || table.mandatoryReferences.contains(where: { values[$0].isNull }) {
            // A concurrent delete took the target, another row is shown in its place, or others
            // claim it too: the register keeps the reference. Or another model asked for none.
            var state = RowState(propertyCount: values.count)
            let write = RowWrite(kind: .insert, values: values.enumerated().map { ($0, $1) })
            try state.apply(write, stamp: stamp, seen: seen, policies: table.entity.policies)
            let new = try self.write(table, row: change.row, old: nil, state: state, by: stamp)
            contested.formUnion(try claims(new))
            return
        }
        try insertPristine(table, row: change.row, stamp: stamp, values: values)
    }

    /// A row has died: whoever refers to it shows nil from now on. Or readers are led elsewhere:
    /// then whoever was led to it shows what they are led to now.
    func releaseReferences(to row: RowID, _ table: EntityTable, by stamp: Stamp) throws {
        for referring in tables.values.sorted(by: { $0.entity.name < $1.entity.name }) {
            for (position, root) in referring.references where root == table.entity.root {
                let column = EntityTable.quote(referring.entity.properties[position].name)
                let own = referring.entity.sharesTable ? " AND _entity = \(referring.code)" : ""
                let statement = try database.prepared(
                    "SELECT _id FROM \(EntityTable.quote(referring.entity.root)) "
                        + "WHERE \(column) = ?1\(own) ORDER BY _id")
                statement.bind(1, row.rawValue)
                var rows: [RowID] = []
                while try statement.step() { rows.append(RowID(statement.integer(0))) }
                for row in rows { try reproject(referring, row, by: stamp) }
            }
        }
    }

    /// A row is back: references that were kept show it again.
    func restoreReferences(to row: RowID, by stamp: Stamp) throws {
        for (row, table) in try rowsReferringInVain(to: row) {
            try reproject(table, row, by: stamp)
        }
    }

    /// The rows with a reference to a row that reads as nil.
    func rowsReferringInVain(to row: RowID) throws -> [(row: RowID, table: EntityTable)] {
        let statement = try database.prepared(
            "SELECT row, entity FROM _dangling WHERE target = ?1 ORDER BY row")
        statement.bind(1, row.rawValue)
        var rows: [(RowID, EntityTable)] = []
        while try statement.step() {
            let code = statement.integer(1)
            guard let table = tables.values.first(where: { $0.code == code }) else { continue }
            rows.append((RowID(statement.integer(0)), table))
        }
        return rows
    }

    private func reproject(_ table: EntityTable, _ row: RowID, by stamp: Stamp) throws {
        guard let loaded = try load(table, row), loaded.isVisible else { return }
        try write(loaded.table, row: row, old: loaded, state: loaded.state, by: stamp)
    }
}
