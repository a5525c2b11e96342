import ArgumentParser
import Coordinator

/// The memory of a node that has nothing to do.
struct IdleCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "idle", abstract: "The resident memory of idle nodes.")

    @OptionGroup var common: CommonOptions

    @Option(help: "Seconds a node rests before it is measured.")
    var seconds = 5.0

    @Option(help: "How many rows the filled store has.")
    var rows = 100_000

    func tables() async throws -> [MarkdownTable] { [try await measure()] }

    func measure() async throws -> MarkdownTable {
        var table = MarkdownTable(
            "Resident memory of an idle node after \(Figures.text(seconds, 0)) s",
            columns: ["", "VmRSS"])
        for (name, nodes, count) in [
            ("alone, empty", 1, 0), ("alone, \(Figures.text(Double(rows), 0)) rows", 1, rows),
            ("one of three, empty", 3, 0),
        ] {
            let resident = try await Workspace.with(common.directory, "idle") { workspace in
                try await ServedNode.with(
                    nodes, in: workspace, prepare: { try fill(workspace, count) }
                ) { served in
                    try await Task.sleep(for: .seconds(seconds))
                    return served[0].residentMegabytes
                }
            }
            table.add(name, Figures.text(resident, 1) + " MB")
            table.goals.append(Goal(name, .atMost(45), resident, unit: " MB"))
        }
        return table
    }

    private func fill(_ workspace: Workspace, _ count: Int) throws {
        if count == 0 { return }
        let store = try SampleData.openStore(at: workspace.file("n1.sqlite"))
        defer { store.coordinator.close() }
        for start in stride(from: 0, to: count, by: 1000) {
            let items = (start..<min(start + 1000, count)).map(SampleData.Item.init)
            _ = try store.coordinator.save(SampleData.insert(items, store.entity))
        }
    }
}
