import GRDB
import Merge
import Synchronization

/// The knowledge that all connections of one store share: model, names, and the actors met with
/// what they had seen at first.
///
/// Thread-safe. Actors only ever grow and keep their numbers, so a table that is newer than the
/// generation being read serves it too.
final class StoreCatalog: Sendable {
    let model: ManagedObjectModel
    let cluster: String
    let names: NameTable
    let history: ModelHistory
    private let tables: [String: EntityTable]
    private let cache: Mutex<ActorTable>
    private let begun = Mutex(Beginnings())

    init(
        model: ManagedObjectModel, cluster: String, names: NameTable, actors: ActorTable,
        history: ModelHistory
    ) {
        self.model = model
        self.history = history
        self.cluster = cluster
        self.names = names
        tables = Dictionary(
            uniqueKeysWithValues: model.entities.map {
                ($0.name, EntityTable($0, names: names, model: model, history: history))
            })
        cache = Mutex(actors)
    }

    /// A transaction of the log by the names of the store's own model.
    func asOwn(_ transaction: Transaction) -> Transaction {
        guard let mapping = history.mapping(transaction.modelHash) else { return transaction }
        return (try? mapping.translate(transaction).transaction) ?? transaction
    }

    func table(_ entity: String) -> EntityTable {
        guard let table = tables[entity] else {
            fatalError("Entity \(entity) is not in the model of this store.")
        }
        return table
    }

    /// The actors, read again if the connection has met more than the cache.
    func actors(_ database: Database) throws -> ActorTable {
        let statement = try database.prepared("SELECT coalesce(max(code), 0) FROM _actor")
        _ = try statement.step()
        let count = Int(statement.integer(0))
        statement.reset()
        let known = cache.withLock { $0 }
        if known.actors.count >= count { return known }
        let fresh = try StoreLayout.readActors(in: database).0
        cache.withLock { if $0.actors.count < fresh.actors.count { $0 = fresh } }
        return fresh
    }

    /// The beginnings, read again if the connection has met more than the cache.
    func beginnings(_ database: Database) throws -> Beginnings {
        // None is ever taken away, so that the last place is their number.
        let statement = try database.prepared("SELECT coalesce(max(place), 0) FROM _beginning")
        _ = try statement.step()
        let count = Int(statement.integer(0))
        statement.reset()
        let known = begun.withLock { $0 }
        if known.count >= count { return known }
        let fresh = try StoreLayout.readBeginnings(in: database, try actors(database))
        begun.withLock { if $0.count < fresh.count { $0 = fresh } }
        return fresh
    }
}
