import Merge
import Synchronization

/// The request that a context makes of its coordinator at a save.
struct ContextSave: ContextPart {
    let context: ManagedObjectContext

    /// Calls `willSave` until nothing changes any more, as it may change values itself.
    ///
    /// - Throws: ``CoordinatorError`` `limitExceeded` after 1000 rounds, as Core Data does.
    func callWillSave() throws {
        if !graph.hasSubclasses { return }
        for _ in 0..<1000 {
            let before = graph.changeCount
            for object in context.sorted(graph.inserted) + context.sorted(graph.updated)
                + context.sorted(graph.deleted)
            {
                object.willSave()
            }
            if graph.changeCount == before { return }
            context.processPendingChanges()
            deletes.propagateDeletes()
        }
        throw CoordinatorError(
            .limitExceeded, "Objects went on changing in willSave for 1000 rounds.")
    }

    // MARK: The request

    func saveRequest(
        _ options: SaveOptions, policy: MergePolicy, _ settled: SettledConflicts
    ) -> SaveRequest {
        var operations: [SaveOperation] = []
        for object in insertedInOrder() {
            operations.append(
                SaveOperation(
                    kind: .insert, entity: object.entity, row: object.objectID.row,
                    values: object.changedPositions().map { ($0, object.values[$0]) },
                    relationships: linkOperations(of: object)))
        }
        for object in context.sorted(graph.updated) {
            let values = object.changedPositions().filter { !isNullified($0, of: object) }
                .map { (position: $0, value: object.values[$0]) }
            let links = linkOperations(of: object)
            if values.isEmpty, links.isEmpty, graph.checked[object.objectID] == nil { continue }
            operations.append(
                operation(
                    values.isEmpty && links.isEmpty ? .check : .update, object, values: values,
                    relationships: links))
        }
        for object in context.sorted(graph.deleted) {
            var deletion = operation(
                .delete, object, values: decidingReferences(of: object),
                relationships: linkOperations(of: object))
            deletion.isByRule = object.isDeletedByRule
            operations.append(deletion)
        }
        for object in context.sorted(graph.checked) where object.change == .none {
            operations.append(operation(.check, object))
        }
        let numbers = number(&operations)
        let settings = context.settings.withLock { ($0.transactionAuthor, $0.name) }
        if options.resolvesConflicts {
            for index in operations.indices { operations[index].resolves = true }
        }
        var request = SaveRequest(
            operations: operations, mergePolicy: policy, author: settings.0,
            contextName: settings.1, saveID: options.saveID, note: options.note,
            isBulk: options.isBulk)
        if !settled.isEmpty { request.settled = settled.renamed(numbers) }
        return request
    }

    /// The inserted objects, the first inserted first: permanent IDs were given in that order, and
    /// temporary ones count downwards.
    func insertedInOrder() -> [ManagedObject] {
        let sorted = context.sorted(graph.inserted)
        let start = sorted.firstIndex { !$0.objectID.isTemporaryID } ?? sorted.endIndex
        return sorted[start...] + sorted[..<start].reversed()
    }

    /// Names the inserts of a request by -1, -2 and so on, in their order: a save that is repeated, by
    /// another context too, names them alike. The planner gives permanent identities to those that have
    /// them already.
    ///
    /// - Returns: the numbers.
    private func number(_ operations: inout [SaveOperation]) -> [RowID: RowID] {
        var numbers: [RowID: RowID] = [:]
        for index in operations.indices.prefix(while: { operations[$0].kind == .insert }) {
            let row = operations[index].row
            numbers[row] = RowID(-Int64(index) - 1)
            if row.rawValue > 0 { operations[index].reservedRow = row }
            operations[index].row = RowID(-Int64(index) - 1)
        }
        if numbers.isEmpty { return numbers }
        for index in operations.indices {
            for place in operations[index].values.indices {
                guard case .reference(let row) = operations[index].values[place].value,
                    let number = numbers[row]
                else { continue }
                operations[index].values[place].value = .reference(number)
            }
            for place in operations[index].relationships.indices {
                operations[index].relationships[place].members =
                    operations[index].relationships[place].members.map { numbers[$0] ?? $0 }
            }
        }
        return numbers
    }

    /// A save's error with the context's own IDs of inserted objects, instead of the request's numbers.
    func named(_ error: CoordinatorError) -> CoordinatorError {
        let inserted = insertedInOrder()
        func object(_ number: Int64) -> ManagedObject? {
            guard number < 0, number >= -Int64(inserted.count) else { return nil }
            return inserted[Int(-1 - number)]
        }
        var result = error
        for index in result.failures.indices {
            guard let number = Int64(result.failures[index].object), let object = object(number)
            else { continue }
            result.failures[index].object = object.nameInFailures
        }
        result.conflicts = result.conflicts.map { conflict in
            guard let object = object(conflict.object.row.rawValue) else { return conflict }
            return conflict.renamed(object.objectID)
        }
        for index in result.constraintConflicts.indices {
            result.constraintConflicts[index].conflictingObjects =
                result.constraintConflicts[index].conflictingObjects.map {
                    object($0.row.rawValue)?.objectID ?? $0
                }
        }
        return result
    }

    func operation(
        _ kind: SaveOperation.Kind, _ object: ManagedObject,
        values: [(position: Int, value: PropertyValue)] = [],
        relationships: [RelationshipOperation] = []
    ) -> SaveOperation {
        SaveOperation(
            kind: kind, entity: object.entity, row: object.objectID.row, values: values,
            relationships: relationships, version: object.version, snapshot: object.snapshot)
    }

    /// Whether a reference is null because its target is deleted in the same save. Then it is not
    /// written: the coordinator carries the delete rules out, and knows where the projection gives
    /// nil anyway (DESIGN, section 5.4). A reference that was made null before is written, because
    /// then the target's rules are not for this object.
    func isNullified(_ position: Int, of object: ManagedObject) -> Bool {
        object.nullified.contains(position) && object.values[position].isNull
            && leadsToDeleted(object.base(position), at: position, of: object)
    }

    /// Whether a value of a to-one leads to an object that is deleted here.
    func leadsToDeleted(
        _ value: PropertyValue, at position: Int, of object: ManagedObject
    ) -> Bool {
        guard case .reference(let row) = value,
            case .toOne(let destination) = object.entity.properties[position].content
        else { return false }
        return context.entityNamed(destination).familyNames.contains {
            graph.deleted[ManagedObjectID(entityName: $0, row: row)] != nil
        }
    }

    /// Where the changed to-ones of a deleted object lead, for the coordinator's delete rules to
    /// follow them as those in memory did.
    func decidingReferences(
        of object: ManagedObject
    ) -> [(position: Int, value: PropertyValue)] {
        object.changedPositions().filter { !isNullified($0, of: object) }.compactMap { position in
            guard case .toOne(let destination) = object.entity.properties[position].content else {
                return nil
            }
            let value = object.values[position]
            guard case .reference(let row) = value, row.rawValue < 0,
                objectRegistry.registered(row, context.entityNamed(destination)) == nil
            else { return (position, value) }
            // An insert that was dropped since.
            return (position, .null)
        }
    }

    /// The links made and broken, told by the side the link is named after; a relationship that
    /// is its own inverse has a link each way, told by both. Those that a delete rule broke are
    /// left out, as its nulls are.
    func linkOperations(of object: ManagedObject) -> [RelationshipOperation] {
        if graph.linkDeltas.isEmpty { return [] }
        var operations: [RelationshipOperation] = []
        for relationship in object.entity.relationships {
            guard case .link(_, let isFirst) = relationship.storage, isFirst,
                let delta = graph.linkDeltas[
                    MemberKey(row: object.objectID.row, relationship: relationship.name)]
            else { continue }
            for (kind, members) in [
                (RelationshipOperation.Kind.add, delta.added),
                (.remove, delta.removed.subtracting(delta.nullified)),
            ] {
                let rows = members.map(\.row).sorted()
                if rows.isEmpty { continue }
                operations.append(
                    RelationshipOperation(name: relationship.name, kind: kind, members: rows))
            }
        }
        return operations
    }
}
