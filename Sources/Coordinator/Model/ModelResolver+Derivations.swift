import Merge

extension ModelResolver {
    /// Checks what a derived attribute follows from.
    ///
    /// - Parameters:
    ///   - attributes: those of its entity, inherited ones included.
    ///   - relationships: likewise.
    func check(
        _ attribute: AttributeDescription, of attributes: [AttributeDescription],
        _ relationships: [ManagedObjectModel.Relationship], place: String
    ) throws(ModelError) {
        guard let derivation = attribute.derivation else { return }
        let expression = derivation.expression
        guard attribute.isOptional, !attribute.isTransient, attribute.defaultValue.isNull,
            attribute.formerDefault == nil, attribute.validation == AttributeValidation(),
            attribute.mergePolicy == nil, attribute.renamingIdentifier == nil
        else {
            throw ModelError(
                place,
                "a derived attribute is optional and has no default, validation, merge policy or "
                    + "renamingIdentifier, and is not transient")
        }
        func require(_ type: AttributeType?) throws(ModelError) {
            guard type == attribute.type else {
                throw ModelError(
                    place, "\(expression) is of type \(type?.rawValue ?? "none")")
            }
        }
        if let key = derivation.text?.key {
            guard let source = attributes.first(where: { $0.name == key }), source.isWritten,
                source.type == .string
            else { throw ModelError(place, "\(key) is no text attribute of its entity") }
            guard case .localizedStandard(_, let locale) = derivation else {
                return try require(.string)
            }
            guard Collation(written: locale) != nil else {
                throw ModelError(place, Collation.refusal(locale))
            }
            return try require(.binary)
        }
        guard let name = derivation.relationship else { return try require(.date) }
        guard let relationship = relationships.first(where: { $0.name == name }),
            relationship.isToMany
        else { throw ModelError(place, "\(name) is no to-many of its entity") }
        guard case .sum(_, let key) = derivation else { return try require(.integer64) }
        let type = type(of: key, in: relationship.destination)
        guard let type, let result = CollectionAggregate.sum.result(of: type) else {
            throw ModelError(
                place, "\(key) is no number of \(relationship.destination) that is stored")
        }
        try require(result)
    }

    /// The type of an attribute that an entity has or inherits; nil where none is written.
    private func type(of key: String, in entity: String) -> AttributeType? {
        var next: String? = entity
        var steps = 0
        while let name = next, let description = description(named: name), steps < 1_000 {
            if let found = description.attributes.first(where: { $0.name == key }) {
                return found.isWritten ? found.type : nil
            }
            next = description.parent
            steps += 1
        }
        return nil
    }
}

extension ManagedObjectModel {
    /// Refuses locales that ICU has no order for. Models from elsewhere may have them: then the order is
    /// that of the root.
    package func checkLocales() throws(ModelError) {
        for entity in entities {
            for attribute in entity.derivedAttributes {
                guard case .localizedStandard(_, let locale) = attribute.derivation,
                    Collation(locale) == nil
                else { continue }
                throw ModelError("\(entity.name).\(attribute.name)", Collation.refusal(locale))
            }
        }
    }
}
