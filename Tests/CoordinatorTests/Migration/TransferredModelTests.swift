import Merge
import Testing

@testable import Coordinator

@Suite("Copies of stores that have had other models")
struct TransferredModelTests {
    /// - Parameter joinsAlways: whether the former store's rows are joined, not its log applied.
    @Test(
        "A store takes the copy of one that never had its former model",
        arguments: [false, true])
    func unknown(joinsAlways: Bool) throws {
        let name = AttributeDescription("name", .string)
        let note = AttributeDescription("note", .string, defaultValue: .string("n"))
        let first = try MigrationModels.model(MigrationModels.person(attributes: [name]))
        let second = try MigrationModels.model(MigrationModels.person(attributes: [name, note]))
        let donor = try EngineNode(second, node: 1)
        try donor.insert("Person", ["name": .string("d")])
        let joiner = try EngineNode(first, node: 2)
        let person = try joiner.insert("Person", ["name": .string("j")])
        try joiner.migrate(to: second)
        let part = try OutgoingTransfer(donor.coordinator, clock: { 0 })
            .read(0, from: 0, byteLimit: .max, for: joiner.node)
        let incoming = IncomingTransfer(for: joiner.coordinator)
        _ = try incoming.write(part.bytes, of: part.offer, at: 0)
        _ = try incoming.check(cluster: "test", model: second)
        joiner.close()
        var options = PersistentStoreCoordinator.Options()
        options.joinsAlways = joinsAlways
        let installed = try TransferInstaller.install(
            at: joiner.path, model: second, cluster: "test", node: joiner.node, options: options)
        #expect(installed.isJoined == joinsAlways)
        try joiner.open()
        #expect(try joiner.value(person, "note") == .string("n"))
        #expect(try joiner.coordinator.formerModels == [first])
        #expect(try donor.coordinator.learn([first]).count == 1)
        try exchange(donor, joiner)
    }
}
