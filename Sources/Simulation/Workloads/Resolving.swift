internal import Coordinator
internal import Merge
internal import Replication

/// A person at the inspector: lists conflicts, decides them by a side, values or a policy, undoes
/// what was settled, and sometimes decides over sides that are not those any more.
struct Resolving: Workload {
    let name = "resolving"

    func suits(_ model: ManagedObjectModel) -> Bool {
        ModelStructure.concrete(model).contains { !$0.properties.isEmpty }
    }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        let query = ConflictQuery(isOpen: generator.chance(2, in: 3) ? true : nil, limit: 40)
        let all = (try? session.coordinator.read { try $0.conflicts(query) }) ?? []
        let remembered = session.memory.conflicts
        session.memory.conflicts = Array(
            (remembered + generator.some(all, most: 1)).suffix(8))
        guard let listed = generator.choice(all) else { return provoke(session, &generator) }
        switch generator.number(below: 10) {
        case 0, 1: outdated(listed, session, &generator)
        case 2, 3:
            // What was listed long ago: its sides may be others by now, or it is closed.
            let old = generator.choice(remembered) ?? listed
            decide(old, sides: old.sides.compactMap(\.dot), session, &generator)
        case 4: undo(listed, session, &generator)
        default:
            let sides = generator.chance(2, in: 3) ? listed.sides.compactMap(\.dot) : nil
            if listed.isOpen, listed.state == .unresolved || generator.chance(in: 2) {
                decide(listed, sides: sides, session, &generator)
            } else {
                undo(listed, session, &generator)
            }
        }
    }

    /// Where there is nothing to decide yet, something is written that may become a conflict.
    private func provoke(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        let entities = ModelStructure.concrete(session.model).filter { !$0.properties.isEmpty }
        guard let entity = generator.choice(entities) else { return }
        var composer = SaveComposer(session)
        if let row = session.rows(entity, &generator).first {
            composer.update(row, &generator)
        } else {
            composer.insert(entity, &generator)
        }
        session.save(composer.request(&generator))
    }

    // MARK: Deciding

    private func decide(
        _ conflict: Conflict, sides: [Dot]?, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) {
        guard let resolution = resolution(of: conflict, session, &generator) else { return }
        let outcome = session.perform {
            try $0.resolve(
                conflict.id, resolution, sides: sides, author: "inspector\(session.node)")
        }
        switch outcome {
        case .success(let result):
            if result.transaction != nil { session.met(.conflictResolved) }
        case .failure(let error): count(error, session)
        }
    }

    private func resolution(
        of conflict: Conflict, _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) -> ConflictResolution? {
        switch generator.number(below: 8) {
        case 0: return .policy(generator.choice(MergePolicy.allCases) ?? .overwrite)
        case 1: return .delete
        case 2, 3:
            guard let entity = session.model.entity(named: conflict.object.entityName) else {
                return nil
            }
            let own = conflict.property.flatMap { entity.position(of: $0) }
            guard let position = own ?? generator.choice(ModelStructure.attributes(entity)) else {
                return nil
            }
            let property = entity.properties[position]
            let value = session.nextValues().value(of: property, &generator)
            return .values([property.name: value])
        default:
            return generator.choice(conflict.sides.compactMap(\.dot)).map { .side($0) }
        }
    }

    private func undo(
        _ conflict: Conflict, _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) {
        let sides = generator.chance(in: 2) ? conflict.sides.compactMap(\.dot) : nil
        let outcome = session.perform {
            try $0.undo(conflict.id, sides: sides, author: "inspector\(session.node)")
        }
        switch outcome {
        case .success(let result):
            if result.transaction != nil { session.met(.conflictUndone) }
        case .failure(let error): count(error, session)
        }
    }

    /// Decides as one who has not seen all sides, or believes in one that is none. It must be
    /// refused.
    private func outdated(
        _ conflict: Conflict, _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) {
        var sides = Array(Set(conflict.sides.compactMap(\.dot))).sorted()
        guard let first = sides.first else { return }
        if sides.count > 1, generator.chance(in: 2) {
            sides.remove(at: generator.number(below: sides.count))
        } else {
            sides.append(Dot(actor: first.actor, sequence: first.sequence + 1_000_000))
        }
        let isUndoing = generator.chance(in: 3)
        let outcome = session.perform {
            isUndoing
                ? try $0.undo(conflict.id, sides: sides)
                : try $0.resolve(conflict.id, .side(first), sides: sides)
        }
        switch outcome {
        case .success:
            session.memory.complain(
                "\(conflict.id) was decided by one who had not seen its sides")
        case .failure(let error): count(error, session)
        }
    }

    private func count(_ error: any Error, _ session: WorkloadSession) {
        switch (error as? CoordinatorError)?.code {
        case .sidesChanged: session.met(.resolutionRefused)
        case .unresolvedConflict: session.met(.unresolvedSaveRefused)
        default: break
        }
    }
}
