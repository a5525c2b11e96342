internal import Coordinator
internal import Merge
internal import Replication

/// The same row deleted at one node and changed at another.
struct DeleteAgainstUpdate: Workload {
    let name = "delete-against-update"

    func suits(_ model: ManagedObjectModel) -> Bool {
        ModelStructure.concrete(model).contains { !$0.properties.isEmpty }
    }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        let entities = ModelStructure.concrete(session.model).filter { !$0.properties.isEmpty }
        guard let entity = generator.choice(entities) else { return }
        let rows = session.rows(entity, &generator)
        session.remember(rows, &generator)
        var composer = SaveComposer(session)
        let choice = generator.number(below: 10)
        if rows.count < 4 || (choice < 2 && rows.count < 10) {
            composer.insert(entity, &generator)
            composer.insert(entity, &generator)
        } else if let row = victim(session, rows, &generator) {
            if choice < 5 {
                composer.delete(row, &generator)
            } else {
                composer.update(row, &generator)
            }
        }
        session.save(composer.request(&generator))
    }

    /// One of the first two rows, or one remembered that may be gone by now.
    private func victim(
        _ session: WorkloadSession, _ rows: [RowSnapshot], _ generator: inout SeededGenerator
    ) -> RowSnapshot? {
        if generator.chance(in: 5), let old = generator.choice(session.memory.fetched) {
            return old
        }
        return generator.choice(Array(rows.prefix(2)))
    }
}
