import Foundation
import Testing

/// docs/design/conformance-tests.md names the tests of each line of CONFORMANCE.md, by their own names.
/// `TRIBUTARY_MAKE_FIXTURES=1` in the environment writes it again.
@Suite("Tests of the conformance lines") struct ConformanceTableTests {
    private static let page = "docs/design/conformance-tests.md"

    /// Lines that hold, as tests show which do not name them. The list may only become shorter.
    private static let unnamed: Set<Int> = [
        10, 11, 12, 14,
    ]

    private let tests: [Int: Set<String>]
    private let lines: Set<Int>
    /// Lines that do not hold, or not whole, by CONFORMANCE.md's own table.
    private let open: Set<Int>

    init() throws {
        let repository = try Repository()
        var tests: [Int: Set<String>] = [:]
        for file in repository.files where file.hasPrefix("Tests/") && file.hasSuffix(".swift") {
            let text = try repository.lines(file).map(\.text).joined(separator: "\n")
            for match in text.matches(of: /@Test\(\s*"((?:[^"\\]|\\.)*)"/) {
                let name = String(match.output.1)
                for line in name.matches(of: /CD-(\d+)/) {
                    guard let number = Int(line.output.1) else { continue }
                    tests[number, default: []].insert(name)
                }
            }
        }
        self.tests = tests
        let page = try repository.lines("docs/design/CONFORMANCE.md").map(\.text)
        lines = Set(
            page.flatMap { $0.matches(of: /\*\*CD-(\d+)\*\*/).compactMap { Int($0.output.1) } })
        var open = Set<Int>()
        for row in page where row.hasPrefix("| CD-") {
            let cell = row.split(separator: "|").first ?? ""
            for range in cell.matches(of: /CD-(\d+)(?: to CD-(\d+))?/) {
                guard let first = Int(range.output.1) else { continue }
                open.formUnion(first...(range.output.2.flatMap { Int($0) } ?? first))
            }
        }
        self.open = open
    }

    /// The page as the tests' names make it.
    private var table: String {
        var rows = lines.sorted().map { line in
            let names = (tests[line] ?? []).sorted().map { $0.replacing("|", with: "\\|") }
            let text =
                names.isEmpty
                ? open.contains(line) ? "does not hold" : "no test names it"
                : names.joined(separator: "<br>")
            return "| CD-\(line) | \(text) |"
        }
        rows.insert(contentsOf: ["| line | tests |", "|---|---|"], at: 0)
        return """
            # Tests of the conformance lines

            The lines of [CONFORMANCE.md](CONFORMANCE.md), and the names of the tests that check each. A test keeps
            this page as it is.

            \(rows.joined(separator: "\n"))

            """
    }

    @Test("The page is what the tests' names make it")
    func page() throws {
        let path = Repository.root.appendingPathComponent(Self.page)
        if ProcessInfo.processInfo.environment["TRIBUTARY_MAKE_FIXTURES"] == "1" {
            try table.write(to: path, atomically: true, encoding: .utf8)
        }
        let kept = try String(contentsOf: path, encoding: .utf8)
        #expect(kept == table, "run with TRIBUTARY_MAKE_FIXTURES=1")
    }

    @Test("A line that holds is named by a test")
    func named() {
        let bare = lines.subtracting(open).subtracting(tests.keys)
        #expect(
            bare.subtracting(Self.unnamed).isEmpty, "\(bare.subtracting(Self.unnamed).sorted())")
        #expect(Self.unnamed.isSubset(of: bare), "named by now: \(Self.unnamed.subtracting(bare))")
    }
}
