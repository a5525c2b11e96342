package import Merge

extension StoreReader {
    /// The most parts of a batch request or an import that are undone as one.
    private static var mostParts: Int { 10_000 }

    /// The transactions of a save: of a dot or its beginning, of a save's ID, or of the ID of a batch request or
    /// of an import, which are several.
    ///
    /// - Throws: ``CoordinatorError``: `objectNotFound` where the log has none of that name, `malformed`
    ///   where several have it or there are too many parts.
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
        parts += try saves(namedWith: text + "#")
        if Self.isImport(text) { parts += try saves(namedWith: text + "-") }
        guard !parts.isEmpty else {
            throw CoordinatorError(
                .objectNotFound,
                "History has no save \(text). `tributary history` shows their names.")
        }
        return parts
    }

    /// Whether a text is what an import calls itself.
    private static func isImport(_ text: String) -> Bool {
        text.wholeMatch(of: /import-[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}/) != nil
    }

    /// The saves with IDs that are a text with numbers after it.
    private func saves(namedWith text: String) throws -> [Dot] {
        let statement = try database.prepared(
            "SELECT saveID FROM _save WHERE saveID >= ?1 ORDER BY saveID LIMIT ?2")
        statement.bind(1, text)
        statement.bind(2, Self.mostParts + 1)
        defer { statement.reset() }
        var names: [String] = []
        while try statement.step() {
            let name = statement.text(0)
            guard name.utf8.starts(with: text.utf8) else { break }
            let number = name.utf8.dropFirst(text.utf8.count)
            if number.allSatisfy({ (48...57).contains($0) || $0 == 45 }) { names.append(name) }
        }
        guard names.count <= Self.mostParts else {
            throw CoordinatorError(
                .malformed, "\(text) has more than \(Self.mostParts) parts; undo them one by one.")
        }
        return try names.compactMap { try savedAnswer($0)?.transaction }
    }

    /// What it takes to undo saves: each value that nobody has written since gets back what it was before.
    ///
    /// Reads the log backwards for former values, as far as that takes.
    ///
    /// - Parameters:
    ///   - dots: the saves, which are undone as one.
    ///   - force: whether what was written since is written over as well.
    ///   - limit: the most objects that they may have written.
    /// - Throws: ``CoordinatorError``: `historyTokenExpired` where the log has one of them no more,
    ///   `malformed` where they have written more objects.
    package func undoing(
        _ dots: [Dot], force: Bool = false, limit: Int = SaveRequest.Bounds.operations
    ) throws -> UndoPlan {
        var undoing = SaveUndoing(reader: self, dots: Set(dots), force: force)
        return try undoing.made(limit)
    }
}

/// Works out what it takes to undo saves.
private struct SaveUndoing {
    let reader: StoreReader
    let dots: Set<Dot>
    let force: Bool
    private var headings: SaveHeadings
    /// What the saves did to each row.
    private var touched: [RowID: Touched] = [:]
    /// The links that they made and took away.
    private var links: [LinkKey: Bool] = [:]
    private var restored: [RowID: UndoPlan.Restored] = [:]
    private var newer: [NewerKey: Set<String>] = [:]
    private var lost: [UndoPlan.Lost] = []
    private var wanted: [RowID: FormerValues.Wanted] = [:]
    private var steps = 0

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

    private struct NewerKey: Hashable {
        let object: ManagedObjectID
        let dot: Dot
    }

    init(reader: StoreReader, dots: Set<Dot>, force: Bool) {
        self.reader = reader
        self.dots = dots
        self.force = force
        headings = SaveHeadings(reader: reader)
    }

    mutating func made(_ limit: Int) throws -> UndoPlan {
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
            guard touched.count + links.count <= limit else {
                throw CoordinatorError(
                    .malformed,
                    "More than \(limit) objects would be written. Allow it with \"bulk\": true, on the "
                        + "command line --bulk.")
            }
        }
        for row in touched.keys.sorted() { try planRow(row) }
        var former = try FormerValues(wanted, before: dots, reader)
        let found = try former.found(before: last)
        for row in wanted.keys.sorted() { fill(row, found[row] ?? [:]) }
        try planLinks()
        for row in restored.keys.sorted() { try check(row) }
        var plan = UndoPlan()
        plan.restored = restored.values.sorted { $0.object < $1.object }
        plan.newer = try newer.map { key, names in
            UndoPlan.Newer(
                object: key.object, properties: names.sorted(),
                write: try headings.heading(key.dot))
        }.sorted { ($0.object, $0.write.dot) < ($1.object, $1.write.dot) }
        plan.lost = lost.sorted { ($0.object, $0.property ?? "") < ($1.object, $1.property ?? "") }
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
            case .insert: known.isInserted = true
            case .delete: known.isDeleted = true
            case .update, .revival, .link, .unlink: break
            }
            known.names.formUnion(shape.assigned)
            touched[change.row] = known
        }
    }

    /// Ends where nobody waits any more: SQLite asks only within one statement.
    private mutating func step() throws {
        steps += 1
        if steps.isMultiple(of: 256) { try reader.checkGoingOn() }
    }

    private mutating func leave(
        _ object: ManagedObjectID, _ names: Set<String> = [], for dot: Dot
    ) {
        newer[NewerKey(object: object, dot: dot), default: []].formUnion(names)
    }

    private mutating func lose(
        _ object: ManagedObjectID, _ property: String?, _ reason: String
    ) {
        lost.append(UndoPlan.Lost(object: object, property: property, reason: reason))
    }

    // MARK: Objects

    private mutating func planRow(_ row: RowID) throws {
        try step()
        guard let known = touched[row],
            let named = reader.catalog.model.entity(named: known.entity)
        else { return }
        let id = ManagedObjectID(entityName: known.entity, row: row)
        guard let snapshot = try reader.row(named, row) else {
            if known.isDeleted && !known.isInserted { try planReturn(of: id) }
            return
        }
        guard snapshot.objectID.row == row, snapshot.version.eclipsed.isEmpty else {
            return lose(
                id, nil, "It is shown as one with others of its unique key; write it as usual.")
        }
        if known.isInserted { return try planDelete(of: snapshot) }
        if known.isDeleted, known.names.isEmpty {
            return lose(id, nil, "It is there, because another write stood against the delete.")
        }
        guard let entity = reader.catalog.model.entity(named: snapshot.objectID.entityName),
            let shown = try reader.shownRegisters(entity, row)
        else { return }
        let assigners =
            entity.policies.isRowGrained
            ? try reader.assigners(
                of: known.names, snapshot.objectID,
                shownBy: shown.lazy.compactMap { $0?.visible.dot }.first) : [:]
        var names: Set<String> = []
        for name in known.names.sorted() {
            guard let position = entity.position(of: name), let register = shown[position] else {
                continue
            }
            // Writes beside the one that shows, which the saves had not seen, are nobody's to decide here.
            var others = register.siblings.map(\.dot)
            if let assigner = assigners[name] {
                others = others.filter { $0 != register.visible.dot } + [assigner]
            }
            let foreign = others.filter { !dots.contains($0) && known.seen[$0.actor] < $0.sequence }
            let isOwn = others.contains { dots.contains($0) }
            if force || (isOwn && foreign.isEmpty) {
                names.insert(name)
            } else if let dot = foreign.max() {
                leave(snapshot.objectID, [name], for: dot)
            }
        }
        guard !names.isEmpty else { return }
        wanted[row] = FormerValues.Wanted(entity: entity, names: names, seen: known.seen)
        restored[row] = UndoPlan.Restored(
            object: snapshot.objectID, kind: .update, version: snapshot.version)
    }

    /// An inserted object goes, unless somebody has written to it since, or made others refer to it.
    private mutating func planDelete(of snapshot: RowSnapshot) throws {
        let id = snapshot.objectID
        let others = snapshot.version.dots.filter { !dots.contains($0) }
        if !force {
            if let other = others.max() { return leave(id, for: other) }
            if let (name, dot) = try newerMember(of: id) { return leave(id, [name], for: dot) }
        }
        restored[id.row] = UndoPlan.Restored(object: id, kind: .delete, version: snapshot.version)
    }

    /// A relationship by which an object leads to others, or they to it, that was written by another save, and
    /// that save; nil where there is none.
    private mutating func newerMember(of id: ManagedObjectID) throws -> (String, Dot)? {
        guard let entity = reader.catalog.model.entity(named: id.entityName) else { return nil }
        for relationship in entity.relationships {
            for member in try reader.members(of: relationship, entity: entity, row: id.row) {
                try step()
                let isOwn = touched[member.row]?.isInserted ?? false
                if let dot = try writer(of: relationship, from: id.row, to: member),
                    !dots.contains(dot)
                {
                    return (relationship.name, dot)
                }
                // A cascade would take along what was there before.
                if !isOwn, relationship.description.deleteRule == .cascade,
                    let other = try reader.row(
                        reader.catalog.table(member.entityName).entity, member.row)?.version.dots
                        .filter({ !dots.contains($0) }).max()
                {
                    return (relationship.name, other)
                }
            }
        }
        return nil
    }

    /// The save that made two objects refer to each other; nil where that is the first one's own value.
    private func writer(
        of relationship: ManagedObjectModel.Relationship, from row: RowID,
        to member: ManagedObjectID
    ) throws -> Dot? {
        switch relationship.storage {
        case .column: return nil
        case .inverseColumn(_, let property):
            guard let entity = reader.catalog.model.entity(named: member.entityName),
                let position = entity.position(of: property)
            else { return nil }
            return try reader.shownRegisters(entity, member.row)?[position]?.visible.dot
        case .link(let name, let isFirst):
            guard let link = reader.catalog.model.link(named: name) else { return nil }
            let register = try reader.register(
                of: link, source: isFirst ? row : member.row, target: isFirst ? member.row : row)
            return LinkCoding.visible(register, policy: link.policy)?.dot
        }
    }

    /// A deleted object comes back with what its tombstone has, or history.
    private mutating func planReturn(of id: ManagedObjectID) throws {
        let kept = try reader.registers(of: id.row)
        guard let entity = reader.catalog.model.entity(named: kept?.entity ?? id.entityName) else {
            return
        }
        let object = ManagedObjectID(entityName: entity.name, row: id.row)
        let deletes = kept?.state.existence.siblings.filter { !$0.value.isAlive }.map(\.dot) ?? []
        if let other = deletes.filter({ !dots.contains($0) }).max(), !force {
            return leave(object, for: other)
        }
        var back = UndoPlan.Restored(object: object, kind: .insert, version: nil)
        back.deletes = Set(deletes)
        let policies = kept.map { reader.catalog.table(entity.name).policies(for: $0.state) }
        if let kept, let policies, !kept.state.insertion.siblings.isEmpty, !policies.isRowGrained {
            for (position, property) in entity.properties.enumerated() {
                back.values[property.name] =
                    kept.state.visible(position, policies)?.value ?? .null
            }
        } else {
            back.isWholeRow = true
            wanted[id.row] = FormerValues.Wanted(
                entity: entity, names: Set(entity.properties.map(\.name)),
                seen: touched[id.row]?.seen ?? VersionVector())
        }
        restored[id.row] = back
    }

    private mutating func fill(_ row: RowID, _ found: [String: PropertyValue]) {
        guard let wanted = wanted[row], let object = restored[row]?.object else { return }
        for name in wanted.names.sorted() {
            if let value = found[name] {
                restored[row]?.values[name] = value
            } else {
                lose(object, name, "History no longer has the value before.")
            }
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
            try step()
            guard let link = reader.catalog.model.link(named: key.link),
                let source = reader.catalog.model.entity(named: link.source),
                let target = reader.catalog.model.entity(named: link.target),
                let snapshot = try reader.row(source, key.source),
                snapshot.objectID.row == key.source, restored[key.source]?.kind != .delete,
                let name = key.link.split(separator: ".", maxSplits: 1).last.map(String.init)
            else { continue }
            let register = try reader.register(of: link, source: key.source, target: key.target)
            guard let visible = LinkCoding.visible(register, policy: link.policy) else { continue }
            guard force || register.siblings.allSatisfy({ dots.contains($0.dot) }) else {
                let other = register.siblings.map(\.dot).filter { !dots.contains($0) }.max()
                if let other { leave(snapshot.objectID, [name], for: other) }
                continue
            }
            guard visible.value == wasMade else { continue }
            let isThere = try reader.row(target, key.target) != nil
            guard wasMade || isThere || restored[key.target]?.kind == .insert else {
                lose(snapshot.objectID, name, "The object that it led to is gone.")
                continue
            }
            var object =
                restored[key.source]
                ?? UndoPlan.Restored(
                    object: snapshot.objectID, kind: .update, version: snapshot.version)
            object.relationships.append(
                RelationshipOperation(
                    name: name, kind: wasMade ? .remove : .add, members: [key.target]))
            object.links.append(
                .init(name: key.link, source: key.source, target: key.target, dot: visible.dot))
            restored[key.source] = object
        }
    }

    // MARK: What can be written

    /// Takes references to what is gone out of an object, and the object where nothing is left to write.
    private mutating func check(_ row: RowID) throws {
        guard var object = restored[row], object.kind != .delete,
            let entity = reader.catalog.model.entity(named: object.object.entityName)
        else { return }
        if object.isWholeRow, object.values.count < entity.properties.count {
            lost.removeAll { $0.object == object.object }
            lose(
                object.object, nil,
                "It is deleted for good, and history has no more than a part of it.")
            restored[row] = nil
            return
        }
        for property in entity.properties {
            guard case .toOne(let destination) = property.content,
                case .reference(let target)? = object.values[property.name],
                let other = reader.catalog.model.entity(named: destination),
                try reader.row(other, target) == nil, restored[target]?.kind != .insert
            else { continue }
            lose(object.object, property.name, "The object that it referred to is gone.")
            object.values[property.name] = object.kind == .insert ? .null : nil
        }
        let isEmpty = object.values.isEmpty && object.relationships.isEmpty
        restored[row] = isEmpty && object.kind == .update ? nil : object
    }
}
