import Merge

/// The traits of a relationship that decide where it is kept and how it merges, by identities.
struct RelationshipShape: Hashable, CustomStringConvertible {
    /// Where the state is.
    enum Place: Hashable {
        case column, inverse, firstOfLink, secondOfLink
    }

    let destination: String
    let inverse: String?
    let isToMany: Bool
    let place: Place
    /// Whether one row alone may lead to a target.
    let isExclusive: Bool
    /// Whether one link holds both ways.
    let isOwnInverse: Bool

    init(
        _ description: RelationshipDescription, of owner: String, in model: ManagedObjectModel
    ) {
        destination = model.identity(ofEntity: description.destination)
        isToMany = description.isToMany
        let back = description.inverse.flatMap {
            model.entity(named: description.destination)?.relationship(named: $0)
        }
        inverse = back?.description.identity
        let relationship = model.entity(named: owner)?.relationship(named: description.name)
        switch relationship?.storage {
        case .link(_, let isFirst): place = isFirst ? .firstOfLink : .secondOfLink
        case .inverseColumn: place = .inverse
        case .column, nil: place = .column
        }
        isOwnInverse = relationship.map(model.isOwnInverse) ?? false
        isExclusive = !description.isToMany && back.map { !$0.isToMany } ?? false
    }

    /// Why what one keeps is not what the other keeps; nil where it is. An inverse may come and go
    /// beside it.
    ///
    /// - Parameter isMoved: whether it goes to another entity of the hierarchy. Then another
    ///   inverse may stand for the one there was, which led to the former entity, unless the state
    ///   is at that side.
    func obstacle(to other: RelationshipShape, isMoved: Bool) -> String? {
        let isKeptHere = place == .column || place == .firstOfLink
        guard destination == other.destination, isToMany == other.isToMany,
            isExclusive == other.isExclusive,
            inverse == other.inverse || inverse == nil || other.inverse == nil
                || (isMoved && isKeptHere)
        else { return "what a relationship leads to, or how often, cannot change" }
        guard isOwnInverse == other.isOwnInverse else {
            return
                "a relationship cannot become its own inverse, nor stop being it: what leads one "
                + "way does not lead back"
        }
        if place == other.place { return nil }
        // Registers, and transactions of the log and of other nodes, are of one side's rows.
        return "its objects are kept at the side whose entity and relationship come first by their "
            + "names, and with the new names that is the other side: names of the former order keep it"
    }

    var description: String {
        "to \(isToMany ? "many " : "one ")\(destination), inverse \(inverse ?? "none")"
    }
}

/// A property's own merge policy as people read it.
struct MergePolicyName: Hashable {
    let text: String

    init(_ policy: MergePolicy?) { text = policy?.rawValue ?? "the entity's" }
}
