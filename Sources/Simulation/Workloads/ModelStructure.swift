internal import Coordinator
internal import Merge

/// The parts of a model that workloads work on, found by structure and not by name, so that they
/// serve a user's model as well. Everything is in the model's own order.
enum ModelStructure {
    /// A to-one kept in a column, with the side that leads back.
    struct ToOne {
        /// The entity whose rows have the column.
        let entity: ManagedObjectModel.Entity
        /// The column's place among the entity's properties.
        let position: Int
        /// The to-one itself.
        let relationship: ManagedObjectModel.Relationship
        /// The entity it leads to.
        let destination: ManagedObjectModel.Entity
        /// The relationship of the destination that leads back; nil where there is none.
        let inverse: ManagedObjectModel.Relationship?
        /// Whether it may lead nowhere; else it can only be exchanged, never taken away.
        var isOptional: Bool { entity.properties[position].isOptional }
        /// Whether one row only may refer to a destination.
        var isOneToOne: Bool { inverse.map { !$0.isToMany } ?? false }
    }

    /// A relationship kept as links, as one of its sides sees it.
    struct Many {
        let entity: ManagedObjectModel.Entity
        let relationship: ManagedObjectModel.Relationship
        let destination: ManagedObjectModel.Entity
    }

    /// The entities that have objects of their own.
    static func concrete(_ model: ManagedObjectModel) -> [ManagedObjectModel.Entity] {
        model.entities.filter { !$0.isAbstract }
    }

    /// The entities that have objects of their own, of one entity and those that inherit from it.
    static func concrete(
        _ entity: ManagedObjectModel.Entity, _ model: ManagedObjectModel
    ) -> [ManagedObjectModel.Entity] {
        entity.familyNames.compactMap { model.entity(named: $0) }.filter { !$0.isAbstract }
    }

    /// The to-ones kept in columns, of entities that have objects.
    static func toOnes(_ model: ManagedObjectModel) -> [ToOne] {
        concrete(model).flatMap { entity in
            entity.relationships.compactMap { relationship in
                guard case .column(let position) = relationship.storage,
                    let destination = model.entity(named: relationship.destination)
                else { return nil }
                return ToOne(
                    entity: entity, position: position, relationship: relationship,
                    destination: destination,
                    inverse: relationship.description.inverse.flatMap {
                        destination.relationship(named: $0)
                    })
            }
        }
    }

    /// To-ones that lead from an entity to itself.
    static func rings(_ model: ManagedObjectModel) -> [ToOne] {
        toOnes(model).filter { $0.entity.isKind(of: $0.destination) }
    }

    /// To-ones whose other side is a to-many.
    static func parents(_ model: ManagedObjectModel) -> [ToOne] {
        toOnes(model).filter { $0.inverse?.isToMany ?? false }
    }

    /// To-ones whose other side is a to-one.
    static func oneToOnes(_ model: ManagedObjectModel) -> [ToOne] {
        toOnes(model).filter(\.isOneToOne)
    }

    /// Many-to-manys, each from both its sides.
    static func links(_ model: ManagedObjectModel) -> [Many] {
        concrete(model).flatMap { entity in
            entity.relationships.compactMap { relationship in
                guard case .link = relationship.storage,
                    let destination = model.entity(named: relationship.destination)
                else { return nil }
                return Many(entity: entity, relationship: relationship, destination: destination)
            }
        }
    }

    /// Roots from which others inherit.
    static func hierarchies(_ model: ManagedObjectModel) -> [ManagedObjectModel.Entity] {
        model.entities.filter { $0.parent == nil && $0.sharesTable }
    }

    /// Positions of an entity's attributes that are stored.
    static func attributes(_ entity: ManagedObjectModel.Entity) -> [Int] {
        entity.properties.indices.filter { !entity.properties[$0].isReference }
    }
}
