import ArgumentParser
import Client
import Coordinator
import Node

/// Small durable saves by savers at the same time, through HTTP.
struct HTTPCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "http",
        abstract: "Durable saves of one object by 1, 8 and 32 connections, over 1 and 3 nodes.")

    @OptionGroup var common: CommonOptions

    @Option(help: "Seconds each measurement takes.")
    var seconds = 2.0

    @Option(parsing: .upToNextOption, help: "How many connections.")
    var savers = [1, 8, 32]

    func tables() async throws -> [MarkdownTable] { [try await measure()] }

    func measure() async throws -> MarkdownTable {
        var rates: [[Int: [Double]]] = []
        var probe: [Double] = []
        for (nodes, savedAt) in [(1, 1), (3, 1), (3, 3)] {
            let (measured, disk) = try await Workspace.with(common.directory, "http") { workspace in
                try await ServedNode.with(nodes, in: workspace) { served in
                    let urls = served.prefix(savedAt).map(\.url)
                    return (try await repeated(urls), try DiskProbe.samples(in: workspace))
                }
            }
            rates.append(measured)
            probe += disk
        }
        var table = MarkdownTable(
            "Durable saves of one object a second through HTTP",
            columns: [
                "connections", "one node", "three nodes, all at one", "three nodes, spread",
            ])
        for count in savers {
            table.rows.append(
                ["\(count)"] + rates.map { Figures.text(Figures.median($0[count] ?? []), 0) })
        }
        table.notes = [
            "The savers run in one process beside the nodes and share the machine with them.",
            DiskProbe.note(probe),
        ]
        for (name, measured) in zip(table.columns.dropFirst(), rates) {
            for count in savers {
                // What one node saves alone is only shown.
                let bound = count == 32 && name != table.columns[1] ? Goal.Bound.over(4800) : nil
                table.goals.append(
                    Goal(
                        "\(count) connections, \(name)", bound,
                        Figures.median(measured[count] ?? []), unit: " saves a second"))
            }
        }
        return table
    }

    private func repeated(_ urls: [String]) async throws -> [Int: [Double]] {
        var rates: [Int: [Double]] = [:]
        for _ in 0..<common.rounds {
            for count in savers {
                rates[count, default: []].append(try await rate(count, urls))
            }
        }
        return rates
    }

    private func rate(_ count: Int, _ urls: [String]) async throws -> Double {
        let savers = try (0..<count).map { try HTTPSaver(url: urls[$0 % urls.count]) }
        for saver in savers { _ = try await saver.client.request("GET", "/healthz") }
        let start = Clocks.seconds()
        let end = start + seconds
        let saves = try await withThrowingTaskGroup(of: Int.self) { group in
            for (number, saver) in savers.enumerated() {
                group.addTask {
                    var saves = 0
                    while Clocks.seconds() < end {
                        _ = try await saver.save(SampleData.Item(number * 1_000_000 + saves))
                        saves += 1
                    }
                    return saves
                }
            }
            return try await group.reduce(0, +)
        }
        let rate = Double(saves) / (Clocks.seconds() - start)
        for saver in savers { await saver.client.close() }
        return rate
    }
}
