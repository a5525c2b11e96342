import Merge

/// What an event may have changed of the results of live queries.
///
/// It says more than ``ContextChanges``: a merge also touches rows that the context has no object
/// of, and a save gives objects other IDs without a change of their values.
struct LiveTouches {
    /// The most IDs of merges that are kept. Beyond it everything counts as touched.
    static let limit = 10_000

    /// The objects that observers hear of.
    var changed = Set<ManagedObject>()
    /// The objects of a save. Their IDs and versions are new, their values are not.
    var saved = Set<ManagedObject>()
    /// Rows that others wrote, or that a save wrote besides.
    var objectIDs = Set<ManagedObjectID>()
    /// Whether any result may be another one.
    var isEverything = false

    var isEmpty: Bool {
        !isEverything && changed.isEmpty && saved.isEmpty && objectIDs.isEmpty
    }

    mutating func add(_ others: some Sequence<ManagedObjectID>) {
        if isEverything { return }
        objectIDs.formUnion(others)
        if objectIDs.count > Self.limit { addEverything() }
    }

    /// Objects stay noted, because they tell which results changed.
    mutating func addEverything() {
        isEverything = true
        objectIDs = []
    }

    mutating func add(_ event: ContextChanges) {
        changed.formUnion(event.inserted)
        changed.formUnion(event.updated)
        changed.formUnion(event.deleted)
        changed.formUnion(event.refreshed)
    }
}

/// A query that follows a context's changes. To be used on its queue.
protocol LiveQuery: AnyObject {
    func follow(_ touches: LiveTouches)
}

/// The live queries of a context, and what they have yet to hear. Belongs to the context's queue.
final class LiveQueries {
    private struct WeakQuery {
        weak var query: (any LiveQuery)?
    }

    /// In the order in which they began, which is the order in which they hear of changes.
    private var controllers: [WeakQuery] = []
    /// The queries behind sequences; kept alive here, so that they end with the context.
    private var sources: [(number: Int, source: DifferenceSource)] = []
    private var lastNumber = 0
    private var touches = LiveTouches()
    private var isTelling = false

    /// Whether there is anybody to tell.
    var isActive: Bool { !controllers.isEmpty || !sources.isEmpty }
    /// Whether there is something to tell, and nobody is just being told.
    var hasNews: Bool { !isTelling && !touches.isEmpty }

    func add(_ query: any LiveQuery) {
        controllers.removeAll { $0.query == nil }
        if controllers.contains(where: { $0.query === query }) { return }
        controllers.append(WeakQuery(query: query))
    }

    func add(_ source: DifferenceSource) -> Int {
        lastNumber += 1
        sources.append((lastNumber, source))
        return lastNumber
    }

    func source(_ number: Int) -> DifferenceSource? {
        sources.first { $0.number == number }?.source
    }

    func removeSource(_ number: Int) { sources.removeAll { $0.number == number } }

    // MARK: Noting

    /// - Parameter affected: nil for whatever is at hand.
    func noteMerge(_ affected: Set<ManagedObjectID>?) {
        guard isActive else { return }
        if let affected { touches.add(affected) } else { touches.addEverything() }
    }

    func noteSave(_ objects: [ManagedObject], _ objectIDs: some Sequence<ManagedObjectID>) {
        guard isActive else { return }
        touches.saved.formUnion(objects)
        touches.add(objectIDs)
    }

    func noteEverything() {
        if isActive { touches.addEverything() }
    }

    // MARK: Telling

    /// Tells the queries of an event. One that changes objects, or saves, while it is told makes
    /// a round of its own: until then its changes are noted.
    func tell(_ event: ContextChanges) {
        guard isActive else {
            touches = LiveTouches()
            return
        }
        touches.add(event)
        guard hasNews else { return }
        let told = touches
        touches = LiveTouches()
        isTelling = true
        for query in controllers.compactMap(\.query) { query.follow(told) }
        for (_, source) in sources { source.follow(told) }
        isTelling = false
        controllers.removeAll { $0.query == nil }
    }
}
