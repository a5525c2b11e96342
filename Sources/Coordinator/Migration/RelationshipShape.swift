import Merge

/// What of a relationship decides where it is kept and how it merges, by identities.
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

    init(
        _ description: RelationshipDescription, of owner: String, in model: ManagedObjectModel
    ) {
        destination = model.identity(ofEntity: description.destination)
        isToMany = description.isToMany
        let back = description.inverse.flatMap {
            model.entity(named: description.destination)?.relationship(named: $0)
        }
        inverse = back?.description.identity
        switch model.entity(named: owner)?.relationship(named: description.name)?.storage {
        case .link(_, let isFirst): place = isFirst ? .firstOfLink : .secondOfLink
        case .inverseColumn: place = .inverse
        case .column, nil: place = .column
        }
        isExclusive = !description.isToMany && back.map { !$0.isToMany } ?? false
    }

    /// Whether what one keeps is what the other keeps. An inverse may come and go beside it.
    func isStored(as other: RelationshipShape) -> Bool {
        destination == other.destination && isToMany == other.isToMany && place == other.place
            && isExclusive == other.isExclusive
            && (inverse == other.inverse || inverse == nil || other.inverse == nil)
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
