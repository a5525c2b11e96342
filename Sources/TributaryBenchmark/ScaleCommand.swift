import ArgumentParser
import Client
import Foundation

/// What a save and a second at rest cost in clusters of several sizes.
struct ScaleCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "scale",
        abstract: "What saves and rest cost by the number of nodes, which share this machine.",
        discussion: """
            `tributary-lab scale` counts the same in virtual time, with more nodes.
            """)

    @OptionGroup var common: CommonOptions

    @Option(help: "How many nodes the clusters have, 2 to 30 each, such as 3,5,10.")
    var nodes = "3,5,10"

    @Option(help: "How many saves one client makes.")
    var saves = 1000

    @Option(help: "Seconds for which all rest.")
    var seconds = 10.0

    private var sizes: [Int] { nodes.split(separator: ",").compactMap { Int($0) } }

    func validate() throws {
        let count = nodes.split(separator: ",", omittingEmptySubsequences: false).count
        guard sizes.count == count, sizes.allSatisfy((2...30).contains) else {
            throw ValidationError("--nodes takes sizes of 2 to 30 nodes, such as 3,5,10.")
        }
        guard saves >= 10, (1...600).contains(seconds) else {
            throw ValidationError("--saves is at least 10, --seconds 1 to 600.")
        }
    }

    /// What a node has used and counted since it began.
    private struct Reading {
        var seconds = Clocks.seconds()
        var processor = 0.0
        var received = 0.0
        var receivedBytes = 0.0

        init(_ node: ServedNode) async throws {
            processor = ProcessGroup(below: [node.processID].compactMap(\.self)).processorSeconds
            let metrics = try await node.metrics()
            received = metrics["tributary_frames_received_total"] ?? 0
            receivedBytes = metrics["tributary_frame_bytes_received_total"] ?? 0
        }

        static func all(_ nodes: [ServedNode]) async throws -> [Reading] {
            var readings: [Reading] = []
            for node in nodes { readings.append(try await Reading(node)) }
            return readings
        }
    }

    /// What one round measured: a figure for each row of the table.
    private typealias Figure = (name: String, places: Int, unit: String, value: Double)

    func tables() async throws -> [MarkdownTable] {
        var table = MarkdownTable(
            "The cost of saves and rest by the number of nodes on this machine",
            columns: ["nodes"] + sizes.map { "\($0)" })
        var columns: [[(title: String, text: String)]] = []
        for size in sizes {
            var rounds: [[Figure]] = []
            for _ in 0..<common.rounds {
                rounds.append(
                    try await Workspace.with(common.directory, "scale") { workspace in
                        try await ServedNode.with(size, in: workspace) { try await measure($0) }
                    })
            }
            columns.append(
                rounds[0].indices.map { row in
                    let figure = rounds[0][row]
                    let median = Figures.median(rounds.map { $0[row].value })
                    return (figure.name, Figures.text(median, figure.places) + figure.unit)
                })
        }
        for row in columns.first?.indices ?? 0..<0 {
            table.rows.append([columns[0][row].title] + columns.map { $0[row].text })
        }
        table.notes = [
            "One client saves one object at a time at node 1. Every node has saved before. Bytes are "
                + "those of frames, without what ZeroMQ and TCP add."
        ]
        return [table]
    }

    private func measure(_ nodes: [ServedNode]) async throws -> [Figure] {
        let others = Double(nodes.count - 1)
        // Frames name of a vector what no later save implies: twice round, an entry for each node.
        for node in nodes + nodes { _ = try await save(20, at: node) }
        try await Task.sleep(for: .seconds(12))

        let before = try await Reading.all(nodes)
        try await Task.sleep(for: .seconds(seconds))
        let rested = try await Reading.all(nodes)
        let duration = rested[0].seconds - before[0].seconds
        func atRest(_ part: (Reading) -> Double) -> Double {
            let sum = zip(rested, before).reduce(0) { $0 + part($1.0) - part($1.1) }
            return sum / duration / Double(nodes.count)
        }
        let (frames, bytes) = (atRest(\.received), atRest(\.receivedBytes))
        let idle = atRest(\.processor)

        let start = try await Reading.all(nodes)
        let rate = Double(saves) / (try await save(saves, at: nodes[0]))
        try await Task.sleep(for: .seconds(1))
        let end = try await Reading.all(nodes)
        let time = end[0].seconds - start[0].seconds
        // What rest costs in that time is not the saves'.
        func ofSaves(_ index: Int, _ part: (Reading) -> Double, rest: Double) -> Double {
            (part(end[index]) - part(start[index]) - rest * time) / Double(saves)
        }
        func applied(_ part: (Reading) -> Double, rest: Double) -> Double {
            nodes.indices.dropFirst().reduce(0) { $0 + ofSaves($1, part, rest: rest) } / others
        }
        let saver = ofSaves(0, \.processor, rest: idle)
        let applier = applied(\.processor, rest: idle)
        return [
            ("saves a second", 0, "", rate),
            ("a save: processor time where it is made", 0, " us", saver * 1e6),
            ("a save: processor time at another node", 0, " us", applier * 1e6),
            ("a save: processor time of all", 0, " us", (saver + applier * others) * 1e6),
            ("a save: frames at another node", 2, "", applied(\.received, rest: frames)),
            ("a save: bytes at another node", 0, "", applied(\.receivedBytes, rest: bytes)),
            ("at rest: frames a node and second", 1, "", frames),
            ("at rest: bytes a node and second", 0, "", bytes),
            ("at rest: share of a core a node", 2, " %", idle * 100),
            (
                "resident memory a node", 1, " MB",
                nodes.reduce(0) { $0 + $1.residentMegabytes } / Double(nodes.count)
            ),
        ]
    }

    /// Saves one object at a time.
    ///
    /// - Returns: how many seconds that took.
    private func save(_ count: Int, at node: ServedNode) async throws -> Double {
        let saver = try HTTPSaver(url: node.url)
        let start = Clocks.seconds()
        for number in 0..<count {
            _ = try await saver.save(SampleData.Item(node.number * 1_000_000 + number))
        }
        let seconds = Clocks.seconds() - start
        await saver.client.close()
        return seconds
    }
}
