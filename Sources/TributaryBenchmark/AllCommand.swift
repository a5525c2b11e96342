import ArgumentParser

/// Everything, one after the other, with the machine in front.
struct AllCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "all", abstract: "All benchmarks, one after the other.")

    @OptionGroup var common: CommonOptions

    func run() async throws {
        var arguments = ["--directory", common.directory, "--rounds", "\(common.rounds)"]
        if common.check { arguments.append("--check") }
        print(Machine.description(storesIn: common.directory))
        var commands: [any AsyncParsableCommand] = [
            try InsertCommand.parse(arguments), try SaversCommand.parse(arguments),
            try HTTPCommand.parse(arguments), try LatencyCommand.parse(arguments),
            try CatchUpCommand.parse(arguments), try HealCommand.parse(arguments),
            try TransferCommand.parse(arguments), try GrowthCommand.parse(arguments),
            try IncarnationsCommand.parse(arguments), try BulkCommand.parse(arguments),
            try IdleCommand.parse(arguments),
        ]
        var failures: [String] = []
        for index in commands.indices {
            do {
                try await commands[index].run()
            } catch {
                // One that cannot be made, or misses a goal, does not keep the others from being
                // made. It is reported again at the end, where nobody overlooks it.
                let name = type(of: commands[index]).configuration.commandName ?? "?"
                failures.append("\(name): \(error)")
                print("Failed: \(failures[failures.count - 1])\n")
            }
        }
        guard failures.isEmpty else {
            throw BenchmarkError(
                "\(failures.count) of \(commands.count) benchmarks failed.\n"
                    + failures.joined(separator: "\n"))
        }
    }
}
