import ArgumentParser
import Console
import Coordinator
import Foundation

/// `tributary export`.
struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Write the objects of an entity as CSV or JSON lines to standard output.",
        discussion: """
            CSV of an entity that others inherit from has the column entity, and all properties of \
            these. A nil is an empty field, an empty text is \"\" in quotes.
            """)

    @OptionGroup var fetch: FetchOptions

    @Option(help: "csv or jsonl.")
    var format = "jsonl"

    @Option(help: "The properties, separated by commas; by default all.")
    var properties: String?

    @Option(
        help:
            "A key path to sort by, or \"localizedStandard:(KEY, de)\"; descending with --sort=-KEY. May be repeated."
    )
    var sort: [String] = []

    @OptionGroup var source: SourceOptions

    func validate() throws {
        guard format == "csv" || format == "jsonl" else {
            throw ValidationError("--format is csv or jsonl.")
        }
    }

    func run() async throws {
        let interface = try source.open()
        var names = properties?.split(separator: ",").map(String.init)
        var body = try fetch.body()
        if !sort.isEmpty { body["sort"] = .array(sort.map { .string($0) }) }
        if let names { body["properties"] = .array(names.map { .string($0) }) }
        var keepsEntity = false
        if format == "csv" {
            let model = try ManagedObjectModel(json: try await interface.get("/v1/model").json)
            if let entity = model.entity(named: fetch.entity) {
                keepsEntity = entity.familyNames.count > 1
                if names == nil { names = Self.properties(of: entity.familyNames, in: model) }
            }
        }
        let columns = names ?? []
        let first = keepsEntity ? ["id", "entity"] : ["id"]
        if format == "csv" { try Terminal.print(CSVWriter.row(first + columns)) }
        var progress = ProgressLine(isQuiet: isatty(STDOUT_FILENO) == 1)
        var count = 0
        let isCSV = format == "csv"
        try await interface.fetchLines(.object(body)) { object in
            if isCSV {
                let values = object["values"]?.object
                let cells = columns.map { CSVWriter.text(values?[$0]) }
                try Terminal.print(CSVWriter.row(first.map { object[$0]?.string } + cells))
            } else {
                try Terminal.print(bytes: JSONWriter.bytes(of: .object(object)))
            }
            count += 1
            progress.update(records: count, fraction: nil)
        }
        progress.end()
        await interface.close()
    }

    /// The properties of an entity and of those that inherit from it, each once.
    private static func properties(of names: [String], in model: ManagedObjectModel) -> [String] {
        var result: [String] = []
        var known = Set<String>()
        for entity in names.compactMap({ model.entity(named: $0) }) {
            let derived = entity.relationships.map(\.name).filter { entity.position(of: $0) == nil }
            for name in entity.properties.map(\.name) + derived where known.insert(name).inserted {
                result.append(name)
            }
        }
        return result
    }
}

/// Writes CSV (RFC 4180).
enum CSVWriter {
    /// A value as a field: nothing for nil, lists separated by commas.
    static func text(_ value: JSONValue?) -> String? {
        switch value {
        case nil, .null?: nil
        case .string(let text)?: text
        case .array(let elements)?:
            elements.isEmpty ? nil : elements.compactMap(text).joined(separator: ",")
        case .some(let other): JSONWriter.text(of: other)
        }
    }

    /// A row, without its end; an empty text is in quotes, so that it is not read as nil.
    static func row(_ fields: [String?]) -> String {
        fields.map { field in
            guard let field else { return "" }
            let isPlain =
                !field.isEmpty
                && !field.utf8.contains {
                    $0 == 0x22 || $0 == 0x2C || $0 == 0x0A || $0 == 0x0D
                }
            return isPlain ? field : "\"\(field.replacing("\"", with: "\"\""))\""
        }.joined(separator: ",")
    }
}
