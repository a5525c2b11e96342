public import Merge

extension ManagedObject {
    /// An attribute's or to-one's value as the store keeps it. Reading fires a fault.
    ///
    /// A number is brought to the attribute's type where that can hold it. Any other value of a
    /// wrong type is refused by the save, not here. The values of an object whose row
    /// is found to be gone read as null, and assigning to one that is gone has no effect.
    ///
    /// - Precondition: The entity has an attribute or to-one relationship of that name.
    public subscript(
        key: String, file: StaticString = #fileID, line: UInt = #line
    ) -> PropertyValue {
        get { propertyValue(key, at: SourcePlace(file, line)) }
        set { assign(newValue, to: key, at: SourcePlace(file, line)) }
    }

    private func propertyValue(_ key: String, at place: SourcePlace) -> PropertyValue {
        confine(key, at: place)
        if let position = entity.columnPosition(of: key) { return read(position) }
        if let relationship = derivedToOne(key, at: place) {
            return relatedObject(relationship).map { .reference($0.objectID.row) } ?? .null
        }
        requireTransient(key, at: place)
        usableContext()?.objectRegistry.fire(self)
        return transients[key] ?? entity.attribute(named: key)?.defaultValue ?? .null
    }

    private func assign(_ value: PropertyValue, to key: String, at place: SourcePlace) {
        confine(key, at: place)
        if let position = entity.position(of: key) { return write(value, position, at: place) }
        if let relationship = derivedToOne(key, at: place) {
            guard let context = usableContext() else { return }
            var target: ManagedObject?
            if case .reference(let row) = value {
                target = context.objectRegistry.resolve(row, destination: relationship.destination)
            }
            return setRelatedObject(target, relationship, at: place)
        }
        requireTransient(key, at: place)
        usableContext()?.objectRegistry.fire(self)
        transients[key] = value
        usableContext()?.noteChange(of: self)
    }

    /// An attribute's value as a Swift type; nil for null. Assigning nil makes it null.
    ///
    /// - Precondition: The entity has such an attribute, and its value is of that type.
    public subscript<Value: PropertyValueConvertible>(
        key: String, file: StaticString = #fileID, line: UInt = #line
    ) -> Value? {
        get { value(forKey: key, file: file, line: line) }
        set { setValue(newValue, forKey: key, file: file, line: line) }
    }

    /// An attribute's value as a Swift type; nil for null.
    ///
    /// - Precondition: The entity has such an attribute, and its value is of that type.
    public func value<Value: PropertyValueConvertible>(
        forKey key: String, as type: Value.Type = Value.self, file: StaticString = #fileID,
        line: UInt = #line
    ) -> Value? {
        let place = SourcePlace(file, line)
        let stored = propertyValue(key, at: place)
        if stored.isNull { return nil }
        guard let value = Value(propertyValue: stored) else {
            misuse("\(entity.name).\(key) was read as \(type), and is \(stored).", at: place)
        }
        return value
    }

    /// Gives an attribute a value; nil makes it null.
    ///
    /// - Precondition: The entity has an attribute of that name.
    public func setValue(
        _ value: (some PropertyValueConvertible)?, forKey key: String,
        file: StaticString = #fileID, line: UInt = #line
    ) {
        assign(value?.propertyValue ?? .null, to: key, at: SourcePlace(file, line))
    }

    /// An attribute's value without firing a fault: null where it is one.
    public func primitiveValue(forKey key: String) -> PropertyValue {
        _ = usableContext()
        guard let position = entity.columnPosition(of: key) else {
            return transients[key] ?? .null
        }
        return position < values.count ? values[position] : .null
    }

    /// Gives a stored or transient attribute a value without tracking the change: the object
    /// does not become dirty by it, and a save of the object for another reason takes it along.
    ///
    /// - Precondition: The entity has an attribute of that name.
    public func setPrimitiveValue(
        _ value: PropertyValue, forKey key: String, file: StaticString = #fileID,
        line: UInt = #line
    ) {
        let place = SourcePlace(file, line)
        confine(key, at: place)
        guard let position = entity.position(of: key) else {
            requireTransient(key, at: place)
            transients[key] = value
            return
        }
        require(
            !entity.properties[position].isReference,
            "\(entity.name).\(key) is a relationship; setRelatedObject(_:forKey:) keeps its inverse "
                + "right.", at: place)
        usableContext()?.objectRegistry.fire(self)
        guard position < values.count else { return }
        values[position] = fitted(value, position)
        if change == .inserted { noteAssigned(position) }
    }

    func read(_ position: Int) -> PropertyValue {
        if isFault, let registry = usableContext()?.objectRegistry {
            if let value = registry.partialValue(of: self, position) { return value }
            registry.fire(self)
        }
        return position < values.count ? values[position] : .null
    }

    func write(
        _ value: PropertyValue, _ position: Int,
        at place: SourcePlace = SourcePlace(#fileID, #line)
    ) {
        guard let context = contextForWriting(at: place) else { return }
        context.objectRegistry.fire(self)
        guard position < values.count else { return }
        let value = fitted(value, position)
        // An object inserted while others awake is as new as ever.
        if context.graph.isAwakening, change != .inserted {
            values[position] = value
        } else if entity.properties[position].isReference {
            context.relationshipTracker.setReference(of: self, position: position, to: value)
        } else {
            context.noteValues(of: self)
            values[position] = value
            if change == .inserted { noteAssigned(position) }
            context.noteChange(of: self)
        }
    }

    /// The context that tracks changes; nil for an object that is gone, which takes none: it may be
    /// so by what another context or node did.
    ///
    /// - Precondition: It was of a context once.
    func contextForWriting(at place: SourcePlace) -> ManagedObjectContext? {
        if let context = usableContext() { return context }
        require(
            wasInContext,
            "This \(entity.name) belongs to no context yet, so it takes no values; insert it first.",
            at: place)
        return nil
    }

    /// Whether it is or was of a context: only then it has a row, if a temporary one.
    var wasInContext: Bool { row != RowID(.min) }

    /// A number as the attribute's type has it, where that can hold it; Core Data takes any NSNumber.
    private func fitted(_ value: PropertyValue, _ position: Int) -> PropertyValue {
        guard case .attribute(let type) = entity.properties[position].content else { return value }
        switch (type, value) {
        case (.float, .double(let number)):
            let nearest = Double(Float(number))
            return nearest.isInfinite && !number.isInfinite ? value : .double(nearest)
        case (.float, .integer(let number)): return .double(Double(Float(number)))
        case (.double, .integer(let number)): return .double(Double(number))
        case (.decimal, .integer(let number)): return .decimal(String(number))
        case (.integer16, .double(let number)), (.integer32, .double(let number)),
            (.integer64, .double(let number)):
            return Int64(exactly: number).map { .integer($0) } ?? value
        default: return value
        }
    }

    private func derivedToOne(
        _ key: String, at place: SourcePlace
    ) -> ManagedObjectModel.Relationship? {
        guard let relationship = entity.relationship(named: key) else { return nil }
        require(
            !relationship.isToMany,
            "\(entity.name).\(key) is a to-many; use relatedObjects(forKey:).", at: place)
        return relationship
    }

    private func requireTransient(_ key: String, at place: SourcePlace) {
        require(
            entity.derivedAttribute(named: key) == nil,
            "\(entity.name).\(key) is derived: the store computes it, and nobody assigns it.",
            at: place)
        require(
            entity.attribute(named: key)?.isTransient == true,
            "\(entity.name) has no attribute or to-one relationship \(key).", at: place)
    }

    /// Stops a use of a property outside the context's queue.
    func confine(_ key: String, at place: SourcePlace) {
        managedObjectContext?.confine("\(entity.name).\(key)", at: place)
    }
}
