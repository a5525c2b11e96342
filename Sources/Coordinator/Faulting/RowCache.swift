import Merge
import Synchronization

/// How full a coordinator's row cache is.
public struct RowCacheGauge: Hashable, Sendable {
    /// The rows in it.
    public var rows = 0
    /// The memory that they take, in bytes, as far as it is counted.
    public var bytes = 0
    /// The most that they may take.
    public var limit = 0
}

/// Rows that contexts of one coordinator have read, so that a fault need not ask the store again.
///
/// **It is never stale.** A row is valid in the generation that it was read from, and in later ones as long
/// as no commit has touched it. Before a commit its writer tells the cache which rows it touches
/// (``note(_:)``), so that nobody who has seen the new generation is given a row of the old one. How far
/// back touches are known is bounded as well: what was read before is not valid any more.
///
/// When it is full the rows that came first go first.
final class RowCache: Sendable {
    /// How many rows are known by when they were last touched.
    fileprivate static let touchedRows = 65_536

    fileprivate struct State {
        var isUsed = false
        var rows: [RowID: (row: CachedRow, turn: UInt64)] = [:]
        /// The turns in which rows came; those before `first` are gone.
        var order: [(row: RowID, turn: UInt64)] = []
        var first = 0
        var turn: UInt64 = 0
        var bytes = 0
        /// The generation that touched a row last.
        var touched: [RowID: UInt64] = [:]
        var touches: [(row: RowID, generation: UInt64)] = []
        var firstTouch = 0
        /// Rows read before this generation may have been touched since.
        var floor: UInt64 = 0
    }

    private let limit: Int
    /// Whether it hears of every commit.
    let hearsCommits: Bool
    private let state: Mutex<State>

    /// Makes a cache.
    ///
    /// - Parameters:
    ///   - limit: how many bytes its rows may take; 0 for no cache.
    ///   - hearsCommits: whether it hears of every commit. Else a row holds in its own generation
    ///     alone.
    init(limit: Int, hearsCommits: Bool = true) {
        self.hearsCommits = hearsCommits
        self.limit = hearsCommits ? max(0, limit) : 0
        state = Mutex(State(floor: hearsCommits ? 0 : .max))
    }

    var gauge: RowCacheGauge {
        state.withLock {
            RowCacheGauge(rows: $0.rows.count, bytes: $0.bytes, limit: limit)
        }
    }

    /// Adds rows that were just read. One fetch takes a quarter of the room at most.
    func add(_ rows: [CachedRow]) {
        state.withLock { state in
            state.isUsed = true
            var room = limit / 4
            for row in rows {
                let size = row.size
                room -= size
                if room < 0 { break }
                guard state.isCurrent(row) else { continue }
                state.turn += 1
                if let known = state.rows.updateValue((row, state.turn), forKey: row.row) {
                    state.bytes -= known.row.size
                }
                state.bytes += size
                state.order.append((row.row, state.turn))
            }
            state.shrink(to: limit)
        }
    }

    /// The row as it is in a generation; nil where it is not known.
    ///
    /// - Parameter generation: nil for the newest.
    func row(_ row: RowID, at generation: UInt64?) -> CachedRow? {
        state.withLock { state in
            guard let found = state.rows[row]?.row, state.isValid(found, at: generation) else {
                return nil
            }
            return found
        }
    }

    /// Whether a row that was read is the one of a generation.
    ///
    /// - Parameter generation: nil for the newest.
    func isValid(_ row: CachedRow, at generation: UInt64?) -> Bool {
        state.withLock { $0.isValid(row, at: generation) }
    }

    /// Whether values that were read in a generation are those of another.
    func isValid(_ row: RowID, readAt read: UInt64, at generation: UInt64?) -> Bool {
        state.withLock { $0.isValid(row, readAt: read, at: generation) }
    }

    /// Forgets all rows.
    func removeAll() {
        state.withLock { state in
            state.rows = [:]
            state.order = []
            state.first = 0
            state.bytes = 0
        }
    }

    /// Takes note of what is about to be committed. A commit that then fails does no harm.
    func note(_ notices: [CommitNotice]) {
        state.withLock { state in
            for notice in notices {
                // Who has read nothing yet need not hear of it.
                guard state.isUsed else {
                    state.floor = notice.token.generation
                    continue
                }
                for objectIDs in [notice.updated, notice.deleted] {
                    for objectID in objectIDs {
                        state.touch(objectID.row, at: notice.token.generation)
                    }
                }
            }
        }
    }
}

extension RowCache.State {
    fileprivate func isCurrent(_ row: CachedRow) -> Bool {
        row.generation >= floor && touched[row.row] ?? 0 <= row.generation
    }

    fileprivate func isValid(_ row: CachedRow, at generation: UInt64?) -> Bool {
        isValid(row.row, readAt: row.generation, at: generation)
    }

    fileprivate func isValid(_ row: RowID, readAt read: UInt64, at generation: UInt64?) -> Bool {
        if let generation, generation <= read { return generation == read }
        return read >= floor && touched[row] ?? 0 <= read
    }

    fileprivate mutating func touch(_ row: RowID, at generation: UInt64) {
        if let known = rows.removeValue(forKey: row) { bytes -= known.row.size }
        touched[row] = generation
        touches.append((row, generation))
        guard touches.count - firstTouch > RowCache.touchedRows else { return }
        let oldest = touches[firstTouch]
        firstTouch += 1
        if touched[oldest.row] == oldest.generation { touched[oldest.row] = nil }
        floor = max(floor, oldest.generation)
        if firstTouch >= RowCache.touchedRows {
            touches.removeFirst(firstTouch)
            firstTouch = 0
        }
    }

    fileprivate mutating func shrink(to limit: Int) {
        while bytes > limit, first < order.count {
            let oldest = order[first]
            first += 1
            guard let found = rows[oldest.row], found.turn == oldest.turn else { continue }
            rows[oldest.row] = nil
            bytes -= found.row.size
        }
        // Places of rows that are gone are given back, where they are most.
        if order.count > 64, order.count > 2 * rows.count {
            order = order[first...].filter { rows[$0.row]?.turn == $0.turn }
            first = 0
        }
    }
}

extension PersistentStoreCoordinator {
    /// How full the cache of rows is that its contexts have read. Usable from any thread.
    public var rowCacheGauge: RowCacheGauge { rowCache.gauge }

    /// Empties the cache of rows that its contexts have read. Usable from any thread.
    public func forgetCachedRows() { rowCache.removeAll() }
}
