import GRDB
import GRDBSQLite

/// Has SQLite give up what a connection reads once a time has passed, or nobody wants it any more.
///
/// SQLite asks after every so many steps of its machine, counted for each statement
/// (https://www.sqlite.org/c3ref/progress_handler.html), so it is a bound on what a query does in
/// SQLite, and not on what becomes of its rows.
final class ReadDeadline {
    /// Some hundred microseconds' worth.
    private static let stepsBetweenLooks: Int32 = 10_000

    private let limit: UInt64
    private let now: @Sendable () -> UInt64
    private let mayGoOn: @Sendable () -> Bool
    private var hasPassed = false
    private var isStopped = false

    private init(
        limit: UInt64, now: @escaping @Sendable () -> UInt64,
        mayGoOn: @escaping @Sendable () -> Bool
    ) {
        self.limit = limit
        self.now = now
        self.mayGoOn = mayGoOn
    }

    /// Reads, for so long at the most.
    ///
    /// - Parameters:
    ///   - milliseconds: how long; nil for as long as it takes.
    ///   - now: a clock that only goes forward, in milliseconds.
    ///   - mayGoOn: is asked again and again on the reading thread; false ends the read.
    /// - Throws: what the body does, `CancellationError` where it may not go on, and
    ///   ``CoordinatorError``: `readTimeout`.
    static func read<Result>(
        _ database: Database, for milliseconds: UInt64?, now: @escaping @Sendable () -> UInt64,
        while mayGoOn: (@Sendable () -> Bool)? = nil, _ body: (Database) throws -> Result
    ) throws -> Result {
        if milliseconds == nil, mayGoOn == nil { return try body(database) }
        let (limit, overflows) = now().addingReportingOverflow(milliseconds ?? .max)
        let deadline = ReadDeadline(
            limit: overflows ? .max : limit, now: now, mayGoOn: mayGoOn ?? { true })
        return try withExtendedLifetime(deadline) {
            sqlite3_progress_handler(
                database.sqliteConnection, stepsBetweenLooks,
                { context in
                    guard let context else { return 0 }
                    return Unmanaged<ReadDeadline>.fromOpaque(context).takeUnretainedValue().look()
                },
                Unmanaged.passUnretained(deadline).toOpaque())
            defer { sqlite3_progress_handler(database.sqliteConnection, 0, nil, nil) }
            do {
                return try body(database)
            } catch  where deadline.isStopped {
                throw CancellationError()
            } catch  where deadline.hasPassed {
                throw CoordinatorError(
                    .readTimeout,
                    "Reading took more than \(milliseconds ?? 0) milliseconds and was given up. Ask for "
                        + "less at once, or by what the model has an index for.")
            }
        }
    }

    /// - Returns: what SQLite takes for an order to stop, unless it is 0.
    private func look() -> Int32 {
        if !hasPassed { hasPassed = now() > limit }
        if !isStopped { isStopped = !mayGoOn() }
        return hasPassed || isStopped ? 1 : 0
    }
}
