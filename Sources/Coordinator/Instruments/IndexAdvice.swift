/// An index that the model could have, for requests that SQLite would then run by it.
public struct IndexAdvice: Hashable, Sendable {
    /// A shape of request that the index would serve.
    public struct Served: Hashable, Sendable {
        /// The shape, with what it took so far.
        public let request: ObservedRequest
        /// How SQLite finds its rows now.
        public let planBefore: QueryPlan
        /// How it would with this index.
        public let planAfter: QueryPlan
    }

    /// The entity.
    public let entity: String
    /// The index, with a name that the entity has for no other.
    public let index: IndexDescription
    /// What it would serve; those that took longest come first.
    public internal(set) var served: [Served]
    /// How many rows it would have: those of the entity's table, where all that inherit from one root are.
    public let rows: Int
    /// About how many bytes it would take on disk, by the first 1,000 rows.
    ///
    /// Beside them it costs writers one more b-tree to write at each insert and delete, and at each update
    /// of its properties.
    public let bytes: Int

    /// How long the requests that it would serve took, in milliseconds.
    public var milliseconds: UInt64 { served.reduce(0) { $0 + $1.request.milliseconds } }
    /// How many requests it would have served.
    public var count: UInt64 { served.reduce(0) { $0 + $1.request.count } }
}

extension PersistentStoreCoordinator {
    /// Indexes for the requests that its contexts and other readers have made so far; those that would
    /// serve what took longest come first. Reads the store, and blocks meanwhile. Usable from any thread.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    public func indexAdvice() throws -> [IndexAdvice] {
        let observed = observedRequests
        return try read { try $0.indexAdvice(for: observed.requests) }
    }

    /// Indexes for one request, as though nothing else were asked for. Usable from any thread.
    ///
    /// - Throws: ``CoordinatorError``: `invalidPredicate` or `malformed`, and where the store cannot be
    ///   read.
    public func indexAdvice(for request: FetchRequest) throws -> [IndexAdvice] {
        try read { reader in
            let entity = try reader.entity(request)
            // As contexts fetch: an index that has all that is asked for would seem better than it is.
            let isWhole = request.resultType == .objects && !entity.sharesTable
            let table = reader.catalog.table(entity.name)
            let compiled = try reader.compile(
                request, selecting: isWhole ? table.selectedColumns.map { "t0.\($0)" } : [],
                isHeld: true)
            return try reader.indexAdvice(
                for: [ObservedRequest(shape: compiled.shape, sql: compiled.trialSQL)])
        }
    }
}

extension StoreReader {
    /// Indexes for requests; those that would serve what took longest come first.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package func indexAdvice(for requests: [ObservedRequest]) throws -> [IndexAdvice] {
        try IndexAdvisor(self).advice(for: requests)
    }
}
