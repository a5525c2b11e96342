import Merge

/// The version hash of a model.
///
/// As in Core Data, indexes, default values, validation and user info are no part of it; types,
/// optionality, names, inverses, cardinality, constraints and hash modifiers are, and so are the
/// merge policies, on which all nodes must agree.
enum ModelHash {
    static func hash(_ entities: [EntityDescription]) -> [UInt8] {
        var bytes: [UInt8] = []
        for seed in [UInt64(11), 12] {
            var hasher = StableHasher(seed: seed)
            for entity in entities { combine(entity, into: &hasher) }
            let (first, second) = hasher.finalize()
            for lane in [first, second] {
                withUnsafeBytes(of: lane.bigEndian) { bytes.append(contentsOf: $0) }
            }
        }
        return bytes
    }

    private static func combine(_ entity: EntityDescription, into hasher: inout StableHasher) {
        hasher.combine("entity")
        for text in [
            entity.name, entity.parent ?? "", entity.isAbstract ? "abstract" : "",
            entity.mergePolicy?.rawValue ?? "", entity.hashModifier ?? "",
        ] { hasher.combine(text) }
        for attribute in entity.attributes.sorted(by: { $0.name < $1.name })
        where !attribute.isTransient {
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
