package import Merge

/// What undoing saves would write, and what it would leave alone.
package struct UndoPlan: Sendable {
    /// How an object comes back to what it was.
    package enum Kind: String, Hashable, Sendable {
        /// It was deleted, and comes back.
        case insert
        /// It gets values back.
        case update
        /// It was inserted, and goes.
        case delete
    }

    /// An object that is written.
    package struct Restored: Sendable {
        /// The object.
        package let object: ManagedObjectID
        /// How.
        package var kind: Kind
        /// The values that it gets back.
        package var values: [String: PropertyValue] = [:]
        /// The changes of its many-to-many relationships.
        package var relationships: [RelationshipOperation] = []
        /// The version that the plan was made of; nil of one that is gone.
        package var version: RowVersion?
        /// The deletes that the plan was made of; empty of one that is there.
        var deletes: Set<Dot> = []
        /// The links that the plan was made of, each with the write that stands.
        var links: [Link] = []
        /// Whether the store knows nothing of it any more.
        package var isWholeRow = false
    }

    /// A link, and the write of it that stands.
    struct Link: Hashable, Sendable {
        let name: String
        let source: RowID
        let target: RowID
        let dot: Dot
    }

    /// What was written since, and is left as it is.
    package struct Newer: Hashable, Sendable {
        /// The object.
        package let object: ManagedObjectID
        /// The properties; empty where it is the object's existence.
        package var properties: [String]
        /// The save that wrote it.
        package let write: SaveHeading
    }

    /// What cannot be written back.
    package struct Lost: Hashable, Sendable {
        /// The object.
        package let object: ManagedObjectID
        /// The property; nil where it is the object as a whole.
        package let property: String?
        /// Why.
        package let reason: String
    }

    /// The objects that are written, sorted.
    package var restored: [Restored] = []
    /// What is left alone, because it is newer; sorted.
    package var newer: [Newer] = []
    /// What cannot be written back; sorted.
    package var lost: [Lost] = []

    /// The operations of the save that undoes it.
    package func operations(_ model: ManagedObjectModel) -> [SaveOperation] {
        restored.compactMap { restored in
            guard let entity = model.entity(named: restored.object.entityName) else { return nil }
            let values = restored.values.compactMap { name, value in
                entity.position(of: name).map { (position: $0, value: value) }
            }
            var operation = SaveOperation(
                kind: restored.kind == .delete ? .delete : .update, entity: entity,
                row: restored.object.row, values: values.sorted { $0.position < $1.position },
                relationships: restored.relationships, version: restored.version, resolves: true)
            operation.isWholeRow = restored.isWholeRow
            return operation
        }
    }
}
