import Merge

/// Compares what the product shows of a row with what the reference does.
extension RecordedHistory {
    /// The first difference, in words; nil where there is none.
    ///
    /// - Parameter collapsed: whether stability may have removed what it may: then only what is
    ///   promised to stay is compared (values, version, unresolved conflicts).
    func difference(
        _ state: RowState, _ applied: PositionSet, collapsed: Bool = false
    ) -> String? {
        let row = reference(applied)
        let version = row.version
        if version.isEmpty { return state.isEmpty ? nil : "the row should not be there" }
        let alive = row.isAlive
        if state.isAlive(policies) != alive { return "alive should be \(alive)" }
        if state.version.dots != version.map({ stamps[$0].dot }).sorted() {
            return "the version should be \(version), is \(state.version)"
        }
        let insertion = row.insertion.map { stamps[$0] }
        if state.insertionStamp != insertion { return "insertion should be \(insertion as Any)" }
        if alive {
            for property in policies.properties.indices {
                let expected = row.shown(property)
                let found = state.visible(property, policies)
                let value = expected.map {
                    $0.value.map { .integer(Int64($0)) } ?? PropertyValue.null
                }
                if found?.value != value || found?.stamp != expected.map({ stamps[$0.write] }) {
                    return "property \(property) should be \(expected as Any), "
                        + "is \(found as Any)"
                }
            }
        }
        if !collapsed, !row.isRowGrained {
            for property in policies.properties.indices {
                let expected = row.siblings(ofProperty: property).map { stamps[$0] }
                let found = state.properties[property].siblings.map(\.stamp)
                if expected != found { return "siblings of \(property) differ" }
            }
        }
        return differenceOfConflicts(state, row, collapsed: collapsed)
    }

    private func differenceOfConflicts(
        _ state: RowState, _ row: ReferenceRow, collapsed: Bool
    ) -> String? {
        let found = state.conflicts(policies).filter { !collapsed || $0.state == .unresolved }
        let expected = row.conflicts.filter { !collapsed || $0.isUnresolved }
        if found.isEmpty, expected.isEmpty { return nil }
        guard found.count == expected.count else {
            return "\(expected.count) conflicts expected, not \(found.count)"
        }
        for (found, expected) in zip(found, expected) {
            let subject: RegisterConflict.Subject =
                if let property = expected.property { .property(property) } else { .object }
            if found.subject != subject || found.kind != expected.kind
                || (found.state == .unresolved) != expected.isUnresolved
                || found.stamps != expected.sides.map({ stamps[$0] })
            {
                return "conflict should be \(expected), is \(found)"
            }
        }
        return nil
    }
}
