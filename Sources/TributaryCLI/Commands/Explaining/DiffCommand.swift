import ArgumentParser
import Console
import Coordinator
import Foundation

/// `tributary diff`.
struct DiffCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diff",
        abstract: "Show which objects differ between two points of history.",
        discussion: """
            A point is a token, a time in UTC ("2026-01-31 14:02"), how long ago ("2h", "3d"), or the address \
            of another node, which stands for what that node has. Without a second point it is the present: \
            `tributary diff 2h..`, `tributary diff http://127.0.0.1:7200..`.
            """)

    @Argument(help: "FROM..TO, or FROM.. for what has changed since.")
    var points: String

    @Option(help: "Only objects of this entity.")
    var entity: String?

    @Option(help: "At most so many objects.")
    var limit = 1_000

    @Option(help: "Go on after so many; the last line of an earlier answer says how many.")
    var after: String?

    @Option(help: "A file with the other node's token, where it is another.")
    var otherTokenFile: String?

    @OptionGroup var columns: ColumnOptions
    @OptionGroup var source: SourceOptions

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit is at least 1.") }
        guard points.contains("..") else {
            throw ValidationError("Give two points, FROM..TO, or one, FROM.. .")
        }
        try columns.check(against: Self.columns)
    }

    func run() async throws {
        let interface = try source.open()
        let middle = points.range(of: "..") ?? points.endIndex..<points.endIndex
        let from = try await point(String(points[..<middle.lowerBound]))
        let end = String(points[middle.upperBound...])
        let to = end.isEmpty ? nil : try await point(end)
        let path = RequestPath("diff").adding("from", from).adding("to", to)
            .adding("entity", entity).adding("limit", String(limit)).adding("after", after)
        let answer = try await interface.get(path.description)
        try interface.show(answer, asJSON: source.json) { answer, terminal in
            Self.lines(answer, columns.chosen, terminal)
        }
        await interface.close()
    }

    /// A point as the interface takes it. Another node stands for its vector.
    private func point(_ text: String) async throws -> String {
        guard text.contains("://") || FileManager.default.fileExists(atPath: text) else {
            return PointText.point(
                text, now: UInt64(max(0, Date().timeIntervalSince1970 * 1000)))
        }
        let other = try source.open(other: text, token: otherTokenFile)
        let status = try await other.get("/v1/status")
        await other.close()
        guard let vector = status.json.object?["vector"] else {
            throw CommandFailure(.failed, "\(text) does not say what it has.")
        }
        return JSONWriter.text(of: vector)
    }

    static let columns: [Table.Column] = [
        Table.Column("OP", fit: .whole), Table.Column("OBJECT", fit: .whole),
        Table.Column("VALUES", fit: .middle, rank: 1, least: 12),
        Table.Column("SAVES", fit: .end, rank: 2, least: 10),
    ]

    static func lines(
        _ answer: JSONObject, _ chosen: [String]?, _ terminal: Terminal
    ) -> [String] {
        var table = Table(columns)
        table.chosen = chosen
        for object in (answer["objects"]?.array ?? []).compactMap(\.object) {
            let kind = object["kind"]?.string ?? ""
            let colour: Colour = kind == "insert" ? .green : kind == "delete" ? .red : .yellow
            let sign = kind == "insert" ? "+" : kind == "delete" ? "-" : "~"
            let relationships = (object["relationships"]?.array ?? []).compactMap(\.string)
            let values = (object["properties"]?.object?.members ?? []).filter {
                kind != "insert" || $0.value != .null
            }.map { "\($0.key): \(JSONRendering.brief($0.value))" }
            let saves = (object["transactions"]?.array ?? []).compactMap(\.string)
            table.add([
                Table.Cell(sign, colour), Table.Cell(JSONRendering.brief(object["object"]), .cyan),
                Table.Cell((values + relationships).joined(separator: ", ")),
                Table.Cell(saves.map(JSONRendering.shortDot).joined(separator: " ")),
            ])
        }
        let counts = answer["counts"]?.object
        func count(_ kind: String) -> Int64 { counts?[kind]?.integer ?? 0 }
        let sum =
            "\(count("insert")) added, \(count("update")) changed, \(count("delete")) deleted"
        // By vectors: a time, and the present, are others the next time.
        var next: [String] = []
        if let place = answer["next"]?.string {
            let from = JSONWriter.text(of: answer["from"] ?? .null)
            let to = JSONWriter.text(of: answer["to"] ?? .null)
            next = ["next: '\(from)..\(to)' --after \(place)"]
        }
        return (table.rows.isEmpty ? [] : table.lines(terminal)) + [sum]
            + next.map { terminal.style.paint($0, .dim) }
    }
}
