import ArgumentParser
import Coordinator
import Foundation

/// `tributary export`.
struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Write the objects of an entity as CSV or JSON lines to standard output.")

    @OptionGroup var fetch: FetchOptions

    @Option(help: "csv or jsonl.")
    var format = "jsonl"

    @Option(help: "The properties, separated by commas; by default all.")
    var properties: String?

    @Option(help: "A key path to sort by; descending with --sort=-KEY. May be repeated.")
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
        if names == nil, format == "csv" {
            let model = try ManagedObjectModel(json: try await interface.get("/v1/model").json)
            names = model.entity(named: fetch.entity).map(Self.properties)
        }
        var body = try fetch.body()
        if !sort.isEmpty { body["sort"] = .array(sort.map { .string($0) }) }
        if let names { body["properties"] = .array(names.map { .string($0) }) }
        let columns = names ?? []
        if format == "csv" { try Terminal.print(CSVWriter.row(["id"] + columns)) }
        var progress = Progress(isQuiet: isatty(STDOUT_FILENO) == 1)
        var count = 0
        let isCSV = format == "csv"
        try await interface.fetchLines(.object(body)) { object in
            if isCSV {
                let values = object["values"]?.object
                let cells = columns.map { CSVWriter.text(values?[$0]) }
                try Terminal.print(CSVWriter.row([object["id"]?.string ?? ""] + cells))
            } else {
                try Terminal.print(bytes: JSONWriter.bytes(of: .object(object)))
            }
            count += 1
            progress.update(records: count, fraction: nil)
        }
        progress.end()
        await interface.close()
    }

    private static func properties(_ entity: ManagedObjectModel.Entity) -> [String] {
        entity.properties.map(\.name)
            + entity.relationships.map(\.name).filter { entity.position(of: $0) == nil }
    }
}

/// Writes CSV (RFC 4180).
enum CSVWriter {
    /// A value as a field: nothing for nil, lists separated by commas.
    static func text(_ value: JSONValue?) -> String {
        switch value {
        case nil, .null?: ""
        case .string(let text)?: text
        case .array(let elements)?: elements.map(text).joined(separator: ",")
        case .some(let other): JSONWriter.text(of: other)
        }
    }

    /// A row, without its end.
    static func row(_ fields: [String]) -> String {
        fields.map { field in
            let isPlain = !field.utf8.contains {
                $0 == 0x22 || $0 == 0x2C || $0 == 0x0A || $0 == 0x0D
            }
            return isPlain ? field : "\"\(field.replacing("\"", with: "\"\""))\""
        }.joined(separator: ",")
    }
}
