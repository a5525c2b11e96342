import ArgumentParser
import Coordinator
import Merge
import Node

/// How soon nodes agree that saved on their own for long.
struct HealCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "heal",
        abstract: "Time until three nodes agree that saved 10,000 times each while apart.")

    @OptionGroup var common: CommonOptions

    @Option(help: "How many saves each node makes.")
    var saves = 10_000

    @Option(help: "How many of a hundred change what the others change too.")
    var conflicting = 10

    func run() async throws {
        try common.report(try await measure())
    }

    func measure() async throws -> MarkdownTable {
        var seconds: [Double] = []
        var bare: [Double] = []
        var conflicts: Int64 = 0
        for _ in 0..<common.rounds {
            try await Workspace.with(common.directory, "heal") { workspace in
                bare.append(try bareSeconds(workspace))
                let outcome = try await once(workspace)
                seconds.append(outcome.seconds)
                conflicts = outcome.conflicts
            }
        }
        var table = MarkdownTable(
            "Three nodes that each saved \(Figures.text(Double(saves), 0)) times while apart, "
                + "\(conflicting) % of it on the same objects",
            columns: ["", "seconds (median of \(common.rounds))"])
        table.add(
            "from the last node's start until all have the same vector and digest",
            Figures.text(Figures.median(seconds), 2))
        table.add(
            "a bare loop makes as many saves as each node gets, a thousand a commit",
            Figures.text(Figures.median(bare), 2))
        table.notes = ["Open conflicts afterwards, on each node: \(conflicts)."]
        table.goals = [
            Goal("until all are equal", .atMost(5), Figures.median(seconds), unit: " s")
        ]
        return table
    }

    private func bareSeconds(_ workspace: Workspace) throws -> Double {
        let loop = try BareLoop(path: workspace.file("bare.sqlite"))
        let items = (0..<1000).map(SampleData.Item.init)
        return try Clocks.measure { for _ in 0..<saves * 2 / 1000 { try loop.save(items) } }.wall
    }

    private func once(
        _ workspace: Workspace
    ) async throws -> (seconds: Double, conflicts: Int64) {
        try fill(workspace)
        return try await ServedNode.with(3, started: 0, in: workspace) { nodes in
            for node in nodes { try node.start() }
            for node in nodes { try await node.waitUntilReady(every: 2) }
            let start = Clocks.seconds()
            while true {
                var states: [String] = []
                for node in nodes {
                    let status = try await node.status()
                    states.append("\(status["vector"] ?? .null) \(status["digest"] ?? .null)")
                }
                if states.allSatisfy({ $0 == states[0] }) { break }
                guard Clocks.seconds() - start < 300 else {
                    throw BenchmarkError("The nodes do not agree after five minutes.")
                }
                try await Task.sleep(for: .milliseconds(5))
            }
            let seconds = Clocks.seconds() - start
            let settled = try await nodes[0].status()["conflicts"]?.object?["settled"]?.object
            return (seconds, settled?["update"]?.integer ?? 0)
        }
    }

    /// Three stores with the same objects, and then what each saves on its own.
    private func fill(_ workspace: Workspace) throws {
        let shared = saves * conflicting / 100
        let stores = try (1...3).map {
            try SampleData.openStore(at: workspace.file("n\($0).sqlite"), node: $0)
        }
        defer { for store in stores { store.coordinator.close() } }
        let first = stores[0]
        let made =
            try first.coordinator.save(
                SampleData.insert((0..<max(shared, 1)).map(SampleData.Item.init), first.entity)
            ) as SaveResult
        let log = try first.coordinator.read {
            try $0.transactions(notCoveredBy: VersionVector(), byteLimit: .max).transactions
        }
        for store in stores.dropFirst() {
            _ = try store.coordinator.apply(log.map { try EncodedTransaction(decoding: $0) })
        }
        for (side, store) in stores.enumerated() {
            let requests = (0..<saves).map { number in
                guard number < shared else {
                    return SampleData.insert([SampleData.Item(number)], store.entity)
                }
                return SaveRequest(operations: [
                    SaveOperation(
                        kind: .update, entity: store.entity, row: made.insertedRows[number].row,
                        values: [(2, .string("side \(side)"))])
                ])
            }
            for start in stride(from: 0, to: saves, by: 1000) {
                try store.coordinator.saveAll(requests[start..<min(start + 1000, saves)])
            }
        }
    }
}

extension PersistentStoreCoordinator {
    /// Saves many requests, each by itself, a group at a time.
    fileprivate func saveAll(_ requests: ArraySlice<SaveRequest>) throws {
        for result in saveTogether(Array(requests)) { _ = try result.get() }
    }
}
