import ArgumentParser
import Console
import Coordinator

/// `tributary conflicts show`.
struct ConflictsShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show a conflict three-way: what was there, each side, and why one is visible.")

    @Argument(help: "The conflict, such as Person.p17.name.")
    var id: String

    @OptionGroup var source: SourceOptions

    func run() async throws {
        let interface = try source.open()
        let answer = try await interface.get(RequestPath("conflicts", id).description)
        try interface.show(answer, asJSON: source.json) { answer, terminal in
            ThreeWay(.object(answer), style: terminal.style).lines()
        }
        await interface.close()
    }
}
