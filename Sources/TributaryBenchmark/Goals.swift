/// A bound that a figure is held against.
struct Goal {
    /// The bound that a figure must keep.
    enum Bound {
        case atMost(Double)
        case atLeast(Double)
        case over(Double)
    }

    let name: String
    let bound: Bound
    let measured: Double
    /// The unit after both numbers, as " s".
    let unit: String

    init(_ name: String, _ bound: Bound, _ measured: Double, unit: String) {
        self.name = name
        self.bound = bound
        self.measured = measured
        self.unit = unit
    }

    /// A figure that is none, such as a ratio to nothing, keeps no goal.
    var isKept: Bool {
        guard measured.isFinite else { return false }
        return switch bound {
        case .atMost(let limit): measured <= limit
        case .atLeast(let limit): measured >= limit
        case .over(let limit): measured > limit
        }
    }

    /// One line for the terminal.
    var line: String {
        let (words, limit) =
            switch bound {
            case .atMost(let limit): ("at most", limit)
            case .atLeast(let limit): ("at least", limit)
            case .over(let limit): ("over", limit)
            }
        // More places than the tables have: what is missed by little must not read as kept.
        return "\(isKept ? "kept  " : "MISSED") \(name): \(Figures.text(measured, 3))\(unit), "
            + "\(words) \(Figures.text(limit, limit == limit.rounded() ? 0 : 1))\(unit)"
    }
}

/// Thrown once all is printed, so that the program ends with 1.
struct MissedGoals: Error, CustomStringConvertible {
    let missed: Int
    let all: Int

    var description: String { "\(missed) of \(all) goals were not kept." }
}

extension CommonOptions {
    /// Prints tables as they are measured and, with `--check`, how each of their goals fared.
    ///
    /// - Throws: where a goal was not kept, after everything is printed.
    func report(_ tables: MarkdownTable...) throws {
        for table in tables { table.print() }
        try judge(tables.flatMap(\.goals))
    }

    /// With `--check`, prints how each goal fared.
    ///
    /// - Throws: where one was not kept.
    func judge(_ goals: [Goal]) throws {
        guard check, !goals.isEmpty else { return }
        print(goals.map(\.line).joined(separator: "\n") + "\n")
        let missed = goals.count { !$0.isKept }
        guard missed == 0 else { throw MissedGoals(missed: missed, all: goals.count) }
    }
}
