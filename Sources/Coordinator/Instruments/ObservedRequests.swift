import Synchronization

/// What one shape of request has cost so far.
public struct ObservedRequest: Hashable, Sendable {
    /// The shape.
    public let shape: RequestShape
    /// How many requests of the shape there were.
    public internal(set) var count: UInt64 = 0
    /// How long they took, in milliseconds from the first step to the last, with what was done with their
    /// rows meanwhile. The clock shows whole milliseconds, so it is close for many requests only.
    public internal(set) var milliseconds: UInt64 = 0
    /// How many rows they gave.
    public internal(set) var rows: UInt64 = 0
    /// A statement of one of them, as it would be with an index; nil where none was short enough to be
    /// kept.
    var sql: String?
}

/// The shapes of requests that a coordinator has seen.
public struct ObservedRequests: Hashable, Sendable {
    /// At most 256, those that took longest first.
    public internal(set) var requests: [ObservedRequest] = []
    /// How many times a shape was forgotten because others were seen later.
    public internal(set) var dropped: UInt64 = 0
}

/// Observes requests in bounded memory. Thread-safe.
final class RequestObserver: Sendable {
    /// How many shapes are kept. The one that was not seen for longest goes.
    static let maximumShapes = 256
    /// Statements of more bytes, such as those of thousands of conditions, are not kept.
    private static let maximumStatement = 16_384

    fileprivate struct Entry {
        var request: ObservedRequest
        var turn: UInt64
    }

    fileprivate struct State {
        var entries: [RequestShape: Entry] = [:]
        var turn: UInt64 = 0
        var dropped: UInt64 = 0
    }

    private let state = Mutex(State())
    private let clock: @Sendable () -> UInt64

    /// - Parameter clock: milliseconds that never fall.
    init(clock: @escaping @Sendable () -> UInt64) { self.clock = clock }

    /// All that was seen.
    var observed: ObservedRequests {
        let (entries, dropped) = state.withLock { ($0.entries.values.map(\.request), $0.dropped) }
        return ObservedRequests(
            requests: entries.sorted {
                ($1.milliseconds, $1.count, $0.shape.entity, $0.shape.description)
                    < ($0.milliseconds, $0.count, $1.shape.entity, $1.shape.description)
            }, dropped: dropped)
    }

    /// How many shapes are kept, and how many times one was forgotten.
    var gauge: (count: Int, dropped: UInt64) {
        state.withLock { ($0.entries.count, $0.dropped) }
    }

    /// Begins to observe a request.
    func begin(_ compiled: CompiledFetch) -> Observation {
        Observation(
            observer: self, shape: compiled.shape, sql: compiled.trialSQL, beganAt: clock())
    }

    /// A request under way.
    struct Observation {
        fileprivate let observer: RequestObserver
        fileprivate let shape: RequestShape
        fileprivate let sql: String
        fileprivate let beganAt: UInt64

        /// Notes a request that has ended, also in an error. To be called once.
        func end(rows: Int) {
            let now = observer.clock()
            observer.note(shape, sql, now > beganAt ? now - beganAt : 0, UInt64(max(0, rows)))
        }
    }

    private func note(
        _ shape: RequestShape, _ sql: String, _ milliseconds: UInt64, _ rows: UInt64
    ) {
        state.withLock { state in
            state.turn += 1
            let turn = state.turn
            if state.entries[shape]?.add(milliseconds, rows, turn: turn) != nil { return }
            if state.entries.count >= Self.maximumShapes { state.dropOldest() }
            let kept = sql.utf8.count <= Self.maximumStatement ? sql : nil
            var entry = Entry(request: ObservedRequest(shape: shape, sql: kept), turn: turn)
            entry.add(milliseconds, rows, turn: turn)
            state.entries[shape] = entry
        }
    }
}

extension RequestObserver.Entry {
    fileprivate mutating func add(_ milliseconds: UInt64, _ rows: UInt64, turn: UInt64) {
        request.count += 1
        request.milliseconds += milliseconds
        request.rows += rows
        self.turn = turn
    }
}

extension RequestObserver.State {
    fileprivate mutating func dropOldest() {
        guard let oldest = entries.min(by: { $0.value.turn < $1.value.turn }) else { return }
        entries[oldest.key] = nil
        dropped += 1
    }
}

extension CompiledFetch {
    /// The statement as it would be with an index for its range.
    var trialSQL: String {
        let order = " ORDER BY t0._id"
        guard isRange, sql.hasSuffix(order) else { return sql }
        return sql.dropLast(order.count) + " ORDER BY +t0._id"
    }
}
