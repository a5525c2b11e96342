import Foundation
import Testing

@testable import Node

/// Pages in docs/ have tables of what the node exports. `TRIBUTARY_MAKE_FIXTURES=1` in the
/// environment writes them again.
@Suite("The tables of alarms and metrics in docs/") struct OperationsPageTests {
    private static let pages = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("docs")

    private static let metrics =
        ["| metric | type | meaning |", "|---|---|---|"] + NodeMetrics.all.map(\.row)
        + HTTPServices.metrics.map(\.row)

    @Test(
        "A table between its two comments is that of the code",
        arguments: [
            ("OPERATIONS.md", "alarms", AlarmName.table), ("METRICS.md", "metrics", metrics),
        ])
    func table(page: String, name: String, lines: [String]) throws {
        let file = Self.pages.appendingPathComponent(page)
        let text = try String(contentsOf: file, encoding: .utf8)
        let begin = try #require(text.range(of: "<!-- \(name): written by a test -->\n"))
        let end = try #require(text.range(of: "<!-- end of \(name) -->"))
        let expected = text.replacingCharacters(
            in: begin.upperBound..<end.lowerBound, with: lines.map { $0 + "\n" }.joined())
        if ProcessInfo.processInfo.environment["TRIBUTARY_MAKE_FIXTURES"] == "1" {
            try expected.write(to: file, atomically: true, encoding: .utf8)
        } else {
            #expect(text == expected)
        }
    }

    @Test("Every alarm has a meaning and a remedy")
    func guides() {
        #expect(Set(AlarmName.guides.keys) == Set(AlarmName.allCases))
    }
}
