internal import Coordinator
internal import Merge
internal import Replication

/// Edits of the same few rows at all nodes, of entities of several policies in one save, against
/// what is there, what was fetched now and what was fetched long ago.
struct PropertyEdits: Workload {
    let name = "property-edits"

    func suits(_ model: ManagedObjectModel) -> Bool {
        ModelStructure.concrete(model).contains { !ModelStructure.attributes($0).isEmpty }
    }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        let entities = ModelStructure.concrete(session.model).filter {
            !ModelStructure.attributes($0).isEmpty
        }
        // Of one root each, so that the policies of one save differ mostly.
        var composer = SaveComposer(session)
        for entity in generator.some(entities, most: 1 + generator.number(below: 3)) {
            let rows = session.rows(entity, &generator)
            session.remember(rows, &generator)
            if rows.count < 5 || (rows.count < 16 && generator.chance(in: 12)) {
                composer.insert(entity, &generator)
            } else if rows.count > 12, generator.chance(in: 12), let row = rows.last {
                composer.delete(row, &generator)
            } else if let row = generator.hot(rows) {
                let values = attributes(of: row, session, &generator)
                composer.update(row, values: values, &generator)
            }
        }
        session.save(composer.request(&generator))
    }

    /// One or two attributes; to-ones are other workloads' business.
    private func attributes(
        of row: RowSnapshot, _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) -> [(position: Int, value: PropertyValue)] {
        guard let entity = session.model.entity(named: row.objectID.entityName) else { return [] }
        let most = 1 + generator.number(below: 2)
        let places = generator.some(ModelStructure.attributes(entity), most: most).sorted()
        let maker = session.nextValues()
        return places.map { ($0, maker.value(of: entity.properties[$0], &generator)) }
    }
}
