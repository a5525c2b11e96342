internal import Coordinator
internal import Merge
internal import Replication

/// Large saves that make links, also of new objects, or take some away, and saves behind them that make or
/// break the same ones, delete or write what they link, or take a key of it.
extension LargeInCompany {
    static func links(
        _ link: ModelStructure.Many, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) -> [SaveRequest] {
        let ends = session.rows(link.entity, &generator)
        let targets = session.rows(link.destination, &generator)
        guard ends.count > 1, targets.count > 1 else { return [] }
        func operation(
            _ kind: RelationshipOperation.Kind, _ generator: inout SeededGenerator
        ) -> RelationshipOperation {
            let members = generator.some(targets, most: 1 + generator.number(below: 4))
            return RelationshipOperation(
                name: link.relationship.name, kind: kind, members: members.map(\.objectID.row))
        }
        var large = SaveComposer(session)
        let usual: RelationshipOperation.Kind =
            session.hasChangedKeys && generator.chance(in: 3) ? .remove : .add
        let other: RelationshipOperation.Kind = usual == .add ? .remove : .add
        for end in ends where !generator.chance(in: 4) {
            let isOnlyLinked = generator.chance(2, in: 3)
            large.update(
                end, values: isOnlyLinked ? [] : plainValues(of: end, session, &generator),
                relationships: [operation(generator.chance(in: 20) ? other : usual, &generator)],
                basis: generator.chance(2, in: 3) ? .blind : nil, resolves: false, &generator)
        }
        if session.count(link.entity) < crowd {
            for _ in 0..<generator.number(below: 4) {
                large.insert(
                    link.entity,
                    relationships: [
                        operation(generator.choice([.add, .replace]) ?? .add, &generator)
                    ],
                    &generator)
            }
        }
        var requests = [large.request(&generator)]
        let parts = large.operations.count * 3
        for _ in 0..<parts / 2 + generator.number(below: parts + 1) {
            var composer = SaveComposer(session)
            let end = generator.choice(generator.chance(in: 2) ? ends : targets)
            switch generator.number(below: 8) {
            case 0:
                if let end, generator.chance(in: 3) { composer.delete(end, &generator) }
            case 1, 2:
                if let end = generator.choice(ends) {
                    composer.update(
                        end, values: [],
                        relationships: [
                            operation(generator.choice([.add, .remove]) ?? .add, &generator)
                        ], basis: .blind, resolves: false, &generator)
                }
            case 3:
                if let other = generator.choice(large.operations), !keys(of: other).isEmpty {
                    composer.insert(other.entity, set: keys(of: other), &generator)
                }
            default:
                if let end { composer.update(end, basis: .blind, resolves: true, &generator) }
            }
            requests.append(composer.request(&generator))
        }
        return requests
    }
}
