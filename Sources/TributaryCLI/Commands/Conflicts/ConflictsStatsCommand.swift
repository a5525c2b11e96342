import ArgumentParser
import Coordinator

/// `tributary conflicts stats`.
struct ConflictsStatsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats", abstract: "Count open conflicts by state and kind.")

    @OptionGroup var source: SourceOptions

    func run() async throws {
        let interface = try source.open()
        let status = try await interface.get("/v1/status")
        let counts = status.json.object?["conflicts"] ?? .object(JSONObject())
        interface.show(InterfaceAnswer(counts), asJSON: source.json) { counts, terminal in
            var table = Table(["STATE", "KIND", Table.Column("OPEN", isNumeric: true)])
            for state in counts.members {
                for kind in state.value.object?.members ?? [] {
                    table.add([
                        Table.Cell(state.key), Table.Cell(kind.key),
                        Table.Cell(JSONRendering.brief(kind.value)),
                    ])
                }
            }
            return table.lines(terminal)
        }
        await interface.close()
    }
}
