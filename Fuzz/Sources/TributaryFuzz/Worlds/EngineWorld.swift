import GRDB

@testable import Coordinator
@testable import Merge

/// A store in memory with sample rows. What an input does to it is rolled back.
final class EngineWorld {
    /// Made at the first use. Safe: libFuzzer uses one thread, and FuzzTests is serialized.
    nonisolated(unsafe) static let shared = must { try EngineWorld() }
    /// The same rows with more conflicts. Safe as `shared` is.
    nonisolated(unsafe) static let disputed = must { try EngineWorld(hasDisputes: true) }

    let queue: DatabaseQueue
    let engine: StoreEngine
    /// The rows by the numbers of ``SampleRows/inserts()``.
    let rows: [Int: RowID]

    private init(hasDisputes: Bool = false) throws {
        queue = try DatabaseQueue()
        (engine, rows) = try queue.writeWithoutTransaction { database in
            PredicateFunctions.register(on: database)
            let engine = try StoreEngine.openInMemory(database, SampleModel.model)
            try engine.begin(isDurable: false)
            let saved = try engine.group(isLocal: true) {
                try engine.save(SaveRequest(operations: SampleRows.inserts()))
            }
            _ = try engine.commit()
            var rows: [Int: RowID] = [:]
            for inserted in saved.insertedRows {
                rows[Int(-inserted.temporary.rawValue)] = inserted.row
            }
            try engine.begin(isDurable: false)
            let seen = engine.state.versionVector
            var foreign = SampleRows.foreign(rows, seen: seen)
            if hasDisputes { foreign += SampleRows.disputes(rows, seen: seen) }
            try engine.group(isLocal: false) {
                for transaction in foreign { try engine.apply(EncodedTransaction(transaction)) }
            }
            _ = try engine.commit()
            return (engine, rows)
        }
    }

    /// The objects' URIs, for seeds.
    func uri(_ number: Int, _ entity: String) -> String {
        ObjectURI(
            cluster: SampleModel.cluster, entityName: entity, row: rows[number] ?? RowID(1)
        ).description
    }

    /// Changes the store in a group of its own, and rolls it back.
    ///
    /// - Parameter body: gives whether anything was changed, so that it is worth verifying.
    func change(_ body: (StoreEngine) throws -> Bool) {
        must {
            try queue.writeWithoutTransaction { database in
                try engine.begin(isDurable: false)
                try engine.group(isLocal: false) {
                    if try body(engine) { try verify(database) }
                }
                try engine.rollBack()
            }
        }
    }

    /// Reads the store as it is committed.
    func read<Result>(_ body: (StoreReader) throws -> Result) rethrows -> Result {
        try queue.unsafeRead { try body(StoreReader(database: $0, catalog: catalog)) }
    }

    /// Made again each time: it keeps the actors it has met, and those here are rolled back.
    private var catalog: StoreCatalog {
        let names = must { try queue.unsafeReentrantRead { try StoreLayout.readNames(in: $0) } }
        return StoreCatalog(
            model: engine.model, cluster: engine.cluster, names: names,
            actors: engine.state.actors, history: engine.history)
    }

    /// What the engine keeps as it goes must be what the rows say.
    private func verify(_ database: Database) throws {
        let reader = StoreReader(database: database, catalog: catalog)
        let (digest, damages) = try reader.recomputeDigest()
        demand(damages.isEmpty, "the store is damaged: \(damages)")
        demand(digest == engine.state.digest, "the digest is not that of the rows")
        for entity in engine.model.entities {
            _ = try reader.fetch(FetchRequest(entity.name))
        }
        _ = try reader.conflicts(ConflictQuery())
        let dangling = try Int.fetchOne(
            database,
            sql: """
                SELECT count(*) FROM Animal WHERE owner IS NOT NULL
                AND owner NOT IN (SELECT _id FROM Person)
                """)
        demand(dangling == 0, "a reference leads to an object that is not there")
    }
}
