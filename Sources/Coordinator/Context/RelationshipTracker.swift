import Merge

/// Names one to-many, or derived to-one, of one object. Rows are unique in a store and, if
/// temporary, in a context, so the name needs no entity.
struct MemberKey: Hashable {
    let row: RowID
    let relationship: String
}

/// How pending changes alter the members that the store has.
struct MemberDelta {
    var added: Set<ManagedObjectID> = []
    var removed: Set<ManagedObjectID> = []
    /// Those of the removed that a delete rule took out.
    var nullified: Set<ManagedObjectID> = []
    var isEmpty: Bool { added.isEmpty && removed.isEmpty }
}

/// A to-one column that is the state of a relationship of its target.
struct InverseColumn {
    let position: Int
    let destination: String
    let inverse: String
    let isOneToOne: Bool
}

/// Both sides of relationships, kept in step (CD-107).
///
/// A to-many by inverse column has no state: its members are what the store has, less the
/// pending objects whose column led here and does not any more, plus those whose column does
/// now. `columnDeltas` are exactly these two sets, so each change of a column or of an object's
/// pending state withdraws its old contribution and makes its new one (``rebalance(_:_:)``).
struct RelationshipTracker: ContextPart {
    let context: ManagedObjectContext

    func inverseColumns(of entity: ManagedObjectModel.Entity) -> [InverseColumn] {
        if let known = graph.inverseColumns[entity.name] { return known }
        let columns = entity.relationships.compactMap { relationship -> InverseColumn? in
            guard case .column(let position) = relationship.storage,
                let name = relationship.description.inverse,
                let inverse = context.entityNamed(relationship.destination).relationship(
                    named: name)
            else { return nil }
            return InverseColumn(
                position: position, destination: relationship.destination, inverse: name,
                isOneToOne: !inverse.isToMany)
        }
        graph.inverseColumns[entity.name] = columns
        return columns
    }

    /// Changes an object's columns, base or pending state, and keeps the inverses in step.
    func rebalance(_ object: ManagedObject, _ change: () -> Void) {
        contribute(object, isWithdrawal: true)
        change()
        contribute(object, isWithdrawal: false)
    }

    private func contribute(_ object: ManagedObject, isWithdrawal: Bool) {
        guard !object.isFault else { return }
        for column in inverseColumns(of: object.entity) {
            let base = object.base(column.position)
            let current =
                object.change == .deleted || object.isInaccessible
                ? PropertyValue.null : object.values[column.position]
            if base == current { continue }
            if case .reference(let row) = base {
                alter(MemberKey(row: row, relationship: column.inverse)) {
                    $0.removed.set(object.objectID, !isWithdrawal)
                }
            }
            if case .reference(let row) = current {
                alter(MemberKey(row: row, relationship: column.inverse)) {
                    $0.added.set(object.objectID, !isWithdrawal)
                }
            }
        }
    }

    private func alter(_ key: MemberKey, _ change: (inout MemberDelta) -> Void) {
        // In place: a copy of a large to-many's changes with each member would take the square of them.
        change(&graph.columnDeltas[key, default: MemberDelta()])
        if graph.columnDeltas[key]?.isEmpty == true { graph.columnDeltas[key] = nil }
    }

    /// The members of a to-many or derived to-one, pending changes included.
    func members(
        of object: ManagedObject, _ relationship: ManagedObjectModel.Relationship
    ) -> Set<ManagedObjectID> {
        var members = memberBase(of: object, relationship)
        let key = MemberKey(row: object.objectID.row, relationship: relationship.name)
        if let delta = graph.columnDeltas[key] ?? graph.linkDeltas[key] {
            members.subtract(delta.removed)
            members.formUnion(delta.added)
        }
        return graph.deleted.isEmpty ? members : members.filter { graph.deleted[$0] == nil }
    }

    /// The members of a to-many or derived to-one as the store has them.
    func memberBase(
        of object: ManagedObject, _ relationship: ManagedObjectModel.Relationship
    ) -> Set<ManagedObjectID> {
        if let known = object.memberBases[relationship.name] { return known }
        if object.change == .inserted || object.objectID.isTemporaryID || object.isInaccessible {
            return []
        }
        graph.followed.note(relationship, of: object.entity, persistentStoreCoordinator.options)
        do {
            let members = try objectRegistry.readMembers(of: relationship, object)
            object.memberBases[relationship.name] = members
            return members
        } catch {
            objectRegistry.note(error)
            return []
        }
    }

    /// Gives a to-one column a value. Of a one-to-one, the other object that held the target clears
    /// it first.
    func setReference(of object: ManagedObject, position: Int, to value: PropertyValue) {
        let old = object.values[position]
        let column = inverseColumns(of: object.entity).first { $0.position == position }
        if let column, column.isOneToOne, old != value, case .reference(let row) = value,
            let target = objectRegistry.resolve(row, destination: column.destination),
            let inverse = target.entity.relationship(named: column.inverse)
        {
            for holder in members(of: target, inverse).sorted() where holder != object.objectID {
                let other = context.object(with: holder)
                let name = object.entity.properties[position].name
                if let position = other.entity.position(of: name) { other.write(.null, position) }
            }
        }
        context.noteValues(of: object)
        rebalance(object) { object.values[position] = value }
        object.nullified.remove(position)
        if object.change == .inserted { object.noteAssigned(position) }
        context.noteChange(of: object)
        guard let column, old != value else { return }
        for case .reference(let row) in [old, value] {
            if let target = objectRegistry.resolve(row, destination: column.destination) {
                context.noteChange(of: target)
            }
        }
    }

    // MARK: Links

    /// Makes or breaks a link of a many-to-many.
    ///
    /// - Parameter isNullified: whether a delete rule breaks it.
    func setLink(
        of object: ManagedObject, _ relationship: ManagedObjectModel.Relationship,
        to member: ManagedObject, isMember: Bool, isNullified: Bool = false
    ) {
        objectRegistry.fire(object)
        objectRegistry.fire(member)
        guard !object.isFault, !member.isFault,
            members(of: object, relationship).contains(member.objectID) != isMember
        else { return }
        if graph.undoManager != nil {
            graph.undoNotes.links.append(
                UndoStep.Link(
                    owner: object, relationship: relationship, member: member, wasMember: !isMember)
            )
        }
        alterLink(
            object.objectID, relationship.name, member.objectID, isMember: isMember,
            isNullified: isNullified)
        if let inverse = relationship.description.inverse,
            inverse != relationship.name || member !== object
        {
            alterLink(
                member.objectID, inverse, object.objectID, isMember: isMember,
                isNullified: isNullified)
            context.noteChange(of: member)
        }
        context.noteChange(of: object)
    }

    private func alterLink(
        _ owner: ManagedObjectID, _ relationship: String, _ member: ManagedObjectID,
        isMember: Bool, isNullified: Bool
    ) {
        let key = MemberKey(row: owner.row, relationship: relationship)
        var delta = graph.linkDeltas[key] ?? MemberDelta()
        if isMember {
            if delta.removed.remove(member) == nil { delta.added.insert(member) }
        } else {
            if delta.added.remove(member) == nil { delta.removed.insert(member) }
        }
        delta.nullified.set(member, isNullified && delta.removed.contains(member))
        graph.linkDeltas[key] = delta.isEmpty ? nil : delta
    }

    /// Whether pending changes of the other side alter a derived to-one.
    func hasMemberChanges(
        _ object: ManagedObject, _ relationship: ManagedObjectModel.Relationship
    ) -> Bool {
        graph.columnDeltas[MemberKey(row: object.objectID.row, relationship: relationship.name)]
            != nil
    }

    func hasLinkChanges(_ object: ManagedObject) -> Bool {
        if graph.linkDeltas.isEmpty { return false }
        return object.entity.relationships.contains {
            graph.linkDeltas[MemberKey(row: object.objectID.row, relationship: $0.name)] != nil
        }
    }

    /// Gives up the pending links of an object, at both sides.
    func dropLinks(of object: ManagedObject) {
        for relationship in object.entity.relationships {
            let key = MemberKey(row: object.objectID.row, relationship: relationship.name)
            guard let delta = graph.linkDeltas.removeValue(forKey: key),
                let inverse = relationship.description.inverse
            else { continue }
            for member in delta.added.union(delta.removed) {
                let key = MemberKey(row: member.row, relationship: inverse)
                graph.linkDeltas[key]?.added.remove(object.objectID)
                graph.linkDeltas[key]?.removed.remove(object.objectID)
                graph.linkDeltas[key]?.nullified.remove(object.objectID)
                if graph.linkDeltas[key]?.isEmpty == true { graph.linkDeltas[key] = nil }
            }
        }
    }
}

extension Set {
    /// Makes an element a member or not.
    mutating func set(_ element: Element, _ isMember: Bool) {
        if isMember { insert(element) } else { remove(element) }
    }
}

extension ManagedObjectModel.Relationship {
    /// Whether it is the side of a one-to-one whose state is at the other.
    var isDerivedToOne: Bool {
        if case .inverseColumn = storage { return !isToMany }
        return false
    }
}
