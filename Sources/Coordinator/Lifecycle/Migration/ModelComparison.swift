import Merge

/// Finds the differences between two models, and what of them cannot be inferred.
struct ModelComparison {
    let first: ManagedObjectModel
    let second: ManagedObjectModel
    private(set) var found: [ModelDifference] = []

    init(_ first: ManagedObjectModel, _ second: ManagedObjectModel) {
        self.first = first
        self.second = second
    }

    mutating func compare() {
        checkIdentities(first)
        checkIdentities(second)
        compareNames()
        for old in first.descriptions {
            guard let new = second.descriptions.first(where: { $0.identity == old.identity })
            else {
                note(old.name, .presence, "is there", "is not")
                continue
            }
            compare(old, new)
        }
        for new in second.descriptions
        where !first.descriptions.contains(where: { $0.identity == new.identity }) {
            note(
                new.name, .presence, "is not there", "is",
                obstacle: chained(
                    new.renamingIdentifier,
                    first.descriptions.map { ($0.name, $0.identity) }))
        }
        sort()
    }

    private mutating func sort() {
        found.sort { ($0.place, $0.part.rawValue) < ($1.place, $1.part.rawValue) }
    }

    /// Compares what is no part of the version hash, but stands for values that other models lack.
    mutating func compareDefaults() {
        for old in first.descriptions {
            guard let new = second.descriptions.first(where: { $0.identity == old.identity })
            else { continue }
            for attribute in old.attributes where attribute.isWritten {
                guard
                    let other = new.attributes.first(where: {
                        $0.identity == attribute.identity && $0.isWritten
                    }), other.standIn != attribute.standIn
                else { continue }
                note(
                    "\(new.name).\(other.name)", .defaultValue,
                    AttributeDescription.text(of: attribute.standIn),
                    AttributeDescription.text(of: other.standIn))
            }
        }
        sort()
    }

    private mutating func note(
        _ place: String, _ part: ModelDifference.Part, _ old: String, _ new: String,
        obstacle: String? = nil
    ) {
        found.append(
            ModelDifference(
                place: place, part: part, first: old, second: new, obstacle: obstacle))
    }

    /// Nothing would distinguish two of one identity.
    private mutating func checkIdentities(_ model: ManagedObjectModel) {
        var groups = [("", model.descriptions.map(\.identity))]
        for entity in model.entities {
            groups.append((entity.name + ".", entity.identities.values.sorted()))
        }
        for (place, identities) in groups {
            let sorted = identities.sorted()
            for (one, next) in zip(sorted, sorted.dropFirst()) where one == next {
                note(
                    place + one, .identity, "twice", "once",
                    obstacle: "two have the identity \"\(one)\": what is new needs another name "
                        + "than what was renamed had")
            }
        }
    }

    /// Names that both have must have one identity. Otherwise what one of them calls so would be
    /// gone in the other without a word, and what has its name would be taken for it.
    private mutating func compareNames() {
        for old in first.descriptions {
            if let new = second.descriptions.first(where: { $0.name == old.name }) {
                compareIdentity(new.name, old.identity, new.identity)
            }
            guard let new = second.descriptions.first(where: { $0.identity == old.identity }),
                let before = first.entity(named: old.name)?.storedIdentities,
                let after = second.entity(named: new.name)?.storedIdentities
            else { continue }
            // Inherited properties are compared with those that declare them.
            for name in old.propertyNames.union(new.propertyNames) {
                guard let one = before[name], let other = after[name] else { continue }
                compareIdentity("\(new.name).\(name)", one.identity, other.identity)
            }
        }
    }

    private mutating func compareIdentity(_ place: String, _ old: String, _ new: String) {
        guard old != new else { return }
        note(
            place, .identity, old, new,
            obstacle: "its renamingIdentifier, or else its name, was \"\(old)\" and cannot be "
                + "\"\(new)\": what keeps its name keeps its renamingIdentifier too, and what is new "
                + "needs another name")
    }

    /// Why a renaming identifier leads nowhere: it names what was renamed before.
    private func chained(
        _ identifier: String?, _ former: [(name: String, identity: String)]
    ) -> String? {
        guard let identifier,
            let other = former.first(where: { $0.name == identifier && $0.identity != $0.name })
        else { return nil }
        return "its renamingIdentifier must be \"\(other.identity)\", the first name of "
            + "\"\(identifier)\""
    }

    // MARK: Entities

    private mutating func compare(_ old: EntityDescription, _ new: EntityDescription) {
        guard let oldEntity = first.entity(named: old.name),
            let newEntity = second.entity(named: new.name)
        else { return }
        if old.name != new.name { note(new.name, .name, old.name, new.name) }
        let oldParent = old.parent.map(first.identity)
        let newParent = new.parent.map(second.identity)
        if oldParent != newParent {
            note(
                new.name, .hierarchy, "inherits from \(old.parent ?? "none")",
                "from \(new.parent ?? "none")",
                obstacle: "an entity's parent cannot change")
        }
        if old.isAbstract != new.isAbstract {
            note(
                new.name, .hierarchy, old.isAbstract ? "is abstract" : "is not abstract",
                new.isAbstract ? "is" : "is not",
                obstacle: new.isAbstract ? "there may be objects of it" : nil)
        }
        let (oldPolicy, newPolicy) = (oldEntity.policies.entity, newEntity.policies.entity)
        if oldPolicy != newPolicy {
            note(
                new.name, .mergePolicy, oldPolicy.rawValue, newPolicy.rawValue,
                obstacle: oldPolicy.granularity == newPolicy.granularity
                    ? nil : "a merge policy's granularity cannot change")
        }
        compareModifier(new.name, old.hashModifier, new.hashModifier)
        compareAttributes(old, new, oldEntity)
        compareRelationships(old, new)
        compareMoved(old, oldEntity, new, newEntity)
        let oldConstraints = constraints(old, oldEntity)
        let newConstraints = constraints(new, newEntity)
        if oldConstraints != newConstraints {
            note(
                new.name, .constraint, oldConstraints.joined(separator: " "),
                newConstraints.joined(separator: " "))
        }
    }

    private func constraints(
        _ description: EntityDescription, _ entity: ManagedObjectModel.Entity
    ) -> [String] {
        let identities = entity.identities
        return description.uniquenessConstraints.map { names in
            "[\(names.map { identities[$0] ?? $0 }.joined(separator: ", "))]"
        }.sorted()
    }

    private mutating func compareModifier(_ place: String, _ old: String?, _ new: String?) {
        if old != new { note(place, .hashModifier, old ?? "none", new ?? "none") }
    }

    private mutating func comparePolicy(
        _ place: String, _ old: MergePolicyName, _ new: MergePolicyName
    ) {
        if old != new { note(place, .mergePolicy, old.text, new.text) }
    }

    // MARK: Properties

    private mutating func compareAttributes(
        _ old: EntityDescription, _ new: EntityDescription, _ oldEntity: ManagedObjectModel.Entity
    ) {
        let before = old.attributes.filter { $0.isWritten }
        let after = new.attributes.filter { $0.isWritten }
        for attribute in before {
            let place = "\(new.name).\(attribute.name)"
            guard let other = after.first(where: { $0.identity == attribute.identity }) else {
                note(place, .presence, "is there", "is not")
                continue
            }
            compare(attribute, other, in: new)
        }
        let formerNames = oldEntity.identities.map { (name: $0.key, identity: $0.value) }
        for attribute in after
        where !before.contains(where: { $0.identity == attribute.identity }) {
            var obstacle = chained(attribute.renamingIdentifier, formerNames)
            if !attribute.isOptional, attribute.standIn.isNull {
                obstacle = "it is mandatory and has no default for the objects there are"
            }
            note(
                "\(new.name).\(attribute.name)", .presence, "is not there", "is",
                obstacle: obstacle)
        }
    }

    private mutating func compare(
        _ old: AttributeDescription, _ new: AttributeDescription, in entity: EntityDescription
    ) {
        let place = "\(entity.name).\(new.name)"
        if old.name != new.name { note(place, .name, old.name, new.name) }
        if old.type != new.type {
            note(
                place, .type, old.type.rawValue, new.type.rawValue,
                obstacle: "an attribute's type cannot change")
        }
        compareOptionality(
            place, old.isOptional, new.isOptional,
            obstacle: new.standIn.isNull
                ? "it becomes mandatory and has no default for the objects that have none" : nil)
        comparePolicy(place, .init(old.mergePolicy), .init(new.mergePolicy))
        compareModifier(place, old.hashModifier, new.hashModifier)
    }

    private mutating func compareOptionality(
        _ place: String, _ old: Bool, _ new: Bool, obstacle: String?
    ) {
        guard old != new else { return }
        note(
            place, .optionality, old ? "is optional" : "is mandatory",
            new ? "is optional" : "is mandatory", obstacle: new ? nil : obstacle)
    }

    private mutating func compareRelationships(
        _ old: EntityDescription, _ new: EntityDescription
    ) {
        for relationship in old.relationships {
            let identity = relationship.identity
            guard let other = new.relationships.first(where: { $0.identity == identity }) else {
                note("\(new.name).\(relationship.name)", .presence, "is there", "is not")
                continue
            }
            compare(relationship, old, other, new)
        }
        let formerNames = old.relationships.map { (name: $0.name, identity: $0.identity) }
        for relationship in new.relationships
        where !old.relationships.contains(where: { $0.identity == relationship.identity }) {
            let isMissing = !relationship.isOptional && !relationship.isToMany
            note(
                "\(new.name).\(relationship.name)", .presence, "is not there", "is",
                obstacle: isMissing
                    ? "it is mandatory, and the objects there are lead nowhere"
                    : chained(relationship.renamingIdentifier, formerNames))
        }
    }

    /// Compares what one of them declares and the other inherits, because that is the same property
    /// too: it was pulled up, or pushed down. What both declare is compared by itself, and what
    /// both inherit with those that declare it.
    private mutating func compareMoved(
        _ old: EntityDescription, _ oldEntity: ManagedObjectModel.Entity,
        _ new: EntityDescription, _ newEntity: ManagedObjectModel.Entity
    ) {
        let (oldNames, newNames) = (old.propertyNames, new.propertyNames)
        for attribute in oldEntity.attributes where attribute.isWritten {
            let identity = attribute.identity
            if let other = newEntity.attributes.first(where: {
                $0.isWritten && $0.identity == identity
            }), oldNames.contains(attribute.name) != newNames.contains(other.name) {
                compare(attribute, other, in: new)
            }
            if let other = newEntity.relationships.first(where: {
                $0.description.identity == identity
            }), oldNames.contains(attribute.name) || newNames.contains(other.name) {
                noteOtherKind("\(new.name).\(other.name)", "an attribute", "a relationship", other)
            }
        }
        for relationship in oldEntity.relationships {
            let identity = relationship.description.identity
            if let other = newEntity.relationships.first(where: {
                $0.description.identity == identity
            }), oldNames.contains(relationship.name) != newNames.contains(other.name) {
                compare(relationship.description, old, other.description, new, isMoved: true)
                compareLinks(relationship, other, in: new)
            }
            if let other = newEntity.attributes.first(where: {
                $0.isWritten && $0.identity == identity
            }), oldNames.contains(relationship.name) || newNames.contains(other.name) {
                noteOtherKind(
                    "\(new.name).\(other.name)", "a relationship", "an attribute", relationship)
            }
        }
    }

    /// - Parameter relationship: the relationship among the two.
    private mutating func noteOtherKind(
        _ place: String, _ old: String, _ new: String,
        _ relationship: ManagedObjectModel.Relationship
    ) {
        // Where its state is elsewhere, what goes and what comes do not meet.
        guard case .column = relationship.storage else { return }
        note(
            place, .type, old, new,
            obstacle: "what is new needs another name than what was there")
    }

    /// Links of a relationship that is pushed down may be of objects that do not have it any more.
    private mutating func compareLinks(
        _ old: ManagedObjectModel.Relationship, _ new: ManagedObjectModel.Relationship,
        in entity: EntityDescription
    ) {
        guard case .link = old.storage, case .link = new.storage,
            entity.propertyNames.contains(new.name)
        else { return }
        note(
            "\(entity.name).\(new.name)", .relationship, "is inherited", "is its own",
            obstacle: "a many-to-many cannot go from an entity to those that inherit from it; what "
                + "is new there needs another name")
    }

    private mutating func compare(
        _ old: RelationshipDescription, _ oldOwner: EntityDescription,
        _ new: RelationshipDescription, _ newOwner: EntityDescription, isMoved: Bool = false
    ) {
        let place = "\(newOwner.name).\(new.name)"
        if old.name != new.name { note(place, .name, old.name, new.name) }
        let before = RelationshipShape(old, of: oldOwner.name, in: first)
        let after = RelationshipShape(new, of: newOwner.name, in: second)
        if before != after {
            note(
                place, .relationship, before.description, after.description,
                obstacle: before.obstacle(to: after, isMoved: isMoved))
        }
        compareOptionality(
            place, old.isOptional, new.isOptional,
            obstacle: new.isToMany ? nil : "a relationship cannot become mandatory")
        comparePolicy(place, .init(old.mergePolicy), .init(new.mergePolicy))
        compareModifier(place, old.hashModifier, new.hashModifier)
        if old.minimumCount != new.minimumCount || old.maximumCount != new.maximumCount {
            note(
                place, .relationship, "count \(old.minimumCount)...\(old.maximumCount)",
                "\(new.minimumCount)...\(new.maximumCount)")
        }
    }
}
