import Merge

extension SaveRequest {
    /// The identity of a save's operations among others under the same ID: a hash of what they ask
    /// for, whatever the order in which a client writes an object's properties.
    ///
    /// Versions and snapshots are left out, because a client that repeats a save may have read the
    /// objects again. So are the temporary identities of inserted objects, which count by their
    /// order.
    var fingerprint: [UInt8] {
        var places: [RowID: Int64] = [:]
        for operation in operations where operation.kind == .insert {
            places[operation.row] = -1 - Int64(places.count)
        }
        var hasher = StableHasher(seed: 0x5A7E)
        for operation in operations {
            hasher.combine(operation.canonicalBytes { places[$0] ?? $0.rawValue })
        }
        return hasher.finalizedBytes
    }
}

extension StableHasher {
    /// The hash in sixteen bytes.
    var finalizedBytes: [UInt8] {
        let (high, low) = finalize()
        return [high, low].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> (56 - 8 * $0)) }
        }
    }
}

extension SaveOperation {
    /// - Parameter identity: what stands for a row.
    fileprivate func canonicalBytes(_ identity: (RowID) -> Int64) -> [UInt8] {
        func isBefore(_ left: String, _ right: String) -> Bool {
            left.utf8.lexicographicallyPrecedes(right.utf8)
        }
        var writer = CBORWriter(capacity: 256)
        let kindName =
            switch kind {
            case .insert: "insert"
            case .update: "update"
            case .delete: "delete"
            case .check: "check"
            }
        writer.write(kindName)
        writer.write(entity.name)
        writer.write(identity(row))
        writer.write(resolves)
        let named = values.map { (entity.properties[$0.position].name, $0.value) }
            .sorted { isBefore($0.0, $1.0) }
        writer.beginArray(named.count)
        for (name, value) in named {
            writer.write(name)
            if case .reference(let target) = value {
                writer.write(PropertyValue.reference(RowID(identity(target))))
            } else {
                writer.write(value)
            }
        }
        let changes = relationships.sorted { left, right in
            left.name == right.name
                ? isBefore(left.kind.rawValue, right.kind.rawValue)
                : isBefore(left.name, right.name)
        }
        writer.beginArray(changes.count)
        for change in changes {
            writer.write(change.name)
            writer.write(change.kind.rawValue)
            let members = Set(change.members.map(identity)).sorted()
            writer.beginArray(members.count)
            for member in members { writer.write(member) }
        }
        // Nothing is written for other operations, so that theirs stay what earlier releases kept.
        guard hasPremises else { return writer.bytes }
        let amounts = increments.map { (entity.properties[$0.position].name, $0.amount) }
            .sorted { isBefore($0.0, $1.0) }
        writer.beginArray(amounts.count)
        for (name, amount) in amounts {
            writer.write(name)
            writer.write(amount)
        }
        writer.write(condition?.predicate.description)
        return writer.bytes
    }
}
