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
            insert(claim, targets, &composer, &generator)
        } else if targets.count < 3 || (choice == 1 && targets.count < 10),
            let kind = generator.choice(ModelStructure.concrete(claim.destination, session.model))
        {
            composer.insert(kind, &generator)
        } else if choice == 2, let row = generator.hot(claimants) {
            composer.delete(row, &generator)
        } else if choice == 3, let row = generator.hot(targets) {
            composer.delete(row, &generator)
        } else if choice == 4 || !claim.isOptional {
            exchange(claim, claimants, &composer, &generator)
        } else if let row = generator.hot(claimants),
            let target = generator.choice(Array(targets.prefix(3)))
        {
            change(claim, row, target, &composer, &generator)
        }
        session.save(composer.request(&generator))
    }

    /// A new claimant; it takes the target away from another, unless that must have one.
    private func insert(
        _ claim: ModelStructure.ToOne, _ targets: [RowSnapshot], _ composer: inout SaveComposer,
        _ generator: inout SeededGenerator
    ) {
        guard claim.isOptional, let target = generator.choice(Array(targets.prefix(3))) else {
            composer.insert(claim.entity, &generator)
            return
        }
        let value = PropertyValue.reference(target.objectID.row)
        composer.insert(claim.entity, set: [claim.position: value], &generator)
    }

    /// Two claimants exchange their targets, in one save.
    private func exchange(
        _ claim: ModelStructure.ToOne, _ claimants: [RowSnapshot],
        _ composer: inout SaveComposer, _ generator: inout SeededGenerator
    ) {
        let pair = generator.some(Array(claimants.prefix(4)), most: 2)
        guard pair.count == 2,
            claim.isOptional || pair.allSatisfy({ !$0.values[claim.position].isNull })
        else { return }
        for (one, other) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            composer.update(
                one, values: [(claim.position, other.values[claim.position])], &generator)
        }
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
