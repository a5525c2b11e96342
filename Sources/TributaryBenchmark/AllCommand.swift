import ArgumentParser
import Foundation

/// All benchmarks but that beside PostgreSQL, one after the other, and one table of all bounds.
struct AllCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "all", abstract: "All benchmarks but peers, one after the other.")

    @OptionGroup var common: CommonOptions

    @Option(help: "The Markdown page that shows the last run: this run takes its place there.")
    var page: String?

    func run() async throws {
        let arguments = ["--directory", common.directory, "--rounds", "\(common.rounds)"]
        let machine = Machine.description(storesIn: common.directory)
        print(machine)
        let measurements: [any Measurement] = [
            try InsertCommand.parse(arguments), try SaversCommand.parse(arguments),
            try HTTPCommand.parse(arguments), try LatencyCommand.parse(arguments),
            try CatchUpCommand.parse(arguments), try HealCommand.parse(arguments),
            try TransferCommand.parse(arguments), try GrowthCommand.parse(arguments),
            try IncarnationsCommand.parse(arguments), try BulkCommand.parse(arguments),
            try FetchCommand.parse(arguments), try ContextsCommand.parse(arguments),
            try BatchCommand.parse(arguments), try HistoryCommand.parse(arguments),
            try ExplainCommand.parse(arguments),
            try IdleCommand.parse(arguments),
        ]
        var bounds = MarkdownTable("All bounds", columns: ["", "bound", "measured", ""])
        var goals: [Goal] = []
        var failures: [String] = []
        for measurement in measurements {
            let name = type(of: measurement).configuration.commandName ?? "?"
            do {
                let measured = try await measurement.report()
                goals += measured
                for goal in measured {
                    bounds.add(
                        "\(name): \(goal.name)", goal.limit, goal.figure,
                        goal.bound == nil ? "" : goal.isKept ? "kept" : "**missed**")
                }
            } catch {
                // The others are measured all the same. The end names this one again.
                failures.append("\(name): \(error)")
                print("Failed: \(failures[failures.count - 1])\n")
            }
        }
        bounds.print()
        guard failures.isEmpty else {
            throw BenchmarkError(
                "\(failures.count) of \(measurements.count) benchmarks failed.\n"
                    + failures.joined(separator: "\n"))
        }
        if let page { try LastRun.all.replace(in: page, by: machine + "\n" + bounds.rowsText) }
        let missed = goals.count { !$0.isKept }
        if common.check, missed > 0 { throw MissedGoals(missed: missed, all: goals.count) }
    }
}
