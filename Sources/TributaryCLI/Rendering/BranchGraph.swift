/// Draws saves with what each follows, newest first, as `git log --graph` does: concurrent ones stand in
/// columns of their own, which part where the branches began and join where a save had seen both.
struct BranchGraph {
    /// A save, and those that it directly follows.
    struct Commit {
        let id: String
        let after: [String]
    }

    /// A line of the drawing.
    struct Row {
        /// The place of the save that stands on it; nil of a line between.
        let commit: Int?
        let drawing: String
        /// What goes on beneath it, for further lines of the same save.
        var below = ""
    }

    private(set) var rows: [Row] = []

    /// - Parameter commits: oldest first, each after all that it follows.
    init(_ commits: [Commit]) {
        // Each column waits for the save that it leads to.
        var columns: [String] = []
        let known = Set(commits.map(\.id))
        for (index, commit) in commits.enumerated().reversed() {
            if !columns.contains(commit.id) { columns.append(commit.id) }
            let places = columns.indices.filter { columns[$0] == commit.id }
            let place = places[0]
            // Several columns that lead to one save come together above it.
            if places.count > 1 {
                rows.append(Row(commit: nil, drawing: Self.join(columns.count, into: places)))
                for extra in places.dropFirst().reversed() { columns.remove(at: extra) }
            }
            let drawing = columns.indices.map { $0 == place ? "*" : "|" }.joined(separator: " ")
            let after = commit.after.filter { known.contains($0) }
            let count = columns.count
            if let first = after.first {
                columns[place] = first
                columns.insert(contentsOf: after.dropFirst(), at: place + 1)
            } else {
                columns.remove(at: place)
            }
            let below =
                after.isEmpty
                ? (0..<count).map { $0 == place ? " " : "|" }.joined(separator: " ")
                : (0..<count).map { _ in "|" }.joined(separator: " ")
            rows.append(Row(commit: index, drawing: drawing, below: below))
            if after.count > 1 {
                rows.append(
                    Row(commit: nil, drawing: Self.part(count, at: place, by: after.count - 1)))
            }
        }
    }

    /// `|\` beneath a save that had seen several branches.
    private static func part(_ count: Int, at place: Int, by more: Int) -> String {
        let before = (0..<place).map { _ in "| " }.joined()
        let after = (place + 1..<max(count, place + 1)).map { _ in " \\" }.joined()
        return before + "|" + String(repeating: "\\ ", count: more).dropLast() + after
    }

    /// `|/` above a save from which several branches begin.
    private static func join(_ count: Int, into places: [Int]) -> String {
        var text = ""
        for column in 0..<count {
            let isExtra = places.dropFirst().contains(column)
            if isExtra, text.last == " " { text.removeLast() }
            text += isExtra ? "/ " : "| "
        }
        while text.last == " " { text.removeLast() }
        return text
    }
}
