import GRDB
public import Merge

extension PersistentStoreCoordinator {
    /// The models that the store has had or knows of besides its own, oldest first.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    public var formerModels: [ManagedObjectModel] {
        get throws {
            let path = storePath
            return try read { reader in
                try StoreModels.all(in: reader.database, path: path).filter { !$0.isCurrent }
                    .map { try $0.model() }
            }
        }
    }

    /// The migration that an opening of a store's file would do. The file may be in use and is only
    /// read.
    ///
    /// Worked out from models alone: that rows have one key of a constraint that is new is known only at
    /// the opening. Reads the whole file, as an opening does.
    ///
    /// - Returns: what the store's model and the other have otherwise; empty where the store is of that
    ///   model or is yet to be made.
    /// - Throws: ``CoordinatorError``: `mappingNotInferable`, `modelMismatch`, `storeOwner`,
    ///   `storeLayout`, `storeIncomplete`, `storeDamaged` or `inputOutput`, as the opening would.
    public static func migration(
        ofStoreAt path: String, to model: ManagedObjectModel, cluster: String, node: NodeID
    ) throws -> [ModelDifference] {
        let options = Options()
        do {
            guard options.files.size(of: path) != nil else {
                try StoreConnection.checkCompleteness(path, options.files)
                return []
            }
            var configuration = StoreConnection.configuration(options)
            configuration.readonly = true
            return try DatabaseQueue(path: path, configuration: configuration).read { database in
                guard try !StoreOpening.isEmpty(database) else { return [] }
                try StoreOpening.check(database, path: path)
                try StoreOpening.checkOwner(database, path: path, cluster: cluster, node: node)
                let kept = try StoreModels.all(in: database, path: path)
                guard let current = kept.first(where: \.isCurrent),
                    current.hash != model.modelHash
                else { return [] }
                return try StoreModels.plan(to: model, from: current, of: kept, in: database)
                    .differences
            }
        } catch { throw CoordinatorError(mapping: error).naming(path) }
    }

    /// Learns of models that nodes of this store's model had before it, so that their
    /// transactions can be applied. Blocks until they are on disk.
    ///
    /// - Returns: the version hashes of those known now; transactions of the others could not be
    ///   applied.
    /// - Throws: ``CoordinatorError`` where the store cannot be written.
    public func learn(_ models: [ManagedObjectModel]) throws -> [[UInt8]] {
        let known = try maintainBlocking { engine in
            try models.filter { try engine.transactionLog.learn($0) }.map(\.modelHash)
        }
        try makeDurable()
        return known
    }
}

/// Values of the log that have no place in the store's model.
public struct ParkedProperty: Hashable, Sendable {
    /// The entity, with the property after a point, by the names in the model that had it.
    public let place: String
    /// How many changes bear one.
    public let count: Int
}

extension StoreReader {
    /// The values of the log that have no place in the store's model, by place: properties and
    /// entities that a migration has taken away, in transactions that were applied since.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    public func parkedValues() throws -> [ParkedProperty] {
        let statement = try database.prepared(
            "SELECT entity, property, sum(count) FROM _parked GROUP BY entity, property "
                + "ORDER BY entity, property")
        var result: [ParkedProperty] = []
        while try statement.step() {
            let property = statement.text(1)
            result.append(
                ParkedProperty(
                    place: statement.text(0) + (property.isEmpty ? "" : "." + property),
                    count: Int(statement.integer(2))))
        }
        return result
    }
}
