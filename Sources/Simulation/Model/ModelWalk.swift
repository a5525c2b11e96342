internal import Coordinator
internal import Merge
internal import Replication

/// Draws models that follow each other by random steps, and models that a store of one of them is to
/// refuse.
///
/// What is new has a name that nothing had before, for what was taken away cannot come back.
struct ModelWalk {
    /// One change that can be inferred.
    private enum Edit: CaseIterable {
        case renameAttribute, renameRelationship, renameEntity, replace, add, drop, otherDefault
    }

    /// What makes a model be refused.
    enum Fault: CaseIterable {
        /// A name that stays gets another identity.
        case newIdentifier, lostIdentifier, entityIdentifier, relationshipIdentifier
        /// Two attributes exchange their names.
        case swap
        /// Two attributes have one identity.
        case twice
        /// A new attribute is mandatory, without a default.
        case mandatory
        /// A default stands for what former models lacked, and changes.
        case settledDefault
        /// What was taken away comes back.
        case comeBack
    }

    private var entities: [EntityDescription]
    private let first: [EntityDescription]
    /// The model before the step that is being made.
    private var former: [EntityDescription] = []
    /// What former models had and this one has not, by the entity's identity.
    private var dropped: [(entity: String, attribute: AttributeDescription, edition: Int)] = []
    private var edition = 0
    /// How many names were made.
    private var names = 0
    private var generator: SeededGenerator
    private var beacons: [Beacon] = []

    private init(_ model: ManagedObjectModel, _ generator: SeededGenerator) {
        entities = model.descriptions
        first = entities
        self.generator = generator
    }

    /// Draws two to four models, of which the first is given.
    static func draw(
        from model: ManagedObjectModel, _ generator: inout SeededGenerator
    ) -> Editions {
        var walk = ModelWalk(model, SeededGenerator(seed: generator.next()))
        var editions = Editions(models: [model], beacons: [[]])
        var deviations: [(ManagedObjectModel, Int)] = []
        let last = 1 + walk.generator.number(below: 3)
        for edition in 0...last {
            walk.edition = edition
            for _ in 0..<walk.generator.number(below: 3) {
                if let trial = walk.trial() { editions.trials.append(trial) }
            }
            guard edition < last else { break }
            editions.models.append(walk.step())
            editions.beacons.append(walk.beacons)
            if walk.generator.chance(in: 3), let model = walk.deviation() {
                deviations.append((model, edition + 1))
            }
        }
        for (model, edition) in deviations {
            editions.deviations[editions.models.count] = edition
            editions.models.append(model)
            editions.beacons.append([])
        }
        return editions
    }

    // MARK: Steps

    /// The next model: one edit, or several at once.
    private mutating func step() -> ManagedObjectModel {
        beacons = []
        former = entities
        for _ in 0...generator.number(below: 3) {
            if let edit = generator.choice(Edit.allCases) { apply(edit) }
        }
        do {
            return try ManagedObjectModel(entities: entities)
        } catch {
            preconditionFailure("A step of the walk led to no model: \(error)")
        }
    }

    private mutating func apply(_ edit: Edit) {
        switch edit {
        case .renameAttribute: renameAttribute()
        case .renameRelationship: renameRelationship()
        case .renameEntity: renameEntity()
        case .replace: replace()
        case .add: add()
        case .drop: drop()
        case .otherDefault: changeDefault()
        }
    }

    /// A name that nothing had before. Names that begin alike keep their order.
    private mutating func name(after other: String) -> String {
        names += 1
        return "\(other)\(names)"
    }

    private typealias Place = (entity: Int, attribute: Int)

    /// The attributes that something is true of.
    private func attributes(where isFine: (Place) -> Bool) -> [Place] {
        entities.indices.flatMap { entity in
            entities[entity].attributes.indices.map { (entity, $0) }
        }.filter(isFine)
    }

    private mutating func renameAttribute() {
        guard let (entity, place) = generator.choice(attributes { _ in true }) else { return }
        let attribute = entities[entity].attributes[place]
        let identity = attribute.renamingIdentifier ?? attribute.name
        let isBack = attribute.renamingIdentifier != nil && generator.chance(in: 3)
        let name = isBack ? identity : name(after: identity)
        entities[entity].attributes[place].name = name
        entities[entity].attributes[place].renamingIdentifier = isBack ? nil : identity
        exchange([attribute.name: name], inConstraintsFrom: entity)
        beacons.append(.nameChanged)
    }

    private mutating func renameRelationship() {
        let places = entities.indices.flatMap { entity in
            entities[entity].relationships.indices.map { (entity, $0) }
        }
        guard let (entity, place) = generator.choice(places) else { return }
        let relationship = entities[entity].relationships[place]
        let identity = relationship.renamingIdentifier ?? relationship.name
        let name = name(after: identity)
        entities[entity].relationships[place].name = name
        entities[entity].relationships[place].renamingIdentifier = identity
        for other in entities.indices where entities[other].name == relationship.destination {
            for inverse in entities[other].relationships.indices
            where entities[other].relationships[inverse].inverse == relationship.name
                && entities[other].relationships[inverse].destination == entities[entity].name
            {
                entities[other].relationships[inverse].inverse = name
            }
        }
        beacons.append(.nameChanged)
    }

    private mutating func renameEntity() {
        guard let place = generator.choice(Array(entities.indices)) else { return }
        let former = entities[place].name
        let identity = entities[place].renamingIdentifier ?? former
        let name = name(after: identity)
        entities[place].name = name
        entities[place].renamingIdentifier = identity
        for other in entities.indices {
            if entities[other].parent == former { entities[other].parent = name }
            for relationship in entities[other].relationships.indices
            where entities[other].relationships[relationship].destination == former {
                entities[other].relationships[relationship].destination = name
            }
        }
        beacons.append(.nameChanged)
    }

    /// Another attribute in the place of one: what that had is parked.
    private mutating func replace() {
        guard let (entity, place) = droppable() else { return }
        let former = entities[entity].attributes[place]
        noteDropped(entity, former)
        entities[entity].attributes[place] = AttributeDescription(
            name(after: former.name), former.type, mergePolicy: former.mergePolicy)
    }

    private mutating func add() {
        guard let entity = generator.choice(Array(entities.indices)) else { return }
        let name = name(after: "added")
        let defaults: [(AttributeType, PropertyValue)] = [
            (.string, .null), (.string, .string("new")), (.integer64, .integer(5)),
            (.integer64, .null), (.double, .double(0.5)), (.boolean, .boolean(true)),
        ]
        guard let (type, value) = generator.choice(defaults) else { return }
        entities[entity].attributes.append(
            AttributeDescription(name, type, defaultValue: value))
    }

    private mutating func drop() {
        guard let (entity, place) = droppable() else { return }
        noteDropped(entity, entities[entity].attributes.remove(at: place))
    }

    private mutating func noteDropped(_ entity: Int, _ attribute: AttributeDescription) {
        if isAttribute(attribute, of: entity, in: former) {
            dropped.append((identity(entity), attribute, edition))
        }
    }

    private func identity(_ entity: Int) -> String {
        entities[entity].renamingIdentifier ?? entities[entity].name
    }

    /// Another default of an attribute that all models had: it stands for nothing that is missing.
    private mutating func changeDefault() {
        let places = attributes {
            let (entity, place) = $0
            let attribute = entities[entity].attributes[place]
            return attribute.type == .integer64 && isAttribute(attribute, of: entity, in: first)
        }
        guard let (entity, place) = generator.choice(places) else { return }
        entities[entity].attributes[place].defaultValue = .integer(
            Int64(100 + generator.number(below: 100)))
    }

    /// Whether a model has an attribute of an entity, by their identities.
    private func isAttribute(
        _ attribute: AttributeDescription, of entity: Int, in model: [EntityDescription]
    ) -> Bool {
        let identity = identity(entity)
        let there = model.first { ($0.renamingIdentifier ?? $0.name) == identity }
        return there?.attributes.contains {
            ($0.renamingIdentifier ?? $0.name) == (attribute.renamingIdentifier ?? attribute.name)
        } ?? false
    }

    /// An attribute that no constraint has, and that is not the only one.
    private mutating func droppable() -> Place? {
        let places = attributes { place in
            let constrained = family(place.entity).flatMap {
                entities[$0].uniquenessConstraints.joined()
            }
            return entities[place.entity].attributes.count > 1
                && !constrained.contains(self[place].name)
        }
        return generator.choice(places)
    }

    /// An entity and those that inherit from it.
    private func family(_ entity: Int) -> [Int] {
        [entity]
            + entities.indices.filter { entities[$0].parent == entities[entity].name }
            .flatMap { family($0) }
    }

    private mutating func exchange(_ names: [String: String], inConstraintsFrom entity: Int) {
        for heir in family(entity) {
            entities[heir].uniquenessConstraints = entities[heir].uniquenessConstraints.map {
                $0.map { names[$0] ?? $0 }
            }
        }
    }

    // MARK: What is refused

    /// The model with another default of an attribute that the last step added; nil where it added
    /// none.
    private mutating func deviation() -> ManagedObjectModel? {
        let kept = entities
        defer { entities = kept }
        let places = attributes {
            let attribute = entities[$0.entity].attributes[$0.attribute]
            return attribute.type == .integer64
                && !isAttribute(attribute, of: $0.entity, in: former)
        }
        guard let place = generator.choice(places) else { return nil }
        self[place].defaultValue = .integer(Int64(300 + generator.number(below: 100)))
        return try? ManagedObjectModel(entities: entities)
    }

    /// A model that stores of the present one refuse, or nil where what was drawn is none.
    private mutating func trial() -> Editions.Trial? {
        let kept = entities
        defer { entities = kept }
        guard let fault = generator.choice(Fault.allCases), let known = plant(fault) else {
            return nil
        }
        // Alone, and together with what is fine.
        if generator.chance(in: 2) { add() }
        guard let model = try? ManagedObjectModel(entities: entities) else { return nil }
        return Editions.Trial(base: edition, known: known, model: model, fault: fault)
    }

    /// Makes the model one to be refused.
    ///
    /// - Returns: the latest edition that a store must know for that; nil where the model has nothing
    ///   to make it so by.
    private mutating func plant(_ fault: Fault) -> Int? {
        switch fault {
        case .newIdentifier:
            guard let place = generator.choice(attributes { _ in true }) else { return nil }
            self[place].renamingIdentifier = name(after: "other")
        case .lostIdentifier:
            let places = attributes { self[$0].renamingIdentifier != nil }
            guard let place = generator.choice(places) else { return nil }
            self[place].renamingIdentifier = nil
        case .entityIdentifier:
            guard let place = generator.choice(Array(entities.indices)) else { return nil }
            entities[place].renamingIdentifier = name(after: "other")
        case .relationshipIdentifier:
            let places = entities.indices.filter { !entities[$0].relationships.isEmpty }
            guard let place = generator.choice(places) else { return nil }
            entities[place].relationships[0].renamingIdentifier = name(after: "other")
        case .swap: return swap() ? edition : nil
        case .twice:
            let places = attributes { self[$0].renamingIdentifier == nil }
            guard let place = generator.choice(places) else { return nil }
            let former = self[place]
            self[place].name = name(after: former.name)
            self[place].renamingIdentifier = former.name
            entities[place.entity].attributes.append(former)
        case .mandatory:
            guard let entity = generator.choice(Array(entities.indices)) else { return nil }
            entities[entity].attributes.append(
                AttributeDescription(name(after: "added"), .string, isOptional: false))
        case .settledDefault:
            let places = attributes {
                let attribute = entities[$0.entity].attributes[$0.attribute]
                return attribute.type == .integer64
                    && !isAttribute(attribute, of: $0.entity, in: first)
            }
            guard let place = generator.choice(places) else { return nil }
            self[place].defaultValue = .integer(Int64(200 + generator.number(below: 100)))
            return 0
        case .comeBack:
            guard let (identity, attribute, known) = generator.choice(dropped),
                let place = entities.indices.first(where: { self.identity($0) == identity })
            else { return nil }
            entities[place].attributes.append(attribute)
            return known
        }
        return edition
    }

    private subscript(place: Place) -> AttributeDescription {
        get { entities[place.entity].attributes[place.attribute] }
        set { entities[place.entity].attributes[place.attribute] = newValue }
    }

    /// Two attributes of an entity exchange their names, each with its identity.
    private mutating func swap() -> Bool {
        let places = entities.indices.filter { entities[$0].attributes.count > 1 }
        guard let entity = generator.choice(places) else { return false }
        let pair = generator.some(Array(entities[entity].attributes.indices), most: 2)
        let (one, other) = ((entity, pair[0]), (entity, pair[1]))
        let (former, latter) = (self[one], self[other])
        self[one].name = latter.name
        self[one].renamingIdentifier = former.renamingIdentifier ?? former.name
        self[other].name = former.name
        self[other].renamingIdentifier = latter.renamingIdentifier ?? latter.name
        exchange(
            [former.name: latter.name, latter.name: former.name], inConstraintsFrom: entity)
        return true
    }
}
