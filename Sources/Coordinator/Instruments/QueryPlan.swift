/// How SQLite would find what a statement asks for, as `EXPLAIN QUERY PLAN` tells it.
///
/// The texts are SQLite's own, and may change with its version: they are for people.
public struct QueryPlan: Hashable, Sendable {
    /// A line of the plan.
    public struct Step: Hashable, Sendable {
        /// How far in it stands, from 0 on.
        public let depth: Int
        /// The text, such as `SCAN t0`.
        public let detail: String
    }

    /// The lines, each after the one it belongs to.
    public let steps: [Step]

    /// Makes a tree of what SQLite gives.
    ///
    /// - Parameter rows: in SQLite's order; `parent` is the `id` of another row, or none of them.
    package init(rows: [(id: Int64, parent: Int64, detail: String)]) {
        let ids = Set(rows.map(\.id))
        var children: [Int64: [Int]] = [:]
        var waiting: [(place: Int, depth: Int)] = []
        for (place, row) in rows.enumerated() {
            if ids.contains(row.parent), row.parent != row.id {
                children[row.parent, default: []].append(place)
            } else {
                waiting.append((place, 0))
            }
        }
        waiting.reverse()
        var steps: [Step] = []
        while let (place, depth) = waiting.popLast(), steps.count < rows.count {
            steps.append(Step(depth: depth, detail: rows[place].detail))
            for child in (children[rows[place].id] ?? []).reversed() {
                waiting.append((child, depth + 1))
            }
        }
        self.steps = steps
    }

    /// The lines with two spaces for each level.
    public var lines: [String] {
        steps.map { String(repeating: "  ", count: $0.depth) + $0.detail }
    }

    /// `[{"depth": 0, "detail": "SCAN t0"}, ...]`.
    package var json: JSONValue {
        .array(
            steps.map { ["depth": .integer(Int64($0.depth)), "detail": .string($0.detail)] })
    }
}
