internal import Coordinator
internal import Merge
internal import Replication

/// Several rows claim one target of a one-to-one, at several nodes and from both sides.
struct OneToOneClaims: Workload {
    let name = "one-to-one-claims"

    func suits(_ model: ManagedObjectModel) -> Bool { !ModelStructure.oneToOnes(model).isEmpty }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        guard let claim = generator.choice(ModelStructure.oneToOnes(session.model)) else { return }
        let claimants = session.rows(claim.entity, &generator)
        let targets = session.rows(claim.destination, &generator)
        session.remember(claimants, &generator)
        var composer = SaveComposer(session)
        let choice = generator.number(below: 12)
        if claimants.count < 4 || (choice == 0 && claimants.count < 10) {
            let target = generator.choice(Array(targets.prefix(3)))
            let value = target.map { PropertyValue.reference($0.objectID.row) }
            composer.insert(
                claim.entity, set: value.map { [claim.position: $0] } ?? [:], &generator)
        } else if targets.count < 3 || (choice == 1 && targets.count < 10),
            let kind = generator.choice(ModelStructure.concrete(claim.destination, session.model))
        {
            composer.insert(kind, &generator)
        } else if choice == 2, let row = generator.hot(claimants) {
            composer.delete(row, &generator)
        } else if choice == 3, let row = generator.hot(targets) {
            composer.delete(row, &generator)
        } else if let row = generator.hot(claimants),
            let target = generator.choice(Array(targets.prefix(3)))
        {
            change(claim, row, target, &composer, &generator)
        }
        session.save(composer.request(&generator))
    }

    private func change(
        _ claim: ModelStructure.ToOne, _ row: RowSnapshot, _ target: RowSnapshot,
        _ composer: inout SaveComposer, _ generator: inout SeededGenerator
    ) {
        let isWithdrawn = generator.chance(in: 6)
        if let inverse = claim.inverse, generator.chance(in: 3) {
            composer.update(
                target, values: [],
                relationships: [
                    RelationshipOperation(
                        name: inverse.name, kind: .replace,
                        members: isWithdrawn ? [] : [row.objectID.row])
                ], &generator)
        } else {
            let value = isWithdrawn ? .null : PropertyValue.reference(target.objectID.row)
            composer.update(row, values: [(claim.position, value)], &generator)
        }
    }
}
