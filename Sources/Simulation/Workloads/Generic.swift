internal import Coordinator
internal import Merge
internal import Replication

/// Anything that a model admits: inserts, changes of every type of property, references, members of
/// to-manys and deletes, of all its entities.
struct Generic: Workload {
    let name = "generic"

    func suits(_ model: ManagedObjectModel) -> Bool { !ModelStructure.concrete(model).isEmpty }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        var composer = SaveComposer(session)
        for _ in 0...generator.number(below: 3) {
            guard let entity = generator.choice(ModelStructure.concrete(session.model)) else {
                return
            }
            let rows = session.rows(entity, &generator)
            session.remember(rows, &generator)
            let choice = generator.number(below: 10)
            if rows.count < 4 || (choice == 0 && rows.count < 16) {
                composer.insert(entity, &generator)
            } else if choice == 1 || (rows.count > 16 && choice < 5) {
                if let row = generator.choice(rows) { composer.delete(row, &generator) }
            } else if let row = generator.hot(rows) {
                composer.update(
                    row, relationships: relationships(of: row, session, &generator), &generator)
            }
        }
        session.save(composer.request(&generator))
    }

    /// Changes to members that are kept elsewhere than in the row.
    private func relationships(
        of row: RowSnapshot, _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) -> [RelationshipOperation] {
        guard let entity = session.model.entity(named: row.objectID.entityName) else { return [] }
        var result: [RelationshipOperation] = []
        for relationship in entity.relationships {
            if case .column = relationship.storage { continue }
            guard generator.chance(in: 4),
                let destination = session.model.entity(named: relationship.destination)
            else { continue }
            let kinds: [RelationshipOperation.Kind] =
                relationship.isToMany ? [.add, .remove, .replace] : [.replace]
            let targets = Array(session.objects(destination).prefix(6))
            let most = relationship.isToMany ? generator.number(below: 4) : 1
            result.append(
                RelationshipOperation(
                    name: relationship.name, kind: generator.choice(kinds) ?? .add,
                    members: generator.some(targets, most: most).map(\.row)))
        }
        return result
    }
}
