import Merge

extension ManagedObject {
    /// The object that a to-one leads to, as a fault where it was not yet read; or nil.
    ///
    /// - Precondition: The entity has a to-one of that name, and its object is of that class.
    public func relatedObject<Object: ManagedObject>(
        forKey key: String, as type: Object.Type = Object.self, file: StaticString = #fileID,
        line: UInt = #line
    ) -> Object? {
        let place = SourcePlace(file, line)
        guard let object = relatedObject(relationship(key, isToMany: false, at: place)) else {
            return nil
        }
        return cast(object, key, at: place)
    }

    /// Leads a to-one to another object, or nowhere. The inverse follows at once.
    ///
    /// - Precondition: The entity has a to-one of that name; the object is of its destination
    ///   and of the same context.
    public func setRelatedObject(
        _ object: ManagedObject?, forKey key: String, file: StaticString = #fileID,
        line: UInt = #line
    ) {
        let place = SourcePlace(file, line)
        setRelatedObject(object, relationship(key, isToMany: false, at: place), at: place)
    }

    /// The objects that a to-many leads to, sorted by ID.
    ///
    /// - Precondition: The entity has a to-many of that name, and its objects are of that class.
    public func relatedObjects<Object: ManagedObject>(
        forKey key: String, as type: Object.Type = Object.self, file: StaticString = #fileID,
        line: UInt = #line
    ) -> [Object] {
        let place = SourcePlace(file, line)
        let relationship = relationship(key, isToMany: true, at: place)
        guard let context = usableContext() else { return [] }
        return context.relationshipTracker.members(of: self, relationship).sorted()
            .map { cast(context.object(with: $0), key, at: place) }
    }

    /// Makes these, and no others, the members of a to-many. The inverses follow at once.
    ///
    /// - Precondition: As for ``add(_:toRelationship:)``.
    public func setRelatedObjects(
        _ objects: [ManagedObject], forKey key: String, file: StaticString = #fileID,
        line: UInt = #line
    ) {
        let wanted = Set(objects)
        for object in relatedObjects(
            forKey: key, as: ManagedObject.self, file: file, line: line)
        where !wanted.contains(object) {
            remove(object, fromRelationship: key, file: file, line: line)
        }
        for object in objects { add(object, toRelationship: key, file: file, line: line) }
    }

    /// Adds a member to a to-many. The inverse follows at once.
    ///
    /// - Precondition: The entity has a to-many of that name; the object is of its destination
    ///   and of the same context.
    public func add(
        _ object: ManagedObject, toRelationship key: String, file: StaticString = #fileID,
        line: UInt = #line
    ) {
        let place = SourcePlace(file, line)
        let relationship = relationship(key, isToMany: true, at: place)
        guard let context = contextShared(with: object, relationship, at: place) else { return }
        switch relationship.storage {
        case .inverseColumn(_, let property):
            object[property] = .reference(objectID.row)
        case .link:
            context.relationshipTracker.setLink(of: self, relationship, to: object, isMember: true)
        case .column: break
        }
    }

    /// Removes a member from a to-many, if it is one. The inverse follows at once.
    ///
    /// - Precondition: As for ``add(_:toRelationship:)``.
    public func remove(
        _ object: ManagedObject, fromRelationship key: String, file: StaticString = #fileID,
        line: UInt = #line
    ) {
        let place = SourcePlace(file, line)
        let relationship = relationship(key, isToMany: true, at: place)
        guard let context = contextShared(with: object, relationship, at: place) else { return }
        switch relationship.storage {
        case .inverseColumn(_, let property):
            let current: PropertyValue = object[property]
            if current == .reference(objectID.row) { object[property] = .null }
        case .link:
            context.relationshipTracker.setLink(of: self, relationship, to: object, isMember: false)
        case .column: break
        }
    }

    func relatedObject(_ relationship: ManagedObjectModel.Relationship) -> ManagedObject? {
        guard let context = usableContext() else { return nil }
        if case .column(let position) = relationship.storage {
            guard case .reference(let row) = read(position) else { return nil }
            let target = context.objectRegistry.resolve(
                row, destination: relationship.destination)
            if let target, context.objectRegistry.mustBeRead(target) {
                context.graph.followed.note(
                    relationship, of: entity, context.persistentStoreCoordinator.options)
            }
            return target
        }
        // The store admits one row that claims this object; in memory a second one can be on
        // its way out only within `setReference`.
        return context.relationshipTracker.members(of: self, relationship).min().map {
            context.object(with: $0)
        }
    }

    func setRelatedObject(
        _ object: ManagedObject?, _ relationship: ManagedObjectModel.Relationship,
        at place: SourcePlace
    ) {
        let checks = object != nil
        guard
            contextShared(with: object ?? self, relationship, checks: checks, at: place) != nil
        else { return }
        switch relationship.storage {
        case .column(let position):
            write(object.map { .reference($0.objectID.row) } ?? .null, position, at: place)
        case .inverseColumn(_, let property):
            let current = relatedObject(relationship)
            if current === object { return }
            current?[property] = .null
            object?[property] = .reference(objectID.row)
        case .link: break
        }
    }

    private func relationship(
        _ key: String, isToMany: Bool, at place: SourcePlace
    ) -> ManagedObjectModel.Relationship {
        confine(key, at: place)
        guard let relationship = entity.relationship(named: key),
            relationship.isToMany == isToMany
        else {
            let kind = isToMany ? "to-many" : "to-one"
            misuse("\(entity.name) has no \(kind) relationship \(key).", at: place)
        }
        return relationship
    }

    private func contextShared(
        with object: ManagedObject, _ relationship: ManagedObjectModel.Relationship,
        checks: Bool = true, at place: SourcePlace
    ) -> ManagedObjectContext? {
        guard let context = contextForWriting(at: place) else { return nil }
        if checks {
            // A deleted object can neither be a target nor take one.
            if object.managedObjectContext == nil, object.wasInContext { return nil }
            require(
                object.managedObjectContext === context,
                "\(object.objectID) belongs to another context than \(objectID); take the one "
                    + "that context.object(with:) gives.", at: place)
            let destination = context.entityNamed(relationship.destination, at: place)
            require(
                object.entity.isKind(of: destination),
                "\(entity.name).\(relationship.name) leads to \(destination.name), not to "
                    + "\(object.entity.name).", at: place)
        }
        return context
    }

    private func cast<Object: ManagedObject>(
        _ object: ManagedObject, _ key: String, at place: SourcePlace
    ) -> Object {
        guard let result = object as? Object else {
            misuse(
                "\(entity.name).\(key) leads to a \(type(of: object)), not a \(Object.self); "
                    + "register the class with the context.", at: place)
        }
        return result
    }
}
