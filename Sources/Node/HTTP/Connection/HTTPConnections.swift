// The connections of the HTTP interface: how many there may be, and which goes first.
//
// Threading: may be used from every event loop.

internal import NIOCore
internal import NIOSSL
internal import Synchronization

/// Why the node itself ended a connection.
package enum ConnectionEnding: String, CaseIterable, Sendable {
    /// It was the longest idle one when there was no room.
    case room
    /// A request's header did not come in time.
    case header
    /// A request's body did not come in time.
    case body
    /// Requests were under way on all others, those in reserve too.
    case full
}

/// An event of the HTTP interface's connections.
package enum ConnectionNote: Sendable {
    /// How many are open.
    case open(Int)
    /// One was ended.
    case ended(ConnectionEnding)
    /// There is no room; told once a minute at the most.
    case noRoom(maximum: Int)
}

/// All open connections. At the limit the longest idle one makes room for a new one; where requests
/// are under way on all, a few in reserve still take what supervisors ask.
final class HTTPConnections: Sendable {
    /// How many there may be, and how long they may take.
    struct Limits: Sendable {
        /// Connections for requests of all kinds.
        var maximum = 1_024
        /// Connections beside them for `/healthz`, `/readyz` and `/metrics`.
        var reserve = 16
        /// From a request's first byte, or from connecting, to the end of its header.
        var header: TimeAmount = .seconds(10)
        /// For a body, beside a second for each 16 KiB of it.
        var body: TimeAmount = .seconds(60)
        /// How much of a body is read, and thrown away, once its answer is sent.
        var excess = HTTPResponder.Limits.excess
    }

    /// A connection's state.
    enum Activity: Equatable {
        /// It waits for a request, or for the rest of its header.
        case waiting
        /// A request's body comes.
        case receiving
        /// A request is answered.
        case answering
    }

    /// The decision on a new connection.
    enum Admission {
        case ordinary, reserve, refused
    }

    private struct Entry {
        let channel: any Channel
        let isReserve: Bool
        var activity = Activity.waiting
        /// When its activity began, as a number that rises with each change of any connection.
        var since: UInt64
    }

    private struct State {
        var entries: [ObjectIdentifier: Entry] = [:]
        var reserved = 0
        var changes: UInt64 = 0
        var toldAt: UInt64?
    }

    let limits: Limits
    /// Counts answers by status.
    let countAnswer: @Sendable (Int) -> Void
    private let note: @Sendable (ConnectionNote) -> Void
    private let state = Mutex(State())

    /// How often the node logs that there is no room, in milliseconds.
    private static let tellingInterval: UInt64 = 60_000

    init(
        limits: Limits, countAnswer: @escaping @Sendable (Int) -> Void,
        note: @escaping @Sendable (ConnectionNote) -> Void
    ) {
        self.limits = limits
        self.countAnswer = countAnswer
        self.note = note
    }

    /// Takes a new connection in, and closes another where it is in its place.
    func admit(_ channel: any Channel, now: UInt64 = MonotonicClock.milliseconds) -> Admission {
        var victim: (any Channel)?
        let (admission, isTold, count) = state.withLock { state -> (Admission, Bool, Int) in
            let ordinary = state.entries.count - state.reserved
            var admission = Admission.ordinary
            if ordinary >= limits.maximum {
                victim = Self.takeIdle(ofReserve: false, &state)
                if victim == nil {
                    admission = .reserve
                    if state.reserved >= limits.reserve {
                        victim = Self.takeIdle(ofReserve: true, &state)
                        if victim == nil { admission = .refused }
                    }
                }
            }
            if admission != .refused {
                state.changes += 1
                state.entries[ObjectIdentifier(channel)] = Entry(
                    channel: channel, isReserve: admission == .reserve, since: state.changes)
                if admission == .reserve { state.reserved += 1 }
            }
            let isFull = victim != nil || admission != .ordinary
            let isTold = isFull && now >= (state.toldAt.map { $0 + Self.tellingInterval } ?? 0)
            if isTold { state.toldAt = now }
            return (admission, isTold, state.entries.count)
        }
        if let victim {
            Self.cut(victim)
            note(.ended(.room))
        }
        if isTold { note(.noRoom(maximum: limits.maximum)) }
        note(.open(count))
        return admission
    }

    /// Closes a connection without a word: under TLS saying farewell could take seconds, and room is
    /// wanted now.
    private static func cut(_ channel: any Channel) {
        channel.eventLoop.execute {
            let pipeline = channel.pipeline.syncOperations
            if let secured = try? pipeline.context(handlerType: NIOSSLServerHandler.self) {
                secured.close(promise: nil)
            } else {
                channel.close(promise: nil)
            }
        }
    }

    /// Takes out the connection that has waited longest for a request, else for the rest of a body.
    private static func takeIdle(ofReserve isReserve: Bool, _ state: inout State) -> (any Channel)?
    {
        var found: (key: ObjectIdentifier, entry: Entry)?
        for (key, entry) in state.entries
        where entry.isReserve == isReserve && entry.activity != .answering {
            guard let other = found?.entry else {
                found = (key, entry)
                continue
            }
            let isIdler =
                entry.activity == other.activity
                ? entry.since < other.since : entry.activity == .waiting
            if isIdler { found = (key, entry) }
        }
        guard let found else { return nil }
        state.entries[found.key] = nil
        if isReserve { state.reserved -= 1 }
        return found.entry.channel
    }

    /// Notes what a connection is doing from now on.
    func note(_ channel: any Channel, _ activity: Activity) {
        state.withLock { state in
            let key = ObjectIdentifier(channel)
            guard let entry = state.entries[key], entry.activity != activity else { return }
            state.changes += 1
            state.entries[key]?.activity = activity
            state.entries[key]?.since = state.changes
        }
    }

    /// Notes that a connection is ended by the node.
    func noteEnding(_ ending: ConnectionEnding) { note(.ended(ending)) }

    /// Forgets a connection that is closed.
    func remove(_ channel: any Channel) {
        let count = state.withLock { state in
            if state.entries.removeValue(forKey: ObjectIdentifier(channel))?.isReserve == true {
                state.reserved -= 1
            }
            return state.entries.count
        }
        note(.open(count))
    }
}
