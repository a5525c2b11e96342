import Coordinator
import Merge
import Testing

/// What the rules make of a set of saves, computed by brute force from nothing but the saves:
/// no registers, no order of arrival.
struct SaveOracle {
    /// One write of one transaction to one row.
    struct Write {
        let transaction: Transaction
        let kind: Change.Kind
        let entity: ManagedObjectModel.Entity
        let values: [Int: PropertyValue]
        var dot: Dot { transaction.dot }
        var stamp: Stamp { transaction.stamp }
    }

    let model: ManagedObjectModel
    private(set) var writes: [RowID: [Write]] = [:]

    init(_ model: ManagedObjectModel, _ transactions: [EncodedTransaction]) {
        self.model = model
        for encoded in transactions {
            let transaction = encoded.transaction
            for change in transaction.changes where change.target == nil {
                let shape = transaction.shapes[change.shape]
                guard let entity = model.entity(named: shape.entity) else { continue }
                var values: [Int: PropertyValue] = [:]
                for (name, value) in zip(shape.assigned + shape.carried, change.values)
                where change.kind != .delete {
                    if let position = entity.position(of: name) { values[position] = value }
                }
                if change.kind == .insert || change.kind == .revival {
                    for position in entity.properties.indices where values[position] == nil {
                        values[position] = .null
                    }
                }
                writes[change.row, default: []].append(
                    Write(
                        transaction: transaction, kind: change.kind, entity: entity,
                        values: values))
            }
        }
    }

    /// Those of some writes that no other of them has seen, earliest first.
    private func maximal(_ writes: [Write]) -> [Write] {
        writes.filter { write in
            !writes.contains { $0.transaction.seen.contains(write.dot) }
        }.sorted { $0.stamp < $1.stamp }
    }

    func siblings(of row: RowID) -> [Write] { maximal(writes[row] ?? []) }

    func siblings(of row: RowID, _ position: Int) -> [Write] {
        maximal((writes[row] ?? []).filter { $0.kind != .delete && $0.values[position] != nil })
    }

    func isAlive(_ row: RowID) -> Bool {
        let siblings = siblings(of: row)
        guard let entity = siblings.first?.entity else { return false }
        let says = siblings.map { $0.kind != .delete }
        return switch entity.policies.entity {
        case .error, .errorByRow: says.contains(true)
        case .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump: !says.contains(false)
        case .rollback: says.first ?? false
        case .overwrite, .named: says.last ?? false
        }
    }

    /// The write whose value a living row shows in a property.
    func shown(_ row: RowID, _ position: Int) -> Write? {
        guard let entity = writes[row]?.first?.entity else { return nil }
        let policy = entity.policies.properties[position]
        let candidates =
            entity.policies.isRowGrained
            ? siblings(of: row).filter { $0.kind != .delete } : siblings(of: row, position)
        if case .named(let named) = policy, candidates.count > 1 {
            let chosen = named.chosen(
                among: candidates.map {
                    .init(
                        value: $0.values[position] ?? .null, timestamp: $0.stamp.timestamp,
                        dot: $0.stamp.dot)
                })
            return candidates[chosen]
        }
        return policy.choice == .earliest ? candidates.first : candidates.last
    }

    /// The reference a living row asks for, whether or not readers see it.
    func claim(_ row: RowID, _ position: Int) -> RowID? {
        guard case .reference(let target)? = shown(row, position)?.values[position] else {
            return nil
        }
        return target
    }

    /// What readers see of a property of a living row.
    func value(_ row: RowID, _ position: Int) -> PropertyValue {
        guard let write = shown(row, position), let value = write.values[position] else {
            return .null
        }
        guard case .reference(let target) = value else { return value }
        if !isAlive(target) { return .null }
        guard let name = inverseOfOneToOne(write.entity, position) else { return value }
        // Of several that claim one target, policy's earliest or latest write stands.
        var best: (stamp: Stamp, row: RowID)?
        for other in writes.keys.sorted() where isAlive(other) {
            guard let entity = writes[other]?.first?.entity, entity.root == write.entity.root,
                let own = entity.position(of: name), claim(other, own) == target,
                let stamp = shown(other, own)?.stamp
            else { continue }
            let isBetter =
                best.map { best in
                    entity.policies.properties[own].choice == .earliest
                        ? stamp < best.stamp : best.stamp < stamp
                } ?? true
            if isBetter { best = (stamp, other) }
        }
        return best?.row == row ? value : .null
    }

    private func inverseOfOneToOne(_ entity: ManagedObjectModel.Entity, _ position: Int) -> String?
    {
        let name = entity.properties[position].name
        guard let relationship = entity.relationship(named: name),
            let inverse = relationship.description.inverse,
            let other = model.entity(named: relationship.destination)?
                .relationship(named: inverse), !other.isToMany
        else { return nil }
        return name
    }

    // MARK: Nothing is lost

    /// Property writes that are neither visible, nor overwritten by someone who had seen them,
    /// nor in the journal.
    func lost(_ journal: [Conflict]) -> [String] {
        var result: [String] = []
        for (row, all) in writes.sorted(by: { $0.key < $1.key }) {
            let entries = journal.filter { $0.id.row == row }
            let isAlive = isAlive(row)
            for write in all where write.kind != .delete {
                let isRow = write.entity.policies.isRowGrained
                for (position, value) in write.values.sorted(by: { $0.key < $1.key }) {
                    let over = all.contains { later in
                        later.transaction.seen.contains(write.dot)
                            && (isRow || later.kind == .delete || later.values[position] != nil)
                    }
                    if over { continue }
                    if isAlive, shown(row, position)?.dot == write.dot { continue }
                    if isAlive, shown(row, position)?.values[position] == value { continue }
                    let name = write.entity.properties[position].name
                    let isThere = entries.contains { entry in
                        entry.sides.contains { side in
                            (side.dot == write.dot && (side.value == value || isRow))
                                || side.row.contains { $0.name == name && $0.value == value }
                        }
                    }
                    if isThere { continue }
                    result.append("\(write.entity.name)/\(row).\(name) = \(value) of \(write.dot)")
                }
            }
        }
        return result
    }
}
