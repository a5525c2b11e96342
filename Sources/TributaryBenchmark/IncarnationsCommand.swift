import ArgumentParser
import Coordinator
import Foundation
import Merge

/// Whether a save costs more in a store that was opened very often.
struct IncarnationsCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "incarnations",
        abstract:
            "Saves of one object after 10 and after 1,000 starts of the node, each with a save.")

    @OptionGroup var common: CommonOptions

    @Option(parsing: .upToNextOption, help: "How many starts, from the fewest.")
    var starts = [10, 1_000]

    @Option(help: "How many saves each measurement takes.")
    var saves = 500

    func tables() async throws -> [MarkdownTable] {
        try await Workspace.with(common.directory, "incarnations") { [try measure($0)] }
    }

    private struct Contender {
        let count: Int
        let path: String
        var coordinator: PersistentStoreCoordinator
        let entity: ManagedObjectModel.Entity
        var inserts: [Clocks.Duration] = []
        var openings: [Double] = []
        /// Of the last transaction in the log, and of the token after it.
        var transactionBytes = 0
        var tokenBytes = 0
    }

    /// The stores take turns, so that what else the machine does meets both of them.
    func measure(_ workspace: Workspace) throws -> MarkdownTable {
        var contenders: [Contender] = []
        defer { for contender in contenders { contender.coordinator.close() } }
        for count in starts {
            let path = workspace.file("store\(count).sqlite")
            var store = try SampleData.openStore(at: path)
            for number in 1..<max(count, 1) {
                try save(store.coordinator, store.entity, number)
                store.coordinator.close()
                store = try SampleData.openStore(at: path)
            }
            contenders.append(
                Contender(
                    count: count, path: path, coordinator: store.coordinator, entity: store.entity))
        }
        for _ in 0..<common.rounds * 2 {
            for index in contenders.indices { try measure(&contenders[index]) }
        }
        for index in contenders.indices { try measureOpening(&contenders[index]) }
        return table(contenders, try DiskProbe.samples(in: workspace))
    }

    private func save(
        _ coordinator: PersistentStoreCoordinator, _ entity: ManagedObjectModel.Entity,
        _ number: Int
    ) throws {
        let item = CollectionOfOne(SampleData.Item(number))
        _ = try coordinator.save(SampleData.insert(item, entity))
    }

    private func measure(_ contender: inout Contender) throws {
        let (coordinator, entity) = (contender.coordinator, contender.entity)
        contender.inserts.append(
            try Clocks.measure {
                for number in 0..<saves { try save(coordinator, entity, number) }
            })
        let (bytes, token) = try coordinator.read { reader in
            let token = try reader.token
            let last = try reader.history(afterPosition: token.position - 1, limit: 1).last
            return (last?.encoded.bytes.count ?? 0, token.text.utf8.count)
        }
        (contender.transactionBytes, contender.tokenBytes) = (bytes, token)
    }

    private func measureOpening(_ contender: inout Contender) throws {
        for _ in 0..<5 {
            contender.coordinator.close()
            let duration = try Clocks.measure {
                contender.coordinator = try SampleData.openStore(at: contender.path).coordinator
            }
            contender.openings.append(duration.wall)
        }
    }

    private func table(_ contenders: [Contender], _ probe: [Double]) -> MarkdownTable {
        var table = MarkdownTable(
            "Durable saves of one object after so many starts of the node",
            columns: [
                "starts with a save", "inserts a second", "of the fewest's rate",
                "processor time each", "bytes of a save", "bytes of a token", "opening",
            ])
        for contender in contenders {
            let rate = Figures.median(contender.inserts.map { Double(saves) / $0.wall })
            let ratio = Figures.median(
                zip(contenders[0].inserts, contender.inserts).map { $0.wall / $1.wall })
            let work = Figures.median(contender.inserts.map { $0.processor / Double(saves) })
            table.rows.append([
                Figures.text(Double(contender.count), 0), Figures.text(rate, 0),
                Figures.text(ratio * 100, 0) + " %", Figures.text(work * 1e6, 0) + " µs",
                Figures.text(Double(contender.transactionBytes), 0),
                Figures.text(Double(contender.tokenBytes), 0),
                Figures.text(Figures.median(contender.openings) * 1e3, 1) + " ms",
            ])
            guard contender.count != contenders[0].count else { continue }
            table.goals.append(
                Goal(
                    "inserts after \(Figures.text(Double(contender.count), 0)) starts",
                    .atLeast(80), ratio * 100, unit: " % of the fewest's rate"))
            table.goals.append(
                Goal(
                    "bytes of a save after \(Figures.text(Double(contender.count), 0)) starts",
                    .atMost(1.2),
                    Double(contender.transactionBytes) / Double(contenders[0].transactionBytes),
                    unit: " times those of the fewest's"))
        }
        table.notes.append(DiskProbe.note(probe))
        return table
    }
}
