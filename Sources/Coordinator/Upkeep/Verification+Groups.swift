import GRDB
import Merge

/// The verification of eclipsed rows.
extension StoreReader {
    /// Adds the hashes of eclipsed rows, and checks that each shares a key with its survivor,
    /// which is earlier. That visible rows share none is the unique indexes' part.
    func addEclipsed(
        to digest: inout ProjectionDigest, _ damages: inout [String], _ actors: ActorTable
    ) throws {
        if !catalog.model.entities.contains(where: { catalog.table($0.name).isGrouped }) { return }
        for row in try eclipsedRows("ORDER BY row", actors) {
            digest.add(RowDigest.hash(row))
            guard let survivor = row.survivor, try !isShadow(row, of: survivor, actors) else {
                continue
            }
            if damages.count < 100 {
                damages.append("\(row.objectID) is eclipsed by \(survivor) without a reason")
            }
        }
    }

    private func isShadow(
        _ row: LoadedRow, of survivor: RowID, _ actors: ActorTable
    ) throws -> Bool {
        guard let root = catalog.model.entity(named: row.table.entity.root),
            let table = try concreteTable(root, survivor)
        else { return false }
        guard let state = try registers(table.entity, survivor) else { return false }
        let keys = Set(table.keys(of: state))
        let shown = LoadedRow(
            table: table, row: survivor, state: state, isAlive: true, columns: [])
        return row.keys.contains { keys.contains($0) } && LoadedRow.isEarlier(shown, row)
    }

    /// References that lead readers to objects of other entities than they are declared to lead to: what
    /// is shown in the place of an object may be of an heir's entity that is not its own.
    func misledReferences(limit: Int) throws -> [(row: RowID, table: EntityTable, position: Int)] {
        var found: [(row: RowID, table: EntityTable, position: Int)] = []
        for entity in catalog.model.entities where !entity.isAbstract {
            let table = catalog.table(entity.name)
            let own = entity.sharesTable ? " AND r._entity = \(table.code)" : ""
            for (position, _) in table.references {
                guard case .toOne(let name) = entity.properties[position].content,
                    let misfits = misfits(name)
                else { continue }
                let column = EntityTable.quote(entity.properties[position].name)
                let statement = try database.prepared(
                    "SELECT r._id FROM \(misfits) t JOIN \(EntityTable.quote(entity.root)) r "
                        + "ON r.\(column) = t._id WHERE true\(own) ORDER BY r._id LIMIT ?1")
                statement.bind(1, Int64(limit - found.count))
                while try statement.step() {
                    found.append((RowID(statement.integer(0)), table, position))
                }
            }
        }
        return found
    }

    /// In SQL, the rows of an heir's hierarchy that are not of its entity, where some may be shown in the
    /// place of such; else nil.
    func misfits(_ entity: String) -> String? {
        let table = catalog.table(entity)
        guard table.isGrouped, table.entity.parent != nil else { return nil }
        let codes = table.entity.familyNames.map { "\(catalog.table($0).code)" }.sorted()
        return "(SELECT _id FROM \(EntityTable.quote(table.entity.root)) "
            + "WHERE _entity NOT IN (\(codes.joined(separator: ", "))))"
    }

    /// Eclipsed rows, by what follows the table's name in a statement.
    func eclipsedRows(_ condition: String, _ actors: ActorTable) throws -> [LoadedRow] {
        let statement = SQLStatement(
            try database.makeStatement(
                sql: "SELECT row, entity, survivor, registers FROM _eclipsed \(condition)"))
        var result: [LoadedRow] = []
        while try statement.step() {
            guard let name = catalog.names.entityNames[statement.integer(1)],
                catalog.model.entity(named: name) != nil
            else { throw CoordinatorError(.storeDamaged, "An eclipsed row has no known entity.") }
            let table = catalog.table(name)
            let state = try RowCoding(table: table, actors: actors).decode(
                version: 0, timestamp: 0, registers: statement.bytes(3), columns: nil)
            result.append(
                LoadedRow(
                    table: table, row: RowID(statement.integer(0)), state: state, isAlive: true,
                    columns: table.entity.properties.indices.map {
                        state.visible($0, table.policies(for: state))?.value ?? .null
                    }, survivor: RowID(statement.integer(2))))
        }
        return result
    }

    /// The links between visible rows that stand for those of rows they eclipse.
    func unitedLinks(
        _ link: ManagedObjectModel.Link, _ actors: ActorTable
    ) throws -> [RowID: Set<RowID>] {
        let tables = [catalog.table(link.source), catalog.table(link.target)]
        if !tables.contains(where: \.isGrouped) { return [:] }
        let statement = try database.prepared(
            """
            SELECT coalesce(s.survivor, l.source), coalesce(t.survivor, l.target), l._siblings
            FROM \(EntityTable.quote(link.name)) l LEFT JOIN _eclipsed s ON s.row = l.source
                LEFT JOIN _eclipsed t ON t.row = l.target
            WHERE s.row IS NOT NULL OR t.row IS NOT NULL
            """)
        var result: [RowID: Set<RowID>] = [:]
        while try statement.step() {
            let register = try LinkCoding.decode(statement.bytes(2), actors: actors)
            let policy = catalog.history.settling(link, register).policy
            guard LinkCoding.isAlive(register, policy: policy) else { continue }
            result[RowID(statement.integer(0)), default: []].insert(RowID(statement.integer(1)))
        }
        return result
    }

    func isEclipsed(_ row: RowID) throws -> Bool {
        let statement = try database.prepared("SELECT 1 FROM _eclipsed WHERE row = ?1")
        statement.bind(1, row.rawValue)
        defer { statement.reset() }
        return try statement.step()
    }
}
