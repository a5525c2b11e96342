import ArgumentParser
import Client
import Coordinator
import Foundation
import Node
import Synchronization

/// The cost of taking a whole store over, at the new nodes and at the one that gives it.
///
/// Each round has stores and processes of its own: a node that has given or taken a copy before is
/// not what is measured.
struct TransferCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "transfer",
        abstract: "New nodes take over a million rows from a node that goes on saving.",
        discussion: """
            Every figure is the median of --rounds runs (3 by default), each with new stores; a \
            percentile or a ratio is taken in each run, and then the median of those.
            """)

    @OptionGroup var common: CommonOptions

    @Option(help: "How many rows the giving node has.")
    var rows = 1_000_000

    @Option(help: "How many rows it got in one save; over 10,000 saves are given as a copy.")
    var batch = 90

    @Option(help: "How many new nodes join at once.")
    var joiners = 1

    @Flag(
        help: """
            Give the new nodes only what others leave of the processors, as if they had a machine of \
            their own: what is left is the giver's part.
            """)
    var idleTakers = false

    @Option(
        help: ArgumentHelp(
            """
            Where the new nodes have their stores, such as in memory: as if they had a disk of \
            their own.
            """, valueName: "directory"))
    var takersDirectory: String?

    func validate() throws {
        guard (1...16).contains(joiners) else {
            throw ValidationError("--joiners is 1 to 16.")
        }
    }

    func tables() async throws -> [MarkdownTable] { [try await measure()] }

    /// The figures of one round.
    private struct Outcome {
        /// Until each new node had all, from when all were started.
        var seconds: [Double] = []
        var copying = 0.0
        var storeMegabytes = 0.0
        var before: [Double] = []
        var meanwhile: [Double] = []
        var giverPeak = 0.0
        var takersPeak = 0.0

        /// How much longer the slowest saves of a hundred took while copies were given.
        var ratio: Double {
            let before = Figures.percentile(0.99, of: before)
            return before > 0 ? Figures.percentile(0.99, of: meanwhile) / before : 0
        }
    }

    func measure() async throws -> MarkdownTable {
        var outcomes: [Outcome] = []
        for _ in 0..<common.rounds {
            outcomes.append(
                try await Workspace.with(common.directory, "transfer") { workspace in
                    try fill(workspace)
                    return try await Workspace.with(
                        takersDirectory ?? workspace.path, "takers"
                    ) { try await once(workspace, takersIn: $0) }
                })
        }
        return table(outcomes)
    }

    private func table(_ outcomes: [Outcome]) -> MarkdownTable {
        func median(_ figure: (Outcome) -> Double) -> Double {
            Figures.median(outcomes.map(figure))
        }
        let who = joiners == 1 ? "A new node takes" : "\(joiners) new nodes at once take"
        var table = MarkdownTable(
            "\(who) over \(Figures.text(Double(rows), 0)) rows "
                + "(\(Figures.text(median(\.storeMegabytes), 0)) MB)"
                + (idleTakers ? ", with what others leave of the processors" : "")
                + (takersDirectory == nil ? "" : ", onto another disk"),
            columns: ["", "median of \(outcomes.count)"])
        if joiners == 1 {
            table.add(
                "from the process's start until it has all",
                "\(Figures.text(median { $0.seconds.max() ?? 0 }, 1)) s")
        } else {
            table.add(
                "from the processes' start until the first has all",
                "\(Figures.text(median { $0.seconds.min() ?? 0 }, 1)) s")
            table.add(
                "from the processes' start until all have all",
                "\(Figures.text(median { $0.seconds.max() ?? 0 }, 1)) s")
        }
        table.add(
            "copying the giver's file, to disk, by hand",
            "\(Figures.text(median(\.copying), 1)) s")
        let parts: [(name: String, samples: (Outcome) -> [Double])] = [
            ("before", \.before), ("meanwhile", \.meanwhile),
        ]
        for (name, samples) in parts {
            let count = Int(median { Double(samples($0).count) })
            table.add(
                "the giver's saves \(name): p50, p99, most (\(count) saves)",
                [0.5, 0.99, 1].map { share in
                    Figures.milliseconds(median { Figures.percentile(share, of: samples($0)) })
                }.joined(separator: ", "))
        }
        table.add(
            "the giver's p99 meanwhile, times that before in the same run",
            Figures.text(median(\.ratio)))
        table.add("the giver's memory at most", "\(Figures.text(median(\.giverPeak), 0)) MB")
        table.add(
            "\(joiners == 1 ? "the" : "any") taker's memory at most",
            "\(Figures.text(median(\.takersPeak), 0)) MB")
        if outcomes.count > 1 {
            let each = outcomes.map {
                "\(Figures.text($0.seconds.max() ?? 0, 1)) s and \(Figures.text($0.ratio)) times"
            }
            table.notes = ["All rounds: \(each.joined(separator: "; "))."]
        }
        table.goals = [
            Goal(
                "until all have all", .atMost(30), median { $0.seconds.max() ?? .infinity },
                unit: " s"),
            Goal("the giver's memory", .atMost(200), median(\.giverPeak), unit: " MB"),
            Goal("any taker's memory", .atMost(200), median(\.takersPeak), unit: " MB"),
        ]
        // Of several at once nothing was promised but that they get all.
        if joiners == 1 {
            table.goals.append(
                Goal(
                    "the giver's p99 meanwhile", .atMost(2), median(\.ratio),
                    unit: " times that before"))
        }
        return table
    }

    private func once(
        _ workspace: Workspace, takersIn others: Workspace
    ) async throws -> Outcome {
        var outcome = Outcome()
        outcome.storeMegabytes = Double(size(workspace.file("n1.sqlite"))) / 1e6
        outcome.copying = try Clocks.measure { try copy(workspace) }.wall
        return try await ServedNode.with(
            1 + joiners, started: 1, in: workspace, others: others
        ) { nodes in
            let takers = nodes.dropFirst()
            let pace = Pace()
            let saver = try HTTPSaver(url: nodes[0].url)
            let saving = Task { try await pace.save(with: saver) }
            defer { saving.cancel() }
            try await Task.sleep(for: .seconds(5))
            outcome.before = pace.take()
            let start = Clocks.seconds()
            for taker in takers { try taker.start(isIdle: idleTakers) }
            outcome.seconds = try await waitUntilTaken(takers, since: start)
            outcome.meanwhile = pace.take()
            // Ended and not cancelled, so that a save that failed does not pass for the end.
            pace.end()
            try await saving.value
            await saver.client.close()
            outcome.giverPeak = nodes[0].peakMegabytes
            outcome.takersPeak = takers.map(\.peakMegabytes).max() ?? 0
            for taker in takers { try await compare(taker, with: nodes[0]) }
            return outcome
        }
    }

    /// Waits until each node has all rows; gives how long each took.
    ///
    /// One after the other in turns, so that asking costs as much with many as with one. A new node
    /// answers nothing for the moment in which it opens the copy.
    private func waitUntilTaken(
        _ nodes: ArraySlice<ServedNode>, since start: Double
    ) async throws -> [Double] {
        var seconds: [Double] = []
        var waiting = Array(nodes)
        while Clocks.seconds() - start < 600 {
            let node = waiting.removeFirst()
            let answer = try? await node.client.request(
                "POST", "/v1/fetch",
                body: Array(#"{"entity": "Item", "resultType": "count"}"#.utf8))
            if let answer, answer.status == 200,
                let count = try JSONParser.parse(answer.body).object?["count"]?.integer,
                count >= rows
            {
                seconds.append(Clocks.seconds() - start)
                if waiting.isEmpty { return seconds }
            } else {
                waiting.append(node)
            }
            try await Task.sleep(for: .milliseconds(50 / waiting.count))
        }
        throw BenchmarkError("Not every new node has got everything within ten minutes.")
    }

    /// Waits until a new node says that it has what the giver has and shows the same, and has it
    /// compute that from its rows: as many rows need not be the same rows, and what it says of them
    /// came with the copy.
    private func compare(_ taker: ServedNode, with giver: ServedNode) async throws {
        let deadline = Clocks.seconds() + 60
        while true {
            let (given, taken) = (try await giver.status(), try await taker.status())
            // A digest that a node does not tell is equal to none.
            if let vector = given["vector"]?.object, let digest = given["digest"]?.string,
                taken["vector"]?.object == vector, taken["digest"]?.string == digest
            {
                break
            }
            guard Clocks.seconds() < deadline else {
                throw BenchmarkError(
                    "Node \(taker.number) does not come to show what the giver shows.")
            }
            try await Task.sleep(for: .milliseconds(20))
        }
        try await taker.verify()
    }

    private func size(_ path: String) -> Int {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        return attributes?[.size] as? Int ?? 0
    }

    private func copy(_ workspace: Workspace) throws {
        let copy = workspace.file("copy")
        try FileManager.default.copyItem(atPath: workspace.file("n1.sqlite"), toPath: copy)
        let handle = FileHandle(forWritingAtPath: copy)
        try handle?.synchronize()
        try handle?.close()
        try FileManager.default.removeItem(atPath: copy)
    }

    private func fill(_ workspace: Workspace) throws {
        let store = try SampleData.openStore(at: workspace.file("n1.sqlite"))
        defer { store.coordinator.close() }
        for start in stride(from: 0, to: rows, by: batch) {
            let items = (start..<min(start + batch, rows)).map(SampleData.Item.init)
            let _: SaveResult = try store.coordinator.save(
                SampleData.insert(items, store.entity))
        }
    }
}

/// One client that saves a hundred times a second, and how long each save took.
private final class Pace: Sendable {
    private let samples = Mutex<[Double]>([])
    private let isEnded = Mutex(false)

    /// Lets the save under way be the last.
    func end() { isEnded.withLock { $0 = true } }

    func save(with saver: HTTPSaver) async throws {
        var number = 0
        while !isEnded.withLock({ $0 }) {
            let begin = Clocks.seconds()
            _ = try await saver.save(SampleData.Item(10_000_000 + number))
            let taken = Clocks.seconds() - begin
            samples.withLock { $0.append(taken) }
            number += 1
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    func take() -> [Double] {
        samples.withLock { samples in
            defer { samples = [] }
            return samples
        }
    }
}
