import Glibc
import LinkProxy
import Testing

@Suite("A link's proxy", .timeLimit(.minutes(1)))
struct LinkProxyTests {
    @Test("it passes bytes both ways, unchanged and in order")
    func passesBytes() async throws {
        let target = try LoopbackListener()
        let proxy = try await LinkProxy(targetPort: target.port)
        let near = try RawConnection(port: proxy.port)
        let far = try target.accept()
        // More than the sockets' buffers hold, so that back-pressure has its part.
        let sent = (0..<8_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ ($0 >> 8)) }
        let writing = Task.detached { try near.send(sent) }
        let received = try far.receive(sent.count)
        try await writing.value
        #expect(received == sent)
        try far.send([1, 2, 3])
        #expect(try near.receive(3) == [1, 2, 3])
        await proxy.shutdown()
    }

    @Test("cut, it ends what is open and refuses what comes; healed, it carries again")
    func cutsAndHeals() async throws {
        let target = try LoopbackListener()
        let proxy = try await LinkProxy(targetPort: target.port)
        let near = try RawConnection(port: proxy.port)
        let far = try target.accept()
        try near.send([7])
        #expect(try far.receive(1) == [7])
        await proxy.cut()
        #expect(near.isEnded())
        #expect(far.isEnded())
        let refused = try RawConnection(port: proxy.port)
        #expect(refused.isEnded())
        await proxy.heal()
        let again = try RawConnection(port: proxy.port)
        let farAgain = try target.accept()
        try again.send([8])
        #expect(try farAgain.receive(1) == [8])
        await proxy.shutdown()
    }

    @Test("stalled, it keeps connections and holds their bytes until it is healed")
    func stalls() async throws {
        let target = try LoopbackListener()
        let proxy = try await LinkProxy(targetPort: target.port)
        let near = try RawConnection(port: proxy.port)
        let far = try target.accept()
        try near.send([1])
        #expect(try far.receive(1) == [1])
        await proxy.stall()
        // A read may have been under way already; it takes what comes next, and no more.
        try near.send([2])
        var rest: [UInt8] = []
        if far.hasBytes(within: .milliseconds(100)) { rest += try far.receive(1) }
        try near.send([3])
        #expect(!far.hasBytes(within: .milliseconds(100)))
        await proxy.heal()
        while rest.count < 2 { rest += try far.receive(1) }
        #expect(rest == [2, 3])
        await proxy.shutdown()
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
