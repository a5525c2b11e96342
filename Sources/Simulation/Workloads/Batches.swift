internal import Coordinator
internal import Merge
internal import Replication

/// Batch requests of a few objects in a transaction: atomic or not, interrupted and repeated under their
/// save IDs. When one is done, nothing it was for must be left.
struct Batches: Workload {
    let name = "batches"

    private struct Interrupted: Error {}

    func suits(_ model: ManagedObjectModel) -> Bool { !Self.entities(model).isEmpty }

    private static func entities(_ model: ManagedObjectModel) -> [ManagedObjectModel.Entity] {
        ModelStructure.concrete(model).filter { !ModelStructure.attributes($0).isEmpty }
    }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        guard let entity = generator.choice(Self.entities(session.model)) else { return }
        let saveID = generator.chance(in: 2) ? nextName(session) : nil
        let options = BatchOptions(
            isAtomic: generator.chance(in: 3), saveID: saveID,
            resolvesConflicts: generator.chance(2, in: 3))
        switch generator.number(below: 4) {
        case 0: insert(entity, options, session, &generator)
        case 1: delete(entity, options, session, &generator)
        default: update(entity, options, session, &generator)
        }
    }

    private func nextName(_ session: WorkloadSession) -> String {
        session.memory.counter += 1
        return "batch-\(session.node)-\(session.memory.counter)"
    }

    /// Carries a request out, perhaps in two goes.
    ///
    /// - Returns: what was done; nil where it was not done to its end.
    private func execute(
        _ request: some BatchRequest, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) -> BatchResult? {
        let author = "batches\(session.node)"
        if request.options.saveID != nil, generator.chance(in: 2) {
            let first = session.perform { coordinator in
                do {
                    try coordinator.execute(
                        request, author: author, progress: { _ in throw Interrupted() })
                } catch let error as BatchError { return error.done.transactions > 0 }
                return false
            }
            if case .success(true) = first { session.met(.batchInterrupted) }
        }
        let result = try? session.perform { try $0.execute(request, author: author) }.get()
        if (result?.transactions ?? 0) > 1 { session.met(.batchDivided) }
        return result
    }

    private func insert(
        _ entity: ManagedObjectModel.Entity, _ options: BatchOptions, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) {
        let demands = entity.properties.contains { $0.isReference && !$0.isOptional }
        guard !demands else { return }
        let maker = session.nextValues()
        var objects: [[String: PropertyValue]] = []
        for _ in 0...generator.number(below: 6) {
            var row: [String: PropertyValue] = [:]
            for position in ModelStructure.attributes(entity) {
                let property = entity.properties[position]
                row[property.name] = maker.value(of: property, &generator)
            }
            objects.append(row)
        }
        let request = BatchInsertRequest(
            entity.name, objects: objects, resultType: .objectIDs, options: options)
        guard let result = execute(request, session, &generator) else { return }
        if result.count != objects.count {
            session.memory.complain(
                "a batch of \(objects.count) inserts of \(entity.name) told of \(result.count)")
        }
    }

    private func update(
        _ entity: ManagedObjectModel.Entity, _ options: BatchOptions, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) {
        guard let position = generator.choice(ModelStructure.attributes(entity)) else { return }
        let property = entity.properties[position]
        let value = session.nextValues().value(of: property, &generator)
        let ids = session.objects(entity)
        let request = BatchUpdateRequest(
            entity.name, predicate: condition(ids, &generator),
            propertiesToUpdate: [property.name: value], resultType: .objectIDs, options: options)
        guard let result = execute(request, session, &generator) else { return }
        for id in result.objectIDs ?? [] {
            guard let row = session.row(id), let own = session.model.entity(named: id.entityName),
                row.objectID == id
            else { continue }
            let place = own.position(of: property.name) ?? position
            if row.values[place] != value {
                session.memory.complain(
                    "a batch gave \(id).\(property.name) \(value), but it is \(row.values[place])")
            }
        }
    }

    private func delete(
        _ entity: ManagedObjectModel.Entity, _ options: BatchOptions, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) {
        let ids = session.objects(entity)
        let result: BatchResult?
        if generator.chance(in: 2) {
            let doomed = generator.some(ids.filter { $0.entityName == entity.name }, most: 5)
            guard !doomed.isEmpty else { return }
            result = execute(
                BatchDeleteRequest(objectIDs: doomed, resultType: .objectIDs, options: options),
                session, &generator)
        } else {
            let request = FetchRequest(
                entity.name, predicate: condition(ids, &generator),
                fetchLimit: 1 + generator.number(below: 5))
            result = execute(
                BatchDeleteRequest(
                    fetchRequest: request, resultType: .objectIDs, options: options), session,
                &generator)
        }
        for id in result?.objectIDs ?? [] where session.row(id)?.objectID == id {
            session.memory.complain("a batch deleted \(id), but it is there")
        }
    }

    /// All objects, or those up to one of them.
    private func condition(
        _ ids: [ManagedObjectID], _ generator: inout SeededGenerator
    ) -> Predicate? {
        guard let last = generator.choice(ids), generator.chance(2, in: 3) else { return nil }
        return try? Predicate("SELF IN %@", [.list(ids.filter { $0 <= last }.map { .object($0) })])
    }
}
