import Merge

extension StoreEngine {
    /// Saving over what waits for a decision takes an explicit word (DESIGN section 6).
    func checkUnresolved(_ plan: SavePlan) throws {
        var found: [MergeConflict] = []
        for row in plan.order {
            guard let planned = plan.rows[row], !planned.resolves, let loaded = planned.loaded
            else { continue }
            // What is written to a survivor is written to all rows of its group.
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
    private func unresolved(
        _ loaded: LoadedRow, _ undecided: [Int], touchedBy planned: SavePlan.Row
    ) -> MergeConflict? {
        let conflicts = loaded.state.conflicts(loaded.table.policies(for: loaded.state))
            .filter { $0.state == .unresolved }
        let names = loaded.table.entity.properties
        var subjects = conflicts.map(\.subject)
        subjects += undecided.map { .property($0) }.filter { !subjects.contains($0) }
        let touched = subjects.filter { subject in
            switch subject {
            // What the policy left unchanged is not written, and so decides nothing (MODEL P19).
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
