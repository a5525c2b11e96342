import Merge

/// Turns what an operation leaves to the store's state into plain values: judges its condition, and
/// replaces its increments by sums.
struct PremisePlanner: PlanningPart {
    let view: StoreView

    /// Refuses conditions and increments where they mean nothing.
    func check(_ operation: SaveOperation) throws {
        guard operation.hasPremises else { return }
        if operation.kind == .insert {
            throw CoordinatorError(
                .malformed, "An insert has no object yet, so it takes no condition or increment.")
        }
        guard operation.kind == .update || operation.increments.isEmpty else {
            throw CoordinatorError(.malformed, "Only an update takes increments.")
        }
        var assigned = Set(operation.values.map(\.position))
        for (position, amount) in operation.increments {
            let property = operation.entity.properties[position]
            let name = "\(operation.entity.name).\(property.name)"
            guard case .attribute(let type) = property.content, type.typeOfIncrements != nil
            else {
                throw CoordinatorError(.malformed, "\(name) is no number, so nothing adds to it.")
            }
            guard Increment.fits(amount, type) else {
                throw CoordinatorError(
                    .malformed, "The increment of \(name) is no number of type \(type.rawValue).")
            }
            guard assigned.insert(position).inserted else {
                throw CoordinatorError(
                    .malformed, "The save assigns and increments \(name), or increments it twice.")
            }
        }
    }

    /// An operation on an object with sums instead of increments. A condition that does not hold, and a
    /// sum that cannot be, is noted in the plan.
    ///
    /// Of an object that is gone the operation stays as it is: then it fails, or the merge policy drops
    /// it.
    ///
    /// - Parameters:
    ///   - operation: the operation, by the row's own entity.
    ///   - loaded: the row as the store has it; nil where nothing is kept of it.
    ///   - planned: the same row with the save's earlier operations on it.
    func settled(
        _ operation: SaveOperation, _ row: RowID, _ loaded: LoadedRow?, _ planned: SavePlan.Row?,
        _ plan: inout SavePlan
    ) throws -> SaveOperation {
        guard operation.hasPremises else { return operation }
        let isAlive = loaded?.isAlive ?? false
        if let condition = operation.condition {
            guard let loaded, isAlive else {
                guard planned != nil else { return operation }
                throw CoordinatorError(
                    loaded == nil ? .malformed : .objectNotFound,
                    "\(told(operation.row, operation.entity.name)) is not in the store, so that "
                        + "nothing holds of it: \(condition.text)")
            }
            if try !condition.evaluator.matches(StoredObject(loaded, view)) {
                plan.unmet.append((condition.text, row, operation, loaded))
                return operation
            }
        }
        guard isAlive || planned != nil else { return operation }
        var result = operation
        result.increments = []
        for (position, amount) in operation.increments {
            let property = operation.entity.properties[position]
            guard case .attribute(let type) = property.content else { continue }
            // What a delete of the same save has are no values to write.
            let earlier = planned?.kind == .delete ? nil : planned?.value(at: position)
            let value = earlier ?? loaded?.columns[position] ?? .null
            let outcome = Increment.add(amount, to: value, type)
            if case .sum(let sum) = outcome {
                result.values.append((position, sum))
                plan.increments.append((row, property.name))
            } else {
                plan.failures.append(failure(outcome, property, value, amount, type, operation))
            }
        }
        return result
    }

    private func failure(
        _ outcome: Increment.Outcome, _ property: ManagedObjectModel.Property,
        _ value: PropertyValue, _ amount: PropertyValue, _ type: AttributeType,
        _ operation: SaveOperation
    ) -> ValidationFailure {
        let name = "\(operation.entity.name).\(property.name)"
        let sum = "\(name): \(shown(value)) + \(shown(amount))"
        let (code, message): (ValidationFailure.Code, String) =
            switch outcome {
            case .sum, .nothingToAddTo:
                (
                    .missingMandatoryProperty,
                    "\(name) is null, so there is nothing to add to. Assign a value first, or give "
                        + "the attribute a default value."
                )
            case .tooLarge: (.numberTooLarge, "\(sum) is above what \(type.rawValue) can hold.")
            case .tooSmall: (.numberTooSmall, "\(sum) is below what \(type.rawValue) can hold.")
            case .tooLong: (.wrongType, "\(sum) has more than the 38 digits of a decimal.")
            }
        return ValidationFailure(
            object: told(operation.row, operation.entity.name), property: property.name,
            code: code, message: message)
    }

    private func shown(_ value: PropertyValue) -> String {
        let json = value.jsonValue { $0.description }
        return json.string ?? JSONWriter.text(of: json)
    }

    /// Refuses a save whose conditions do not all hold, with the objects as the store has them.
    func refuseUnmet(of plan: SavePlan, _ conflict: (SavePlan.Unmet) -> MergeConflict) throws {
        guard let first = plan.unmet.first else { return }
        let conflicts = plan.unmet.map(conflict)
        throw CoordinatorError(
            .conditionFailed,
            plan.unmet.count == 1
                ? "\(told(first.row, conflicts[0].object.entityName)) does not meet the condition: "
                    + first.condition
                : "\(plan.unmet.count) conditions do not hold, the first \(first.condition)",
            conflicts: conflicts)
    }

    /// The values of incremented properties as the save has left them.
    ///
    /// - Parameter load: reads a row again.
    static func incremented(
        _ plan: SavePlan, _ load: (EntityTable, RowID) throws -> LoadedRow?
    ) throws -> [SaveResult.IncrementedValue] {
        var result: [SaveResult.IncrementedValue] = []
        var known: [RowID: LoadedRow] = [:]
        var told = Set<[String]>()
        for (asked, property) in plan.increments {
            let row = plan.merged[asked] ?? asked
            // The policy may have left what the store had, or the object may be gone.
            guard let planned = plan.rows[row], planned.kind != .delete,
                planned.value(of: property) != nil
            else { continue }
            guard let now = try known[row] ?? load(planned.table, row), now.isVisible,
                let position = now.table.entity.position(of: property)
            else { continue }
            known[row] = now
            guard told.insert([row.description, property]).inserted else { continue }
            result.append(
                .init(objectID: now.objectID, property: property, value: now.columns[position]))
        }
        return result
    }
}
