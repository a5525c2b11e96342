import Coordinator
package import Merge

extension ReferenceModel {
    /// A conflict that is open: its name, whether somebody must decide it, and its sides.
    package struct OpenConflict: Hashable, Sendable {
        /// Its name.
        package let id: String
        /// Whether the policy decides nothing.
        package let isUnresolved: Bool
        /// The transactions that wrote its sides.
        package let sides: Set<Dot>
        /// The rule of the model that the object breaks as it is shown; nil for none.
        package var violation: String?
        /// The deletes of a reference's targets. A node that has collected them may list nothing,
        /// where it shows the reference only since.
        package var deaths: Set<Dot> = []
    }

    /// The names of the conflicts that somebody must decide (DESIGN section 10).
    package func unresolvedConflicts() -> Set<String> {
        Set(openConflicts().filter(\.isUnresolved).map(\.id))
    }

    /// The names of the open conflicts that a policy decided. Those whose sides are all stable
    /// may be missing on a node, for there they may have collapsed.
    package func settledConflicts() -> Set<String> {
        Set(openConflicts().filter { !$0.isUnresolved }.map(\.id))
    }

    /// Every open conflict, in order of its name.
    package func openConflicts() -> [OpenConflict] {
        var result = undecidedConflicts()
        let undecided = Set(result.map(\.id))
        for (id, row) in rows {
            let place = "\(row.entity.name).\(id)"
            if isInConflict(row) {
                result.append(open("\(place).object", row.policy, row.existence))
            }
            // Of a dead row only its existence is in conflict.
            guard row.isAlive else { continue }
            for (name, register) in row.registers {
                if !row.policy.isByRow, isInConflict(register, name, of: row),
                    !undecided.contains("\(place).\(name)")
                {
                    result.append(open("\(place).\(name)", register.policy, register.siblings))
                }
                let isDemanded = leads(row.entity, name) && demands(row.entity, name)
                if row.isVisible, register.shown.isNull, isDemanded || isLostUnseen(register) {
                    result.append(
                        OpenConflict(
                            id: "\(place).\(name).target", isUnresolved: false,
                            sides: [register.winner.dot],
                            violation: isDemanded ? "missingMandatoryProperty" : nil,
                            deaths: isDemanded ? [] : deaths(ofTargetOf: register)))
                }
            }
        }
        result += countConflicts()
        result += uniquenessConflicts()
        for link in links where link.isDisputed && link.endsLive {
            let parts = link.key.name.split(separator: ".", maxSplits: 1)
            let name = "\(parts[0]).\(link.key.source).\(parts[1]).\(link.key.target)"
            result.append(open(name, link.policy, link.siblings))
        }
        return result.sorted { $0.id < $1.id }
    }

    /// Whether a reference leads nowhere, and every delete of its target is concurrent with it (DESIGN 5.4):
    /// else it was nullified knowingly. What is alive was lost to another claim, or to a misfit.
    func isLostUnseen(_ register: ReferenceRegister) -> Bool {
        guard case .reference(let target) = register.raw, let found = rows[target] else {
            return false
        }
        let write = register.winner
        return found.isAlive
            || !found.existence.contains {
                $0.isDeath && ($0.dot == write.dot || $0.saw(write) || write.saw($0))
            }
    }

    /// The deletes of what a row's reference leads to in vain. A node that has collected them all cannot
    /// tell whether they had seen it.
    package func deaths(behind row: RowID, _ property: String) -> Set<Dot> {
        guard let register = rows[row]?.registers[property], register.shown.isNull else {
            return []
        }
        return deaths(ofTargetOf: register)
    }

    /// The deletes of what a reference leads to.
    private func deaths(ofTargetOf register: ReferenceRegister) -> Set<Dot> {
        guard case .reference(let target) = register.raw, let found = rows[target], !found.isAlive
        else { return [] }
        return Set(found.existence.filter(\.isDeath).map(\.dot))
    }

    /// Relationships kept at the other side that lead to fewer objects than the model asks for, or to
    /// more.
    private func countConflicts() -> [OpenConflict] {
        rows.filter(\.value.isVisible).flatMap { id, row in
            row.entity.relationships.compactMap { relationship in
                if case .column = relationship.storage { return nil }
                let description = relationship.description
                let isToMany = relationship.isToMany
                let minimum = isToMany ? description.minimumCount : 0
                let least = max(minimum, description.isOptional ? 0 : 1)
                let isBounded = isToMany && description.maximumCount > 0
                let most = isBounded ? description.maximumCount : .max
                if least == 0, most == .max { return nil }
                let count = members(id, relationship.name).count
                if count == 0, isToMany, description.isOptional { return nil }
                if (least...max(least, most)).contains(count) { return nil }
                return OpenConflict(
                    id: "\(row.entity.name).\(id).\(relationship.name).count",
                    isUnresolved: false, sides: [],
                    violation: count >= least
                        ? "relationshipExceedsMaximumCount"
                        : isToMany ? "relationshipLacksMinimumCount" : "missingMandatoryProperty")
            }
        }
    }

    private func leads(_ entity: ManagedObjectModel.Entity, _ name: String) -> Bool {
        guard let position = entity.position(of: name) else { return false }
        if case .toOne = entity.properties[position].content { return true }
        return false
    }

    private func demands(_ entity: ManagedObjectModel.Entity, _ name: String) -> Bool {
        entity.position(of: name).map { !entity.properties[$0].isOptional } ?? false
    }

    /// Whether the siblings of a row's existence differ: in whether there is a row, and under a
    /// row-grained policy in what it holds.
    private func isInConflict(_ row: ReferenceRow) -> Bool {
        if row.isDisputed { return true }
        guard row.policy.isByRow, row.isAlive else { return false }
        return row.entity.properties.contains { property in
            Set(row.existence.map { value(property, of: row.entity, in: $0) }).count > 1
        }
    }

    func isInConflict(
        _ register: ReferenceRegister, _ name: String, of row: ReferenceRow
    ) -> Bool {
        guard register.siblings.count > 1, let position = row.entity.position(of: name) else {
            return false
        }
        let property = row.entity.properties[position]
        return Set(register.siblings.map { value(property, of: row.entity, in: $0) }).count > 1
    }

    private func open(
        _ id: String, _ policy: MergePolicy, _ siblings: [ReferenceWrite]
    ) -> OpenConflict {
        OpenConflict(id: id, isUnresolved: policy.asksSomebody, sides: Set(siblings.map(\.dot)))
    }
}
