import Coordinator
import Merge

/// New stores in memory, for tests.
extension ContextsCommand {
    func stores() async throws -> MarkdownTable {
        let model = try SampleData.model()
        var (memory, disk) = ([Double](), [Double]())
        try await Workspace.with(common.directory, "contexts") { workspace in
            for number in 0..<100 * common.rounds {
                memory.append(
                    try Clocks.measure {
                        try PersistentStoreCoordinator(inMemory: model).close()
                    }.wall)
                disk.append(
                    try Clocks.measure {
                        try SampleData.openStore(at: workspace.file("\(number).sqlite"))
                            .coordinator.close()
                    }.wall)
            }
        }
        var table = MarkdownTable("A new store, opened and closed", columns: ["", "median"])
        for (name, times) in [("in memory", memory), ("on a disk", disk)] {
            table.add(name, Figures.milliseconds(Figures.median(times)))
        }
        table.goals = [
            Goal(
                "a new store in memory", .atMost(2), Figures.median(memory) * 1000, unit: " ms"),
            Goal("a new store on a disk", nil, Figures.median(disk) * 1000, unit: " ms"),
        ]
        return table
    }
}
