import Merge

/// The registers as readers see them, of a row that may be united with others: fetches show exactly
/// what its conflicts mark as visible.
struct GroupSight {
    private let row: LoadedRow
    /// The row that stands for the group, with all its members; nil where nothing is united.
    private let united: LoadedRow?

    /// - Parameter survivor: the row that is shown in place of this one, where one is.
    init(of row: LoadedRow, survivor: LoadedRow?) {
        self.row = row
        let standing = row.eclipsed.isEmpty ? survivor : row
        // Under an error policy nothing is united: each row has its own values.
        let isUnited = standing.map { !$0.table.entity.policies.entity.leavesUnresolved } ?? false
        united = isUnited ? standing : nil
    }

    /// The write of a property that readers see, where it is one of this row's siblings: the one that the
    /// policy chooses; of a united row the one that is shown of the group, though one save wrote it to
    /// several rows.
    ///
    /// - Parameter visible: what the policy chooses of the row's own siblings.
    func shown(
        of siblings: [Sibling<PropertyValue>], _ visible: Sibling<PropertyValue>?, at position: Int
    ) -> Dot? {
        guard let united else { return visible?.dot }
        guard
            let place = united.table.entity.position(
                of: row.table.entity.properties[position].name),
            let shown = united.shown(place)
        else { return nil }
        return siblings.first { $0.stamp == shown.stamp && $0.value == shown.value }?.dot
    }

    /// Whether readers see the row as a whole, where rows are one register.
    var showsWhole: Bool {
        guard let united, let whole = united.combination.wholeRow else { return true }
        return whole.row == row.row
    }
}
