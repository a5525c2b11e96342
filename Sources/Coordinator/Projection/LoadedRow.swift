import Merge

/// A row in hand: its registers and what its columns show.
///
/// It is handed on often, and a class is copied by counting one reference.
final class LoadedRow: Sendable {
    let table: EntityTable
    let row: RowID
    let state: RowState
    let isAlive: Bool
    /// The projected values; of a dead or eclipsed row its own visible values, unprojected.
    let columns: [PropertyValue]
    /// The row that is shown in this one's place, where that is so.
    let survivor: RowID?
    /// Of a survivor, the rows it eclipses, in order of insertion.
    let eclipsed: [LoadedRow]

    init(
        table: EntityTable, row: RowID, state: RowState, isAlive: Bool, columns: [PropertyValue],
        survivor: RowID? = nil, eclipsed: [LoadedRow] = []
    ) {
        self.table = table
        self.row = row
        self.state = state
        self.isAlive = isAlive
        self.columns = columns
        self.survivor = survivor
        self.eclipsed = eclipsed
    }

    /// Whether it is a tombstone without values: a delete of a row that was collected already.
    var isTrace: Bool { state.insertion.siblings.isEmpty }

    /// The row as readers see it.
    var objectID: ManagedObjectID {
        ManagedObjectID(entityName: table.entity.name, row: row)
    }
}

/// A row's place in a group.
struct Grouping {
    /// The row that is shown in its place; nil where it is shown itself.
    let survivor: RowID?
    /// Of a survivor, the rows it eclipses, in order of insertion.
    let eclipsed: [LoadedRow]
}

extension LoadedRow {
    /// The same row with other columns.
    func showing(_ columns: [PropertyValue]) -> LoadedRow {
        LoadedRow(
            table: table, row: row, state: state, isAlive: isAlive, columns: columns,
            survivor: survivor, eclipsed: eclipsed)
    }

    /// Whether readers see the row itself.
    var isVisible: Bool { isAlive && survivor == nil }

    /// Its references that lead readers nowhere.
    var dangling: [(position: Int, target: RowID)] {
        guard isVisible, !table.references.isEmpty else { return [] }
        return table.references.compactMap { position, _ in
            guard columns[position].isNull, case .reference(let target)? = shown(position)?.value
            else { return nil }
            return (position, target)
        }
    }

    /// Whether a to-one that must lead to something reads as nil: that is a conflict.
    var lacksReference: Bool {
        isVisible && table.mandatoryReferences.contains { columns[$0].isNull }
    }

    /// The version readers get, and save against.
    var version: RowVersion {
        if eclipsed.isEmpty { return state.version }
        return RowVersion(dots: state.version.dots, eclipsed: eclipsedVersions)
    }

    /// The versions of the rows it eclipses.
    var eclipsedVersions: [RowVersion.Eclipsed] {
        eclipsed.map { RowVersion.Eclipsed(row: $0.row, dots: $0.state.version.dots) }
    }

    /// The value that readers see of a property before references are projected: of the row's own
    /// registers, or of its group's.
    func shown(_ position: Int) -> Sibling<PropertyValue>? {
        if eclipsed.isEmpty { return state.visible(position, table.policies(for: state)) }
        return combination.visible(position)
    }

    /// The properties of a group's survivor that nobody has decided, each with its sides.
    var undecided: [(position: Int, sides: [GroupSide])] {
        if eclipsed.isEmpty { return [] }
        let combination = combination
        return table.entity.properties.indices.compactMap { position in
            let sides = combination.undecided(position)
            return sides.isEmpty ? nil : (position, sides)
        }
    }

    var combination: GroupCombination {
        GroupCombination(
            survivor: GroupMember(
                row: row, state: state, policies: table.policies(for: state)),
            eclipsed: eclipsed.map { member in
                GroupMember(
                    row: member.row, state: member.state,
                    policies: member.table.policies(for: member.state),
                    positions: member.table === table
                        ? nil : table.positions(in: member.table))
            }, constrained: table.constrained, policies: table.entity.policies)
    }
}

extension RowState {
    /// Whether any register has more than one sibling: only then can there be conflicts.
    var hasSiblings: Bool {
        existence.siblings.count > 1 || properties.contains { $0.siblings.count > 1 }
    }
}

extension LoadedRow {
    /// The row's keys: of its own visible values, before any combination.
    var keys: [UniqueKey] { isAlive ? table.keys(of: state) : [] }

    /// The order in which rows of a group are taken.
    static func isEarlier(_ left: LoadedRow, _ right: LoadedRow) -> Bool {
        switch (left.state.insertionStamp, right.state.insertionStamp) {
        case (let first?, let second?) where first != second: first < second
        default: left.row < right.row
        }
    }
}
