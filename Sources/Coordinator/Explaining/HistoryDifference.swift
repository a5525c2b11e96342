package import Merge

/// An object that differs between two points of history.
package struct DifferingObject: Hashable, Sendable {
    /// How an object differs.
    package enum Kind: String, Hashable, Sendable {
        /// It is there at the later point alone.
        case insert
        /// It is there at both, and was written between.
        case update
        /// It is there at the earlier point alone.
        case delete
    }

    /// The object.
    package let object: ManagedObjectID
    /// How it differs.
    package let kind: Kind
    /// The properties that were written, by name, with their values at the later point. Where that is not
    /// the present, the value is the last one written in the order applied here.
    package var values: [String: PropertyValue]
    /// The many-to-many relationships that were written.
    package var relationships: Set<String>
    /// The saves that wrote it, the newest 100 at most, in the order applied here.
    package let transactions: [Dot]
}

extension StoreReader {
    /// The most objects of one difference.
    private static var mostDiffering: Int { 100_000 }
    /// The most bytes of values that are kept for one.
    private static var mostBytes: Int { 64 << 20 }

    /// The objects that differ between two points, sorted by entity and row.
    ///
    /// Reads what one point covers and the other does not, and nothing else. Objects that came and went
    /// between are left out.
    ///
    /// - Parameters:
    ///   - from: what the earlier point covers.
    ///   - to: what the later point covers; what it lacks of the earlier does not count.
    ///   - entity: only objects of this one, and of those that inherit from it.
    /// - Throws: ``CoordinatorError``: `historyTokenExpired` where what is between was purged,
    ///   `malformed` where more than 100,000 objects differ, or values of more than 64 MiB at an earlier point.
    package func difference(
        from: VersionVector, to: VersionVector, entity: String? = nil
    ) throws -> [DifferingObject] {
        let token = try token
        let start = try LogSearch(database: database, actors: try actors()).position(
            seen: from, own: token.versionVector, last: token.position)
        guard var place = start else {
            throw CoordinatorError(
                .historyTokenExpired, "Some of what lies between the two points was purged here.")
        }
        let family = try entity.map { name -> Set<String> in
            guard let entity = catalog.model.entity(named: name) else {
                throw CoordinatorError(.malformed, catalog.model.noEntity(name))
            }
            return Set(entity.familyNames)
        }
        let isPresent = to.covers(token.versionVector)
        var found: [RowID: Written] = [:]
        var bytes = 0
        while true {
            try checkGoingOn()
            let page = try history(afterPosition: place, limit: 1_000, byteLimit: 8 << 20)
            guard let last = page.last else { break }
            place = last.position
            for logged in page {
                let transaction = logged.encoded.transaction
                guard to.contains(transaction.dot), !from.contains(transaction.dot) else {
                    continue
                }
                try collect(catalog.asOwn(transaction), keepsValues: !isPresent, &found)
                // At the present the values are read again. Else they are all kept.
                if !isPresent { bytes += logged.encoded.plainSize }
            }
            guard found.count <= Self.mostDiffering, bytes <= Self.mostBytes else {
                throw CoordinatorError(
                    .malformed,
                    "Too much differs: more than \(Self.mostDiffering) objects, or values of more than "
                        + "\(Self.mostBytes) bytes. Name points that "
                        + "are nearer to each other.")
            }
        }
        return try found.compactMap { row, written in
            try differing(row, written, family, isPresent: isPresent)
        }.sorted {
            ($0.object.entityName, $0.object.row) < ($1.object.entityName, $1.object.row)
        }
    }

    /// What saves between two points wrote to one row.
    fileprivate struct Written {
        var entity: String
        /// Whether the first of them made it.
        var isNew: Bool
        /// Whether the last of them left it there.
        var isLeft = true
        var values: [String: PropertyValue] = [:]
        var relationships: Set<String> = []
        var transactions: [Dot] = []
    }

    private func collect(
        _ transaction: Transaction, keepsValues: Bool, _ found: inout [RowID: Written]
    ) throws {
        for change in transaction.changes {
            let shape = transaction.shapes[change.shape]
            if change.target != nil {
                guard let dot = shape.entity.firstIndex(of: ".") else { continue }
                var written =
                    try found[change.row]
                    ?? Written(
                        entity: own(String(shape.entity[..<dot]), change.row), isNew: false)
                written.relationships.insert(String(shape.entity[dot...].dropFirst()))
                written.note(transaction.dot)
                found[change.row] = written
                continue
            }
            let isMade = change.kind == .insert || change.kind == .revival
            var written = found[change.row] ?? Written(entity: shape.entity, isNew: isMade)
            written.entity = shape.entity
            written.note(transaction.dot)
            if change.kind == .delete {
                written.isLeft = false
            } else {
                if isMade { written.isLeft = true }
                let names = isMade ? shape.assigned + shape.carried : shape.assigned
                for (name, value) in zip(names, change.values) {
                    written.values[name] = keepsValues ? value : .null
                }
            }
            found[change.row] = written
        }
    }

    /// The own entity of a row that a link names by the entity of its relationship.
    private func own(_ entity: String, _ row: RowID) throws -> String {
        guard let named = catalog.model.entity(named: entity), named.sharesTable else {
            return entity
        }
        return try concreteTable(named, row)?.entity.name ?? entity
    }

    private func differing(
        _ row: RowID, _ written: Written, _ family: Set<String>?, isPresent: Bool
    ) throws -> DifferingObject? {
        if let family, !family.contains(written.entity) { return nil }
        try checkGoingOn()
        var written = written
        if isPresent, let entity = catalog.model.entity(named: written.entity) {
            let snapshot = try self.row(entity, row)
            written.isLeft = snapshot?.objectID.row == row
            if written.isLeft, let snapshot {
                for name in written.values.keys {
                    guard let position = entity.columnPosition(of: name) else { continue }
                    written.values[name] = snapshot.values[position]
                }
            }
        }
        if written.isNew && !written.isLeft { return nil }
        return DifferingObject(
            object: ManagedObjectID(entityName: written.entity, row: row),
            kind: written.isNew ? .insert : written.isLeft ? .update : .delete,
            values: written.isLeft ? written.values : [:],
            relationships: written.isLeft ? written.relationships : [],
            transactions: written.transactions)
    }
}

extension StoreReader.Written {
    fileprivate mutating func note(_ dot: Dot) {
        if transactions.last == dot { return }
        transactions.append(dot)
        // The newest tell most.
        if transactions.count > 100 { transactions.removeFirst() }
    }
}
