import Merge

/// The updates and deletes of a staged transaction.
///
/// What it leaves of each row is written beside the row, see ``SuccessorTable``. That is known early of
/// rows whose outcome hangs on little but themselves: updates of what no one-to-one and no count is of, with
/// unique keys that nobody has, which overwrite all that the row has, and deletes of rows that stand for no others,
/// claim nothing that others claim as well, and to which nothing refers but what is deleted with them,
/// or led elsewhere. What else the
/// transaction changes, a few things, is applied by the commit that shows it, as if it were alone.
///
/// Invariants
/// 1. A row with a successor is as it was when that was written, a row that is to be deleted is referred
///    to by no other that stays, what it claims is claimed by no other, and what a successor is led to is
///    shown. Where something writes the row in between, comes to refer to it or to what it claims, or takes
///    away what it is led to, the part of the transaction that changes it is written anew; where that
///    happens again and again it is given up.
/// 2. A successor's claims to one-to-ones are those of its row, and so are their age and whose count it
///    belongs to, so that nothing else changes with it: no other row's projection, no claim, no count. A
///    unique key that is not its row's is nobody's else: where somebody looks for it in between, all is given
///    up. Keys that a row loses, or had when it is deleted, are free when that is shown.
/// 3. A successor has no siblings, and its row had none, so the journal stays as it is.
final class StagedChanges: StagedWrites {
    enum Limits {
        /// Changes that are applied by the commit that shows the transaction, for which others wait.
        static let rest = 200
        /// How often parts may be written anew, for each part that there is.
        static let rewrites = 2
    }

    /// A row that has a successor.
    private struct Row {
        let object: ManagedObjectID
        let root: String
        let old: (UInt64, UInt64)
        /// Nil of one that is deleted.
        let new: RowDigest.Staged?
    }

    /// What a save's answer says of an object that it names.
    private enum Saved {
        case written, deleted
        case asItWas(RowVersion)
    }

    /// So many operations or changes as are done at once.
    private struct Part {
        let range: Range<Int>
        /// All rows that it names.
        var owned: [RowID] = []
        var rows: [Row] = []
        /// What is to be applied when all is shown.
        var rest: [Change] = []
        /// Of a save, what it changes, also as the log holds it.
        var changes: [Change] = []
        var encoded = CBORWriter()
        /// Of a save, every object that it names.
        var saved: [(object: ManagedObjectID, outcome: Saved)] = []
    }

    /// A statement that finds rows of a hierarchy.
    private struct Lookup: Hashable, Comparable {
        let root: String
        let sql: String

        static func < (one: Self, other: Self) -> Bool { one.sql < other.sql }
    }

    private let origin: StagedTransaction.Origin
    /// The operations or changes that it is about.
    private let places: [Int]
    /// What else of the same transaction is written before.
    private let previous: (any StagedWrites)?
    /// Its inserts and links, which are among that.
    private let inserts: StagedInserts?
    private let links: StagedLinks?
    /// All rows that the transaction deletes, with the roots of their hierarchies.
    private let condemned: [RowID: String]
    private var parts: [Part] = []
    /// How many operations or changes the parts are of.
    private var position = 0
    private(set) var rewrites = 0
    /// The part that each row belongs to.
    private var owners: [RowID: Int] = [:]
    /// Rows that are deleted, with a successor.
    private var dead: Set<RowID> = []
    /// The parts whose successors are led to each row.
    private var leading: [RowID: Set<Int>] = [:]
    /// The parts that delete rows which claim each row.
    private var released: [RowID: Set<Int>] = [:]
    /// Parts of which something was written in between, and those of them that have no successors any
    /// more.
    private var overtaken: Set<Int> = []
    private var cleared: Set<Int> = []
    /// The tables of successors, by root.
    private var tables: [String: SuccessorTable] = [:]
    private var isBegun = false
    private var isShowing = false
    /// Whether a successor has a unique key that its row has not, and whether somebody has looked for
    /// one such.
    private var changesKeys = false
    private var isKeySought = false
    /// The statements that find what refers to a row of a hierarchy, as long as no table comes.
    private var lookupsByRoot: [String: [Lookup]] = [:]
    private(set) var shapeTable = ShapeTable()
    private(set) var resolved: [ResolvedShape] = []
    /// The rows to be folded or discarded, once it is shown or given up.
    private lazy var written = parts.flatMap { $0.rows.map { ($0.object.row, $0.root) } }

    var hasBegun: Bool { isBegun }

    var isComplete: Bool { position == places.count && overtaken.isEmpty }

    private var isForeign: Bool { if case .foreign = origin { true } else { false } }

    /// Begins with updates and deletes of a save or a foreign transaction.
    ///
    /// - Parameter previous: what else of the same transaction is written before; its links with it.
    /// - Returns: nil where they are of no kind that can be staged.
    init?(
        _ origin: StagedTransaction.Origin, _ places: [Int],
        after previous: [any StagedWrites] = [], _ engine: StoreEngine
    ) {
        inserts = previous.lazy.compactMap { $0 as? StagedInserts }.first
        links = previous.lazy.compactMap { $0 as? StagedLinks }.first
        switch origin {
        case .save(let request):
            let isStageable = places.allSatisfy { place in
                switch request.operations[place].kind {
                case .update: true
                // Links that decide its rules are known in one piece only.
                case .delete: request.operations[place].relationships.isEmpty
                case .insert, .check: false
                }
            }
            guard isStageable else { return nil }
            // Whether an object has as many others as it must hangs on what those lead to.
            if Self.haveCounts(request.operations, at: places, engine) { return nil }
            condemned = Dictionary(
                places.lazy.map { request.operations[$0] }.filter { $0.kind == .delete }
                    .map { ($0.row, $0.entity.root) }, uniquingKeysWith: { first, _ in first })
        case .foreign(let transaction):
            let others = places.lazy.filter { place in
                let kind = transaction.changes[place].kind
                return kind != .update && kind != .delete
            }
            guard others.prefix(Limits.rest + 1).count <= Limits.rest,
                let shapes = try? engine.resolve(transaction),
                !shapes.contains(where: \.isMembership)
            else { return nil }
            resolved = shapes
            condemned = Dictionary(
                places.lazy.map { transaction.changes[$0] }.filter { $0.kind == .delete }
                    .map { ($0.row, shapes[$0.shape].root ?? "") },
                uniquingKeysWith: { first, _ in first })
        }
        self.origin = origin
        self.places = places
        self.previous = previous.last
    }

    private static func haveCounts(
        _ operations: [SaveOperation], at places: [Int], _ engine: StoreEngine
    ) -> Bool {
        var last: ManagedObjectModel.Entity?
        return places.contains { place in
            let entity = operations[place].entity
            if entity === last { return false }
            last = entity
            return entity.familyNames.contains { engine.table($0).hasCounts }
        }
    }

    func noteWritten(_ row: RowID, isShown: Bool) {
        guard !isShowing else { return }
        if let part = owners[row] { overtake(part) }
        if !isShown { for part in leading[row] ?? [] { overtake(part) } }
    }

    private func overtake(_ part: Int) {
        overtaken.insert(part)
    }

    func isOvertaken(_ engine: StoreEngine) -> Bool { isKeySought }

    func noteKeyTaken() {}

    func noteSought(
        _ key: UniqueKey, of constraint: UniqueConstraint, shownBy rows: [RowID],
        _ engine: StoreEngine
    ) throws {
        guard changesKeys, !isShowing,
            let table = tables[engine.table(constraint.scope).entity.root]
        else { return }
        let found = try table.rows(with: key, of: constraint, in: engine.database)
        if found.contains(where: { !rows.contains($0) }) { isKeySought = true }
    }

    func noteReferred(_ row: RowID) {
        guard !isShowing else { return }
        if dead.contains(row), let part = owners[row] { overtake(part) }
        for part in released[row] ?? [] { overtake(part) }
    }

    func noteLinked(_ link: LinkKey) {}

    func advance(_ engine: StoreEngine, atMost count: Int) throws {
        if let previous, !isForeign, parts.isEmpty {
            shapeTable = previous.shapeTable
            resolved = previous.resolved
        }
        // An update costs some times what an insert does.
        let size = max(1, count / 4)
        if let place = overtaken.subtracting(cleared).min() {
            // Before any of them is written anew, for a successor of another one may say of its row what
            // is not so any more.
            try engine.unseen { try clear(place, engine) }
            parts[place].rows = []
            cleared.insert(place)
        } else if let place = overtaken.min() {
            rewrites += 1
            guard rewrites <= Limits.rewrites * (2 + places.count / size) else {
                throw NotStageable()
            }
            overtaken.remove(place)
            cleared.remove(place)
            parts[place] = try write(parts[place].range, at: place, engine)
        } else if position < places.count {
            let range = position..<min(position + size, places.count)
            parts.append(try write(range, at: parts.count, engine))
            position = range.upperBound
        }
    }

    // MARK: Writing

    private func write(_ range: Range<Int>, at place: Int, _ engine: StoreEngine) throws -> Part {
        let before = tables
        var part = Part(range: range)
        do {
            try engine.unseen {
                if !isBegun { try engine.beginStaging() }
                if parts.indices.contains(place) {
                    for row in parts[place].owned { owners[row] = nil }
                }
                switch origin {
                case .save(let request): try work(out: request, &part, at: place, engine)
                case .foreign(let transaction):
                    let changes = places[range].map { transaction.changes[$0] }
                    try engine.checkForeign(changes[...], of: transaction, resolved)
                    engine.avoidIdentities(changes[...], of: transaction.dot.actor)
                    for change in changes {
                        if case .rows = resolved[change.shape] {
                            try own(change.row, &part, at: place)
                        }
                        try stage(
                            change, of: transaction.shapes, transaction.seen, &part, at: place,
                            engine)
                    }
                }
            }
        } catch {
            // A table that is made with the part is gone with it. What else is noted of the part does
            // not matter, for no other is written then.
            tables = before
            throw error
        }
        isBegun = true
        let rest = parts.indices.filter { $0 != place }.reduce(part.rest.count) {
            $0 + parts[$1].rest.count
        }
        guard rest <= Limits.rest else {
            // What is written of it is to be removed as well.
            parts.append(part)
            throw NotStageable()
        }
        return part
    }

    /// Takes the successors of a part away.
    private func clear(_ place: Int, _ engine: StoreEngine) throws {
        for row in parts[place].rows {
            try tables[row.root]?.remove(row.object.row, in: engine.database)
            dead.remove(row.object.row)
        }
    }

    /// Notes whose a row is; what is changed twice is not known from the row alone.
    private func own(_ row: RowID, _ part: inout Part, at place: Int) throws {
        guard owners.updateValue(place, forKey: row) == nil else { throw NotStageable() }
        part.owned.append(row)
    }

    /// Works a part of a save out as if it were all of it.
    private func work(
        out request: SaveRequest, _ part: inout Part, at place: Int, _ engine: StoreEngine
    ) throws {
        var request = request
        request.operations = places[part.range].map { place in
            var operation = request.operations[place]
            // The links that it makes are staged apart.
            operation.relationships = []
            return operation
        }
        var plan = SavePlan()
        plan.apart = SavePlan.Apart(deleted: condemned, inserted: inserts)
        // What it inserts and changes as well is known in one piece only.
        if request.operations.contains(where: { $0.row.rawValue < 0 }) { throw NotStageable() }
        try refuseEclipsed(request, engine)
        do {
            try engine.work(out: request, into: &plan)
        } catch is CoordinatorError {
            // In one piece it says of all of it what is wrong.
            throw NotStageable()
        }
        guard plan.journal.isEmpty, plan.droppedIDs.isEmpty, plan.links.isEmpty else {
            throw NotStageable()
        }
        for row in plan.order {
            guard let planned = plan.rows[row],
                planned.kind == .update || planned.kind == .delete, !planned.isSettled,
                !planned.resolves, let loaded = planned.loaded, loaded.isVisible,
                loaded.eclipsed.isEmpty,
                planned.values.allSatisfy({ isPlain($0.position, of: planned.table) })
            else { throw NotStageable() }
            try own(row, &part, at: place)
            let change = engine.change(planned, row, &shapeTable)
            let unchanged = change == nil ? Saved.asItWas(loaded.version) : .written
            part.saved.append((loaded.objectID, planned.kind == .delete ? .deleted : unchanged))
            guard let change else { continue }
            resolved += try shapeTable.shapes[resolved.count...].map(engine.resolve)
            part.changes.append(change)
            part.encoded.write(change)
            let constrained = planned.table.constrained
            try stage(
                change, of: shapeTable.shapes, engine.state.versionVector, &part, at: place, engine,
                loaded, changesKeys: planned.values.contains { constrained.contains($0.position) })
        }
    }

    /// What is named is not shown, and what stands for it may change until all is shown.
    private func refuseEclipsed(_ request: SaveRequest, _ engine: StoreEngine) throws {
        if engine.state.eclipsed == 0 { return }
        for operation in request.operations {
            for case (_, .reference(let target)) in operation.values
            where try engine.survivor(of: target) != nil {
                throw NotStageable()
            }
        }
    }

    /// Whether a property is nothing that other rows hang on but by unique keys: no one-to-one, and no
    /// to-one whose other side is counted.
    private func isPlain(_ position: Int, of table: EntityTable) -> Bool {
        !table.exclusive.contains { $0.position == position }
            && !table.countedReferences.contains { $0.position == position }
    }

    /// Writes what a change leaves of its row; or keeps it for later.
    ///
    /// - Parameter changesKeys: whether a save asks for other unique keys.
    private func stage(
        _ change: Change, of shapes: [ChangeShape], _ seen: VersionVector, _ part: inout Part,
        at place: Int, _ engine: StoreEngine, _ known: LoadedRow? = nil, changesKeys: Bool = false
    ) throws {
        for case .reference(let target) in change.values {
            leading[target, default: []].insert(place)
        }
        guard let (old, new) = try successor(change, of: shapes, seen, at: place, engine, known)
        else {
            // What the delete rules of a save's deletes say hangs on what refers to their rows, and a save's
            // answer tells of all groups that it forms.
            if changesKeys || (change.kind == .delete && !isForeign) { throw NotStageable() }
            // No save inserts a row and changes it as well.
            if case .rows(let table, _) = resolved[change.shape],
                try engine.hasHidden(change.row, root: table.entity.root)
            {
                throw NotStageable()
            }
            part.rest.append(change)
            return
        }
        let root = new.table.entity.root
        let table =
            try tables[root] ?? SuccessorTable.create(root: root, in: engine.database)
        if tables.updateValue(table, forKey: root) == nil { lookupsByRoot = [:] }
        let coding = engine.coding(new.table)
        if new.isAlive {
            try table.insert(
                new, registers: coding.encode(new.state, columns: new.columns),
                in: engine.database)
        } else {
            try table.insertDead(
                new, registers: coding.encode(new.state, columns: nil) ?? [], in: engine.database)
            dead.insert(new.row)
        }
        part.rows.append(
            Row(
                object: new.objectID, root: root, old: RowDigest.hash(old),
                new: new.isAlive ? RowDigest.staged(new) : nil))
    }

    /// A row before and after a change, where nothing else changes with it.
    private func successor(
        _ change: Change, of shapes: [ChangeShape], _ seen: VersionVector, at place: Int,
        _ engine: StoreEngine, _ known: LoadedRow?
    ) throws -> (old: LoadedRow, new: LoadedRow)? {
        guard change.kind == .update || change.kind == .delete,
            case .rows(let table, let positions) = resolved[change.shape],
            let old = try known ?? engine.load(table, change.row), old.table === table,
            old.isVisible, old.eclipsed.isEmpty, !old.state.hasSiblings, !old.lacksReference
        else { return nil }
        // A reference that shows nothing, or is kept for later, is journalled.
        func shows(_ row: LoadedRow, _ position: Int) -> PropertyValue {
            row.shown(position)?.value ?? .null
        }
        let bound = Set(table.references.map(\.position)).union(table.constrained)
        guard bound.allSatisfy({ shows(old, $0) == old.columns[$0] }) else { return nil }
        let isDelete = change.kind == .delete
        if isDelete, try !isFree(old, at: place, engine) { return nil }
        var state = old.state
        let write = engine.rowWrite(
            isDelete ? .delete : .update, table, positions, change.values,
            assignedCount: shapes[change.shape].assigned.count)
        do {
            try state.apply(
                write, stamp: ActorTable.stagedStamp, seen: seen, policies: table.entity.policies)
        } catch { return nil }
        if state.hasSiblings { return nil }
        let new = LoadedRow(
            table: table, row: change.row, state: state, isAlive: !isDelete, columns: [])
        if isDelete { return (old, new) }
        let columns = table.entity.properties.indices.map { shows(new, $0) }
        for position in table.references.map(\.position)
        where columns[position] != old.columns[position] {
            guard isPlain(position, of: table),
                try isShown(columns[position], at: position, of: table, engine)
            else { return nil }
        }
        let keys = (old: Set(old.keys), new: Set(table.keys(of: state)))
        if keys.old != keys.new {
            guard try areFree(keys.new.subtracting(keys.old), besides: keys.old, of: table, engine)
            else { return nil }
            changesKeys = true
        }
        // A claim is as old as the newest write of its reference; where the row is one register, of
        // anything.
        let isRowGrained = table.entity.policies.isRowGrained
        let renewed = table.exclusive.filter {
            !columns[$0.position].isNull && (isRowGrained || positions.contains($0.position))
        }
        if !renewed.isEmpty { return nil }
        return (old, new.showing(columns))
    }

    /// Whether nobody has some unique keys, and in the shade of others nobody the row's own ones.
    private func areFree(
        _ keys: Set<UniqueKey>, besides own: Set<UniqueKey>, of table: EntityTable,
        _ engine: StoreEngine
    ) throws -> Bool {
        for key in own.union(keys) where try !engine.eclipsedRows(with: key).isEmpty {
            return false
        }
        for constraint in table.constraints {
            for key in keys where key.constraint == constraint.identity {
                guard try engine.rows(showing: key, of: constraint).isEmpty else { return false }
            }
        }
        return true
    }

    /// Whether what a to-one is led to is shown, once the transaction is.
    private func isShown(
        _ value: PropertyValue, at position: Int, of table: EntityTable, _ engine: StoreEngine
    ) throws -> Bool {
        guard case .reference(let target) = value else {
            // What must lead to something is a conflict.
            return table.entity.properties[position].isOptional
        }
        guard case .toOne(let name) = table.entity.properties[position].content,
            condemned[target] == nil
        else { return false }
        if let inserted = inserts?.entity(of: target) {
            return engine.table(name).entity.familyNames.contains(inserted.name)
        }
        return try engine.ledTo(target, from: table, position) == target
    }

    /// Whether nothing hangs on a row's being there: nobody else claims what it claims, it is not counted,
    /// no link of it is in conflict, has a say in its delete or is made by the same transaction, and
    /// nothing refers to it, be it unheard, but what is deleted with it or has a successor that is led
    /// elsewhere. Successors are those of rows as they are: others are taken away first.
    private func isFree(_ row: LoadedRow, at place: Int, _ engine: StoreEngine) throws -> Bool {
        guard !row.table.hasCounts,
            row.table.countedReferences.allSatisfy({ row.columns[$0.position].isNull })
        else { return false }
        for claim in try engine.claims(row) {
            guard try engine.claimants(claim, besides: row.row).isEmpty else { return false }
            released[claim.target, default: []].insert(place)
        }
        if links?.leads(to: row.row) ?? false { return false }
        for lookup in lookups(row.table.entity.root, engine) {
            let statement = try engine.database.prepared(lookup.sql)
            statement.bind(1, row.row.rawValue)
            defer { statement.reset() }
            while try statement.step() {
                if condemned[RowID(statement.integer(0))] != lookup.root { return false }
            }
        }
        return true
    }

    /// The statements that find the rows that refer to a row of a hierarchy, or 0 where something else
    /// hangs on it.
    private func lookups(_ root: String, _ engine: StoreEngine) -> [Lookup] {
        if let known = lookupsByRoot[root] { return known }
        var found: Set = [
            Lookup(root: root, sql: "SELECT 0 FROM _dangling WHERE target = ?1 LIMIT 1")
        ]
        for table in engine.tables.values {
            for (position, target) in table.references where target == root {
                let column = EntityTable.quote(table.entity.properties[position].name)
                let stays = tables[table.entity.root].map { " AND " + $0.keeps(column) } ?? ""
                found.insert(
                    Lookup(
                        root: table.entity.root,
                        sql: "SELECT f._id FROM \(EntityTable.quote(table.entity.root)) AS f "
                            + "WHERE f.\(column) = ?1\(stays)"))
            }
        }
        for link in engine.model.links {
            for (end, entity) in [("source", link.source), ("target", link.target)]
            where engine.table(entity).entity.root == root {
                let counts =
                    engine.countedLinks.contains(link.name)
                    || (!isForeign && decides(link, isFirst: end == "source", entity, engine))
                let isDisputed =
                    counts ? "" : " AND substr(_siblings, 1, 1) <> x'\(LinkCoding.headerInSQL)'"
                found.insert(
                    Lookup(
                        root: root,
                        sql: "SELECT 0 FROM \(EntityTable.quote(link.name)) "
                            + "WHERE \(end) = ?1\(isDisputed) LIMIT 1"))
            }
        }
        let sorted = found.sorted()
        lookupsByRoot[root] = sorted
        return sorted
    }

    /// Whether the delete of an end of a link hangs on the other one, be it only once that is back.
    private func decides(
        _ link: ManagedObjectModel.Link, isFirst: Bool, _ entity: String, _ engine: StoreEngine
    ) -> Bool {
        engine.table(entity).entity.relationships.contains { relationship in
            guard relationship.storage == .link(name: link.name, isFirst: isFirst) else {
                return false
            }
            switch relationship.description.deleteRule {
            case .cascade, .deny: return true
            case .nullify, .noAction: return false
            }
        }
    }

    // MARK: Showing

    func show(_ engine: StoreEngine, as stamp: Stamp) throws -> [Change] {
        isShowing = true
        for root in tables.keys.sorted() { try tables[root]?.show(in: engine.database) }
        var digest = engine.state.digest
        for part in parts {
            for row in part.rows {
                digest.subtract(row.old)
                if let new = row.new {
                    digest.add(new.finalize(stamp.dot))
                    engine.group.updated.append(row.object)
                } else {
                    engine.group.deleted.append(row.object)
                    engine.knownAlive[row.object.row] = nil
                }
            }
        }
        engine.state.tombstones += dead.count
        engine.state.digest = digest
        return parts.flatMap(\.rest)
    }

    var changes: [Change] { parts.flatMap(\.changes) }

    let inserted: [SaveResult.InsertedRow] = []

    var encoded: CBORWriter {
        var encoded = CBORWriter(capacity: parts.reduce(0) { $0 + $1.encoded.bytes.count })
        for part in parts { encoded.append(part.encoded) }
        return encoded
    }

    func saved(as dot: Dot?, _ engine: StoreEngine) throws -> [SaveResult.SavedRow] {
        let version = dot.map { RowVersion(dots: [$0]) }
        // What such a row shows hangs on others: on whose claim to a one-to-one stands.
        let rest = Set(parts.lazy.flatMap(\.rest).map(\.row))
        return try parts.flatMap(\.saved).map { id, outcome in
            switch outcome {
            case .written where rest.contains(id.row):
                let now = try engine.load(engine.table(id.entityName), id.row)
                return .init(objectID: id, version: version, values: now?.columns)
            case .written: return .init(objectID: id, version: version, values: nil)
            case .deleted: return .init(objectID: id, version: nil, values: nil)
            case .asItWas(let version):
                return .init(objectID: id, version: version, values: nil)
            }
        }
    }

    // MARK: Afterwards

    var writtenCount: Int { written.count }

    /// Where references change their indexes do, too; and unique keys lie anywhere in theirs, as references
    /// to one row do not.
    var weight: Int { changesKeys ? 4 : leading.isEmpty ? 2 : 3 }

    func finish(_ range: Range<Int>, _ engine: StoreEngine) throws {
        let shown = engine.state.actors.staged
        for (row, root) in written[range] {
            guard let table = tables[root] else { continue }
            if let shown {
                try table.fold(
                    row, version: engine.state.actors.integer(shown.dot),
                    timestamp: Int64(bitPattern: shown.timestamp.rawValue), in: engine.database)
            } else {
                try table.remove(row, in: engine.database)
            }
        }
    }

    func end(_ engine: StoreEngine) throws {
        for root in tables.keys.sorted() {
            try tables[root]?.drop(
                in: engine.database, isShown: engine.state.actors.staged != nil)
        }
    }
}
