import Merge

/// Another model's entities and properties in terms of the store's own: how transactions of that
/// model are applied, and how what they wrote is read.
///
/// A transaction names properties by the names they have in *its* model. Values of what is gone
/// here stay in the log, parked. What its model did not have is, in rows that it inserted, what
/// the store's model gives as default.
struct ModelMapping: Sendable {
    /// One entity of the other model that there is here.
    struct Entity: Sendable {
        let target: ManagedObjectModel.Entity
        /// The names here of the other model's properties; without those that are gone.
        let names: [String: String]
        /// All names of the other model's stored properties.
        let sourceNames: Set<String>
        /// By position here: what rows show of properties that the other model lacks.
        let absent: [Int: PropertyValue]
        /// By position here: what stands for null, which the other model permits.
        let substitutes: [Int: PropertyValue]
        /// The other model's policies, at the positions here.
        let policies: EntityPolicies
        /// Whether it has uniqueness constraints here, and none in the other model: rows keep what was
        /// assigned only where it has.
        let isNewlyUnique: Bool
    }

    /// By the name in the other model.
    let entities: [String: Entity]
    /// The same by the name here.
    let byTarget: [String: Entity]
    /// The other model's entities that are gone here.
    let goneEntities: Set<String>
    /// Links here, by the name in the other model; nil for one that is gone.
    let links: [String: String?]
    /// The other model's policies of links, by the name here.
    let linkPolicies: [String: MergePolicy]

    /// - Parameter fill: what was settled to stand for a missing value, by root and name here;
    ///   nil for the model's default.
    init(
        from source: ManagedObjectModel, to target: ManagedObjectModel,
        fill: (String, String) -> PropertyValue?
    ) {
        var entities: [String: Entity] = [:]
        var gone = Set<String>()
        for entity in source.entities {
            guard let here = target.entity(identity: source.identity(ofEntity: entity.name)) else {
                gone.insert(entity.name)
                continue
            }
            entities[entity.name] = Self.map(entity, to: here, fill: fill)
        }
        self.entities = entities
        goneEntities = gone
        byTarget = Dictionary(
            entities.values.map { ($0.target.name, $0) }, uniquingKeysWith: { first, _ in first })
        var links: [String: String?] = [:]
        var policies: [String: MergePolicy] = [:]
        for link in source.links {
            let here = Self.link(link, in: source, as: target)
            links[link.name] = .some(here)
            if let here { policies[here] = link.policy }
        }
        self.links = links
        linkPolicies = policies
    }

    private static func map(
        _ source: ManagedObjectModel.Entity, to target: ManagedObjectModel.Entity,
        fill: (String, String) -> PropertyValue?
    ) -> Entity {
        let sourceIdentities = source.identities
        let targetIdentities = target.identities
        var positions: [String: Int] = [:]
        for (position, property) in source.properties.enumerated() {
            positions[sourceIdentities[property.name] ?? property.name] = position
        }
        var names: [String: String] = [:]
        var absent: [Int: PropertyValue] = [:]
        var substitutes: [Int: PropertyValue] = [:]
        var policies: [MergePolicy] = []
        for (position, property) in target.properties.enumerated() {
            let standIn = fill(target.root, property.name) ?? property.standIn
            let identity = targetIdentities[property.name] ?? property.name
            // An attribute that has become a to-one is another property: a row's number would be
            // read where a value was written.
            guard let there = positions[identity],
                source.properties[there].isReference == property.isReference
            else {
                absent[position] = property.isReference ? .null : standIn
                policies.append(source.policies.entity)
                continue
            }
            let other = source.properties[there]
            names[other.name] = property.name
            policies.append(source.policies.properties[there])
            if other.isOptional, !property.isOptional, !property.isReference, !standIn.isNull {
                substitutes[position] = standIn
            }
        }
        return Entity(
            target: target, names: names, sourceNames: Set(source.properties.map(\.name)),
            absent: absent, substitutes: substitutes,
            policies: EntityPolicies(entity: source.policies.entity, properties: policies),
            isNewlyUnique: source.uniquenessConstraints.isEmpty
                && !target.uniquenessConstraints.isEmpty)
    }

    /// A link of an entity that is gone may have been pulled up before that went: then it is still
    /// kept with those of what the entity inherited from, though nothing shows it any more.
    private static func link(
        _ link: ManagedObjectModel.Link, in source: ManagedObjectModel,
        as target: ManagedObjectModel
    ) -> String? {
        guard let owner = source.entity(named: link.source),
            let here = nearest(owner, in: source, as: target),
            let relationship = owner.relationships.first(where: {
                $0.storage == .link(name: link.name, isFirst: true)
            })
        else { return nil }
        let identity = relationship.description.identity
        let destination = source.identity(ofEntity: relationship.destination)
        for candidate in here.relationships
        where candidate.description.identity == identity
            && target.identity(ofEntity: candidate.destination) == destination
        {
            if case .link(let name, isFirst: true) = candidate.storage { return name }
        }
        return nil
    }

    /// The entity in another model, or else the nearest that it inherits from there.
    private static func nearest(
        _ entity: ManagedObjectModel.Entity, in source: ManagedObjectModel,
        as target: ManagedObjectModel
    ) -> ManagedObjectModel.Entity? {
        var next: ManagedObjectModel.Entity? = entity
        while let entity = next {
            if let here = target.entity(identity: source.identity(ofEntity: entity.name)) {
                return here
            }
            next = entity.parent.flatMap { source.entity(named: $0) }
        }
        return nil
    }
}
