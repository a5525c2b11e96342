import Testing

@testable import Node

@Suite("When it is looked after what connections hold")
struct WatchPaceTests {
    /// A pace that is asked by its time.
    private final class Watch {
        var pace: WatchPace

        init(isKeyed: Bool = false) { pace = WatchPace(isKeyed: isKeyed) }

        /// Whether a look asks every connection; one of them holds so many bytes.
        func asks(_ now: UInt64, pages: Int? = 1_000, held: Int = 0) -> Bool {
            guard pace.mustAsk(pages: pages, now: now) else { return false }
            pace.noteHeld(held, now: now)
            return true
        }

        /// The pauses between the looks up to a time.
        func pauses(from start: UInt64, to end: UInt64) -> Set<UInt64> {
            var pauses: Set<UInt64> = []
            var now = start
            while now < end {
                _ = asks(now)
                pauses.insert(pace.nextAt - now)
                now = pace.nextAt
            }
            return pauses
        }
    }

    @Test("Pauses are long while nothing happens, with keys and without", arguments: [false, true])
    func idle(isKeyed: Bool) {
        let watch = Watch(isKeyed: isKeyed)
        #expect(watch.asks(0))
        #expect(watch.pauses(from: 3_000, to: 10_000) == [100])
        #expect(watch.asks(11_000))
        #expect(!watch.asks(11_999))
        #expect(watch.asks(12_000))
    }

    @Test("They are short for two seconds after somebody has connected, and shorter without keys")
    func connected() {
        let watch = Watch()
        _ = watch.pauses(from: 0, to: 5_000)
        #expect(watch.pace.nextAt == 5_000)
        watch.pace.makeHaste(now: 4_960)
        #expect(watch.pace.nextAt == 4_970)
        #expect(watch.pauses(from: 4_970, to: 6_950) == [10])
        #expect(watch.pauses(from: 6_960, to: 9_000) == [100])
        let keyed = Watch(isKeyed: true)
        keyed.pace.makeHaste(now: 5_000)
        #expect(keyed.pauses(from: 5_000, to: 6_000) == [50])
    }

    @Test("Each connection is asked when the process has grown by 1 MiB, and else now and then")
    func asking() {
        let watch = Watch()
        #expect(watch.asks(5_000, held: 64 << 10))
        #expect(!watch.asks(5_050, pages: 1_255))
        #expect(watch.asks(5_100, pages: 1_256))
        // It has given back, and takes the same again.
        #expect(!watch.asks(5_150, pages: 900))
        #expect(watch.asks(5_200, pages: 1_156))
        #expect(!watch.asks(5_399, pages: 1_156))
        #expect(watch.asks(5_400, pages: 1_156))
    }

    @Test("All are asked at each look for two seconds after one held much")
    func held() {
        let watch = Watch(isKeyed: true)
        #expect(watch.asks(5_000, held: (64 << 10) + 1))
        #expect(watch.asks(5_050))
        #expect(watch.asks(6_999))
        #expect(watch.asks(7_000))
        #expect(!watch.asks(7_199))
        #expect(watch.asks(8_000))
    }

    @Test("Where the system does not tell what the process holds, all are asked at each look")
    func unknown() {
        let watch = Watch()
        for now: UInt64 in [0, 50, 100] { #expect(watch.asks(now, pages: nil)) }
    }

    @Test("The gauge tells what the process holds")
    func gauge() throws {
        let gauge = MemoryGauge()
        let former = try #require(gauge.pages)
        #expect(former > 256)
        let bytes = [UInt8](repeating: 1, count: 64 << 20)
        #expect(try #require(gauge.pages) > former + 8_000)
        withExtendedLifetime(bytes) {}
    }
}
