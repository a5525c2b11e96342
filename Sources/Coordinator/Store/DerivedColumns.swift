import Merge

/// The columns of an entity's derived attributes: what fills them, and which rows they hang on.
///
/// Those of a row's own values are written with the row. Those that look into a to-many are computed
/// where what it leads to has changed.
struct DerivedColumns: Sendable {
    /// A derived attribute of a row's own values.
    struct Own: Sendable {
        let name: String
        /// The place among what readers are given of a row.
        let column: Int
        /// The text and what is made of it; nil for when the row was saved.
        let text: (position: Int, function: TextDerivation)?
    }

    /// A derived attribute that looks into a to-many.
    struct Collected: Sendable {
        let name: String
        let column: Int
        let type: AttributeType
        /// SQL of the value, of a row of the root's table by that name.
        let value: String
    }

    /// A to-one with another side that looks at the rows of an entity.
    struct Reference: Sendable {
        let position: Int
        /// The root of what it leads to.
        let root: String
        /// The positions of what is summed.
        var summed: Set<Int>
    }

    /// A link with a far side that looks at the rows of an entity.
    struct Link: Sendable {
        let link: ManagedObjectModel.Link
        /// The end that the rows are at.
        let near: String
        var summed: Set<Int>
    }

    let own: [Own]
    let collected: [Collected]
    private(set) var references: [Reference] = []
    private(set) var links: [Link] = []

    init(_ entity: ManagedObjectModel.Entity, _ model: ManagedObjectModel) {
        var own: [Own] = []
        var collected: [Collected] = []
        for (index, attribute) in entity.derivedAttributes.enumerated() {
            let column = entity.properties.count + index
            let derivation = attribute.derivation
            if let name = derivation.relationship {
                guard let relationship = entity.relationship(named: name) else { continue }
                collected.append(
                    Collected(
                        name: attribute.name, column: column, type: attribute.type,
                        value: Self.sql(derivation, of: relationship, entity, model)))
            } else {
                own.append(
                    Own(
                        name: attribute.name, column: column,
                        text: derivation.text.flatMap { key, function in
                            entity.position(of: key).map { ($0, function) }
                        }))
            }
        }
        self.own = own
        self.collected = collected
        for owner in model.entities {
            for attribute in owner.derivedAttributes {
                note(attribute.derivation, of: owner, at: entity, model)
            }
        }
    }

    /// Notes an attribute that looks at the rows of an entity, where it does.
    private mutating func note(
        _ derivation: Derivation, of owner: ManagedObjectModel.Entity,
        at entity: ManagedObjectModel.Entity, _ model: ManagedObjectModel
    ) {
        guard let relationship = derivation.relationship.flatMap(owner.relationship(named:)),
            let destination = model.entity(named: relationship.destination),
            entity.root == destination.root
        else { return }
        var summed = Set<Int>()
        if case .sum(_, let key) = derivation, let position = entity.position(of: key) {
            summed = [position]
        }
        switch relationship.storage {
        case .column: return
        case .inverseColumn(let declarer, let property):
            guard let declarer = model.entity(named: declarer), entity.isKind(of: declarer),
                let position = entity.position(of: property)
            else { return }
            if let known = references.firstIndex(where: { $0.position == position }) {
                references[known].summed.formUnion(summed)
            } else {
                references.append(Reference(position: position, root: owner.root, summed: summed))
            }
        case .link(let name, let isFirst):
            guard let link = model.link(named: name) else { return }
            let near = isFirst ? "target" : "source"
            if let known = links.firstIndex(where: { $0.link.name == name && $0.near == near }) {
                links[known].summed.formUnion(summed)
            } else {
                links.append(Link(link: link, near: near, summed: summed))
            }
        }
    }

    private static func sql(
        _ derivation: Derivation, of relationship: ManagedObjectModel.Relationship,
        _ entity: ManagedObjectModel.Entity, _ model: ManagedObjectModel
    ) -> String {
        let source =
            MemberReader.source(
                of: relationship, isOwned: "= \(EntityTable.quote(entity.root))._id", model: model)
            ?? "_state WHERE 0"
        var result = "count(*)"
        if case .sum(_, let key) = derivation {
            let destination = model.entity(named: relationship.destination)
            result = CollectionAggregate.sum.sql(
                of: "_m.\(EntityTable.quote(key))", destination?.attribute(named: key)?.type)
        }
        return "(SELECT \(result) FROM \(source))"
    }

    // MARK: Values

    /// The values of ``own`` of a row.
    ///
    /// - Parameters:
    ///   - columns: what its properties show.
    ///   - newest: when the newest of them was saved.
    func ownValues(
        _ columns: [PropertyValue], newest: @autoclosure () -> HybridTimestamp
    ) -> [PropertyValue] {
        own.map { attribute in
            guard let (position, function) = attribute.text else {
                return .date(Int64(newest().milliseconds))
            }
            return function.value(of: columns[position])
        }
    }

    /// The column of a name, as it is declared. What leads to nothing yet is counted already.
    static func declaration(_ attribute: ManagedObjectModel.DerivedAttribute) -> String {
        if attribute.derivation.relationship == nil { return "" }
        return switch attribute.type {
        case .decimal: " DEFAULT '0'"
        case .double, .float: " DEFAULT 0.0"
        default: " DEFAULT 0"
        }
    }
}

extension LoadedRow {
    /// When the newest of the values that it shows was saved. What they replaced does not count: some
    /// nodes have forgotten that, and others have not.
    var newestShown: HybridTimestamp {
        let shown = table.entity.properties.indices.compactMap {
            self.shown($0)?.stamp.timestamp
        }
        return (shown + [state.insertionStamp?.timestamp].compactMap { $0 }).max() ?? .zero
    }
}
