import Merge

/// Gives inserted objects their permanent identities before they are saved.
struct IdentityGiver: ContextPart {
    let context: ManagedObjectContext

    /// Gives all that have none, in the order of their inserts.
    func giveToInserted() throws {
        guard graph.mayHaveTemporaries else { return }
        try give(to: graph.inserted.values.filter(\.objectID.isTemporaryID))
        graph.mayHaveTemporaries = false
    }

    /// Gives identities to inserted objects that have temporary ones.
    ///
    /// - Throws: ``CoordinatorError`` where none are to be had; then nothing is changed.
    func give(to objects: [ManagedObject]) throws {
        // Temporary rows count downwards.
        let waiting = objects.sorted { $0.row > $1.row }
        if waiting.isEmpty { return }
        let rows = try persistentStoreCoordinator.reserveRows(waiting.count)
        var permanent: [RowID: RowID] = [:]
        for (object, row) in zip(waiting, rows) {
            permanent[object.row] = row
            graph.registry[object.objectID] = nil
            graph.inserted[object.objectID] = nil
            object.row = row
            graph.inserted[object.objectID] = object
            objectRegistry.register(object)
        }
        for object in [graph.inserted, graph.updated, graph.deleted].joined().map(\.value) {
            object.replaceReferences(permanent)
        }
        graph.columnDeltas = renamed(graph.columnDeltas, permanent)
        graph.linkDeltas = renamed(graph.linkDeltas, permanent)
        func replaced(
            _ noted: [(object: ManagedObject, values: [PropertyValue])]
        ) -> [(object: ManagedObject, values: [PropertyValue])] {
            noted.map { ($0.object, ManagedObject.replacing(permanent, in: $0.values)) }
        }
        graph.before = replaced(graph.before)
        graph.toldBefore = replaced(graph.toldBefore)
        graph.undoNotes.before = replaced(graph.undoNotes.before)
        graph.formerRows.merge(permanent) { _, new in new }
        graph.live.noteSave(waiting, waiting.map(\.objectID))
    }

    private func renamed(
        _ deltas: [MemberKey: MemberDelta], _ permanent: [RowID: RowID]
    ) -> [MemberKey: MemberDelta] {
        func renamed(_ members: Set<ManagedObjectID>) -> Set<ManagedObjectID> {
            Set(
                members.map { member in
                    permanent[member.row].map {
                        ManagedObjectID(entityName: member.entityName, row: $0)
                    } ?? member
                })
        }
        return Dictionary(
            uniqueKeysWithValues: deltas.map { key, delta in
                let key = MemberKey(
                    row: permanent[key.row] ?? key.row, relationship: key.relationship)
                return (
                    key,
                    MemberDelta(
                        added: renamed(delta.added), removed: renamed(delta.removed),
                        nullified: renamed(delta.nullified))
                )
            })
    }
}

extension ManagedObject {
    fileprivate static func replacing(
        _ identities: [RowID: RowID], in values: [PropertyValue]
    ) -> [PropertyValue] {
        values.map { value in
            guard case .reference(let row) = value, let row = identities[row] else { return value }
            return .reference(row)
        }
    }

    /// Replaces identities that its to-ones have by others.
    func replaceReferences(_ identities: [RowID: RowID]) {
        if identities.isEmpty { return }
        for relationship in entity.relationships {
            guard case .column(let position) = relationship.storage, position < values.count,
                case .reference(let row) = values[position], let row = identities[row]
            else { continue }
            values[position] = .reference(row)
        }
    }
}

extension ManagedObjectContext {
    /// Gives inserted objects the IDs that they keep when they are saved, as
    /// obtainPermanentIDs(for:). Objects that have permanent IDs already stay as they are. To be
    /// used on its queue.
    ///
    /// The objects stay inserted until they are saved. An ID that is not used in the end is never given
    /// to another object.
    ///
    /// - Precondition: The objects are of this context.
    /// - Throws: ``CoordinatorError`` where the store cannot be written; then no object has another ID.
    public func obtainPermanentIDs(
        for objects: [ManagedObject], file: StaticString = #fileID, line: UInt = #line
    ) throws {
        let place = SourcePlace(file, line)
        confine("obtainPermanentIDs(for:)", at: place)
        for object in objects {
            require(
                object.managedObjectContext === self,
                "\(object.objectID) is not of this context.", at: place)
        }
        let waiting = Set(objects.filter { $0.isInserted && $0.objectID.isTemporaryID })
        try IdentityGiver(context: self).give(to: Array(waiting))
    }
}
