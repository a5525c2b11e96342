import Merge

/// What few objects of a context have: those that were only fetched take no room for it.
final class ObjectExtras {
    var assigned: PositionSet = []
    var nullified: PositionSet = []
    var isDeletedByRule = false
    var transients: [String: PropertyValue] = [:]
    var memberBases: [String: Set<ManagedObjectID>] = [:]
    var shown: ManagedObject?
}

extension ManagedObject {
    private var madeExtras: ObjectExtras {
        if let extras { return extras }
        let made = ObjectExtras()
        extras = made
        return made
    }

    /// Positions that an inserted object was given values for: a default is no assignment.
    var assigned: PositionSet {
        get { extras?.assigned ?? [] }
        set { if extras != nil || !newValue.isEmpty { madeExtras.assigned = newValue } }
    }

    /// The parent's object that it was read from. It is kept in use, as the parent tells by it what others
    /// save meanwhile.
    var shown: ManagedObject? {
        get { extras?.shown }
        set { if extras != nil || newValue != nil { madeExtras.shown = newValue } }
    }

    /// Notes that an inserted object was given a value.
    func noteAssigned(_ position: Int) { madeExtras.assigned.insert(position) }

    /// Positions of references that a delete rule made null, and that nobody assigned since.
    var nullified: PositionSet {
        get { extras?.nullified ?? [] }
        set { if extras != nil || !newValue.isEmpty { madeExtras.nullified = newValue } }
    }

    /// Whether a delete rule deleted it, and not the application.
    var isDeletedByRule: Bool {
        get { extras?.isDeletedByRule ?? false }
        set { if extras != nil || newValue { madeExtras.isDeletedByRule = newValue } }
    }

    var transients: [String: PropertyValue] {
        get { extras?.transients ?? [:] }
        set { if extras != nil || !newValue.isEmpty { madeExtras.transients = newValue } }
    }

    /// The members of to-manys and derived to-ones as the store had them, once read.
    var memberBases: [String: Set<ManagedObjectID>] {
        get { extras?.memberBases ?? [:] }
        set {
            if extras == nil, newValue.isEmpty { return }
            if !newValue.isEmpty, memberBases.isEmpty {
                managedObjectContext?.graph.memberHolders.note(self)
            }
            madeExtras.memberBases = newValue
        }
    }
}

/// The objects with known members. A save looks at these, and not at all that a context has.
struct MemberHolders {
    private var objects: [ObjectIdentifier: WeakObject] = [:]
    /// How many there may be before those that are gone are swept out.
    private var sweep = 1024

    mutating func note(_ object: ManagedObject) {
        if objects.count >= sweep {
            removeIdle()
            sweep = max(1024, objects.count * 2)
        }
        objects[ObjectIdentifier(object)] = WeakObject(object: object)
    }

    /// Those in use, in no order.
    var inUse: [ManagedObject] { objects.values.compactMap(\.object) }

    private mutating func removeIdle() {
        objects = objects.filter { !($0.value.object?.memberBases.isEmpty ?? true) }
    }
}
