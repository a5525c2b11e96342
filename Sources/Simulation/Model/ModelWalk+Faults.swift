internal import Coordinator
internal import Merge
internal import Replication

/// Models that are refused: by a store that knows others, or by peers.
extension ModelWalk {
    /// The faults for which a store refuses a model.
    enum Fault: CaseIterable {
        /// A name that stays gets another identity.
        case newIdentifier, lostIdentifier, entityIdentifier, relationshipIdentifier
        /// An identifier is the name before, and not the first one.
        case laterIdentifier
        /// Two attributes exchange their names.
        case swap
        /// Two attributes have one identity.
        case twice
        /// A new property has a name that something else had.
        case takenName
        /// A new attribute is mandatory, without a default.
        case mandatory
        /// A default stands for what former models lacked, and changes.
        case settledDefault
        /// A removed property comes back.
        case comeBack
    }

    /// The difference of a model from the one that others are given, so that peers refuse it.
    private enum Deviating: CaseIterable {
        /// The default, or the identity, of an attribute that the last step added.
        case defaultValue, identifier
        case mergePolicy
        /// The identity of what was there: only a store that is new takes it.
        case formerIdentifier
    }

    // MARK: By peers

    /// A model that deviates from the present one; nil where what was drawn finds nothing to deviate
    /// in.
    mutating func deviation() -> (model: ManagedObjectModel, from: Editions.Deviation)? {
        let kept = entities
        defer { entities = kept }
        let kinds = history.count > 1 ? Deviating.allCases : [.formerIdentifier]
        guard let kind = generator.choice(kinds), deviate(kind),
            let model = try? ManagedObjectModel(entities: entities)
        else { return nil }
        return (model, .init(base: history.count - 1, isNew: kind == .formerIdentifier))
    }

    private mutating func deviate(_ kind: Deviating) -> Bool {
        switch kind {
        case .defaultValue:
            let places = added.filter { self[$0].type == .integer64 }
            guard let place = generator.choice(places) else { return false }
            self[place].defaultValue = .integer(Int64(300 + generator.number(below: 100)))
        case .identifier:
            guard let place = generator.choice(added) else { return false }
            self[place].renamingIdentifier = name(after: "other")
        case .mergePolicy:
            let places = entities.indices.filter { entities[$0].mergePolicy != nil }
            guard let place = generator.choice(places) else { return false }
            let others = MergePolicy.allCases.filter {
                $0 != entities[place].mergePolicy
                    && $0.granularity == entities[place].mergePolicy?.granularity
            }
            entities[place].mergePolicy = generator.choice(others)
        case .formerIdentifier:
            let faults: [Fault] = [.newIdentifier, .entityIdentifier, .relationshipIdentifier]
            guard let fault = generator.choice(faults) else { return false }
            return plant(fault) != nil
        }
        return true
    }

    /// The attributes that the last step added.
    private var added: [Place] {
        let former = history[history.count - 2]
        return attributes { !isAttribute(self[$0], of: $0.entity, in: former) }
    }

    // MARK: By stores

    /// A model that stores of the present one refuse, or nil where what was drawn is none.
    mutating func trial() -> Editions.Trial? {
        let kept = entities
        defer { entities = kept }
        // Of exchanged names the rare paths have one of their own.
        let faults = Fault.allCases + [.swap, .swap]
        guard let fault = generator.choice(faults), let known = plant(fault), !known.isEmpty
        else { return nil }
        // Alone, and together with what is fine.
        if generator.chance(in: 2) { add() }
        guard let model = try? ManagedObjectModel(entities: entities) else { return nil }
        return Editions.Trial(base: history.count - 1, known: known, model: model, fault: fault)
    }

    /// The editions that something is true of.
    private func editions(where isFine: ([EntityDescription]) -> Bool) -> Set<Int> {
        Set(history.indices.filter { isFine(history[$0]) })
    }

    /// Makes the model one to be refused.
    ///
    /// - Returns: the editions that a store must have had one of for that; nil if the model has
    ///   nothing to make it so by.
    private mutating func plant(_ fault: Fault) -> Set<Int>? {
        switch fault {
        case .newIdentifier:
            guard let place = generator.choice(attributes { _ in true }) else { return nil }
            self[place].renamingIdentifier = name(after: "other")
        case .lostIdentifier:
            guard let place = generator.choice(renamed) else { return nil }
            self[place].renamingIdentifier = nil
        case .entityIdentifier:
            guard let place = generator.choice(Array(entities.indices)) else { return nil }
            entities[place].renamingIdentifier = name(after: "other")
        case .relationshipIdentifier:
            let places = entities.indices.filter { !entities[$0].relationships.isEmpty }
            guard let place = generator.choice(places) else { return nil }
            entities[place].relationships[0].renamingIdentifier = name(after: "other")
        case .laterIdentifier:
            guard let place = generator.choice(renamed) else { return nil }
            let former = self[place].name
            self[place].name = name(after: former)
            self[place].renamingIdentifier = former
            exchange([former: self[place].name], inConstraintsFrom: place.entity)
        case .swap: if !swap() { return nil }
        case .twice:
            let places = attributes { self[$0].renamingIdentifier == nil }
            guard let place = generator.choice(places) else { return nil }
            let former = self[place]
            self[place].name = name(after: former.name)
            self[place].renamingIdentifier = former.name
            entities[place.entity].attributes.append(former)
        case .takenName: return takeName()
        case .mandatory:
            guard let entity = generator.choice(Array(entities.indices)) else { return nil }
            entities[entity].attributes.append(
                AttributeDescription(name(after: "added"), .string, isOptional: false))
        case .settledDefault: return changeSettledDefault()
        case .comeBack:
            guard let (identity, attribute) = generator.choice(dropped),
                let place = entities.indices.first(where: { self.identity($0) == identity })
            else { return nil }
            entities[place].attributes.append(attribute)
            return editions { isAttribute(attribute, of: place, in: $0) }
        }
        return [history.count - 1]
    }

    /// The attributes that have another name than at first.
    private var renamed: [Place] {
        attributes { self[$0].renamingIdentifier ?? self[$0].name != self[$0].name }
    }

    private mutating func takeName() -> Set<Int>? {
        guard let (identity, name) = generator.choice(formerNames),
            let place = entities.indices.first(where: { self.identity($0) == identity })
        else { return nil }
        entities[place].attributes.append(
            AttributeDescription(name, .string, renamingIdentifier: self.name(after: "other")))
        return editions {
            attributes(of: identity, in: $0).contains { $0.name == name }
        }
    }

    /// A store that has had a model without the attribute has settled what stands for it.
    private mutating func changeSettledDefault() -> Set<Int>? {
        let places = attributes {
            self[$0].type == .integer64 && !isAttribute(self[$0], of: $0.entity, in: first)
        }
        guard let place = generator.choice(places) else { return nil }
        self[place].formerDefault = nil
        self[place].defaultValue = .integer(Int64(200 + generator.number(below: 100)))
        return editions { !isAttribute(self[place], of: place.entity, in: $0) }
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
