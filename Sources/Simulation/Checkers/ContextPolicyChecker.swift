internal import Coordinator
internal import Merge
internal import ReferenceModel

/// Law 10: a context's merge policy does at a save what Core Data's does (CONFORMANCE CD-2 to
/// CD-25).
struct ContextPolicyChecker: Checker {
    let law = 10

    private var findings = Findings()

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        guard case .contextSaved(let node, let record) = observation else { return [] }
        let place = "\(Telling.node(node)) context with \(record.policy.rawValue)"
        if !record.objects.contains(where: { GroupedObject.is($0, record, run.model) }) {
            checkError(record, place)
        }
        if record.error != nil {
            checkUntouched(record, place, run.model)
        } else {
            if record.hasChanges {
                findings.note("changes", "\(place): expected no changes after a save, found some")
            }
            let rules = SaveSurroundings(record, run.model)
            for object in record.objects where !GroupedObject.is(object, record, run.model) {
                check(object, record, rules, place, run)
            }
        }
        return findings.take()
    }

    // MARK: Refusals

    /// Under an error policy the save throws exactly where an object has moved on, and names it.
    private mutating func checkError(_ record: ContextRecord, _ place: String) {
        let moved = record.objects.filter { ContextPolicy.takesPart($0, in: record) }
            .filter { ContextPolicy.hasMoved($0) }
        guard let error = record.error else {
            guard record.policy.leavesUnresolved, let first = moved.first else { return }
            findings.note(
                "missed",
                "\(place) \(first.id): expected mergeConflict, for \(first.fetched.version) became "
                    + "\(first.stored?.version.description ?? "deleted"), found it saved")
            return
        }
        guard error.code == .mergeConflict else { return }
        if !record.policy.leavesUnresolved {
            findings.note("thrown", "\(place): expected to be settled, found \(error.message)")
            return
        }
        var listed: [ManagedObjectID: MergeConflict] = [:]
        for conflict in error.conflicts {
            if listed.updateValue(conflict, forKey: conflict.object) != nil {
                findings.note(
                    "listed", "\(place) \(conflict.object): expected one conflict, found two")
            }
        }
        if listed.isEmpty {
            findings.note("listed", "\(place): expected the conflicts of the error, found none")
        }
        for object in record.objects {
            let conflict = listed[object.id]
            let isMoved = moved.contains { $0.id == object.id }
            if isMoved != (conflict != nil) {
                findings.note(
                    "listed",
                    "\(place) \(object.id) in conflict: expected \(isMoved), found \(!isMoved)")
            }
            guard let conflict, isMoved else { continue }
            let (old, new) = (object.fetched.version, object.stored?.version)
            if conflict.oldVersion != old || conflict.newVersion != new {
                findings.note(
                    "versions",
                    "\(place) \(object.id): expected a conflict of \(old) with "
                        + "\(new?.description ?? "deleted"), found "
                        + "\(conflict.oldVersion?.description ?? "none") with "
                        + "\(conflict.newVersion?.description ?? "deleted")")
            }
        }
    }

    /// Checks that a refused save changed nothing, and that the context still has its changes.
    private mutating func checkUntouched(
        _ record: ContextRecord, _ place: String, _ model: ManagedObjectModel
    ) {
        if record.error?.code == .outcomeUnknown { return }
        let code = record.error?.code.rawValue ?? ""
        if !record.hasChanges {
            findings.note("changes", "\(place): expected its changes after \(code), found none")
        }
        for object in record.objects where object.stored != object.after {
            findings.note(
                "refused",
                "\(place) \(object.id): expected unchanged by a save that threw \(code), found "
                    + Self.difference(object.stored, object.after, model))
        }
    }

    private static func difference(
        _ expected: RowSnapshot?, _ found: RowSnapshot?, _ model: ManagedObjectModel
    ) -> String {
        guard let expected else { return "it alive" }
        guard let found else { return "it gone" }
        return Telling.difference(expected, found, model) ?? "no difference"
    }

    // MARK: Outcomes

    private mutating func check(
        _ object: ContextRecord.Object, _ record: ContextRecord, _ rules: SaveSurroundings,
        _ place: String, _ run: RunContext
    ) {
        let expected = ContextPolicy.outcome(
            record.policy, fetched: object.fetched.values, assigned: rules.assigned(object),
            stored: object.stored?.values, hasMoved: ContextPolicy.hasMoved(object))
        switch (expected, object.after) {
        case (.conflict, _): break  // Told by checkError.
        case (.gone, nil): break
        case (.gone, let found?):
            // A delete that another object's rules bring about is none of this one's.
            findings.note(
                "existence",
                "\(place) \(object.id): expected gone, found with version \(found.version)")
        case (.values, nil):
            if rules.mayCascade(to: object.id) { break }
            findings.note("existence", "\(place) \(object.id): expected to be there, found gone")
        case (.values(let values, let written), let found?):
            compare(values, found, object, record, rules, place, run.model) { position, name in
                let value = found.values[position]
                if !written.contains(position) {
                    return Self.isRegistered(value, name, object, record, run)
                }
                return object.stored == nil && object.assigned?[position] == nil
                    && Self.wasRegistered(value, name, object, run)
            }
            guard written.isEmpty, !rules.hasDeletes, let stored = object.stored,
                stored.version != found.version
            else { return }
            findings.note(
                "untouched",
                "\(place) \(object.id): expected version \(stored.version), for the policy left "
                    + "nothing to write, found \(found.version)")
        }
    }

    /// Whether a reference that the save left alone shows what its register held all along.
    ///
    /// The save sees the register and the context its projection. A reference that was null
    /// because its target was gone, or was claimed by another row, shows again as soon as the
    /// same save brings the target back, takes the other's claim away, or writes this row where
    /// the whole row is one register and its latest write stands. And so it must: a projected nil
    /// must not become real (DESIGN sections 5.2 and 5.4). What the register held is the oracle's
    /// word; where the run does not know all that the store had, nobody can tell.
    private static func isRegistered(
        _ found: PropertyValue, _ name: String, _ object: ContextRecord.Object,
        _ record: ContextRecord, _ run: RunContext
    ) -> Bool {
        guard run.archive.covers(record.before) else { return true }
        let oracle = run.archive.oracle(
            at: record.before,
            of: OracleChecker.subjects(ofEntity: object.id.entityName, run.model))
        return oracle.rawValue(object.id.row, name) == found
    }

    /// Whether a reference of an object that overwriting brought back shows what its register held when
    /// the context fetched it.
    ///
    /// The context had read it as null, because its target was gone; it comes back as what it was,
    /// and shows again where the target is back by now (MODEL P13). The store has nothing of an
    /// object that is deleted and merges as a whole, so that it is asked of what the fetched
    /// version's writers knew.
    private static func wasRegistered(
        _ found: PropertyValue, _ name: String, _ object: ContextRecord.Object, _ run: RunContext
    ) -> Bool {
        var known = VersionVector()
        for dot in object.fetched.version.allDots {
            guard let transaction = run.archive.transaction(dot) else { return true }
            known.join(transaction.seen)
            known.advance(to: dot)
        }
        guard run.archive.covers(known) else { return true }
        let oracle = run.archive.oracle(
            at: known, of: OracleChecker.subjects(ofEntity: object.id.entityName, run.model))
        return oracle.rawValue(object.id.row, name) == found
    }

    /// Whether the targets of a reference need that reference, or have no room for more.
    private static func isNeeded(
        _ name: String, of entity: ManagedObjectModel.Entity, _ model: ManagedObjectModel
    ) -> Bool {
        guard let relationship = entity.relationships.first(where: { $0.name == name }),
            let back = relationship.description.inverse,
            let other = model.entity(named: relationship.destination)?.relationships
                .first(where: { $0.name == back })?.description
        else { return false }
        return other.minimumCount > 0 || other.maximumCount > 0 || !other.isOptional
    }

    private mutating func compare(
        _ expected: [PropertyValue], _ found: RowSnapshot, _ object: ContextRecord.Object,
        _ record: ContextRecord, _ rules: SaveSurroundings, _ place: String,
        _ model: ManagedObjectModel,
        mayReturn: (Int, String) -> Bool
    ) {
        guard let entity = model.entity(named: object.id.entityName),
            expected.count == entity.columns.count, found.values.count == expected.count
        else {
            findings.note("values", "\(place) \(object.id): the snapshots have other properties")
            return
        }
        for (position, property) in entity.properties.enumerated() {
            if expected[position] == found.values[position] { continue }
            // Where its target is gone or is claimed by another, a reference reads as null.
            if property.isReference, found.values[position].isNull { continue }
            // A reference to a group shows the row that stands for it.
            if case .toOne(let destination) = property.content,
                GroupedObject.isConstrained(destination, model)
            {
                continue
            }
            // And shows again where the same save gives it its target back.
            if property.isReference, expected[position].isNull, mayReturn(position, property.name) {
                continue
            }
            // What overwriting would bring back, and what this or another object needs is against it, stays.
            if record.policy == .overwrite, object.assigned?[position] == nil,
                !property.isOptional || Self.isNeeded(property.name, of: entity, model),
                found.values[position] == object.stored?.values[position]
            {
                continue
            }
            if rules.isNullified(position, of: object),
                found.values[position] == object.stored?.values[position]
            {
                continue
            }
            findings.note(
                "values",
                "\(place) \(object.id).\(property.name): expected "
                    + "\(Telling.value(expected[position])), found "
                    + "\(Telling.value(found.values[position])) (fetched "
                    + "\(Telling.value(object.fetched.values[position])), assigned "
                    + "\(Telling.value(object.assigned?[position])), stored "
                    + "\(Telling.value(object.stored?.values[position])))")
        }
    }
}

/// Objects whose outcome Core Data's rules alone do not give, because other objects have their
/// unique key, or may get it by the same save. Law 3 says what they show.
private enum GroupedObject {
    static func `is`(
        _ object: ContextRecord.Object, _ record: ContextRecord, _ model: ManagedObjectModel
    ) -> Bool {
        guard let entity = model.entity(named: object.id.entityName),
            isConstrained(entity.name, model)
        else { return false }
        let keys = Set(entity.uniquenessConstraints.flatMap { $0 })
        let isTouched = object.assigned.map { !keys.isDisjoint(with: $0.keys) } ?? true
        let rows = [object.fetched, object.stored, object.after].compactMap { $0 }
        return record.hasInserts || isTouched
            || rows.contains { $0.objectID != object.id || !$0.version.eclipsed.isEmpty }
            // What comes back, or goes, changes which row is shown.
            || object.stored == nil || object.after == nil
            || keys.contains { object.fetched.values[$0] != object.stored?.values[$0] }
    }

    /// Whether rows of an entity's hierarchy compete for keys.
    static func isConstrained(_ name: String, _ model: ManagedObjectModel) -> Bool {
        guard let root = model.entity(named: name)?.root else { return false }
        return UniqueKeys.entities(model).contains { $0.root == root }
    }
}

/// What Core Data's merge policies make of one object, as a pure function; written from
/// CONFORMANCE.md alone.
enum ContextPolicy {
    /// What becomes of an object.
    enum Outcome: Hashable {
        /// The save must not happen.
        case conflict
        /// The object is deleted.
        case gone
        /// It has these values; which of them, by position, the save writes.
        case values([PropertyValue], written: Set<Int>)
    }

    /// Whether an object's row has another version by now than the context had fetched.
    static func hasMoved(_ object: ContextRecord.Object) -> Bool {
        object.stored?.version != object.fetched.version
    }

    /// Whether a save looks at an object at all: unchanged ones take no part (CD-29), and a value
    /// assigned that is equal is no change (CD-98).
    static func takesPart(_ object: ContextRecord.Object, in record: ContextRecord) -> Bool {
        guard let assigned = object.assigned else { return true }
        let gone = Set(record.objects.filter { $0.assigned == nil }.map(\.id.row))
        return assigned.contains { position, value in
            guard position < object.fetched.values.count else { return true }
            let base = object.fetched.values[position]
            if base == value { return false }
            // That a reference ends with its target is the delete's doing.
            if value.isNull, case .reference(let target) = base, gone.contains(target) {
                return false
            }
            return true
        }
    }

    /// The outcome for one object.
    ///
    /// - Parameters:
    ///   - fetched: the values that the context had read.
    ///   - assigned: what it assigned, by position; nil where it deleted the object.
    ///   - stored: the values in the store right before the save; nil where it is deleted there.
    ///   - hasMoved: whether its version is another than the fetched one.
    static func outcome(
        _ policy: MergePolicy, fetched: [PropertyValue], assigned: [Int: PropertyValue]?,
        stored: [PropertyValue]?, hasMoved: Bool
    ) -> Outcome {
        let assigned = assigned?.filter { $0.key < fetched.count && fetched[$0.key] != $0.value }
        if let assigned, assigned.isEmpty {
            // It takes no part.
            return stored.map { .values($0, written: []) } ?? .gone
        }
        guard hasMoved else {
            guard let assigned, let stored else { return .gone }
            return .values(over(stored, assigned), written: Set(assigned.keys))
        }
        if policy == .error || policy == .errorByRow { return .conflict }  // CD-2, 3, 16, 21, 24
        guard let stored else {
            // Deleted in the store: only overwriting brings it back, whole (CD-17 to CD-20, 24).
            guard policy == .overwrite, let assigned else { return .gone }
            return .values(over(fetched, assigned), written: Set(fetched.indices))
        }
        guard let assigned else {
            // CD-22, CD-23
            return policy == .rollback ? .values(stored, written: []) : .gone
        }
        switch policy {
        case .rollback: return .values(stored, written: [])  // CD-14
        case .overwrite:  // CD-13
            let restored = fetched.indices.filter { fetched[$0] != stored[$0] }
            return .values(
                over(fetched, assigned), written: Set(assigned.keys).union(restored))
        case .mergeByPropertyObjectTrump, .named:  // CD-11, 12, 15; no context has a named one
            return .values(over(stored, assigned), written: Set(assigned.keys))
        case .mergeByPropertyStoreTrump, .error, .errorByRow:  // CD-9, 10, 15
            let kept = assigned.filter { fetched[$0.key] == stored[$0.key] }
            return .values(over(stored, kept), written: Set(kept.keys))
        }
    }

    private static func over(
        _ base: [PropertyValue], _ assigned: [Int: PropertyValue]
    ) -> [PropertyValue] {
        var values = base
        for (position, value) in assigned where position < values.count {
            values[position] = value
        }
        return values
    }
}

/// What else a context's save did that shows in an object: deletes with their rules.
private struct SaveSurroundings {
    /// Whether anything was deleted.
    let hasDeletes: Bool
    private let deleted: [ManagedObjectID]
    private let gone: Set<RowID>
    private let model: ManagedObjectModel

    init(_ record: ContextRecord, _ model: ManagedObjectModel) {
        deleted = record.objects.filter { $0.assigned == nil }.map(\.id)
        gone = Set(deleted.map(\.row))
        hasDeletes = !deleted.isEmpty
        self.model = model
    }

    /// What an object's own changes are: without references that end with their targets.
    func assigned(_ object: ContextRecord.Object) -> [Int: PropertyValue]? {
        object.assigned?.filter { !isNullified($0.key, of: object) }
    }

    /// Whether a reference was taken away because its target is deleted in the same save.
    func isNullified(_ position: Int, of object: ContextRecord.Object) -> Bool {
        guard position < object.fetched.values.count, object.assigned?[position]?.isNull == true,
            case .reference(let target) = object.fetched.values[position]
        else { return false }
        return gone.contains(target)
    }

    /// Whether a delete rule of something deleted may have deleted an object too.
    func mayCascade(to id: ManagedObjectID) -> Bool {
        deleted.contains { other in
            model.entity(named: other.entityName)?.relationships.contains {
                $0.description.deleteRule == .cascade
            } ?? false
        } && deleted != [id]
    }
}
