import Coordinator
import Foundation
import Testing

@testable import Node

extension EndToEnd {
    @Suite("Against peers that mean harm, in a mesh with keys")
    struct HostilePeerTests {}
}

/// A dealer and a subscriber connected to a node, with any key or none.
private final class Intruder {
    private let dealer: ZeroMQSocket
    private let subscriber: ZeroMQSocket
    private(set) var received = 0

    /// - Parameters:
    ///   - keys: what to show; nil for no CURVE at all.
    ///   - server: the node's key.
    ///   - number: the node it claims to be.
    init(_ node: NodeHandle, keys: CurveKeys?, server: CurvePublicKey, claiming number: Int)
        throws
    {
        let context = try ZeroMQContext()
        dealer = try ZeroMQSocket(.dealer, in: context)
        subscriber = try ZeroMQSocket(.subscriber, in: context)
        for socket in [dealer, subscriber] {
            if let keys { try Gatekeeper.introduceClient(socket, keys, to: server) }
            // ZMQ_SNDHWM: what waits here must not be taken for the node's memory.
            try socket.set(23, 8)
        }
        // ZMQ_ROUTING_ID, ZMQ_SUBSCRIBE.
        try dealer.set(5, text: "node-\(number)-0123456789abcdef")
        try subscriber.set(6, text: "")
        try dealer.connect("tcp://127.0.0.1:\(node.exchangePort)")
        try subscriber.connect("tcp://127.0.0.1:\(node.publishPort)")
    }

    func send(_ bytes: [UInt8]) throws -> Bool { try dealer.send(bytes) == .sent }

    func receive() throws {
        for socket in [dealer, subscriber] {
            while try socket.receive() != nil { received += 1 }
        }
    }
}

extension EndToEnd.HostilePeerTests {
    @Test("Strangers get no byte of data, and a key's holder costs no more than its share")
    func intruders() async throws {
        try await TestCluster.with(starting: []) { cluster in
            let ring = try Keyring(cluster)
            for number in [1, 2] { try await cluster.node(number).start() }
            let (one, two) = (cluster.node(1), cluster.node(2))
            try await one.save(.insert("Rollback", ["name": "first"]))
            try await cluster.waitForConvergence(among: [1, 2])
            let server = try ring.keys(of: 1).publicKey
            let stranger = try CurveKeys.generate()
            let strangers = [
                try Intruder(one, keys: nil, server: server, claiming: 2),
                try Intruder(one, keys: stranger, server: server, claiming: 2),
                try Intruder(one, keys: stranger, server: server, claiming: 3),
                // A listed key, for a node that does not hold the key listed for it.
                try Intruder(
                    one, keys: try ring.keys(of: 3), server: stranger.publicKey, claiming: 3),
            ]
            // Node 3 is not running; here is its key in other hands.
            let insider = try Intruder(one, keys: try ring.keys(of: 3), server: server, claiming: 3)
            let loads = try [one, two].map {
                try Load(on: $0, prefix: "hostile\($0.number)-", clients: 1)
            }
            for load in loads { try await load.waitForAcknowledged(60) }
            let forged = try await Forgeries.frames(by: 3, against: one, inNameOf: two)
            // Without a word, and as far as the words go that need no key.
            let endless = [one.publishPort, one.exchangePort].flatMap { port in
                [[], Greeting.bytes, Greeting.curve].map {
                    EndlessStranger(port: port, beginning: $0)
                }
            }
            let before = try one.beginPeak()
            var generator = SeededGenerator(seed: 71)
            let noise = (0..<(256 << 10)).map { _ in UInt8.random(in: 0...255, using: &generator) }
            let oversized = [UInt8](repeating: 7, count: 8 << 20)
            var (sent, forgeries) = (0, 0)
            let begin = ContinuousClock.now
            // A busy machine takes longer to have sent enough.
            while ContinuousClock.now < begin + .seconds(8)
                || ((forgeries <= 100 || sent <= 64 << 20)
                    && ContinuousClock.now < begin + .seconds(60))
            {
                for intruder in strangers {
                    _ = try intruder.send(Array(noise.prefix(1000)))
                    try intruder.receive()
                }
                for _ in 0..<8 {
                    let length = Int.random(in: 0...noise.count, using: &generator)
                    if try insider.send(Array(noise.prefix(length))) { sent += length }
                }
                if Int.random(in: 0..<20, using: &generator) == 0 {
                    _ = try insider.send(oversized)
                }
                for frame in forged where try insider.send(frame) { forgeries += 1 }
                try await Task.sleep(for: .milliseconds(2))
            }
            let peak = try one.peak()
            for intruder in strangers { #expect(intruder.received == 0) }
            #expect(sent > 64 << 20, "The flood was none: \(sent) bytes")
            #expect(forgeries > 100)
            #expect(peak - before <= Self.allowance, "\(before) became \(peak)")
            let endlessBytes = try await expectNothingGiven(to: endless)
            for load in loads {
                try await load.waitForAcknowledged(load.outcome.acknowledged.count + 10)
                #expect(await load.stopWhole(within: .seconds(5)) > 100)
            }
            try await cluster.waitForConvergence(among: [1, 2])
            for node in [one, two] {
                #expect(try await node.verify()["ok"]?.boolean == true)
            }
            // Nothing but what the two have saved themselves.
            for node in [one, two] {
                #expect(try await node.count("Rollback") == 1)
                #expect(try await node.position().vector.count == 2)
            }
            let refused = try await one.refused()
            #expect(refused.contains { $0.key == stranger.publicKey.text })
            #expect(one.said.split(separator: "\n").count < 100, "the log was filled: \(one.said)")
            print(
                "hostile peers: 0 bytes of data given; of strangers \(megabytes(endlessBytes)), of "
                    + "a key's holder \(megabytes(sent)) and \(forgeries) forged frames were "
                    + "taken; memory grew from \(megabytes(before)) to \(megabytes(peak)); "
                    + "\(loads.map { $0.outcome.acknowledged.count }) saves, the longest "
                    + "\(loads.map(\.outcome.longest).max() ?? .zero)")
        }
    }

    /// How much more memory all of them together may cost, in bytes.
    private static let allowance = 64 << 20

    /// Ends strangers; gives how much they got rid of.
    private func expectNothingGiven(to strangers: [EndlessStranger]) async throws -> Int {
        var sent = 0
        for stranger in strangers {
            let outcome = try await stranger.stop()
            sent += outcome.sent
            // The greeting of 64 bytes, the same for everybody, and at the most a refusal.
            #expect(outcome.received.count <= 128 * outcome.connections)
            let text = String(decoding: outcome.received, as: UTF8.self)
            #expect(!text.contains("first") && !text.contains("hostile"))
            #expect(outcome.connections > 0)
        }
        return sent
    }
}
