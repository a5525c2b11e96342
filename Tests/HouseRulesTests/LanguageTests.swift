import Testing

/// Words that make a sentence hard to read at once (CONTRIBUTING.md, "How we write"), in comments and
/// pages.
@Suite("Language") struct LanguageTests {
    private static let banned: Set<String> = [
        "albeit", "hence", "hitherto", "lest", "thereof", "thus", "whereby", "heeded", "formerly",
        "as it were", "in whose stead", "whoever", "anew", "of which", "be it",
    ]

    /// Words that are to go, and how often they stand at most.
    private static let rare: [String: Int] = ["whose": 252]

    @Test("No banned word, and at most as many as before of the rare ones")
    func words() throws {
        let repository = try Repository()
        let files = repository.files.filter {
            ($0.hasSuffix(".swift") || $0.hasSuffix(".md"))
                && !$0.hasPrefix("Tests/HouseRulesTests/")
        }
        var offences: [String] = []
        var places: [String: Int] = [:]
        for line in try files.flatMap({ try repository.lines($0) }) {
            for phrase in Self.phrases(line.prose) {
                if Self.banned.contains(phrase) {
                    offences.append("\(line.place) says \"\(phrase)\"")
                }
                if Self.rare[phrase] != nil { places[phrase, default: 0] += 1 }
            }
        }
        for (phrase, most) in Self.rare.sorted(by: { $0.key < $1.key }) {
            let count = places[phrase] ?? 0
            if count > most { offences.append("\"\(phrase)\" \(count) times, \(most) at most") }
        }
        #expect(offences.isEmpty, "\(offences.joined(separator: "\n"))")
    }

    /// The words of a text, and each two and three that follow each other without a stop between them.
    private static func phrases(_ text: Substring) -> [String] {
        text.lowercased().split { !$0.isLetter && $0 != " " }.flatMap { clause in
            let words = clause.split(separator: " ")
            return (1...3).flatMap { length in
                (0..<max(0, words.count - length + 1)).map {
                    words[$0..<$0 + length].joined(separator: " ")
                }
            }
        }
    }
}
