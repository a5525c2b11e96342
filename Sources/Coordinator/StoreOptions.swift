import Foundation

extension PersistentStoreCoordinator {
    /// How a store is opened.
    public struct Options: Sendable {
        /// Connections for reading at once, 1...64: more than the HTTP interface of a node uses at
        /// once, so that long reads of clients leave some for peers, metrics and backups.
        public var readers = 8
        /// The most the write-ahead log may grow to, in bytes, before pins expire.
        public var walLimit: UInt64 = 1 << 30
        /// The longest a pin may live, in milliseconds.
        public var pinLimitMilliseconds: UInt64 = 3_600_000
        /// The most that rows which contexts have read may take in memory, in bytes, so that faults need
        /// not ask the store again: 32 MiB. With 0 none are kept.
        public var rowCacheBytes = 32 << 20
        /// Whether an index finds the transactions of history by author and by entity, without reading
        /// the others. It makes each save somewhat slower, and takes some 100 bytes for each author and
        /// entity of a transaction. It is made at an opening that asks for it, and taken away at one that
        /// does not. Default false.
        public var indexesHistory = false
        /// Pages of write-ahead log after which a commit writes them back into the file: 16 MB.
        package var checkpointPages = 4_000
        /// How long the writer waits for running readers before the log can start over, in
        /// milliseconds from 1 on. Saves wait as long.
        package var logRestartPatienceMilliseconds: Int32 = 20
        /// Whether a copy that takes a store's place is joined with it by rows also where the store's log
        /// tells of all that the copy lacks; for simulations.
        package var joinsAlways = false
        /// The most objects of one transaction of a batch request that is not atomic.
        package var objectsInBatchTransaction = BatchOptions.objectsInTransaction
        /// The bytes of values in memory, about, at which such a transaction ends: 32 MiB.
        package var bytesInBatchTransaction = 32 << 20
        /// Whether a caller that hands the writer a job works off all jobs before it returns, so
        /// that nothing happens on another thread; for simulations.
        package var worksAlone = false
        /// The wall clock, in milliseconds since 1970.
        public var wallMilliseconds: @Sendable () -> UInt64 = {
            UInt64(max(0, Date().timeIntervalSince1970 * 1000))
        }
        /// Milliseconds from any beginning that never fall, whatever is done to the wall clock: pins
        /// age by it.
        public var monotonicMilliseconds: @Sendable () -> UInt64 = {
            var time = timespec()
            clock_gettime(CLOCK_MONOTONIC, &time)
            return UInt64(time.tv_sec) * 1000 + UInt64(time.tv_nsec) / 1_000_000
        }
        /// 64 random bits.
        public var random: @Sendable () -> UInt64 = { UInt64.random(in: .min ... .max) }
        /// The incarnation begun by opening is later than this one, which a node learns of from
        /// others when they know of a later life of it than its store does.
        public var minimumIncarnation: UInt64 = 0
        /// What to do if the store was written with another model. A way that can be inferred
        /// is one by ``ModelDifference``s without an obstacle.
        public var migration = ModelMigration.none
        /// Whether each commit posts a notification, ``Foundation/Notification/Name/persistentStoreRemoteChange``.
        public var postsRemoteChangeNotifications = false
        /// What is written of the SQL that the store runs; nil for nothing. Default: what the environment's
        /// `TRIBUTARY_SQL_DEBUG` says, 1...4.
        public var sqlDebug = SQLDebug.environment
        /// The files beside SQLite's own; a simulation has others.
        package var files: any StoreFiles = SystemFiles()
        /// The folder of a store that is kept in memory alone.
        var memory: MemoryFolder?

        /// The defaults.
        public init() {}
    }
}
