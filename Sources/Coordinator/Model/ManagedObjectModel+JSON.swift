import Merge

extension ManagedObjectModel {
    /// Reads a model as JSON and resolves it.
    ///
    /// - Parameter json: UTF-8, at most 16 MiB.
    /// - Throws: ``ModelError`` that names the place and what is wrong there.
    public convenience init(json: [UInt8]) throws(ModelError) {
        let value: JSONValue
        do {
            // Some editors put a byte order mark in front.
            let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
            value = try JSONParser.parse(json.starts(with: mark) ? Array(json.dropFirst(3)) : json)
        } catch { throw ModelError("model", "\(error)") }
        try self.init(json: value)
    }

    /// Reads a model that was parsed as JSON already, and resolves it.
    package convenience init(json: JSONValue) throws(ModelError) {
        try self.init(entities: try ModelJSONReader.entities(json))
    }

    /// The model as JSON: what was described, without what is the default anyway.
    package func jsonValue() -> JSONValue {
        ["entities": .array(descriptions.map { $0.jsonValue() })]
    }
}

extension JSONValue: ExpressibleByDictionaryLiteral {
    /// An object of members.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        var object = JSONObject()
        for (key, value) in elements { object[key] = value }
        self = .object(object)
    }
}

/// Notes members that differ from their defaults.
private struct ModelJSONBuilder {
    var object = JSONObject()

    mutating func add(_ key: String, _ text: String?) {
        if let text { object[key] = .string(text) }
    }

    mutating func add(_ key: String, _ truth: Bool, default other: Bool) {
        if truth != other { object[key] = .boolean(truth) }
    }

    mutating func add(_ key: String, _ values: [JSONValue]) {
        if !values.isEmpty { object[key] = .array(values) }
    }

    mutating func add(_ key: String, _ value: PropertyValue?) {
        guard let value, !value.isNull else { return }
        object[key] = value.jsonValue { $0.description }
    }

    mutating func addCommon(
        renaming: String?, modifier: String?, userInfo: [String: String]
    ) {
        add("renamingIdentifier", renaming)
        add("hashModifier", modifier)
        guard !userInfo.isEmpty else { return }
        var information = JSONObject()
        for (key, text) in userInfo.sorted(by: {
            $0.key.utf8.lexicographicallyPrecedes($1.key.utf8)
        }) {
            information[key] = .string(text)
        }
        object["userInfo"] = .object(information)
    }
}

extension EntityDescription {
    fileprivate func jsonValue() -> JSONValue {
        var builder = ModelJSONBuilder()
        builder.add("name", name)
        builder.add("parent", parent)
        builder.add("abstract", isAbstract, default: false)
        builder.add("mergePolicy", mergePolicy?.rawValue)
        builder.add("attributes", attributes.map { $0.jsonValue() })
        builder.add("relationships", relationships.map { $0.jsonValue() })
        builder.add(
            "uniquenessConstraints",
            uniquenessConstraints.map { .array($0.map { .string($0) }) })
        builder.add("indexes", indexes.map { $0.jsonValue() })
        builder.addCommon(
            renaming: renamingIdentifier, modifier: hashModifier, userInfo: userInfo)
        return .object(builder.object)
    }
}

extension IndexDescription {
    /// The index as a model in JSON has it.
    package func jsonValue() -> JSONValue {
        var builder = ModelJSONBuilder()
        builder.add("name", name)
        builder.add("elements", elements.map { .string($0.description) })
        builder.add("predicate", predicate)
        return .object(builder.object)
    }
}

extension AttributeDescription {
    fileprivate func jsonValue() -> JSONValue {
        var builder = ModelJSONBuilder()
        builder.add("name", name)
        builder.add("type", type.rawValue)
        builder.add("optional", isOptional, default: true)
        builder.add("default", defaultValue)
        if formerDefault?.isNull ?? false { builder.object["formerDefault"] = .null }
        builder.add("formerDefault", formerDefault)
        builder.add("mergePolicy", mergePolicy?.rawValue)
        builder.add("transient", isTransient, default: false)
        builder.add("preservedOnDeletion", preservesValueInHistoryOnDeletion, default: false)
        builder.add("derivation", derivation?.expression)
        if validation != AttributeValidation() {
            var bounds = ModelJSONBuilder()
            bounds.add("min", validation.minimum)
            bounds.add("max", validation.maximum)
            bounds.add("pattern", validation.pattern)
            builder.object["validation"] = .object(bounds.object)
        }
        builder.addCommon(
            renaming: renamingIdentifier, modifier: hashModifier, userInfo: userInfo)
        return .object(builder.object)
    }
}

extension RelationshipDescription {
    fileprivate func jsonValue() -> JSONValue {
        var builder = ModelJSONBuilder()
        builder.add("name", name)
        builder.add("destination", destination)
        builder.add("inverse", inverse)
        builder.add("toMany", isToMany, default: false)
        builder.add("deleteRule", deleteRule.rawValue)
        builder.add("optional", isOptional, default: true)
        if minimumCount != 0 { builder.object["minCount"] = .integer(Int64(minimumCount)) }
        if maximumCount != 0 { builder.object["maxCount"] = .integer(Int64(maximumCount)) }
        builder.add("mergePolicy", mergePolicy?.rawValue)
        builder.addCommon(
            renaming: renamingIdentifier, modifier: hashModifier, userInfo: userInfo)
        return .object(builder.object)
    }
}
