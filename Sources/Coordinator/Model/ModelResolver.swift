import Merge

/// Turns entity descriptions into entities: inheritance, storage of relationships, checks.
///
/// Names are sorted by UTF-8 bytes throughout, so that every node resolves alike.
struct ModelResolver {
    var entities: [ManagedObjectModel.Entity] = []
    var links: [ManagedObjectModel.Link] = []

    private var byName: [String: EntityDescription] = [:]

    init(_ descriptions: [EntityDescription]) throws(ModelError) {
        // Names of tables, which SQLite compares without regard to case.
        var tables = Set<String>()
        for description in descriptions {
            try Self.check(name: description.name, place: description.name)
            guard !description.name.lowercased().hasPrefix("sqlite_") else {
                throw ModelError(
                    description.name, "names that begin with sqlite_ are SQLite's own")
            }
            guard tables.insert(description.name.lowercased()).inserted else {
                throw ModelError(description.name, "two entities have this name, but for case")
            }
            byName[description.name] = description
        }
        // A peer's model comes here too, so its size must not count more than once.
        var lineages: [[EntityDescription]] = []
        var families: [String: [String]] = [:]
        for description in descriptions {
            let ancestors = try lineage(of: description)
            for ancestor in ancestors {
                families[ancestor.name, default: []].append(description.name)
            }
            lineages.append(ancestors)
        }
        try Self.checkSize(lineages)
        for (description, ancestors) in zip(descriptions, lineages) {
            entities.append(
                try resolve(
                    description, lineage: ancestors, family: families[description.name] ?? [],
                    sharesTable: families[ancestors[0].name, default: []].count > 1))
        }
        for root in entities where root.name == root.root {
            try checkColumns(of: root)
        }
        links.sort { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
    }

    func description(named name: String) -> EntityDescription? { byName[name] }

    /// How many entities one may inherit from, over each other.
    private static let mostGenerations = 100

    /// How many properties all entities together may inherit.
    private static let mostInherited = 200_000

    /// Every entity is resolved with all that it inherits, which a small text can make very large.
    private static func checkSize(_ lineages: [[EntityDescription]]) throws(ModelError) {
        var inherited = 0
        for lineage in lineages {
            for ancestor in lineage.dropLast() {
                inherited += ancestor.attributes.count + ancestor.relationships.count
            }
        }
        guard inherited <= mostInherited else {
            throw ModelError(
                "model",
                "its entities inherit \(inherited) properties, counted for each; the most is "
                    + "\(mostInherited)")
        }
    }

    /// Names that mean something else in a ``ConflictID``.
    private static let reserved: Set<String> = ["object", "save", "unique"]

    static func check(name: String, place: String) throws(ModelError) {
        let bytes = Array(name.utf8)
        let isLetter: (UInt8) -> Bool = { (65...90).contains($0) || (97...122).contains($0) }
        guard let first = bytes.first, isLetter(first), bytes.count <= 120,
            bytes.allSatisfy({ isLetter($0) || (48...57).contains($0) || $0 == 95 })
        else {
            throw ModelError(
                place,
                "a name begins with a letter and has up to 120 letters, digits and "
                    + "underscores")
        }
    }

    /// The entity and all it inherits from, the root first.
    private func lineage(
        of description: EntityDescription
    ) throws(ModelError) -> [EntityDescription] {
        var chain = [description]
        while let parent = chain[0].parent {
            guard let next = byName[parent] else {
                throw ModelError(chain[0].name, "its parent \(parent) is not in the model")
            }
            guard chain.count <= byName.count else {
                throw ModelError(description.name, "it inherits from itself")
            }
            guard chain.count < Self.mostGenerations else {
                throw ModelError(
                    description.name, "it inherits from more than \(Self.mostGenerations) entities")
            }
            chain.insert(next, at: 0)
        }
        return chain
    }

    private func refuseNamed(_ policy: MergePolicy?, place: String) throws(ModelError) {
        if case .named(let named)? = policy {
            throw ModelError(place, "merge policy \(named.text) is for attributes")
        }
    }

    private mutating func resolve(
        _ description: EntityDescription, lineage: [EntityDescription], family: [String],
        sharesTable: Bool
    ) throws(ModelError) -> ManagedObjectModel.Entity {
        let policy = lineage.last { $0.mergePolicy != nil }?.mergePolicy ?? .error
        try refuseNamed(policy, place: description.name)
        let attributes = lineage.flatMap(\.attributes).sorted(by: Self.byName)
        var names = Set<String>()
        for name in attributes.map(\.name) + lineage.flatMap(\.relationships).map(\.name) {
            try Self.check(name: name, place: "\(description.name).\(name)")
            guard !Self.reserved.contains(name) else {
                throw ModelError(
                    "\(description.name).\(name)",
                    "the name is taken: conflicts of objects and of unique keys are called so")
            }
            guard names.insert(name.lowercased()).inserted else {
                throw ModelError(
                    "\(description.name).\(name)", "two properties have this name, but for case")
            }
        }
        // Inherited properties are checked where they are declared.
        for attribute in description.attributes {
            try check(attribute, place: "\(description.name).\(attribute.name)")
        }
        for relationship in description.relationships {
            try check(relationship, place: "\(description.name).\(relationship.name)")
            try refuseNamed(
                relationship.mergePolicy, place: "\(description.name).\(relationship.name)")
        }

        var owned: [(RelationshipDescription, EntityDescription)] = []
        for ancestor in lineage {
            for relationship in ancestor.relationships { owned.append((relationship, ancestor)) }
        }
        owned.sort { $0.0.name.utf8.lexicographicallyPrecedes($1.0.name.utf8) }

        var properties = attributes.filter(\.isWritten).map {
            ManagedObjectModel.Property(
                name: $0.name, content: .attribute($0.type), isOptional: $0.isOptional,
                defaultValue: $0.defaultValue, standIn: $0.standIn, validation: $0.validation)
        }
        let derived = attributes.compactMap { attribute in
            attribute.derivation.map {
                ManagedObjectModel.DerivedAttribute(
                    name: attribute.name, type: attribute.type, derivation: $0)
            }
        }
        var overrides: [String: MergePolicy] = [:]
        for attribute in attributes { overrides[attribute.name] = attribute.mergePolicy }
        var storages: [(RelationshipDescription, ManagedObjectModel.RelationshipStorage)] = []
        for (relationship, owner) in owned {
            let place = "\(description.name).\(relationship.name)"
            let storage = try storage(of: relationship, owner: owner, place: place)
            storages.append((relationship, storage))
            guard case .column = storage else { continue }
            overrides[relationship.name] = relationship.mergePolicy
            properties.append(
                ManagedObjectModel.Property(
                    name: relationship.name,
                    content: .toOne(destination: relationship.destination),
                    isOptional: relationship.isOptional, defaultValue: .null,
                    standIn: .null, validation: .init()))
        }
        properties.sort { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        for (name, override) in overrides.sorted(by: { $0.key < $1.key })
        where policy.granularity == .row || override.granularity == .row {
            throw ModelError(
                "\(description.name).\(name)",
                "a property can have a merge policy of its own only where both it and the "
                    + "entity's are property-grained")
        }
        let relationships = storages.map { relationship, storage in
            var storage = storage
            if case .column = storage {
                storage = .column(
                    position: properties.firstIndex { $0.name == relationship.name } ?? 0)
            }
            return ManagedObjectModel.Relationship(description: relationship, storage: storage)
        }
        let constraints = try lineage.flatMap(\.uniquenessConstraints).map {
            constraint throws(ModelError) in
            guard !constraint.isEmpty else {
                throw ModelError(description.name, "it has a constraint without attributes")
            }
            return try constraint.map { name throws(ModelError) in
                guard let position = properties.firstIndex(where: { $0.name == name }) else {
                    throw ModelError(
                        description.name, "its constraint names \(name), which is not stored")
                }
                // A reference's target may itself be eclipsed: groups must not turn on groups.
                guard !properties[position].isReference else {
                    throw ModelError(
                        description.name,
                        "its constraint names the relationship \(name); constraints are of "
                            + "attributes")
                }
                return position
            }
        }
        guard derived.count <= Self.maximumColumns else {
            throw ModelError(
                description.name, "it has more than \(Self.maximumColumns) derived attributes")
        }
        for attribute in description.attributes {
            try check(
                attribute, of: attributes, relationships,
                place:
                    "\(description.name).\(attribute.name)")
        }
        try check(
            description.indexes, of: description,
            columns: Set(properties.map(\.name) + derived.map(\.name)))
        return ManagedObjectModel.Entity(
            name: description.name, root: lineage[0].name, parent: description.parent,
            isAbstract: description.isAbstract, familyNames: family, sharesTable: sharesTable,
            attributes: attributes, relationships: relationships, properties: properties,
            derivedAttributes: derived,
            policies: EntityPolicies(
                entity: policy, properties: properties.map { overrides[$0.name] ?? policy }),
            uniquenessConstraints: constraints, indexes: description.indexes)
    }

    /// An index is named `Entity.index` in the file, and so is the table of a relationship's links.
    private func check(
        _ indexes: [IndexDescription], of entity: EntityDescription,
        columns: Set<String>
    ) throws(ModelError) {
        var names = Set<String>()
        for index in indexes {
            let place = "\(entity.name) index \(index.name)"
            try Self.check(name: index.name, place: place)
            let name = index.name.lowercased()
            guard names.insert(name).inserted else {
                throw ModelError(
                    place, "two indexes of the entity have this name, but for case")
            }
            let table = "\(entity.name).\(name)".lowercased()
            guard !links.contains(where: { $0.name.lowercased() == table }) else {
                throw ModelError(place, "the name is that of a relationship with a table")
            }
            guard !index.elements.isEmpty else { throw ModelError(place, "it has no elements") }
            guard index.elements.count <= Self.maximumColumns else {
                throw ModelError(place, "it has more than \(Self.maximumColumns) elements")
            }
            for element in index.elements
            where !columns.contains(element.property) {
                throw ModelError(place, "\(element.property) is not stored")
            }
        }
    }

    /// SQLite has no table with more columns than 2,000. A row's identity, version, timestamp and
    /// registers are four of them, and the entity of a row is one more where heirs share the table.
    private static let maximumColumns = 1995

    /// All entities of a hierarchy keep their properties in one table.
    private func checkColumns(of root: ManagedObjectModel.Entity) throws(ModelError) {
        var columns: [String: String] = [:]
        let family = root.familyNames.compactMap { name in entities.first { $0.name == name } }
        var derived: [String: ManagedObjectModel.DerivedAttribute] = [:]
        for entity in family {
            for attribute in entity.derivedAttributes {
                let known = derived.updateValue(attribute, forKey: attribute.name)
                guard known == nil || known == attribute else {
                    throw ModelError(
                        "\(entity.name).\(attribute.name)",
                        "another entity of its hierarchy derives an attribute of this name otherwise"
                    )
                }
            }
        }
        for entity in family {
            let name = entity.name
            if let both = entity.properties.first(where: { derived[$0.name] != nil }) {
                throw ModelError(
                    "\(name).\(both.name)",
                    "another entity of its hierarchy has a derived attribute of this name")
            }
            for property in entity.columns {
                let known = columns.updateValue(
                    property.name, forKey: property.name.lowercased())
                guard known == nil || known == property.name else {
                    throw ModelError(
                        "\(name).\(property.name)",
                        "another entity of its hierarchy has a property of this name, but for case")
                }
            }
            guard columns.count <= Self.maximumColumns else {
                throw ModelError(
                    root.name,
                    "it and its heirs have more than \(Self.maximumColumns) attributes and to-ones; "
                        + "SQLite has no table for so many")
            }
        }
    }

    private static func byName(_ left: AttributeDescription, _ right: AttributeDescription) -> Bool
    {
        left.name.utf8.lexicographicallyPrecedes(right.name.utf8)
    }

    /// A store keeps its model as JSON, so whatever that may not say, no model may.
    private func check(
        _ attribute: AttributeDescription, place: String
    ) throws(ModelError) {
        for value in [attribute.defaultValue, attribute.standIn]
        where !value.isNull && !Validation.fits(value, type: attribute.type) {
            throw ModelError(place, "its default is no \(attribute.type.rawValue)")
        }
        let bounds = [attribute.validation.minimum, attribute.validation.maximum]
        for case let bound? in bounds where !Self.isBound(bound, of: attribute.type) {
            throw ModelError(
                place, "its minimum or maximum does not bound \(attribute.type.rawValue)")
        }
        if let minimum = attribute.validation.minimum, let maximum = attribute.validation.maximum,
            ValueOrder.compare(minimum, maximum) == .after
        {
            throw ModelError(place + ".validation", "\"min\" is above \"max\"")
        }
        guard let pattern = attribute.validation.pattern else { return }
        guard attribute.type == .string else {
            throw ModelError(place + ".validation", "only a string can have a \"pattern\"")
        }
        do {
            _ = try RegularExpression(pattern)
        } catch { throw ModelError(place + ".validation", "\"pattern\": \(error.message)") }
    }

    private func check(
        _ relationship: RelationshipDescription, place: String
    ) throws(ModelError) {
        let (minimum, maximum) = (relationship.minimumCount, relationship.maximumCount)
        let counts = RelationshipDescription.counts
        guard counts.contains(minimum), counts.contains(maximum) else {
            throw ModelError(place, "its counts are to be between 0 and \(counts.upperBound)")
        }
        guard relationship.isToMany || (minimum <= 1 && maximum <= 1) else {
            throw ModelError(place, "a to-one has no count above 1")
        }
        guard maximum == 0 || minimum <= maximum else {
            throw ModelError(place, "\"minCount\" is above \"maxCount\"")
        }
    }

    /// Whether a value can be compared with those of a type: values of different kinds have an
    /// order without meaning, which would refuse every value or none.
    private static func isBound(_ bound: PropertyValue, of type: AttributeType) -> Bool {
        switch type {
        // Their lengths are bounded.
        case .string, .binary: Validation.fits(bound, type: .integer64)
        case .boolean, .uuid, .uri: false
        case .double, .float:
            Validation.fits(bound, type: .double) || Validation.fits(bound, type: .integer64)
        case .integer16, .integer32, .integer64, .decimal, .date:
            Validation.fits(bound, type: type)
        }
    }

    /// Decides where a relationship's state is kept (DESIGN section 5.4).
    private mutating func storage(
        of relationship: RelationshipDescription, owner: EntityDescription, place: String
    ) throws(ModelError) -> ManagedObjectModel.RelationshipStorage {
        guard let destination = byName[relationship.destination] else {
            throw ModelError(place, "its destination \(relationship.destination) is not there")
        }
        guard let inverseName = relationship.inverse else {
            guard relationship.isToMany else { return .column(position: 0) }
            return link(
                "\(owner.name).\(relationship.name)", owner, destination.name, isFirst: true)
        }
        let candidates = try lineage(of: destination)
        guard
            let inverseOwner = candidates.last(where: {
                $0.relationships.contains { $0.name == inverseName }
            }), let inverse = inverseOwner.relationships.first(where: { $0.name == inverseName })
        else {
            throw ModelError(
                place, "its inverse \(relationship.destination).\(inverseName) is not there")
        }
        guard inverse.inverse == relationship.name else {
            throw ModelError(
                place, "\(relationship.destination).\(inverseName) does not name it as inverse")
        }
        let own = "\(owner.name).\(relationship.name)"
        let other = "\(inverseOwner.name).\(inverseName)"
        guard own != other || relationship.isToMany else {
            // Each of two rows would keep its own half of one fact, and merging settles each half
            // by itself: P could show Q while Q shows nobody.
            throw ModelError(
                place,
                "a to-one cannot be its own inverse; make it a to-many with a maxCount of 1, or "
                    + "two relationships that are each other's inverse")
        }
        let isFirst = own == other || own.utf8.lexicographicallyPrecedes(other.utf8)
        switch (relationship.isToMany, inverse.isToMany) {
        case (false, true): return .column(position: 0)
        case (true, false):
            return .inverseColumn(entity: inverseOwner.name, property: inverseName)
        case (false, false):
            return isFirst
                ? .column(position: 0)
                : .inverseColumn(entity: inverseOwner.name, property: inverseName)
        case (true, true):
            return isFirst
                ? link(own, owner, inverseOwner.name, isFirst: true)
                : link(other, inverseOwner, owner.name, isFirst: false)
        }
    }

    private mutating func link(
        _ name: String, _ first: EntityDescription, _ target: String, isFirst: Bool
    ) -> ManagedObjectModel.RelationshipStorage {
        if !links.contains(where: { $0.name == name }) {
            let policy =
                (try? lineage(of: first))?.last { $0.mergePolicy != nil }?.mergePolicy ?? .error
            links.append(.init(name: name, source: first.name, target: target, policy: policy))
        }
        return .link(name: name, isFirst: isFirst)
    }
}
