internal import Coordinator
internal import Merge
internal import Replication

/// A save of several objects with smaller ones behind it that hang together with it: they delete what
/// it refers to, take a key that it has, write or delete what it changes, or have nothing to do with it.
/// Where every save is a group of its own and the first is staged, they come between its parts.
enum LargeInCompany {
    /// Above so many objects there is no more to come.
    static let crowd = 40

    /// The saves, to be made together; none where the model has nothing for it.
    static func requests(_ session: WorkloadSession) -> [SaveRequest] {
        // A chance of its own, so that other saves are drawn as without these.
        session.memory.counter += 1
        var generator = SeededGenerator(
            seed: UInt64(bitPattern: session.node << 40 ^ session.memory.counter &* 0x9E37_79B9))
        if session.hasLargeLinks, generator.chance(in: 4),
            let link = generator.choice(ModelStructure.links(session.model))
        {
            return links(link, session, &generator)
        }
        if session.hasContestedClaims, generator.chance(in: 3),
            let claim = generator.choice(claims(session.model))
        {
            return contestedClaims(claim, session, &generator)
        }
        if session.hasFreedKeys, session.hasLargeChanges, generator.chance(in: 5),
            let entity = generator.choice(keyed(session.model))
        {
            return freedKeys(of: entity, session, &generator)
        }
        if session.hasChangedKeys, session.hasLargeChanges,
            generator.chance(in: session.hasContestedClaims ? 3 : 6),
            let entity = generator.choice(keyed(session.model))
        {
            return changedKeys(of: entity, session, &generator)
        }
        if session.hasLargeChanges, generator.chance(in: 3),
            let entity = generator.choice(keyed(session.model)), session.count(entity) < crowd
        {
            return keys(of: entity, session, &generator)
        }
        if session.hasLargeChanges, generator.chance(in: 2) {
            return updates(session, &generator)
        }
        guard let entity = generator.choice(entities(session.model)),
            session.count(entity) < crowd
        else { return [] }
        var large = SaveComposer(session)
        let count = 4 + generator.number(below: 4)
        for _ in 0..<count { large.insert(entity, &generator) }
        var requests = [large.request(&generator)]
        // It is checked in as many parts as it is written in, and only then it can be overtaken.
        for _ in 0..<count + generator.number(below: count) {
            requests.append(small(large.operations, session, &generator))
        }
        return requests
    }

    /// Updates or deletes of all that a client sees of an entity, some with inserts, and saves behind
    /// them that write, delete or lead to what they change, or take a key of theirs.
    private static func updates(
        _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) -> [SaveRequest] {
        guard let entity = generator.choice(ModelStructure.concrete(session.model)) else {
            return []
        }
        let rows = session.rows(entity, &generator)
        guard rows.count > 1 else { return [] }
        var large = SaveComposer(session)
        // All are updated, nearly all deleted, or one here and there.
        let deletes = [0, 5, 2][generator.number(below: 3)]
        for row in rows {
            if generator.number(below: 6) < deletes {
                large.delete(row, &generator)
                continue
            }
            var values = plainValues(of: row, session, &generator)
            if session.hasLargeLinks { lead(row, elsewhere: &values, session, &generator) }
            if !values.isEmpty, !generator.chance(in: 12) {
                large.update(row, values: values, &generator)
            } else {
                large.update(row, &generator)
            }
        }
        if session.hasLargeLinks, deletes > 0 {
            deleteReferring(to: entity, in: &large, session, &generator)
        }
        let inserts =
            session.hasMixedChanges
            ? insert(into: &large, besides: rows, of: entity, session, &generator) : []
        var requests = [large.request(&generator)]
        let writing = session.hasFreedKeys ? rows.count : 0
        for _ in 0..<writing + rows.count + generator.number(below: rows.count) {
            var composer = SaveComposer(session)
            if session.hasFreedKeys, generator.chance(in: 3),
                takeKeys(of: rows, deletedBy: large.operations, in: &composer, session, &generator)
            {
                requests.append(composer.request(&generator))
                continue
            }
            if session.hasLargeLinks, generator.chance(in: 5),
                let target = target(of: large.operations, session, &generator)
            {
                composer.add(target)
                requests.append(composer.request(&generator))
                continue
            }
            switch generator.number(below: inserts.isEmpty ? 6 : 7) {
            case 6:
                if let other = generator.choice(inserts) {
                    composer.insert(other.entity, set: keys(of: other), &generator)
                }
            case 0: composer.insert(entity, &generator)
            case 1:
                if let row = generator.choice(rows) { composer.delete(row, &generator) }
            case 2, 3:
                if let row = generator.choice(rows) {
                    composer.update(row, basis: .blind, resolves: true, &generator)
                }
            default:
                let others =
                    generator.choice(ModelStructure.concrete(session.model))
                    .map { session.rows($0, &generator) } ?? []
                if let row = generator.hot(others) { composer.update(row, &generator) }
            }
            requests.append(composer.request(&generator))
        }
        return requests
    }

    /// Leads some to-ones of a row to other objects, or to none.
    private static func lead(
        _ row: RowSnapshot, elsewhere values: inout [(position: Int, value: PropertyValue)],
        _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) {
        guard let entity = session.model.entity(named: row.objectID.entityName) else { return }
        for (position, property) in entity.properties.enumerated() {
            guard case .toOne(let name) = property.content, generator.chance(in: 2),
                let destination = session.model.entity(named: name)
            else { continue }
            if property.isOptional, generator.chance(in: 5) {
                values.append((position, .null))
            } else if let target = generator.hot(session.objects(destination)) {
                values.append((position, .reference(target.row)))
            }
        }
    }

    /// Deletes what refers to objects of an entity, in half of the large saves nearly all of it.
    private static func deleteReferring(
        to entity: ManagedObjectModel.Entity, in large: inout SaveComposer,
        _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) {
        let toOnes = ModelStructure.toOnes(session.model).filter {
            $0.relationship.destination == entity.name && !entity.isKind(of: $0.entity)
                && !$0.entity.isKind(of: entity)
        }
        guard generator.chance(in: 2), let toOne = generator.choice(toOnes) else { return }
        for row in session.rows(toOne.entity, &generator) where !generator.chance(in: 12) {
            large.delete(row, &generator)
        }
    }

    /// Adds new objects to a large save, in half of them; some lead to what it changes, and to what it
    /// deletes.
    ///
    /// - Returns: the inserts.
    private static func insert(
        into large: inout SaveComposer, besides rows: [RowSnapshot],
        of entity: ManagedObjectModel.Entity, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) -> [SaveOperation] {
        guard generator.chance(in: 2), session.count(entity) < crowd,
            let new = generator.choice(entities(session.model) + keyed(session.model))
        else { return [] }
        let before = large.operations.count
        let leading = new.properties.indices.filter {
            new.properties[$0].content == .toOne(destination: entity.name)
        }
        for _ in 0...generator.number(below: 3) {
            var set: [Int: PropertyValue] = [:]
            if let position = generator.choice(leading), generator.chance(in: 2),
                let row = generator.choice(rows)
            {
                set[position] = .reference(row.objectID.row)
            }
            large.insert(new, set: set, &generator)
        }
        return Array(large.operations[before...])
    }

    /// New values of attributes that no unique key is of.
    static func plainValues(
        of row: RowSnapshot, _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) -> [(position: Int, value: PropertyValue)] {
        guard let entity = session.model.entity(named: row.objectID.entityName) else { return [] }
        let keys = Set(entity.uniquenessConstraints.flatMap { $0 })
        let plain = ModelStructure.attributes(entity).filter { !keys.contains($0) }
        return generator.some(plain, most: 2).map {
            ($0, session.nextValues().value(of: entity.properties[$0], &generator))
        }
    }

    /// What can be staged, mostly: it refers to others or has keys, and demands nothing.
    static func entities(_ model: ManagedObjectModel) -> [ManagedObjectModel.Entity] {
        let all = ModelStructure.concrete(model).filter { entity in
            entity.relationships.allSatisfy {
                $0.description.isOptional && $0.description.minimumCount == 0
            }
        }
        let bound = all.filter { entity in
            !entity.uniquenessConstraints.isEmpty
                || entity.properties.contains { $0.isReference }
        }
        return bound.isEmpty ? all : bound
    }

    private static func small(
        _ large: [SaveOperation], _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) -> SaveRequest {
        var composer = SaveComposer(session)
        let choice = generator.number(below: 3)
        if choice == 0, let target = target(of: large, session, &generator) {
            composer.add(target)
        } else if choice == 1, let other = generator.choice(large), !keys(of: other).isEmpty {
            composer.insert(other.entity, set: keys(of: other), &generator)
        } else if let entity = generator.choice(entities(session.model)) {
            let rows = session.rows(entity, &generator)
            if let row = generator.hot(rows), generator.chance(in: 2) {
                composer.update(row, basis: .blind, resolves: true, &generator)
            } else {
                composer.insert(entity, &generator)
            }
        }
        return composer.request(&generator)
    }

    /// The delete of an object that one of the inserts refers to.
    private static func target(
        of large: [SaveOperation], _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) -> SaveOperation? {
        let targets = large.flatMap { operation in
            operation.values.compactMap { position, value -> ManagedObjectID? in
                guard case .reference(let row) = value, row.rawValue > 0,
                    case .toOne(let name) = operation.entity.properties[position].content,
                    let destination = session.model.entity(named: name)
                else { return nil }
                return session.objects(destination).first { $0.row == row }
            }
        }
        return generator.choice(targets).flatMap { target in
            session.model.entity(named: target.entityName).map {
                SaveOperation(kind: .delete, entity: $0, row: target.row, resolves: true)
            }
        }
    }
}
