import Merge

/// What leads to rows that are shown elsewhere than before: references and links.
extension StoreEngine {
    /// Shows references where their targets are shown now.
    ///
    /// Whoever refers to a row shows what it was shown as, or is listed in `_dangling`; so these
    /// are all that can change.
    func moveReferences(
        _ regrouping: Regrouping, _ contested: inout Set<Claim>, by stamp: Stamp
    ) throws {
        var left = Set<RowID>()
        for (row, table, from, to) in regrouping.moved {
            if let from, left.insert(from).inserted {
                try releaseReferences(to: from, table, by: stamp)
            }
            if to != nil { try restoreReferences(to: row, by: stamp) }
            for target in [from, to].compactMap({ $0 }) {
                contested.formUnion(possibleClaims(to: target, root: table.entity.root))
            }
        }
    }

    // MARK: Links

    /// Shows links where their ends are shown now.
    ///
    /// A link's registers stay with the rows it was made between. Of two rows that are not eclipsed
    /// `_alive` tells whether the one, or a row that it eclipses, has a link to the other, or to a
    /// row that that one eclipses; where they have none of their own, a row without registers
    /// stands for it. Whether the ends are alive is none of its business, for readers join them; that
    /// they are of the link's entities is.
    func moveLinks(_ regrouping: Regrouping) throws {
        if model.links.isEmpty || regrouping.moved.isEmpty { return }
        let before = Dictionary(
            regrouping.moved.map { ($0.row, $0.from) }, uniquingKeysWith: { first, _ in first })
        for link in model.links {
            let sourceRoot = table(link.source).entity.root
            let targetRoot = table(link.target).entity.root
            var found = Set<LinkPair>()
            for (row, table, _, _) in regrouping.moved {
                for (end, root) in [("source", sourceRoot), ("target", targetRoot)]
                where root == table.entity.root {
                    for pair in try pairs(of: link, end, row) {
                        found.insert(pair)
                        let sources = try [
                            before[pair.source] ?? nil,
                            shownRow(pair.source, root: sourceRoot) ?? pair.source,
                        ].compactMap { $0 }
                        let targets = try [
                            before[pair.target] ?? nil,
                            shownRow(pair.target, root: targetRoot) ?? pair.target,
                        ].compactMap { $0 }
                        for source in sources {
                            for target in targets {
                                found.insert(LinkPair(source: source, target: target))
                            }
                        }
                    }
                }
            }
            for pair in found.sorted() {
                try refreshLink(link, source: pair.source, target: pair.target)
            }
        }
    }

    private struct LinkPair: Hashable, Comparable {
        let source: RowID
        let target: RowID

        static func < (left: Self, right: Self) -> Bool {
            (left.source, left.target) < (right.source, right.target)
        }
    }

    private func pairs(
        of link: ManagedObjectModel.Link, _ end: String, _ row: RowID
    ) throws -> [LinkPair] {
        let statement = try database.prepared(
            "SELECT source, target FROM \(EntityTable.quote(link.name)) WHERE \(end) = ?1")
        statement.bind(1, row.rawValue)
        var result: [LinkPair] = []
        while try statement.step() {
            result.append(
                LinkPair(source: RowID(statement.integer(0)), target: RowID(statement.integer(1))))
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

    /// Brings `_alive` up to date after a link's register has changed; where nothing is eclipsed,
    /// whoever wrote the register has done so.
    func refreshGroupedLink(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws {
        guard state.eclipsed > 0, isGrouped(link) else { return }
        try refreshLink(link, source: source, target: target)
        let shownSource = try shownRow(source, root: table(link.source).entity.root) ?? source
        let shownTarget = try shownRow(target, root: table(link.target).entity.root) ?? target
        if shownSource == source, shownTarget == target { return }
        try refreshLink(link, source: shownSource, target: shownTarget)
        group.updated.append(ManagedObjectID(entityName: link.source, row: shownSource))
        group.updated.append(ManagedObjectID(entityName: link.target, row: shownTarget))
    }

    /// Whether both ends of a link are of the entities that it is between, as far as they are shown: two
    /// heirs may have one key, and only one of them such links.
    func haveFittingEnds(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> Bool {
        for (row, entity) in [(source, link.source), (target, link.target)] {
            let table = table(entity)
            if table.entity.parent == nil || !groupedRoots.contains(table.entity.root) { continue }
            if try isVisible(row, root: table.entity.root), try !isOf(row, table) { return false }
        }
        return true
    }

    /// Hides links to rows that are shown again and are not of the links' entities. There are such links
    /// where an object that was inserted with them became one with another.
    func hideLinks(toMisfits rows: [(RowID, EntityTable)]) throws {
        for (row, table) in rows where table.isGrouped {
            for link in model.links {
                for (end, name) in [("source", link.source), ("target", link.target)] {
                    let entity = self.table(name).entity
                    guard entity.root == table.entity.root,
                        !entity.familyNames.contains(table.entity.name)
                    else { continue }
                    for pair in try pairs(of: link, end, row) {
                        try refreshLink(link, source: pair.source, target: pair.target)
                    }
                }
            }
        }
    }

    /// Brings `_alive` of a pair of rows up to date.
    func refreshLink(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws {
        let name = EntityTable.quote(link.name)
        noteCounts(link, source: source, target: target)
        let register = try loadLink(link, source: source, target: target)
        let policy = history.settling(link, register).policy
        var isShown = LinkCoding.isAlive(register, policy: policy)
        if !isShown, try survivor(of: source) == nil, try survivor(of: target) == nil {
            isShown = try memberLinks(link, source: source, target: target).contains {
                $0.isAlive && ($0.source != source || $0.target != target)
            }
        }
        if isShown { isShown = try haveFittingEnds(link, source: source, target: target) }
        if register.siblings.isEmpty, !isShown {
            return try removeLink(link, source: source, target: target)
        }
        let statement = try database.prepared(
            """
            INSERT INTO \(name) (source, target, _alive, _siblings) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (source, target)
            DO UPDATE SET _alive = excluded._alive, _siblings = excluded._siblings
            """)
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        statement.bind(3, isShown ? 1 : 0)
        statement.bind(4, LinkCoding.encode(register, actors: state.actors))
        try statement.run()
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
}
