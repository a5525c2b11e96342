import Merge

/// A history in both tongues: the reference's numbers, and what the product is given.
struct RecordedHistory {
    let policies: EntityPolicies
    private(set) var writes: [ReferenceWrite] = []
    private(set) var stamps: [Stamp] = []
    private(set) var seens: [VersionVector] = []
    private(set) var rowWrites: [RowWrite] = []

    init(_ policies: EntityPolicies) { self.policies = policies }

    /// What the reference shows to somebody who has applied these writes.
    func reference(_ applied: PositionSet) -> ReferenceRow {
        ReferenceRow(
            history: writes, applied: applied, entity: policies.entity,
            properties: policies.properties)
    }

    /// The vector of somebody who has applied these writes.
    func vector(_ applied: PositionSet) -> VersionVector {
        var vector = VersionVector()
        for position in writes.indices where applied.contains(position) {
            vector.advance(to: stamps[position].dot)
        }
        return vector
    }

    /// Adds a write by a node that has applied `past`.
    ///
    /// Under a row-grained policy an update carries the rest of the row as its writer sees it,
    /// and a revival is given whole under every policy.
    mutating func append(
        node: Int, time: Int, past: PositionSet, kind: ReferenceWrite.Kind, values: [Int?]
    ) {
        var values = values
        if kind == .update, policies.isRowGrained {
            let view = reference(past)
            for property in values.indices where values[property] == nil {
                values[property] = view.shown(property)?.value
            }
        }
        let sequence = 1 + writes.count { $0.node == node }
        writes.append(
            ReferenceWrite(
                node: node, sequence: sequence, time: time, past: past, kind: kind,
                values: values))
        stamps.append(stamp(node, UInt64(sequence), at: UInt64(time)))
        var seen = VersionVector()
        for position in stamps.indices where past.contains(position) {
            seen.advance(to: stamps[position].dot)
        }
        seens.append(seen)
        let given: [(position: Int, value: PropertyValue)] = values.indices.compactMap {
            guard kind != .delete else { return nil }
            guard let value = values[$0] else { return policies.isRowGrained ? ($0, .null) : nil }
            return ($0, .integer(Int64(value)))
        }
        let rowKind: RowWrite.Kind =
            switch kind {
            case .insert: .insert
            case .update: .update
            case .delete: .delete
            case .revival: .revival
            }
        rowWrites.append(RowWrite(kind: rowKind, values: given))
    }

    mutating func removeLast() {
        writes.removeLast()
        stamps.removeLast()
        seens.removeLast()
        rowWrites.removeLast()
    }

    /// Applies the write at a position to the product's state.
    func apply(_ position: Int, to state: inout RowState) throws(RowAlarm) {
        try state.apply(
            rowWrites[position], stamp: stamps[position], seen: seens[position],
            policies: policies)
    }

    /// Whether a write may be applied next by somebody who has applied these.
    func isDeliverable(_ position: Int, after applied: PositionSet) -> Bool {
        !applied.contains(position) && applied.contains(writes[position].past)
    }

    /// A write, the first from a place on, that may be applied next by somebody who has applied these.
    func deliverable(after applied: PositionSet, from start: Int) -> Int? {
        writes.indices.lazy.map { (start + $0) % writes.count }
            .first { isDeliverable($0, after: applied) }
    }

    /// The time of the latest of these writes; 0 where there is none.
    func latestTime(_ applied: PositionSet) -> Int {
        writes.indices.filter(applied.contains).map { writes[$0].time }.max() ?? 0
    }

    /// The history as lines, for a failing test's message.
    var story: String {
        writes.indices.map {
            let write = writes[$0]
            let past = writes.indices.filter(write.past.contains).map(String.init)
            let values = write.values.map { $0.map(String.init) ?? "-" }
            return "\($0): node \(write.node) t\(write.time) \(write.kind) "
                + "[\(values.joined(separator: " "))] saw {\(past.joined(separator: " "))}"
        }.joined(separator: "\n")
    }
}
