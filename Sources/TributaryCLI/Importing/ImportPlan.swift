// What the flags of an import ask for, checked against the model.

import Coordinator
import Merge

/// A reference to find or create: `Depends=dependencies:Package.name`.
struct ReferenceRule: Hashable {
    let column: String
    let relationship: String
    let entity: String
    let key: String

    /// - Throws: ``CommandFailure`` where the text is not of that form.
    init(_ text: String) throws {
        let sides = text.split(separator: "=", maxSplits: 1).map(String.init)
        let parts = (sides.count == 2 ? sides[1] : "").split(separator: ":").map(String.init)
        let target = (parts.count == 2 ? parts[1] : "").split(separator: ".").map(String.init)
        guard target.count == 2 else {
            throw CommandFailure.usage(
                "--reference is COLUMN=RELATIONSHIP:ENTITY.KEY, not \(text).")
        }
        column = sides[0]
        relationship = parts[0]
        entity = target[0]
        key = target[1]
    }
}

/// Each so-many-th record, by a hash of its key that is the same everywhere.
struct ImportPart: Hashable {
    let index: Int
    let count: Int

    /// Reads `1/3`.
    init(_ text: String) throws {
        let numbers = text.split(separator: "/", omittingEmptySubsequences: false).map { Int($0) }
        guard numbers.count == 2, let index = numbers[0], let count = numbers[1], count >= 1,
            (1...count).contains(index)
        else { throw CommandFailure.usage("--part is such as 1/3, not \(text).") }
        self.index = index
        self.count = count
    }

    /// Whether the record of that key is in this part.
    func contains(_ key: String) -> Bool {
        // FNV-1a, 64 bits.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in key.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        return Int(hash % UInt64(count)) == index - 1
    }
}

/// How records become objects.
struct ImportPlan {
    /// A column and the attribute it fills.
    struct Mapping {
        let column: String
        let attribute: AttributeDescription
    }

    /// A reference with what the model says of it.
    struct Reference {
        let rule: ReferenceRule
        let isToMany: Bool
        let keyType: AttributeType
    }

    let entity: ManagedObjectModel.Entity
    /// Explicit mappings; columns that are named like an attribute need none.
    private let mapped: [String: AttributeDescription]
    let references: [Reference]
    let key: AttributeDescription?
    let format: RecordFormat
    var isControl: Bool { format == .control }

    /// - Throws: ``CommandFailure`` for names the model does not have.
    init(
        model: ManagedObjectModel, entity name: String, maps: [String], key: String?,
        references rules: [ReferenceRule], format: RecordFormat
    ) throws {
        guard let entity = model.entity(named: name), !entity.isAbstract else {
            let known = model.entities.filter { !$0.isAbstract }.map(\.name)
            throw CommandFailure.usage(
                "There is no entity \(name) to make objects of; there are "
                    + "\(known.joined(separator: ", ")).")
        }
        func attribute(_ name: String) throws -> AttributeDescription {
            guard let found = entity.attribute(named: name) else {
                throw CommandFailure.usage("\(entity.name) has no attribute \(name).")
            }
            return found
        }
        var mapped: [String: AttributeDescription] = [:]
        for text in maps {
            let sides = text.split(separator: "=", maxSplits: 1).map(String.init)
            guard sides.count == 2 else {
                throw CommandFailure.usage("--map is COLUMN=PROPERTY, not \(text).")
            }
            mapped[sides[0]] = try attribute(sides[1])
        }
        self.entity = entity
        self.mapped = mapped
        self.format = format
        self.key = try key.map(attribute)
        references = try rules.map { rule in
            guard let relationship = entity.relationship(named: rule.relationship) else {
                throw CommandFailure.usage(
                    "\(entity.name) has no relationship \(rule.relationship).")
            }
            guard let target = model.entity(named: rule.entity),
                let type = target.attribute(named: rule.key)?.type,
                model.entity(named: relationship.destination)?.familyNames.contains(rule.entity)
                    ?? false
            else {
                throw CommandFailure.usage(
                    "\(rule.relationship) does not lead to \(rule.entity) with an attribute "
                        + "\(rule.key).")
            }
            return Reference(rule: rule, isToMany: relationship.isToMany, keyType: type)
        }
    }

    /// The attribute that a column fills; nil where it fills none.
    func attribute(for column: String) -> AttributeDescription? {
        if let mapped = mapped[column] { return mapped }
        if references.contains(where: { $0.rule.column == column }) { return nil }
        return entity.attribute(named: column)
    }

    /// A record with its fields; of one that `tributary export` has written, those of its object.
    ///
    /// - Throws: ``RecordError`` where that is of another entity.
    func unwrapped(_ record: ImportRecord) throws -> ImportRecord {
        guard attribute(for: "values") == nil, let values = record.fields["values"]?.object,
            record.fields["id"]?.string?.hasPrefix("x-tributary:") ?? false
        else { return record }
        if let name = record.fields["entity"]?.string, name != entity.name {
            throw RecordError(
                line: record.line, "it is of entity \(name); import those with --entity \(name)")
        }
        return ImportRecord(line: record.line, fields: values)
    }

    /// The fields of a record that fill nothing, in their order.
    func fieldsLeftOut(of record: ImportRecord) -> [String] {
        record.fields.members.map(\.key).filter { column in
            attribute(for: column) == nil
                && !references.contains { $0.rule.column == column }
        }
    }

    /// The values of a record by attribute.
    ///
    /// - Throws: ``RecordError`` for one that is not of its attribute's type.
    func values(of record: ImportRecord) throws -> JSONObject {
        var values = JSONObject()
        for field in record.fields.members {
            guard let attribute = attribute(for: field.key) else { continue }
            do {
                values[attribute.name] = try ImportValue.json(
                    field.value, attribute, isTyped: format == .jsonl)
            } catch {
                throw RecordError(line: record.line, "\(field.key): \(error)")
            }
        }
        return values
    }

    /// The keys of the objects that a record refers to, each once.
    func keys(of record: ImportRecord, _ reference: Reference) throws -> [JSONValue] {
        guard let value = record.fields[reference.rule.column] else { return [] }
        let texts: [JSONValue]
        switch value {
        case .null: return []
        case .array(let elements): texts = elements
        case .string(let text):
            let parts =
                !reference.isToMany && !isControl
                ? [text] : ImportValue.list(text, strippingVersions: isControl)
            texts = (reference.isToMany ? parts : Array(parts.prefix(1))).map { .string($0) }
        default: texts = [value]
        }
        var result: [JSONValue] = []
        for text in texts where text != .string("") {
            let converted: JSONValue
            do {
                converted = try ImportValue.json(text, reference.keyType)
            } catch {
                throw RecordError(line: record.line, "\(reference.rule.column): \(error)")
            }
            if !result.contains(converted) { result.append(converted) }
        }
        return result
    }
}
