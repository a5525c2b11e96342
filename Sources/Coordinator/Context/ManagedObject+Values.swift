public import Merge

extension ManagedObject {
    /// An attribute's or to-one's value as the store keeps it. Reading fires a fault.
    ///
    /// A number is brought to the attribute's type where that can hold it. Any other value of a
    /// wrong type is refused by the save, not here. The values of an object whose row
    /// is found to be gone read as null, and assigning to one that is gone has no effect.
    ///
    /// - Precondition: The entity has an attribute or to-one relationship of that name.
    public subscript(key: String) -> PropertyValue {
        get {
            if let position = entity.position(of: key) { return read(position) }
            if let relationship = derivedToOne(key) {
                return relatedObject(relationship).map { .reference($0.objectID.row) } ?? .null
            }
            requireTransient(key)
            usableContext()?.fire(self)
            return transients[key] ?? entity.attribute(named: key)?.defaultValue ?? .null
        }
        set {
            if let position = entity.position(of: key) { return write(newValue, position) }
            if let relationship = derivedToOne(key) {
                guard let context = usableContext() else { return }
                var target: ManagedObject?
                if case .reference(let row) = newValue {
                    target = context.resolve(row, destination: relationship.destination)
                }
                return setRelatedObject(target, relationship)
            }
            requireTransient(key)
            usableContext()?.fire(self)
            transients[key] = newValue
            usableContext()?.noteChange(of: self)
        }
    }

    /// An attribute's value as a Swift type; nil for null. Assigning nil makes it null.
    ///
    /// - Precondition: The entity has such an attribute, and its value is of that type.
    public subscript<Value: PropertyValueConvertible>(key: String) -> Value? {
        get { value(forKey: key) }
        set { setValue(newValue, forKey: key) }
    }

    /// An attribute's value as a Swift type; nil for null.
    ///
    /// - Precondition: The entity has such an attribute, and its value is of that type.
    public func value<Value: PropertyValueConvertible>(
        forKey key: String, as type: Value.Type = Value.self
    ) -> Value? {
        let stored: PropertyValue = self[key]
        if stored.isNull { return nil }
        guard let value = Value(propertyValue: stored) else {
            preconditionFailure("\(entity.name).\(key) is no \(type) but \(stored).")
        }
        return value
    }

    /// Gives an attribute a value; nil makes it null.
    ///
    /// - Precondition: The entity has an attribute of that name.
    public func setValue(_ value: (some PropertyValueConvertible)?, forKey key: String) {
        self[key] = value?.propertyValue ?? .null
    }

    /// An attribute's value without firing a fault: null where it is one.
    public func primitiveValue(forKey key: String) -> PropertyValue {
        _ = usableContext()
        guard let position = entity.position(of: key) else { return transients[key] ?? .null }
        return position < values.count ? values[position] : .null
    }

    /// Gives a stored or transient attribute a value without tracking the change: the object
    /// does not become dirty by it, and a save of the object for another reason takes it along.
    ///
    /// - Precondition: The entity has an attribute of that name.
    public func setPrimitiveValue(_ value: PropertyValue, forKey key: String) {
        guard let position = entity.position(of: key) else {
            requireTransient(key)
            transients[key] = value
            return
        }
        precondition(
            !entity.properties[position].isReference,
            "\(entity.name).\(key) is a relationship, whose inverse must be told.")
        usableContext()?.fire(self)
        guard position < values.count else { return }
        values[position] = fitted(value, position)
        if change == .inserted { assigned.insert(position) }
    }

    func read(_ position: Int) -> PropertyValue {
        usableContext()?.fire(self)
        return position < values.count ? values[position] : .null
    }

    func write(_ value: PropertyValue, _ position: Int) {
        guard let context = contextForWriting() else { return }
        context.fire(self)
        guard position < values.count else { return }
        let value = fitted(value, position)
        // What is inserted while others awake is as new as ever.
        if context.isAwakening, change != .inserted {
            values[position] = value
        } else if entity.properties[position].isReference {
            context.setReference(of: self, position: position, to: value)
        } else {
            values[position] = value
            if change == .inserted { assigned.insert(position) }
            context.noteChange(of: self)
        }
    }

    /// The context that tracks changes; nil for an object that is gone, which takes none: it may be
    /// so by what another context or node did.
    ///
    /// - Precondition: It was of a context once.
    func contextForWriting() -> ManagedObjectContext? {
        precondition(
            managedObjectContext != nil || wasInContext,
            "\(entity.name): the object belongs to no context yet, so it takes no values.")
        return usableContext()
    }

    /// Whether it is or was of a context: only then it has a row, if a temporary one.
    var wasInContext: Bool { objectID.row != RowID(.min) }

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

    private func derivedToOne(_ key: String) -> ManagedObjectModel.Relationship? {
        guard let relationship = entity.relationship(named: key) else { return nil }
        precondition(
            !relationship.isToMany,
            "\(entity.name).\(key) is a to-many; use relatedObjects(forKey:).")
        return relationship
    }

    private func requireTransient(_ key: String) {
        precondition(
            entity.attribute(named: key)?.isTransient == true,
            "\(entity.name) has no attribute or to-one relationship \(key).")
    }
}
