import Merge

/// A set of saves, sorted by what they were written to.
struct History {
    private(set) var rows: [RowID: [ReferenceWrite]] = [:]
    private(set) var links: [ReferenceLink.Key: [ReferenceWrite]] = [:]
    /// As what each row was inserted, or came to be by an undo.
    private(set) var entities: [RowID: String] = [:]

    init(_ transactions: [Transaction], at vector: VersionVector?) {
        var known = Set<Dot>()
        for transaction in transactions {
            if let vector, !vector.contains(transaction.dot) { continue }
            guard known.insert(transaction.dot).inserted else { continue }
            for change in transaction.changes { add(change, of: transaction) }
        }
    }

    private mutating func add(_ change: Change, of transaction: Transaction) {
        guard transaction.shapes.indices.contains(change.shape) else { return }
        let shape = transaction.shapes[change.shape]
        switch change.kind {
        case .link, .unlink:
            guard let target = change.target else { return }
            let key = ReferenceLink.Key(name: shape.entity, source: change.row, target: target)
            var writes = links[key] ?? []
            // A transaction says one thing of a register: the last it says.
            if writes.last?.dot == transaction.dot { writes.removeLast() }
            writes.append(ReferenceWrite(transaction, isDeath: change.kind == .unlink))
            links[key] = writes
        case .insert, .update, .revival, .delete:
            // What a policy discarded at the save was inserted by nobody; an undo brings it to be.
            if change.kind == .insert || (change.kind == .revival && entities[change.row] == nil) {
                entities[change.row] = shape.entity
            }
            var writes = rows[change.row] ?? []
            var write = ReferenceWrite(transaction, isDeath: change.kind == .delete)
            if let earlier = writes.last, earlier.dot == transaction.dot {
                write.isWhole = earlier.isWhole && !write.isDeath
                write.values = earlier.values
                write.assigned = earlier.assigned
                writes.removeLast()
            }
            write.isWhole = write.isWhole || change.kind == .insert || change.kind == .revival
            write.assigned.formUnion(shape.assigned)
            // The values of a delete are kept for history.
            for (name, value) in zip(shape.assigned + shape.carried, change.values)
            where !write.isDeath {
                write.values[name] = value
            }
            writes.append(write)
            rows[change.row] = writes
        }
    }
}
