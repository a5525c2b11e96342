import ArgumentParser
import Console
import Coordinator
import Foundation

/// `tributary import`.
struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Import CSV, JSON lines or Debian control files.",
        discussion: """
            Columns whose name is an attribute's fill it; --map says otherwise. With --key an \
            object with that value is updated, and made where there is none. References are \
            found by a key of their own, and made where there are none:

              tributary import Packages --entity Package --key name --map Package=name \\
                --reference 'Depends=dependencies:Package.name'

            An empty cell of CSV is null: it clears an attribute and a to-one, and adds nothing to \
            a to-many; "" in quotes is an empty text. Dates are ISO 8601: with an offset where they \
            have a time, midnight UTC where they have none.

            Batches are saved so that a repeated one is done once. Ends with 1 where records were \
            left out as malformed or refused.
            """)

    @Argument(help: "The file, or - for standard input.", completion: .file())
    var file: String

    @Option(help: "The entity of the objects.")
    var entity: String

    @Option(help: "csv, jsonl or control; guessed from the file's name.")
    var format: String?

    @Option(help: "What separates the fields of CSV: one character, or tab; by default a comma.")
    var delimiter: String?

    @Option(help: "COLUMN=PROPERTY. May be repeated.")
    var map: [String] = []

    @Option(help: "The attribute by which objects are found, to be updated.")
    var key: String?

    @Option(help: "COLUMN=RELATIONSHIP:ENTITY.KEY. May be repeated.")
    var reference: [String] = []

    @Flag(help: "Leave out references to objects that do not exist; else they are inserted.")
    var existingOnly = false

    @Option(name: .customLong("where"), help: "COLUMN=REGEX: only records that match.")
    var conditions: [String] = []

    @Option(help: "INDEX/COUNT, such as 1/3: only the records whose key hashes to it.")
    var part: String?

    @Option(help: "Records a save.")
    var batch = 500

    @OptionGroup var options: NodeOptions

    func validate() throws {
        guard (1...10_000).contains(batch) else {
            throw ValidationError("--batch is 1 to 10000.")
        }
        guard part == nil || key != nil else { throw ValidationError("--part needs --key.") }
    }

    func run() async throws {
        guard
            let format = format.map({ RecordFormat(rawValue: $0) })
                ?? RecordFormat(guessing: file)
        else {
            throw CommandFailure.usage("Say the format with --format csv, jsonl or control.")
        }
        guard delimiter == nil || format == .csv else {
            throw CommandFailure.usage("--delimiter is for CSV.")
        }
        let separator = try CSVReader.delimiter(delimiter ?? ",")
        let rules = try reference.map { try ReferenceRule($0) }
        let filter = try RecordFilter(conditions: conditions, part: part)
        let source = try ByteSource(path: file)
        let node = try options.open()
        let model = try ManagedObjectModel(json: try await node.get("/v1/model").json)
        let plan = try ImportPlan(
            model: model, entity: entity, maps: map, key: key, references: rules,
            format: format)
        var importer = Importer(
            node: node, plan: plan, onlyExisting: existingOnly, batchSize: batch,
            runID: "import-\(UUID().uuidString)")
        var progress = ProgressLine()
        var end: RecordError?
        var columns = ColumnsMissed(plan, filter)
        // The node's fault: the output names the records saved until then all the same.
        var broken: CommandFailure?
        do {
            var reader = try format.reader(source, delimiter: separator)
            if let columns = reader.columns {
                try plan.check(columns: columns, conditions: filter.columns)
            }
            try await read(&reader, source, filter, plan, &columns, &importer, &progress)
        } catch let error as RecordError {
            end = error
        } catch let failure as CommandFailure where importer.report.read > 0 {
            broken = failure
        }
        progress.end()
        var report = importer.report
        report.seconds = progress.seconds
        await node.close()
        if let end, report.read <= 1 { throw CommandFailure.usage("\(source.name), \(end).") }
        if let broken {
            return try tell(report, importer.unsaved(because: broken, in: source.name))
        }
        if end == nil, report.read > 0, let missing = columns.first {
            return try tell(
                report, .usage("No record has \(missing.column), which \(missing.flag) names."))
        }
        let reason =
            end.map { "\(source.name), \($0). What comes after that was not read" }
            ?? "Not all records were imported"
        try tell(
            report,
            report.hasFailures
                ? CommandFailure(.failed, "\(reason); correct them and import again with --key.")
                : nil)
    }

    private func read(
        _ reader: inout any RecordReader, _ source: ByteSource, _ filter: RecordFilter,
        _ plan: ImportPlan, _ columns: inout ColumnsMissed, _ importer: inout Importer,
        _ progress: inout ProgressLine
    ) async throws {
        while true {
            do {
                guard let next = try reader.next() else { break }
                importer.countRead()
                columns.see(next, plan)
                if filter.isOtherEntity(next) {
                    importer.skip(ImportReport.notSelected)
                    continue
                }
                let record = try plan.unwrapped(next)
                columns.see(record, plan)
                if try filter.takes(record, of: next, plan) {
                    try await importer.add(record)
                } else {
                    importer.skip(ImportReport.notSelected)
                }
            } catch let error as RecordError {
                importer.skip("malformed", example: "\(error)")
                guard reader.canResume else {
                    // Records read before are good, and are kept.
                    try await importer.flush()
                    throw error
                }
            }
            progress.update(records: importer.report.read, fraction: source.fraction)
        }
        try await importer.flush()
    }

    private func tell(_ report: ImportReport, _ failure: CommandFailure?) throws {
        try CommandFailure.found(failure) {
            if options.json {
                try Terminal.print(bytes: JSONWriter.bytes(of: report.json))
            } else {
                for line in report.lines { try Terminal.print(line) }
            }
            for example in report.examples { Terminal.complain("\(DisplayText.line(example))\n") }
        }
    }
}

/// Which records are wanted.
struct RecordFilter {
    private let conditions: [(column: String, pattern: Regex<AnyRegexOutput>)]
    private let part: ImportPart?

    /// - Throws: ``CommandFailure`` for what is no condition.
    init(conditions: [String], part: String?) throws {
        self.conditions = try conditions.map { text in
            let sides = text.split(separator: "=", maxSplits: 1).map(String.init)
            guard sides.count == 2, let pattern = try? Regex(sides[1]) else {
                throw CommandFailure.usage("--where is COLUMN=REGEX, not \(text).")
            }
            return (sides[0], pattern)
        }
        self.part = try part.map { try ImportPart($0) }
    }

    /// The columns that conditions name.
    var columns: [String] { conditions.map(\.column) }

    /// Whether a record is an exported object of an entity that a condition leaves out.
    func isOtherEntity(_ record: ImportRecord) -> Bool {
        guard let entity = record.fields["entity"]?.string,
            record.fields["id"]?.string?.hasPrefix("x-tributary:") ?? false
        else { return false }
        return conditions.contains {
            $0.column == "entity" && entity.firstMatch(of: $0.pattern) == nil
        }
    }

    /// Whether a record is wanted.
    ///
    /// - Parameter whole: the record as the file has it.
    func takes(_ record: ImportRecord, of whole: ImportRecord, _ plan: ImportPlan) throws -> Bool {
        for condition in conditions {
            let value =
                plan.field(condition.column, of: record)
                ?? whole.fields[condition.column] ?? .null
            let text = value == .null ? "" : JSONRendering.brief(value)
            guard text.firstMatch(of: condition.pattern) != nil else { return false }
        }
        guard let part, let key = plan.key else { return true }
        return part.contains(JSONRendering.brief(try plan.values(of: record)[key.name]))
    }
}

/// The columns that flags name and that no record has had so far.
struct ColumnsMissed {
    private var missed: [(flag: String, column: String)]

    init(_ plan: ImportPlan, _ filter: RecordFilter) {
        missed = plan.namedColumns + filter.columns.map { ("--where", $0) }
    }

    /// One of them; nil where there is none.
    var first: (flag: String, column: String)? { missed.first }

    mutating func see(_ record: ImportRecord, _ plan: ImportPlan) {
        guard !missed.isEmpty else { return }
        missed.removeAll { plan.field($0.column, of: record) != nil }
    }
}
