import ArgumentParser
import Coordinator
import Merge

/// History by author, with its index and without, and what the index costs those who save.
struct HistoryCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "history",
        abstract: "History filtered by author, with an index and without: time, memory, its cost.")

    @OptionGroup var common: CommonOptions

    @Option(help: "How many transactions.")
    var transactions = 1_000_000

    @Option(help: "How many of them have the author that is looked for.")
    var wanted = 100

    /// How many save at the same time.
    private static let savers = 64
    /// How many saves a measurement of the index's cost takes.
    private static let saves = 20_000

    func tables() async throws -> [MarkdownTable] {
        try await Workspace.with(common.directory, "history") { workspace in
            [try await found(workspace), try await cost(workspace)]
        }
    }

    private func open(
        _ workspace: Workspace, _ name: String, isIndexed: Bool
    ) throws -> SampleData.Store {
        try SampleData.openStore(at: workspace.file(name), indexesHistory: isIndexed)
    }

    /// Saves one object after the other, by many at a time.
    ///
    /// - Parameter author: of each number.
    private static func save(
        _ store: SampleData.Store, _ count: Int, author: @escaping @Sendable (Int) -> String
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for saver in 0..<savers {
                group.addTask {
                    for number in stride(from: saver, to: count, by: savers) {
                        var request = SampleData.insert(
                            CollectionOfOne(SampleData.Item(number)), store.entity)
                        request.author = author(number)
                        _ = try await store.coordinator.save(request)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    // MARK: Finding

    private func found(_ workspace: Workspace) async throws -> MarkdownTable {
        let every = max(1, transactions / max(1, wanted))
        let store = try open(workspace, "store.sqlite", isIndexed: false)
        try await Self.save(store, transactions) { $0.isMultiple(of: every) ? "wanted" : "other" }
        let filter = HistoryFilter(author: "wanted")
        var expected = 0
        var streamed: [Double] = []
        var memory = 0.0
        for _ in 0..<common.rounds {
            expected = 0
            memory = max(
                memory,
                try await Memory.peak {
                    let begin = Clocks.seconds()
                    for try await _ in store.coordinator.history(after: nil, filter) {
                        expected += 1
                        if expected == (transactions + every - 1) / every { break }
                    }
                    streamed.append(Clocks.seconds() - begin)
                })
        }
        store.coordinator.close()
        let begin = Clocks.seconds()
        let indexed = try open(workspace, "store.sqlite", isIndexed: true)
        let making = Clocks.seconds() - begin
        defer { indexed.coordinator.close() }
        var request = PersistentHistoryChangeRequest.fetchHistory(after: nil)
        request.filter = filter
        var times: [Double] = []
        for _ in 0..<common.rounds * 5 {
            let begin = Clocks.seconds()
            let count = try indexed.coordinator.execute(request).transactions?.count ?? 0
            times.append(Clocks.seconds() - begin)
            guard count == expected else {
                throw BenchmarkError("The index finds \(count) transactions of \(expected).")
            }
        }
        var table = MarkdownTable(
            "\(Figures.text(Double(expected), 0)) transactions by one author, of "
                + Figures.text(Double(transactions), 0),
            columns: ["", "time", "memory"])
        table.add("with the index", Figures.milliseconds(Figures.median(times)), "")
        table.add(
            "streamed without it", Figures.text(Figures.median(streamed)) + " s",
            Figures.text(memory / 1_048_576, 0) + " MiB")
        table.add("an opening that makes it", Figures.text(making) + " s", "")
        table.goals = [
            Goal(
                "history by author, with the index", .atMost(50), Figures.median(times) * 1000,
                unit: " ms"),
            Goal(
                "history by author without it, in memory", .atMost(64), memory / 1_048_576,
                unit: " MiB"),
        ]
        return table
    }

    // MARK: The cost

    private func cost(_ workspace: Workspace) async throws -> MarkdownTable {
        let plain = try open(workspace, "plain.sqlite", isIndexed: false)
        let indexed = try open(workspace, "indexed.sqlite", isIndexed: true)
        defer {
            plain.coordinator.close()
            indexed.coordinator.close()
        }
        var times: [[Clocks.Duration]] = [[], []]
        for _ in 0..<common.rounds * 2 {
            for (place, store) in [plain, indexed].enumerated() {
                times[place].append(
                    try await Clocks.measure {
                        try await Self.save(store, Self.saves) { "author \($0 % 10)" }
                    })
            }
        }
        var table = MarkdownTable(
            "Durable saves of one object, \(Self.savers) at a time",
            columns: ["", "saves a second", "processor time each"])
        for (name, times) in zip(["without the index", "with it"], times) {
            table.add(
                name, Figures.text(Figures.median(times.map { Double(Self.saves) / $0.wall }), 0),
                Figures.text(
                    Figures.median(times.map { $0.processor / Double(Self.saves) }) * 1e6, 1)
                    + " µs")
        }
        table.goals = [
            Goal(
                "time of a save with the index of history", nil,
                Figures.median(zip(times[1], times[0]).map { $0.wall / $1.wall }), unit: " times")
        ]
        return table
    }
}
