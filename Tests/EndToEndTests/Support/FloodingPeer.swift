import CZeroMQ
import Foundation
import Merge
import Replication
import Synchronization
import TestSupport

@testable import Node

/// A program in the place of a node, with its key and its ports, that sends another node frames
/// on every way there is, as fast as they are taken, and reads nothing that is long.
///
/// It asks, too, for all that the other has, again and again, and lets the answers lie.
final class FloodingPeer: Sendable {
    /// What it did.
    struct Counts: Sendable {
        /// Bytes that were taken by the way in question.
        var published = 0
        var asked = 0
        var answered = 0
        /// Questions for the other's log.
        var pulls = 0
        var failure: String?
    }

    private struct State {
        var counts = Counts()
        var isStopped = false
        var hasEnded = false
    }

    private let state = Mutex(State())

    /// Begins to flood.
    ///
    /// - Parameters:
    ///   - target: the node that is flooded.
    ///   - place: the node in whose place it is; not running.
    ///   - keys: that node's keys.
    ///   - server: the key of the target.
    ///   - frames: what it sends, in turn.
    init(
        _ target: NodeHandle, inPlaceOf place: NodeHandle, keys: CurveKeys,
        server: CurvePublicKey, frames: [[UInt8]]
    ) {
        let (exchange, publishPort, exchangePort, number) = (
            target.exchangePort, place.publishPort, place.exchangePort, place.number
        )
        let thread = Thread { [self] in
            do {
                let context = try ZeroMQContext()
                let publisher = try ZeroMQSocket(.publisher, in: context)
                let router = try ZeroMQSocket(.router, in: context)
                let dealer = try ZeroMQSocket(.dealer, in: context)
                for socket in [publisher, router] {
                    // Without a handler and a domain everybody is let in here.
                    try socket.set(ZMQ_CURVE_SERVER, 1)
                    try socket.set(ZMQ_CURVE_SECRETKEY, text: keys.secret)
                }
                try Gatekeeper.introduceClient(dealer, keys, to: server)
                for socket in [publisher, router, dealer] { try socket.set(ZMQ_SNDHWM, 4) }
                try dealer.set(ZMQ_RCVHWM, 1)
                // An answer that is begun must be waited for by who asked.
                try router.set(ZMQ_ROUTER_MANDATORY, 1)
                try dealer.set(ZMQ_ROUTING_ID, text: "node-\(number)-0123456789abcdef")
                _ = try publisher.bind("tcp://127.0.0.1:\(publishPort)")
                _ = try router.bind("tcp://127.0.0.1:\(exchangePort)")
                try dealer.connect("tcp://127.0.0.1:\(exchange)")
                try flood(publisher, router, dealer, frames, as: number)
            } catch {
                state.withLock { $0.counts.failure = "\(error)" }
            }
            state.withLock { $0.hasEnded = true }
        }
        thread.start()
    }

    private func flood(
        _ publisher: ZeroMQSocket, _ router: ZeroMQSocket, _ dealer: ZeroMQSocket,
        _ frames: [[UInt8]], as number: Int
    ) throws {
        guard let node = NodeID(number) else { return }
        // The other asks where this node stands as long as it has heard nothing bad of it; from
        // then on the way of answers is open.
        var asker: [UInt8]?
        while asker == nil, !state.withLock({ $0.isStopped }) {
            asker = try router.receiveMessage(limit: 2)?.parts[0].bytes
            usleep(1000)
        }
        // Longer ones end the connection of who subscribes.
        let published = frames.filter { $0.count <= 2 << 20 }
        var turn: UInt64 = 0
        while !state.withLock({ $0.isStopped }) {
            turn += 1
            let frame = frames[Int(turn) % frames.count]
            if let message = try router.receiveMessage(limit: 2) { asker = message.parts[0].bytes }
            // PUB says of nothing whether it was taken: at most some hundred megabytes a second.
            let notice = published[Int(turn) % published.count]
            if try publisher.send(notice) == .sent {
                state.withLock { $0.counts.published += notice.count }
            }
            if let asker, try router.send(asker, more: true) == .sent,
                try router.send(frame) == .sent
            {
                state.withLock { $0.counts.answered += frame.count }
            }
            if try dealer.send(frame) == .sent {
                state.withLock { $0.counts.asked += frame.count }
            }
            let pull = Pull(id: turn, vector: VersionVector(), credit: 4 << 20)
            let question = Envelope(cluster: "test", sender: node, message: .pull(pull)).encoded()
            if try dealer.send(question) == .sent { state.withLock { $0.counts.pulls += 1 } }
            usleep(5000)
        }
    }

    var counts: Counts { state.withLock { $0.counts } }

    /// Ends it; gives what it did.
    func stop() async throws -> Counts {
        state.withLock { $0.isStopped = true }
        try await eventually("the flood ended", within: .seconds(60)) {
            state.withLock { $0.hasEnded }
        }
        return counts
    }
}
