import Merge

/// Reads entity descriptions from JSON, strictly: an unknown key is an error that names its place.
struct ModelJSONReader {
    /// One object with its place in the model; knows which keys may occur.
    private struct Place {
        let name: String
        let object: JSONObject

        init(
            _ name: String, _ value: JSONValue, keys: Set<String>
        ) throws(ModelError) {
            guard let object = value.object else {
                throw ModelError(name, "expected an object, not \(value.kind)")
            }
            self.name = name
            self.object = object
            for member in object.members where !keys.contains(member.key) {
                throw ModelError(name, "unknown key \"\(member.key)\"")
            }
        }

        /// A member that is there and not null.
        func value(_ key: String) -> JSONValue? {
            if case .null? = object[key] { nil } else { object[key] }
        }

        func wrong(_ key: String, _ expected: String) -> ModelError {
            ModelError(name, "\"\(key)\" must be \(expected)")
        }

        func text(_ key: String) throws(ModelError) -> String? {
            guard let value = value(key) else { return nil }
            guard let text = value.string else { throw wrong(key, "a string") }
            return text
        }

        func required(_ key: String) throws(ModelError) -> String {
            guard let text = try text(key) else { throw wrong(key, "given, as a string") }
            return text
        }

        func truth(_ key: String, default other: Bool) throws(ModelError) -> Bool {
            guard let value = value(key) else { return other }
            guard let truth = value.boolean else { throw wrong(key, "true or false") }
            return truth
        }

        func count(_ key: String) throws(ModelError) -> Int {
            guard let value = value(key) else { return 0 }
            guard let number = value.integer.flatMap({ Int(exactly: $0) }),
                RelationshipDescription.counts.contains(number)
            else {
                throw wrong(key, "a count")
            }
            return number
        }

        func list(_ key: String) throws(ModelError) -> [JSONValue] {
            guard let value = value(key) else { return [] }
            guard let list = value.array else { throw wrong(key, "an array") }
            return list
        }

        func texts(_ value: JSONValue, _ key: String) throws(ModelError) -> [String] {
            guard let list = value.array else { throw wrong(key, "an array of strings") }
            return try list.map { element throws(ModelError) in
                guard let text = element.string else { throw wrong(key, "an array of strings") }
                return text
            }
        }

        func choice<Choice: RawRepresentable & CaseIterable>(
            _ key: String, as type: Choice.Type
        ) throws(ModelError) -> Choice? where Choice.RawValue == String {
            guard let text = try text(key) else { return nil }
            guard let choice = Choice(rawValue: text) else {
                let names = Choice.allCases.map(\.rawValue).joined(separator: ", ")
                throw wrong(key, "one of \(names), not \"\(text)\"")
            }
            return choice
        }

        func mergePolicy() throws(ModelError) -> MergePolicy? {
            if let text = try text("mergePolicy"), NamedMergePolicy.isText(text),
                MergePolicy(rawValue: text) == nil
            {
                throw ModelError(name, unregistered: text)
            }
            return try choice("mergePolicy", as: MergePolicy.self)
        }

        func userInfo() throws(ModelError) -> [String: String] {
            guard let value = value("userInfo") else { return [:] }
            guard let object = value.object else { throw wrong("userInfo", "an object") }
            var result: [String: String] = [:]
            for member in object.members {
                guard let text = member.value.string else {
                    throw ModelError(name, "\"userInfo.\(member.key)\" must be a string")
                }
                result[member.key] = text
            }
            return result
        }

        func refuse(_ key: String, unless isHarmless: Bool) throws(ModelError) {
            guard isHarmless else { throw ModelError(name, "\"\(key)\" is not supported yet") }
        }
    }

    private static let entityKeys: Set<String> = [
        "name", "parent", "abstract", "mergePolicy", "attributes", "relationships",
        "uniquenessConstraints", "indexes", "renamingIdentifier", "hashModifier", "userInfo",
    ]
    private static let attributeKeys: Set<String> = [
        "name", "type", "optional", "default", "formerDefault", "mergePolicy", "transient",
        "derivation", "preservedOnDeletion",
        "validation", "renamingIdentifier", "hashModifier", "userInfo",
    ]
    private static let relationshipKeys: Set<String> = [
        "name", "destination", "inverse", "toMany", "deleteRule", "optional", "minCount",
        "maxCount", "ordered", "mergePolicy", "renamingIdentifier", "hashModifier", "userInfo",
    ]

    /// The entities of a model in JSON.
    static func entities(_ model: JSONValue) throws(ModelError) -> [EntityDescription] {
        let place = try Place("model", model, keys: ["entities"])
        guard place.value("entities") != nil else { throw place.wrong("entities", "given") }
        var result: [EntityDescription] = []
        for (index, value) in try place.list("entities").enumerated() {
            result.append(try entity(value, index))
        }
        return result
    }

    private static func name(_ value: JSONValue, _ fallback: String) -> String {
        value.object?["name"]?.string ?? fallback
    }

    private static func entity(
        _ value: JSONValue, _ index: Int
    ) throws(ModelError) -> EntityDescription {
        let place = try Place(name(value, "entities[\(index)]"), value, keys: entityKeys)
        var attributes: [AttributeDescription] = []
        for (index, value) in try place.list("attributes").enumerated() {
            let name = "\(place.name).\(name(value, "attributes[\(index)]"))"
            attributes.append(try attribute(Place(name, value, keys: attributeKeys)))
        }
        var relationships: [RelationshipDescription] = []
        for (index, value) in try place.list("relationships").enumerated() {
            let name = "\(place.name).\(name(value, "relationships[\(index)]"))"
            relationships.append(try relationship(Place(name, value, keys: relationshipKeys)))
        }
        let constraints = try place.list("uniquenessConstraints").map {
            element throws(ModelError) in
            try place.texts(element, "uniquenessConstraints")
        }
        let indexes = try place.list("indexes").map { element throws(ModelError) in
            try self.index(element, of: place)
        }
        return EntityDescription(
            try place.required("name"), parent: try place.text("parent"),
            isAbstract: try place.truth("abstract", default: false),
            mergePolicy: try place.mergePolicy(),
            attributes: attributes, relationships: relationships,
            uniquenessConstraints: constraints, indexes: indexes,
            renamingIdentifier: try place.text("renamingIdentifier"),
            hashModifier: try place.text("hashModifier"), userInfo: try place.userInfo())
    }

    private static func index(
        _ value: JSONValue, of place: Place
    ) throws(ModelError) -> IndexDescription {
        let index = try Place(
            "\(place.name) index", value, keys: ["name", "elements", "predicate"])
        let elements = try index.texts(index.value("elements") ?? .null, "elements")
        return IndexDescription(
            name: try index.required("name"),
            elements: elements.map { IndexDescription.Element(stringLiteral: $0) },
            predicate: try index.text("predicate"))
    }

    private static func attribute(_ place: Place) throws(ModelError) -> AttributeDescription {
        guard let type = try place.choice("type", as: AttributeType.self) else {
            throw place.wrong("type", "given")
        }
        var attribute = AttributeDescription(
            try place.required("name"), type,
            isOptional: try place.truth("optional", default: true),
            defaultValue: try property(place, "default", type),
            formerDefault: place.object["formerDefault"] == nil
                ? nil : try property(place, "formerDefault", type),
            mergePolicy: try place.mergePolicy(),
            isTransient: try place.truth("transient", default: false),
            derivation: try derivation(place),
            validation: try validation(place, type),
            renamingIdentifier: try place.text("renamingIdentifier"),
            hashModifier: try place.text("hashModifier"), userInfo: try place.userInfo())
        attribute.preservesValueInHistoryOnDeletion = try place.truth(
            "preservedOnDeletion", default: false)
        return attribute
    }

    private static func property(
        _ place: Place, _ key: String, _ type: AttributeType
    ) throws(ModelError) -> PropertyValue {
        guard let value = place.value(key) else { return .null }
        do {
            return try PropertyValue(json: value, type: type)
        } catch { throw ModelError(place.name, "\"\(key)\": \(error.message)") }
    }

    private static func derivation(_ place: Place) throws(ModelError) -> Derivation? {
        guard let text = try place.text("derivation") else { return nil }
        if let derivation = Derivation(text) { return derivation }
        throw ModelError(
            place.name,
            "\"derivation\" must be canonical:(key), lowercase:(key), uppercase:(key), "
                + "localizedStandard:(key), localizedStandard:(key, locale), relationship.@count, relationship.attribute.@sum or now()"
        )
    }

    private static func validation(
        _ place: Place, _ type: AttributeType
    ) throws(ModelError) -> AttributeValidation {
        guard let value = place.value("validation") else { return AttributeValidation() }
        let bounds = try Place(
            "\(place.name).validation", value, keys: ["min", "max", "pattern"])
        var boundType = type
        switch type {
        case .string, .binary: boundType = .integer64
        case .boolean, .uuid, .uri:
            if let key = ["min", "max"].first(where: { bounds.value($0) != nil }) {
                throw ModelError(bounds.name, "a \(type.rawValue) can have no \"\(key)\"")
            }
        default: break
        }
        let minimum = try property(bounds, "min", boundType)
        let maximum = try property(bounds, "max", boundType)
        return AttributeValidation(
            minimum: minimum.isNull ? nil : minimum, maximum: maximum.isNull ? nil : maximum,
            pattern: try bounds.text("pattern"))
    }

    private static func relationship(
        _ place: Place
    ) throws(ModelError) -> RelationshipDescription {
        try place.refuse("ordered", unless: try !place.truth("ordered", default: false))
        return RelationshipDescription(
            try place.required("name"), to: try place.required("destination"),
            inverse: try place.text("inverse"),
            isToMany: try place.truth("toMany", default: false),
            deleteRule: try place.choice("deleteRule", as: DeleteRule.self) ?? .nullify,
            isOptional: try place.truth("optional", default: true),
            minimumCount: try place.count("minCount"), maximumCount: try place.count("maxCount"),
            mergePolicy: try place.mergePolicy(),
            renamingIdentifier: try place.text("renamingIdentifier"),
            hashModifier: try place.text("hashModifier"), userInfo: try place.userInfo())
    }
}
