internal import Coordinator
internal import Merge
internal import Replication

/// Draws models that follow each other by random steps, and models that a store of one of them is to
/// refuse.
///
/// What is new has a name that nothing had before, because what was taken away cannot come back.
struct ModelWalk {
    /// One change that can be inferred.
    private enum Edit: CaseIterable {
        case renameAttribute, renameRelationship, renameEntity, replace, add, drop
        /// Another default, which stands for nothing; or one where what stands is kept beside it.
        case otherDefault, formerDefault
        /// A renaming identifier that is the name itself: that is none.
        case ownIdentifier
    }

    /// The entities that the next model is made of.
    var entities: [EntityDescription]
    let first: [EntityDescription]
    /// All models so far.
    var history: [[EntityDescription]] = []
    /// The attributes that former models had and this one has not, by the entity's identity.
    var dropped: [(entity: String, attribute: AttributeDescription)] = []
    /// Names that attributes had which have another by now, likewise.
    var formerNames: [(entity: String, name: String)] = []
    /// How many names were made.
    private var names = 0
    var generator: SeededGenerator
    private var beacons: [Beacon] = []

    private init(_ model: ManagedObjectModel, _ generator: SeededGenerator) {
        entities = model.descriptions
        // They go with the first step: what they are made of may be renamed or dropped.
        for entity in entities.indices {
            entities[entity].attributes.removeAll { $0.derivation != nil }
        }
        first = entities
        self.generator = generator
    }

    /// Draws two to four models, the given one first, and some that deviate from them or must be
    /// refused.
    static func draw(
        from model: ManagedObjectModel, _ generator: inout SeededGenerator
    ) -> Editions {
        var walk = ModelWalk(model, SeededGenerator(seed: generator.next()))
        var editions = Editions(models: [model], beacons: [[]])
        var deviations: [(model: ManagedObjectModel, from: Editions.Deviation)] = []
        let last = 1 + walk.generator.number(below: 3)
        for edition in 0...last {
            if edition > 0 {
                editions.models.append(walk.step())
                editions.beacons.append(walk.beacons)
            }
            walk.history.append(walk.entities)
            for _ in 0..<walk.generator.number(below: 3) {
                if let trial = walk.trial() { editions.trials.append(trial) }
            }
            guard walk.generator.chance(in: 3), let deviation = walk.deviation() else { continue }
            deviations.append(deviation)
        }
        for (model, deviation) in deviations {
            editions.deviations[editions.models.count] = deviation
            editions.models.append(model)
            editions.beacons.append([])
        }
        return editions
    }

    // MARK: Steps

    /// The next model: one edit, or several at once.
    private mutating func step() -> ManagedObjectModel {
        beacons = []
        for _ in 0...generator.number(below: 3) {
            if let edit = generator.choice(Edit.allCases) { apply(edit) }
        }
        do {
            return try ManagedObjectModel(entities: entities)
        } catch {
            fatalError("A step of the walk led to no model: \(error)")
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
        case .formerDefault: keepDefault()
        case .ownIdentifier:
            let places = attributes { self[$0].renamingIdentifier == nil }
            guard let place = generator.choice(places) else { return }
            self[place].renamingIdentifier = self[place].name
        }
    }

    /// A name that nothing had before. Names that begin alike keep their order.
    mutating func name(after other: String) -> String {
        names += 1
        return "\(other)_\(names)"
    }

    typealias Place = (entity: Int, attribute: Int)

    subscript(place: Place) -> AttributeDescription {
        get { entities[place.entity].attributes[place.attribute] }
        set { entities[place.entity].attributes[place.attribute] = newValue }
    }

    /// The attributes that something is true of.
    func attributes(where isFine: (Place) -> Bool) -> [Place] {
        entities.indices.flatMap { entity in
            entities[entity].attributes.indices.map { (entity, $0) }
        }.filter(isFine)
    }

    private mutating func renameAttribute() {
        guard let place = generator.choice(attributes { _ in true }) else { return }
        let attribute = self[place]
        let identity = attribute.renamingIdentifier ?? attribute.name
        let isBack = identity != attribute.name && generator.chance(in: 3)
        let name = isBack ? identity : name(after: identity)
        self[place].name = name
        self[place].renamingIdentifier = isBack ? nil : identity
        exchange([attribute.name: name], inConstraintsFrom: place.entity)
        beacons.append(.nameChanged)
        formerNames.append((self.identity(place.entity), attribute.name))
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

    mutating func add() {
        guard let entity = generator.choice(Array(entities.indices)) else { return }
        let name = name(after: "added")
        let defaults: [(AttributeType, PropertyValue)] = [
            (.string, .null), (.string, .string("new")), (.integer64, .integer(5)),
            (.integer64, .null), (.double, .double(0.5)), (.boolean, .boolean(true)),
        ]
        guard let (type, value) = generator.choice(defaults) else { return }
        // An identifier that no model has as a name says nothing yet.
        let identifier = generator.chance(in: 4) ? self.name(after: "former") : nil
        entities[entity].attributes.append(
            AttributeDescription(
                name, type, defaultValue: value, renamingIdentifier: identifier))
    }

    private mutating func drop() {
        guard let (entity, place) = droppable() else { return }
        noteDropped(entity, entities[entity].attributes.remove(at: place))
    }

    private mutating func noteDropped(_ entity: Int, _ attribute: AttributeDescription) {
        dropped.append((identity(entity), attribute))
    }

    func identity(_ entity: Int) -> String {
        entities[entity].renamingIdentifier ?? entities[entity].name
    }

    /// Another default of an attribute that all models had: it stands for nothing that is missing.
    private mutating func changeDefault() {
        let places = attributes {
            self[$0].type == .integer64 && isAttribute(self[$0], of: $0.entity, in: first)
        }
        guard let place = generator.choice(places) else { return }
        self[place].defaultValue = .integer(Int64(100 + generator.number(below: 100)))
    }

    /// Another default of an attribute that was added, for new objects alone.
    private mutating func keepDefault() {
        let places = attributes {
            self[$0].type == .integer64 && !isAttribute(self[$0], of: $0.entity, in: first)
        }
        guard let place = generator.choice(places) else { return }
        self[place].formerDefault = self[place].formerDefault ?? self[place].defaultValue
        self[place].defaultValue = .integer(Int64(400 + generator.number(below: 100)))
    }

    /// The attributes of an entity in another model, by its identity.
    func attributes(
        of identity: String, in model: [EntityDescription]
    ) -> [AttributeDescription] {
        model.first { ($0.renamingIdentifier ?? $0.name) == identity }?.attributes ?? []
    }

    /// Whether a model has an attribute of an entity, by their identities.
    func isAttribute(
        _ attribute: AttributeDescription, of entity: Int, in model: [EntityDescription]
    ) -> Bool {
        attributes(of: identity(entity), in: model).contains {
            ($0.renamingIdentifier ?? $0.name) == (attribute.renamingIdentifier ?? attribute.name)
        }
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

    mutating func exchange(_ names: [String: String], inConstraintsFrom entity: Int) {
        for heir in family(entity) {
            entities[heir].uniquenessConstraints = entities[heir].uniquenessConstraints.map {
                $0.map { names[$0] ?? $0 }
            }
        }
    }
}
