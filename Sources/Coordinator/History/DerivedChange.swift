import GRDB
public import Merge

/// A change of what is shown that a transaction brought about without writing it: a reference reads as
/// nil since its target was deleted, or leads to it again since it is back.
public struct DerivedChange: Hashable, Sendable {
    /// The object that is shown otherwise.
    public let object: ManagedObjectID
    /// The to-one.
    public let property: String
    /// Where it leads readers since; nil for nowhere.
    public let target: RowID?
}

extension StoreEngine {
    /// Keeps what becomes of a row's references by the transaction that is being applied, as long as
    /// history has that.
    func noteDerived(from old: LoadedRow, to new: LoadedRow) throws {
        guard applying != nil else { return }
        for (position, _) in new.table.references
        where old.columns[position] != new.columns[position] {
            let statement = try database.prepared(
                """
                INSERT INTO _derived (position, entity, row, property, target)
                VALUES (?1, ?2, ?3, ?4, ?5)
                ON CONFLICT (position, row, property) DO UPDATE SET target = excluded.target
                """)
            statement.bind(1, Int64(bitPattern: state.position + 1))
            statement.bind(2, new.table.code)
            statement.bind(3, new.row.rawValue)
            statement.bind(4, new.table.entity.properties[position].name)
            if case .reference(let target) = new.columns[position] {
                statement.bind(5, target.rawValue)
            } else {
                statement.bindNull(5)
            }
            try statement.run()
        }
    }
}

extension StoreReader {
    /// What a transaction of the log changed without writing it, in order of the objects; none where
    /// the log has not got it.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    public func derivedChanges(of dot: Dot) throws -> [DerivedChange] {
        guard let integer = try actors().knownInteger(dot) else { return [] }
        let statement = try database.prepared(
            """
            SELECT d.entity, d.row, d.property, d.target FROM _transaction t
            JOIN _derived d ON d.position = t.position WHERE t.dot = ?1 ORDER BY d.row, d.property
            """)
        statement.bind(1, integer)
        defer { statement.reset() }
        var result: [DerivedChange] = []
        while try statement.step() {
            guard let entity = catalog.names.entityNames[statement.integer(0)] else { continue }
            result.append(
                DerivedChange(
                    object: ManagedObjectID(
                        entityName: entity, row: RowID(statement.integer(1))),
                    property: statement.text(2),
                    target: statement.isNull(3) ? nil : RowID(statement.integer(3))))
        }
        return result
    }
}
