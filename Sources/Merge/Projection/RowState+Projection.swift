extension RowState {
    /// Whether readers see the row.
    ///
    /// Property-grained trumps: a delete wins, in either order. `.error`: the row stays alive,
    /// for hiding data is the worse mistake. Row-grained: the earliest or latest write decides.
    package func isAlive(_ policies: EntityPolicies) -> Bool {
        let siblings = existence.siblings
        if siblings.count == 1 { return siblings[0].value.isAlive }
        switch policies.entity {
        case .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump:
            return !siblings.isEmpty && siblings.allSatisfy(\.value.isAlive)
        case .error, .errorByRow:
            return siblings.contains(where: \.value.isAlive)
        case .rollback, .overwrite, .named:
            return existence.visible(policies.entity.choice)?.value.isAlive ?? false
        }
    }

    /// The existence sibling whose whole row readers see under a row-grained policy.
    package func visibleWhole(_ policies: EntityPolicies) -> Sibling<Existence>? {
        let alive = existence.siblings.filter(\.value.isAlive)
        if policies.entity.leavesUnresolved { return alive.first }
        guard let visible = existence.visible(policies.entity.choice) else { return nil }
        if visible.value.isAlive { return visible }
        // The row is dead; its last values are those its tombstone keeps.
        return policies.entity.choice == .earliest ? alive.first : alive.last
    }

    /// The value that readers see of one property: the register's, before references are projected.
    ///
    /// - Returns: nil where nobody ever wrote the property: it is null.
    package func visible(
        _ position: Int, _ policies: EntityPolicies
    ) -> Sibling<PropertyValue>? {
        guard policies.isRowGrained else {
            return properties[position].visible(by: policies.properties[position])
        }
        guard let whole = visibleWhole(policies), case .whole(let values) = whole.value,
            position < values.count
        else { return nil }
        return Sibling(stamp: whole.stamp, value: values[position])
    }

    /// The write of a property that readers see, under a policy that is property-grained.
    package func visibleDot(_ position: Int, _ policies: EntityPolicies) -> Dot? {
        properties[position].visible(by: policies.properties[position])?.dot
    }

    /// The values that readers see of all properties, before references are projected; null where nobody
    /// ever wrote one.
    package func visibleValues(_ policies: EntityPolicies) -> [PropertyValue] {
        if policies.isRowGrained {
            guard let whole = visibleWhole(policies), case .whole(let values) = whole.value else {
                return [PropertyValue](repeating: .null, count: properties.count)
            }
            let missing = max(0, properties.count - values.count)
            return values.prefix(properties.count)
                + [PropertyValue](repeating: .null, count: missing)
        }
        var values: [PropertyValue] = []
        values.reserveCapacity(properties.count)
        for position in properties.indices {
            let visible = properties[position].visible(by: policies.properties[position])
            values.append(visible?.value ?? .null)
        }
        return values
    }

    /// The stamp that counts as the row's insertion: the earliest insert or revival.
    package var insertionStamp: Stamp? { insertion.siblings.first?.stamp }
}
