import Merge

/// What few objects of a context have: those that were only fetched take no room for it.
final class ObjectExtras {
    var assigned: Set<Int> = []
    var nullified: Set<Int> = []
    var isDeletedByRule = false
    var transients: [String: PropertyValue] = [:]
    var memberBases: [String: Set<ManagedObjectID>] = [:]
}

extension ManagedObject {
    private var madeExtras: ObjectExtras {
        if let extras { return extras }
        let made = ObjectExtras()
        extras = made
        return made
    }

    /// Positions that an inserted object was given values for: a default is no assignment.
    var assigned: Set<Int> {
        get { extras?.assigned ?? [] }
        set { if extras != nil || !newValue.isEmpty { madeExtras.assigned = newValue } }
    }

    /// Notes that an inserted object was given a value.
    func noteAssigned(_ position: Int) { madeExtras.assigned.insert(position) }

    /// Positions of references that a delete rule made null, and that nobody assigned since.
    var nullified: Set<Int> {
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
        set { if extras != nil || !newValue.isEmpty { madeExtras.memberBases = newValue } }
    }
}
