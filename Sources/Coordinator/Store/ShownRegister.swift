package import Merge

/// The register that a property is shown from: of the object itself or, where objects are united by a
/// unique key, of the one whose value is shown.
package struct ShownRegister: Hashable, Sendable {
    /// The sibling that readers see.
    package let visible: Sibling<PropertyValue>
    /// All siblings of the register, the visible one included.
    package let siblings: [Sibling<PropertyValue>]
}

extension StoreReader {
    /// The registers that a living row's properties are shown from, by position; nil where nobody ever
    /// wrote one. Nil as a whole where there is no such row.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package func shownRegisters(
        _ entity: ManagedObjectModel.Entity, _ row: RowID
    ) throws -> [ShownRegister?]? {
        guard let table = try concreteTable(entity, row),
            let state = try registers(table.entity, row)
        else { return nil }
        let loaded = try group(of: row, table, state, actors())
        return table.entity.properties.indices.map { loaded.shownRegister($0) }
    }
}

extension LoadedRow {
    fileprivate func shownRegister(_ position: Int) -> ShownRegister? {
        guard let visible = shown(position) else { return nil }
        for member in [self] + eclipsed.sorted(by: { $0.row < $1.row }) {
            let place = member.table.entity.position(of: table.entity.properties[position].name)
            guard let place else { continue }
            let policies = member.table.policies(for: member.state)
            guard let own = member.state.visible(place, policies), own == visible else { continue }
            guard policies.isRowGrained else {
                return ShownRegister(
                    visible: visible, siblings: member.state.properties[place].siblings)
            }
            return ShownRegister(
                visible: visible,
                siblings: member.state.existence.siblings.compactMap { sibling in
                    guard case .whole(let values) = sibling.value, place < values.count else {
                        return nil
                    }
                    return Sibling(stamp: sibling.stamp, value: values[place])
                })
        }
        return ShownRegister(visible: visible, siblings: [visible])
    }
}
