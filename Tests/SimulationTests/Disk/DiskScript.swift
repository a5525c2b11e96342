import Coordinator
import Merge
import Replication
import Simulation
import Testing

/// A short life of a store on a simulated disk, and what must hold after each of its deaths.
final class DiskScript {
    static let instant: UInt64 = 1_795_000_000_000

    let disk: SimulatedDisk
    let model: ManagedObjectModel
    /// The saves that were acknowledged, by their IDs, in order.
    private(set) var acknowledged: [String] = []
    /// The vector of the last acknowledged save.
    private(set) var vector = VersionVector()
    private var openings: UInt64 = 0

    init(_ disk: SimulatedDisk) throws {
        self.disk = disk
        model = try ManagedObjectModel(
            json: Array(
                """
                {"entities": [{"name": "Note", "attributes": [
                    {"name": "text", "type": "string"}, {"name": "size", "type": "integer64"}]}]}
                """.utf8))
    }

    /// Another store's transactions, for applying.
    static func foreignTransactions(_ count: Int) throws -> [EncodedTransaction] {
        let script = try DiskScript(SimulatedDisk(seed: 9))
        let coordinator = try script.open(node: 2)
        defer { coordinator.close() }
        for index in 0..<count {
            _ = try coordinator.save(script.insertion("foreign \(index)")) as SaveResult
        }
        let bytes = try coordinator.read {
            try $0.transactions(notCoveredBy: VersionVector(), byteLimit: 1 << 20).transactions
        }
        return try bytes.map { try EncodedTransaction(decoding: $0) }
    }

    func open(
        node number: Int = 1, checkpointPages: Int = 4_000
    ) throws -> PersistentStoreCoordinator {
        var options = PersistentStoreCoordinator.Options()
        options.files = disk
        options.readers = 2
        options.checkpointPages = checkpointPages
        let opening = openings
        openings += 1
        options.wallMilliseconds = { Self.instant + opening * 60_000 }
        options.random = { 1_000_003 &* (opening &+ 1) }
        return try PersistentStoreCoordinator(
            storeAt: disk.path("store.sqlite"), model: model, cluster: "test",
            node: try #require(NodeID(number)), options: options)
    }

    func insertion(_ text: String, size: Int = 100, saveID: String? = nil) throws -> SaveRequest {
        let entity = try #require(model.entity(named: "Note"))
        let position = try #require(entity.position(of: "text"))
        let value = PropertyValue.string(text + String(repeating: "x", count: size))
        return SaveRequest(
            operations: [
                SaveOperation(
                    kind: .insert, entity: entity, row: RowID(-1), values: [(position, value)])
            ], saveID: saveID)
    }

    @discardableResult
    func save(_ id: String, size: Int = 100, in coordinator: PersistentStoreCoordinator) throws
        -> SaveResult
    {
        let result: SaveResult = try coordinator.save(insertion(id, size: size, saveID: id))
        acknowledged.append(id)
        vector = result.token.versionVector
        return result
    }

    /// The script: opens, saves, applies, checkpoints by closing, opens and saves again.
    func run(_ foreign: [EncodedTransaction]) throws {
        let first = try open()
        do {
            defer { first.close() }
            for index in 0..<4 { try save("first \(index)", in: first) }
            _ = try first.apply(foreign)
            try save("large", size: 20_000, in: first)
        }
        let second = try open()
        defer { second.close() }
        try save("second", in: second)
    }

    /// Opens the store, which checks its file, and looks for everything that was acknowledged.
    func check() throws {
        let coordinator = try open()
        defer { coordinator.close() }
        let token = try coordinator.currentToken
        #expect(token.versionVector.covers(vector))
        let reader = try coordinator.read { reader in
            for id in acknowledged {
                #expect(try reader.savedAnswer(id) != nil, "\(id) is lost")
            }
            return (try reader.token, try reader.digest)
        }
        #expect(reader.0 == token)
        #expect(try coordinator.currentDigest == reader.1)
        // The node goes on where it was: no sequence is used twice, none left out.
        try save("after", in: coordinator)
        acknowledged.removeLast()
    }
}

/// The code of what a coordinator throws; nil where it throws nothing.
func code(_ body: () throws -> Void) -> CoordinatorError.Code? {
    do {
        try body()
        return nil
    } catch {
        return (error as? CoordinatorError)?.code
    }
}

extension SimulatedDisk {
    /// Loses the power; the seed decides which of the writes that were not synced are kept.
    func losePower(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        losePower(&generator)
    }
}
