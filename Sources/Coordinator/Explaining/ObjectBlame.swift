package import Merge

/// The save that wrote something: who, when, why and under which name.
package struct SaveHeading: Hashable, Sendable {
    /// The transaction.
    package let dot: Dot
    /// When it was saved; nil, as all that follows, where history no longer has it.
    package let timestamp: HybridTimestamp?
    /// Who made it, where and why.
    package let description: SaveDescription
    /// The name by which it can be repeated.
    package let saveID: String?
    /// All that its writer had seen.
    package let seen: VersionVector?
}

/// Why an object's values are what they are.
package struct ObjectBlame: Hashable, Sendable {
    /// Why one property has its value.
    package struct Property: Hashable, Sendable {
        /// A write that the value beat, or stands beside.
        package struct Beaten: Hashable, Sendable {
            /// The conflict that tells of it.
            package let conflict: ConflictID
            /// Where the conflict stands.
            package let state: ConflictState
            /// The write.
            package let side: ConflictSide
            /// Why it is not shown.
            package let explanation: Explanation
        }

        /// How the value can be taken back.
        package enum Remedy: Hashable, Sendable {
            /// By undoing a conflict's outcome.
            case conflict(ConflictID)
            /// By undoing the save.
            case save(Dot)
        }

        /// The property's place among those of the entity.
        package let position: Int
        /// The value that readers see.
        package let value: PropertyValue
        /// The save that wrote it; nil where nobody ever did.
        package let write: SaveHeading?
        /// The value before, as the writer had seen it, where history near the write tells it.
        package var previous: (value: PropertyValue, write: SaveHeading)? {
            before.map { ($0.value, $0.write) }
        }
        fileprivate(set) var before: Before?
        /// The writes that it beat, or that stand undecided beside it, newest conflict first.
        package let beaten: [Beaten]
        /// How it can be taken back; nil where there is nothing before.
        package let remedy: Remedy?

        struct Before: Hashable, Sendable {
            let value: PropertyValue
            let write: SaveHeading
        }
    }

    /// The object; where another is shown in its place, that one.
    package let object: ManagedObjectID
    /// Whether readers see it.
    package let isAlive: Bool
    /// Its version, to save against; nil of one that is gone.
    package let version: RowVersion?
    /// The save that inserted it, as far as the store knows.
    package let inserted: SaveHeading?
    /// The save that deleted it; nil of one that is there.
    package let deleted: SaveHeading?
    /// Its properties, in the order of the entity.
    package let properties: [Property]
}

extension StoreReader {
    /// How many transactions before a write are looked through for the value that it replaced.
    package static var blameLookback: Int { 1_000 }

    /// Why an object's values are what they are.
    ///
    /// What is shown, by whom and against what takes a lookup for each save; only the values before are
    /// looked for in the log.
    ///
    /// - Parameters:
    ///   - object: which one.
    ///   - property: only this one; nil for all.
    ///   - lookback: how many transactions before a write are looked through for what it replaced.
    /// - Throws: ``CoordinatorError``: `objectNotFound` where the store never had it, `malformed` for an
    ///   unknown property.
    package func blame(
        _ object: ManagedObjectID, property: String? = nil, lookback: Int = blameLookback
    ) throws -> ObjectBlame {
        guard let named = catalog.model.entity(named: object.entityName) else {
            throw CoordinatorError(.malformed, catalog.model.noEntity(object.entityName))
        }
        var headings = SaveHeadings(reader: self)
        guard let snapshot = try row(named, object.row) else {
            return try blameGone(object, &headings)
        }
        let row = snapshot.objectID.row
        guard let entity = catalog.model.entity(named: snapshot.objectID.entityName),
            let state = try registers(entity, row), let shown = try shownRegisters(entity, row)
        else { throw CoordinatorError(.storeDamaged, "\(object) has no registers.") }
        if let property, entity.position(of: property) == nil {
            throw CoordinatorError(
                .malformed, entity.noProperty(property, kind: "stored property"))
        }
        let entries = try conflicts(ConflictQuery(object: snapshot.objectID, limit: 1_000))
        let insertion = state.insertion.siblings.map(\.dot)
        let names = Set(property.map { [$0] } ?? entity.properties.map(\.name))
        let assigners =
            entity.policies.isRowGrained
            ? try assigners(
                of: names, snapshot.objectID,
                shownBy: shown.lazy.compactMap { $0?.visible.dot }.first,
                lookback: max(lookback, 1)) : [:]
        var properties: [ObjectBlame.Property] = []
        for (position, stored) in entity.properties.enumerated() {
            if let property, stored.name != property { continue }
            let dot = shown[position]?.visible.dot
            let value = snapshot.values[position]
            let beaten = dot.map { Self.beaten(by: $0, value, stored.name, in: entries) } ?? []
            // Of a row that is written as a whole, the save that gave this property its value.
            let writer = assigners[stored.name] ?? dot
            var told = ObjectBlame.Property(
                position: position, value: value,
                write: try writer.map { try headings.heading($0) }, beaten: beaten,
                remedy: writer.flatMap { dot in
                    beaten.first { $0.state != .unresolved }.map { .conflict($0.conflict) }
                        ?? (insertion.contains(dot) ? nil : .save(dot))
                })
            told.before = try dot.flatMap {
                try Self.shown(before: $0, stored.name, in: entries, &headings)
            }
            properties.append(told)
        }
        try findPrevious(&properties, of: snapshot.objectID, insertion, lookback, &headings)
        return ObjectBlame(
            object: snapshot.objectID, isAlive: true, version: snapshot.version,
            inserted: try insertion.min().map { try headings.heading($0) }, deleted: nil,
            properties: properties)
    }

    /// Of an object that is gone: who deleted it.
    private func blameGone(
        _ object: ManagedObjectID, _ headings: inout SaveHeadings
    ) throws -> ObjectBlame {
        if let state = try registers(of: object.row)?.state {
            let deleted = state.existence.siblings.last { !$0.value.isAlive }
            return ObjectBlame(
                object: object, isAlive: false, version: nil,
                inserted: try state.insertion.siblings.map(\.dot).min().map {
                    try headings.heading($0)
                },
                deleted: try deleted.map { try headings.heading($0.dot) }, properties: [])
        }
        // Its tombstone is collected. Then only history tells.
        var (inserted, deleted): (Dot?, Dot?)
        try ObjectScan(reader: self, row: object.row).backwards { transaction in
            for change in transaction.changes where change.row == object.row {
                switch change.kind {
                case .delete: deleted = deleted ?? transaction.dot
                case .insert: inserted = transaction.dot
                case .update, .revival, .link, .unlink: break
                }
            }
            return inserted == nil
        }
        guard inserted != nil || deleted != nil else {
            throw CoordinatorError(
                .objectNotFound,
                "There is no \(object.entityName) \(object.row), and history has none.")
        }
        return ObjectBlame(
            object: object, isAlive: false, version: nil,
            inserted: try inserted.map { try headings.heading($0) },
            deleted: try deleted.map { try headings.heading($0) }, properties: [])
    }

    /// The writes that a property's value beat: the other sides of conflicts that it won, or closed.
    private static func beaten(
        by dot: Dot, _ value: PropertyValue, _ property: String, in entries: [Conflict]
    ) -> [ObjectBlame.Property.Beaten] {
        var known = Set<Dot>()
        return entries.flatMap { conflict -> [ObjectBlame.Property.Beaten] in
            guard conflict.property == property || conflict.kind == .row else { return [] }
            let closed = conflict.closedBy == dot
            guard closed || conflict.sides.contains(where: { $0.isVisible && $0.dot == dot }) else {
                return []
            }
            return conflict.sides.compactMap { side in
                guard let other = side.dot, other != dot, known.insert(other).inserted else {
                    return nil
                }
                // The side that a decision chose is not one that it beat.
                if closed, side.value == value { return nil }
                return .init(
                    conflict: conflict.id, state: conflict.state, side: side,
                    explanation: conflict.explanation)
            }
        }
    }

    /// Of a row-grained object the saves that gave properties the values that they have: each write carries the
    /// whole row along.
    ///
    /// - Parameters:
    ///   - dot: the write that readers see; what it had not seen is of another branch.
    ///   - lookback: how many transactions of the log are looked at.
    /// - Returns: by name, as far as those tell.
    func assigners(
        of names: Set<String>, _ object: ManagedObjectID, shownBy dot: Dot?, lookback: Int = .max
    ) throws -> [String: Dot] {
        var headings = SaveHeadings(reader: self)
        guard let dot, let seen = try headings.heading(dot).seen else { return [:] }
        var left = names
        var found: [String: Dot] = [:]
        try ObjectScan(reader: self, row: object.row).backwards(limit: lookback) { transaction in
            guard transaction.dot == dot || seen.contains(transaction.dot) else { return true }
            for change in transaction.changes
            where change.row == object.row && change.target == nil && change.kind != .delete {
                let isNew = change.kind == .insert || change.kind == .revival
                let assigned = transaction.shapes[change.shape].assigned
                let own = isNew ? left : left.intersection(assigned)
                for name in own { found[name] = transaction.dot }
                left.subtract(own)
            }
            return !left.isEmpty
        }
        return found
    }

    /// What the conflict showed that a write has closed.
    private static func shown(
        before dot: Dot, _ property: String, in entries: [Conflict], _ headings: inout SaveHeadings
    ) throws -> ObjectBlame.Property.Before? {
        for conflict in entries where conflict.closedBy == dot && conflict.property == property {
            guard let side = conflict.sides.first(where: \.isVisible), let value = side.value,
                let other = side.dot
            else { continue }
            return .init(value: value, write: try headings.heading(other))
        }
        return nil
    }

    /// Looks for the values before, for all properties of one write together.
    private func findPrevious(
        _ properties: inout [ObjectBlame.Property], of object: ManagedObjectID, _ insertion: [Dot],
        _ lookback: Int, _ headings: inout SaveHeadings
    ) throws {
        let names = catalog.model.entity(named: object.entityName)?.properties.map(\.name) ?? []
        let dots = properties.compactMap(\.write?.dot).filter { !insertion.contains($0) }
        for dot in Set(dots).sorted() {
            guard let place = try position(of: dot) else { continue }
            var left = Set(
                properties.indices.filter {
                    properties[$0].write?.dot == dot && properties[$0].before == nil
                })
            if left.isEmpty { continue }
            guard let seen = try headings.heading(dot).seen else { continue }
            try ObjectScan(reader: self, row: object.row).backwards(
                before: place, limit: lookback
            ) { transaction in
                guard seen.contains(transaction.dot) else { return true }
                for index in left.sorted() {
                    let name = names[properties[index].position]
                    guard let value = transaction.value(of: name, of: object.row) else { continue }
                    properties[index].before = .init(
                        value: value, write: SaveHeading(transaction))
                    left.remove(index)
                }
                return !left.isEmpty
            }
        }
    }

    /// The place of a transaction in the log; nil where it is not there.
    func position(of dot: Dot) throws -> Int64? {
        guard let integer = try actors().knownInteger(dot) else { return nil }
        let statement = try database.prepared("SELECT position FROM _transaction WHERE dot = ?1")
        statement.bind(1, integer)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return statement.integer(0)
    }
}

extension SaveHeading {
    /// What a transaction says of itself.
    package init(_ transaction: Transaction) {
        self.init(
            dot: transaction.dot, timestamp: transaction.timestamp,
            description: SaveDescription(
                author: transaction.author, contextName: transaction.contextName,
                note: transaction.note), saveID: transaction.saveID, seen: transaction.seen)
    }
}

/// The headings of saves, each read once.
struct SaveHeadings {
    let reader: StoreReader
    private var known: [Dot: SaveHeading] = [:]

    init(reader: StoreReader) { self.reader = reader }

    /// What the log has of a save; its dot alone where the log has not got it.
    mutating func heading(_ dot: Dot) throws -> SaveHeading {
        if let heading = known[dot] { return heading }
        let heading =
            try read(dot)
            ?? SaveHeading(
                dot: dot, timestamp: nil, description: SaveDescription(), saveID: nil, seen: nil)
        known[dot] = heading
        return heading
    }

    private func read(_ dot: Dot) throws -> SaveHeading? {
        guard let integer = try reader.actors().knownInteger(dot) else { return nil }
        let statement = try reader.database.prepared(
            "SELECT bytes FROM _transaction WHERE dot = ?1")
        statement.bind(1, integer)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        guard var transaction = try? Transaction.decodeHeading(statement.bytes(0)) else {
            return nil
        }
        transaction.seen = try reader.beginnings().closure(of: transaction.seen)
        return SaveHeading(transaction)
    }
}
