public import Merge

/// A change of what is shown that a transaction brought about without writing it: a reference that was
/// written before reads as nil since its target was deleted or claimed by another, or leads to it again, or
/// to what is shown in its place. Or a reference that the transaction wrote reads as nil here at once.
///
/// It is reported as this store saw it: if the delete came first, the reference's transaction has
/// the change.
public struct DerivedChange: Hashable, Sendable {
    /// The object that is shown otherwise.
    public let object: ManagedObjectID
    /// The to-one.
    public let property: String
    /// Where it leads readers since; nil for nowhere.
    public let target: RowID?
}

extension TransactionLog {
    /// Keeps what becomes of a row's references by the transaction that is being applied, as long as
    /// history has that.
    func noteDerived(old: LoadedRow?, new: LoadedRow) throws {
        guard let applying = scratch.applying, new.isVisible else { return }
        for (position, _) in new.table.references {
            guard let write = new.shown(position) else { continue }
            let column = new.columns[position]
            if write.dot == applying.dot {
                // What else than it was written to lead to is shown in the place of that.
                guard column.isNull, !write.value.isNull else { continue }
            } else {
                guard let old, old.isVisible, old.shown(position)?.dot == write.dot,
                    old.columns[position] != column
                else { continue }
            }
            var target: RowID?
            if case .reference(let row) = column { target = row }
            try keep(
                DerivedChange(
                    object: new.objectID,
                    property: new.table.entity.properties[position].name, target: target),
                at: state.position + 1, new.table)
        }
    }

    /// Keeps a derived change of the transaction at a position of the log.
    func keep(_ change: DerivedChange, at position: UInt64, _ table: EntityTable) throws {
        let statement = try database.prepared(
            """
            INSERT INTO _derived (position, entity, row, property, target)
            VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (position, row, property) DO UPDATE SET target = excluded.target
            """)
        statement.bind(1, Int64(bitPattern: position))
        statement.bind(2, table.code)
        statement.bind(3, change.object.row.rawValue)
        statement.bind(4, change.property)
        if let target = change.target {
            statement.bind(5, target.rawValue)
        } else {
            statement.bindNull(5)
        }
        try statement.run()
        try HistoryIndex(session: session).append(derived: table.entity.name, at: position)
    }
}

extension StoreReader {
    /// The changes that a transaction of the log caused without writing them, in order of the
    /// objects; none if the log does not have the transaction.
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
