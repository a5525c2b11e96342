public import Merge

/// An object of a context's graph: one row, with the changes not yet saved. As NSManagedObject.
///
/// Use it directly, by names (`person["name"]`), or subclass it with computed properties and tell
/// the context of the class (``ManagedObjectContext/register(_:for:)``):
///
///     final class Person: ManagedObject {
///         var name: String? {
///             get { self["name"] }
///             set { self["name"] = newValue }
///         }
///         var manager: Person? {
///             get { relatedObject(forKey: "manager") }
///             set { setRelatedObject(newValue, forKey: "manager") }
///         }
///     }
///
/// Threading: an object belongs to its context's queue. Every access checks that and traps with
/// an explanation otherwise.
///
/// Invariants
/// 1. A fault has neither values nor snapshot, and perhaps a source to have them from; a realised object has
///    one value a column of its entity, in their order, and no source.
/// 2. `snapshot` is empty for an object never saved, else the values as fetched or last saved.
/// 3. An object with a pending change is realised and held strongly by its context.
open class ManagedObject {
    /// The next save's effect on an object.
    enum PendingChange {
        case none
        case inserted
        case updated
        case deleted
    }

    /// The object's entity.
    public let entity: ManagedObjectModel.Entity
    /// Its identity; temporary until its first save.
    public var objectID: ManagedObjectID { ManagedObjectID(entityName: entity.name, row: row) }
    var row = RowID(.min)
    /// The context it belongs to; nil once it was deleted and saved, rolled back as an insert,
    /// or its context was reset or is gone.
    public internal(set) weak var managedObjectContext: ManagedObjectContext?
    /// Whether its values are yet to be read from the store.
    public internal(set) var isFault = true

    var values: [PropertyValue] = [] { didSet { if change != .none { noteForFetches() } } }
    var snapshot: [PropertyValue] = []
    package internal(set) var version: RowVersion?
    /// Of a fault, where its values are at hand.
    var source = FaultSource.none
    var extras: ObjectExtras?
    /// The event of its context in which its values were noted last, and where.
    var notedEvent: UInt32 = 0
    var notedPlace: UInt32 = 0
    var change = PendingChange.none { didSet { noteForFetches() } }
    /// Whether its row was found missing, or was deleted elsewhere.
    var isInaccessible = false

    /// Makes an object and inserts it.
    ///
    /// - Parameters:
    ///   - entity: An entity that is not abstract, of the context's model.
    ///   - context: Where it is inserted, on its queue. Nil makes an object without values,
    ///     which is how contexts make faults, and for ``ManagedObjectContext/insert(_:)``.
    public required init(
        entity: ManagedObjectModel.Entity, insertInto context: ManagedObjectContext?
    ) {
        self.entity = entity
        context?.insert(self)
    }

    /// Makes and inserts an object of the entity that this class was registered for, or whose
    /// name is the class's.
    public convenience init(
        context: ManagedObjectContext, file: StaticString = #fileID, line: UInt = #line
    ) {
        let place = SourcePlace(file, line)
        context.confine("\(Self.self).init(context:)", at: place)
        self.init(entity: context.entity(for: Self.self, at: place), insertInto: context)
    }

    // MARK: State

    /// Whether it is inserted and not yet saved.
    public var isInserted: Bool { change == .inserted }
    /// Whether it has changes that are not yet saved.
    public var isUpdated: Bool { change == .updated }
    /// Whether it will be deleted by the next save, or was found to be gone.
    public var isDeleted: Bool { change == .deleted || isInaccessible }
    /// Whether the next save has anything to do for it.
    public var hasChanges: Bool { change != .none }

    /// Whether a save would write anything: unlike ``hasChanges``, not where every value
    /// assigned is the one that was there.
    public var hasPersistentChangedValues: Bool {
        guard let context = usableContext() else { return false }
        return change == .inserted || change == .deleted || !changedPositions().isEmpty
            || context.relationshipTracker.hasLinkChanges(self)
    }

    /// The attributes and to-ones that differ from what was last fetched or saved, with their
    /// values now. To-manys are not in it: they have no state of their own.
    public func changedValues() -> [String: PropertyValue] {
        let context = usableContext()
        var result = changedPositions().reduce(into: [:]) { result, position in
            result[entity.properties[position].name] = values[position]
        }
        for relationship in entity.relationships {
            guard relationship.isDerivedToOne, let context,
                context.relationshipTracker.hasMemberChanges(self, relationship)
            else { continue }
            let value: PropertyValue = self[relationship.name]
            result[relationship.name] = value
        }
        return result
    }

    /// The values as last fetched or saved; null where there was none.
    ///
    /// - Parameter keys: Names of attributes and to-ones; nil means all that the object's own row
    ///   has.
    /// - Precondition: The entity has these, and no attribute of them is transient.
    public func committedValues(
        forKeys keys: [String]? = nil, file: StaticString = #fileID, line: UInt = #line
    ) -> [String: PropertyValue] {
        usableContext()?.objectRegistry.fire(self)
        return (keys ?? entity.properties.map(\.name)).reduce(into: [:]) { result, key in
            if let position = entity.columnPosition(of: key) {
                result[key] = base(position)
                return
            }
            guard let relationship = entity.relationship(named: key), relationship.isDerivedToOne
            else {
                misuse(
                    "\(entity.name) stores no property \(key).", at: SourcePlace(file, line))
            }
            let target = usableContext()?.relationshipTracker.memberBase(of: self, relationship)
                .min()
            result[key] = target.map { .reference($0.row) } ?? .null
        }
    }

    private func noteForFetches() { managedObjectContext?.graph.pendingIndex.note(self) }

    /// Positions whose value a save would write.
    func changedPositions() -> [Int] {
        if snapshot.isEmpty { return assigned.sorted() }
        if values.isEmpty { return [] }
        return entity.properties.indices.filter { values[$0] != snapshot[$0] }
    }

    /// The value last fetched or saved.
    func base(_ position: Int) -> PropertyValue {
        position < snapshot.count ? snapshot[position] : .null
    }

    /// The context, having checked that this is its queue; nil where there is none.
    func usableContext() -> ManagedObjectContext? {
        guard let context = managedObjectContext else { return nil }
        context.confine()
        return context
    }

    // MARK: Hooks for subclasses

    /// Called once, when the object is inserted. Assignments made here are tracked.
    open func awakeFromInsert() {}

    /// Called each time a fault is fulfilled. Assignments made here do not make it dirty.
    open func awakeFromFetch() {}

    /// Called before a save for every object it concerns; may change values, and is called
    /// again until nothing changes.
    open func willSave() {}

    /// Called after a save for every object it concerned.
    open func didSave() {}

    /// Called when the object is about to be deleted, with its relationships still in place.
    open func prepareForDeletion() {}

    /// Called when the object is put back to values it had, or takes values of the store: by an undo, a
    /// rollback, a refresh, or a merge policy. Assignments made here do not make it dirty; only
    /// attributes may be assigned.
    open func awake(fromSnapshotEvents events: SnapshotEventType) {}

    /// Called before the object becomes a fault again, with its values still in place.
    open func willTurnIntoFault() {}

    /// Called after the object became a fault again.
    open func didTurnIntoFault() {}

    /// Checks one value of an inserted or updated object, before a save; may change it, and the change
    /// is saved.
    ///
    /// An override that calls this has the model's own rules checked first. The store checks them in any
    /// case.
    ///
    /// - Throws: ``ValidationFailure``.
    open func validateValue(_ value: inout PropertyValue, forKey key: String) throws {
        try checkModel(value, forKey: key)
    }

    /// Checks an inserted object before a save: each of its attributes and to-ones by
    /// ``validateValue(_:forKey:)``. An override calls this, and then compares several values.
    ///
    /// - Throws: ``ValidationFailure``; or ``CoordinatorError`` `validationFailed` with all there are.
    open func validateForInsert() throws { try validateProperties(all: true) }

    /// Checks an updated object before a save, as ``validateForInsert()``: of its attributes and to-ones
    /// those that are changed.
    ///
    /// - Throws: As ``validateForInsert()``.
    open func validateForUpdate() throws { try validateProperties(all: false) }

    /// Checks a deleted object before a save: whether a delete rule denies it.
    ///
    /// - Throws: As ``validateForInsert()``.
    open func validateForDelete() throws { try checkDeleteRules() }
}

extension ManagedObject: Hashable {
    /// Whether both are the same instance; within a context one row is one instance.
    public static func == (left: ManagedObject, right: ManagedObject) -> Bool { left === right }

    /// Hashes the instance, since the object's ID changes at its first save.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

extension ManagedObject: CustomStringConvertible {
    /// The ID with what is known without reading the store.
    public var description: String {
        "\(objectID)\(isFault ? " (fault)" : "")\(isDeleted ? " (deleted)" : "")"
    }
}
