internal import Coordinator
internal import Merge
internal import Replication

/// Managed object contexts whose objects have moved on, in this step or since an earlier one, under
/// each of the six merge policies. What became of every changed object is recorded for law 10.
struct Contexts: Workload {
    let name = "contexts"

    func suits(_ model: ManagedObjectModel) -> Bool { !Self.entities(model).isEmpty }

    /// One of Core Data's policies, or one of an application's that hands every conflict to it: both do
    /// the same.
    private func policy(_ generator: inout SeededGenerator) -> ContextMergePolicy {
        let kind = generator.choice(MergePolicy.allCases) ?? .error
        return generator.chance(in: 2)
            ? HandingPolicy(merge: kind) : ContextMergePolicy(merge: kind)
    }

    private static func entities(_ model: ManagedObjectModel) -> [ManagedObjectModel.Entity] {
        ModelStructure.concrete(model).filter { !ModelStructure.attributes($0).isEmpty }
    }

    func step(_ session: WorkloadSession, _ generator: inout SeededGenerator) {
        var kept = session.memory.kept
        session.memory.kept = nil
        if kept?.context.persistentStoreCoordinator !== session.coordinator { kept = nil }
        if (kept?.objects.isEmpty ?? true) || (kept?.saves ?? 0) > 6 {
            guard let fresh = try? open(session, &generator) else { return }
            if generator.chance(in: 2) {
                // Others save meanwhile, here and at other nodes.
                session.memory.kept = fresh
                return
            }
            kept = fresh
        }
        guard let kept, !kept.objects.isEmpty else { return }
        if generator.chance(in: 2) { disturb(kept, session, &generator) }
        kept.context.mergePolicy = policy(&generator)
        kept.context.transactionAuthor = "context\(session.node)"
        let edits = edit(kept, session, &generator)
        var outcome = save(kept, edits, session)
        if outcome == .notSaved, generator.chance(in: 2) {
            // As an application does that hears of the conflict: it decides, and saves again.
            kept.context.mergePolicy = policy(&generator)
            outcome = save(kept, edits, session)
        }
        switch outcome {
        case .saved: break
        case .notSaved: kept.rollBack()
        case .unseen: return
        }
        if generator.chance(2, in: 3) { session.memory.kept = kept }
    }

    /// A new context with a few objects, of one or two entities; rows are inserted where there are
    /// too few.
    private func open(
        _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) throws -> KeptContext? {
        let kept = KeptContext(session.coordinator)
        let entities = Self.entities(session.model)
        for entity in generator.some(entities, most: 1 + generator.number(below: 2)) {
            let ids = session.objects(entity)
            if ids.count < 3 {
                var composer = SaveComposer(session)
                composer.insert(entity, &generator)
                session.save(composer.request(&generator))
            }
            try kept.fetch(generator.some(Array(ids.prefix(4)), most: 2), session)
        }
        return kept
    }

    /// Another client changes, or rarely deletes, what the context has fetched.
    private func disturb(
        _ kept: KeptContext, _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) {
        var composer = SaveComposer(session)
        for (_, fetched) in kept.objects where generator.chance(2, in: 3) {
            if generator.chance(in: 8) {
                composer.delete(fetched, basis: .blind, &generator)
            } else {
                composer.update(fetched, basis: .blind, &generator)
            }
        }
        session.save(composer.request(&generator))
    }

    // MARK: Editing

    /// A context's change of one object: values by position, or nil if it deleted it.
    private struct Edit {
        let object: ManagedObject
        let fetched: RowSnapshot
        let assigned: [Int: PropertyValue]?
    }

    private func edit(
        _ kept: KeptContext, _ session: WorkloadSession, _ generator: inout SeededGenerator
    ) -> [Edit] {
        let chosen = generator.some(kept.objects.indices.map { $0 }, most: 3)
        return kept.context.performAndWait {
            if generator.chance(in: 5) { insert(in: kept.context, session, &generator) }
            var edits: [Edit] = []
            for place in chosen {
                let (object, fetched) = kept.objects[place]
                // A delete rule of the same context may have taken it meanwhile.
                guard object.managedObjectContext != nil else { continue }
                if generator.chance(in: 6), edits.isEmpty || object.entity.relationships.isEmpty {
                    kept.context.delete(object)
                    edits.append(Edit(object: object, fetched: fetched, assigned: nil))
                    // A delete rule changes other objects; what else is edited then would be
                    // both the client's and the rule's doing.
                    if !object.entity.relationships.isEmpty { break }
                } else {
                    let assigned = assign(object, fetched, session, &generator)
                    if assigned.isEmpty { continue }
                    edits.append(Edit(object: object, fetched: fetched, assigned: assigned))
                }
            }
            return edits
        }
    }

    /// Assigns attributes, and now and then a to-one that only the object itself keeps.
    ///
    /// - Returns: what differs from what was fetched; the rest is no change.
    private func assign(
        _ object: ManagedObject, _ fetched: RowSnapshot, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) -> [Int: PropertyValue] {
        let maker = session.nextValues()
        var assigned: [Int: PropertyValue] = [:]
        let places = ModelStructure.attributes(object.entity)
        for position in generator.some(places, most: 1 + generator.number(below: 2)).sorted() {
            let property = object.entity.properties[position]
            let value = maker.value(of: property, &generator)
            object[property.name] = value
            assigned[position] = value
        }
        let parents = ModelStructure.parents(session.model).filter { $0.entity === object.entity }
        if generator.chance(in: 6), let parent = generator.choice(parents),
            let target = generator.hot(session.objects(parent.destination))
        {
            let value = PropertyValue.reference(target.row)
            object[parent.relationship.name] = value
            assigned[parent.position] = value
        }
        return assigned.filter { $0.value != fetched.values[$0.key] }
    }

    /// Inserts an object, where its entity demands nothing but attributes.
    private func insert(
        in context: ManagedObjectContext, _ session: WorkloadSession,
        _ generator: inout SeededGenerator
    ) {
        let entities = Self.entities(session.model).filter { entity in
            entity.properties.allSatisfy { !$0.isReference || $0.isOptional }
                && entity.relationships.allSatisfy {
                    $0.description.isOptional && $0.description.minimumCount == 0
                }
        }
        guard let entity = generator.choice(entities), session.count(entity) < 12 else { return }
        let maker = session.nextValues()
        let object = context.insert(entity.name)
        for position in ModelStructure.attributes(entity) {
            let property = entity.properties[position]
            object[property.name] = maker.value(of: property, &generator)
        }
    }

    // MARK: Saving

    /// Errors that a context answers with by rule; all others are of the disk or the process.
    private static let refusals: [CoordinatorError.Code] = [
        .mergeConflict, .constraintConflict, .unresolvedConflict, .validationFailed,
        .deleteDenied, .objectNotFound,
    ]

    /// The outcome of a save.
    private enum Outcome {
        /// It went through, and what became of the edits was read.
        case saved
        /// It failed: the context still has its changes.
        case notSaved
        /// It went through, and then the store could not be read. The context has no changes any
        /// more and its objects have other versions than were fetched, so nothing is known of a
        /// further save: the client gives the context up.
        case unseen
    }

    /// Saves the context and records what became of its edits.
    private func save(
        _ kept: KeptContext, _ edits: [Edit], _ session: WorkloadSession
    ) -> Outcome {
        let edited = edits.map(\.fetched.objectID)
        let ids = edited + kept.objects.map(\.fetched.objectID).filter { !edited.contains($0) }
        guard let (stored, before) = try? read(ids, session) else { return .notSaved }
        kept.saves += 1
        let hasInserts = kept.context.performAndWait { !kept.context.insertedObjects.isEmpty }
        let outcome = session.perform { _ in
            try kept.context.performAndWait { try kept.context.save() }
        }
        var refusal: CoordinatorError?
        if case .failure(let error) = outcome {
            guard let error = error as? CoordinatorError, Self.refusals.contains(error.code)
            else { return .notSaved }
            refusal = error
        }
        guard let (after, _) = try? read(ids, session) else {
            return refusal == nil ? .unseen : .notSaved
        }
        if !edits.isEmpty {
            let objects = edits.indices.map { place in
                ContextRecord.Object(
                    id: ids[place], fetched: edits[place].fetched,
                    assigned: edits[place].assigned, stored: stored[place], after: after[place])
            }
            session.record(
                ContextRecord(
                    policy: kept.context.mergePolicy.merge, before: before, objects: objects,
                    error: refusal,
                    hasChanges: kept.context.performAndWait { kept.context.hasChanges },
                    hasInserts: hasInserts))
        }
        switch refusal?.code {
        case nil:
            // What the save changed besides its edits, such as another's claim of a one-to-one,
            // the context has as it is now.
            // So it has what its delete rules reached and its policy gave up, because it had
            // changed.
            let mayDrop =
                kept.context.mergePolicy.merge == .rollback && edits.contains { $0.assigned == nil }
            let touched = ids.indices.dropFirst(edited.count).filter { place in
                stored[place]?.version != after[place]?.version
                    && after[place]?.objectID ?? ids[place] == ids[place]
                    || mayDrop && kept.shows(after[place])
            }
            let written = Array(edits.indices) + touched
            kept.settle(
                Dictionary(written.map { (ids[$0], after[$0]) }) { first, _ in first })
            let deleted = edits.indices.filter { edits[$0].assigned == nil && after[$0] == nil }
            kept.nullify(deleted.map { ids[$0] }, session.model)
            checkAttributes(kept, written.map { ids[$0] }, session)
        case .mergeConflict: session.met(.staleSaveRefused)
        case .unresolvedConflict: session.met(.unresolvedSaveRefused)
        default: break
        }
        return refusal == nil ? .saved : .notSaved
    }

    /// Objects as the store has them, nil where they are gone, and what the store contains.
    private func read(
        _ ids: [ManagedObjectID], _ session: WorkloadSession
    ) throws -> (rows: [RowSnapshot?], vector: VersionVector) {
        let read = session.read { reader, reading in
            (try ids.map { try session.row($0, reader, &reading) }, reading.token.versionVector)
        }
        guard let read else { throw CoordinatorError(.inputOutput, "It cannot be read.") }
        return read
    }

    /// After a save the context shows what the store holds of the objects that it changed.
    /// References are left out: a target's end changes how they read without a new version.
    private func checkAttributes(
        _ kept: KeptContext, _ ids: [ManagedObjectID], _ session: WorkloadSession
    ) {
        kept.context.performAndWait {
            for (object, row) in kept.objects where ids.contains(object.objectID) {
                guard row.objectID == object.objectID else {
                    session.memory.complain(
                        "a context shows \(object.objectID) after its save, the store "
                            + "\(row.objectID) in its place")
                    continue
                }
                let shown = object.committedValues()
                for position in ModelStructure.attributes(object.entity) {
                    let name = object.entity.properties[position].name
                    if let value = shown[name], value != row.values[position] {
                        session.memory.complain(
                            "a context shows \(value) for \(object.objectID).\(name) after its "
                                + "save, the store \(row.values[position])")
                    }
                }
            }
        }
    }
}

/// A policy that decides nothing itself.
// Unchecked, as its class is; it has no state.
private final class HandingPolicy: ContextMergePolicy, @unchecked Sendable {}
