import GRDB
import Merge

/// Reads the objects that to-manys, and the derived sides of one-to-ones, lead to.
struct MemberReader {
    let reader: StoreReader

    /// What a to-many, or the derived side of a one-to-one, leads to from several rows, and the rows that
    /// it leads to, each once: one statement, and another for each entity where several have one table.
    func members(
        of relationship: ManagedObjectModel.Relationship, rows owners: [RowID]
    ) throws -> (members: [RowID: [ManagedObjectID]], rows: [RowSnapshot]) {
        guard let destination = reader.catalog.model.entity(named: relationship.destination),
            let source = Self.source(
                of: relationship, isOwned: "IN (SELECT value FROM json_each(?1))",
                model: reader.catalog.model)
        else { return ([:], []) }
        let owner: String
        switch relationship.storage {
        case .column: return ([:], [])
        case .inverseColumn(_, let property): owner = "_m.\(EntityTable.quote(property))"
        case .link(_, let isFirst): owner = isFirst ? "_l.source" : "_l.target"
        }
        let table = reader.catalog.table(destination.name)
        let isShared = destination.sharesTable
        let columns = isShared ? ["_id", "_entity"] : table.selectedColumns
        let statement = try reader.prepared(
            "SELECT \(owner), \(columns.map { "_m.\($0)" }.joined(separator: ", ")) FROM \(source)")
        statement.bind(1, SQLBuilder.list(owners))
        defer { statement.reset() }
        let actors = try reader.actors()
        var members: [RowID: [ManagedObjectID]] = [:]
        var rows: [RowSnapshot] = []
        var seen = Set<ManagedObjectID>()
        while try statement.step() {
            let name =
                isShared
                ? reader.catalog.names.entityNames[statement.integer(2)] ?? destination.name
                : destination.name
            let member = ManagedObjectID(entityName: name, row: RowID(statement.integer(1)))
            members[RowID(statement.integer(0)), default: []].append(member)
            if seen.insert(member).inserted, !isShared {
                rows.append(try reader.decode(statement, table, actors: actors, from: 1))
            }
        }
        if isShared {
            let byEntity = Dictionary(grouping: seen, by: \.entityName)
            for name in byEntity.keys.sorted() {
                guard let entity = reader.catalog.model.entity(named: name) else { continue }
                rows += try reader.rows(entity, (byEntity[name] ?? []).map(\.row).sorted())
            }
        }
        return (members, rows)
    }

    static func members(
        of relationship: ManagedObjectModel.Relationship, row: RowID, model: ManagedObjectModel,
        in database: Database
    ) throws -> [(row: RowID, code: Int64?)] {
        guard let source = source(of: relationship, isOwned: "= ?1", model: model) else {
            return []
        }
        let sharesTable = model.entity(named: relationship.destination)?.sharesTable ?? false
        let code = sharesTable ? "_m._entity" : "NULL"
        let statement = try database.prepared(
            "SELECT _m._id, \(code) FROM \(source) ORDER BY _m._id")
        statement.bind(1, row.rawValue)
        var result: [(RowID, Int64?)] = []
        while try statement.step() {
            result.append(
                (RowID(statement.integer(0)), statement.isNull(1) ? nil : statement.integer(1)))
        }
        return result
    }

    /// From where SQL selects the objects that a to-many, or the derived side of a one-to-one, leads
    /// to, as `_m`, which no entity is called; nil where the row's own column tells.
    ///
    /// - Parameter isOwned: what is to hold of the identity of the row that they are of, such as `= ?1`.
    static func source(
        of relationship: ManagedObjectModel.Relationship, isOwned: String, model: ManagedObjectModel
    ) -> String? {
        guard let destination = model.entity(named: relationship.destination) else { return nil }
        let root = EntityTable.quote(destination.root)
        switch relationship.storage {
        case .column: return nil
        case .inverseColumn(let entity, let property):
            let members = "\(root) _m WHERE _m.\(EntityTable.quote(property)) \(isOwned)"
            guard let declarer = model.entity(named: entity), declarer.parent != nil else {
                return members
            }
            // Another entity of the table may have a to-one of the same name.
            let names = declarer.familyNames.map { "'\($0)'" }.joined(separator: ", ")
            return members
                + " AND _m._entity IN (SELECT code FROM _name "
                + "WHERE property = '' AND entity IN (\(names)))"
        case .link(let name, let isFirst):
            let (near, far) = isFirst ? ("source", "target") : ("target", "source")
            return "\(EntityTable.quote(name)) _l JOIN \(root) _m ON _m._id = _l.\(far) "
                + "WHERE _l.\(near) \(isOwned) AND _l._alive"
        }
    }
}
