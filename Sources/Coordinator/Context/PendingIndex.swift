import Merge

/// The objects with pending changes by the value of an attribute, for requests that ask for one value.
///
/// Find-or-create asks once an object: if each looked at all that is pending, the work would be the square
/// of it. A table is made where a request first asks by an attribute. What changes later is noted, and
/// taken in by the next request.
struct PendingIndex {
    /// Below so many pending objects it is quicker to look at each.
    static let least = 32
    /// How many objects may wait to be taken in. With more all tables are made once more.
    private static let mostTouched = 4_096
    /// How many tables there may be. One more takes the place of all.
    private static let limit = 8

    private struct Key: Hashable {
        let root: String
        let attribute: String
        let options: ComparisonOptions
    }

    private struct Table {
        var objects: [PropertyValue: Set<ManagedObject>] = [:]
        var places: [ObjectIdentifier: PropertyValue] = [:]
    }

    private var tables: [Key: Table] = [:]
    private var touched: Set<ManagedObject> = []

    /// Notes that an object has other values, or another kind of pending change.
    mutating func note(_ object: ManagedObject) {
        if tables.isEmpty { return }
        touched.insert(object)
        // Who asks by values no more shall not keep objects in use.
        if touched.count > Self.mostTouched {
            tables = [:]
            touched = []
        }
    }

    /// The fewest objects among which are all that fit a predicate's equalities; nil where all have to
    /// be looked at.
    ///
    /// - Parameter pending: what a table is made of.
    mutating func candidates(
        for equalities: [(attribute: String, value: PropertyValue, options: ComparisonOptions)],
        of entity: ManagedObjectModel.Entity, among pending: () -> [ManagedObject]
    ) -> Set<ManagedObject>? {
        var best: Set<ManagedObject>?
        for (attribute, value, options) in equalities
        where Self.isExact(value, entity.attribute(named: attribute)?.type) {
            takeTouched()
            let key = Key(root: entity.root, attribute: attribute, options: options)
            if tables[key] == nil {
                if tables.count >= Self.limit { tables = [:] }
                tables[key] = Table()
                for object in pending() { place(object, key) }
            }
            let found = tables[key]?.objects[value] ?? []
            if found.count < best?.count ?? .max { best = found }
        }
        return best
    }

    /// Whether values that compare equal to a constant are the same value.
    private static func isExact(_ value: PropertyValue, _ type: AttributeType?) -> Bool {
        switch (value, type) {
        case (.integer, .integer16), (.integer, .integer32), (.integer, .integer64),
            (.string, .string), (.uri, .uri), (.date, .date), (.uuid, .uuid),
            (.boolean, .boolean):
            true
        default: false
        }
    }

    private mutating func takeTouched() {
        if touched.isEmpty { return }
        // Not the dictionary's own keys: while these live, each change would copy the tables.
        for key in Array(tables.keys) { for object in touched { place(object, key) } }
        touched = []
    }

    private mutating func place(_ object: ManagedObject, _ key: Key) {
        let identifier = ObjectIdentifier(object)
        if let old = tables[key]?.places.removeValue(forKey: identifier) {
            tables[key]?.objects[old]?.remove(object)
            if tables[key]?.objects[old]?.isEmpty == true { tables[key]?.objects[old] = nil }
        }
        guard object.change == .inserted || object.change == .updated,
            object.entity.root == key.root,
            let position = object.entity.columnPosition(of: key.attribute),
            position < object.values.count
        else { return }
        let value = ValueTest.fold(object.values[position], key.options)
        tables[key]?.places[identifier] = value
        tables[key]?.objects[value, default: []].insert(object)
    }
}
