import Merge

/// A to-one that keeps a one-to-one, as an entity has it that declares or inherits it.
struct ExclusiveReference {
    /// Its place among the entity's properties.
    let position: Int
    /// Its name.
    let property: String
    /// The entity that declares it, by whose policy all claims are settled: entities that
    /// inherit it may have policies of their own, and one target takes one decision.
    let owner: String
    /// The root of the entity it leads to.
    let root: String
}

/// A to-many with a least or a greatest count; or a mandatory to-one whose state is at the other side
/// of a one-to-one, as that also is broken by changes of rows that are not its own.
struct CountedRelationship {
    let relationship: ManagedObjectModel.Relationship
    /// The least count that is valid.
    let least: Int
    /// The greatest, or 0 for none.
    let most: Int

    /// - Returns: nil of any other relationship.
    init?(_ relationship: ManagedObjectModel.Relationship) {
        if case .column = relationship.storage { return nil }
        let description = relationship.description
        let isToMany = relationship.isToMany
        self.relationship = relationship
        least = max(isToMany ? description.minimumCount : 0, description.isOptional ? 0 : 1)
        most = isToMany ? description.maximumCount : 0
        guard least > 0 || most > 0 else { return nil }
    }

    /// The mistake in a count; nil if it is valid. An optional to-many may be empty, whatever its least
    /// count is, as in Core Data.
    func violation(of count: Int) -> ConflictViolation? {
        if count == 0, relationship.isToMany, relationship.description.isOptional { return nil }
        if count < least {
            return relationship.isToMany
                ? .relationshipLacksMinimumCount : .missingMandatoryProperty
        }
        return most > 0 && count > most ? .relationshipExceedsMaximumCount : nil
    }
}

/// A to-one whose other side is counted.
struct CountedReference {
    let position: Int
    let counted: CountedRelationship
    /// The entity it leads to, and the root of that.
    let target: String
    let root: String
}

/// How one entity's rows are kept: its SQL, and its properties' lasting numbers.
///
/// Built once at opening; the hot paths look nothing up by name.
final class EntityTable: Sendable {
    let entity: ManagedObjectModel.Entity
    let code: Int64
    /// The models that rows were written by.
    let history: ModelHistory
    /// The lasting number of each property, by position.
    let propertyCodes: [Int64]
    let positionsByCode: [Int64: Int]
    /// Positions of to-ones, with the root table of their destination.
    let references: [(position: Int, root: String)]
    /// To-ones that keep a one-to-one: one row alone may show a target.
    let exclusive: [ExclusiveReference]

    /// The entity that declares each property, by position. Of hierarchies without constraints too:
    /// their rows may be in groups that a former model made, until a migration has dissolved them.
    let propertyOwners: [String]
    /// The uniqueness constraints, inherited ones included, each once.
    let constraints: [UniqueConstraint]
    /// The positions of all properties of constraints.
    let constrained: Set<Int>
    /// Whether some entity of the hierarchy has a constraint, so that rows may be eclipsed.
    let isGrouped: Bool
    /// Whether no relationship leads from an entity of the hierarchy or to one, so that what is done with a
    /// row is nothing to any other.
    let isApart: Bool
    /// The statement that frees a row's keys, while others of its group are written.
    let freeKeysSQL: String

    /// Positions of properties that an insert must give a value.
    let mandatory: [Int]
    /// Those of them that are to-ones.
    let mandatoryReferences: [Int]
    /// The values that an insert gives properties that it does not assign; nulls left out.
    let defaults: [(position: Int, value: PropertyValue)]
    /// Positions of attributes that history keeps of a deleted object.
    let preserved: [Int]
    /// Its relationships that are counted.
    let counted: [CountedRelationship]
    /// To-ones whose other side is counted.
    let countedReferences: [CountedReference]
    /// Each property's type where a value of that type needs no further check; nil where it does.
    let plainTypes: [AttributeType?]

    /// The columns of derived attributes.
    let derived: DerivedColumns
    /// Selects of a row what derived attributes that look into to-manys hold, and what they are to hold.
    let collectedSQL: String
    /// Writes what they are to hold.
    let writeCollectedSQL: String

    let insertSQL: String
    let updateSQL: String
    let deleteSQL: String
    let selectSQL: String
    /// Selects the rows of the entity itself from one number to another: the first four columns, then
    /// properties.
    let selectOwnSQL: String
    /// Deletes those rows.
    let deleteRangeSQL: String
    /// What each property holds, by position.
    let contents: [ManagedObjectModel.Property.Content]
    /// Selects the rows of the entity that a JSON list names.
    let selectManySQL: String

    /// The columns every snapshot query selects, in the order ``StoreReader`` decodes:
    /// id, version, timestamp, registers, then properties and derived attributes.
    let selectedColumns: [String]

    init(
        _ entity: ManagedObjectModel.Entity, names: NameTable, model: ManagedObjectModel,
        history: ModelHistory
    ) {
        self.entity = entity
        self.history = history
        code = names.entities[entity.name] ?? 0
        propertyCodes = entity.properties.map {
            names.code(ofProperty: $0.name, root: entity.root) ?? 0
        }
        positionsByCode = Dictionary(
            zip(propertyCodes, 0...), uniquingKeysWith: { first, _ in first })
        references = entity.properties.enumerated().compactMap { position, property in
            guard case .toOne(let destination) = property.content else { return nil }
            return (position, model.entity(named: destination)?.root ?? destination)
        }
        preserved = entity.attributes.compactMap { attribute in
            attribute.preservesValueInHistoryOnDeletion ? entity.position(of: attribute.name) : nil
        }.sorted()
        exclusive = entity.relationships.compactMap { relationship in
            guard case .column(let position) = relationship.storage,
                let inverse = relationship.description.inverse,
                let destination = model.entity(named: relationship.destination),
                let other = destination.relationship(named: inverse), !other.isToMany
            else { return nil }
            return ExclusiveReference(
                position: position, property: relationship.name,
                owner: model.declarer(of: relationship.name, in: entity), root: destination.root)
        }
        constraints = UniqueConstraint.all(of: entity, model: model, names: names)
        constrained = Set(entity.uniquenessConstraints.flatMap { $0 })
        propertyOwners = entity.properties.map { model.declarer(of: $0.name, in: entity) }
        isGrouped = model.hasConstraints(root: entity.root)
        isApart = !model.entities.contains { other in
            other.relationships.contains { relationship in
                other.root == entity.root
                    || model.entity(named: relationship.destination)?.root == entity.root
            }
        }
        let keys = constrained.sorted().map {
            "\(Self.quote(entity.properties[$0].name)) = NULL"
        }
        freeKeysSQL =
            "UPDATE \(Self.quote(entity.root)) SET \(keys.joined(separator: ", ")) WHERE _id = ?1"
        mandatory = entity.properties.indices.filter { !entity.properties[$0].isOptional }
        mandatoryReferences = references.map(\.position).filter {
            !entity.properties[$0].isOptional
        }
        defaults = entity.properties.enumerated().compactMap {
            $1.defaultValue.isNull ? nil : ($0, $1.defaultValue)
        }
        counted = entity.relationships.compactMap(CountedRelationship.init)
        countedReferences = entity.relationships.compactMap { relationship in
            guard case .column(let position) = relationship.storage,
                let inverse = relationship.description.inverse,
                let destination = model.entity(named: relationship.destination),
                let counted = destination.relationship(named: inverse)
                    .flatMap(CountedRelationship.init)
            else { return nil }
            return CountedReference(
                position: position, counted: counted, target: destination.name,
                root: destination.root)
        }
        plainTypes = entity.properties.map { property in
            guard case .attribute(let type) = property.content,
                property.validation == AttributeValidation()
            else { return nil }
            return type
        }
        let table = Self.quote(entity.root)
        let properties = entity.properties.map { Self.quote($0.name) }
        let system = ["_version", "_timestamp", "_registers"]
        let entityColumn = entity.sharesTable ? ["_entity"] : []
        derived = DerivedColumns(entity, model)
        let own = derived.own.map { Self.quote($0.name) }
        let collected = derived.collected.map { Self.quote($0.name) }
        let pairs = derived.collected.map { "\(Self.quote($0.name)), \($0.value)" }
        collectedSQL = "SELECT \(pairs.joined(separator: ", ")) FROM \(table) WHERE _id = ?1"
        let computed = collected.enumerated().map { "\($1) = ?\($0 + 2)" }
        writeCollectedSQL =
            "UPDATE \(table) SET \(computed.joined(separator: ", ")) WHERE _id = ?1"
        selectedColumns =
            ["_id"] + system + properties + entity.derivedAttributes.map { Self.quote($0.name) }
        let inserted = ["_id"] + system + properties + own + entityColumn
        insertSQL =
            "INSERT INTO \(table) (\(inserted.joined(separator: ", "))) VALUES ("
            + (1...inserted.count).map { "?\($0)" }.joined(separator: ", ") + ")"
        let assigned = (system + properties + own).enumerated().map { "\($1) = ?\($0 + 2)" }
        updateSQL = "UPDATE \(table) SET \(assigned.joined(separator: ", ")) WHERE _id = ?1"
        deleteSQL = "DELETE FROM \(table) WHERE _id = ?1"
        selectSQL =
            "SELECT \(selectedColumns.joined(separator: ", ")) FROM \(table) WHERE _id = ?1"
        let range =
            "WHERE _id BETWEEN ?1 AND ?2" + (entity.sharesTable ? " AND _entity = \(code)" : "")
        selectOwnSQL =
            "SELECT \((["_id"] + system + properties).joined(separator: ", ")) FROM \(table) "
            + "\(range) ORDER BY _id"
        deleteRangeSQL = "DELETE FROM \(table) \(range)"
        contents = entity.properties.map(\.content)
        selectManySQL =
            "SELECT \(selectedColumns.joined(separator: ", ")) FROM \(table) "
            + "WHERE _id IN (SELECT value FROM json_each(?1))"
            + (entity.sharesTable ? " AND _entity = \(code)" : "")
    }

    /// The statement that writes some properties of a row: its ID, the three system columns, and these. With
    /// no others, so that indexes of others are not written.
    func updateSQL(at positions: [Int]) -> String {
        let names = positions.map { entity.properties[$0].name } + derived.own.map(\.name)
        let assigned =
            (["_version", "_timestamp", "_registers"] + names.map(Self.quote)).enumerated()
            .map { "\($1) = ?\($0 + 2)" }
        return "UPDATE \(Self.quote(entity.root)) SET \(assigned.joined(separator: ", ")) "
            + "WHERE _id = ?1"
    }

    /// Whether the entity has no derived attributes.
    var derivesNothing: Bool { derived.own.isEmpty && derived.collected.isEmpty }

    /// Whether a relationship of the entity is counted.
    var hasCounts: Bool { !counted.isEmpty }

    /// Whether its rows are what others count.
    var isCounting: Bool { !countedReferences.isEmpty }

    /// Whether a row's coming or going changes what there is to count.
    var isCounted: Bool { hasCounts || isCounting }

    /// For each property its position in another entity of the hierarchy; nil where that has no
    /// property of the same declaration.
    func positions(in other: EntityTable) -> [Int?] {
        entity.properties.enumerated().map { position, property in
            guard let found = other.entity.position(of: property.name),
                other.propertyOwners[found] == propertyOwners[position]
            else { return nil }
            return found
        }
    }

    static func quote(_ name: String) -> String {
        "\""
            + name.split(separator: "\"", omittingEmptySubsequences: false)
            .joined(separator: "\"\"") + "\""
    }
}
