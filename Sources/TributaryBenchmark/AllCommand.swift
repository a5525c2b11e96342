import ArgumentParser

/// Everything, one after the other, with the machine in front.
struct AllCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "all", abstract: "All benchmarks; the output is the body of BENCHMARKS.md.")

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let arguments = ["--directory", common.directory, "--rounds", "\(common.rounds)"]
        print(Machine.description(storesIn: common.directory))
        var commands: [any AsyncParsableCommand] = [
            try InsertCommand.parse(arguments), try SaversCommand.parse(arguments),
            try HTTPCommand.parse(arguments), try LatencyCommand.parse(arguments),
            try CatchUpCommand.parse(arguments), try HealCommand.parse(arguments),
            try TransferCommand.parse(arguments), try GrowthCommand.parse(arguments),
            try LargeCommand.parse(arguments), try IdleCommand.parse(arguments),
        ]
        for index in commands.indices {
            do {
                try await commands[index].run()
            } catch {
                // One that cannot be made does not keep the others from being made.
                print("\(type(of: commands[index])) failed: \(error)\n")
            }
        }
    }
}
