import Merge

/// The hashes of a model.
enum ModelHash {
    /// The version hash. As in Core Data, indexes, default values, renaming identifiers, validation
    /// and user info are no part of it; types, optionality, names, inverses, cardinality,
    /// constraints and hash modifiers are, and so are the merge policies.
    static func versionHash(_ entities: [EntityDescription]) -> [UInt8] {
        hash { hasher in
            for entity in entities { combine(entity, into: &hasher) }
        }
    }

    /// The version hash with the identities of what is stored and what stands for missing values of
    /// attributes: they decide too what rows show once there is another model. It is the version
    /// hash itself where all identities are the names and nothing but null stands for values.
    static func modelHash(_ entities: [EntityDescription], _ versionHash: [UInt8]) -> [UInt8] {
        var isPlain = true
        let result = hash { hasher in
            hasher.combine(versionHash)
            for entity in entities {
                combineParticulars(entity, into: &hasher) { isPlain = false }
            }
        }
        return isPlain ? versionHash : result
    }

    private static func hash(_ combineAll: (inout StableHasher) -> Void) -> [UInt8] {
        var bytes: [UInt8] = []
        for seed in [UInt64(11), 12] {
            var hasher = StableHasher(seed: seed)
            combineAll(&hasher)
            let (first, second) = hasher.finalize()
            for lane in [first, second] {
                withUnsafeBytes(of: lane.bigEndian) { bytes.append(contentsOf: $0) }
            }
        }
        return bytes
    }

    /// - Parameter found: called for each identity that is no name and each stand-in that is not null.
    private static func combineParticulars(
        _ entity: EntityDescription, into hasher: inout StableHasher, found: () -> Void
    ) {
        hasher.combine("entity")
        hasher.combine(entity.name)
        func combine(_ kind: String, _ name: String, _ identity: String) {
            guard identity != name else { return }
            for text in [kind, name, identity] { hasher.combine(text) }
            found()
        }
        combine("entity identity", entity.name, entity.identity)
        for attribute in entity.attributes.sorted(by: { $0.name < $1.name })
        where attribute.isWritten {
            combine("attribute identity", attribute.name, attribute.identity)
            guard !attribute.standIn.isNull else { continue }
            for text in ["default", attribute.name] { hasher.combine(text) }
            hasher.combine(attribute.standIn)
            found()
        }
        for relationship in entity.relationships.sorted(by: { $0.name < $1.name }) {
            combine("relationship identity", relationship.name, relationship.identity)
        }
    }

    private static func combine(_ entity: EntityDescription, into hasher: inout StableHasher) {
        hasher.combine("entity")
        for text in [
            entity.name, entity.parent ?? "", entity.isAbstract ? "abstract" : "",
            entity.mergePolicy?.rawValue ?? "", entity.hashModifier ?? "",
        ] { hasher.combine(text) }
        for attribute in entity.attributes.sorted(by: { $0.name < $1.name })
        where attribute.isWritten {
            for text in [
                "attribute", attribute.name, attribute.type.rawValue,
                attribute.isOptional ? "optional" : "", attribute.mergePolicy?.rawValue ?? "",
                attribute.hashModifier ?? "",
            ] { hasher.combine(text) }
        }
        for relationship in entity.relationships.sorted(by: { $0.name < $1.name }) {
            for text in [
                "relationship", relationship.name, relationship.destination,
                relationship.inverse ?? "", relationship.isToMany ? "many" : "one",
                relationship.isOptional ? "optional" : "",
                relationship.mergePolicy?.rawValue ?? "", relationship.hashModifier ?? "",
                String(relationship.minimumCount), String(relationship.maximumCount),
            ] { hasher.combine(text) }
        }
        for constraint in entity.uniquenessConstraints.map({ $0.joined(separator: ",") }).sorted() {
            hasher.combine("constraint")
            hasher.combine(constraint)
        }
    }
}
