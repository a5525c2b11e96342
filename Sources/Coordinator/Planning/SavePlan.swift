import Merge

/// The writes of a save, row by row, while they are being worked out.
///
/// Nothing is written before the whole plan stands, so a save that fails leaves no trace.
struct SavePlan {
    /// One row's part.
    struct Row {
        enum Kind: Hashable {
            case insert, update, delete, revival
        }

        let table: EntityTable
        /// The row as the store has it; nil for an insert.
        let loaded: LoadedRow?
        var kind: Kind
        /// The values to write, by position: those that the caller asked for come before what goes
        /// with them.
        var values: [(position: Int, value: PropertyValue)]
        /// How many of them the caller asked for. With these go an insert's defaults, what a revival
        /// carries along, and what the overwrite policy brings back of an object's snapshot.
        var assignedCount: Int
        var resolves: Bool
        /// How the request names the object, for messages.
        let name: RowID
        /// Whether the policy left other values than the caller asked for.
        var isSettled: Bool
        /// Whether it is for this row alone, even if the row is eclipsed or the survivor of a group.
        var isExact = false
        /// One-to-ones that another row already won. They read as nil, so clearing them never breaks
        /// "mandatory".
        var hiddenClaims = Set<Int>()

        func value(at position: Int) -> PropertyValue? {
            values.last { $0.position == position }?.value
        }

        /// The same by name, for rows whose entity is known by one it inherits from.
        func value(of property: String) -> PropertyValue? {
            table.entity.position(of: property).flatMap { value(at: $0) }
        }

        /// The values that differ from what the row's registers show: all that is worth writing.
        var changedValues: [(position: Int, value: PropertyValue)] {
            guard let loaded else { return values }
            return values.filter { (loaded.shown($0.position)?.value ?? .null) != $0.value }
        }

        /// The values that the row's change is going to assign.
        var writtenValues: [(position: Int, value: PropertyValue)] {
            kind == .update && !resolves ? changedValues : values
        }

        /// Whether the row's change writes a value, even the one it has: then it is a newer write.
        func renews(_ position: Int) -> Bool {
            guard kind == .update else { return true }
            if table.entity.policies.isRowGrained { return resolves || !writtenValues.isEmpty }
            return writtenValues.contains { $0.position == position }
        }

        /// Whether the overwrite policy brings a value back that the caller did not assign.
        func isBroughtBack(_ position: Int) -> Bool {
            kind == .update && values.dropFirst(assignedCount).contains { $0.position == position }
        }

        /// Leaves what is at some positions as the store has it.
        mutating func leave(where isLeft: (Int) -> Bool) {
            assignedCount -= values.prefix(assignedCount).count { isLeft($0.position) }
            values.removeAll { isLeft($0.position) }
        }

        mutating func set(_ position: Int, _ value: PropertyValue) {
            if let index = values.firstIndex(where: { $0.position == position }) {
                if index < assignedCount {
                    values[index].value = value
                    return
                }
                values.remove(at: index)
            }
            values.insert((position, value), at: assignedCount)
            assignedCount += 1
        }
    }

    enum Limits {
        /// The most writers whose causal contexts are kept. After that all are read again.
        static let writers = 64
    }

    var rows: RowTable<Row>
    var links: [LinkKey: Bool] = [:]
    var linkOrder: [LinkKey] = []
    /// The identities that are left.
    var allocator: RowIDAllocator
    private(set) var inserted: [SaveResult.InsertedRow] = []
    /// Where they are, by their temporary identities; of several of one, the first.
    private var places: [RowID: Int] = [:]
    var stale: [MergeConflict] = []
    var staleRows = Set<RowID>()
    /// A condition that does not hold, with the operation and the object as the store has it.
    typealias Unmet = (condition: String, row: RowID, operation: SaveOperation, loaded: LoadedRow)

    var unmet: [Unmet] = []
    /// The properties that were added to, in order of the request.
    var increments: [(row: RowID, property: String)] = []
    var failures: [ValidationFailure] = []
    /// The objects whose deletes are among the failures.
    var denied: [MergeConflict] = []
    var journal: [Conflict] = []
    /// Objects whose operation the policy dropped, as the store has them.
    private(set) var dropped: [LoadedRow?] = []
    private(set) var droppedIDs: [ManagedObjectID] = []
    private(set) var droppedRows: Set<RowID> = []
    /// Rows whose delete the policy gave up, which no other delete takes along then.
    var spared: Set<RowID> = []
    /// The vectors that the writers of stale objects' versions knew, up to ``Limits/writers`` of
    /// them: an import wrote all its objects.
    var known: [Dot: VersionVector] = [:]
    /// Reads the former states of stale objects.
    var tail = LogTail()
    /// Rows that would have been inserted, by those that took their places.
    private(set) var merged: [RowID: RowID] = [:]

    /// Planned rows by what they refer to, or once did; made when first asked for.
    private var referrers: [RowID: [RowID]]?
    private var linksByEnd: [RowID: [LinkKey]] = [:]
    /// Where rows are among the inserted ones; made when first asked for.
    private var insertedPlaces: [RowID: [Int]]?

    /// - Parameter capacity: how many rows to make room for at once.
    init(_ allocator: RowIDAllocator, capacity: Int = 0) {
        self.allocator = allocator
        rows = RowTable(capacity: capacity)
    }

    /// Gives what the save inserts its identities.
    mutating func name(_ objects: [SaveResult.InsertedRow]) {
        inserted = objects
        places = Dictionary(
            zip(objects.lazy.map(\.temporary), objects.indices),
            uniquingKeysWith: { first, _ in first })
    }

    mutating func add(_ row: RowID, _ planned: Row) {
        rows[row] = planned
        if referrers != nil {
            for (_, value) in planned.values { noteReference(value, from: row) }
        }
    }

    /// Notes that nothing is done of what the save wanted with an object.
    mutating func drop(_ object: ManagedObjectID, _ loaded: LoadedRow?) {
        dropped.append(loaded)
        droppedIDs.append(object)
        droppedRows.insert(object.row)
    }

    mutating func setLink(_ key: LinkKey, _ isAlive: Bool) {
        if links.updateValue(isAlive, forKey: key) == nil {
            linkOrder.append(key)
            linksByEnd[key.source, default: []].append(key)
            if key.target != key.source { linksByEnd[key.target, default: []].append(key) }
        }
    }

    /// The planned links of a row, in order of planning.
    func links(of row: RowID) -> [LinkKey] {
        (linksByEnd[row] ?? []).filter { links[$0] != nil }
    }

    /// Rows whose planned values may refer to a row. The caller must look at the values.
    mutating func referrers(to target: RowID) -> [RowID] {
        if referrers == nil {
            referrers = [:]
            for (row, planned) in rows {
                for (_, value) in planned.values { noteReference(value, from: row) }
            }
        }
        return referrers?[target] ?? []
    }

    /// Keeps ``referrers(to:)`` complete when a planned row's value changes.
    mutating func noteReference(_ value: PropertyValue, from row: RowID) {
        guard referrers != nil, case .reference(let target) = value else { return }
        referrers?[target, default: []].append(row)
    }

    /// Lets another row take the place of one that the save was going to insert.
    ///
    /// It costs what hangs on the insert, because a save may have very many of them. ``linkOrder`` keeps
    /// what is not planned any more; loops over it skip it.
    ///
    /// - Parameter entityName: the entity of that row; nil where it is the insert's.
    mutating func merge(_ row: RowID, into other: RowID, of entityName: String?) {
        let referring = referrers(to: row)
        rows[row] = nil
        merged[row] = other
        if insertedPlaces == nil {
            insertedPlaces = Dictionary(grouping: inserted.indices) { inserted[$0].row }
        }
        let places = insertedPlaces?.removeValue(forKey: row) ?? []
        for index in places {
            let known = inserted[index]
            inserted[index] = .init(
                temporary: known.temporary, row: other,
                entityName: entityName ?? known.entityName,
                name: known.name)
        }
        insertedPlaces?[other, default: []] += places
        for referrer in referring {
            guard var planned = rows[referrer] else { continue }
            var isChanged = false
            for index in planned.values.indices where planned.values[index].value == .reference(row)
            {
                planned.values[index].value = .reference(other)
                isChanged = true
            }
            if isChanged {
                rows[referrer] = planned
                noteReference(.reference(other), from: referrer)
            }
        }
        for key in links(of: row) {
            guard let isAlive = links.removeValue(forKey: key) else { continue }
            setLink(
                LinkKey(
                    link: key.link, source: key.source == row ? other : key.source,
                    target: key.target == row ? other : key.target), isAlive)
        }
        linksByEnd[row] = nil
    }

    /// Takes away the links of an object that became one with another of another entity, which does not
    /// have them.
    ///
    /// - Returns: them, as the object's own relationships.
    mutating func takeMisfits(
        of planned: Row, at target: RowID, _ kept: EntityTable
    ) -> [RelationshipOperation] {
        if kept === planned.table { return [] }
        return planned.table.entity.relationships.compactMap { relationship in
            guard case .link(let name, let isFirst) = relationship.storage,
                kept.entity.relationship(named: relationship.name)?.storage != relationship.storage
            else { return nil }
            var members = Set<RowID>()
            for key in links(of: target)
            where key.link == name && (isFirst ? key.source : key.target) == target {
                if links.removeValue(forKey: key) ?? false {
                    members.insert(isFirst ? key.target : key.source)
                }
            }
            return members.isEmpty
                ? nil
                : RelationshipOperation(
                    name: relationship.name, kind: .add, members: members.sorted())
        }
    }

    /// Whether the save deletes a row.
    func deletes(_ row: RowID) -> Bool { rows[row]?.kind == .delete }

    /// The permanent identity of a temporary one; others are themselves.
    func resolve(_ row: RowID) -> RowID? {
        if row.rawValue > 0 { return row }
        return places[row].map { inserted[$0].row }
    }
}
