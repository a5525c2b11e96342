internal import Coordinator
internal import Merge
internal import Replication

/// Large saves of which others take the unique keys, or what they claim for themselves alone, while they
/// are checked, written and put away.
extension LargeInCompany {
    /// So many are deleted and put away before somebody comes between.
    private static let few = 6

    /// Deletes of nearly all that has unique keys of its own, and saves behind them that take these;
    /// inserts where there is too little to be put away in several parts.
    static func freedKeys(
        of entity: ManagedObjectModel.Entity, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) -> [SaveRequest] {
        let rows = session.rows(entity, &generator)
        guard rows.count > few else { return keys(of: entity, session, &generator) }
        var large = SaveComposer(session)
        for row in rows.dropFirst(2) { large.delete(row, basis: .blind, &generator) }
        var requests = [large.request(&generator)]
        // They are checked, written, and later put away, in as many parts, and free from when all
        // are shown.
        for _ in 0..<2 * rows.count + generator.number(below: 2 * rows.count) {
            var composer = SaveComposer(session)
            _ = takeKeys(
                of: rows, deletedBy: large.operations, in: &composer, session, &generator)
            requests.append(composer.request(&generator))
        }
        return requests
    }

    /// New unique keys for nearly all that has keys of its own, and saves behind them that take the old
    /// ones or the new ones, or write the rows; inserts where there is too little for several parts.
    static func changedKeys(
        of entity: ManagedObjectModel.Entity, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) -> [SaveRequest] {
        let rows = session.rows(entity, &generator)
        guard rows.count > (session.hasContestedClaims ? 3 : few) else {
            return keys(of: entity, session, &generator)
        }
        var large = SaveComposer(session)
        for (number, row) in rows.dropFirst().enumerated() {
            let text = "c\(session.node)-\(session.memory.counter)-\(number)"
            let values = keys(of: row, session).map { ($0.key, PropertyValue.string(text)) }
                .sorted { $0.0 < $1.0 }
            large.update(row, values: values, basis: .blind, resolves: false, &generator)
        }
        var requests = [large.request(&generator)]
        for _ in 0..<2 * rows.count + generator.number(below: 2 * rows.count) {
            var composer = SaveComposer(session)
            switch generator.number(below: 4) {
            case 0:
                if let other = generator.choice(large.operations) {
                    composer.insert(other.entity, set: keys(of: other), &generator)
                }
            case 1:
                if let row = generator.choice(rows),
                    let entity = session.model.entity(named: row.objectID.entityName)
                {
                    composer.insert(entity, set: keys(of: row, session), &generator)
                }
            case 2:
                if let row = generator.choice(rows), let other = generator.choice(rows),
                    row.objectID.entityName == other.objectID.entityName
                {
                    let values = keys(of: other, session).map { ($0.key, $0.value) }
                        .sorted { $0.0 < $1.0 }
                    composer.update(
                        row, values: values, basis: .blind, resolves: true, &generator)
                }
            default:
                if let row = generator.hot(rows) {
                    composer.update(row, basis: .blind, resolves: true, &generator)
                }
            }
            requests.append(composer.request(&generator))
        }
        return requests
    }

    /// One-to-ones whose claimants can be staged.
    static func claims(_ model: ManagedObjectModel) -> [ModelStructure.ToOne] {
        let names = Set(entities(model).map(\.name))
        return ModelStructure.oneToOnes(model).filter { names.contains($0.entity.name) }
    }

    /// Inserts that claim objects for themselves in a one-to-one, or deletes of those that do, and saves
    /// behind them that claim the same.
    static func contestedClaims(
        _ claim: ModelStructure.ToOne, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) -> [SaveRequest] {
        let claimants = session.rows(claim.entity, &generator).filter {
            $0.objectID.entityName == claim.entity.name
        }
        func target(of row: RowSnapshot) -> RowID? {
            guard case .reference(let target) = row.values[claim.position] else { return nil }
            return target
        }
        var contested = claimants.compactMap(target)
        var requests: [SaveRequest] = []
        var large = SaveComposer(session)
        if session.hasLargeChanges, contested.count > 2, generator.chance(in: 2) {
            for row in claimants where target(of: row) != nil {
                large.delete(row, basis: .blind, &generator)
            }
        } else {
            contested = Array(contested.prefix(few))
            guard !contested.isEmpty, session.count(claim.entity) < crowd else { return [] }
            // Most of what can be claimed is, and what somebody claims is written in one piece.
            for row in claimants {
                guard let target = target(of: row), contested.contains(target) else { continue }
                var composer = SaveComposer(session)
                composer.update(
                    row, values: [(claim.position, .null)], basis: .blind, resolves: true,
                    &generator)
                requests.append(composer.request(&generator))
            }
            // Nor do they claim anything else by chance, for the same reason.
            let others = ModelStructure.oneToOnes(session.model)
                .filter { $0.entity === claim.entity }.map { ($0.position, PropertyValue.null) }
            var set = Dictionary(others) { first, _ in first }
            for row in contested {
                set[claim.position] = .reference(row)
                large.insert(claim.entity, set: set, &generator)
            }
            set[claim.position] = .null
            // So that it is written in several parts.
            for _ in contested.count..<few { large.insert(claim.entity, set: set, &generator) }
        }
        requests.append(large.request(&generator))
        let count = large.operations.count
        // They are checked in some parts, and written in as many. Who claims the same while they are
        // checked has them written in one piece; who does when some are written takes it from them.
        let atOnce = 1 + generator.number(below: 3)
        let parts = (count + atOnce - 1) / atOnce
        for number in 0..<3 * count {
            var composer = SaveComposer(session)
            if number >= parts, generator.chance(in: 2), let row = generator.choice(contested) {
                composer.insert(
                    claim.entity, set: [claim.position: .reference(row)], &generator)
            } else if let row = generator.hot(claimants) {
                composer.update(
                    row, values: plainValues(of: row, session, &generator), basis: .blind,
                    resolves: true, &generator)
            }
            requests.append(composer.request(&generator))
        }
        return requests
    }

    /// What a row shows in the properties of unique keys.
    static func keys(
        of row: RowSnapshot, _ session: WorkloadSession
    ) -> [Int: PropertyValue] {
        let entity = session.model.entity(named: row.objectID.entityName)
        let positions = Set(entity?.uniquenessConstraints.flatMap { $0 } ?? [])
        return Dictionary(
            uniqueKeysWithValues: positions.map { ($0, row.values[$0]) })
    }

    /// Takes the unique keys of one of the rows that a large save deletes, for a new object or for one
    /// that it leaves.
    ///
    /// - Returns: whether there is such a row.
    static func takeKeys(
        of rows: [RowSnapshot], deletedBy large: [SaveOperation], in composer: inout SaveComposer,
        _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) -> Bool {
        let deleted = Set(large.filter { $0.kind == .delete }.map(\.row))
        guard
            let row = generator.choice(rows.filter { deleted.contains($0.objectID.row) }),
            let entity = session.model.entity(named: row.objectID.entityName)
        else { return false }
        let positions = Set(entity.uniquenessConstraints.flatMap { $0 }).sorted()
        let keys = positions.map { (position: $0, value: row.values[$0]) }
        if keys.isEmpty { return false }
        let left = rows.filter {
            !deleted.contains($0.objectID.row)
                && $0.objectID.entityName == row.objectID.entityName
        }
        if let other = generator.choice(left), generator.chance(in: 2) {
            composer.update(other, values: keys, basis: .blind, resolves: true, &generator)
        } else {
            let set = Dictionary(keys.map { ($0.position, $0.value) }) { first, _ in first }
            composer.insert(entity, set: set, &generator)
        }
        return true
    }

    /// Inserts with unique keys of their own, and saves behind them of which some take one of these.
    static func keys(
        of entity: ManagedObjectModel.Entity, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) -> [SaveRequest] {
        var large = SaveComposer(session)
        let count = 3 + generator.number(below: 4)
        let taken = Set(entity.uniquenessConstraints.flatMap { $0 })
        for number in 0..<count {
            let text = "k\(session.node)-\(session.memory.counter)-\(number)"
            large.insert(
                entity, set: Dictionary(uniqueKeysWithValues: taken.map { ($0, .string(text)) }),
                &generator)
        }
        var requests = [large.request(&generator)]
        // A part is checked, and later written, after each: only what is written can be taken.
        for _ in 0..<2 * count + generator.number(below: count) {
            var composer = SaveComposer(session)
            if generator.chance(in: 3), let other = generator.choice(large.operations) {
                composer.insert(entity, set: keys(of: other), &generator)
            } else if let row = generator.hot(session.rows(entity, &generator)) {
                composer.update(row, &generator)
            }
            requests.append(composer.request(&generator))
        }
        return requests
    }

    /// What has keys and can be staged: its keys are texts, nothing leads from it to others, and it
    /// claims nothing for itself alone.
    static func keyed(_ model: ManagedObjectModel) -> [ManagedObjectModel.Entity] {
        ModelStructure.concrete(model).filter { entity in
            let keys = Set(entity.uniquenessConstraints.flatMap { $0 })
            return !keys.isEmpty && !entity.policies.isRowGrained
                && keys.allSatisfy { entity.properties[$0].content == .attribute(.string) }
                && entity.properties.allSatisfy { !$0.isReference }
                && entity.relationships.allSatisfy { $0.description.minimumCount == 0 }
        }
    }

    /// What an insert gives the properties of unique keys.
    static func keys(of insert: SaveOperation) -> [Int: PropertyValue] {
        let positions = Set(insert.entity.uniquenessConstraints.flatMap { $0 })
        return Dictionary(
            insert.values.filter { positions.contains($0.position) }.map {
                ($0.position, $0.value)
            },
            uniquingKeysWith: { first, _ in first })
    }
}
