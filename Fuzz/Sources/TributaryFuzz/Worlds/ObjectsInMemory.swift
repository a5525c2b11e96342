@testable import Coordinator
@testable import Merge

/// The store's objects in memory, for asking them a predicate without SQL.
final class ObjectsInMemory {
    final class Object: PredicateSubject {
        let objectID: ManagedObjectID
        fileprivate(set) var values: [String: PropertyValue] = [:]
        fileprivate(set) var members: [String: [RowID]] = [:]
        private unowned let world: ObjectsInMemory

        fileprivate init(_ objectID: ManagedObjectID, _ world: ObjectsInMemory) {
            self.objectID = objectID
            self.world = world
        }

        var predicateRow: RowID { objectID.row }
        var predicateEntity: String? { objectID.entityName }
        func predicateValue(ofAttribute name: String) -> PropertyValue { values[name] ?? .null }
        func predicateTarget(ofToOne name: String) -> Object? {
            if case .reference(let row)? = values[name] { return world.objects[row] }
            return members[name]?.first.flatMap { world.objects[$0] }
        }
        func predicateTargets(ofToMany name: String) -> [Object] {
            (members[name] ?? []).compactMap { world.objects[$0] }
        }
    }

    /// Made at the first use. Safe: libFuzzer uses one thread, and FuzzTests is serialized.
    nonisolated(unsafe) static let shared = must {
        try EngineWorld.shared.read { try ObjectsInMemory($0) }
    }

    private(set) var objects: [RowID: Object] = [:]

    private init(_ reader: StoreReader) throws {
        let model = SampleModel.model
        for entity in model.entities where entity.parent == nil {
            for snapshot in try reader.fetch(FetchRequest(entity.name)) {
                guard let own = model.entity(named: snapshot.objectID.entityName) else { continue }
                let object = Object(snapshot.objectID, self)
                for (property, value) in zip(own.properties, snapshot.values) {
                    object.values[property.name] = value
                }
                for relationship in own.relationships {
                    guard own.position(of: relationship.name) == nil else { continue }
                    object.members[relationship.name] = try reader.members(
                        of: relationship, entity: own, row: snapshot.objectID.row
                    ).map(\.row)
                }
                objects[snapshot.objectID.row] = object
            }
        }
    }

    /// The rows of an entity and its heirs that match a predicate, sorted.
    func rows(of entity: ManagedObjectModel.Entity, _ evaluator: PredicateEvaluator) throws
        -> [RowID]
    {
        try objects.values.filter {
            entity.familyNames.contains($0.objectID.entityName)
        }.filter { try evaluator.matches($0) }.map(\.objectID.row).sorted()
    }
}
