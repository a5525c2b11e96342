internal import Coordinator
internal import Merge
internal import Replication

/// Objects of several entities in one table, fetched and changed by their own entity's name and by
/// that of one they inherit from.
struct Hierarchy: Workload {
    let name = "hierarchy"

    func suits(_ model: ManagedObjectModel) -> Bool { !ModelStructure.hierarchies(model).isEmpty }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        let model = session.model
        guard let root = generator.choice(ModelStructure.hierarchies(model)),
            let looked = generator.choice(root.familyNames.compactMap { model.entity(named: $0) }),
            let kind = generator.choice(ModelStructure.concrete(root, model))
        else { return }
        let rows = session.rows(generator.chance(in: 2) ? root : looked, &generator)
        session.remember(rows, &generator)
        var composer = SaveComposer(session)
        let choice = generator.number(below: 10)
        if rows.count < 5 || (choice == 0 && rows.count < 16) {
            composer.insert(kind, &generator)
        } else if choice == 1 || rows.count > 16, let row = generator.choice(rows) {
            composer.delete(row, &generator)
        } else if let row = generator.hot(rows) {
            if generator.chance(in: 3) {
                byParent(row, session, &composer, &generator)
            } else {
                composer.update(row, &generator)
            }
        }
        session.save(composer.request(&generator))
    }

    /// Changes a row by the name of an entity it inherits from, where a property has another
    /// position than in the row's own.
    private func byParent(
        _ row: RowSnapshot, _ session: WorkloadSession, _ composer: inout SaveComposer,
        _ generator: inout SeededGenerator
    ) {
        guard let own = session.model.entity(named: row.objectID.entityName),
            let parent = own.parent.flatMap({ session.model.entity(named: $0) }),
            let position = generator.choice(ModelStructure.attributes(parent))
        else { return }
        let value = session.nextValues().value(of: parent.properties[position], &generator)
        composer.add(
            SaveOperation(
                kind: .update, entity: parent, row: row.objectID.row,
                values: [(position, value)],
                version: generator.chance(in: 2) ? row.version : nil,
                resolves: generator.chance(in: row.isConflicted ? 2 : 8)))
    }
}
