internal import Coordinator
internal import Merge
internal import Replication

/// Now and then one transaction that is announced and sent in pieces, or one of so many changes that
/// pages fill: hundreds of inserts, their delete, or a very long text.
struct Large: Workload {
    let name = "large"

    /// One step of so many makes a large save; the others are cheap.
    private static let rarity = 10
    /// Populations above this are deleted by the next large save.
    private static let crowd = 60

    func suits(_ model: ManagedObjectModel) -> Bool { Self.entity(model) != nil }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        guard let entity = Self.entity(session.model) else { return }
        let population = session.count(entity)
        var composer = SaveComposer(session)
        if population > Self.crowd {
            thin(entity, session, &composer, &generator)
        } else if !generator.chance(in: Self.rarity) {
            small(entity, session, &composer, &generator)
        } else if generator.chance(in: 2), let row = session.rows(entity, &generator).first {
            lengthen(row, entity, session, &composer, &generator)
        } else {
            let isHuge = generator.chance(in: 8)
            let count = 200 + generator.number(below: isHuge ? 1_800 : 300)
            for _ in 0..<count { composer.insert(entity, &generator) }
        }
        session.save(composer.request(&generator))
    }

    /// An entity with a text of any length that leads nowhere, so that many of its objects cost
    /// little.
    private static func entity(_ model: ManagedObjectModel) -> ManagedObjectModel.Entity? {
        let simple = ModelStructure.concrete(model).filter { entity in
            entity.relationships.isEmpty && text(entity) != nil
        }
        return simple.first { !$0.sharesTable } ?? simple.first
    }

    private static func text(_ entity: ManagedObjectModel.Entity) -> Int? {
        entity.properties.firstIndex {
            $0.content == .attribute(.string) && $0.validation == AttributeValidation()
        }
    }

    private func small(
        _ entity: ManagedObjectModel.Entity, _ session: WorkloadSession,
        _ composer: inout SaveComposer, _ generator: inout SeededGenerator
    ) {
        let rows = session.rows(entity, &generator)
        if let row = generator.hot(rows), rows.count > 4 {
            composer.update(row, &generator)
        } else {
            composer.insert(entity, &generator)
        }
    }

    /// Deletes most of a crowd in one save, the latest first, so that the hot rows stay.
    private func thin(
        _ entity: ManagedObjectModel.Entity, _ session: WorkloadSession,
        _ composer: inout SaveComposer, _ generator: inout SeededGenerator
    ) {
        for id in session.objects(entity, limit: 4_000).dropFirst(12) {
            guard let own = session.model.entity(named: id.entityName) else { continue }
            composer.add(
                SaveOperation(kind: .delete, entity: own, row: id.row, resolves: true))
        }
    }

    /// A text beyond what is announced whole, which the next edit of the hot row replaces.
    private func lengthen(
        _ row: RowSnapshot, _ entity: ManagedObjectModel.Entity, _ session: WorkloadSession,
        _ composer: inout SaveComposer, _ generator: inout SeededGenerator
    ) {
        guard let position = Self.text(entity),
            let own = session.model.entity(named: row.objectID.entityName),
            let place = own.position(of: entity.properties[position].name)
        else { return }
        session.memory.counter += 1
        let unit = "n\(session.node)-\(session.memory.counter)."
        let text = String(repeating: unit, count: 300 * 1_024 / unit.utf8.count + 1)
        composer.update(
            row, values: [(place, .string(text))], basis: .blind,
            resolves: true, &generator)
    }
}
