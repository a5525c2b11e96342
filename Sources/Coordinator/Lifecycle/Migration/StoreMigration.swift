import Foundation
import GRDB
import Merge

/// Carries a ``MigrationPlan`` out on the tables of a store, within the transaction that opens it.
///
/// New columns are added to the schema alone: SQLite shows a new column's default for the rows
/// there are without writing them. Names change in the schema alone too, and rows name their
/// properties by lasting numbers. Only removals write: SQLite rewrites a table that loses a column.
struct StoreMigration {
    let database: Database
    let plan: MigrationPlan
    /// The hash under which the store has kept the model that was.
    let formerHash: [UInt8]

    /// The work on the rows' registers that a migration of the tables leaves.
    struct Remainder {
        let plan: MigrationPlan
        /// The eclipsed rows that went with their entities.
        let goneEclipsed: [GoneEclipsed]
    }

    /// An eclipsed row that went with its entity.
    struct GoneEclipsed {
        let row: RowID
        /// The row that was shown in its place.
        let survivor: RowID
        /// The root of the survivor's hierarchy, by its present name.
        let root: String
    }

    func run() throws -> Remainder {
        try retireNames()
        try dropIndexes()
        let goneEclipsed = try removeEntities()
        for table in plan.tables { try dropColumns(table) }
        try rename()
        let names = try StoreLayout.readNames(in: database)
        for table in plan.tables {
            try addColumns(table, names)
            try fillColumns(table, names)
        }
        try DerivedLayout.add(
            of: plan.new, roots: DerivedLayout.roots(of: plan.new), in: database)
        try noteActors()
        try StoreModels.keep(plan.new, isCurrent: true, in: database)
        try StoreLayout.createEntityTables(plan.new, in: database)
        return Remainder(plan: plan, goneEclipsed: goneEclipsed)
    }

    private func execute(_ sql: String, _ arguments: StatementArguments = []) throws {
        try database.execute(sql: sql, arguments: arguments)
    }

    private func quote(_ name: String) -> String { EntityTable.quote(name) }

    // MARK: Taking away

    /// Numbers of what goes are never used again; rows may still have them.
    private func retireNames() throws {
        for table in plan.tables {
            for column in table.dropped {
                try execute(
                    "UPDATE _name SET property = property || '~' || code "
                        + "WHERE entity = ? AND property = ?", [table.old.name, column])
            }
        }
        for entity in plan.removedEntities {
            let isRoot = plan.removedRoots.contains(entity)
            try execute(
                "UPDATE _name SET entity = entity || '~' || code WHERE entity = ?"
                    + (isRoot ? "" : " AND property = ''"), [entity])
        }
    }

    /// Indexes over what changes are made again, those of constraints among them.
    private func dropIndexes() throws {
        try StoreLayout.dropIndexes(notOf: plan.new, in: database)
        var tables = plan.removedLinks + (plan.renamedLinks + plan.joinedLinks).map(\.from)
        let substituted = Set(plan.substituted.map(\.entity.root))
        for table in plan.tables {
            let isRenamed = plan.renamedEntities.contains {
                table.old.familyNames.contains($0.from)
            }
            if isRenamed || !table.dropped.isEmpty || !table.renamed.isEmpty
                || !table.removedEntities.isEmpty || substituted.contains(table.new.name)
            {
                tables.append(table.old.name)
            }
        }
        for table in tables {
            let indexes = try String.fetchAll(
                database,
                sql: "SELECT name FROM sqlite_master "
                    + "WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL ORDER BY name",
                arguments: [table])
            for index in indexes { try execute("DROP INDEX \(quote(index))") }
        }
    }

    private func removeEntities() throws -> [GoneEclipsed] {
        var goneEclipsed: [GoneEclipsed] = []
        for link in plan.removedLinks {
            try execute("DROP TABLE \(quote(link))")
            try execute("DELETE FROM _uncollected WHERE name = ?", [link])
        }
        for root in plan.removedRoots { try execute("DROP TABLE \(quote(root))") }
        for entity in plan.removedEntities {
            try execute("DELETE FROM _uncollected WHERE name = ?", [entity])
            // Its number is under a retired name by now.
            let codes = try Int64.fetchAll(
                database,
                sql: "SELECT code FROM _name WHERE property = '' AND entity = ? || '~' || code",
                arguments: [entity])
            for code in codes {
                // Rows that were shown in their place are not shown there any more.
                for table in plan.tables where table.removedEntities.contains(entity) {
                    goneEclipsed += try eclipsed(code, root: table.new.name)
                }
                for table in ["_tombstone", "_eclipsed", "_dangling", "_derived"] {
                    try execute("DELETE FROM \(table) WHERE entity = ?", [code])
                }
                for table in plan.tables where table.removedEntities.contains(entity) {
                    try execute("DELETE FROM \(quote(table.old.name)) WHERE _entity = ?", [code])
                }
            }
        }
        try execute(
            "DELETE FROM _eclipsedKey WHERE row NOT IN (SELECT row FROM _eclipsed)")
        return goneEclipsed
    }

    private func eclipsed(_ code: Int64, root: String) throws -> [GoneEclipsed] {
        let statement = try database.prepared(
            "SELECT row, survivor FROM _eclipsed WHERE entity = ?1 ORDER BY row")
        statement.bind(1, code)
        var rows: [GoneEclipsed] = []
        while try statement.step() {
            rows.append(
                GoneEclipsed(
                    row: RowID(statement.integer(0)), survivor: RowID(statement.integer(1)),
                    root: root))
        }
        return rows
    }

    private func dropColumns(_ table: MigrationPlan.Table) throws {
        for column in table.dropped {
            try execute("ALTER TABLE \(quote(table.old.name)) DROP COLUMN \(quote(column))")
            try changeDerived(of: table, "DELETE FROM _derived WHERE property = ?", [column])
        }
        if table.sharing == (true, false) {
            try execute("ALTER TABLE \(quote(table.old.name)) DROP COLUMN _entity")
        }
    }

    // MARK: Renaming

    /// By way of names that nobody can have, so that two may change places.
    private func rename() throws {
        for table in plan.tables {
            let name = quote(table.old.name)
            for (from, _) in table.renamed {
                try execute(
                    "ALTER TABLE \(name) RENAME COLUMN \(quote(from)) TO \(quote("~" + from))")
                try renameProperty(of: table, from, "~" + from)
            }
            for (from, to) in table.renamed {
                try execute(
                    "ALTER TABLE \(name) RENAME COLUMN \(quote("~" + from)) TO \(quote(to))")
                try renameProperty(of: table, "~" + from, to)
            }
        }
        let roots = plan.tables.filter { $0.old.name != $0.new.name }.map {
            ($0.old.name, $0.new.name)
        }
        let links = plan.renamedLinks + plan.joinedLinks
        for (from, _) in roots + links { try renameTable(from, "~" + from) }
        for (from, to) in roots + plan.renamedLinks { try renameTable("~" + from, to) }
        for (from, to) in plan.joinedLinks { try joinTable("~" + from, to) }
        for (from, _) in plan.renamedEntities { try renameEntity(from, "~" + from) }
        for (from, to) in plan.renamedEntities { try renameEntity("~" + from, to) }
        for (from, _) in links { try renameUncollected(from, "~" + from) }
        for (from, to) in links { try renameUncollected("~" + from, to) }
    }

    /// Links begin at rows of one entity each, so no two tables have the same.
    private func joinTable(_ from: String, _ to: String) throws {
        try execute("INSERT INTO \(quote(to)) SELECT * FROM \(quote(from))")
        try execute("DROP TABLE \(quote(from))")
    }

    private func renameTable(_ from: String, _ to: String) throws {
        try execute("ALTER TABLE \(quote(from)) RENAME TO \(quote(to))")
    }

    private func renameProperty(
        of table: MigrationPlan.Table, _ from: String, _ to: String
    ) throws {
        try execute(
            "UPDATE _name SET property = ? WHERE entity = ? AND property = ?",
            [to, table.old.name, from])
        try changeDerived(
            of: table, "UPDATE _derived SET property = ? WHERE property = ?", [to, from])
    }

    /// Changes what history tells of the references of a table's entities.
    private func changeDerived(
        of table: MigrationPlan.Table, _ sql: String, _ arguments: [String]
    ) throws {
        let family = table.old.familyNames
        let places = family.map { _ in "?" }.joined(separator: ", ")
        try execute(
            "\(sql) AND entity IN "
                + "(SELECT code FROM _name WHERE property = '' AND entity IN (\(places)))",
            StatementArguments(arguments + family))
    }

    private func renameEntity(_ from: String, _ to: String) throws {
        try execute("UPDATE _name SET entity = ? WHERE entity = ?", [to, from])
        try renameUncollected(from, to)
    }

    private func renameUncollected(_ from: String, _ to: String) throws {
        try execute("UPDATE _uncollected SET name = ? WHERE name = ?", [to, from])
    }

    // MARK: Adding

    private func addColumns(_ table: MigrationPlan.Table, _ names: NameTable) throws {
        let name = quote(table.new.name)
        if table.sharing == (false, true) {
            let code = names.entities[table.new.name] ?? 0
            try execute("ALTER TABLE \(name) ADD COLUMN _entity INTEGER NOT NULL DEFAULT \(code)")
        }
        let family = table.new.familyNames.compactMap { plan.new.entity(named: $0) }
        let types = StoreLayout.columns(of: family)
        for (column, value) in table.added {
            let type = types.first { $0.name == column }?.type ?? ""
            var sql = "ALTER TABLE \(name) ADD COLUMN \(quote(column)) \(type)"
            if !value.isNull, Self.isExactAsDefault(value) {
                sql += " DEFAULT \(try literal(value))"
            }
            try execute(sql)
            if Self.isExactAsDefault(value) { continue }
            let statement = try database.prepared("UPDATE \(name) SET \(quote(column)) = ?1")
            statement.bind(1, value)
            try statement.run()
        }
    }

    /// Whether rows show a value bit by bit that is a column's default in the schema: as SQL a text
    /// ends at its first NUL, zero has no sign there, and what is infinite is no constant.
    private static func isExactAsDefault(_ value: PropertyValue) -> Bool {
        switch value {
        case .string(let text), .uri(let text): !text.utf8.contains(0)
        case .double(let number): number.isFinite && !(number == 0 && number.sign == .minus)
        default: true
        }
    }

    /// Gives rows what stands for a value that their entity lacked, where they share the column
    /// with entities that had it: then it was there already, without their default.
    private func fillColumns(_ table: MigrationPlan.Table, _ names: NameTable) throws {
        guard table.new.sharesTable else { return }
        for name in table.new.familyNames {
            guard let entity = plan.mapping.byTarget[name], let code = names.entities[name] else {
                continue
            }
            for (position, value) in entity.absent.sorted(by: { $0.key < $1.key }) {
                let property = entity.target.properties[position]
                guard table.kept[property.name] != nil else { continue }
                let column = quote(property.name)
                let statement = try database.prepared(
                    "UPDATE \(quote(table.new.name)) SET \(column) = ?1 "
                        + "WHERE _entity = ?2 AND \(column) IS NOT ?1")
                statement.bind(1, value)
                statement.bind(2, code)
                try statement.run()
            }
        }
    }

    /// A value as SQL.
    private func literal(_ value: PropertyValue) throws -> String {
        let statement = try database.prepared("SELECT quote(?1), ?1")
        statement.bind(1, value)
        guard try statement.step() else { return "NULL" }
        defer { statement.reset() }
        return "(\(statement.text(0)))"
    }

    /// Every writer so far has written by the model that was, or by one before it.
    private func noteActors() throws {
        try execute(
            "INSERT OR IGNORE INTO _actorModel (actor, hash) SELECT code, ? FROM _actor WHERE sequence > 0",
            [Data(formerHash)])
        try execute(
            "DELETE FROM _actorModel WHERE hash = ?", [Data(plan.new.modelHash)])
    }

    // MARK: Constraints

    /// Refuses rows that have one key of a constraint that is new, or are to have one by what is
    /// to stand in the place of null.
    ///
    /// - Throws: ``CoordinatorError`` with `constraintMigration`.
    func refuseDuplicates() throws {
        let names = try StoreLayout.readNames(in: database)
        for entity in plan.new.entities {
            let former = plan.mapping.byTarget[entity.name].flatMap { _ in
                plan.old.entity(identity: plan.new.identity(ofEntity: entity.name))
            }
            guard let former else { continue }
            let before = Set(constraints(former, mapping: plan.mapping.entities[former.name]))
            let standIns = substitutes(in: entity)
            for constraint in constraints(entity, mapping: nil)
            where !before.contains(constraint)
                || constraint.contains(where: { standIns[$0] != nil })
            {
                try refuseDuplicates(of: constraint, in: entity, names, standIns)
            }
        }
    }

    /// The values that replace null in rows of an entity and its heirs, by property.
    private func substitutes(in entity: ManagedObjectModel.Entity) -> [String: PropertyValue] {
        var result: [String: PropertyValue] = [:]
        for name in entity.familyNames {
            for (position, value) in plan.mapping.byTarget[name]?.substitutes ?? [:] {
                if let heir = plan.new.entity(named: name) {
                    result[heir.properties[position].name] = value
                }
            }
        }
        return result
    }

    private func constraints(
        _ entity: ManagedObjectModel.Entity, mapping: ModelMapping.Entity?
    ) -> [[String]] {
        entity.uniquenessConstraints.map { positions in
            positions.map { position in
                let name = entity.properties[position].name
                return mapping.map { $0.names[name] ?? "~" + name } ?? name
            }
        }
    }

    private func refuseDuplicates(
        of constraint: [String], in entity: ManagedObjectModel.Entity, _ names: NameTable,
        _ standIns: [String: PropertyValue]
    ) throws {
        let columns = constraint.enumerated().map { place, name in
            standIns[name] == nil ? quote(name) : "coalesce(\(quote(name)), ?\(place + 1))"
        }
        var terms = columns.map { "\($0) IS NOT NULL" }
        if entity.parent != nil {
            let codes = entity.familyNames.compactMap { names.entities[$0] }.map(String.init)
            terms.append("_entity IN (\(codes.joined(separator: ", ")))")
        }
        let statement = try database.prepared(
            "SELECT count(*) FROM \(quote(entity.root)) "
                + "WHERE \(terms.joined(separator: " AND ")) "
                + "GROUP BY \(columns.joined(separator: ", ")) HAVING count(*) > 1 LIMIT 1")
        defer { statement.reset() }
        for (place, name) in constraint.enumerated() {
            if let value = standIns[name] { statement.bind(Int32(place + 1), value) }
        }
        guard try statement.step() else { return }
        let count = statement.integer(0)
        throw CoordinatorError(
            .constraintMigration,
            "The store cannot be migrated and is as it was: \(count) objects of \(entity.name) "
                + "would have the same \(constraint.joined(separator: ", ")), which is unique in "
                + "the new model.")
    }
}
