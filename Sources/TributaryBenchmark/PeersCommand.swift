import ArgumentParser
import Foundation

/// Tributary beside PostgreSQL with pglogical: the same saves at three nodes of each.
struct PeersCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "peers",
        abstract: "Tributary beside PostgreSQL 15 with pglogical, three nodes of each.",
        discussion: """
            It starts three nodes and three servers of its own on loopback, new ones for each of \
            --rounds, and has one driver make the same saves at both in turn. \
            `deploy/benchmark/prepare install` installs what it needs. Without that it is skipped.
            """)

    @OptionGroup var common: CommonOptions

    @Option(help: "Saves of one client; other workloads make multiples of it.")
    var saves = 1000

    @Option(help: "Rows to load while a node is down.")
    var rows = 100_000

    @Option(help: "Seconds all rest before memory and idle processor time are measured.")
    var seconds = 10.0

    @Option(help: "The folder with the driver and the script that prepares it.")
    var tools = "deploy/benchmark"

    @Option(help: "The Markdown page that shows the last run: this run takes its place there.")
    var page: String?

    /// Clients that update and increment.
    private static let writers = 12

    /// The same columns as PostgreSQL's table has, without the key.
    private static let model = """
        {"entities": [{"name": "Item", "mergePolicy": "mergeByPropertyObjectTrump",
          "attributes": [
            {"name": "count", "type": "integer64"}, {"name": "note", "type": "string"}]}]}
        """

    private var rounds: Int { common.chosenRounds ?? 5 }

    func validate() throws {
        guard saves >= 10, rows >= 100, rows.isMultiple(of: 100), seconds > 0 else {
            throw ValidationError(
                "--saves is at least 10, --rows a multiple of 100, --seconds more than 0.")
        }
    }

    func tables() async throws -> [MarkdownTable] {
        let machine = Machine.description(storesIn: common.directory)
        print(machine)
        var samples = PeerSamples()
        for round in 0..<rounds {
            try await Workspace.with(common.directory, "peers") { workspace in
                let password = UUID().uuidString
                let driver: Driver
                do {
                    driver = try Driver(in: workspace, tools: tools, password: password)
                } catch {
                    print("Skipped: the benchmark beside PostgreSQL. \(error)\n")
                    return
                }
                try await ServedNode.with(3, in: workspace, model: Self.model) { nodes in
                    try await PostgreSQLServer.with(3, in: workspace, password: password) {
                        try await measure(
                            [
                                Driver.Contender(side: "tributary", servers: nodes),
                                Driver.Contender(side: "postgresql", servers: $0),
                            ], driver, isSwapped: !round.isMultiple(of: 2), &samples)
                    }
                }
                samples.probe += try DiskProbe.samples(in: workspace)
            }
            if samples.isEmpty { return [] }
        }
        let table = samples.table(rounds: rounds)
        if let page { try LastRun.peers.replace(in: page, by: machine + "\n" + table.body) }
        return [table]
    }

    /// Makes one round: each workload at one contender, then at the other.
    private func measure(
        _ contenders: [Driver.Contender], _ driver: Driver, isSwapped: Bool,
        _ samples: inout PeerSamples
    ) async throws {
        let order = isSwapped ? [1, 0] : [0, 1]
        // The first saves of new stores grow files and fill caches.
        for index in order {
            _ = try driver.run(.insert, at: contenders[index], clients: 8, saves: saves)
        }
        for clients in PeerFigure.clients {
            for index in order {
                try insert(clients, contenders[index], driver) { samples.add($0, $1, of: index) }
            }
        }
        for index in order {
            let outcome = try driver.run(.visible, at: contenders[index], saves: saves / 5)
            samples.add(.visible, (outcome.p50 ?? 0) * 1000, of: index)
        }
        for index in order {
            try change(contenders[index], driver) { samples.add($0, $1, of: index) }
        }
        try await rest(contenders, &samples)
        for index in order {
            try load(contenders[index], driver) { samples.add($0, $1, of: index) }
        }
    }

    private typealias Add = (PeerFigure, Double) -> Void

    private func insert(
        _ clients: Int, _ contender: Driver.Contender, _ driver: Driver, _ add: Add
    ) throws {
        // More clients make more saves in the same time, though not as many times more.
        let saves = saves * min(clients, 8)
        let outcome = try driver.run(.insert, at: contender, clients: clients, saves: saves)
        let count = Double(outcome.count ?? 0)
        add(.saves(clients: clients), count / outcome.seconds)
        add(.p50(clients: clients), (outcome.p50 ?? 0) * 1000)
        add(.p99(clients: clients), (outcome.p99 ?? 0) * 1000)
        add(.settling(clients: clients), (outcome.settled ?? 0) * 1000)
        add(.processor(clients: clients), (outcome.processorSeconds ?? 0) / count * 1e6)
        guard clients == 1, outcome.switches.count > 1 else { return }
        add(.switchesTaking, Double(outcome.switches[0]) / count)
        add(.switchesApplying, Double(outcome.switches[1]) / count)
    }

    private func change(_ contender: Driver.Contender, _ driver: Driver, _ add: Add) throws {
        func share(_ part: Int?, _ whole: Int?) -> Double {
            Double(part ?? 0) / Double(max(whole ?? 0, 1)) * 100
        }
        let updated = try driver.run(
            .update, at: contender, clients: Self.writers, saves: saves * 8, rows: 1000)
        add(.updates, Double(updated.count ?? 0) / updated.seconds)
        add(.updatesLost, share(updated.lost, updated.of))
        let incremented = try driver.run(
            .increment, at: contender, clients: Self.writers, saves: saves * 4, rows: 10)
        add(.increments, Double(incremented.count ?? 0) / incremented.seconds)
        add(.incrementsRefused, share(incremented.refused, saves * 4))
        add(.incrementsLost, share(incremented.lost, incremented.of))
        let added = try driver.run(
            .add, at: contender, clients: Self.writers, saves: saves * 4, rows: 10)
        add(.additions, Double(added.count ?? 0) / added.seconds)
        add(.additionsLost, share(added.lost, added.of))
        for outcome in [updated, incremented, added] where outcome.differing != 0 {
            print("\(contender.side): \(outcome.differing ?? 0) rows differ between the servers.")
        }
    }

    /// Measures what servers use that have nothing to do.
    private func rest(
        _ contenders: [Driver.Contender], _ samples: inout PeerSamples
    ) async throws {
        try await Task.sleep(for: .seconds(seconds / 3))
        let before = contenders.map(\.group.processorSeconds)
        let start = Clocks.seconds()
        try await Task.sleep(for: .seconds(seconds))
        for (index, contender) in contenders.enumerated() {
            let group = contender.group
            let nodes = Double(contender.servers.count)
            let used = group.processorSeconds - before[index]
            samples.add(.idle, used / (Clocks.seconds() - start) / nodes * 100, of: index)
            samples.add(.resident, group.residentBytes / nodes / 1_048_576, of: index)
            samples.add(.proportional, group.proportionalBytes / nodes / 1_048_576, of: index)
        }
    }

    private func load(_ contender: Driver.Contender, _ driver: Driver, _ add: Add) throws {
        guard let last = contender.servers.last else { return }
        last.end()
        let loaded = try driver.run(
            .insert, at: contender, saves: rows / 100, rows: 100, servers: 1)
        add(.loading, Double(loaded.count ?? 0) * 100 / loaded.seconds)
        let awaited = try driver.run(
            .await, at: contender, saves: loaded.rows ?? 0, servers: 1, begin: last.start)
        add(.catchingUp, awaited.seconds)
    }
}
