import Merge

/// Reads what relationships lead to along with the objects of a fetch: one statement an entity and
/// step of a key path, and none when they are followed later.
///
/// What the last four fetches of a context prefetched is kept in use, until it is reset: objects do not keep
/// each other, so that none is kept for ever.
struct Prefetcher: ContextPart {
    let context: ManagedObjectContext

    /// How many fetches' objects are kept in use.
    private static let kept = 4

    /// Prefetches for a fetch, and keeps in use what it leads to.
    ///
    /// - Throws: as ``prefetch(_:along:of:)``.
    func keep(
        _ keyPaths: [String], along objects: [ManagedObject], of entity: ManagedObjectModel.Entity
    ) throws {
        if keyPaths.isEmpty { return }
        let targets = try prefetch(keyPaths, along: objects, of: entity)
        if graph.prefetched.count >= Self.kept { graph.prefetched.removeFirst() }
        graph.prefetched.append(targets)
    }

    /// Refuses key paths that do not lead along relationships.
    func check(_ keyPaths: [String], of entity: ManagedObjectModel.Entity) throws {
        for keyPath in keyPaths { _ = try relationships(keyPath, entity) }
    }

    /// Follows key paths from objects of an entity.
    ///
    /// - Returns: what they lead to, each once, to be kept in use.
    /// - Throws: ``CoordinatorError``: `malformed` where a key path leads along something else than
    ///   relationships; whatever reading throws.
    func prefetch(
        _ keyPaths: [String], along objects: [ManagedObject], of entity: ManagedObjectModel.Entity
    ) throws -> [ManagedObject] {
        let paths = try keyPaths.map { try relationships($0, entity) }
        var seen = Set(objects)
        var kept: [ManagedObject] = []
        for path in paths {
            var sources = objects
            for relationship in path {
                sources = try follow(relationship, from: sources)
                kept += sources.filter { seen.insert($0).inserted }
            }
        }
        return kept
    }

    private func relationships(
        _ keyPath: String, _ entity: ManagedObjectModel.Entity
    ) throws -> [ManagedObjectModel.Relationship] {
        var current = entity
        return try keyPath.split(separator: ".", omittingEmptySubsequences: false).map { name in
            guard let relationship = current.relationship(named: String(name)),
                let destination = managedObjectModel.entity(named: relationship.destination)
            else {
                throw CoordinatorError(
                    .malformed,
                    "\"\(keyPath)\" cannot be prefetched: \(current.name) has no relationship "
                        + "\"\(name)\".")
            }
            current = destination
            return relationship
        }
    }

    /// Reads what a relationship leads to from some objects.
    ///
    /// - Returns: the objects it leads to, each once.
    private func follow(
        _ relationship: ManagedObjectModel.Relationship, from sources: [ManagedObject]
    ) throws -> [ManagedObject] {
        let sources = sources.filter { source in
            !source.isInaccessible && source.entity.relationship(named: relationship.name) != nil
        }
        guard !sources.isEmpty else { return [] }
        let alive: [ManagedObject] =
            if case .column = relationship.storage {
                try followColumn(relationship, from: sources)
            } else {
                try readMembers(relationship, of: sources)
            }
        defer { withExtendedLifetime(alive) {} }
        var targets: [ManagedObject] = []
        var found = Set<ManagedObject>()
        for source in sources {
            guard let own = source.entity.relationship(named: relationship.name) else { continue }
            let members =
                own.isToMany
                ? relationshipTracker.members(of: source, own).sorted().map {
                    context.object(with: $0)
                } : [source.relatedObject(own)].compactMap(\.self)
            targets += members.filter { found.insert($0).inserted }
        }
        return targets
    }

    // MARK: To-ones

    /// Reads the rows that a to-one leads to, where they are not at hand.
    ///
    /// - Returns: their objects.
    private func followColumn(
        _ relationship: ManagedObjectModel.Relationship, from sources: [ManagedObject]
    ) throws -> [ManagedObject] {
        try realise(sources)
        guard let destination = managedObjectModel.entity(named: relationship.destination) else {
            return []
        }
        var alive: [ManagedObject] = []
        var wanted = Set<RowID>()
        for source in sources {
            guard let position = source.entity.position(of: relationship.name),
                case .reference(let row) = source.read(position), row.rawValue > 0,
                objectRegistry.registered(row, destination)?.isFault ?? true
            else { continue }
            if let known = objectRegistry.cachedRow(row) {
                alive.append(objectRegistry.fault(for: known))
            } else {
                wanted.insert(row)
            }
        }
        if wanted.isEmpty { return alive }
        let rows = wanted.sorted()
        return alive
            + (try objectRegistry.rows(rows, of: destination)).map {
                objectRegistry.fault(for: $0)
            }
    }

    /// Reads faults with one statement an entity, as their references are needed.
    private func realise(_ objects: [ManagedObject]) throws {
        let waiting = objects.filter { object in
            guard object.isFault, object.change == .none else { return false }
            if case .row(let row) = object.source, objectRegistry.isUsable(row) { return false }
            return objectRegistry.cachedRow(object.objectID.row) == nil
        }
        take(try objectRegistry.rows(waiting.map(\.objectID).sorted()))
    }

    /// Gives rows that were read to the context's faults of them.
    private func take(_ rows: [CachedRow]) {
        for row in rows {
            guard let object = graph.registry[row.snapshot.objectID]?.object, object.isFault,
                object.change == .none
            else { continue }
            object.source = .row(row)
        }
    }

    // MARK: To-manys

    /// Reads the members of a to-many, or of a to-one that is kept at the other side.
    ///
    /// - Returns: their objects.
    private func readMembers(
        _ relationship: ManagedObjectModel.Relationship, of sources: [ManagedObject]
    ) throws -> [ManagedObject] {
        let owners = sources.filter {
            !$0.objectID.isTemporaryID && $0.memberBases[relationship.name] == nil
        }
        guard !owners.isEmpty else { return [] }
        if context.parent != nil {
            // The parent shows its own changes with them, one owner at a time.
            var members = Set<ManagedObjectID>()
            for owner in owners {
                members.formUnion(relationshipTracker.memberBase(of: owner, relationship))
            }
            return try objectRegistry.rows(members.sorted()).map { objectRegistry.fault(for: $0) }
        }
        let (rows, members) = try objectRegistry.readRows { reader in
            let found = try MemberReader(reader: reader).members(
                of: relationship, rows: owners.map(\.objectID.row))
            return (found.rows, found.members)
        }
        for owner in owners {
            owner.memberBases[relationship.name] = Set(members[owner.objectID.row] ?? [])
        }
        return rows.map { objectRegistry.fault(for: $0) }
    }
}
