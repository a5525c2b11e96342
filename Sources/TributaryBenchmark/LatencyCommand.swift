import ArgumentParser
import Client
import Coordinator
import Foundation
import Node
import Synchronization

/// From the acknowledgement at one node to the sight at another.
struct LatencyCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "latency",
        abstract: "Time from a save's acknowledgement at node 1 until node 2 shows it.")

    @OptionGroup var common: CommonOptions

    @Option(help: "Saves at rest, one at a time.")
    var samples = 300

    @Option(help: "Saves a second under load.")
    var rate = 500

    @Option(help: "Seconds of load.")
    var seconds = 6.0

    func tables() async throws -> [MarkdownTable] { [try await measure()] }

    func measure() async throws -> MarkdownTable {
        try await Workspace.with(common.directory, "latency") { workspace in
            try await ServedNode.with(2, in: workspace) { nodes in
                let sightings = Sightings()
                let url = nodes[1].url
                let follower = Task { try await sightings.follow(url) }
                defer { follower.cancel() }
                try await Task.sleep(for: .milliseconds(500))
                let rest = try await atRest(nodes[0], sightings)
                let load = try await underLoad(nodes[0], sightings)
                return table(rest, load, try DiskProbe.samples(in: workspace))
            }
        }
    }

    private func atRest(_ node: ServedNode, _ sightings: Sightings) async throws -> [Double] {
        let saver = try HTTPSaver(url: node.url)
        var acknowledged: [(dot: String, at: Double)] = []
        for number in 0..<samples {
            acknowledged.append(try await save(number, saver))
            try await Task.sleep(for: .milliseconds(20))
        }
        await saver.client.close()
        return try await sightings.delays(of: acknowledged)
    }

    /// Eight connections, each at its own steady pace.
    private func underLoad(_ node: ServedNode, _ sightings: Sightings) async throws -> [Double] {
        let connections = 8
        let total = Int(Double(rate) * seconds)
        let pace = Double(connections) / Double(rate)
        let begin = Clocks.seconds() + 0.1
        let acknowledged = try await withThrowingTaskGroup(of: [(dot: String, at: Double)].self) {
            group in
            for connection in 0..<connections {
                let saver = try HTTPSaver(url: node.url)
                group.addTask {
                    var own: [(dot: String, at: Double)] = []
                    for turn in 0..<total / connections {
                        let due =
                            begin + Double(turn) * pace + Double(connection) * pace
                            / Double(connections)
                        let wait = due - Clocks.seconds()
                        if wait > 0 { try await Task.sleep(for: .seconds(wait)) }
                        own.append(try await save(turn * connections + connection, saver))
                    }
                    await saver.client.close()
                    return own
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        return try await sightings.delays(of: acknowledged)
    }

    private func save(_ number: Int, _ saver: HTTPSaver) async throws -> (dot: String, at: Double) {
        let body = try await saver.save(SampleData.Item(number))
        let now = Clocks.seconds()
        guard let dot = try JSONParser.parse(body).object?["transaction"]?.string else {
            throw BenchmarkError("A save's answer names no transaction.")
        }
        return (dot, now)
    }

    private func table(_ rest: [Double], _ load: [Double], _ probe: [Double]) -> MarkdownTable {
        var table = MarkdownTable(
            "Acknowledged at node 1 to visible at node 2",
            columns: ["", "saves", "p50", "p90", "p99", "most"])
        for (name, samples) in [("at rest", rest), ("at \(rate) saves a second", load)] {
            table.add(
                name, "\(samples.count)",
                Figures.milliseconds(Figures.percentile(0.5, of: samples)),
                Figures.milliseconds(Figures.percentile(0.9, of: samples)),
                Figures.milliseconds(Figures.percentile(0.99, of: samples)),
                Figures.milliseconds(Figures.percentile(1, of: samples)))
        }
        table.notes = [
            "From the receipt of node 1's answer to the receipt of the transaction's event from "
                + "node 2's `/v1/changes`, on one clock, in one process. An event is read from "
                + "the log of a generation that readers see, so the figure includes one event's "
                + "rendering and sending, and no polling. Below 0: seen before the answer came.",
            DiskProbe.note(probe),
        ]
        func goal(_ name: String, _ share: Double, _ samples: [Double], _ bound: Double) -> Goal {
            Goal(
                name, .atMost(bound), Figures.percentile(share, of: samples) * 1000, unit: " ms")
        }
        table.goals = [
            goal("p50 at rest", 0.5, rest, 1), goal("p99 at rest", 0.99, rest, 5),
            goal("p99 at \(rate) saves a second", 0.99, load, 20),
        ]
        return table
    }
}

/// When transactions were first seen at a node.
final class Sightings: Sendable {
    private let times = Mutex<[String: Double]>([:])

    /// Follows a node's changes until cancelled.
    func follow(_ url: String) async throws {
        let client = try NodeClient(url: url)
        for try await line in try await client.stream("GET", "/v1/changes") {
            let now = Clocks.seconds()
            guard line.hasPrefix("data:"),
                let event = try? JSONParser.parse(Array(line.dropFirst(5).utf8)).object,
                let dot = event["dot"]?.string
            else { continue }
            times.withLock { $0[dot] = now }
        }
    }

    /// Seconds from each acknowledgement to the sighting; waits for what is not seen yet.
    func delays(of acknowledged: [(dot: String, at: Double)]) async throws -> [Double] {
        let deadline = Clocks.seconds() + 20
        while true {
            let seen = times.withLock { $0 }
            let delays = acknowledged.compactMap { entry in seen[entry.dot].map { $0 - entry.at } }
            if delays.count == acknowledged.count { return delays }
            guard Clocks.seconds() < deadline else {
                throw BenchmarkError(
                    "\(acknowledged.count - delays.count) saves were not seen at node 2.")
            }
            try await Task.sleep(for: .milliseconds(20))
        }
    }
}
