import ArgumentParser
import Coordinator
import Node

/// How fast an empty node gets what it missed.
struct CatchUpCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "catchup",
        abstract: "Time from an empty node's start until it has 100,000 objects of its peer.")

    @OptionGroup var common: CommonOptions

    @Option(help: "How many saves were missed.")
    var saves = 1000

    @Option(help: "How many objects a save.")
    var batch = 100

    func tables() async throws -> [MarkdownTable] { [try await measure()] }

    func measure() async throws -> MarkdownTable {
        var ready: [Double] = []
        var caughtUp: [Double] = []
        var bare: [Double] = []
        for _ in 0..<common.rounds {
            try await Workspace.with(common.directory, "catchup") { workspace in
                bare.append(try bareSeconds(workspace))
                let (first, last) = try await once(workspace)
                ready.append(first)
                caughtUp.append(last)
            }
        }
        var table = MarkdownTable(
            "A node that missed \(Figures.text(Double(saves * batch), 0)) objects in saves of "
                + "\(batch)",
            columns: ["from the process's start", "seconds (median of \(common.rounds))"])
        table.add("until it answers", Figures.text(Figures.median(ready), 3))
        table.add("until its vector is the peer's", Figures.text(Figures.median(caughtUp), 3))
        table.add(
            "a bare loop inserts as many in such saves, durably",
            Figures.text(Figures.median(bare), 3))
        table.goals = [
            Goal(
                "until its vector is the peer's", .atMost(1.6), Figures.median(caughtUp), unit: " s"
            )
        ]
        return table
    }

    private func bareSeconds(_ workspace: Workspace) throws -> Double {
        let loop = try BareLoop(path: workspace.file("bare.sqlite"))
        let items = (0..<batch).map(SampleData.Item.init)
        return try Clocks.measure { for _ in 0..<saves { try loop.save(items) } }.wall
    }

    private func once(_ workspace: Workspace) async throws -> (ready: Double, caughtUp: Double) {
        try await ServedNode.with(
            2, started: 1, in: workspace, prepare: { try fill(workspace) }
        ) { nodes in
            guard let wanted = try await nodes[0].status()["vector"]?.object else {
                throw BenchmarkError("Node 1 tells no vector.")
            }
            let start = Clocks.seconds()
            try nodes[1].start()
            try await nodes[1].waitUntilReady(every: 2)
            let ready = Clocks.seconds() - start
            while try await nodes[1].status()["vector"]?.object != wanted {
                guard Clocks.seconds() - start < 120 else {
                    throw BenchmarkError("Node 2 has not caught up within two minutes.")
                }
                try await Task.sleep(for: .milliseconds(5))
            }
            return (ready, Clocks.seconds() - start)
        }
    }

    /// Fills node 1's store before it serves.
    private func fill(_ workspace: Workspace) throws {
        let store = try SampleData.openStore(at: workspace.file("n1.sqlite"))
        defer { store.coordinator.close() }
        for save in 0..<saves {
            let items = (0..<batch).map { SampleData.Item(save * batch + $0) }
            let request = SampleData.insert(items, store.entity)
            let _: SaveResult = try store.coordinator.save(request)
        }
    }
}
