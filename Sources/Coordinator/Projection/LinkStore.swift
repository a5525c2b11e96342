import Merge

/// The two ends of a link.
struct LinkEnds: Hashable, Comparable {
    let source: RowID
    let target: RowID

    static func < (left: Self, right: Self) -> Bool {
        (left.source, left.target) < (right.source, right.target)
    }
}

/// The links of a store, one table for each many-to-many.
struct LinkStore: StorePart {
    let session: StoreSession

    /// The register of a link; empty where the link was never made.
    func loadLink(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> Register<Bool> {
        try LinkCoding.load(
            link, source: source, target: target, from: database, actors: state.actors)
    }

    /// Writes a link that is shown where its register says so and its ends are of its entities.
    func writeLink(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, _ register: Register<Bool>
    ) throws {
        let policy = history.settling(link, register).policy
        let isShown =
            try LinkCoding.isAlive(register, policy: policy)
            && haveFittingEnds(link, source: source, target: target)
        try writeLink(link, source: source, target: target, register, isShown: isShown)
    }

    /// Writes a link, shown or not.
    func writeLink(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, _ register: Register<Bool>,
        isShown: Bool
    ) throws {
        let statement = try database.prepared(
            """
            INSERT INTO \(EntityTable.quote(link.name)) (source, target, _alive, _siblings)
            VALUES (?1, ?2, ?3, ?4) ON CONFLICT (source, target)
            DO UPDATE SET _alive = excluded._alive, _siblings = excluded._siblings
            """)
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        statement.bind(3, isShown ? 1 : 0)
        statement.bind(4, LinkCoding.encode(register, actors: state.actors))
        try statement.run()
    }

    func removeLink(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws {
        let statement = try database.prepared(
            "DELETE FROM \(EntityTable.quote(link.name)) WHERE source = ?1 AND target = ?2")
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        try statement.run()
    }

    /// Whether both ends of a link are alive.
    func hasLivingEnds(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> Bool {
        try rowStore.isAlive(source, root: table(link.source).entity.root)
            && rowStore.isAlive(target, root: table(link.target).entity.root)
    }

    /// The links of a row that may be in conflict: those with more siblings than one.
    func disputedLinks(
        _ link: ManagedObjectModel.Link, _ end: String, _ row: RowID
    ) throws -> [LinkEnds] {
        let statement = try database.prepared(
            "SELECT source, target FROM \(EntityTable.quote(link.name)) "
                + "WHERE \(end) = ?1 AND substr(_siblings, 1, 1) <> ?2 ORDER BY source, target")
        statement.bind(1, row.rawValue)
        statement.bind(2, LinkCoding.headerOfOne)
        var found: [LinkEnds] = []
        while try statement.step() {
            found.append(
                LinkEnds(source: RowID(statement.integer(0)), target: RowID(statement.integer(1))))
        }
        return found
    }

    func pairs(
        of link: ManagedObjectModel.Link, _ end: String, _ row: RowID
    ) throws -> [LinkEnds] {
        let statement = try database.prepared(
            "SELECT source, target FROM \(EntityTable.quote(link.name)) WHERE \(end) = ?1")
        statement.bind(1, row.rawValue)
        var result: [LinkEnds] = []
        while try statement.step() {
            result.append(
                LinkEnds(source: RowID(statement.integer(0)), target: RowID(statement.integer(1))))
        }
        return result
    }

    /// A row's links that are there by their own registers, at that end of them.
    func livingLinks(
        _ link: ManagedObjectModel.Link, _ end: String, _ row: RowID
    ) throws -> [(source: RowID, target: RowID)] {
        try pairs(of: link, end, row).filter { pair in
            let register = try loadLink(link, source: pair.source, target: pair.target)
            return LinkCoding.isAlive(register, policy: history.settling(link, register).policy)
        }.map { ($0.source, $0.target) }
    }

    /// Whether a link table's rows may stand for those of groups.
    func isGrouped(_ link: ManagedObjectModel.Link) -> Bool {
        groupedRoots.contains(table(link.source).entity.root)
            || groupedRoots.contains(table(link.target).entity.root)
    }

    /// Whether both ends of a link are of the entities that it is between, as far as they are shown: two
    /// heirs may have one key, and only one of them such links.
    func haveFittingEnds(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> Bool {
        for (row, entity) in [(source, link.source), (target, link.target)] {
            let table = table(entity)
            if table.entity.parent == nil || !groupedRoots.contains(table.entity.root) { continue }
            if try rowStore.isVisible(row, root: table.entity.root), try !rowStore.isOf(row, table)
            {
                return false
            }
        }
        return true
    }

    /// The other ends of the links that readers see of a row.
    func linked(
        _ link: ManagedObjectModel.Link, with near: String, _ row: RowID
    ) throws -> [RowID] {
        let far = near == "source" ? "target" : "source"
        let statement = try database.prepared(
            "SELECT \(far) FROM \(EntityTable.quote(link.name)) WHERE \(near) = ?1 AND _alive")
        statement.bind(1, row.rawValue)
        var rows: [RowID] = []
        while try statement.step() { rows.append(RowID(statement.integer(0))) }
        return rows
    }

    /// The links of the rows of two groups by their own registers, with those without registers
    /// left out.
    func memberLinks(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> [(source: RowID, target: RowID, register: Register<Bool>, isAlive: Bool)] {
        let members = "SELECT row FROM _eclipsed WHERE survivor ="
        let statement = try database.prepared(
            """
            SELECT source, target, _siblings FROM \(EntityTable.quote(link.name))
            WHERE source IN (SELECT ?1 UNION ALL \(members) ?1)
                AND target IN (SELECT ?2 UNION ALL \(members) ?2) ORDER BY source, target
            """)
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        var result: [(RowID, RowID, Register<Bool>, Bool)] = []
        while try statement.step() {
            let register = try LinkCoding.decode(statement.bytes(2), actors: state.actors)
            if register.siblings.isEmpty { continue }
            result.append(
                (
                    RowID(statement.integer(0)), RowID(statement.integer(1)), register,
                    LinkCoding.isAlive(
                        register, policy: history.settling(link, register).policy)
                ))
        }
        return result
    }

    /// Whether readers see a link between two visible rows.
    func isShown(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> Bool {
        let statement = try database.prepared(
            "SELECT _alive FROM \(EntityTable.quote(link.name)) "
                + "WHERE source = ?1 AND target = ?2")
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        guard try statement.step() else { return false }
        defer { statement.reset() }
        return statement.integer(0) != 0
    }

    // MARK: Members

    /// The rows a to-many, or the derived side of a one-to-one, leads to in the store; sorted.
    func members(
        of relationship: ManagedObjectModel.Relationship, row: RowID
    ) throws -> [RowID] {
        try MemberReader.members(of: relationship, row: row, model: model, in: database)
            .map(\.row)
    }
}

/// A many-to-many link by its two ends.
struct LinkKey: Hashable, Comparable {
    let link: String
    let source: RowID
    let target: RowID

    static func < (one: Self, other: Self) -> Bool {
        (one.link, one.source, one.target) < (other.link, other.source, other.target)
    }
}
