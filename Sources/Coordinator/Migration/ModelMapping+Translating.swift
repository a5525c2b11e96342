import Merge

/// Values of a transaction that have no place in the store's model. The log keeps them.
struct ParkedValues: Hashable, Sendable {
    /// The entity by the name in the transaction's model; of a link its name.
    let entity: String
    /// The property likewise; empty where the entity itself is gone.
    let property: String
    /// How many changes bear one.
    var count: Int
}

/// Why a transaction does not fit the model that it names.
struct TranslationFailure: Error {
    let reason: String
}

extension ModelMapping {
    /// What a change must say besides what it says, as its writer could not.
    private enum Supplement: Hashable {
        case nothing, defaults, whole
    }

    private struct Form: Hashable {
        let shape: Int
        let supplement: Supplement
    }

    /// The transaction as the store's model has it, under the same name: pure, so that it comes
    /// to the same on every node of this model.
    ///
    /// - Throws: ``TranslationFailure`` where it names what its own model does not have.
    func translate(
        _ transaction: Transaction
    ) throws -> (transaction: Transaction, parked: [ParkedValues]) {
        var result = transaction
        result.shapes = []
        result.changes = []
        result.changes.reserveCapacity(transaction.changes.count)
        var positions: [Form: Int] = [:]
        var parked: [ParkedValues] = []
        func park(_ entity: String, _ property: String) {
            if let index = parked.firstIndex(where: {
                $0.entity == entity && $0.property == property
            }) {
                parked[index].count += 1
            } else {
                parked.append(ParkedValues(entity: entity, property: property, count: 1))
            }
        }
        for change in transaction.changes {
            let shape = transaction.shapes[change.shape]
            guard let entity = entities[shape.entity] else {
                guard let name = try place(of: shape) else {
                    park(shape.entity, "")
                    continue
                }
                let form = Form(shape: change.shape, supplement: .nothing)
                if positions[form] == nil {
                    positions[form] = result.shapes.count
                    var renamed = shape
                    renamed.entity = name
                    result.shapes.append(renamed)
                }
                var moved = change
                moved.shape = positions[form] ?? 0
                result.changes.append(moved)
                continue
            }
            let form = Form(
                shape: change.shape, supplement: Self.supplement(change.kind, entity))
            let added = additions(form.supplement, entity, shape)
            if positions[form] == nil {
                positions[form] = result.shapes.count
                result.shapes.append(try translate(shape, entity, adding: added))
            }
            var moved = change
            moved.shape = positions[form] ?? 0
            moved.values = []
            for (name, value) in zip(shape.assigned + shape.carried, change.values) {
                guard let here = entity.names[name] else {
                    park(shape.entity, name)
                    continue
                }
                let position = entity.target.position(of: here)
                let standIn = value.isNull ? position.flatMap { entity.substitutes[$0] } : nil
                moved.values.append(standIn ?? value)
            }
            moved.values += added.map(\.value)
            result.changes.append(moved)
        }
        return (result, parked)
    }

    /// The name here of what is no entity: a link, or what belongs to the system; nil where it
    /// is gone.
    private func place(of shape: ChangeShape) throws -> String? {
        if goneEntities.contains(shape.entity) { return nil }
        if let link = links[shape.entity] { return link }
        guard shape.entity.hasPrefix("_") else {
            throw TranslationFailure(
                reason: "There is no entity \(shape.entity) in the model that it names.")
        }
        return shape.entity
    }

    private static func supplement(_ kind: Change.Kind, _ entity: Entity) -> Supplement {
        switch kind {
        case .insert: .defaults
        case .revival: .whole
        case .update: entity.target.policies.isRowGrained ? .whole : .nothing
        case .delete, .link, .unlink: .nothing
        }
    }

    /// What a change says of properties that its model lacks, or leaves out as null where null is
    /// not permitted here; by position.
    private func additions(
        _ supplement: Supplement, _ entity: Entity, _ shape: ChangeShape
    ) -> [(name: String, value: PropertyValue)] {
        guard supplement != .nothing else { return [] }
        let listed = Set((shape.assigned + shape.carried).compactMap { entity.names[$0] })
        var result: [(name: String, value: PropertyValue)] = []
        for (position, property) in entity.target.properties.enumerated()
        where !listed.contains(property.name) {
            guard let value = entity.absent[position] ?? entity.substitutes[position] else {
                continue
            }
            if supplement == .defaults, value.isNull { continue }
            result.append((property.name, value))
        }
        return result
    }

    private func translate(
        _ shape: ChangeShape, _ entity: Entity,
        adding added: [(name: String, value: PropertyValue)]
    ) throws -> ChangeShape {
        for name in shape.assigned + shape.carried where !entity.sourceNames.contains(name) {
            throw TranslationFailure(
                reason: "\(shape.entity) has no property \(name) in the model that it names.")
        }
        return ChangeShape(
            entity: entity.target.name, assigned: shape.assigned.compactMap { entity.names[$0] },
            carried: shape.carried.compactMap { entity.names[$0] } + added.map(\.name))
    }
}
