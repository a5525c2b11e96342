// An import: reads records, looks up what is there, saves batch by batch.
//
// Memory is bounded by one batch and by the cache of references. Used by one task.

import Console
import Coordinator

/// Saves records into a node.
struct Importer {
    enum Limits {
        /// A save's values stay well under the node's bound of 16 MiB for a request.
        static let batchBytes = 4 << 20
        /// A save's operations: other saves wait while they are written.
        static let operations = 10_000
        /// Keys asked for at once.
        static let keys = 500
        /// References remembered between batches; each costs about 200 bytes.
        static let rememberedReferences = 100_000
    }

    let node: NodeInterface
    let plan: ImportPlan
    let onlyExisting: Bool
    let batchSize: Int
    /// The name of this run: with the batch's number it makes a save that is done at most once.
    let runID: String
    private(set) var report = ImportReport()

    private var batch: [PreparedRecord] = []
    /// The first line of the batch that was being saved last.
    private var savingLine: Int?
    private var batchKeys = Set<JSONValue>()
    private var batchBytes = 0
    /// For each reference of the plan, the keys in the batch whose objects may have to be made.
    private var batchReferences: [Set<JSONValue>]
    private var batchNumber = 0
    private var remembered: [[JSONValue: String]]
    /// Of these the keys that several objects have.
    private var sharedReferences: [Set<JSONValue>]

    init(
        node: NodeInterface, plan: ImportPlan, onlyExisting: Bool, batchSize: Int, runID: String
    ) {
        self.node = node
        self.plan = plan
        self.onlyExisting = onlyExisting
        self.batchSize = batchSize
        self.runID = runID
        batchReferences = plan.references.map { _ in [] }
        remembered = plan.references.map { _ in [:] }
        sharedReferences = plan.references.map { _ in [] }
    }

    /// Notes a record that was left out before it came here.
    mutating func skip(_ reason: String, example: String? = nil) {
        report.skip(reason, example: example)
    }

    /// Notes a record that was read.
    mutating func countRead() { report.read += 1 }

    /// Takes a record; saves when a batch is full.
    mutating func add(_ record: ImportRecord) async throws {
        let leftOut = plan.fieldsLeftOut(of: record)
        if leftOut.count == record.fields.members.count {
            return report.skip(
                "no property",
                example: "line \(record.line): no field of it is a property of \(plan.entity.name)")
        }
        // Of such a file most fields are always for somebody else.
        if !plan.isControl { report.leaveOut(leftOut, of: plan.entity.name) }
        report.datesRounded += plan.roundedDates(of: record)
        let prepared: PreparedRecord
        do {
            prepared = try prepare(record)
        } catch let error as RecordError {
            return report.skip("malformed", example: "\(error)")
        }
        if let key = prepared.key {
            guard key != .null else {
                return report.skip("no key", example: "line \(record.line): the key is empty")
            }
            // The second record of a key must find the object the first one made.
            if batchKeys.contains(key) { try await flush() }
            batchKeys.insert(key)
        }
        if operationCount(with: prepared) > Limits.operations { try await flush() }
        batch.append(prepared)
        for position in batchReferences.indices {
            batchReferences[position].formUnion(newReferences(of: prepared, position))
        }
        batchBytes += JSONWriter.bytes(of: .object(prepared.values)).count
        if batch.count >= batchSize || batchBytes >= Limits.batchBytes { try await flush() }
    }

    /// How many operations the batch has at most, once a record is added.
    private func operationCount(with record: PreparedRecord) -> Int {
        batchReferences.indices.reduce(batch.count + 1) { count, position in
            count + batchReferences[position].count
                + newReferences(of: record, position).subtracting(batchReferences[position]).count
        }
    }

    /// The keys of a record's reference whose objects are not known to be in the store.
    private func newReferences(of record: PreparedRecord, _ position: Int) -> Set<JSONValue> {
        Set(record.references[position].filter { remembered[position][$0] == nil })
    }

    /// Saves what waits.
    mutating func flush() async throws {
        guard !batch.isEmpty else { return }
        let records = batch
        batch = []
        batchKeys = []
        batchBytes = 0
        batchReferences = plan.references.map { _ in [] }
        batchNumber += 1
        savingLine = records[0].line
        do {
            try await save(records, saveID: "\(runID)-\(batchNumber)")
        } catch let failure as CommandFailure where Self.isAboutRecords(failure) {
            guard records.count > 1 else { return refuse(records[0], failure) }
            // One record spoils the batch: each by itself, so that only that one is left out.
            for (index, record) in records.enumerated() {
                savingLine = record.line
                do {
                    try await save([record], saveID: "\(runID)-\(batchNumber)-\(index)")
                } catch let failure as CommandFailure where Self.isAboutRecords(failure) {
                    refuse(record, failure)
                }
            }
        }
    }

    /// A failure that is no record's: it names the line from which on records may not be saved.
    func unsaved(because failure: CommandFailure, in name: String) -> CommandFailure {
        let place =
            savingLine.map {
                let isLost = failure.mayHaveHappened || failure.code == .outcomeUnknown
                return "What comes before line \($0) of \(name) was taken; "
                    + (isLost ? "of the rest nothing is known." : "the rest was not saved.")
            } ?? "Nothing of \(name) was saved."
        var told = CommandFailure(
            failure.code,
            "\(failure.message) \(place) Import again with --key: what is there stays as it is.",
            answer: failure.answer)
        told.mayHaveHappened = failure.mayHaveHappened
        return told
    }

    private static func isAboutRecords(_ failure: CommandFailure) -> Bool {
        failure.code == .refused || failure.isTooLarge
    }

    private mutating func refuse(_ record: PreparedRecord, _ failure: CommandFailure) {
        report.skip("refused", example: "line \(record.line): \(failure.message)")
    }

    private func prepare(_ record: ImportRecord) throws -> PreparedRecord {
        var values = try plan.values(of: record)
        for name in try plan.clearedReferences(of: record) { values[name] = .null }
        let key = plan.key.map { values[$0.name] ?? .null }
        return PreparedRecord(
            line: record.line, values: values, key: key,
            references: try plan.references.map { try plan.keys(of: record, $0) })
    }

    private mutating func save(_ records: [PreparedRecord], saveID: String) async throws {
        let existing = try await lookUp(records)
        let clear = records.filter { record in
            guard let reason = existing.ambiguity(of: record, plan) else { return true }
            report.skip("refused", example: "line \(record.line): \(reason)")
            return false
        }
        let composed = ImportBatch(
            clear, plan: plan, existing: existing, onlyExisting: onlyExisting)
        if !composed.operations.isEmpty {
            var body: JSONObject = [
                "operations": .array(composed.operations), "saveID": .string(saveID),
                "author": .string("import"),
            ]
            // One record may refer to very many objects, and cannot be divided.
            if composed.operations.count > Limits.operations { body["bulk"] = .boolean(true) }
            _ = try await node.save(.object(body), saveID: saveID)
        }
        report.inserted += composed.report.inserted
        report.updated += composed.report.updated
        report.unchanged += composed.report.unchanged
        report.referenced += composed.report.referenced
        report.referencesSkipped += composed.report.referencesSkipped
    }

    // MARK: Looking up

    private mutating func lookUp(_ records: [PreparedRecord]) async throws -> ExistingObjects {
        var existing = ExistingObjects()
        if let key = plan.key {
            var properties = [key.name]
            for record in records {
                for member in record.values.members where !properties.contains(member.key) {
                    properties.append(member.key)
                }
            }
            for reference in plan.references
            where !properties.contains(reference.rule.relationship) {
                properties.append(reference.rule.relationship)
            }
            for object in try await fetch(
                plan.entity.name, key.name, records.compactMap(\.key), properties)
            {
                guard let value = object["values"]?.object?[key.name] else { continue }
                if existing.records.updateValue(object, forKey: value) != nil {
                    existing.sharedKeys.insert(value)
                }
            }
        }
        for (position, reference) in plan.references.enumerated() {
            var known = remembered[position]
            var shared = sharedReferences[position]
            if known.count > Limits.rememberedReferences { (known, shared) = ([:], []) }
            var asked = Set<JSONValue>()
            var unknown: [JSONValue] = []
            for key in records.flatMap({ $0.references[position] })
            where known[key] == nil && asked.insert(key).inserted {
                unknown.append(key)
            }
            let rule = reference.rule
            for object in try await fetch(rule.entity, rule.key, unknown, [rule.key]) {
                guard let value = object["values"]?.object?[rule.key],
                    let uri = object["id"]?.string
                else { continue }
                if known.updateValue(uri, forKey: value) != nil { shared.insert(value) }
            }
            remembered[position] = known
            sharedReferences[position] = shared
            existing.sharedReferences.append(shared)
            existing.references.append(known)
        }
        return existing
    }

    /// The objects whose key is one of some, oldest first.
    private func fetch(
        _ entity: String, _ key: String, _ keys: [JSONValue], _ properties: [String]
    ) async throws -> [JSONObject] {
        var result: [JSONObject] = []
        var first = 0
        while first < keys.count {
            let part = Array(keys[first..<min(first + Limits.keys, keys.count)])
            first += part.count
            let answer = try await node.post(
                "/v1/fetch",
                [
                    "entity": .string(entity), "predicate": .string("\(key) IN $keys"),
                    "substitutions": ["keys": .array(part)],
                    "properties": .array(properties.map { .string($0) }),
                ])
            result += (answer.json.object?["objects"]?.array ?? []).compactMap(\.object)
        }
        return result
    }
}
