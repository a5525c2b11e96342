import ArgumentParser

/// Measures what the product promises about speed and size, and prints it as Markdown.
///
/// Every figure stands beside something real of the same run: a bare SQLite loop, the disk's own
/// latency. Nothing is asserted unless `--check` asks for it: a machine that others use as well says
/// little in one run.
@main
struct TributaryBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tributary-benchmark",
        abstract: "Measures Tributary and prints Markdown tables.",
        subcommands: [
            InsertCommand.self, SaversCommand.self, HTTPCommand.self, LatencyCommand.self,
            CatchUpCommand.self, HealCommand.self, TransferCommand.self, GrowthCommand.self,
            IncarnationsCommand.self, IdleCommand.self, BulkCommand.self, ScaleCommand.self,
            FetchCommand.self, ContextsCommand.self, BatchCommand.self, HistoryCommand.self,
            ExplainCommand.self,
            PeersCommand.self,
            AllCommand.self,
        ])
}

/// The options of all benchmarks.
struct CommonOptions: ParsableArguments {
    @Option(help: "The folder for stores; everything made in it is removed again.")
    var directory = ".build/benchmark"

    @Option(
        name: .customLong("rounds"),
        help: """
            How often each measurement is repeated, interleaved; medians are printed \
            (default: 3; of peers 5).
            """)
    var chosenRounds: Int?

    var rounds: Int { chosenRounds ?? 3 }

    @Flag(help: "Print for each goal whether it was kept, and end with 1 where one was not.")
    var check = false

    func validate() throws {
        guard (1...100).contains(rounds) else {
            throw ValidationError("--rounds is 1 to 100.")
        }
    }
}
