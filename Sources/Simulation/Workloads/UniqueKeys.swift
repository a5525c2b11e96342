internal import Coordinator
internal import Merge
internal import Replication

/// Few unique keys given to many rows at several nodes: inserts, changes of keys, deletes and
/// revivals, saves to the row that is shown for a group, references and links to rows that become
/// eclipsed, and the decisions of a person over keys that nobody decided.
struct UniqueKeys: Workload {
    let name = "unique-keys"

    /// The most rows of an entity that the workload inserts.
    static let most = 14

    func suits(_ model: ManagedObjectModel) -> Bool { !Self.entities(model).isEmpty }

    /// The entities with constraints that have objects of their own.
    static func entities(_ model: ManagedObjectModel) -> [ManagedObjectModel.Entity] {
        ModelStructure.concrete(model).filter { !$0.uniquenessConstraints.isEmpty }
    }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        guard let entity = generator.choice(Self.entities(session.model)) else { return }
        let rows = session.rows(entity, &generator)
        session.remember(rows, &generator)
        let choice = generator.number(below: 24)
        if rows.count < 3 || (choice < 7 && rows.count < Self.most) {
            return insert(entity, session, &generator)
        }
        switch choice {
        case 0..<10: changeKey(rows, session, &generator)
        case 10..<13: save(rows, session, &generator)
        case 13..<15: delete(rows, session, &generator)
        case 15: revive(session, &generator)
        case 16: address(rows, session, &generator)
        case 17..<20: refer(to: entity, rows, session, &generator)
        default: decide(session, &generator)
        }
    }

    // MARK: Keys

    /// A value of a property that is part of a key: one of few, on which clients meet.
    ///
    /// What a model demands of such a value may leave none of the few; then it is any that is fine.
    private func key(
        _ property: ManagedObjectModel.Property, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) -> PropertyValue {
        guard case .attribute(let type) = property.content else { return .null }
        if property.isOptional, generator.chance(in: 8) { return .null }
        let number = generator.number(below: 4)
        let rules = property.validation
        let isFree = rules.minimum == nil && rules.maximum == nil && rules.pattern == nil
        guard isFree else { return session.nextValues().value(of: property, &generator) }
        switch type {
        case .string: return .string("key\(number)")
        case .integer16, .integer32, .integer64: return .integer(Int64(number / 2))
        case .boolean: return .boolean(number < 2)
        case .double: return .double([0, -0.0, 1, .nan][number])
        default: return session.nextValues().value(of: property, &generator)
        }
    }

    /// Values for the constraints of an entity, each left alone with some chance.
    private func keys(
        _ entity: ManagedObjectModel.Entity, leavingOneIn bound: Int, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) -> [Int: PropertyValue] {
        var result: [Int: PropertyValue] = [:]
        for constraint in entity.uniquenessConstraints where !generator.chance(in: bound) {
            for position in constraint where result[position] == nil {
                let property = entity.properties[position]
                if property.isReference { continue }
                result[position] = key(property, session, &generator)
            }
        }
        return result
    }

    // MARK: Rows

    private func insert(
        _ entity: ManagedObjectModel.Entity, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) {
        var requests: [SaveRequest] = []
        // Now and then several saves of one group, or several rows of one save, have one key.
        let count = generator.chance(in: 6) ? 2 : 1
        for _ in 0..<count {
            var composer = SaveComposer(session)
            for _ in 0..<(generator.chance(in: 6) ? 2 : 1) {
                let keys = keys(entity, leavingOneIn: 4, session, &generator)
                composer.insert(
                    entity, set: keys, relationships: joins(entity, session, &generator),
                    &generator)
            }
            requests.append(composer.request(&generator))
        }
        session.saveTogether(requests)
    }

    private func changeKey(
        _ rows: [RowSnapshot], _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) {
        guard let row = generator.hot(rows),
            let entity = session.model.entity(named: row.objectID.entityName)
        else { return }
        let keys = keys(entity, leavingOneIn: 2, session, &generator)
        var values = keys.sorted { $0.key < $1.key }.map { (position: $0.key, value: $0.value) }
        if generator.chance(in: 3) {
            let others = composerChanges(row, entity, session, &generator)
            values += others.filter { keys[$0.position] == nil }
        }
        var composer = SaveComposer(session)
        composer.update(row, values: values, &generator)
        if generator.chance(in: 5), let other = generator.hot(rows), other != row,
            let kin = session.model.entity(named: other.objectID.entityName)
        {
            let positions = keys.keys.sorted()
            if kin === entity {
                // Two rows that exchange their keys, or one that takes what another gives up.
                let taken = positions.map { (position: $0, value: row.values[$0]) }
                composer.update(other, values: taken, &generator)
            } else {
                // Two of one hierarchy that want the same keys.
                let wanted = positions.compactMap { position in
                    kin.position(of: entity.properties[position].name).flatMap { place in
                        keys[position].map { (position: place, value: $0) }
                    }
                }
                composer.update(other, values: wanted, &generator)
            }
        }
        session.save(composer.request(&generator))
    }

    private func composerChanges(
        _ row: RowSnapshot, _ entity: ManagedObjectModel.Entity, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) -> [(position: Int, value: PropertyValue)] {
        SaveComposer(session).changes(of: row, entity, &generator)
    }

    /// Rows that stand for a group first.
    private func survivors(_ rows: [RowSnapshot]) -> [RowSnapshot] {
        let groups = rows.filter { !$0.version.eclipsed.isEmpty }
        return groups.isEmpty ? rows : groups
    }

    /// A save to the row that is shown, of properties that are no key's.
    private func save(
        _ rows: [RowSnapshot], _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) {
        guard let row = generator.hot(survivors(rows)),
            let entity = session.model.entity(named: row.objectID.entityName)
        else { return }
        let keys = Set(entity.uniquenessConstraints.flatMap { $0 })
        let values = composerChanges(row, entity, session, &generator)
            .filter { !keys.contains($0.position) }
        var composer = SaveComposer(session)
        composer.update(
            row, values: values, relationships: joins(entity, session, &generator), &generator)
        session.save(composer.request(&generator))
    }

    private func delete(
        _ rows: [RowSnapshot], _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) {
        guard let row = generator.hot(generator.chance(2, in: 3) ? survivors(rows) : rows) else {
            return
        }
        var composer = SaveComposer(session)
        composer.delete(row, &generator)
        session.save(composer.request(&generator))
    }

    /// A row that may be gone is written again as it was remembered, keys and all.
    private func revive(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        let constrained = Set(Self.entities(session.model).map(\.name))
        let known = session.memory.fetched.filter { constrained.contains($0.objectID.entityName) }
        let gone = known.filter { session.row($0.objectID) == nil }
        guard let row = generator.choice(gone.isEmpty ? known : gone) else { return }
        var composer = SaveComposer(session)
        composer.update(row, basis: .snapshot(row), &generator)
        session.save(composer.request(under: .overwrite, &generator))
    }

    /// A save that names a row which is eclipsed, or was when somebody looked.
    private func address(
        _ rows: [RowSnapshot], _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) {
        let known = rows + session.memory.fetched
        let eclipsed = known.flatMap { row in
            row.version.eclipsed.map {
                ManagedObjectID(entityName: row.objectID.entityName, row: $0.row)
            }
        }
        guard let id = generator.choice(eclipsed), let shown = session.row(id),
            let entity = session.model.entity(named: id.entityName),
            shown.values.count == entity.columns.count
        else { return }
        let named = RowSnapshot(
            objectID: id, version: shown.version, values: shown.values,
            isConflicted: shown.isConflicted)
        var composer = SaveComposer(session)
        if generator.chance(in: 6) {
            composer.delete(named, basis: .blind, &generator)
        } else {
            composer.update(named, basis: .blind, &generator)
        }
        session.save(composer.request(&generator))
    }

    // MARK: References and links

    /// Members of the links of an entity.
    private func joins(
        _ entity: ManagedObjectModel.Entity, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) -> [RelationshipOperation] {
        var result: [RelationshipOperation] = []
        for relationship in entity.relationships {
            guard case .link = relationship.storage, generator.chance(in: 3),
                let destination = session.model.entity(named: relationship.destination)
            else { continue }
            let kinds: [RelationshipOperation.Kind] = [.add, .add, .remove, .replace]
            let targets = Array(session.objects(destination).prefix(5))
            result.append(
                RelationshipOperation(
                    name: relationship.name, kind: generator.choice(kinds) ?? .add,
                    members: generator.some(targets, most: 1 + generator.number(below: 2))
                        .map(\.row)))
        }
        return result
    }

    /// Leads rows of other entities to rows of this one, eclipsed ones among them where they are
    /// known by their numbers.
    private func refer(
        to entity: ManagedObjectModel.Entity, _ rows: [RowSnapshot], _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) {
        let model = session.model
        let toOnes = ModelStructure.toOnes(model).filter { entity.isKind(of: $0.destination) }
        let links = ModelStructure.links(model).filter { entity.isKind(of: $0.destination) }
        let isLink = toOnes.isEmpty || (!links.isEmpty && generator.chance(in: 2))
        let targets = rows.flatMap { row in [row.objectID.row] + row.version.eclipsed.map(\.row) }
        guard let target = generator.hot(targets) else { return }
        var composer = SaveComposer(session)
        if isLink {
            guard let link = generator.choice(links) else { return }
            let kind: RelationshipOperation.Kind = generator.chance(in: 3) ? .remove : .add
            let change = RelationshipOperation(
                name: link.relationship.name, kind: kind, members: [target])
            let referrers = session.rows(link.entity, &generator)
            if let referrer = generator.hot(referrers), referrers.count > 2 {
                composer.update(referrer, values: [], relationships: [change], &generator)
            } else {
                let keys = keys(link.entity, leavingOneIn: 4, session, &generator)
                composer.insert(link.entity, set: keys, relationships: [change], &generator)
            }
        } else {
            guard let toOne = generator.choice(toOnes) else { return }
            let referrers = session.rows(toOne.entity, &generator)
            let value = PropertyValue.reference(target)
            if let referrer = generator.hot(referrers), referrers.count > 2 {
                composer.update(referrer, values: [(toOne.position, value)], &generator)
            } else {
                var set = keys(toOne.entity, leavingOneIn: 4, session, &generator)
                set[toOne.position] = value
                composer.insert(toOne.entity, set: set, &generator)
            }
        }
        session.save(composer.request(&generator))
    }

    // MARK: Deciding

    /// Decides over rows that have one key: one is kept, one gets another key, or all go.
    private func decide(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        let query = ConflictQuery(isOpen: true, limit: 200)
        let all = (try? session.coordinator.read { try $0.conflicts(query) }) ?? []
        let groups = all.filter { $0.kind == .uniqueness }
        let unresolved = groups.filter { $0.state == .unresolved }
        guard let conflict = generator.choice(unresolved.isEmpty ? groups : unresolved),
            let resolution = resolution(of: conflict, session, &generator)
        else { return }
        let sides = generator.chance(in: 2) ? conflict.sides.compactMap(\.dot) : nil
        let outcome = session.perform {
            try $0.resolve(
                conflict.id, resolution, sides: sides, author: "inspector\(session.node)")
        }
        switch outcome {
        case .success(let result):
            if result.transaction != nil { session.met(.uniquenessResolved) }
        case .failure(let error):
            if (error as? CoordinatorError)?.code == .sidesChanged {
                session.met(.resolutionRefused)
            }
        }
    }

    private func resolution(
        of conflict: Conflict, _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) -> ConflictResolution? {
        func values(_ object: ManagedObjectID) -> [String: PropertyValue]? {
            guard let entity = session.model.entity(named: object.entityName) else { return nil }
            let keys = keys(entity, leavingOneIn: 3, session, &generator)
            if keys.isEmpty { return nil }
            return Dictionary(
                keys.map { (entity.properties[$0.key].name, $0.value) },
                uniquingKeysWith: { first, _ in first })
        }
        switch generator.number(below: 8) {
        case 0: return .delete
        case 1: return .policy(generator.choice(MergePolicy.allCases) ?? .overwrite)
        case 2: return values(conflict.object).map { .values($0) }
        case 3, 4, 5:
            let objects = conflict.sides.compactMap(\.object)
            var changes: [ManagedObjectID: [String: PropertyValue]] = [:]
            for object in generator.some(objects, most: 1 + generator.number(below: 2)) {
                changes[object] = values(object)
            }
            return changes.isEmpty ? nil : .change(changes)
        default: return generator.choice(conflict.sides.compactMap(\.dot)).map { .side($0) }
        }
    }
}
