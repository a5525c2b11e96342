import Merge

/// Composes conflicts from a row's state: pure, so that every node composes the same.
enum ConflictReport {
    /// The conflicts of a row, with all their sides.
    ///
    /// - Parameter survivor: of a row that is united with others, the one that is shown.
    static func conflicts(
        of row: LoadedRow, dangling: [(position: Int, target: RowID)], generation: UInt64,
        survivor: LoadedRow? = nil
    ) -> [Conflict] {
        let undecided = row.undecided
        var result = undecided.map { position, sides in
            report(position, sides, of: row, generation: generation)
        }
        if row.state.hasSiblings {
            let sight = GroupSight(of: row, survivor: survivor)
            for found in row.state.conflicts(row.table.policies(for: row.state)) {
                // What waits between the rows of its group has its own sides among those.
                if case .property(let position) = found.subject,
                    undecided.contains(where: { $0.position == position })
                {
                    continue
                }
                result.append(report(found, of: row, sight, generation: generation))
            }
        }
        result += uniqueness(of: row, generation: generation)
        for (position, target) in dangling {
            result.append(leadingNowhere(row, position, .reference(target), generation))
        }
        for position in row.table.mandatoryReferences
        where row.isVisible && (row.shown(position)?.value ?? .null).isNull {
            result.append(leadingNowhere(row, position, .null, generation))
        }
        return result
    }

    /// The name of the conflict that there may be over a reference that leads nowhere.
    static func danglingID(_ row: LoadedRow, _ position: Int) -> ConflictID {
        let entity = row.table.entity
        return ConflictID(
            entity: entity.name, row: row.row,
            subject: "\(entity.properties[position].name).target")
    }

    /// The conflict of a reference that reads as nil: what its register refers to is gone, or a mandatory
    /// one refers to nothing. That no save asks for; but of two claims to one target a later save lets
    /// go of the one that lost, and a model that does not demand it may have written it.
    private static func leadingNowhere(
        _ row: LoadedRow, _ position: Int, _ value: PropertyValue, _ generation: UInt64
    ) -> Conflict {
        let entity = row.table.entity
        let property = entity.properties[position]
        let sibling = row.shown(position)
        let text =
            value.isNull
            ? "It refers to nothing: another object has taken over what it referred to, or it was "
                + "written by a model that does not ask for it."
            : "The object it refers to is deleted, or has become one with an object "
                + "of another entity, or another object's claim to it stands, so the "
                + "reference reads as nil; should that end, the reference returns."
        let remedy =
            " \(entity.name).\(property.name) is mandatory: give it another object, or delete this one."
        return Conflict(
            id: danglingID(row, position), kind: .dangling, state: .settled,
            property: property.name,
            policy: entity.policies.properties[position],
            sides: [
                ConflictSide(
                    dot: sibling?.dot, timestamp: sibling?.stamp.timestamp, isVisible: false,
                    isDeleted: false, value: value, row: [])
            ],
            explanation: Explanation(
                rule: .targetGone, text: text + (property.isOptional ? "" : remedy)),
            closedBy: nil, openedAt: generation,
            violation: property.isOptional ? nil : .missingMandatoryProperty)
    }

    /// The conflict of a property that nobody has decided between united rows.
    private static func report(
        _ position: Int, _ sides: [GroupSide], of row: LoadedRow, generation: UInt64
    ) -> Conflict {
        let entity = row.table.entity
        let name = entity.properties[position].name
        let policy = entity.policies.properties[position]
        let visible = sides.firstIndex { side in
            row.shown(position).map { $0.stamp == side.stamp && $0.value == side.value } ?? false
        }
        return Conflict(
            id: ConflictID(entity: entity.name, row: row.row, subject: name), kind: .update,
            state: .unresolved, property: name, policy: policy,
            sides: sides.enumerated().map { index, side in
                let owner = row.eclipsed.first { $0.row == side.row } ?? row
                return ConflictSide(
                    dot: side.stamp.dot, timestamp: side.stamp.timestamp,
                    isVisible: index == visible, isDeleted: false, value: side.value, row: [],
                    object: owner.objectID)
            }, explanation: .choosing(policy), closedBy: nil, openedAt: generation)
    }

    private static func report(
        _ found: RegisterConflict, of row: LoadedRow, _ sight: GroupSight, generation: UInt64
    ) -> Conflict {
        let entity = row.table.entity
        let subject: String
        let property: String?
        var sides: [ConflictSide]
        switch found.subject {
        case .property(let position):
            let name = entity.properties[position].name
            subject = name
            property = name
            let register = row.state.properties[position]
            let shown = sight.shown(
                of: register.siblings, register.visible(by: found.policy), at: position)
            sides = register.siblings.map {
                ConflictSide(
                    dot: $0.dot, timestamp: $0.stamp.timestamp,
                    isVisible: $0.dot == shown,
                    isDeleted: false, value: $0.value, row: [])
            }
        case .object:
            subject = "object"
            property = nil
            sides = existenceSides(row, sight)
        }
        return Conflict(
            id: ConflictID(entity: entity.name, row: row.row, subject: subject),
            kind: found.kind, state: found.state, property: property, policy: found.policy,
            sides: sides, explanation: found.explanation, closedBy: nil, openedAt: generation)
    }

    private static func existenceSides(
        _ row: LoadedRow, _ sight: GroupSight
    ) -> [ConflictSide] {
        let entity = row.table.entity
        let wholeVisible =
            row.isAlive && entity.policies.isRowGrained && sight.showsWhole
            ? row.state.visibleWhole(row.table.policies(for: row.state))?.dot : nil
        return row.state.existence.siblings.map { sibling in
            var values: [ConflictSide.RowValue] = []
            switch sibling.value {
            case .dead: break
            case .whole(let whole):
                values = zip(entity.properties, whole).map { .init(name: $0.name, value: $1) }
            case .alive:
                // The values that this write gave properties and that still stand among their
                // siblings.
                for (position, register) in row.state.properties.enumerated() {
                    for written in register.siblings where written.dot == sibling.dot {
                        values.append(
                            .init(name: entity.properties[position].name, value: written.value))
                    }
                }
            }
            let isVisible =
                entity.policies.isRowGrained
                ? (row.isAlive ? sibling.dot == wholeVisible : !sibling.value.isAlive)
                : sibling.value.isAlive == row.isAlive
            return ConflictSide(
                dot: sibling.dot, timestamp: sibling.stamp.timestamp, isVisible: isVisible,
                isDeleted: !sibling.value.isAlive, value: nil, row: values)
        }
    }

    private static func relationship(_ link: ManagedObjectModel.Link) -> String? {
        link.name.split(separator: ".", maxSplits: 1).last.map(String.init)
    }

    /// The name of the conflict that there may be over a link.
    static func conflictID(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) -> ConflictID {
        ConflictID(
            entity: link.source, row: source, subject: "\(relationship(link) ?? "").\(target)")
    }

    /// The conflict of a link added and removed concurrently; nil where nobody disagrees.
    static func conflict(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, _ register: Register<Bool>,
        generation: UInt64
    ) -> Conflict? {
        guard register.isInConflict else { return nil }
        let visible = LinkCoding.visible(register, policy: link.policy)?.dot
        return Conflict(
            id: conflictID(link, source: source, target: target), kind: .link,
            state: link.policy.leavesUnresolved ? .unresolved : .settled,
            property: relationship(link), policy: link.policy,
            sides: register.siblings.map {
                ConflictSide(
                    dot: $0.dot, timestamp: $0.stamp.timestamp, isVisible: $0.dot == visible,
                    isDeleted: !$0.value, value: .reference(target), row: [])
            },
            explanation: link.policy.leavesUnresolved
                ? .deleting(link.policy) : .choosing(link.policy),
            closedBy: nil, openedAt: generation)
    }

    /// The conflict of a relationship that leads to too few objects, or too many; nil where it does
    /// not.
    ///
    /// It has no sides: no write of it is another one's rival.
    static func conflict(
        _ counted: CountedRelationship, of row: LoadedRow, count: Int, generation: UInt64
    ) -> Conflict? {
        guard let violation = counted.violation(of: count) else { return nil }
        let entity = row.table.entity
        let name = counted.relationship.name
        let (counts, remedy) =
            switch violation {
            case .missingMandatoryProperty:
                ("is mandatory and leads nowhere", "it leads to an object.")
            case .relationshipLacksMinimumCount:
                ("needs at least \(counted.least) objects and has \(count)", "others are added.")
            case .relationshipExceedsMaximumCount:
                ("may have \(counted.most) objects and has more", "some are taken away.")
            }
        return Conflict(
            id: ConflictID(entity: entity.name, row: row.row, subject: "\(name).count"),
            kind: .count, state: .settled, property: name, policy: entity.policies.entity,
            sides: [],
            explanation: Explanation(
                rule: .memberCount,
                text: "\(entity.name).\(name) \(counts): saves that had not seen each other "
                    + "came together. Saves of the object are refused until \(remedy)"),
            closedBy: nil, openedAt: generation, violation: violation)
    }
}
