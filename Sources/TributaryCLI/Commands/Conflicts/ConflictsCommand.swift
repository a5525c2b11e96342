import ArgumentParser

/// `tributary conflicts`.
struct ConflictsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conflicts",
        abstract: "List, explain, resolve and undo conflicts.",
        subcommands: [
            ConflictsListCommand.self, ConflictsShowCommand.self, ConflictsResolveCommand.self,
            ConflictsUndoCommand.self, ConflictsWatchCommand.self, ConflictsStatsCommand.self,
        ])
}
