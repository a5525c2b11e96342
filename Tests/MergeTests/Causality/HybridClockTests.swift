import Merge
import TestSupport
import Testing

@Suite("HybridClock")
struct HybridClockTests {
    @Test("Every reading is later than all before it, though the wall clock steps back or stands")
    func readingsRise() {
        var clock = HybridClock()
        var random = SeededGenerator(seed: 21)
        var last = HybridTimestamp.zero
        for _ in 0..<2000 {
            if random.once(in: 5) { clock.observe(timestamp(UInt64(random.below(1000)))) }
            let reading = clock.now(wallMilliseconds: UInt64(random.below(1000)))
            if reading <= last { Issue.record("\(reading) is not after \(last)") }
            last = reading
        }
        #expect(last == clock.highWaterMark)
    }

    @Test("A reading follows the wall clock where that is ahead, and counts where it is not")
    func readings() {
        var clock = HybridClock()
        #expect(clock.now(wallMilliseconds: 100) == timestamp(100))
        #expect(clock.now(wallMilliseconds: 100) == timestamp(100, counter: 1))
        #expect(clock.now(wallMilliseconds: 50) == timestamp(100, counter: 2))
        #expect(clock.now(wallMilliseconds: 101) == timestamp(101))
    }

    @Test("What is read after an observation is later than what was observed")
    func observing() {
        var clock = HybridClock()
        clock.observe(timestamp(500, counter: 7))
        #expect(clock.now(wallMilliseconds: 10) == timestamp(500, counter: 8))
        clock.observe(timestamp(20))
        #expect(clock.now(wallMilliseconds: 10) == timestamp(500, counter: 9))
    }

    @Test("A clock goes on from its kept high-water mark after a restart")
    func restart() {
        var clock = HybridClock(highWaterMark: timestamp(900))
        #expect(clock.now(wallMilliseconds: 1) > timestamp(900))
    }

    @Test("A full counter moves into the milliseconds")
    func counterOverflows() {
        var clock = HybridClock(highWaterMark: timestamp(100, counter: .max))
        #expect(clock.now(wallMilliseconds: 1) == timestamp(101))
    }

    @Test("A wall clock beyond all bounds does not trap")
    func hostileWallClock() {
        var clock = HybridClock()
        let reading = clock.now(wallMilliseconds: .max)
        #expect(reading.milliseconds == HybridTimestamp.maximumMilliseconds)
        for _ in 0..<3 { _ = clock.now(wallMilliseconds: .max) }
        clock = HybridClock(
            highWaterMark: timestamp(HybridTimestamp.maximumMilliseconds, counter: .max))
        #expect(clock.now(wallMilliseconds: 5) == clock.highWaterMark)
    }

    @Test("A timestamp is 63 bits: milliseconds, then counter")
    func layout() {
        #expect(timestamp(5, counter: 9).rawValue == 5 << 16 | 9)
        #expect(HybridTimestamp(rawValue: 1 << 63) == nil)
        #expect(HybridTimestamp(rawValue: .max >> 1) != nil)
        #expect(
            HybridTimestamp(
                milliseconds: HybridTimestamp.maximumMilliseconds + 1, counter: 0) == nil)
        #expect(timestamp(5, counter: 9) < timestamp(6))
        #expect("\(timestamp(5, counter: 9))" == "5.9")
    }
}
