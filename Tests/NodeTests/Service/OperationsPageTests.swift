import Foundation
import Testing

@testable import Node

/// docs/OPERATIONS.md has tables of what the node exports. `TRIBUTARY_MAKE_FIXTURES=1` in the
/// environment writes them again.
@Suite("The tables of docs/OPERATIONS.md") struct OperationsPageTests {
    private static let page = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("docs/OPERATIONS.md")

    /// The page, with the lines between the two comments that name a table replaced.
    private func page(_ text: String, with lines: [String], as name: String) throws -> String {
        let begin = try #require(text.range(of: "<!-- \(name): written by a test -->\n"))
        let end = try #require(text.range(of: "<!-- end of \(name) -->"))
        return text.replacingCharacters(
            in: begin.upperBound..<end.lowerBound,
            with: lines.map { $0 + "\n" }.joined())
    }

    @Test("The tables of metrics and of alarms are those of the code")
    func tables() throws {
        let text = try String(contentsOf: Self.page, encoding: .utf8)
        let metrics =
            ["| metric | type | meaning |", "|---|---|---|"] + NodeMetrics.all.map(\.row)
            + HTTPServices.metrics.map(\.row)
        let expected = try page(
            page(text, with: metrics, as: "metrics"), with: AlarmName.table, as: "alarms")
        if ProcessInfo.processInfo.environment["TRIBUTARY_MAKE_FIXTURES"] == "1" {
            try expected.write(to: Self.page, atomically: true, encoding: .utf8)
        } else {
            #expect(text == expected)
        }
    }

    @Test("Every alarm has a meaning and a remedy")
    func guides() {
        #expect(Set(AlarmName.guides.keys) == Set(AlarmName.allCases))
    }
}
