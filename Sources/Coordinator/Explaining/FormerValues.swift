import Merge

/// Finds what properties of rows showed before some saves, by the writes that the log has.
///
/// A value was shown that no other write which those saves had seen had seen, and of several the one that
/// the policy chooses. Where every write that may still be found is in the past of one that is found, the
/// search ends.
struct FormerValues {
    /// A row, and what is wanted of it.
    struct Wanted {
        var entity: ManagedObjectModel.Entity
        var names: Set<String>
        /// What the saves that are undone had seen of it.
        var seen: VersionVector
    }

    private struct Candidate {
        let stamp: Stamp
        let seen: VersionVector
        let value: PropertyValue
    }

    private let reader: StoreReader
    /// The saves that are undone.
    private let undone: Set<Dot>
    private var wanted: [RowID: Wanted]
    private var candidates: [RowID: [String: [Candidate]]] = [:]
    /// Of each actor the transactions that have not been looked at yet.
    private var unseen: VersionVector
    /// The rows that are still looked for.
    private var left: Set<RowID>

    init(_ wanted: [RowID: Wanted], before undone: Set<Dot>, _ reader: StoreReader) throws {
        self.reader = reader
        self.undone = undone
        self.wanted = wanted
        left = Set(wanted.keys)
        unseen = try reader.token.versionVector
    }

    /// Looks through the log backwards, from a position on.
    ///
    /// - Returns: the values by row and name; a name without one is not told by the log.
    mutating func found(
        before position: Int64
    ) throws -> [RowID: [String: PropertyValue]] {
        var place = UInt64(position)
        var pages = 0
        while !left.isEmpty {
            try reader.checkGoingOn()
            let page = try reader.history(beforePosition: place, limit: 64, byteLimit: 4 << 20)
            guard let last = page.last else { break }
            place = last.position
            for logged in page { try note(logged.encoded.transaction) }
            pages += 1
            // Concurrent writes end their search late, so all are looked at again now and then.
            if pages.isMultiple(of: 16) { for row in left where isWhole(row) { left.remove(row) } }
        }
        return candidates.reduce(into: [:]) { result, row in
            guard let entity = wanted[row.key]?.entity else { return }
            var values: [String: PropertyValue] = [:]
            for (name, known) in row.value { values[name] = chosen(known, name, entity) }
            result[row.key] = values
        }
    }

    private mutating func note(_ logged: Transaction) throws {
        let dot = logged.dot
        if unseen[dot.actor] >= dot.sequence {
            unseen = unseen.filter { $0.actor != dot.actor }
            unseen.advance(dot.actor, to: dot.sequence - 1)
        }
        guard !undone.contains(dot), logged.changes.contains(where: { left.contains($0.row) })
        else { return }
        let transaction = reader.catalog.asOwn(logged)
        for change in transaction.changes where change.target == nil && change.kind != .delete {
            guard left.contains(change.row), let row = wanted[change.row], row.seen.contains(dot)
            else { continue }
            let shape = transaction.shapes[change.shape]
            let isNew = change.kind == .insert || change.kind == .revival
            let names = shape.assigned + shape.carried
            for (name, value) in zip(names, change.values) where row.names.contains(name) {
                add(value, name, change.row, transaction)
            }
            if isNew {
                for name in row.names.subtracting(names) {
                    add(.null, name, change.row, transaction)
                }
            }
            if change.kind == .insert || isWhole(change.row) { left.remove(change.row) }
        }
    }

    private mutating func add(
        _ value: PropertyValue, _ name: String, _ row: RowID, _ transaction: Transaction
    ) {
        var known = candidates[row]?[name] ?? []
        // One that another one had seen was written over.
        if known.contains(where: { $0.seen.contains(transaction.dot) }) { return }
        known.append(
            Candidate(stamp: transaction.stamp, seen: transaction.seen, value: value))
        candidates[row, default: [:]][name] = known
    }

    /// Whether nothing that is still to be found could have been shown.
    private func isWhole(_ row: RowID) -> Bool {
        guard let wanted = wanted[row], let found = candidates[row] else { return false }
        return wanted.names.allSatisfy { name in
            guard let known = found[name] else { return false }
            return wanted.seen.entries.allSatisfy { entry in
                let rest = min(entry.sequence, unseen[entry.actor])
                return known.contains { candidate in
                    candidate.seen[entry.actor] >= rest
                }
            }
        }
    }

    /// The value that readers saw of several that stood beside each other.
    private func chosen(
        _ known: [Candidate], _ name: String, _ entity: ManagedObjectModel.Entity
    ) -> PropertyValue? {
        let sorted = known.sorted { $0.stamp < $1.stamp }
        guard !sorted.isEmpty else { return nil }
        var policy = entity.policies.entity
        if !entity.policies.isRowGrained, let position = entity.position(of: name) {
            policy = entity.policies.properties[position]
        }
        if case .named(let named) = policy {
            let writes = sorted.map {
                NamedMergePolicy.Write(
                    value: $0.value, timestamp: $0.stamp.timestamp, dot: $0.stamp.dot)
            }
            return sorted[named.chosen(among: writes)].value
        }
        return policy.choice == .latest ? sorted.last?.value : sorted.first?.value
    }
}
