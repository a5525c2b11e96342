import Foundation

/// The part of a Markdown page that shows the last run, between two marks.
struct LastRun {
    /// All bounds of all benchmarks.
    static let all = LastRun("last run")
    /// The figures beside PostgreSQL's.
    static let peers = LastRun("last run beside PostgreSQL")

    private let beginning: String
    private let end: String

    private init(_ name: String) {
        beginning = "<!-- \(name) -->\n"
        end = "<!-- end of \(name) -->\n"
    }

    /// Replaces what lies between the marks.
    ///
    /// - Throws: ``BenchmarkError`` where a mark is missing, or an error of the file system.
    func replace(in page: String, by text: String) throws {
        let former = try String(contentsOfFile: page, encoding: .utf8)
        guard let beginning = former.range(of: beginning), let end = former.range(of: end),
            beginning.upperBound <= end.lowerBound
        else { throw BenchmarkError("\(page) has no lines that mark its last run.") }
        let body = former.replacingCharacters(
            in: beginning.upperBound..<end.lowerBound, with: "\n" + text + "\n")
        try body.write(toFile: page, atomically: true, encoding: .utf8)
    }
}
