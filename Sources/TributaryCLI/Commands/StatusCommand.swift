import ArgumentParser
import Coordinator

/// `tributary status`.
struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show a node's vector, peers, conflicts and store.")

    @OptionGroup var source: SourceOptions

    func run() async throws {
        let interface = try source.open()
        let answer = try await interface.get("/v1/status")
        interface.show(answer, asJSON: source.json, Self.lines)
        await interface.close()
    }

    private static func lines(_ status: JSONObject, _ terminal: Terminal) -> [String] {
        func line(_ name: String, _ text: String) -> String {
            DisplayText.pad(terminal.style.paint(name, .bold), to: 0)
                + String(repeating: " ", count: max(1, 12 - name.count)) + DisplayText.line(text)
        }
        var lines = [
            line("cluster", JSONRendering.brief(status["cluster"])),
            line("node", JSONRendering.brief(status["node"])),
            line("vector", JSONRendering.vector(status["vector"])),
            line("generation", JSONRendering.brief(status["generation"])),
            line("digest", JSONRendering.brief(status["digest"])),
            line("model", JSONRendering.brief(status["modelHash"])),
            line("conflicts", conflicts(status["conflicts"])),
        ]
        if let store = status["store"] { lines.append(line("store", JSONRendering.brief(store))) }
        for held in status["held"]?.array ?? [] {
            lines.append(line("held", JSONRendering.brief(held)))
        }
        let peers = (status["peers"]?.array ?? []).compactMap(\.object)
        guard !peers.isEmpty else { return lines }
        var table = Table([
            Table.Column("PEER", isNumeric: true), "STATE", Table.Column("LAG", isNumeric: true),
            Table.Column("CLOCK MS", isNumeric: true), "VECTOR",
        ])
        for peer in peers {
            let isConnected = peer["connected"]?.boolean ?? false
            let isRefused = !(peer["refusal"] ?? .null == .null)
            table.add([
                Table.Cell(JSONRendering.brief(peer["node"])),
                isRefused
                    ? Table.Cell("refused", .red)
                    : isConnected ? Table.Cell("connected", .green) : Table.Cell("away", .yellow),
                Table.Cell(JSONRendering.brief(peer["lag"])),
                Table.Cell(JSONRendering.brief(peer["clockOffsetMilliseconds"])),
                Table.Cell(JSONRendering.vector(peer["vector"])),
            ])
        }
        return lines + [""] + table.lines(terminal)
    }

    /// `2 unresolved (update 2), 1 settled (delete 1)`, or `none`.
    static func conflicts(_ value: JSONValue?) -> String {
        let parts = (value?.object?.members ?? []).compactMap { state -> String? in
            let kinds = state.value.object?.members ?? []
            let total = kinds.reduce(0) { $0 + ($1.value.integer ?? 0) }
            guard total > 0 else { return nil }
            let names = kinds.map { "\($0.key) \(JSONRendering.brief($0.value))" }
            return "\(total) \(state.key) (\(names.joined(separator: ", ")))"
        }
        return parts.isEmpty ? "none" : parts.joined(separator: ", ")
    }
}
