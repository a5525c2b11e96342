import ArgumentParser
import Coordinator
import Foundation
import Node
import Synchronization

/// What it costs to take a whole store over, at the new node and at the one that gives it.
struct TransferCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "transfer",
        abstract: "A new node takes over a million rows from a node that goes on saving.")

    @OptionGroup var common: CommonOptions

    @Option(help: "How many rows the giving node has.")
    var rows = 1_000_000

    @Option(help: "How many rows it got in one save; over 10,000 saves are given as a copy.")
    var batch = 90

    func run() async throws {
        try await measure().print()
    }

    private struct Outcome {
        var seconds = 0.0
        var copying = 0.0
        var storeMegabytes = 0.0
        var before: [Double] = []
        var meanwhile: [Double] = []
        var peaks = [0.0, 0.0]
    }

    func measure() async throws -> MarkdownTable {
        let outcome = try await Workspace.with(common.directory, "transfer") { workspace in
            try fill(workspace)
            return try await once(workspace)
        }
        var table = MarkdownTable(
            "A new node takes over \(Figures.text(Double(rows), 0)) rows "
                + "(\(Figures.text(outcome.storeMegabytes, 0)) MB)",
            columns: ["", ""])
        table.add(
            "from the process's start until it has all", "\(Figures.text(outcome.seconds, 1)) s")
        table.add(
            "copying the giver's file, to disk, by hand", "\(Figures.text(outcome.copying, 1)) s")
        for (name, samples) in [
            ("before", outcome.before), ("meanwhile", outcome.meanwhile),
        ] {
            table.add(
                "the giver's saves \(name): p50, p99, most (\(samples.count) saves)",
                [0.5, 0.99, 1].map { Figures.milliseconds(Figures.percentile($0, of: samples)) }
                    .joined(separator: ", "))
        }
        table.add("the giver's memory at most", "\(Figures.text(outcome.peaks[0], 0)) MB")
        table.add("the taker's memory at most", "\(Figures.text(outcome.peaks[1], 0)) MB")
        return table
    }

    private func once(_ workspace: Workspace) async throws -> Outcome {
        var outcome = Outcome()
        outcome.storeMegabytes = Double(size(workspace.file("n1.sqlite"))) / 1e6
        outcome.copying = try Clocks.measure { try copy(workspace) }.wall
        return try await ServedNode.with(2, started: 1, in: workspace) { nodes in
            let pace = Pace()
            let saver = try HTTPSaver(url: nodes[0].url)
            let saving = Task { try await pace.save(with: saver) }
            try await Task.sleep(for: .seconds(5))
            outcome.before = pace.take()
            let start = Clocks.seconds()
            try nodes[1].start()
            try await waitUntilTaken(nodes[1], since: start)
            outcome.seconds = Clocks.seconds() - start
            outcome.meanwhile = pace.take()
            saving.cancel()
            _ = try? await saving.value
            await saver.client.close()
            outcome.peaks = nodes.map(\.peakMegabytes)
            return outcome
        }
    }

    /// The new node answers nothing for the moment in which it opens the copy.
    private func waitUntilTaken(_ node: ServedNode, since start: Double) async throws {
        while Clocks.seconds() - start < 600 {
            let answer = try? await node.client.request(
                "POST", "/v1/fetch",
                body: Array(#"{"entity": "Item", "resultType": "count"}"#.utf8),
                headers: [("Content-Type", "application/json")])
            if let answer, answer.status == 200,
                let count = try JSONParser.parse(answer.body).object?["count"]?.integer,
                count >= rows
            {
                return
            }
            try await Task.sleep(for: .milliseconds(50))
        }
        throw BenchmarkError("The new node has not got everything within ten minutes.")
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

    func save(with saver: HTTPSaver) async throws {
        var number = 0
        while !Task.isCancelled {
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
