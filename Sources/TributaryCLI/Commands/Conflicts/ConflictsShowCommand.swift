import ArgumentParser
import Console
import Coordinator

/// `tributary conflicts show`.
struct ConflictsShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show a conflict three-way: what was there, each side, and why one is visible.")

    @Argument(
        help:
            "The conflict: its number in the last list, its short ID or the beginning of it, or its ID."
    )
    var id: String

    @OptionGroup var source: SourceOptions

    func run() async throws {
        let interface = try source.open()
        let answer = try await interface.get(
            RequestPath(
                "conflicts", try RecentConflicts(of: interface.name).entry(named: id).id
            ).description)
        try interface.show(answer, asJSON: source.json) { answer, terminal in
            ThreeWay(
                .object(answer), style: terminal.style,
                width: terminal.isInteractive ? terminal.width : nil
            ).lines()
        }
        await interface.close()
    }
}
