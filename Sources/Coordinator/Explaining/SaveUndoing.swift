package import Merge

/// What undoing saves would write, and what it would leave alone.
package struct UndoPlan: Sendable {
    /// How an object comes back to what it was.
    package enum Kind: String, Hashable, Sendable {
        /// It was deleted, and comes back.
        case insert
        /// It gets values back.
        case update
        /// It was inserted, and goes.
        case delete
    }

    /// An object that is written.
    package struct Restored: Sendable {
        /// The object.
        package let object: ManagedObjectID
        /// How.
        package var kind: Kind
        /// The values that it gets back.
        package var values: [String: PropertyValue] = [:]
        /// The changes of its many-to-many relationships.
        package var relationships: [RelationshipOperation] = []
        /// The version that the plan was made of; nil of one that is gone.
        package var version: RowVersion?
        /// Whether the store knows nothing of it any more.
        package var isWholeRow = false
    }

    /// What was written since, and is left as it is.
    package struct Newer: Hashable, Sendable {
        /// The object.
        package let object: ManagedObjectID
        /// The properties; empty where it is the object's existence.
        package var properties: [String]
        /// The save that wrote it.
        package let write: SaveHeading
    }

    /// What cannot be written back.
    package struct Lost: Hashable, Sendable {
        /// The object.
        package let object: ManagedObjectID
        /// The property; nil where it is the object as a whole.
        package let property: String?
        /// Why.
        package let reason: String
    }

    /// The objects that are written, sorted.
    package var restored: [Restored] = []
    /// What is left alone, because it is newer; sorted.
    package var newer: [Newer] = []
    /// What cannot be written back; sorted.
    package var lost: [Lost] = []

    /// The operations of the save that undoes it.
    package func operations(_ model: ManagedObjectModel) -> [SaveOperation] {
        restored.compactMap { restored in
            guard let entity = model.entity(named: restored.object.entityName) else { return nil }
            let values = restored.values.compactMap { name, value in
                entity.position(of: name).map { (position: $0, value: value) }
            }
            var operation = SaveOperation(
                kind: restored.kind == .delete ? .delete : .update, entity: entity,
                row: restored.object.row, values: values.sorted { $0.position < $1.position },
                relationships: restored.relationships, version: restored.version, resolves: true)
            operation.isWholeRow = restored.isWholeRow
            return operation
        }
    }
}

extension StoreReader {
    /// The transactions of a save: of a dot or its beginning, of a save's ID, or of the ID of a batch request or an
    /// import, which are several.
    ///
    /// - Throws: ``CoordinatorError`` (`objectNotFound`) where the log has none of that name.
    package func saves(named text: String) throws -> [Dot] {
        let dots = try transactions(named: text)
        if let dot = dots.first {
            guard dots.count == 1 else {
                throw CoordinatorError(
                    .malformed,
                    "\(text) may be \(dots.map(\.description).joined(separator: ", or ")). Give more "
                        + "of it.")
            }
            return [dot]
        }
        // The last part of a batch request has its ID alone.
        var parts = [try savedAnswer(text)?.transaction].compactMap(\.self)
        for mark in parts.isEmpty ? ["#", "-"] : ["#"] {
            let names = try savedNames(from: text + mark)
            for name in names where name.dropFirst(text.count + 1).allSatisfy(\.isNumberOrDash) {
                if let dot = try savedAnswer(name)?.transaction { parts.append(dot) }
            }
        }
        guard !parts.isEmpty else {
            throw CoordinatorError(
                .objectNotFound,
                "History has no save \(text). `tributary history` shows their names.")
        }
        return parts
    }

    /// What it takes to undo saves: each value that nobody has written since gets back what it was before.
    ///
    /// Reads the log backwards for former values, as far as that takes.
    ///
    /// - Parameters:
    ///   - dots: the saves, which are undone as one.
    ///   - force: whether what was written since is written over as well.
    /// - Throws: ``CoordinatorError`` (`historyTokenExpired`) where the log has one of them no more.
    package func undoing(_ dots: [Dot], force: Bool = false) throws -> UndoPlan {
        var undoing = SaveUndoing(reader: self, dots: Set(dots), force: force)
        return try undoing.made()
    }

    /// The names of saves that begin with a text.
    private func savedNames(from text: String) throws -> [String] {
        let statement = try database.prepared(
            "SELECT saveID FROM _save WHERE saveID >= ?1 ORDER BY saveID LIMIT 10000")
        statement.bind(1, text)
        defer { statement.reset() }
        var names: [String] = []
        while try statement.step() {
            let name = statement.text(0)
            guard name.utf8.starts(with: text.utf8) else { break }
            names.append(name)
        }
        return names
    }
}

extension Character {
    fileprivate var isNumberOrDash: Bool { ("0"..."9").contains(self) || self == "-" }
}

/// Works out what it takes to undo saves.
private struct SaveUndoing {
    let reader: StoreReader
    let dots: Set<Dot>
    let force: Bool
    private var headings: SaveHeadings
    /// What the saves did to each row, in order.
    private var touched: [RowID: Touched] = [:]
    /// The links that they made and took away.
    private var links: [LinkKey: Bool] = [:]
    private var plan = UndoPlan()

    private struct Touched {
        var entity: String
        var isInserted = false
        var isDeleted = false
        var names: Set<String> = []
        /// What the saves that touched it had seen.
        var seen = VersionVector()
    }

    private struct LinkKey: Hashable {
        let link: String
        let source: RowID
        let target: RowID
    }

    init(reader: StoreReader, dots: Set<Dot>, force: Bool) {
        self.reader = reader
        self.dots = dots
        self.force = force
        headings = SaveHeadings(reader: reader)
    }

    mutating func made() throws -> UndoPlan {
        var last: Int64 = 0
        for dot in dots.sorted() {
            guard let logged = try reader.transaction(dot)?.transaction,
                let place = try reader.position(of: dot)
            else {
                throw CoordinatorError(
                    .historyTokenExpired,
                    "\(dot) cannot be undone: history no longer has it.")
            }
            last = max(last, place)
            note(reader.catalog.asOwn(logged))
        }
        var wanted: [RowID: Set<String>] = [:]
        for row in touched.keys.sorted() { try planRow(row, &wanted) }
        try findFormer(wanted, before: last)
        try planLinks()
        plan.restored = try plan.restored.compactMap { try checked($0) }
            .sorted { $0.object < $1.object }
        plan.newer.sort { ($0.object, $0.write.dot) < ($1.object, $1.write.dot) }
        plan.lost.sort { ($0.object, $0.property ?? "") < ($1.object, $1.property ?? "") }
        return plan
    }

    private mutating func note(_ transaction: Transaction) {
        for change in transaction.changes {
            let shape = transaction.shapes[change.shape]
            if let target = change.target {
                links[LinkKey(link: shape.entity, source: change.row, target: target)] =
                    change.kind == .link
                continue
            }
            var known = touched[change.row] ?? Touched(entity: shape.entity)
            known.seen.join(transaction.seen)
            switch change.kind {
            case .insert, .revival: known.isInserted = known.isInserted || change.kind == .insert
            case .delete: known.isDeleted = true
            case .update, .link, .unlink: break
            }
            known.names.formUnion(shape.assigned)
            touched[change.row] = known
        }
    }

    // MARK: Objects

    private mutating func planRow(_ row: RowID, _ wanted: inout [RowID: Set<String>]) throws {
        guard let known = touched[row],
            let named = reader.catalog.model.entity(named: known.entity)
        else { return }
        let id = ManagedObjectID(entityName: known.entity, row: row)
        guard let snapshot = try reader.row(named, row), snapshot.objectID.row == row else {
            if known.isDeleted && !known.isInserted { try planReturn(of: id, &wanted) }
            return
        }
        if known.isInserted {
            let others = snapshot.version.dots.filter { !dots.contains($0) }
            if let other = others.max(), !force {
                plan.newer.append(
                    .init(
                        object: snapshot.objectID, properties: [],
                        write: try headings.heading(other)))
            } else {
                plan.restored.append(
                    .init(object: snapshot.objectID, kind: .delete, version: snapshot.version))
            }
            return
        }
        guard let entity = reader.catalog.model.entity(named: snapshot.objectID.entityName),
            let shown = try reader.shownRegisters(entity, row)
        else { return }
        var names: Set<String> = []
        for name in known.names.sorted() {
            guard let position = entity.position(of: name), let register = shown[position] else {
                continue
            }
            let dot = register.visible.dot
            if dots.contains(dot) || force {
                names.insert(name)
            } else if known.seen[dot.actor] < dot.sequence {
                note(newer: name, of: snapshot.objectID, try headings.heading(dot))
            }
        }
        guard !names.isEmpty else { return }
        wanted[row] = names
        plan.restored.append(
            .init(object: snapshot.objectID, kind: .update, version: snapshot.version))
    }

    private mutating func note(
        newer name: String, of object: ManagedObjectID, _ write: SaveHeading
    ) {
        if let place = plan.newer.firstIndex(where: { $0.object == object && $0.write == write }) {
            plan.newer[place].properties.append(name)
        } else {
            plan.newer.append(.init(object: object, properties: [name], write: write))
        }
    }

    /// A deleted object comes back with what its tombstone has, or history.
    private mutating func planReturn(
        of id: ManagedObjectID, _ wanted: inout [RowID: Set<String>]
    ) throws {
        let kept = try reader.registers(of: id.row)
        let entity = reader.catalog.model.entity(named: kept?.entity ?? id.entityName)
        guard let entity else { return }
        let object = ManagedObjectID(entityName: entity.name, row: id.row)
        let deletes = kept?.state.existence.siblings.filter { !$0.value.isAlive }.map(\.dot) ?? []
        if let other = deletes.first(where: { !dots.contains($0) }), !force {
            plan.newer.append(
                .init(object: object, properties: [], write: try headings.heading(other)))
            return
        }
        var restored = UndoPlan.Restored(object: object, kind: .insert)
        let policies = kept.map { reader.catalog.table(entity.name).policies(for: $0.state) }
        if let kept, let policies, !kept.state.insertion.siblings.isEmpty, !policies.isRowGrained {
            for (position, property) in entity.properties.enumerated() {
                restored.values[property.name] =
                    kept.state.visible(position, policies)?.value ?? .null
            }
        } else {
            restored.isWholeRow = true
            wanted[id.row] = Set(entity.properties.map(\.name))
        }
        plan.restored.append(restored)
    }

    // MARK: Former values

    /// Looks in the journal and then, backwards, in the log for the values before the saves.
    private mutating func findFormer(
        _ wanted: [RowID: Set<String>], before position: Int64
    ) throws {
        var left = wanted
        var found: [RowID: [String: PropertyValue]] = [:]
        for row in wanted.keys.sorted() {
            for (name, value) in try decided(row) where left[row]?.remove(name) != nil {
                found[row, default: [:]][name] = value
            }
            if left[row]?.isEmpty ?? false { left[row] = nil }
        }
        var place = UInt64(position)
        while !left.isEmpty {
            try reader.checkGoingOn()
            let page = try reader.history(beforePosition: place, limit: 64, byteLimit: 4 << 20)
            guard let last = page.last else { break }
            place = last.position
            for logged in page where !dots.contains(logged.encoded.dot) {
                collect(logged.encoded.transaction, &left, &found)
            }
        }
        for index in plan.restored.indices {
            let row = plan.restored[index].object.row
            plan.restored[index].values.merge(found[row] ?? [:]) { $1 }
            for name in (left[row] ?? []).sorted() {
                plan.lost.append(
                    .init(
                        object: plan.restored[index].object, property: name,
                        reason: "History no longer has the value before."))
            }
        }
    }

    /// The values that conflicts showed which the saves have closed.
    private func decided(_ row: RowID) throws -> [String: PropertyValue] {
        var values: [String: PropertyValue] = [:]
        for conflict in try reader.conflicts(ConflictQuery(row: row, isOpen: false, limit: 1_000)) {
            guard let dot = conflict.closedBy, dots.contains(dot), let name = conflict.property,
                conflict.kind == .update,
                let shown = conflict.sides.first(where: { $0.isVisible && $0.object == nil })
            else { continue }
            values[name] = shown.value
        }
        return values
    }

    private func collect(
        _ logged: Transaction, _ left: inout [RowID: Set<String>],
        _ found: inout [RowID: [String: PropertyValue]]
    ) {
        guard logged.changes.contains(where: { left[$0.row] != nil }) else { return }
        let transaction = reader.catalog.asOwn(logged)
        for change in transaction.changes where change.target == nil && change.kind != .delete {
            guard var names = left[change.row],
                touched[change.row]?.seen.contains(transaction.dot) ?? false
            else { continue }
            let shape = transaction.shapes[change.shape]
            for (name, value) in zip(shape.assigned + shape.carried, change.values)
            where names.remove(name) != nil {
                found[change.row, default: [:]][name] = value
            }
            if change.kind == .insert || change.kind == .revival {
                for name in names { found[change.row, default: [:]][name] = .null }
                names = []
            }
            left[change.row] = names.isEmpty ? nil : names
        }
    }

    // MARK: Links

    private mutating func planLinks() throws {
        let sorted = links.sorted {
            ($0.key.link, $0.key.source, $0.key.target) < (
                $1.key.link, $1.key.source, $1.key.target
            )
        }
        for (key, wasMade) in sorted {
            guard let link = reader.catalog.model.link(named: key.link),
                let source = reader.catalog.model.entity(named: link.source),
                let snapshot = try reader.row(source, key.source),
                snapshot.objectID.row == key.source, touched[key.source]?.isInserted != true,
                let name = key.link.split(separator: ".", maxSplits: 1).last.map(String.init)
            else { continue }
            let register = try reader.register(of: link, source: key.source, target: key.target)
            guard let visible = LinkCoding.visible(register, policy: link.policy) else { continue }
            guard dots.contains(visible.dot) || force else {
                note(newer: name, of: snapshot.objectID, try headings.heading(visible.dot))
                continue
            }
            guard visible.value == wasMade else { continue }
            let operation = RelationshipOperation(
                name: name, kind: wasMade ? .remove : .add, members: [key.target])
            if let place = plan.restored.firstIndex(where: { $0.object == snapshot.objectID }) {
                if plan.restored[place].kind != .delete {
                    plan.restored[place].relationships.append(operation)
                }
            } else {
                plan.restored.append(
                    .init(
                        object: snapshot.objectID, kind: .update, relationships: [operation],
                        version: snapshot.version))
            }
        }
    }

    // MARK: What can be written

    /// An object without references to what is gone; nil where nothing is left to write.
    private mutating func checked(_ restored: UndoPlan.Restored) throws -> UndoPlan.Restored? {
        guard restored.kind != .delete,
            let entity = reader.catalog.model.entity(named: restored.object.entityName)
        else { return restored }
        var restored = restored
        if restored.isWholeRow, restored.values.count < entity.properties.count {
            plan.lost.removeAll { $0.object == restored.object }
            plan.lost.append(
                .init(
                    object: restored.object, property: nil,
                    reason: "It is deleted for good, and history has no more than a part of it."))
            return nil
        }
        for property in entity.properties {
            guard case .toOne(let destination) = property.content,
                case .reference(let target)? = restored.values[property.name],
                let other = reader.catalog.model.entity(named: destination),
                try reader.row(other, target) == nil,
                !plan.restored.contains(where: { $0.object.row == target && $0.kind == .insert })
            else { continue }
            plan.lost.append(
                .init(
                    object: restored.object, property: property.name,
                    reason: "The object that it referred to is gone."))
            restored.values[property.name] = restored.kind == .insert ? .null : nil
        }
        let isEmpty = restored.values.isEmpty && restored.relationships.isEmpty
        return isEmpty && restored.kind == .update ? nil : restored
    }
}
