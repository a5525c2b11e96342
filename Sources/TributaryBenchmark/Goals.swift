import ArgumentParser

/// A bound that a figure is held against.
struct Goal {
    /// The bound that a figure must keep.
    enum Bound {
        case atMost(Double)
        case atLeast(Double)
        case over(Double)
    }

    let name: String
    /// Nil for a figure that is only shown.
    let bound: Bound?
    let measured: Double
    /// The unit after both numbers, as " s".
    let unit: String

    init(_ name: String, _ bound: Bound?, _ measured: Double, unit: String) {
        self.name = name
        self.bound = bound
        self.measured = measured
        self.unit = unit
    }

    /// A figure that is none, such as a ratio to nothing, keeps no goal.
    var isKept: Bool {
        guard measured.isFinite else { return false }
        return switch bound {
        case nil: true
        case .atMost(let limit): measured <= limit
        case .atLeast(let limit): measured >= limit
        case .over(let limit): measured > limit
        }
    }

    /// One line for the terminal.
    var line: String { "\(isKept ? "kept  " : "MISSED") \(name): \(figure), \(limit)" }

    /// What was measured. It has more places than the tables: what is missed by little must not
    /// read as kept.
    var figure: String { Figures.text(measured, 3) + unit }

    /// What the figure must be.
    var limit: String {
        func text(_ words: String, _ limit: Double) -> String {
            "\(words) \(Figures.text(limit, limit == limit.rounded() ? 0 : 1))\(unit)"
        }
        return switch bound {
        case nil: "no bound"
        case .atMost(let limit): text("at most", limit)
        case .atLeast(let limit): text("at least", limit)
        case .over(let limit): text("over", limit)
        }
    }
}

/// Thrown once all is printed, so that the program ends with 1.
struct MissedGoals: Error, CustomStringConvertible {
    let missed: Int
    let all: Int

    var description: String { "\(missed) of \(all) goals were not kept." }
}

/// One of the benchmarks that `all` runs.
protocol Measurement: AsyncParsableCommand {
    var common: CommonOptions { get }

    /// Measures.
    ///
    /// - Returns: the figures, with the bounds they are held against.
    func tables() async throws -> [MarkdownTable]
}

extension Measurement {
    /// Measures, prints the tables and, with `--check`, whether each bound was kept.
    ///
    /// - Throws: ``MissedGoals`` where one was not, after everything is printed.
    func run() async throws { _ = try await report() }

    /// The same, for `all`.
    ///
    /// - Returns: the bounds, kept and missed, where `--check` does not ask to throw.
    func report() async throws -> [Goal] {
        let tables = try await tables()
        for table in tables { table.print() }
        let goals = tables.flatMap(\.goals)
        guard common.check, !goals.isEmpty else { return goals }
        print(goals.map(\.line).joined(separator: "\n") + "\n")
        let missed = goals.count { !$0.isKept }
        guard missed == 0 else { throw MissedGoals(missed: missed, all: goals.count) }
        return goals
    }
}
