// One batch of an import as one save.

import Coordinator

/// A record whose values were read and checked.
struct PreparedRecord {
    let line: Int
    let values: JSONObject
    /// The value by which the object is found; nil where every record makes a new object.
    let key: JSONValue?
    /// The keys each reference of the plan leads to.
    let references: [[JSONValue]]
}

/// The objects that the store has already of those that a batch names.
struct ExistingObjects {
    /// The object of each record's key.
    var records: [JSONValue: JSONObject] = [:]
    /// The URI of each key of each reference of the plan.
    var references: [[JSONValue: String]] = []
    /// Keys of records that several objects have: nobody can tell which of them is meant.
    var sharedKeys: Set<JSONValue> = []
    /// The same of each reference of the plan.
    var sharedReferences: [Set<JSONValue>] = []

    /// Why it is not known which object a record, or one of its references, means; nil where it is.
    func ambiguity(of record: PreparedRecord, _ plan: ImportPlan) -> String? {
        if let key = record.key, let name = plan.key?.name, sharedKeys.contains(key) {
            return "several objects have \(name) \(JSONRendering.brief(key))"
        }
        for (position, keys) in record.references.enumerated()
        where position < sharedReferences.count {
            guard let key = keys.first(where: { sharedReferences[position].contains($0) }) else {
                continue
            }
            let rule = plan.references[position].rule
            return "\(rule.column): several objects of \(rule.entity) have \(rule.key) "
                + JSONRendering.brief(key)
        }
        return nil
    }
}

/// Composes the operations of a save. Pure.
struct ImportBatch {
    let plan: ImportPlan
    let existing: ExistingObjects
    let onlyExisting: Bool
    private(set) var operations: [JSONValue] = []
    private(set) var report = ImportReport()
    /// Temporary identities of objects made in this save, by entity, key and value.
    private var made: [MadeKey: String] = [:]

    private struct MadeKey: Hashable {
        let entity: String
        let key: String
        let value: JSONValue
    }

    /// Composes the save of some records.
    init(
        _ records: [PreparedRecord], plan: ImportPlan, existing: ExistingObjects,
        onlyExisting: Bool
    ) {
        self.plan = plan
        self.existing = existing
        self.onlyExisting = onlyExisting
        // Records may refer to each other in any order, so all that are new are named first.
        for (index, record) in records.enumerated() {
            guard let key = record.key, let name = plan.key?.name, existing.records[key] == nil
            else { continue }
            made[MadeKey(entity: plan.entity.name, key: name, value: key)] = "@r\(index)"
        }
        for (index, record) in records.enumerated() { add(record, index) }
    }

    private mutating func add(_ record: PreparedRecord, _ index: Int) {
        var values = record.values
        var additions = JSONObject()
        let found = record.key.flatMap { existing.records[$0] }
        let stored = found?["values"]?.object
        for (position, keys) in record.references.enumerated() where !keys.isEmpty {
            let reference = plan.references[position]
            let targets = keys.compactMap { target($0, position) }
            let name = reference.rule.relationship
            if !reference.isToMany {
                if let target = targets.first { values[name] = .string(target) }
                continue
            }
            let known = Set((stored?[name]?.array ?? []).compactMap(\.string))
            let missing = targets.filter { !known.contains($0) }
            guard !missing.isEmpty else { continue }
            let list = JSONValue.array(missing.map { .string($0) })
            if found == nil { values[name] = list } else { additions[name] = list }
        }
        guard let found, let uri = found["id"]?.string else {
            operations.append([
                "insert": .string(plan.entity.name), "id": .string("@r\(index)"),
                "values": .object(values),
            ])
            report.inserted += 1
            return
        }
        var changed = JSONObject()
        for member in values.members where stored?[member.key] != member.value {
            changed[member.key] = member.value
        }
        guard !changed.members.isEmpty || !additions.members.isEmpty else {
            report.unchanged += 1
            return
        }
        var operation: JSONObject = ["update": .string(uri), "values": .object(changed)]
        if !additions.members.isEmpty { operation["add"] = .object(additions) }
        operations.append(.object(operation))
        report.updated += 1
    }

    /// The object a key leads to: one of the store, one of this save, or a new one.
    private mutating func target(_ key: JSONValue, _ position: Int) -> String? {
        if let uri = existing.references[position][key] { return uri }
        let rule = plan.references[position].rule
        let name = MadeKey(entity: rule.entity, key: rule.key, value: key)
        if let temporary = made[name] { return temporary }
        guard !onlyExisting else {
            report.referencesSkipped += 1
            return nil
        }
        let temporary = "@c\(made.count)"
        made[name] = temporary
        var values = JSONObject()
        values[rule.key] = key
        operations.append([
            "insert": .string(rule.entity), "id": .string(temporary), "values": .object(values),
        ])
        report.referenced += 1
        return temporary
    }
}
