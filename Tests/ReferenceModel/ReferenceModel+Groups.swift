import Coordinator
package import Merge

/// Uniqueness constraints (DESIGN section 5.5), as naively as they can be had: every row is
/// compared with every visible one.
extension ReferenceModel {
    /// The row that readers see in place of an eclipsed one; nil of any other.
    package func survivor(of row: RowID) -> RowID? { rows[row]?.survivor }

    /// All eclipsed rows with their survivors.
    package var survivors: [RowID: RowID] { rows.compactMapValues(\.survivor) }

    /// The name of a row's entity, eclipsed or dead ones included; nil where nobody inserted it.
    package func ownEntity(of row: RowID) -> String? { rows[row]?.entity.name }

    /// What a living row has by itself, eclipsed or not; nil where there is no such row or property.
    package func ownValue(_ row: RowID, _ property: String) -> PropertyValue? {
        guard let found = rows[row], found.isAlive, let register = found.registers[property]
        else { return nil }
        return register.own?.raw ?? register.raw
    }

    /// A reference to a row that is eclipsed, as it was written.
    package struct LedReference: Hashable, Sendable {
        /// The row that refers.
        package let row: RowID
        /// The property by which it does.
        package let property: String
        /// The eclipsed row.
        package let target: RowID
    }

    /// The references that lead readers to a survivor.
    package var ledReferences: Set<LedReference> {
        var result = Set<LedReference>()
        for (row, found) in rows where found.isVisible {
            for (name, register) in found.registers {
                guard case .reference(let target) = register.raw, survivor(of: target) != nil,
                    !register.shown.isNull
                else { continue }
                result.insert(LedReference(row: row, property: name, target: target))
            }
        }
        return result
    }

    /// The rows that a visible one eclipses, in order of insertion, each with its own version.
    package func eclipsed(by row: RowID) -> [(row: RowID, version: Set<Dot>)] {
        guard let found = rows[row], found.isVisible else { return [] }
        return found.eclipsed.map { ($0, Set((rows[$0]?.existence ?? []).map(\.dot))) }
    }

    /// The row that readers see in a row's place; nil if it is not alive.
    func shownRow(_ row: RowID) -> RowID? {
        guard let found = rows[row], found.isAlive else { return nil }
        return found.survivor ?? row
    }

    // MARK: Grouping

    private struct Taken {
        let row: RowID
        let keys: [String: [PropertyValue]]
    }

    mutating func groupRows() {
        let roots = Set(model.entities.filter { !$0.uniquenessConstraints.isEmpty }.map(\.root))
        for root in roots.sorted() {
            let living = rows.filter { $0.value.isAlive && $0.value.entity.root == root }.keys
            let ordered = living.sorted { left, right in
                guard let first = insertion(of: left), let second = insertion(of: right),
                    first != second
                else { return left < right }
                return first.precedes(second)
            }
            var visible: [Taken] = []
            for row in ordered {
                let keys = keys(of: row)
                let rival = visible.first { other in
                    keys.contains { other.keys[$0.key] == $0.value }
                }
                if let rival {
                    rows[row]?.survivor = rival.row
                    rows[rival.row]?.eclipsed.append(row)
                } else {
                    visible.append(Taken(row: row, keys: keys))
                }
            }
        }
    }

    /// The stamp that counts as a row's insertion: its earliest insert or revival that no later
    /// one has seen.
    private func insertion(of row: RowID) -> Stamp? {
        let writes = (rows[row]?.writes ?? []).filter { $0.isWhole && !$0.isDeath }
        return ReferenceWrite.choose(ReferenceWrite.maximal(writes), .earliest)?.stamp
    }

    /// A row's keys by the constraint's name, of its own visible values; a null is no key.
    private func keys(of row: RowID) -> [String: [PropertyValue]] {
        guard let found = rows[row] else { return [:] }
        var result: [String: [PropertyValue]] = [:]
        for positions in found.entity.uniquenessConstraints {
            let names = positions.map { found.entity.properties[$0].name }
            let values = names.map { comparable(found.registers[$0]?.raw ?? .null) }
            if values.contains(where: \.isNull) { continue }
            result[constraint(names, of: found.entity)] = values
        }
        return result
    }

    /// The two zeros are one number.
    private func comparable(_ value: PropertyValue) -> PropertyValue {
        if case .double(let number) = value, number == 0 { return .double(0) }
        return value
    }

    /// A constraint's name, under the topmost entity that has it: those that inherit it compete.
    private func constraint(
        _ names: [String], of entity: ManagedObjectModel.Entity
    ) -> String {
        var top = entity
        while let parent = top.parent.flatMap({ model.entity(named: $0) }),
            parent.uniquenessConstraints.contains(where: { positions in
                positions.map { parent.properties[$0].name } == names
            })
        {
            top = parent
        }
        return "\(top.name)(\(names.joined(separator: ",")))"
    }

    // MARK: Combining

    /// Gives every survivor what it shows of its group, all from the rows' own values.
    mutating func combineGroups() {
        let own = rows
        for (row, found) in own where !found.eclipsed.isEmpty {
            for property in found.entity.properties { combine(property.name, of: row, found, own) }
        }
    }

    private mutating func combine(
        _ name: String, of row: RowID, _ found: ReferenceRow, _ own: [RowID: ReferenceRow]
    ) {
        let entity = found.entity
        let isKey = entity.uniquenessConstraints.contains { constraint in
            constraint.contains { entity.properties[$0].name == name }
        }
        let policy = entity.policies.entity
        guard let position = entity.position(of: name), !isKey, !policy.asksSomebody else { return }
        let members = ([row] + found.eclipsed).compactMap { id in own[id].map { (id, $0) } }
            .filter { $0.1.entity.policies.entity.isByRow == policy.isByRow }
        let choice = entity.policies.properties[position].stands
        typealias Candidate = (row: RowID, write: ReferenceWrite, raw: PropertyValue?)
        let candidates = members.compactMap { id, member -> Candidate? in
            let isSame = declarer(name, of: member.entity) == declarer(name, of: entity)
            if policy.isByRow {
                guard let any = member.registers.first?.value else { return nil }
                return (id, any.winner, isSame ? member.registers[name]?.raw : nil)
            }
            guard isSame, let register = member.registers[name] else { return nil }
            if register.winner.isWhole, !isAssigned(name, of: entity, in: register.winner) {
                return nil
            }
            return (id, register.winner, register.raw)
        }
        var best = candidates.min { left, right in
            if left.write.stamp == right.write.stamp { return left.row < right.row }
            return left.write.stamp.precedes(right.write.stamp) == (choice == .earliest)
        }
        if case .named(let own) = entity.policies.properties[position], !candidates.isEmpty {
            let sorted = candidates.sorted { left, right in
                if left.write.stamp == right.write.stamp { return left.row < right.row }
                return left.write.stamp.precedes(right.write.stamp)
            }
            best =
                sorted[
                    own.chosen(
                        among: sorted.map {
                            .init(
                                value: $0.raw ?? .null, timestamp: $0.write.stamp.timestamp,
                                dot: $0.write.dot)
                        })]
        }
        guard let best, let raw = best.raw else { return }
        if let register = found.registers[name] {
            rows[row]?.registers[name]?.own = (register.winner, register.raw)
        }
        rows[row]?.registers[name]?.winner = best.write
        rows[row]?.registers[name]?.raw = raw
        rows[row]?.registers[name]?.shown = raw
    }

    /// Whether a write of a whole row counts as having assigned a value: who wrote it by a model
    /// without unique keys is taken at what is not null, for nobody kept what it assigned.
    private func isAssigned(
        _ name: String, of entity: ManagedObjectModel.Entity, in write: ReferenceWrite
    ) -> Bool {
        let writers = models[write.modelHash]?.entity(named: entity.name) ?? entity
        if !writers.uniquenessConstraints.isEmpty { return write.assigned.contains(name) }
        return write.values[name].map { $0 != .null } ?? false
    }

    /// The entity that declares a property; nil where the entity has none of that name.
    private func declarer(_ name: String, of entity: ManagedObjectModel.Entity) -> String? {
        guard entity.position(of: name) != nil else { return nil }
        var top = entity
        while let parent = top.parent.flatMap({ model.entity(named: $0) }),
            parent.position(of: name) != nil
        {
            top = parent
        }
        return top.name
    }

    // MARK: Conflicts

    /// The groups of two rows or more, for each constraint by which their rows are one.
    func uniquenessConflicts() -> [OpenConflict] {
        var result: [OpenConflict] = []
        for (row, found) in rows where !found.eclipsed.isEmpty {
            let own = keys(of: row)
            var reported = Set<String>()
            for positions in found.entity.uniquenessConstraints {
                let names = positions.map { found.entity.properties[$0].name }
                let identity = constraint(names, of: found.entity)
                guard let key = own[identity], reported.insert(identity).inserted else { continue }
                let sharing = found.eclipsed.filter { keys(of: $0)[identity] == key }
                if sharing.isEmpty { continue }
                let sides = ([row] + sharing).compactMap { keyWrite(names, of: $0) }
                result.append(
                    OpenConflict(
                        id: "\(found.entity.name).\(row).unique.\(names.joined(separator: "."))",
                        isUnresolved: found.entity.policies.entity.asksSomebody,
                        sides: Set(sides)))
            }
        }
        return result
    }

    /// The properties of united rows that nobody has decided (DESIGN section 5.5): an error policy of
    /// the property's own leaves it open which of the rows' visible values holds, unless they are equal.
    ///
    /// A row in which a conflict over the property waits takes part with all its siblings, because
    /// a decision writes to every row. So does the survivor's own, whichever row assigned it.
    func undecidedConflicts() -> [OpenConflict] {
        rows.flatMap { row, found -> [OpenConflict] in
            let policies = found.entity.policies
            if found.eclipsed.isEmpty || policies.entity.asksSomebody || policies.entity.isByRow {
                return []
            }
            let keys = Set(found.entity.uniquenessConstraints.flatMap { $0 })
            return found.entity.properties.indices.compactMap { position in
                guard policies.properties[position].asksSomebody, !keys.contains(position) else {
                    return nil
                }
                return undecided(found.entity.properties[position].name, of: row, found)
            }
        }
    }

    private func undecided(
        _ name: String, of row: RowID, _ found: ReferenceRow
    ) -> OpenConflict? {
        var values = Set<PropertyValue>()
        var sides = Set<Dot>()
        for id in [row] + found.eclipsed {
            guard let member = rows[id], !member.entity.policies.entity.isByRow,
                declarer(name, of: member.entity) == declarer(name, of: found.entity),
                let register = member.registers[name]
            else { continue }
            let own = register.own ?? (register.winner, register.raw)
            let isTaken = !own.winner.isWhole || isAssigned(name, of: found.entity, in: own.winner)
            let waits = register.policy.asksSomebody && isInConflict(register, name, of: member)
            if isTaken { values.insert(own.raw) }
            if waits, isTaken || id == row {
                sides.formUnion(register.siblings.map(\.dot))
            } else if isTaken {
                sides.insert(own.winner.dot)
            }
        }
        guard values.count > 1 else { return nil }
        return OpenConflict(
            id: "\(found.entity.name).\(row).\(name)", isUnresolved: true, sides: sides)
    }

    /// The write of a property that readers see, where a row is united with others whichever of these
    /// it was written to, with its value; nil where they see nothing of it.
    package func shownWrite(of row: RowID, _ name: String) -> (dot: Dot, value: PropertyValue)? {
        guard let found = rows[row] else { return nil }
        let shown = found.survivor.flatMap { rows[$0] } ?? found
        let isUnited = !shown.entity.policies.entity.asksSomebody
        guard let register = (isUnited ? shown : found).registers[name] else { return nil }
        return (register.winner.dot, register.raw)
    }

    /// The write that gave a row its key: the last of those whose values are in it.
    private func keyWrite(_ names: [String], of row: RowID) -> Dot? {
        let winners = names.compactMap { rows[row]?.registers[$0]?.winner }
        return ReferenceWrite.choose(winners, .latest)?.dot
    }
}
