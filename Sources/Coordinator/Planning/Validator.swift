import Merge

/// Checks what a save writes: its values, its references, its counts, and whether it writes over what
/// waits for a decision.
struct Validator: PlanningPart {
    let view: StoreView

    // MARK: Validation

    /// Checks every value the save writes; all failures are listed, not the first alone. Counts are
    /// looked at by ``validateCounts(_:)``.
    ///
    /// - Parameter onlyTypes: whether only their types, and the targets of references, are checked.
    func validate(_ plan: inout SavePlan, onlyTypes: Bool) throws {
        for row in plan.rows.rows {
            guard let planned = plan.rows[row], planned.kind != .delete else { continue }
            try validate(planned, row, onlyTypes: onlyTypes, &plan)
        }
        for key in plan.linkOrder where plan.links[key] ?? false {
            if plan.deletes(key.source) || plan.deletes(key.target) {
                plan.links[key] = false
            }
        }
    }

    func validate(
        _ planned: SavePlan.Row, _ row: RowID, onlyTypes: Bool = false, _ plan: inout SavePlan
    ) throws {
        let properties = planned.table.entity.properties
        for (index, (position, value)) in planned.values.enumerated() {
            // The caller must not be refused for values that are brought back: if such a value
            // cannot stand any more, the store's value stays.
            let isBroughtBack = planned.isBroughtBack(position)
            if !planned.hiddenClaims.contains(position),
                let failure = ValueValidation.failure(
                    value, of: properties[position], object: told(planned)),
                !onlyTypes || failure.code == .wrongType
            {
                if isBroughtBack {
                    plan.rows[row]?.leave { $0 == position }
                } else {
                    plan.failures.append(failure)
                }
            }
            guard case .reference(let target) = value else { continue }
            guard case .toOne(let destination) = properties[position].content else { continue }
            let isThere =
                try !plan.deletes(target) && relationshipPlanner.isThere(target, destination, plan)
            if isThere { continue }
            if isBroughtBack, !properties[position].isOptional {
                plan.rows[row]?.leave { $0 == position }
            }
            // A reference that goes with a change or a revival may have lost its target: it is
            // projected to nil.
            if index < planned.assignedCount || planned.kind == .insert {
                plan.failures.append(
                    ValidationFailure(
                        object: told(planned), property: properties[position].name,
                        code: .danglingReference,
                        message: "\(planned.table.entity.name).\(properties[position].name) "
                            + "refers to an object that is not there: \(target)."))
            }
        }
        guard planned.kind == .insert, !onlyTypes else { return }
        for (position, property) in properties.enumerated()
        where !property.isOptional && !planned.values.contains(where: { $0.position == position }) {
            plan.failures.append(
                ValidationFailure(
                    object: told(planned), property: property.name,
                    code: .missingMandatoryProperty,
                    message: "\(planned.table.entity.name).\(property.name) is mandatory."))
        }
    }

    /// Saving over what waits for a decision takes an explicit word (DESIGN section 6).
    func checkUnresolved(_ plan: SavePlan) throws {
        var found: [MergeConflict] = []
        for (_, planned) in plan.rows {
            guard !planned.resolves, let loaded = planned.loaded else { continue }
            // A write to a survivor goes to all rows of its group.
            let others = planned.writesGroup ? loaded.eclipsed : []
            for member in [loaded] + others {
                let undecided = planned.writesGroup ? member.undecided.map(\.position) : []
                guard member.state.hasSiblings || !undecided.isEmpty else { continue }
                if let conflict = unresolved(member, undecided, touchedBy: planned) {
                    found.append(conflict)
                }
            }
        }
        if !found.isEmpty {
            throw CoordinatorError(
                .unresolvedConflict,
                "\(found[0].object) has an unresolved conflict between nodes; resolve it, or say "
                    + "that this save resolves it.", conflicts: found)
        }
    }

    /// - Parameter undecided: properties that nobody has decided between the rows of its group.
    func unresolved(
        _ loaded: LoadedRow, _ undecided: [Int], touchedBy planned: SavePlan.Row
    ) -> MergeConflict? {
        let conflicts = loaded.state.conflicts(loaded.table.policies(for: loaded.state))
            .filter { $0.state == .unresolved }
        let names = loaded.table.entity.properties
        var subjects = conflicts.map(\.subject)
        subjects += undecided.map { .property($0) }.filter { !subjects.contains($0) }
        let touched = subjects.filter { subject in
            switch subject {
            // Values that the policy left unchanged are not written, and so decide nothing (MODEL
            // P19).
            case .object: planned.kind != .update || !planned.changedValues.isEmpty
            case .property(let position):
                planned.kind != .delete && planned.value(of: names[position].name) != nil
            }
        }
        if touched.isEmpty { return nil }
        return MergeConflict(
            object: loaded.objectID,
            properties: touched.compactMap {
                guard case .property(let position) = $0 else { return nil }
                return names[position].name
            }, oldVersion: nil, newVersion: loaded.version, objectSnapshot: nil,
            cachedSnapshot: nil, persistedSnapshot: nil)
    }
}
