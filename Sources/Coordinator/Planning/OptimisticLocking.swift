import Merge

/// The fate of one operation whose object has moved on since it was fetched.
enum Settlement {
    /// The save must not happen: the error policy.
    case conflict
    /// These values are written over the store's.
    case write([(position: Int, value: PropertyValue)])
    /// The object is deleted.
    case delete
    /// The deleted object comes back with these values, whole.
    case revive([PropertyValue])
    /// The store stands; the operation is dropped.
    case drop
}

/// A context's merge policy at a save, as in Core Data (CONFORMANCE CD-2 to CD-24).
///
/// Pure: from the operation, the object as the store has it and the policy to the outcome.
enum OptimisticLocking {
    /// Settles an operation whose object has another version by now, or is gone.
    ///
    /// - Parameter changedInStore: positions of properties that the store has changed since.
    static func settle(
        _ operation: SaveOperation, store: LoadedRow?, changedInStore: Set<Int>,
        policy: MergePolicy
    ) -> Settlement {
        if policy.leavesUnresolved { return .conflict }
        guard let store, store.isAlive else {
            return settleDeleted(operation, store: store, policy: policy)
        }
        switch operation.kind {
        case .insert, .check: return .drop
        case .delete: return policy == .rollback ? .drop : .delete
        case .update: break
        }
        switch policy {
        case .rollback: return .drop
        case .mergeByPropertyStoreTrump:
            return .write(operation.values.filter { !changedInStore.contains($0.position) })
        // Named policies are for attributes, and no save has one.
        case .mergeByPropertyObjectTrump, .named: return .write(operation.values)
        case .overwrite, .error, .errorByRow:
            // The whole object as the context had it goes over the store's. What a register still
            // holds is not written: a reference to what is gone by now reads as null and stays
            // (MODEL P13), and is no claim of the caller's that could be refused.
            guard let snapshot = operation.snapshot else { return .write(operation.values) }
            let assigned = Set(operation.values.map(\.position))
            var values = operation.values
            for (position, value) in snapshot.enumerated()
            where !assigned.contains(position) && changedInStore.contains(position)
                && store.shown(position)?.value != value
            {
                values.append((position, value))
            }
            return .write(values)
        }
    }

    private static func settleDeleted(
        _ operation: SaveOperation, store: LoadedRow?, policy: MergePolicy
    ) -> Settlement {
        guard policy == .overwrite, operation.kind == .update else { return .drop }
        // A tombstone still has what each property was, unless the row is one register: then it has
        // nothing but the delete. Nobody may give the object up, or others' values, for that.
        let isWhole = !(store?.table.entity.policies.isRowGrained ?? true)
        guard var whole = operation.snapshot ?? (isWhole ? store?.columns : nil) else {
            return .conflict
        }
        for (position, value) in operation.values { whole[position] = value }
        return .revive(whole)
    }

    /// The properties whose values the store has changed since the operation's object was
    /// fetched.
    ///
    /// With a snapshot values are compared, so that 1, 2, 1 is no change (MODEL A11). Without
    /// one, as in the HTTP interface, every property not written by the version that the caller
    /// named, nor before it, has changed.
    static func changedInStore(
        _ operation: SaveOperation, store: LoadedRow, knownToCaller: (Dot) -> Bool
    ) -> Set<Int> {
        var result = Set<Int>()
        for position in store.columns.indices {
            if let snapshot = operation.snapshot {
                if position < snapshot.count, snapshot[position] != store.columns[position] {
                    result.insert(position)
                }
            } else if let visible = store.shown(position),
                !knownToCaller(visible.dot)
            {
                result.insert(position)
            }
        }
        return result
    }
}
