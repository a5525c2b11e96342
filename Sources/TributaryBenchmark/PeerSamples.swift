/// What all rounds measured at Tributary and at PostgreSQL.
struct PeerSamples {
    private var values: [PeerFigure: [[Double]]] = [:]
    /// Seconds of the disk's own writes.
    var probe: [Double] = []

    var isEmpty: Bool { values.isEmpty }

    /// Adds one round's figure of Tributary, 0, or PostgreSQL, 1.
    mutating func add(_ figure: PeerFigure, _ value: Double, of contender: Int) {
        values[figure, default: [[], []]][contender].append(value)
    }

    /// The medians, with their ratios and goals.
    func table(rounds: Int) -> MarkdownTable {
        var table = MarkdownTable(
            "Three nodes of Tributary beside three of PostgreSQL 15 with pglogical",
            columns: ["median of \(rounds)", "Tributary", "PostgreSQL", "ratio", "goal"])
        for figure in PeerFigure.all {
            guard let medians = values[figure]?.map(Figures.median) else { continue }
            let (name, unit, places) = figure.title
            let ratio = medians[0] / medians[1]
            var goals: [Goal] = []
            if let bound = figure.ratio {
                goals.append(Goal(name + ", ratio", bound, ratio, unit: ""))
            }
            if let bound = figure.bound { goals.append(Goal(name, bound, medians[0], unit: unit)) }
            table.goals += goals
            table.rows.append(
                [name] + medians.map { Figures.text($0, places) + unit } + [
                    ratio.isFinite ? Figures.text(ratio) : "",
                    goals.map { "\($0.limit): \($0.isKept ? "kept" : "**missed**")" }
                        .joined(separator: "; "),
                ])
        }
        table.notes = [DiskProbe.note(probe)]
        return table
    }
}
