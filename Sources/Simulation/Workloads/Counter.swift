internal import Coordinator
internal import Merge
internal import Replication

/// Children of the same few parents made, moved and deleted, which must not conflict; and parents
/// deleted, with what their delete rule says of the children.
struct Counter: Workload {
    let name = "counter"

    func suits(_ model: ManagedObjectModel) -> Bool { !ModelStructure.parents(model).isEmpty }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        guard let child = generator.choice(ModelStructure.parents(session.model)) else { return }
        let parents = session.rows(child.destination, &generator)
        let children = session.rows(child.entity, &generator)
        var composer = SaveComposer(session)
        let choice = generator.number(below: 12)
        if parents.count < 3,
            let kind = generator.choice(ModelStructure.concrete(child.destination, session.model))
        {
            composer.insert(kind, &generator)
        } else if choice == 0, let parent = generator.choice(Array(parents.prefix(3))) {
            composer.delete(parent, &generator)
        } else if children.count < 4 || (choice < 6 && children.count < 16) {
            insert(child, parents, &composer, &generator)
        } else if choice < 9, let row = generator.hot(children) {
            composer.delete(row, &generator)
        } else if let row = generator.hot(children), let parent = generator.hot(parents) {
            move(row, to: parent, child, &composer, &generator)
        }
        session.save(composer.request(&generator))
    }

    private func insert(
        _ child: ModelStructure.ToOne, _ parents: [RowSnapshot], _ composer: inout SaveComposer,
        _ generator: inout SeededGenerator
    ) {
        guard let parent = generator.choice(Array(parents.prefix(2))) else { return }
        let value = PropertyValue.reference(parent.objectID.row)
        for _ in 0...generator.number(below: 2) {
            composer.insert(child.entity, set: [child.position: value], &generator)
        }
    }

    /// A child goes to another parent, told by the child or by the parent.
    private func move(
        _ row: RowSnapshot, to parent: RowSnapshot, _ child: ModelStructure.ToOne,
        _ composer: inout SaveComposer, _ generator: inout SeededGenerator
    ) {
        if let inverse = child.inverse, generator.chance(in: 3) {
            let kind: RelationshipOperation.Kind = generator.chance(in: 3) ? .remove : .add
            composer.update(
                parent, values: [],
                relationships: [
                    RelationshipOperation(
                        name: inverse.name, kind: kind, members: [row.objectID.row])
                ], basis: .blind, &generator)
        } else {
            let value = PropertyValue.reference(parent.objectID.row)
            composer.update(row, values: [(child.position, value)], &generator)
        }
    }
}
