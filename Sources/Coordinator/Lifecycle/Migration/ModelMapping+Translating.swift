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
    /// The additions to a change that its writer's model could not make.
    private enum Supplement: Hashable {
        case nothing, defaults, whole
    }

    private struct Form: Hashable {
        let shape: Int
        let supplement: Supplement
        /// Which of its values are null, where that says what was assigned.
        var nulls: [Bool] = []
    }

    /// A value with the name that its property has here.
    private typealias Named = (name: String, value: PropertyValue)

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
            var form = Form(
                shape: change.shape, supplement: Self.supplement(change.kind, entity))
            // A row that one writes who has the other model says nothing of what was assigned, and
            // a value of an insertion counts as assigned then where it is not null.
            let isUntold =
                entity.isNewlyUnique && (change.kind == .insert || change.kind == .revival)
            if isUntold { form.nulls = change.values.map(\.isNull) }
            var assigned: [Named] = []
            var carried: [Named] = []
            for (index, (name, value)) in zip(shape.assigned + shape.carried, change.values)
                .enumerated()
            {
                // What history keeps of a deleted object is nobody's value.
                let isKept = change.kind == .delete
                guard let here = entity.names[name] else {
                    if !isKept { park(shape.entity, name) }
                    continue
                }
                let position = entity.target.position(of: here)
                let standIn =
                    value.isNull && !isKept ? position.flatMap { entity.substitutes[$0] } : nil
                if isUntold ? !value.isNull : index < shape.assigned.count {
                    assigned.append((here, standIn ?? value))
                } else {
                    carried.append((here, standIn ?? value))
                }
            }
            carried += additions(form.supplement, entity, shape)
            if positions[form] == nil {
                positions[form] = result.shapes.count
                try check(shape, entity)
                result.shapes.append(
                    ChangeShape(
                        entity: entity.target.name, assigned: assigned.map(\.name),
                        carried: carried.map(\.name)))
            }
            var moved = change
            moved.shape = positions[form] ?? 0
            moved.values = (assigned + carried).map(\.value)
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

    /// The values that a change implies for properties that its model lacks, or that it leaves out
    /// as null where null is not permitted here; by position.
    private func additions(
        _ supplement: Supplement, _ entity: Entity, _ shape: ChangeShape
    ) -> [Named] {
        guard supplement != .nothing else { return [] }
        let listed = Set((shape.assigned + shape.carried).compactMap { entity.names[$0] })
        var result: [Named] = []
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

    private func check(_ shape: ChangeShape, _ entity: Entity) throws {
        for name in shape.assigned + shape.carried where !entity.sourceNames.contains(name) {
            throw TranslationFailure(
                reason: "\(shape.entity) has no property \(name) in the model that it names.")
        }
    }
}
