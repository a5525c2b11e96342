import Merge

/// An object of the store as conditions of a save see it: with every earlier save of the group, and
/// with nothing of their own save.
///
/// It loads its row when a condition first asks for a value: to count the members of a to-many needs
/// none of theirs.
final class StoredObject: PredicateSubject {
    let predicateRow: RowID
    /// The entity of its row, which may inherit from that of the relationship that leads here.
    var predicateEntity: String? {
        get throws { try shown?.table.entity.name ?? row()?.table.entity.name }
    }
    private let view: StoreView
    private let entity: String
    private var loaded: LoadedRow?
    /// What the row shows, where its registers are not known.
    private let shown: (table: EntityTable, columns: [PropertyValue])?

    init(_ loaded: LoadedRow, _ view: StoreView) {
        self.view = view
        self.loaded = loaded
        shown = nil
        entity = loaded.table.entity.name
        predicateRow = loaded.row
    }

    init(_ row: PlainRow, of table: EntityTable, _ view: StoreView) {
        self.view = view
        shown = (table, row.columns)
        entity = table.entity.name
        predicateRow = row.row
    }

    private init(_ row: RowID, of entity: String, _ view: StoreView) {
        self.view = view
        self.entity = entity
        shown = nil
        predicateRow = row
    }

    private func row() throws -> LoadedRow? {
        if loaded == nil { loaded = try view.load(view.table(entity), predicateRow) }
        return loaded
    }

    func predicateValue(ofAttribute name: String) throws -> PropertyValue {
        if let (table, columns) = shown, let position = table.entity.position(of: name) {
            return columns[position]
        }
        guard let row = try row() else { return .null }
        guard let position = row.table.entity.position(of: name) else {
            return try view.derivedValue(name, of: row)
        }
        return row.columns[position]
    }

    func predicateTarget(ofToOne name: String) throws -> StoredObject? {
        guard let row = try row(), let relationship = row.table.entity.relationship(named: name)
        else { return nil }
        guard case .column(let position) = relationship.storage else {
            return try predicateTargets(ofToMany: name).first
        }
        guard case .reference(let target) = row.columns[position] else { return nil }
        return StoredObject(target, of: relationship.destination, view)
    }

    func predicateTargets(ofToMany name: String) throws -> [StoredObject] {
        guard let row = try row(), let relationship = row.table.entity.relationship(named: name)
        else { return [] }
        return try view.members(of: relationship, row: predicateRow).map {
            StoredObject($0, of: relationship.destination, view)
        }
    }
}
