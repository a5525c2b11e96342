// The outcome of an import.

import Console
import Coordinator

/// Counts, and why records were left out.
struct ImportReport {
    var read = 0
    var inserted = 0
    var updated = 0
    var unchanged = 0
    /// Objects made because a record referred to them.
    var referenced = 0
    /// References left out because their target does not exist.
    var referencesSkipped = 0
    /// Dates that had more digits than milliseconds.
    var datesRounded = 0
    /// Fields that are no properties, the first few.
    private(set) var fieldsLeftOut: [String] = []
    private var entity = ""
    private(set) var skipped: [(reason: String, count: Int)] = []
    /// The first few, with their lines.
    private(set) var examples: [String] = []
    var seconds = 0.0

    /// Examples beyond this say nothing new.
    private static let maximumExamples = 20

    /// How many were left out.
    var skippedCount: Int { skipped.reduce(0) { $0 + $1.count } }

    /// Whether something is wrong with the input.
    var hasFailures: Bool { skipped.contains { $0.reason != ImportReport.notSelected } }

    static let notSelected = "not selected"

    /// Notes a record that was left out.
    mutating func skip(_ reason: String, example: String? = nil) {
        if let index = skipped.firstIndex(where: { $0.reason == reason }) {
            skipped[index].count += 1
        } else {
            skipped.append((reason, 1))
        }
        if let example, examples.count < Self.maximumExamples { examples.append(example) }
    }

    /// Notes fields of a record that fill nothing.
    mutating func leaveOut(_ fields: [String], of entity: String) {
        self.entity = entity
        for field in fields
        where fieldsLeftOut.count < Self.maximumExamples && !fieldsLeftOut.contains(field) {
            fieldsLeftOut.append(field)
        }
    }

    private var rate: Int { seconds > 0 ? Int((Double(read) / seconds).rounded()) : 0 }

    /// As people read it.
    var lines: [String] {
        var lines = [
            "\(read) records read: \(inserted) inserted, \(updated) updated, "
                + "\(unchanged) unchanged, \(skippedCount) skipped."
        ]
        for entry in skipped { lines.append("  skipped \(entry.count): \(entry.reason)") }
        if !fieldsLeftOut.isEmpty {
            lines.append(
                "Fields left out because they fill no attribute of \(entity): "
                    + fieldsLeftOut.map { DisplayText.line($0) }.joined(separator: ", ") + ".")
        }
        if referenced > 0 { lines.append("\(referenced) objects made for references.") }
        if referencesSkipped > 0 {
            lines.append("\(referencesSkipped) references left out: no such object.")
        }
        if datesRounded > 0 { lines.append("\(datesRounded) dates rounded to milliseconds.") }
        let tenths = Int((seconds * 10).rounded())
        lines.append("\(tenths / 10).\(tenths % 10) s, \(rate) records/s.")
        return lines
    }

    /// As scripts read it.
    var json: JSONValue {
        var reasons = JSONObject()
        for entry in skipped { reasons[entry.reason] = .integer(Int64(entry.count)) }
        return [
            "read": .integer(Int64(read)), "inserted": .integer(Int64(inserted)),
            "updated": .integer(Int64(updated)), "unchanged": .integer(Int64(unchanged)),
            "skipped": .integer(Int64(skippedCount)), "reasons": .object(reasons),
            "examples": .array(examples.map { .string($0) }),
            "fieldsLeftOut": .array(fieldsLeftOut.map { .string($0) }),
            "datesRounded": .integer(Int64(datesRounded)),
            "referenced": .integer(Int64(referenced)),
            "referencesSkipped": .integer(Int64(referencesSkipped)), "seconds": .double(seconds),
            "recordsPerSecond": .integer(Int64(rate)),
        ]
    }
}
