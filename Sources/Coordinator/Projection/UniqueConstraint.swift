import Merge

/// A uniqueness constraint as an entity has it that declares or inherits it.
struct UniqueConstraint: Sendable, Hashable {
    /// The entity that declares it: its rows, and those of entities that inherit from it,
    /// compete.
    let scope: String
    /// The names of its properties, in the order of the model.
    let names: [String]
    /// Their positions in the entity.
    let positions: [Int]
    /// The condition that a row of the hierarchy's table shows a key, by its values, in SQL.
    let condition: String
    /// Finds the rows of the store that do, with their versions.
    let lookupSQL: String

    /// The name that no other constraint has.
    var identity: String { scope + ":" + names.joined(separator: ",") }

    /// How conflicts name it.
    var name: String { names.joined(separator: ".") }

    /// The constraints of an entity, each once.
    static func all(
        of entity: ManagedObjectModel.Entity, model: ManagedObjectModel, names: NameTable
    ) -> [UniqueConstraint] {
        var result: [UniqueConstraint] = []
        for positions in entity.uniquenessConstraints {
            let properties = positions.map { entity.properties[$0].name }
            if result.contains(where: { $0.names == properties }) { continue }
            let scope = model.scope(ofConstraint: properties, in: entity)
            var terms = properties.enumerated().map { "\(EntityTable.quote($1)) = ?\($0 + 1)" }
            if scope.parent != nil {
                let codes = scope.familyNames.map { String(names.entities[$0] ?? 0) }
                terms.append("_entity IN (\(codes.joined(separator: ", ")))")
            }
            let condition = terms.joined(separator: " AND ")
            result.append(
                UniqueConstraint(
                    scope: scope.name, names: properties, positions: positions,
                    condition: condition,
                    lookupSQL: "SELECT _id FROM \(EntityTable.quote(scope.root)) WHERE "
                        + condition + " ORDER BY _id"))
        }
        return result
    }

    /// A row's key, by its values in canonical order; nil where one is null.
    func key(_ value: (Int) -> PropertyValue) -> UniqueKey? {
        UniqueKey(constraint: identity, values: positions.map(value))
    }
}

extension ManagedObjectModel {
    /// The entity that a constraint was declared on, which an entity has or inherits.
    func scope(ofConstraint names: [String], in entity: Entity) -> Entity {
        var scope = entity
        while let parent = scope.parent.flatMap({ self.entity(named: $0) }),
            parent.uniquenessConstraints.contains(where: {
                $0.map { parent.properties[$0].name } == names
            })
        {
            scope = parent
        }
        return scope
    }

    /// Whether some entity of a hierarchy has a uniqueness constraint.
    func hasConstraints(root: String) -> Bool {
        entities.contains { $0.root == root && !$0.uniquenessConstraints.isEmpty }
    }
}
