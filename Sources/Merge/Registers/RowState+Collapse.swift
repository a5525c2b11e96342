/// The values that stability removed from a row.
package struct RowCollapse: Hashable, Sendable {
    /// Property siblings removed, with their property's position.
    package var properties: [PropertySibling] = []
    /// Existence siblings whose values were removed; their dots stay in the version.
    package var existence: [Sibling<Existence>] = []

    /// One removed sibling of a property.
    package struct PropertySibling: Hashable, Sendable {
        /// The property, in the entity's canonical order.
        package let position: Int
        /// The removed sibling.
        package let sibling: Sibling<PropertyValue>
    }

    /// Whether nothing was removed.
    package var isEmpty: Bool { properties.isEmpty && existence.isEmpty }
}

extension RowState {
    /// Collapses what stability permits (DESIGN sections 5.1 and 5.3, MODEL P1, P2, P4).
    ///
    /// A register whose siblings are all stable keeps its visible one. Unresolved conflicts
    /// never collapse. Of the row's version only values go, never dots. A register of a dead
    /// row waits for the row itself: see ``isCollectable(stable:policies:)``.
    package mutating func collapse(
        stable: VersionVector, policies: EntityPolicies
    ) -> RowCollapse {
        var result = RowCollapse()
        guard isAlive(policies) else { return result }
        for position in properties.indices {
            let policy = policies.properties[position]
            if policy.leavesUnresolved, properties[position].isInConflict { continue }
            for sibling in properties[position].collapse(
                stable: stable, visible: { $0.visible(by: policy) })
            {
                result.properties.append(.init(position: position, sibling: sibling))
            }
        }
        guard policies.isRowGrained,
            !(policies.entity.leavesUnresolved && existence.isInConflict)
        else { return result }
        let choice = policies.entity.choice
        result.existence = existence.collapse(stable: stable) { $0.visible(choice) }
        if !result.existence.isEmpty {
            collapsedDots = (collapsedDots + result.existence.map(\.dot)).sorted()
        }
        return result
    }

    /// Whether the row is dead for good: its tombstone may go.
    ///
    /// That needs *all* siblings of its existence register to be stable, not the delete alone
    /// (MODEL P4), and no conflict that waits for a person.
    package func isCollectable(stable: VersionVector, policies: EntityPolicies) -> Bool {
        !isEmpty && !isAlive(policies)
            && existence.siblings.allSatisfy { stable.contains($0.dot) }
            && collapsedDots.allSatisfy { stable.contains($0) }
    }
}
