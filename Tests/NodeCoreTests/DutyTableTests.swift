import Testing

@testable import NodeCore

@Suite("What is done again and again")
struct DutyTableTests {
    @Test("A duty is begun at once, and again after its interval")
    func interval() {
        var duties = DutyTable()
        func begins(at now: UInt64) -> Bool {
            defer { duties.end(.recording) }
            return duties.begin(.recording, every: 1_000, now: now)
        }
        #expect([100, 200, 1_099, 1_100, 2_099].map(begins) == [true, false, false, true, false])
    }

    @Test("A duty that is under way is not begun a second time, and others are")
    func underWay() {
        var duties = DutyTable()
        func begins(_ duty: DutyTable.Duty) -> Bool {
            duties.begin(duty, every: 0, now: 100)
        }
        #expect([.collection, .collection, .history].map(begins) == [true, false, true])
        duties.end(.collection)
        #expect(begins(.collection))
    }

    @Test("A duty that has failed is not begun before its time")
    func failed() {
        var duties = DutyTable()
        func begins(at now: UInt64) -> Bool {
            defer { duties.end(.orphans, notBefore: 10_000) }
            return duties.begin(.orphans, every: 0, now: now)
        }
        #expect([1, 9_999, 10_000].map(begins) == [true, false, true])
    }
}
