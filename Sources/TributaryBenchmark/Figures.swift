import Foundation

/// Statistics and their spelling.
enum Figures {
    /// The value below which a share of the samples lies; 0 without samples.
    static func percentile(_ share: Double, of samples: [Double]) -> Double {
        guard !samples.isEmpty else { return 0 }
        let sorted = samples.sorted()
        let index = (Double(sorted.count - 1) * share).rounded()
        return sorted[min(max(Int(index), 0), sorted.count - 1)]
    }

    /// The median; 0 without samples.
    static func median(_ samples: [Double]) -> Double { percentile(0.5, of: samples) }

    /// A number with so many places after the point, and separators.
    static func text(_ number: Double, _ places: Int = 2) -> String {
        let plain = String(format: "%.\(places)f", number)
        let parts = plain.split(separator: ".", omittingEmptySubsequences: false)
        var digits = ""
        for (index, character) in parts[0].reversed().enumerated() {
            if index > 0, index.isMultiple(of: 3), character != "-" { digits.append(",") }
            digits.append(character)
        }
        let whole = String(digits.reversed())
        return parts.count > 1 ? whole + "." + parts[1] : whole
    }

    /// Seconds as milliseconds.
    static func milliseconds(_ seconds: Double) -> String { text(seconds * 1000, 3) + " ms" }
}

/// A Markdown table.
struct MarkdownTable {
    let title: String
    let columns: [String]
    var rows: [[String]] = []
    var notes: [String] = []
    /// The goals of its figures.
    var goals: [Goal] = []

    init(_ title: String, columns: [String]) {
        self.title = title
        self.columns = columns
    }

    mutating func add(_ cells: String...) { rows.append(cells) }

    func print() {
        Swift.print("### \(title)\n\n" + body)
        fflush(nil)
    }

    /// The rows, then the notes.
    var body: String {
        rowsText + (notes.isEmpty ? "" : "\n" + notes.joined(separator: "\n") + "\n")
    }

    /// The rows below their columns, a line each.
    var rowsText: String {
        let rule = columns.indices.map { $0 == 0 ? "---" : "---:" }
        return ([columns, rule] + rows).map { line($0) + "\n" }.joined()
    }

    private func line(_ cells: [String]) -> String {
        "| " + cells.joined(separator: " | ") + " |"
    }
}
