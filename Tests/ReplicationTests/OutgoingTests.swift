import Merge
import Testing

@testable import Replication

@Suite("Long transactions that are sent in pieces")
struct OutgoingTests {
    private let limits: Limits = {
        var limits = Limits()
        limits.outgoingBytes = 10
        limits.pageBytes = 4
        return limits
    }()

    private func vector(_ sequence: UInt64) -> VersionVector {
        VersionVector([.init(actor: Reporter.second, sequence: sequence)])
    }

    private func long(_ sequence: UInt64, bytes: Int = 5) -> Outgoing.Long {
        Outgoing.Long(
            dot: dot(Reporter.second, sequence), predecessors: vector(sequence - 1),
            bytes: Array(repeating: 1, count: bytes))
    }

    private func pull(_ sequence: UInt64, resume: Pull.Resume? = nil) -> Pull {
        Pull(id: 1, vector: vector(sequence), credit: 1, resume: resume)
    }

    @Test("What was used longest ago makes room, but a single one may be longer than all")
    func room() {
        var outgoing = Outgoing()
        for (now, sequence) in [1, 2, 1, 3].enumerated() {
            outgoing.keep(long(UInt64(sequence)), now: UInt64(now), limits: limits)
        }
        #expect(outgoing.bytes == 10)
        #expect(outgoing.next(for: pull(0))?.long == long(1))
        #expect(outgoing.next(for: pull(1)) == nil)
        outgoing.keep(long(4, bytes: 100), now: 4, limits: limits)
        #expect(outgoing.bytes == 100)
        outgoing.expire(now: 4 + limits.outgoingMilliseconds - 1, limits: limits)
        #expect(outgoing.bytes == 100)
        outgoing.expire(now: 4 + limits.outgoingMilliseconds, limits: limits)
        #expect(outgoing.bytes == 0)
    }

    @Test("A pull goes on where it was, else with what comes next in the log")
    func next() {
        var outgoing = Outgoing()
        outgoing.keep(long(1), now: 0, limits: limits)
        outgoing.keep(long(2), now: 0, limits: limits)
        let resumed = outgoing.next(
            for: pull(0, resume: .init(dot: dot(Reporter.second, 2), offset: 3)))
        #expect(resumed?.long == long(2) && resumed?.offset == 3)
        let beyond = outgoing.next(
            for: pull(0, resume: .init(dot: dot(Reporter.second, 2), offset: 5)))
        #expect(beyond?.long == long(1) && beyond?.offset == 0)
        #expect(outgoing.next(for: pull(1))?.long == long(2))
        #expect(outgoing.next(for: pull(2)) == nil)
    }

    @Test("An answer has at most a page, however much or little a pull asks for")
    func credit() {
        #expect(pull(0).granted(limits) == 4)
        #expect(Pull(id: 1, vector: vector(0), credit: .max).granted(limits) == 4)
        #expect(pull(0).granted(Limits()) == 65_536)
        let piece = pull(0).piece(of: long(1), offset: 3, recovery: .none, limits: limits)
        #expect(piece.bytes.count == 2 && piece.offset == 3 && piece.total == 5)
        #expect(pull(0).fitting([[1, 2], [3, 4], [5]], limits) == 2)
        #expect(pull(0).fitting([[1, 2], [3, 4, 5]], limits) == 1)
        #expect(pull(0).fitting([], limits) == 0)
        var few = limits
        few.transactionsInFrame = 1
        #expect(pull(0).fitting([[1], [2]], few) == 1)
    }
}
