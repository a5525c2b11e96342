import Testing

@testable import NodeCore

@Suite("How fast copies of a store are given")
struct TransferPaceTests {
    private static let megabyte = 1 << 20

    @Test("A node that nobody saves to gives at once, however much")
    func quiet() {
        var pace = TransferPace(bytesPerSecond: 1 << 20)
        for now in [5_000, 5_000, 5_001] as [UInt64] {
            #expect(pace.delay(for: 100 * Self.megabyte, at: now) == 0)
        }
        pace.noteSave(at: 6_000)
        let quiet = 6_000 + TransferPace.busyMilliseconds
        #expect(pace.delay(for: Self.megabyte, at: quiet) == 0)
    }

    @Test("While a node is saved to, all takers together get what the bound lets through")
    func bounded() {
        var pace = TransferPace(bytesPerSecond: 10 << 20)
        pace.noteSave(at: 1_000)
        // Two takers. Each asks for the next part when it has the last.
        var due: [UInt64] = [1_000, 1_000]
        var given = 0
        while let taker = due.indices.min(by: { due[$0] < due[$1] }), due[taker] < 6_000 {
            pace.noteSave(at: due[taker])
            let delay = pace.delay(for: Self.megabyte, at: due[taker])
            due[taker] += delay
            given += Self.megabyte
        }
        // Five seconds, and the two parts that were given before any had taken its time.
        #expect((49...52).contains(given / Self.megabyte))
    }

    @Test("Time in which nothing was asked for is not made up for")
    func pausing() {
        var pace = TransferPace(bytesPerSecond: 1 << 20)
        pace.noteSave(at: 0)
        #expect(pace.delay(for: Self.megabyte, at: 0) == 0)
        #expect(pace.delay(for: Self.megabyte, at: 9_000) == 0)
        #expect(pace.delay(for: Self.megabyte, at: 9_000) == 1_000)
    }

    @Test("No part is put off for so long that its taker asks for it again")
    func longest() {
        var pace = TransferPace(bytesPerSecond: 1)
        pace.noteSave(at: 0)
        for _ in 0..<100 {
            #expect(pace.delay(for: Self.megabyte, at: 1) <= TransferPace.longestMilliseconds)
        }
    }

    @Test("Without a bound nothing is put off")
    func unbounded() {
        var pace = TransferPace(bytesPerSecond: 0)
        pace.noteSave(at: 0)
        for now in [1, 1, 2] as [UInt64] {
            #expect(pace.delay(for: Self.megabyte, at: now) == 0)
        }
    }
}
