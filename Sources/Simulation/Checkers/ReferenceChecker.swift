internal import Coordinator
internal import Merge

/// Law 6: references and constraints hold at every generation, by what is read alone.
///
/// Of any reading the values fit their types, and the rows satisfy the uniqueness constraints. Of a
/// whole one every reference leads to a row that is there (an eclipsed one is not), a one-to-one's
/// target is claimed once, and members are there and know it.
struct ReferenceChecker: Checker {
    let law = 6

    private var findings = Findings()

    mutating func observe(_ observation: Observation, _ run: RunContext) -> [String] {
        switch observation {
        case .read(let node, let reading), .pinned(let node, _, let reading),
            .pinRead(let node, _, let reading):
            check(reading, node, run.model)
        case .settled(let final, _):
            for node in final.keys.sorted() {
                if let reading = final[node] { check(reading, node, run.model) }
            }
        default: break
        }
        return findings.take()
    }

    private mutating func check(_ reading: Reading, _ node: Int, _ model: ManagedObjectModel) {
        let place = Telling.node(node)
        for entity in reading.entities { checkValues(entity, place, model) }
        checkUniqueness(reading, place, model)
        guard reading.isWhole else { return }
        let rows = LivingRows(reading, model)
        for id in rows.repeated {
            findings.note("rows", "\(place) \(id): expected once, found twice in one reading")
        }
        for entity in reading.entities {
            guard let described = model.entity(named: entity.entity) else { continue }
            checkReferences(entity, described, rows, place, model)
        }
        checkClaims(reading, place, model)
        checkMembers(reading, rows, place, model)
    }

    // MARK: Values

    private mutating func checkValues(
        _ reading: Reading.EntityReading, _ place: String, _ model: ManagedObjectModel
    ) {
        guard let entity = model.entity(named: reading.entity) else {
            findings.note("type", "\(place): \(reading.entity) is no entity of the model")
            return
        }
        for row in reading.rows {
            if row.objectID.entityName != entity.name || entity.isAbstract {
                findings.note("type", "\(place) \(row.objectID): found among \(entity.name)")
            }
            for (property, value) in zip(entity.properties, row.values) {
                guard let expected = Self.misfit(value, property) else { continue }
                findings.note(
                    "type",
                    "\(place) \(row.objectID).\(property.name): expected \(expected), found "
                        + Telling.value(value))
            }
        }
    }

    /// The value that should have been there; nil if the one found may be.
    ///
    /// A mandatory reference may read as null, where a merge took its target away.
    private static func misfit(
        _ value: PropertyValue, _ property: ManagedObjectModel.Property
    ) -> String? {
        switch property.content {
        case .attribute(let type):
            if value.isNull { return property.isOptional ? nil : "a value" }
            return Validation.fits(value, type: type) ? nil : type.rawValue
        case .toOne:
            if case .reference = value { return nil }
            return value.isNull ? nil : "a reference"
        }
    }

    // MARK: References

    private mutating func checkReferences(
        _ reading: Reading.EntityReading, _ entity: ManagedObjectModel.Entity,
        _ rows: LivingRows, _ place: String, _ model: ManagedObjectModel
    ) {
        for (position, property) in entity.properties.enumerated() {
            guard case .toOne(let destination) = property.content else { continue }
            for row in reading.rows where position < row.values.count {
                guard case .reference(let target) = row.values[position] else { continue }
                if rows.has(target, of: destination) { continue }
                findings.note(
                    "reference",
                    "\(place) \(row.objectID).\(property.name): expected a living \(destination) "
                        + "or null, found \(target)")
            }
        }
    }

    private struct Claim: Hashable {
        let owner: String
        let property: String
        let target: RowID
    }

    private mutating func checkClaims(
        _ reading: Reading, _ place: String, _ model: ManagedObjectModel
    ) {
        var claims: [Claim: ManagedObjectID] = [:]
        for entity in reading.entities {
            guard let described = model.entity(named: entity.entity) else { continue }
            for relationship in described.relationships {
                guard case .column(let position) = relationship.storage,
                    let owner = Self.owner(of: relationship, described, model)
                else { continue }
                for row in entity.rows where position < row.values.count {
                    guard case .reference(let target) = row.values[position] else { continue }
                    let claim = Claim(owner: owner, property: relationship.name, target: target)
                    if let other = claims.updateValue(row.objectID, forKey: claim) {
                        findings.note(
                            "claim",
                            "\(place) \(row.objectID).\(relationship.name): expected the only one "
                                + "that leads to \(target), found \(other) too")
                    }
                }
            }
        }
    }

    /// The entity that declares a one-to-one kept in a column; nil for any other relationship.
    private static func owner(
        of relationship: ManagedObjectModel.Relationship, _ entity: ManagedObjectModel.Entity,
        _ model: ManagedObjectModel
    ) -> String? {
        guard !relationship.isToMany, let name = relationship.description.inverse,
            let inverse = model.entity(named: relationship.destination)?
                .relationship(named: name), !inverse.isToMany
        else { return nil }
        if case .inverseColumn(let owner, _) = inverse.storage { return owner }
        return entity.root
    }

    // MARK: Members

    private struct End: Hashable {
        let object: RowID
        let relationship: String
    }

    private mutating func checkMembers(
        _ reading: Reading, _ rows: LivingRows, _ place: String, _ model: ManagedObjectModel
    ) {
        var ends: [End: Set<RowID>] = [:]
        for members in reading.members {
            ends[End(object: members.object.row, relationship: members.relationship)] = Set(
                members.members.map(\.row))
        }
        for members in reading.members {
            let name = "\(place) \(members.object).\(members.relationship)"
            guard
                let relationship = model.entity(named: members.object.entityName)?
                    .relationship(named: members.relationship)
            else {
                findings.note("members", "\(name): no such relationship")
                continue
            }
            if !rows.has(members.object.row, of: members.object.entityName) {
                findings.note("members", "\(name): expected a living object, found it gone")
            }
            for member in members.members {
                if !rows.has(member.row, of: relationship.destination) {
                    findings.note(
                        "members",
                        "\(name): expected living members of \(relationship.destination), found "
                            + "\(member)")
                }
                guard let inverse = relationship.description.inverse,
                    let back = ends[End(object: member.row, relationship: inverse)]
                else { continue }
                if !back.contains(members.object.row) {
                    findings.note(
                        "members",
                        "\(name): expected that \(member).\(inverse) leads back, found \(back.sorted())"
                    )
                }
            }
        }
    }

    // MARK: Uniqueness

    private struct Key: Hashable {
        let scope: String
        let names: [String]
        let values: [PropertyValue]
    }

    private mutating func checkUniqueness(
        _ reading: Reading, _ place: String, _ model: ManagedObjectModel
    ) {
        var holders: [Key: ManagedObjectID] = [:]
        for entity in reading.entities {
            guard let described = model.entity(named: entity.entity) else { continue }
            for constraint in described.uniquenessConstraints {
                let names = constraint.map { described.properties[$0].name }
                let scope = Self.scope(of: names, described, model)
                for row in entity.rows where row.values.count == described.columns.count {
                    let values = constraint.map { Self.comparable(row.values[$0]) }
                    if values.contains(where: \.isNull) { continue }
                    let key = Key(scope: scope, names: names, values: values)
                    // A client may ask for one row twice.
                    if let other = holders.updateValue(row.objectID, forKey: key),
                        other != row.objectID
                    {
                        findings.note(
                            "unique",
                            "\(place) \(row.objectID): expected the only visible \(scope) with "
                                + "this \(names.joined(separator: " and ")), found \(other) too")
                    }
                }
            }
        }
    }

    /// The two zeros are one number.
    private static func comparable(_ value: PropertyValue) -> PropertyValue {
        value == .double(-0.0) ? .double(0) : value
    }

    /// The highest entity that has a constraint: its rows compete, and those of its heirs.
    private static func scope(
        of names: [String], _ entity: ManagedObjectModel.Entity, _ model: ManagedObjectModel
    ) -> String {
        var scope = entity
        while let parent = scope.parent.flatMap({ model.entity(named: $0) }),
            parent.uniquenessConstraints.contains(where: { constraint in
                constraint.map { parent.properties[$0].name } == names
            })
        {
            scope = parent
        }
        return scope.name
    }
}

/// The rows of a whole reading.
private struct LivingRows {
    private var rows: [RowID: [String]] = [:]
    private let model: ManagedObjectModel
    /// Rows that one hierarchy has twice.
    private(set) var repeated: [ManagedObjectID] = []

    init(_ reading: Reading, _ model: ManagedObjectModel) {
        self.model = model
        for id in reading.entities.flatMap(\.rows).map(\.objectID) {
            let root = model.entity(named: id.entityName)?.root
            let known = rows[id.row] ?? []
            if known.contains(where: { model.entity(named: $0)?.root == root }) {
                repeated.append(id)
            }
            rows[id.row] = known + [id.entityName]
        }
    }

    /// Whether there is that row, of that entity or one that inherits from it.
    func has(_ row: RowID, of entity: String) -> Bool {
        guard let names = rows[row] else { return false }
        let family = model.entity(named: entity)?.familyNames ?? [entity]
        return names.contains { family.contains($0) }
    }
}
