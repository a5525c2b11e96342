internal import Coordinator
internal import Merge
internal import Replication

/// Rings of objects that lead to each other: members join, move and leave at several nodes at once.
struct Ring: Workload {
    let name = "ring"

    func suits(_ model: ManagedObjectModel) -> Bool { !ModelStructure.rings(model).isEmpty }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        guard let ring = generator.choice(ModelStructure.rings(session.model)) else { return }
        let members = session.rows(ring.entity, &generator)
        session.remember(members, &generator)
        var composer = SaveComposer(session)
        let choice = generator.number(below: 10)
        if members.count < 4 || (choice < 3 && members.count < 14) {
            join(ring, members, &composer, &generator)
        } else if choice < 7 {
            move(ring, members, &composer, &generator)
        } else if choice == 7 {
            exchange(ring, members, &composer, &generator)
        } else {
            leave(ring, members, &composer, &generator)
        }
        session.save(composer.request(&generator))
    }

    /// A new member between one and the next.
    private func join(
        _ ring: ModelStructure.ToOne, _ members: [RowSnapshot], _ composer: inout SaveComposer,
        _ generator: inout SeededGenerator
    ) {
        guard let before = generator.hot(members) else {
            // The first is a ring by itself: the first insert of a save is called -1.
            composer.insert(ring.entity, set: [ring.position: .reference(RowID(-1))], &generator)
            return
        }
        let next = before.values[ring.position]
        let row = composer.insert(ring.entity, set: [ring.position: next], &generator)
        composer.update(before, values: [(ring.position, .reference(row))], &generator)
    }

    /// A member leads to another, told by either side.
    private func move(
        _ ring: ModelStructure.ToOne, _ members: [RowSnapshot], _ composer: inout SaveComposer,
        _ generator: inout SeededGenerator
    ) {
        guard let member = generator.hot(members), let target = generator.hot(members) else {
            return
        }
        if let inverse = ring.inverse, generator.chance(in: 3) {
            let members = inverse.isToMany && generator.chance(in: 3) ? [] : [target.objectID.row]
            composer.update(
                member, values: [],
                relationships: [
                    RelationshipOperation(
                        name: inverse.name,
                        kind: inverse.isToMany && generator.chance(in: 2) ? .add : .replace,
                        members: members)
                ], &generator)
        } else {
            let value = PropertyValue.reference(target.objectID.row)
            composer.update(member, values: [(ring.position, value)], &generator)
        }
    }

    /// Two members exchange what they lead to, in one save.
    private func exchange(
        _ ring: ModelStructure.ToOne, _ members: [RowSnapshot], _ composer: inout SaveComposer,
        _ generator: inout SeededGenerator
    ) {
        let pair = generator.some(Array(members.prefix(6)), most: 2)
        guard pair.count == 2 else { return }
        for (one, other) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            composer.update(
                one, values: [(ring.position, other.values[ring.position])], &generator)
        }
    }

    /// A member leaves; mostly the ring is closed behind it.
    private func leave(
        _ ring: ModelStructure.ToOne, _ members: [RowSnapshot], _ composer: inout SaveComposer,
        _ generator: inout SeededGenerator
    ) {
        guard let member = generator.hot(members) else { return }
        let own = PropertyValue.reference(member.objectID.row)
        if generator.chance(3, in: 4), member.values[ring.position] != own {
            for before in members
            where before.values[ring.position] == own && before.objectID != member.objectID {
                composer.update(
                    before, values: [(ring.position, member.values[ring.position])], basis: .blind,
                    &generator)
            }
        }
        composer.delete(member, &generator)
    }
}
