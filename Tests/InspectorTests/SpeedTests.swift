import Inspector
import Testing

/// How long keys take with as many conflicts as are kept. What it prints is for people: times of a build
/// that is not optimised say nothing about the program, and bounds on them would fail by chance.
@Suite("Inspector's speed", .serialized) struct SpeedTests {
    private static let keys: [Key] = {
        var keys: [Key] = []
        func type(_ text: String) { keys += text.map { .character($0) } }
        for _ in 0..<20 { keys += [.down, .down, .pageDown, .end, .up, .home] }
        type("/phone ana 99")
        keys += Array(repeating: .backspace, count: 13)
        keys += [.escape]
        type("/value 777")
        keys += [.enter, .down, .escape]
        for _ in 0..<12 {
            type("g")
            keys += [.down, .pageDown, .end, .home]
        }
        type("gg a")
        keys += [.character("v"), .pageDown, .character("v"), .character(" ")]
        type("sss")
        for _ in 0..<40 { keys += [.down, .character(" "), .up, .pageDown] }
        return keys
    }()

    @Test("100,000 conflicts are listed, filtered, grouped and marked; only seen rows are drawn")
    func keys() {
        var inspector = TestInspector(columns: 132, rows: 43, conflicts: [])
        let items = TestInspector.many(ConflictList.maximum + 1_000)
        let clock = ContinuousClock()
        let page = Int(10_000)
        var pages: [Duration] = []
        inspector.answers["GET /v1/conflicts?state=all&limit=10000"] = nil
        inspector.type("r")
        for first in stride(from: 0, to: items.count, by: page) {
            let answer = InspectorAnswer.page(
                Array(items[first..<min(first + page, items.count)]), next: "\(first)")
            pages.append(
                clock.measure {
                    _ = inspector.state.apply(.answered(.page(list: 2), answer))
                    _ = inspector.screen
                })
        }
        #expect(inspector.state.list.items.count == ConflictList.maximum)
        #expect(inspector.text.contains("the node has more than are kept"))
        let painter = ScreenPainter(isColoured: true)
        var shown = inspector.screen
        var times: [Duration] = []
        for key in Self.keys {
            times.append(
                clock.measure {
                    _ = inspector.state.apply(.key(key))
                    let screen = inspector.screen
                    _ = painter.bytes(from: shown, to: screen)
                    shown = screen
                })
        }
        times.sort()
        func milliseconds(_ duration: Duration) -> Double {
            Double(Int(duration / .microseconds(1))) / 1_000
        }
        print(
            "\(items.count) conflicts: page \(milliseconds(pages.max() ?? .zero)) ms at most, "
                + "key \(milliseconds(times[times.count / 2])) ms in the middle, "
                + "\(milliseconds(times[times.count * 99 / 100])) ms at p99 of \(times.count), "
                + "\(milliseconds(times.last ?? .zero)) ms at most")
        #expect(inspector.screen.lines.count == 43)
    }
}
