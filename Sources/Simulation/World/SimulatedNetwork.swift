internal import Replication

/// How the network of a run behaves while the faults last, drawn per seed.
struct NetworkSettings: Hashable, Sendable {
    /// The shortest time a frame takes, in microseconds.
    var latencyMicroseconds: UInt64 = 300
    /// The most it takes longer, in microseconds.
    var jitterMicroseconds: UInt64 = 500
    /// How many of a thousand frames are lost, at most 300.
    var lossPerMille: UInt64 = 0
    /// How many of a thousand come twice.
    var repeatPerMille: UInt64 = 0
    /// How many of a thousand are late by up to two seconds, so that others overtake them.
    var latePerMille: UInt64 = 0
    /// Whether SUB tells who sent a frame, as it does with keys.
    var namesPublisher = true
}

/// The virtual network: frames between machines, over directed links.
///
/// A frame of a dead sender may still come. One whose receiver has begun a new life since comes
/// only if its sender lives on: its socket connects again and sends what it holds.
struct SimulatedNetwork {
    /// A directed pair of machines.
    struct Link: Hashable {
        var from: Int
        var to: Int
    }

    /// A frame under way.
    struct Frame {
        var from: Int
        var to: Int
        var sender: NodeNumber
        var channel: Channel
        /// Whether it goes over a connection that the sender made to the receiver's exchange.
        var isQuestion: Bool
        var bytes: [UInt8]
        /// The lives of sender and receiver when it was sent.
        var senderLife: Int
        var receiverLife: Int
    }

    /// A number of a node, as frames name it.
    typealias NodeNumber = Int

    enum Limits {
        /// Frames that a clogged link holds; more are dropped, as a full socket does.
        static let cloggedFrames = 1_000
    }

    var settings: NetworkSettings
    /// Machines that cannot reach each other: links that are cut, one way each, and by how many
    /// faults at once.
    private var cuts: [Link: Int] = [:]
    private var clogged: [Link: [Frame]] = [:]
    private var lastArrival: [Link: UInt64] = [:]

    init(settings: NetworkSettings) { self.settings = settings }

    func isCut(_ link: Link) -> Bool { cuts[link] != nil }

    mutating func cut(_ link: Link) { cuts[link, default: 0] += 1 }

    /// Ends one fault that cut a link; another that has cut it as well goes on.
    mutating func mend(_ link: Link) {
        guard let count = cuts[link] else { return }
        cuts[link] = count > 1 ? count - 1 : nil
    }

    mutating func clog(_ link: Link) { if clogged[link] == nil { clogged[link] = [] } }

    /// Lets the frames of a clogged link go, in an order drawn by chance.
    mutating func release(_ link: Link, _ generator: inout SeededGenerator) -> [Frame] {
        (clogged.removeValue(forKey: link) ?? []).shuffled(using: &generator)
    }

    var cloggedLinks: [Link] { clogged.keys.sorted { ($0.from, $0.to) < ($1.from, $1.to) } }

    /// The fate of a frame that is sent.
    enum Fate {
        /// It arrives at these times, in microseconds: once, or twice.
        case arrives([UInt64])
        /// It waits in a clogged link.
        case waits
        /// It is lost, and nobody hears of it.
        case lost
    }

    /// Decides what becomes of a frame.
    mutating func send(
        _ frame: Frame, now: UInt64, _ generator: inout SeededGenerator
    ) -> Fate {
        let link = Link(from: frame.from, to: frame.to)
        if isCut(link) { return .lost }
        if let waiting = clogged[link] {
            guard waiting.count < Limits.cloggedFrames else { return .lost }
            clogged[link]?.append(frame)
            return .waits
        }
        if draw(settings.lossPerMille, &generator) { return .lost }
        var arrivals = [arrival(link, now: now, &generator)]
        if draw(settings.repeatPerMille, &generator) {
            arrivals.append(arrival(link, now: now, &generator))
        }
        return .arrives(arrivals)
    }

    private mutating func arrival(
        _ link: Link, now: UInt64, _ generator: inout SeededGenerator
    ) -> UInt64 {
        var time = now + settings.latencyMicroseconds
        if settings.jitterMicroseconds > 0 {
            time += UInt64.random(in: 0...settings.jitterMicroseconds, using: &generator)
        }
        if draw(settings.latePerMille, &generator) {
            return time + UInt64.random(in: 0...2_000_000, using: &generator)
        }
        // One connection keeps its order.
        let last = lastArrival[link] ?? 0
        lastArrival[link] = max(last, time)
        return max(last, time)
    }

    private func draw(_ perMille: UInt64, _ generator: inout SeededGenerator) -> Bool {
        perMille > 0 && UInt64.random(in: 0..<1000, using: &generator) < perMille
    }

    /// Ends all faults; gives what clogged links held.
    mutating func heal(_ generator: inout SeededGenerator) -> [Frame] {
        cuts = [:]
        settings.lossPerMille = 0
        settings.repeatPerMille = 0
        settings.latePerMille = 0
        return cloggedLinks.flatMap { release($0, &generator) }
    }
}
