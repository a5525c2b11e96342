package import Coordinator
package import Merge

/// What one model's names are in another, for the oracle: worked out from the two models alone, by
/// identity, which is the renaming identifier, or the name where there is none.
///
/// Written from the specification, and not by the product's own mapping, which is what is judged.
package struct ReferenceTranslation: Sendable {
    /// The first model in the names of the second, without what that one lacks.
    package let model: ManagedObjectModel
    /// By the first model's name of an entity: its name, and those of its properties.
    private var entities: [String: (name: String, properties: [String: String])] = [:]
    /// The same of links.
    private var links: [String: String] = [:]

    /// Works out what the first model's names are in the second.
    ///
    /// - Throws: ModelError where what is left of the first is no model.
    package init(from first: ManagedObjectModel, to second: ManagedObjectModel) throws(ModelError) {
        for entity in first.entities {
            let identity = Self.identity(first, entity.name)
            let there = second.entities.first { Self.identity(second, $0.name) == identity }
            guard let there else { continue }
            let theirs = Self.identities(there)
            var names: [String: String] = [:]
            for (name, identity) in Self.identities(entity) {
                names[name] = theirs.first { $0.value == identity }?.key
            }
            entities[entity.name] = (there.name, names)
            for relationship in entity.relationships {
                guard case .link(let link, true) = relationship.storage,
                    let name = names[relationship.name],
                    case .link(let other, _)? = there.relationship(named: name)?.storage
                else { continue }
                links[link] = other
            }
        }
        model = try Self.translated(first, entities)
    }

    private static func identity(_ model: ManagedObjectModel, _ name: String) -> String {
        model.descriptions.first { $0.name == name }?.renamingIdentifier ?? name
    }

    /// The identities of all properties of an entity, by name.
    private static func identities(_ entity: ManagedObjectModel.Entity) -> [String: String] {
        var result: [String: String] = [:]
        for attribute in entity.attributes {
            result[attribute.name] = attribute.renamingIdentifier ?? attribute.name
        }
        for relationship in entity.relationships {
            result[relationship.name] =
                relationship.description.renamingIdentifier ?? relationship.name
        }
        return result
    }

    private static func translated(
        _ first: ManagedObjectModel,
        _ entities: [String: (name: String, properties: [String: String])]
    ) throws(ModelError) -> ManagedObjectModel {
        var result: [EntityDescription] = []
        for var entity in first.descriptions {
            guard let (name, names) = entities[entity.name] else { continue }
            entity.name = name
            entity.parent = entity.parent.flatMap { entities[$0]?.name }
            entity.renamingIdentifier = nil
            entity.attributes = entity.attributes.compactMap { attribute in
                var attribute = attribute
                // What is derived follows from the rest: the oracle does without.
                guard attribute.derivation == nil, let name = names[attribute.name] else {
                    return nil
                }
                attribute.name = name
                attribute.renamingIdentifier = nil
                return attribute
            }
            entity.relationships = entity.relationships.compactMap { relationship in
                var relationship = relationship
                guard let name = names[relationship.name],
                    let destination = entities[relationship.destination]
                else { return nil }
                relationship.name = name
                relationship.inverse = relationship.inverse.flatMap { destination.properties[$0] }
                relationship.destination = destination.name
                relationship.renamingIdentifier = nil
                return relationship
            }
            entity.uniquenessConstraints = entity.uniquenessConstraints.map { constraint in
                constraint.compactMap { names[$0] }
            }
            entity.indexes = []
            result.append(entity)
        }
        return try ManagedObjectModel(entities: result)
    }

    /// What a name of a property of the first model's is in the second; nil where that has no such
    /// property.
    ///
    /// - Parameter entity: its entity's name in either of them.
    package func property(_ name: String, of entity: String) -> String? {
        let found = entities[entity] ?? entities.values.first { $0.name == entity }
        return found?.properties[name]
    }

    /// A transaction of the first model as one who reads by the second has it.
    package func translate(_ transaction: Transaction) -> Transaction {
        var result = transaction
        var kept: [[Int]?] = []
        for place in result.shapes.indices {
            let shape = result.shapes[place]
            guard let (name, names) = entities[shape.entity] else {
                // A link, or what belongs to the system.
                let isSystem = shape.entity.hasPrefix("_")
                let name = isSystem ? shape.entity : links[shape.entity]
                kept.append(name == nil ? [] : nil)
                result.shapes[place].entity = name ?? ""
                continue
            }
            let all = shape.assigned + shape.carried
            kept.append(all.indices.filter { names[all[$0]] != nil })
            result.shapes[place] = ChangeShape(
                entity: name, assigned: shape.assigned.compactMap { names[$0] },
                carried: shape.carried.compactMap { names[$0] })
        }
        result.changes = result.changes.compactMap { change in
            guard kept.indices.contains(change.shape), let places = kept[change.shape] else {
                return change
            }
            guard !result.shapes[change.shape].entity.isEmpty else { return nil }
            guard change.values.count > places.count else { return change }
            var change = change
            change.values = places.filter(change.values.indices.contains).map { change.values[$0] }
            return change
        }
        return result
    }
}
