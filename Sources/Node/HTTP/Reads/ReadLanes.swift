// Which reads run, which wait, and which give way.

internal import Coordinator
internal import Synchronization

/// Lets short reads run beside long ones. Thread-safe.
///
/// Every read begins among the short ones. A read that has run for a while moves to the long ones
/// if those have room. If they have none, and another read waits, it gives way: it ends, and starts
/// again once there is room among the long ones. So a short read waits for others only as long as
/// each of them may take among the short ones, whatever they ask for.
final class ReadLanes: Sendable {
    /// The bounds.
    struct Limits: Sendable {
        /// How many of each kind run at once.
        var short = 2
        var long = 2
        /// How many of each kind wait.
        var waiting = 512
        var waitingLong = 256
        /// For how long a read is taken for short, in milliseconds.
        var shortMilliseconds: UInt64 = 250
    }

    /// A read as status shows it.
    struct Shown: Hashable, Sendable {
        var text: String
        /// Since when it has been asked for.
        var begunAt: UInt64
        var isLong: Bool
    }

    /// How much there is of what.
    struct Gauges: Hashable, Sendable {
        var running = 0
        var runningLong = 0
        var waiting = 0
        var waitingLong = 0
        /// Reads that ended with their client, that started again, and that found no room to wait.
        var abandoned: UInt64 = 0
        var gaveWay: UInt64 = 0
        var refused: UInt64 = 0
    }

    private struct Running {
        var shown: Shown
        var startedAt: UInt64
        var hasGivenWay = false
    }

    private struct Waiting {
        var id: Int
        var shown: Shown
        var continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var next = 0
        var running: [Int: Running] = [:]
        var waiting: [Bool: [Waiting]] = [false: [], true: []]
        var gauges = Gauges()

        func count(isLong: Bool) -> Int { running.values.count { $0.shown.isLong == isLong } }
        func waitingCount(isLong: Bool) -> Int { waiting[isLong]?.count ?? 0 }
    }

    private let limits: Limits
    private let now: @Sendable () -> UInt64
    private let state = Mutex(State())

    init(_ limits: Limits, now: @escaping @Sendable () -> UInt64 = { MonotonicClock.milliseconds })
    {
        self.limits = limits
        self.now = now
    }

    var gauges: Gauges {
        state.withLock { state in
            var gauges = state.gauges
            gauges.running = state.running.count
            gauges.runningLong = state.count(isLong: true)
            gauges.waiting = state.waitingCount(isLong: false)
            gauges.waitingLong = state.waitingCount(isLong: true)
            return gauges
        }
    }

    /// The reads that run, the eldest first.
    var shown: [Shown] {
        state.withLock { $0.running.sorted { $0.key < $1.key }.map(\.value.shown) }
    }

    /// Reads once it is its turn.
    ///
    /// - Parameters:
    ///   - origin: whose read it is; it ends with the client.
    ///   - text: what status shows of it.
    ///   - body: reads for as long as what it is given says that it may go on, and throws where it may
    ///     not. It may be called again then.
    /// - Throws: what it throws, ``ClientGone`` and ``HTTPError`` (503 `busy`).
    func run<Result>(
        for origin: ReadOrigin, text: String,
        _ body: (@escaping @Sendable () -> Bool) async throws -> Result
    ) async throws -> Result {
        var shown = Shown(text: text, begunAt: now(), isLong: false)
        let client = origin.client
        while true {
            let id = try await enter(shown, client)
            do {
                let result = try await body { !client.isGone && self.mayGoOn(id) }
                _ = leave(id)
                return result
            } catch {
                let hasGivenWay = leave(id)
                if client.isGone {
                    noteAbandoned()
                    throw ClientGone()
                }
                guard hasGivenWay, error is CancellationError, !Task.isCancelled else {
                    throw error
                }
                shown.isLong = true
            }
        }
    }

    /// Counts a read whose client had gone.
    func noteAbandoned() { state.withLock { $0.gauges.abandoned += 1 } }

    // MARK: Turns

    private func enter(_ shown: Shown, _ client: ClientPresence) async throws -> Int {
        guard !client.isGone else {
            noteAbandoned()
            throw ClientGone()
        }
        let isLong = shown.isLong
        let id = state.withLock { state in
            state.next += 1
            return state.next
        }
        // Told before it waits: a client that has gone meanwhile is looked for when it does.
        let leaving = client.onLeaving { self.drop(id) }
        defer { client.forget(leaving) }
        try await withCheckedThrowingContinuation { continuation in
            let failure = state.withLock { state -> (any Error)? in
                if client.isGone { return ClientGone() }
                if state.waitingCount(isLong: isLong) == 0,
                    state.count(isLong: isLong) < (isLong ? limits.long : limits.short)
                {
                    state.running[id] = Running(shown: shown, startedAt: now())
                    continuation.resume()
                    return nil
                }
                guard
                    state.waitingCount(isLong: isLong)
                        < (isLong ? limits.waitingLong : limits.waiting)
                else {
                    state.gauges.refused += 1
                    return HTTPError.busy(isLong ? "long reads" : "reads", seconds: isLong ? 10 : 1)
                }
                state.waiting[isLong]?.append(
                    Waiting(id: id, shown: shown, continuation: continuation))
                return nil
            }
            if let failure { continuation.resume(throwing: failure) }
        }
        return id
    }

    /// Takes one that waits away, because its client has gone.
    private func drop(_ id: Int) {
        let dropped = state.withLock { state -> Waiting? in
            for isLong in [false, true] {
                if let place = state.waiting[isLong]?.firstIndex(where: { $0.id == id }) {
                    state.gauges.abandoned += 1
                    return state.waiting[isLong]?.remove(at: place)
                }
            }
            return nil
        }
        dropped?.continuation.resume(throwing: ClientGone())
    }

    /// Whether a read goes on; asked again and again while it runs.
    private func mayGoOn(_ id: Int) -> Bool {
        let (goesOn, started) = state.withLock { state -> (Bool, [Waiting]) in
            guard let running = state.running[id], !running.shown.isLong else { return (true, []) }
            let now = now()
            guard now - min(now, running.startedAt) >= limits.shortMilliseconds else {
                return (true, [])
            }
            if state.count(isLong: true) < limits.long {
                state.running[id]?.shown.isLong = true
                return (true, startWaiting(&state))
            }
            guard state.waitingCount(isLong: false) > 0 else { return (true, []) }
            if !running.hasGivenWay {
                state.running[id]?.hasGivenWay = true
                state.gauges.gaveWay += 1
            }
            return (false, [])
        }
        for read in started { read.continuation.resume() }
        return goesOn
    }

    /// - Returns: whether the read has given way.
    private func leave(_ id: Int) -> Bool {
        let (hasGivenWay, started) = state.withLock { state -> (Bool, [Waiting]) in
            let hasGivenWay = state.running.removeValue(forKey: id)?.hasGivenWay ?? false
            return (hasGivenWay, startWaiting(&state))
        }
        for read in started { read.continuation.resume() }
        return hasGivenWay
    }

    /// Gives the room that there is to those who wait.
    private func startWaiting(_ state: inout State) -> [Waiting] {
        var started: [Waiting] = []
        for isLong in [true, false] {
            while state.waitingCount(isLong: isLong) > 0,
                state.count(isLong: isLong) < (isLong ? limits.long : limits.short)
            {
                guard let read = state.waiting[isLong]?.removeFirst() else { break }
                state.running[read.id] = Running(shown: read.shown, startedAt: now())
                started.append(read)
            }
        }
        return started
    }
}
