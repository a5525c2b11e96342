internal import Coordinator
internal import Merge
internal import Replication

/// Several saves committed as one group. Some must fail by themselves and leave the others alone.
struct GroupCommits: Workload {
    let name = "group-commits"

    func suits(_ model: ManagedObjectModel) -> Bool {
        ModelStructure.concrete(model).contains { !ModelStructure.attributes($0).isEmpty }
    }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        let entities = ModelStructure.concrete(session.model).filter {
            !ModelStructure.attributes($0).isEmpty
        }
        guard let entity = generator.choice(entities) else { return }
        let rows = session.rows(entity, &generator)
        var requests: [SaveRequest] = []
        var mustFail = Set<Int>()
        let count = 2 + generator.number(below: 4)
        for place in 0..<count {
            // The first makes all that is known of the hot row out of date.
            if place > 0, generator.chance(in: 3), let row = rows.first {
                requests.append(failing(row, session, &generator))
                mustFail.insert(place)
            } else {
                requests.append(plain(entity, rows, place, session, &generator))
            }
        }
        let results = session.saveTogether(requests)
        report(results, mustFail, session)
    }

    /// A save that goes through unless the row itself forbids it.
    private func plain(
        _ entity: ManagedObjectModel.Entity, _ rows: [RowSnapshot], _ place: Int,
        _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) -> SaveRequest {
        var composer = SaveComposer(session)
        if rows.count < 3 || (rows.count < 14 && generator.chance(in: 5)) {
            composer.insert(entity, &generator)
        } else if let row = place == 0 ? rows.first : generator.hot(rows) {
            composer.update(row, basis: .blind, resolves: true, &generator)
        }
        return composer.request(&generator)
    }

    /// A save that nothing can let through: of an object that never was, of a value that fits no
    /// property, or against a version that nobody wrote.
    private func failing(
        _ row: RowSnapshot, _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) -> SaveRequest {
        var composer = SaveComposer(session)
        guard let entity = session.model.entity(named: row.objectID.entityName),
            let position = ModelStructure.attributes(entity).first
        else { return composer.request(&generator) }
        let value = session.nextValues().value(of: entity.properties[position], &generator)
        var operation = SaveOperation(
            kind: .update, entity: entity, row: row.objectID.row, values: [(position, value)])
        switch generator.number(below: 3) {
        case 0: operation.row = RowID(Int64(1 + generator.number(below: 100)))
        case 1: operation.values = [(position, .reference(row.objectID.row))]
        default: operation.version = RowVersion(dots: [])
        }
        // Another operation of the same save must not be done either.
        if generator.chance(in: 2) { composer.insert(entity, &generator) }
        composer.add(operation)
        return composer.request(under: .error, &generator)
    }

    private func report(
        _ results: [SaveResult?], _ mustFail: Set<Int>, _ session: WorkloadSession
    ) {
        let done = results.compactMap { $0 }.filter { $0.transaction != nil }
        let isOneGroup = done.dropFirst().contains {
            $0.token.generation == done.first?.token.generation
        }
        if isOneGroup { session.met(.groupCommitted) }
        for (place, result) in results.enumerated() where mustFail.contains(place) {
            if result != nil {
                session.memory.complain("a save that must fail went through: \(place)")
            } else if !done.isEmpty {
                session.met(.saveOfGroupFailed)
            }
        }
    }
}
