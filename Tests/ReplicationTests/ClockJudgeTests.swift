import Merge
import Testing

@testable import Replication

@Suite("What a node makes of its clock")
struct ClockJudgeTests {
    private static let limit = Int64(Limits().futureMilliseconds)
    private static let wall: UInt64 = 1_000_000_000_000

    private static func verdict(
        _ judge: inout ClockJudge, _ offsets: [Int64], stamp: UInt64 = 0, isAlone: Bool = false
    ) -> ClockJudge.Verdict {
        judge.judge(
            offsets: offsets,
            stamp: HybridTimestamp(milliseconds: stamp, counter: 0) ?? .zero, wall: wall,
            isAlone: isAlone)
    }

    @Test("The median of three and more judges, and tells each change once")
    func median() {
        let far = Self.limit + 1
        var judge = ClockJudge(limits: Limits())
        #expect(Self.verdict(&judge, [far, 0]) == .init())
        let off = Self.verdict(&judge, [far, far])
        #expect(off == .init(alarms: [.clockOff(milliseconds: -far)], isOff: true))
        #expect(judge.isOff && Self.verdict(&judge, [far, far]) == .init())
        #expect(Self.verdict(&judge, [far, 0]) == .init(isOff: false))
        let behind = Self.verdict(&judge, [-far, -far])
        #expect(behind == .init(alarms: [.clockOff(milliseconds: far)], isOff: true))
    }

    @Test("Of an even number the two in the middle must agree")
    func even() {
        let far = Self.limit + 1
        var judge = ClockJudge(limits: Limits())
        #expect(Self.verdict(&judge, [far, far, 0]) == .init())
        #expect(Self.verdict(&judge, [far, far, far]).isOff == true)
    }

    @Test("Of two clocks nobody can tell which is off, so it warns once")
    func two() {
        let far = Self.limit + 1
        var judge = ClockJudge(limits: Limits())
        #expect(Self.verdict(&judge, [Self.limit]) == .init())
        let apart = ClockJudge.Verdict(alarms: [.clocksApart(milliseconds: far)])
        #expect(Self.verdict(&judge, [far]) == apart)
        #expect(Self.verdict(&judge, [far]) == .init())
        // Nobody being heard takes nothing back.
        #expect(Self.verdict(&judge, []) == .init() && Self.verdict(&judge, [far]) == .init())
        #expect(Self.verdict(&judge, [0]) == .init() && Self.verdict(&judge, [far]) == apart)
    }

    @Test("Stamps far ahead of the clock are reported once, unless nobody else is a member")
    func stamps() {
        let ahead = Self.wall + UInt64(Self.limit) + 1
        var judge = ClockJudge(limits: Limits())
        #expect(Self.verdict(&judge, [], stamp: ahead, isAlone: true) == .init())
        #expect(Self.verdict(&judge, [], stamp: ahead - 1) == .init())
        #expect(Self.verdict(&judge, [], stamp: ahead).alarms.count == 1)
        #expect(Self.verdict(&judge, [], stamp: ahead) == .init())
    }
}
