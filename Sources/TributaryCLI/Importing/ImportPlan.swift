// The flags of an import, checked against the model.

import Console
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
    /// The columns that flags name, with the flag.
    let namedColumns: [(flag: String, column: String)]
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
            guard found.derivation == nil else {
                throw CommandFailure.usage(
                    "\(entity.name).\(name) is derived; the store computes it.")
            }
            return found
        }
        var mapped: [String: AttributeDescription] = [:]
        var named: [(flag: String, column: String)] = []
        for text in maps {
            let sides = text.split(separator: "=", maxSplits: 1).map(String.init)
            guard sides.count == 2 else {
                throw CommandFailure.usage("--map is COLUMN=PROPERTY, not \(text).")
            }
            let (column, filled) = (Self.folded(sides[0], format), try attribute(sides[1]))
            guard mapped[column] == nil else {
                throw CommandFailure.usage("--map names the column \(sides[0]) twice.")
            }
            guard !mapped.values.contains(where: { $0.name == filled.name }) else {
                throw CommandFailure.usage("--map fills \(filled.name) from two columns.")
            }
            mapped[column] = filled
            named.append(("--map", sides[0]))
        }
        for (index, rule) in rules.enumerated() {
            guard !rules[..<index].contains(where: { $0.relationship == rule.relationship }) else {
                throw CommandFailure.usage(
                    "--reference fills \(rule.relationship) from two columns.")
            }
            guard mapped[Self.folded(rule.column, format)] == nil else {
                throw CommandFailure.usage(
                    "--map and --reference both name the column \(rule.column).")
            }
            named.append(("--reference", rule.column))
        }
        self.entity = entity
        self.mapped = mapped
        namedColumns = named
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
        let folded = Self.folded(column, format)
        if let mapped = mapped[folded] { return mapped }
        if references.contains(where: { Self.folded($0.rule.column, format) == folded }) {
            return nil
        }
        if let attribute = entity.attribute(named: column), attribute.derivation == nil {
            return attribute
        }
        guard isControl else { return nil }
        // `Version` fills `version`, but not what another field is said to fill.
        return entity.properties.lazy.map(\.name)
            .filter { name in
                name.lowercased() == folded && !mapped.values.contains { $0.name == name }
            }
            .compactMap { entity.attribute(named: $0) }.first
    }

    /// Control files write names of fields in any case.
    private static func folded(_ column: String, _ format: RecordFormat) -> String {
        format == .control ? column.lowercased() : column
    }

    /// A record's value in a column; nil if it has no such column.
    func field(_ column: String, of record: ImportRecord) -> JSONValue? {
        if let value = record.fields[column] { return value }
        guard isControl else { return nil }
        let folded = Self.folded(column, format)
        return record.fields.members.first { Self.folded($0.key, format) == folded }?.value
    }

    /// Checks the columns that all records have.
    ///
    /// - Parameter conditions: the columns that `--where` names.
    /// - Throws: ``CommandFailure`` where a flag names one that is missing, or two fill one attribute.
    func check(columns: [String], conditions: [String]) throws {
        for (flag, column) in namedColumns + conditions.map({ ("--where", $0) })
        where !columns.contains(column) {
            throw CommandFailure.usage(
                "The file has no column \(column), which \(flag) names; it has "
                    + "\(columns.prefix(50).map { DisplayText.line($0) }.joined(separator: ", ")).")
        }
        if let (first, second, name) = columnsOfOne(columns) {
            throw CommandFailure.usage("The columns \(first) and \(second) both fill \(name).")
        }
    }

    /// Two columns that fill one attribute; nil where there are none.
    private func columnsOfOne(_ columns: [String]) -> (String, String, attribute: String)? {
        var filled: [String: String] = [:]
        for column in columns {
            guard let name = attribute(for: column)?.name else { continue }
            if let other = filled[name] { return (other, column, name) }
            filled[name] = column
        }
        return nil
    }

    /// A record with its fields; of one that `tributary export` has written, those of its object.
    ///
    /// - Throws: ``RecordError`` where that is of another entity.
    func unwrapped(_ record: ImportRecord) throws -> ImportRecord {
        guard record.fields["id"]?.string?.hasPrefix("x-tributary:") ?? false else { return record }
        if attribute(for: "entity") == nil, let name = record.fields["entity"]?.string,
            name != entity.name
        {
            throw RecordError(
                line: record.line,
                "it is of entity \(name); import those with --entity \(name) and "
                    + "--where 'entity=^\(name)$'")
        }
        guard attribute(for: "values") == nil, let values = record.fields["values"]?.object else {
            return record
        }
        return ImportRecord(line: record.line, fields: values)
    }

    /// The fields of a record that fill nothing, in their order.
    func fieldsLeftOut(of record: ImportRecord) -> [String] {
        record.fields.members.map(\.key).filter { column in
            attribute(for: column) == nil
                && !references.contains {
                    Self.folded($0.rule.column, format) == Self.folded(column, format)
                }
        }
    }

    /// The values of a record by attribute.
    ///
    /// - Throws: ``RecordError`` for one that is not of its attribute's type.
    func values(of record: ImportRecord) throws -> JSONObject {
        if let (first, second, name) = columnsOfOne(record.fields.members.map(\.key)) {
            throw RecordError(line: record.line, "\(first) and \(second) both fill \(name)")
        }
        var values = JSONObject()
        for field in record.fields.members {
            guard let attribute = attribute(for: field.key) else { continue }
            do {
                values[attribute.name] = try ImportValue.json(
                    field.value, attribute, isTyped: format != .control)
                if format == .csv, field.value == .null, attribute.type == .string,
                    !attribute.isOptional
                {
                    values[attribute.name] = .string("")
                }
            } catch {
                throw RecordError(line: record.line, "\(field.key): \(error)")
            }
        }
        return values
    }

    /// How many dates of a record are rounded to milliseconds.
    func roundedDates(of record: ImportRecord) -> Int {
        record.fields.members.count { field in
            guard attribute(for: field.key)?.type == .date, let text = field.value.string else {
                return false
            }
            return ImportDate(ControlReader.trimmed(text))?.isRounded ?? false
        }
    }

    /// The to-ones that a record clears: it has their column, with nothing in it.
    func clearedReferences(of record: ImportRecord) throws -> [String] {
        try references.filter {
            guard !$0.isToMany, field($0.rule.column, of: record) != nil else { return false }
            return try keys(of: record, $0).isEmpty
        }.map(\.rule.relationship)
    }

    /// The keys of the objects that a record refers to, each once.
    func keys(of record: ImportRecord, _ reference: Reference) throws -> [JSONValue] {
        guard let value = field(reference.rule.column, of: record) else { return [] }
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
