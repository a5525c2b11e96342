internal import Coordinator
internal import Merge
internal import Replication

/// The same links of many-to-manys made, broken and replaced at several nodes, from both sides, and
/// ends of them deleted.
struct Links: Workload {
    let name = "links"

    func suits(_ model: ManagedObjectModel) -> Bool { !ModelStructure.links(model).isEmpty }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        guard let link = generator.choice(ModelStructure.links(session.model)) else { return }
        let ends = session.rows(link.entity, &generator)
        let targets = session.objects(link.destination)
        var composer = SaveComposer(session)
        let choice = generator.number(below: 12)
        if ends.count < 3 || (choice == 0 && ends.count < 10) {
            let joins = operation(link, targets, .add, &generator)
            composer.insert(link.entity, relationships: [joins], &generator)
        } else if targets.count < 3,
            let kind = generator.choice(ModelStructure.concrete(link.destination, session.model))
        {
            composer.insert(kind, &generator)
        } else if choice == 1, let end = generator.hot(ends) {
            composer.delete(end, &generator)
        } else if choice < 6, let end = ends.first, let target = targets.first {
            return toggle(link, end, target, session, &generator)
        } else if let end = generator.hot(ends) {
            let kinds: [RelationshipOperation.Kind] = [.add, .add, .remove, .remove, .replace]
            let kind = generator.choice(kinds) ?? .add
            let known = session.members(link.relationship, of: end.objectID)
            var change = operation(link, targets, kind, &generator)
            // What is there is removed mostly, else there is nothing to disagree on.
            if kind == .remove, let member = generator.choice(known) { change.members = [member] }
            composer.update(
                end, values: [], relationships: [change],
                basis: generator.chance(3, in: 4) ? .blind : nil,
                resolves: generator.chance(in: 4), &generator)
        }
        session.save(composer.request(&generator))
    }

    /// Makes or breaks one and the same link, once or twice in a row. A link that is there is not
    /// made again, so only where it was made and broken elsewhere meanwhile do nodes disagree.
    private func toggle(
        _ link: ModelStructure.Many, _ end: RowSnapshot, _ target: ManagedObjectID,
        _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) {
        var isThere = session.members(link.relationship, of: end.objectID).contains(target.row)
        for _ in 0...generator.number(below: 2) {
            var composer = SaveComposer(session)
            let change = RelationshipOperation(
                name: link.relationship.name, kind: isThere ? .remove : .add,
                members: [target.row])
            composer.update(
                end, values: [], relationships: [change], basis: .blind,
                resolves: generator.chance(in: 8), &generator)
            session.save(composer.request(&generator))
            isThere.toggle()
        }
    }

    private func operation(
        _ link: ModelStructure.Many, _ targets: [ManagedObjectID],
        _ kind: RelationshipOperation.Kind, _ generator: inout SeededGenerator
    ) -> RelationshipOperation {
        let hot = Array(targets.prefix(4))
        let members = generator.some(hot, most: 1 + generator.number(below: 3))
        return RelationshipOperation(
            name: link.relationship.name, kind: kind, members: members.map(\.row))
    }
}
