import ArgumentParser
import Console
import Coordinator
import Node

/// `tributary advise`.
struct AdviseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "advise", abstract: "Show which indexes requests would use.",
        discussion: """
            A node advises for the requests that it has seen since it started. A store's file has seen \
            none, so name one: tributary advise --store FILE Person --where "age > 30" --sort name. \
            Advised is what SQLite would use. Put the line in the entity's "indexes" in the model.
            """)

    @Argument(help: "With --store: the entity, such as Person.")
    var entity: String?

    @Option(name: .customLong("where"), help: "With --store: a predicate, such as \"age > 30\".")
    var predicate: String?

    @Option(
        help: "With --store: a key path to sort by; descending with --sort=-KEY. May be repeated.")
    var sort: [String] = []

    @OptionGroup var source: SourceOptions

    func validate() throws {
        if source.store == nil {
            guard entity == nil, predicate == nil, sort.isEmpty else {
                throw ValidationError(
                    "A node advises for the requests that it has seen. To ask about one, give "
                        + "--store FILE.")
            }
        } else if entity == nil {
            throw ValidationError(
                "A store's file has seen no requests. Name the one to advise for: an entity, with "
                    + "--where and --sort.")
        } else if predicate == nil, sort.isEmpty {
            throw ValidationError(
                "A request for all objects in no order uses no index; give --where or --sort.")
        }
    }

    func run() async throws {
        if let store = source.store, let entity {
            return try show(try advice(inStoreAt: store, entity))
        }
        let interface = try source.open()
        let answer = try await interface.get("/v1/advice")
        try interface.show(answer, asJSON: source.json, Self.lines)
        await interface.close()
    }

    private func advice(inStoreAt path: String, _ entity: String) throws -> JSONValue {
        do {
            let coordinator = try PersistentStoreCoordinator(readingStoreAt: path)
            defer { coordinator.close() }
            let request = FetchRequest(
                entity, predicate: try predicate.map { try Predicate(format: $0) },
                sortDescriptors: sort.map(SortDescriptor.init(text:)))
            return AdviceRenderer.json(
                try coordinator.indexAdvice(for: request), observed: 1, dropped: 0)
        } catch { throw CommandFailure(describing: error) }
    }

    private func show(_ answer: JSONValue) throws {
        if source.json { return try Terminal.print(bytes: JSONWriter.bytes(of: answer)) }
        for line in Self.lines(answer.object ?? JSONObject(), .output) { try Terminal.print(line) }
    }

    // MARK: Lines

    static func lines(_ answer: JSONObject, _ terminal: Terminal) -> [String] {
        let indexes = (answer["indexes"]?.array ?? []).compactMap(\.object)
        let observed = answer["observed"]?.integer ?? 0
        guard !indexes.isEmpty else {
            return [
                observed == 0
                    ? "There were no requests yet." : "No index would be used that is not there."
            ]
        }
        var table = Table([
            "ENTITY", "INDEX", Table.Column("REQUESTS", isNumeric: true),
            Table.Column("MS", isNumeric: true), Table.Column("BYTES", isNumeric: true),
        ])
        for index in indexes {
            let requests = requests(index)
            table.add([
                Table.Cell(JSONRendering.brief(index["entity"])),
                Table.Cell(elements(index).joined(separator: ", "), .cyan),
                Table.Cell(String(sum(requests, "count"))),
                Table.Cell(String(sum(requests, "milliseconds"))),
                Table.Cell(JSONRendering.bytes(index["bytes"])),
            ])
        }
        return table.lines(terminal) + indexes.flatMap { [""] + details($0, terminal.style) }
    }

    private static func details(_ index: JSONObject, _ style: Style) -> [String] {
        let entity = JSONRendering.brief(index["entity"])
        let elements = elements(index)
        var lines = [
            style.paint("\(entity): \(JSONWriter.text(of: index["index"] ?? .null))", .bold)
        ]
        for request in requests(index) {
            lines.append("  \(DisplayText.line(JSONRendering.brief(request["text"])))")
            if let count = request["count"]?.integer, count > 0 {
                lines.append(
                    "    \(count) requests, \(JSONRendering.brief(request["milliseconds"])) ms, "
                        + "\(JSONRendering.brief(request["rows"])) rows")
            }
            for (title, key) in [("now ", "before"), ("then", "after")] {
                for (place, step) in (request[key]?.array ?? []).enumerated() {
                    let text = DisplayText.line(JSONRendering.brief(step))
                    lines.append("    \(place == 0 ? title : "    ")  \(text)")
                }
            }
        }
        lines.append(
            "  It takes about \(JSONRendering.bytes(index["bytes"])) for "
                + "\(JSONRendering.brief(index["rows"])) rows. Each insert and delete, and each")
        lines.append(
            "  update of \(elements.map { $0.drop { $0 == "-" } }.joined(separator: " or ")), writes one more b-tree."
        )
        return lines
    }

    private static func requests(_ index: JSONObject) -> [JSONObject] {
        (index["requests"]?.array ?? []).compactMap(\.object)
    }

    private static func elements(_ index: JSONObject) -> [String] {
        (index["index"]?.object?["elements"]?.array ?? []).compactMap(\.string)
    }

    private static func sum(_ requests: [JSONObject], _ key: String) -> Int64 {
        requests.reduce(0) { $0.addingReportingOverflow($1[key]?.integer ?? 0).partialValue }
    }
}
