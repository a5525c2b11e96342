import Coordinator
import Merge

/// The objects that are saved: two short texts, an integer and a double.
enum SampleData {
    static let entityName = "Item"

    /// The model of all benchmarks.
    static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [entity()])
    }

    static func entity() -> EntityDescription {
        EntityDescription(
            entityName, mergePolicy: .mergeByPropertyObjectTrump,
            attributes: [
                AttributeDescription("count", .integer64), AttributeDescription("name", .string),
                AttributeDescription("note", .string), AttributeDescription("weight", .double),
            ])
    }

    /// A store of a model that has the entity.
    typealias Store = (coordinator: PersistentStoreCoordinator, entity: ManagedObjectModel.Entity)

    /// The same model as JSON, for nodes.
    static let modelJSON = """
        {"entities": [{"name": "Item", "mergePolicy": "mergeByPropertyObjectTrump",
          "attributes": [
            {"name": "count", "type": "integer64"}, {"name": "name", "type": "string"},
            {"name": "note", "type": "string"}, {"name": "weight", "type": "double"}]}]}
        """

    /// One object's values.
    struct Item: Sendable {
        var count: Int64
        var name: String
        var note: String
        var weight: Double

        init(_ number: Int) {
            count = Int64(number)
            name = "Item \(number)"
            note = "a short note, \(number)"
            weight = Double(number) * 1.0625 + 0.1
        }

        /// As a save takes them: by position, which is the order of the names.
        var values: [(position: Int, value: PropertyValue)] {
            [
                (0, .integer(count)), (1, .string(name)), (2, .string(note)),
                (3, .double(weight)),
            ]
        }
    }

    /// A save that inserts these objects.
    static func insert(
        _ items: some Collection<Item>, _ entity: ManagedObjectModel.Entity
    ) -> SaveRequest {
        var operations: [SaveOperation] = []
        operations.reserveCapacity(items.count)
        for item in items {
            operations.append(
                SaveOperation(
                    kind: .insert, entity: entity, row: RowID(-Int64(operations.count) - 1),
                    values: item.values))
        }
        return SaveRequest(operations: operations, isBulk: true)
    }

    /// Opens or makes a store, of the model of all benchmarks or another that has its entity.
    static func openStore(
        at path: String, node: Int = 1, readers: Int = 4, model: ManagedObjectModel? = nil,
        indexesHistory: Bool = false
    ) throws -> Store {
        let model = try model ?? self.model()
        guard let node = NodeID(Int64(node)), let entity = model.entity(named: entityName) else {
            throw BenchmarkError("The model of the benchmark has no \(entityName).")
        }
        var options = PersistentStoreCoordinator.Options()
        options.readers = readers
        options.indexesHistory = indexesHistory
        return (
            try PersistentStoreCoordinator(
                storeAt: path, model: model, cluster: "benchmark", node: node, options: options),
            entity
        )
    }
}

/// Why a benchmark could not be made.
struct BenchmarkError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
