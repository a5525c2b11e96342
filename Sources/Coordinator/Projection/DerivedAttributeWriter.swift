import Merge

/// Keeps derived attributes: whatever writes a row or a link notes here what may be another now, and
/// at the end of the transaction it is computed. So they are right in every generation.
struct DerivedAttributeWriter: StorePart {
    let session: StoreSession

    // MARK: What may have changed

    /// Notes what leads to a row that is shown otherwise than before.
    ///
    /// - Parameters:
    ///   - before: what its columns showed; nil where it was not shown.
    ///   - after: what they show now; nil where it is not shown any more.
    func note(
        _ table: EntityTable, _ row: RowID, from before: [PropertyValue]?,
        to after: [PropertyValue]?
    ) throws {
        let derived = table.derived
        for reference in derived.references {
            let targets = [before, after].map { $0?[reference.position] ?? .null }
            let isSame =
                targets[0] == targets[1]
                && reference.summed.allSatisfy { before?[$0] == after?[$0] }
            if isSame { continue }
            for case .reference(let target) in targets {
                scratch.derivedOwners[target] = reference.root
            }
        }
        guard let before, let after else { return }
        for link in derived.links where link.summed.contains(where: { before[$0] != after[$0] }) {
            let far = link.near == "source" ? link.link.target : link.link.source
            for owner in try linkStore.linked(link.link, with: link.near, row) {
                scratch.derivedOwners[owner] = self.table(far).entity.root
            }
        }
    }

    /// Notes a row that is shown, and was not before: what leads away from it may have been there.
    func noteShown(_ table: EntityTable, _ row: RowID) {
        if !table.derived.collected.isEmpty { scratch.derivedOwners[row] = table.entity.root }
    }

    /// Notes the ends of a link that is shown otherwise than before.
    func note(_ link: ManagedObjectModel.Link, source: RowID, target: RowID) {
        guard let ends = session.derivedLinks[link.name] else { return }
        if ends.source { scratch.derivedOwners[source] = table(link.source).entity.root }
        if ends.target { scratch.derivedOwners[target] = table(link.target).entity.root }
    }

    /// Notes what is at the far ends of a row's links.
    func note(
        _ link: ManagedObjectModel.Link, ofAll far: String, with near: String, _ row: RowID
    ) throws {
        guard let ends = session.derivedLinks[link.name],
            far == "source" ? ends.source : ends.target
        else { return }
        let root = table(far == "source" ? link.source : link.target).entity.root
        for owner in try linkStore.linked(link, with: near, row) {
            scratch.derivedOwners[owner] = root
        }
    }

    // MARK: Computing

    /// Computes what was noted.
    func settle() throws {
        if scratch.derivedOwners.isEmpty { return }
        let owners = scratch.derivedOwners.sorted { $0.key < $1.key }
        scratch.derivedOwners.removeAll()
        for (row, root) in owners { try settle(row, table(root)) }
    }

    private func settle(_ row: RowID, _ rootTable: EntityTable) throws {
        guard let table = try rowStore.shownTable(of: row, under: rootTable) else { return }
        let collected = table.derived.collected
        if collected.isEmpty { return }
        let look = try database.prepared(table.collectedSQL)
        look.bind(1, row.rawValue)
        guard try look.step() else { return }
        var values: [PropertyValue] = []
        var isSame = true
        for (index, attribute) in collected.enumerated() {
            let content = ManagedObjectModel.Property.Content.attribute(attribute.type)
            let kept = try look.value(Int32(2 * index), content)
            let value = try look.value(Int32(2 * index + 1), content)
            isSame = isSame && kept == value
            values.append(value)
        }
        look.reset()
        if isSame { return }
        let statement = try database.prepared(table.writeCollectedSQL)
        statement.bind(1, row.rawValue)
        for (index, value) in values.enumerated() { statement.bind(Int32(index) + 2, value) }
        try statement.run()
        group.updated.append(ManagedObjectID(entityName: table.entity.name, row: row))
    }

    /// Computes all derived attributes of all rows, where the columns are new, and those of texts where they
    /// are outdated.
    func fill(_ unfilled: Set<String>, outdated: Set<String> = []) throws {
        for table in tables.values.sorted(by: { $0.code < $1.code })
        where !table.entity.isAbstract {
            let isNew = unfilled.contains(table.entity.root)
            let own = table.entity.sharesTable ? " WHERE _entity = \(table.code)" : ""
            let name = EntityTable.quote(table.entity.root)
            if isNew, !table.derived.collected.isEmpty {
                let values = table.derived.collected.map {
                    "\(EntityTable.quote($0.name)) = \($0.value)"
                }
                try execute(sql: "UPDATE \(name) SET \(values.joined(separator: ", "))\(own)")
            }
            if !table.derived.own.isEmpty, isNew || outdated.contains(table.entity.root) {
                try fillOwn(table)
            }
        }
    }

    private static let rowsAtOnce = 1_000

    private func fillOwn(_ table: EntityTable) throws {
        let name = EntityTable.quote(table.entity.root)
        let own = table.entity.sharesTable ? " AND _entity = \(table.code)" : ""
        let columns = table.derived.own.map { EntityTable.quote($0.name) }
        let page = try database.prepared(
            "SELECT _id, \(columns.joined(separator: ", ")) FROM \(name) WHERE _id > ?1\(own) "
                + "ORDER BY _id LIMIT \(Self.rowsAtOnce)")
        let assigned = columns.enumerated().map { "\($1) = ?\($0 + 2)" }
        let statement = try database.prepared(
            "UPDATE \(name) SET \(assigned.joined(separator: ", ")) WHERE _id = ?1")
        var last = Int64.min
        while true {
            page.bind(1, last)
            var rows: [(row: RowID, kept: [PropertyValue])] = []
            while try page.step() {
                let kept = try table.derived.own.enumerated().map { index, attribute in
                    try page.value(
                        Int32(index) + 1, table.entity.columns[attribute.column].content)
                }
                rows.append((RowID(page.integer(0)), kept))
            }
            guard let end = rows.last else { return }
            last = end.row.rawValue
            for (row, kept) in rows {
                guard let loaded = try rowStore.load(table, row) else { continue }
                statement.bind(1, row.rawValue)
                let values = table.derived.ownValues(
                    loaded.columns, newest: loaded.newestShown)
                if values == kept { continue }
                for (index, value) in values.enumerated() {
                    statement.bind(Int32(index) + 2, value)
                }
                try statement.run()
            }
        }
    }
}
