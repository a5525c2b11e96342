import Foundation
import Testing

/// What code and pages cite is in the repository: pages, their headings, numbered sections and lines.
@Suite("Citations") struct CitationTests {
    private let repository: Repository
    /// The headings of each page.
    private let headings: [String: [String]]

    init() throws {
        repository = try Repository()
        var headings: [String: [String]] = [:]
        for page in repository.pages {
            headings[page] = try repository.lines(page).map(\.text).filter { $0.hasPrefix("#") }
                .map { $0.drop { $0 == "#" }.trimmingCharacters(in: .whitespaces) }
        }
        self.headings = headings
    }

    /// The lines that have a mark, of all files but data.
    private func lines(with mark: String) throws -> [Repository.Line] {
        let kinds = [".swift", ".md", ".yaml", ".mutant"]
        let files = repository.files.filter { file in
            kinds.contains { file.hasSuffix($0) } || file == "Makefile"
                || (file.hasPrefix("deploy/") && !file.fileName.contains("."))
        }
        return try repository.lines(of: files, with: mark)
    }

    @Test("Every page that is named exists, with the heading that is named")
    func pages() throws {
        var offences: [String] = []
        for line in try lines(with: ".md") {
            for match in line.text.matches(of: /([\w.\/-]*[\w-]+\.md)\b(?:#([\w-]+))?/) {
                guard let page = page(String(match.output.1), from: line.file) else {
                    offences.append("\(line.place) names \(match.output.1)")
                    continue
                }
                if let anchor = match.output.2, !anchors(of: page).contains(String(anchor)) {
                    offences.append("\(line.place) names \(match.output.0)")
                }
            }
        }
        for line in try repository.lines(of: repository.pages, with: "](#") {
            for match in line.text.matches(of: /\]\(#([\w-]+)\)/)
            where !anchors(of: line.file).contains(String(match.output.1)) {
                offences.append("\(line.place) names #\(match.output.1)")
            }
        }
        #expect(offences.isEmpty, "\(offences.joined(separator: "\n"))")
    }

    /// The page that a path means, seen from a file or from the root, or by its name alone.
    private func page(_ path: String, from file: String) -> String? {
        let folder = file.split(separator: "/").dropLast().joined(separator: "/")
        let relative = NSString(string: "/\(folder)/\(path)").standardizingPath.dropFirst()
        if headings[String(relative)] != nil { return String(relative) }
        if headings[path] != nil { return path }
        return headings.keys.sorted().first { $0.fileName == path.fileName }
    }

    /// The names by which a page's headings are linked.
    private func anchors(of page: String) -> Set<String> {
        Set(
            (headings[page] ?? []).map { heading in
                String(
                    heading.lowercased().filter {
                        $0.isLetter || $0.isNumber || " -_".contains($0)
                    }.map { $0 == " " ? "-" : $0 })
            })
    }

    @Test("Every decision, section, problem and line that is named by its number exists")
    func numbers() throws {
        let decisions = Set(
            repository.pages.filter { $0.hasPrefix("docs/decisions/") }.map {
                String($0.fileName.prefix(4))
            })
        let sections = numbers(of: "docs/design/DESIGN.md")
        let problems = numbers(of: "docs/design/MODEL.md")
        let text = try repository.lines("docs/design/CONFORMANCE.md")
        let conformance = Set(
            text.flatMap { $0.text.matches(of: /\*\*CD-(\d+)\*\*/).map { String($0.output.1) } })
        let citations: [(mark: String, Regex<(Substring, Substring)>, known: Set<String>)] = [
            ("ecision ", /\b[Dd]ecision (\d{4})\b/, decisions),
            ("section ", /\bDESIGN(?:\.md)?,? section (\d+(?:\.\d+)?)/, sections),
            ("MODEL ", /\bMODEL(?:\.md)? ([PSA]\d+)\b/, problems),
            ("CD-", /\bCD-(\d+)\b/, conformance),
        ]
        var offences: [String] = []
        for (mark, pattern, known) in citations {
            for line in try lines(with: mark) {
                for match in line.text.matches(of: pattern)
                where !known.contains(String(match.output.1)) {
                    offences.append("\(line.place) names \(match.output.0)")
                }
            }
        }
        #expect(offences.isEmpty, "\(offences.joined(separator: "\n"))")
    }

    /// The numbers with which a page's headings begin.
    private func numbers(of page: String) -> Set<String> {
        Set((headings[page] ?? []).compactMap { $0.split(separator: " ").first.map(String.init) })
    }
}
