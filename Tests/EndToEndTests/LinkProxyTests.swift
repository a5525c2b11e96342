import Glibc
import LinkProxy
import TestSupport
import Testing

/// A listener and a proxy before it.
private struct ProxiedLink {
    let proxy: LinkProxy
    private let target: LoopbackListener

    init() async throws {
        target = try LoopbackListener()
        proxy = try await LinkProxy(targetPort: target.port)
    }

    /// Both ends of a new connection, which carries a byte.
    func open() throws -> (near: RawConnection, far: RawConnection) {
        let near = try RawConnection(port: proxy.port)
        let far = try target.accept()
        try near.send([7])
        #expect(try far.receive(1) == [7])
        return (near, far)
    }
}

// One after the other: they block their threads, and a pool of two has none left for three of them.
@Suite("A link's proxy", .serialized, .timeLimit(.minutes(1)))
struct LinkProxyTests {
    @Test("it passes bytes both ways, unchanged and in order")
    func passesBytes() async throws {
        let link = try await ProxiedLink()
        let (near, far) = try link.open()
        // More than the sockets' buffers hold, so that back-pressure has its part.
        let sent = (0..<8_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ ($0 >> 8)) }
        let writing = Task.detached { try near.send(sent) }
        let received = try far.receive(sent.count)
        try await writing.value
        #expect(received == sent)
        try far.send([1, 2, 3])
        #expect(try near.receive(3) == [1, 2, 3])
        await link.proxy.shutdown()
    }

    @Test("cut, it ends what is open and refuses what comes; healed, it carries again")
    func cutsAndHeals() async throws {
        let link = try await ProxiedLink()
        let (near, far) = try link.open()
        await link.proxy.cut()
        #expect(near.isEnded())
        #expect(far.isEnded())
        let refused = try RawConnection(port: link.proxy.port)
        #expect(refused.isEnded())
        await link.proxy.heal()
        _ = try link.open()
        await link.proxy.shutdown()
    }

    @Test("stalled, it keeps connections and holds their bytes until it is healed")
    func stalls() async throws {
        let link = try await ProxiedLink()
        let (near, far) = try link.open()
        await link.proxy.stall()
        // A read may have been under way already; it takes only the next bytes.
        try near.send([2])
        var rest: [UInt8] = []
        if far.hasBytes(within: .milliseconds(100)) { rest += try far.receive(1) }
        try near.send([3])
        #expect(!far.hasBytes(within: .milliseconds(100)))
        await link.proxy.heal()
        while rest.count < 2 { rest += try far.receive(1) }
        #expect(rest == [2, 3])
        await link.proxy.shutdown()
    }

    @Test(
        "bytes of one direction stall or vanish while those of the other pass",
        arguments: [LinkFault.Passage.stalled, .lost])
    func oneWay(passage: LinkFault.Passage) async throws {
        let link = try await ProxiedLink()
        let (near, far) = try link.open()
        await link.proxy.set(LinkFault(passage: passage), on: .towardsTarget)
        if passage == .stalled {
            // A read may have been under way; it is not handed on while the direction is stalled.
            try near.send([2, 3])
        } else {
            try near.send([UInt8](repeating: 2, count: 4_000_000))
        }
        try far.send([9])
        #expect(try near.receive(1) == [9])
        #expect(!far.hasBytes(within: .milliseconds(100)))
        await link.proxy.heal()
        if passage == .stalled {
            #expect(try far.receive(2) == [2, 3])
        } else {
            // A stream with a hole is not carried on.
            #expect(near.isEnded() && far.isEnded())
            _ = try link.open()
        }
        await link.proxy.shutdown()
    }

    @Test("a reset is seen as one at both ends, and new connections are carried")
    func resets() async throws {
        let link = try await ProxiedLink()
        let (near, far) = try link.open()
        await link.proxy.reset()
        for end in [near, far] {
            do {
                _ = try end.receiveSome(upTo: 1)
                Issue.record("It ended without a reset")
            } catch let error as SystemError {
                #expect(error.number == ECONNRESET)
            }
        }
        _ = try link.open()
        await link.proxy.shutdown()
    }

    @Test("a narrow or slow link delivers everything, unchanged and in order")
    func tricklesAndDelays() async throws {
        let link = try await ProxiedLink()
        let (near, far) = try link.open()
        // Little enough for the buffers on the way, so that sending does not wait for receiving.
        let sent = (0..<60_000).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ ($0 >> 9)) }
        for fault in [
            LinkFault(trickle: .init(bytes: 3_000, everyMilliseconds: 5)),
            LinkFault(delayMilliseconds: 30),
            LinkFault(delayMilliseconds: 10, trickle: .init(bytes: 5_000, everyMilliseconds: 3)),
        ] {
            await link.proxy.set(fault)
            let begin = ContinuousClock.now
            try near.send(sent)
            #expect(try far.receive(sent.count) == sent)
            // Twenty portions have nineteen pauses; what comes at once is late by the delay at least.
            let least = fault.trickle == nil ? fault.delayMilliseconds - 1 : 30
            #expect(ContinuousClock.now - begin > .milliseconds(least))
        }
        await link.proxy.heal()
        try far.send([1, 2])
        #expect(try near.receive(2) == [1, 2])
        await link.proxy.shutdown()
    }

    @Test("every n-th byte is changed, the same ones for the same seed")
    func flips() async throws {
        let sent = [UInt8](repeating: 0x55, count: 10_000)
        var received: [[UInt8]] = []
        for seed: UInt64 in [3, 3, 4] {
            let link = try await ProxiedLink()
            await link.proxy.set(LinkFault(flips: .init(every: 1000, seed: seed)), on: .fromTarget)
            let (near, far) = try link.open()
            try near.send(sent)
            #expect(try far.receive(sent.count) == sent)
            try far.send(sent)
            let damaged = try near.receive(sent.count)
            let places = damaged.indices.filter { damaged[$0] != sent[$0] }
            #expect(places.count == 10)
            #expect(zip(places, places.dropFirst()).allSatisfy { $1 - $0 == 1000 })
            received.append(damaged)
            await link.proxy.shutdown()
        }
        #expect(received[0] == received[1])
        #expect(received[0] != received[2])
    }

    @Test("where nobody listens at the target, what comes is closed, and the proxy lives on")
    func targetMissing() async throws {
        let port: Int
        do { port = try LoopbackListener().port }
        let proxy = try await LinkProxy(targetPort: port)
        #expect(try RawConnection(port: proxy.port).isEnded())
        #expect(try RawConnection(port: proxy.port).isEnded())
        await proxy.shutdown()
    }
}
