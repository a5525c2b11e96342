import GRDB
import Merge

/// The models kept in a store's file: its own, those it has had, and those it has learnt of from
/// peers that had them.
enum StoreModels {
    /// A model as it is kept.
    struct Kept {
        let hash: [UInt8]
        let json: String
        let isCurrent: Bool
        /// The store's file.
        let path: String

        /// The model itself, decoded. What was settled for it long ago stays, though the model's
        /// defaults change.
        func model() throws -> ManagedObjectModel {
            do {
                return try ManagedObjectModel(json: Array(json.utf8))
            } catch {
                throw CoordinatorError.keptModel(of: path, error)
            }
        }
    }

    /// All models, oldest first; the store's own may be anywhere among them.
    static func all(in database: Database, path: String) throws -> [Kept] {
        let statement = try database.prepared(
            "SELECT hash, json, current FROM _model ORDER BY rowid")
        var result: [Kept] = []
        while try statement.step() {
            result.append(
                Kept(
                    hash: statement.bytes(0), json: statement.text(1),
                    isCurrent: statement.integer(2) != 0, path: path))
        }
        return result
    }

    /// Whether a model is kept, as the store's own or another.
    static func isKept(_ hash: [UInt8], in database: Database) throws -> Bool {
        let statement = try database.prepared("SELECT 1 FROM _model WHERE hash = ?1")
        statement.bind(1, hash)
        defer { statement.reset() }
        return try statement.step()
    }

    /// Keeps a model, as the store's own or another; one of the same hash is replaced.
    static func keep(
        _ model: ManagedObjectModel, isCurrent: Bool, in database: Database
    ) throws {
        if isCurrent { try database.execute(sql: "UPDATE _model SET current = 0") }
        let statement = try database.prepared(
            """
            INSERT INTO _model (hash, json, current) VALUES (?1, ?2, ?3)
            ON CONFLICT (hash) DO UPDATE SET json = excluded.json, current = excluded.current
            """)
        statement.bind(1, model.modelHash)
        statement.bind(2, JSONWriter.text(of: model.jsonValue()))
        statement.bind(3, isCurrent ? 1 : 0)
        try statement.run()
    }

    /// How a store gets from its own model, one of those kept, to another.
    ///
    /// - Throws: ``CoordinatorError`` with `mappingNotInferable` or `storeDamaged`.
    static func plan(
        to model: ManagedObjectModel, from current: Kept, of kept: [Kept], in database: Database
    ) throws -> MigrationPlan {
        let names = try StoreLayout.readNames(in: database)
        return try MigrationPlan(
            from: try current.model(), to: model,
            former: kept.filter { !$0.isCurrent }.map { try $0.model() },
            standIns: try standIns(in: database, names: names))
    }

    // MARK: What stands for missing values

    /// By root and name of the property.
    typealias StandIns = [String: PropertyValue]

    static func standIns(in database: Database, names: NameTable) throws -> StandIns {
        var byCode: [Int64: PropertyValue] = [:]
        let statement = try database.prepared("SELECT code, value FROM _standIn")
        while try statement.step() {
            var reader = CBORReader(statement.bytes(1))
            byCode[statement.integer(0)] = try? reader.value()
        }
        var result: StandIns = [:]
        for (name, code) in names.properties { result[name] = byCode[code] }
        return result
    }

    /// Settles what stands for values that another model lacks: from now on, whatever becomes of
    /// the defaults of the store's own model. Null alone gives way, to the default of an attribute
    /// that has become mandatory.
    static func settle(
        _ mapping: ModelMapping, in database: Database, names: NameTable
    ) throws {
        let statement = try database.prepared(
            """
            INSERT INTO _standIn (code, value) VALUES (?1, ?2)
            ON CONFLICT (code) DO UPDATE SET value = excluded.value WHERE value = ?3
            """)
        var null = CBORWriter(capacity: 1)
        null.write(PropertyValue.null)
        for name in mapping.entities.keys.sorted() {
            guard let entity = mapping.entities[name] else { continue }
            let values = entity.absent.merging(entity.substitutes) { first, _ in first }
            for position in values.keys.sorted() {
                let property = entity.target.properties[position]
                guard let value = values[position], !property.isReference,
                    let code = names.code(ofProperty: property.name, root: entity.target.root)
                else { continue }
                var writer = CBORWriter(capacity: 16)
                writer.write(value)
                statement.bind(1, code)
                statement.bind(2, writer.bytes)
                if property.isOptional {
                    statement.bindNull(3)
                } else {
                    statement.bind(3, null.bytes)
                }
                try statement.run()
            }
        }
    }

    // MARK: The history

    /// The history of the store's models, which all its connections share.
    static func history(
        of model: ManagedObjectModel, in database: Database, path: String
    ) throws -> ModelHistory {
        let history = ModelHistory()
        let others = try all(in: database, path: path).filter { $0.hash != model.modelHash }
        if others.isEmpty { return history }
        let names = try StoreLayout.readNames(in: database)
        let standIns = try standIns(in: database, names: names)
        for other in others { history.add(other.hash, known(try other.model(), model, standIns)) }
        let (actors, _) = try StoreLayout.readActors(in: database)
        let statement = try database.prepared("SELECT actor, hash FROM _actorModel")
        while try statement.step() {
            let code = Int(statement.integer(0))
            guard code >= 1, code <= actors.actors.count else { continue }
            history.note(actors.actors[code - 1], statement.bytes(1))
        }
        return history
    }

    static func known(
        _ other: ManagedObjectModel, _ model: ManagedObjectModel, _ standIns: StandIns
    ) -> ModelHistory.Known {
        ModelHistory.Known(
            model: other,
            mapping: ModelMapping(from: other, to: model) { root, name in
                standIns["\(root).\(name)"]
            })
    }
}

extension CoordinatorError {
    /// The refusal of a store for a model kept in it: damaged, or with a merge policy that this program has
    /// not registered.
    static func keptModel(of path: String, _ error: any Error) -> CoordinatorError {
        if let policy = (error as? ModelError)?.unregisteredPolicy {
            return CoordinatorError(
                .modelMismatch,
                "A model kept in \(path) names the merge policy \(policy), which this program has not "
                    + "registered. Register it before the store is opened, as long as the store knows "
                    + "that model.")
        }
        return CoordinatorError(
            .storeDamaged, "A model kept in \(path) is damaged: \(error).")
    }
}
