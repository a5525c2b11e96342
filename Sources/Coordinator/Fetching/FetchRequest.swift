/// A fetch: which objects or values, and in which order, as NSFetchRequest; a value.
public struct FetchRequest: Hashable, Sendable {
    /// The kind of results.
    public enum ResultType: String, Hashable, Sendable, CaseIterable {
        /// Objects.
        case objects
        /// Object identities.
        case ids
        /// Chosen values and aggregates; pending changes are not in them.
        case dictionary
        /// How many objects there are.
        case count
    }

    /// The entity's name.
    public var entityName: String
    /// Which objects; nil for all.
    public var predicate: Predicate?
    /// In which order; objects that are equal in it come by identity. A dictionary fetch can sort by
    /// periods of dates too.
    public var sortDescriptors: [SortDescriptor]
    /// At most how many; 0 for all.
    public var fetchLimit: Int
    /// How many of the first to leave out.
    public var fetchOffset: Int
    /// The kind of results to give.
    public var resultType: ResultType
    /// What a dictionary fetch is to contain, or what is read along of objects: attributes and to-ones;
    /// empty for all that is stored.
    public var propertiesToFetch: [FetchedProperty]
    /// What a dictionary fetch groups by: key paths, and periods of dates such as `day(timestamp)`, or
    /// `day(timestamp, 60)` an hour ahead of UTC. A period is the moment at which it begins.
    public var propertiesToGroupBy: [String]
    /// Which groups, by what they are grouped by and the names of aggregates.
    public var havingPredicate: Predicate?
    /// Whether objects of entities that inherit from the entity are fetched too. Default true.
    public var includesSubentities: Bool
    /// Whether what the context has not saved yet counts. Default true.
    public var includesPendingChanges: Bool
    /// Key paths of relationships. What they lead to is read along: one statement an entity and step.
    public var relationshipKeyPathsForPrefetching: [String]
    /// Whether a dictionary fetch leaves out repetitions.
    public var returnsDistinctResults: Bool
    /// Whether objects the context has already are refreshed with what is fetched.
    public var shouldRefreshRefetchedObjects: Bool
    /// Whether objects come as faults, which have their values when they are touched. Default true; else all
    /// rows are read with the fetch, whatever the batch size.
    public var returnsObjectsAsFaults: Bool
    /// Whether the values of objects are read along. Default true; else each fault asks the store.
    public var includesPropertyValues: Bool
    /// How many objects are read at a time, once one of them is touched; 0 for all with the fetch.
    public var fetchBatchSize: Int

    /// Describes a fetch of an entity's objects.
    public init(
        _ entityName: String, predicate: Predicate? = nil,
        sortDescriptors: [SortDescriptor] = [], fetchLimit: Int = 0, fetchOffset: Int = 0,
        resultType: ResultType = .objects, propertiesToFetch: [FetchedProperty] = [],
        propertiesToGroupBy: [String] = [], havingPredicate: Predicate? = nil
    ) {
        self.entityName = entityName
        self.predicate = predicate
        self.sortDescriptors = sortDescriptors
        self.fetchLimit = fetchLimit
        self.fetchOffset = fetchOffset
        self.resultType = resultType
        self.propertiesToFetch = propertiesToFetch
        self.propertiesToGroupBy = propertiesToGroupBy
        self.havingPredicate = havingPredicate
        includesSubentities = true
        includesPendingChanges = true
        relationshipKeyPathsForPrefetching = []
        returnsDistinctResults = false
        shouldRefreshRefetchedObjects = false
        returnsObjectsAsFaults = true
        includesPropertyValues = true
        fetchBatchSize = 0
    }
}

/// One key of an order, as NSSortDescriptor.
public struct SortDescriptor: Hashable, Sendable {
    /// How the values of a key lie to each other.
    public enum Comparison: Hashable, Sendable {
        /// By their value; texts by their UTF-8 bytes.
        case value
        /// Texts as people of a language expect them, as `localizedStandardCompare`: "file 2" before
        /// "file 10". What is equal in that order goes by its bytes. For key paths of text attributes
        /// alone.
        ///
        /// The locale is a language, perhaps with a script and a region: "de", "sv_SE", "zh_Hant"; ""
        /// is the root, an order for no language. It is never that of the process. A language that
        /// ICU has no order for is refused. A region without an order of its own has its language's.
        case localizedStandard(locale: String)
    }

    /// An attribute, perhaps through to-ones, or a count such as `friends.@count`.
    public var keyPath: String
    /// Whether the least comes first; nil is least.
    public var ascending: Bool
    /// How values lie to each other.
    public var comparison: Comparison

    /// Describes a key of an order.
    public init(_ keyPath: String, ascending: Bool = true, comparison: Comparison = .value) {
        self.keyPath = keyPath
        self.ascending = ascending
        self.comparison = comparison
    }

    /// Reads a key path, `localizedStandard:(path)` or `localizedStandard:(path, locale)`; descending where
    /// it begins with `-`.
    public init(text: String) {
        let isDescending = text.utf8.first == UInt8(ascii: "-")
        let key = isDescending ? String(text.dropFirst()) : text
        guard let (keyPath, locale) = LocalizedStandard.parse(key) else {
            self.init(key, ascending: !isDescending)
            return
        }
        self.init(
            keyPath, ascending: !isDescending, comparison: .localizedStandard(locale: locale))
    }

    /// The text that ``init(text:)`` reads.
    public var text: String {
        let key =
            switch comparison {
            case .value: keyPath
            case .localizedStandard(let locale): LocalizedStandard.text(keyPath, locale)
            }
        return ascending ? key : "-\(key)"
    }
}

/// A value that a dictionary fetch gives.
public enum FetchedProperty: Hashable, Sendable {
    /// The function of an aggregate.
    public enum Function: String, Hashable, Sendable, CaseIterable {
        /// How many objects have a value; of an empty key path, how many there are.
        case count
        /// The sum, of its key path's type; 0 of none. What is more than that type can hold is an
        /// error, ``CoordinatorError/Code/aggregateOverflow``. Of decimals it is exact, and rounded to
        /// 38 digits.
        case sum
        /// The mean, of decimals as a decimal of up to 38 digits, else as a double; null of none.
        case average
        /// The least; null of none.
        case min
        /// The greatest; null of none.
        case max
    }

    /// The value at a key path, or the beginning of a period: see ``FetchRequest/propertiesToGroupBy``.
    case keyPath(String)
    /// An aggregate under a name of its own.
    case aggregate(name: String, function: Function, keyPath: String)

    /// The key it has in the result.
    public var name: String {
        switch self {
        case .keyPath(let path): path
        case .aggregate(let name, _, _): name
        }
    }
}
