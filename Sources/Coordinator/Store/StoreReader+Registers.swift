import GRDB
import Merge

/// A row's registers, wherever a store keeps them.
struct RowRegisters {
    let row: RowID
    /// The row's own entity.
    let entity: String
    let state: RowState
}

/// A store's rows that are gone or not shown, too: for joining two stores.
extension StoreReader {
    /// Where registers of rows are kept.
    enum RowPlace {
        case table(EntityTable)
        case eclipsed
        case tombstones
    }

    /// All such places; a row is in one of them.
    var rowPlaces: [RowPlace] {
        catalog.model.entities.filter { !$0.isAbstract }.map { .table(catalog.table($0.name)) }
            + [.eclipsed, .tombstones]
    }

    /// The next rows of a place, by number; none where that was the last.
    ///
    /// - Parameters:
    ///   - last: the row after which to go on; nil at first.
    ///   - limit: how many rows, at least 1.
    ///   - byteLimit: reading stops once values have so many bytes; the first is always read.
    func registers(
        in place: RowPlace, after last: RowID?, limit: Int, byteLimit: Int
    ) throws -> [RowRegisters] {
        let actors = try actors()
        let columns: [String]
        switch place {
        case .table(let table): columns = table.selectedColumns
        case .eclipsed, .tombstones: columns = ["row", "entity", "registers"]
        }
        let statement = try page(of: place, columns, after: last, limit: limit)
        defer { statement.reset() }
        var found: [RowRegisters] = []
        var bytes = 0
        while bytes < byteLimit, try statement.step() {
            switch place {
            case .table(let table):
                for column in 0..<table.selectedColumns.count {
                    bytes += statement.size(Int32(column))
                }
                found.append(try registers(statement, table, actors))
            case .eclipsed, .tombstones:
                bytes += statement.size(2)
                found.append(try registersAlone(statement, actors))
            }
        }
        return found
    }

    /// The next rows of a place by their numbers alone.
    func rows(in place: RowPlace, after last: RowID?, limit: Int) throws -> [RowID] {
        let key: String
        switch place {
        case .table: key = "_id"
        case .eclipsed, .tombstones: key = "row"
        }
        let statement = try page(of: place, [key], after: last, limit: limit)
        defer { statement.reset() }
        var found: [RowID] = []
        while try statement.step() { found.append(RowID(statement.integer(0))) }
        return found
    }

    /// Selects the next rows of a place.
    private func page(
        of place: RowPlace, _ columns: [String], after last: RowID?, limit: Int
    ) throws -> SQLStatement {
        let list = columns.joined(separator: ", ")
        let sql: String
        switch place {
        case .table(let table):
            let own = table.entity.sharesTable ? " AND _entity = \(table.code)" : ""
            sql =
                "SELECT \(list) FROM \(EntityTable.quote(table.entity.root)) "
                + "WHERE _id > ?1\(own) ORDER BY _id LIMIT ?2"
        case .eclipsed: sql = "SELECT \(list) FROM _eclipsed WHERE row > ?1 ORDER BY row LIMIT ?2"
        case .tombstones:
            sql = "SELECT \(list) FROM _tombstone WHERE row > ?1 ORDER BY row LIMIT ?2"
        }
        let statement = try database.prepared(sql)
        statement.bind(1, last?.rawValue ?? .min)
        statement.bind(2, limit)
        return statement
    }

    /// Whether anything is known of a row.
    func knows(_ row: RowID) throws -> Bool {
        let roots = Set(catalog.model.entities.map(\.root)).sorted()
        let places =
            roots.map { "SELECT 1 FROM \(EntityTable.quote($0)) WHERE _id = ?1" }
            + ["_eclipsed", "_tombstone"].map { "SELECT 1 FROM \($0) WHERE row = ?1" }
        for sql in places {
            let statement = try database.prepared(sql)
            statement.bind(1, row.rawValue)
            defer { statement.reset() }
            if try statement.step() { return true }
        }
        return false
    }

    /// The registers of a row, dead or alive; nil where nothing is known of it.
    func registers(of row: RowID) throws -> RowRegisters? {
        for root in catalog.model.entities where root.name == root.root {
            guard let table = try concreteTable(root, row),
                let state = try registers(table.entity, row)
            else { continue }
            return RowRegisters(row: row, entity: table.entity.name, state: state)
        }
        let actors = try actors()
        for table in ["_eclipsed", "_tombstone"] {
            let statement = try database.prepared(
                "SELECT row, entity, registers FROM \(table) WHERE row = ?1")
            statement.bind(1, row.rawValue)
            defer { statement.reset() }
            if try statement.step() { return try registersAlone(statement, actors) }
        }
        return nil
    }

    private func registers(
        _ statement: SQLStatement, _ table: EntityTable, _ actors: ActorTable
    ) throws -> RowRegisters {
        var columns: [PropertyValue] = []
        columns.reserveCapacity(table.entity.properties.count)
        for (position, property) in table.entity.properties.enumerated() {
            columns.append(try statement.value(Int32(position) + 4, property.content))
        }
        return RowRegisters(
            row: RowID(statement.integer(0)), entity: table.entity.name,
            state: try RowCoding(table: table, actors: actors).decode(
                version: statement.integer(1), timestamp: statement.integer(2),
                registers: statement.isNull(3) ? nil : statement.bytes(3), columns: columns))
    }

    func registersAlone(
        _ statement: SQLStatement, _ actors: ActorTable
    ) throws -> RowRegisters {
        guard let name = catalog.names.entityNames[statement.integer(1)],
            catalog.model.entity(named: name) != nil
        else { throw CoordinatorError(.storeDamaged, "A row has no known entity.") }
        return RowRegisters(
            row: RowID(statement.integer(0)), entity: name,
            state: try RowCoding(table: catalog.table(name), actors: actors).decode(
                version: 0, timestamp: 0, registers: statement.bytes(2), columns: nil))
    }

    /// The next links of a kind that have registers of their own, by their ends.
    ///
    /// - Parameter last: the link after which to go on; nil at first.
    func registers(
        of link: ManagedObjectModel.Link, after last: (source: RowID, target: RowID)?, limit: Int
    ) throws -> [(source: RowID, target: RowID, register: Register<Bool>)] {
        let actors = try actors()
        let statement = try database.prepared(
            "SELECT source, target, _siblings FROM \(EntityTable.quote(link.name)) "
                + "WHERE (source, target) > (?1, ?2) ORDER BY source, target LIMIT ?3")
        statement.bind(1, last?.source.rawValue ?? .min)
        statement.bind(2, last?.target.rawValue ?? .min)
        statement.bind(3, limit)
        defer { statement.reset() }
        var found: [(RowID, RowID, Register<Bool>)] = []
        while try statement.step() {
            found.append(
                (
                    RowID(statement.integer(0)), RowID(statement.integer(1)),
                    try LinkCoding.decode(statement.bytes(2), actors: actors)
                ))
        }
        return found
    }

    /// The register of one link; empty where it is not known.
    func register(
        of link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> Register<Bool> {
        try LinkCoding.load(
            link, source: source, target: target, from: database, actors: try actors())
    }
}

extension RowState {
    /// Whether any write that is still told of is one that somebody has applied.
    func tells(of seen: VersionVector) -> Bool {
        existence.siblings.contains { seen.contains($0.dot) }
            || collapsedDots.contains { seen.contains($0) }
            || insertion.siblings.contains { seen.contains($0.dot) }
            || properties.contains { $0.siblings.contains { seen.contains($0.dot) } }
    }
}
