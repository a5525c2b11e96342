import ArgumentParser
import Console
import Coordinator
import Foundation
import Merge

/// The fetch, as flags.
struct FetchOptions: ParsableArguments {
    @Argument(help: "The entity, such as Person.")
    var entity: String

    @Option(name: .customLong("where"), help: "A predicate, such as \"age > 30 AND name != nil\".")
    var predicate: String?

    @Option(help: "NAME=VALUE for $NAME in the predicate; VALUE as JSON, or else as text.")
    var substitution: [String] = []

    /// The members of a fetch that the flags fill.
    func body() throws -> JSONObject { try Self.body(entity, predicate, substitution) }
}

extension FetchOptions {
    /// The members of a request that say which objects it is for.
    static func body(
        _ entity: String, _ predicate: String?, _ substitution: [String]
    ) throws -> JSONObject {
        var body: JSONObject = ["entity": .string(entity)]
        if let predicate { body["predicate"] = .string(predicate) }
        guard !substitution.isEmpty else { return body }
        body["substitutions"] = .object(
            try pairs(substitution, of: "--substitution", "NAME=VALUE"))
        return body
    }

    /// Names with values, as an option gives them.
    static func pairs(
        _ texts: [String], of option: String, _ form: String
    ) throws -> JSONObject {
        var pairs = JSONObject()
        for text in texts {
            let sides = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard sides.count == 2, !sides[0].isEmpty else {
                throw CommandFailure.usage("\(option) is \(form), not \(text).")
            }
            pairs[String(sides[0])] = value(String(sides[1]))
        }
        return pairs
    }

    /// A substitution's value: JSON, or else text. A number that a double would round stays text, which
    /// is exact where a decimal is compared.
    static func value(_ text: String) -> JSONValue {
        guard let json = try? JSONParser.parse(Array(text.utf8)) else { return .string(text) }
        if case .double(let number) = json, let written = PropertyValue.canonicalDecimal(text),
            PropertyValue.canonicalDecimal(number.description) != written
        {
            return .string(written)
        }
        return json
    }
}

/// `tributary fetch`.
struct FetchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fetch", abstract: "Show objects of an entity.",
        discussion: """
            What is too large for one answer of a node comes object by object: with --json an \
            object a line, else in tables of 1,000 rows.
            """)

    @OptionGroup var fetch: FetchOptions

    @Option(
        help:
            "A key path to sort by, or \"localizedStandard:(KEY, de)\"; descending with --sort=-KEY. May be repeated."
    )
    var sort: [String] = []

    @Option(help: "At most so many objects.")
    var limit: Int?

    @Option(help: "Leave out so many of the first.")
    var offset: Int?

    @Option(help: "The properties to show, separated by commas.")
    var properties: String?

    @Flag(help: "Show every property's dot, and all siblings of a conflict.")
    var versions = false

    @Option(help: "Read a generation that was pinned.")
    var generation: String?

    @Option(help: "Wait until this token's changes are there.")
    var after: String?

    @Option(
        help: """
            Read the store as it was: at a token, at a time in UTC ("2026-01-31 14:02"), or so long ago \
            ("2h", "3d").
            """)
    var at: String?

    @OptionGroup var source: SourceOptions

    func validate() throws {
        if let limit, limit < 1 { throw ValidationError("--limit is at least 1.") }
        if let offset, offset < 0 { throw ValidationError("--offset is at least 0.") }
    }

    func run() async throws {
        var body = try fetch.body()
        if !sort.isEmpty { body["sort"] = .array(sort.map { .string($0) }) }
        if let limit { body["limit"] = .integer(Int64(limit)) }
        if let offset { body["offset"] = .integer(Int64(offset)) }
        if let properties {
            body["properties"] = .array(
                properties.split(separator: ",").map { .string(String($0)) })
        }
        if versions { body["versions"] = .boolean(true) }
        if let generation { body["generation"] = .string(generation) }
        if let after { body["after"] = .string(after) }
        if let at {
            let now = UInt64(max(0, Date().timeIntervalSince1970 * 1000))
            body["at"] = .string(PointText.point(at, now: now))
        }
        let interface = try source.open()
        let answer: InterfaceAnswer
        do {
            answer = try await interface.post("/v1/fetch", .object(body))
        } catch let failure as CommandFailure where failure.name == "answerTooLarge" {
            try await stream(body, from: interface)
            return await interface.close()
        }
        try interface.show(answer, asJSON: source.json) { answer, terminal in
            let objects = (answer["objects"]?.array ?? []).compactMap(\.object)
            return lines(objects, terminal)
        }
        await interface.close()
    }

    private func lines(_ objects: [JSONObject], _ terminal: Terminal) -> [String] {
        guard versions else { return Self.table(objects).lines(terminal) }
        return objects.flatMap { Self.registers($0, terminal.style) }
    }

    /// Shows what is too large for one answer as it comes: with --json an object a line, else a table for
    /// so many objects, each with its own headings.
    private func stream(_ body: JSONObject, from interface: some ClientInterface) async throws {
        var waiting: [JSONObject] = []
        func show() throws {
            for line in lines(waiting, .output) { try Terminal.print(line) }
            waiting = []
        }
        try await interface.fetchLines(.object(body)) { object in
            guard !source.json else {
                return try Terminal.print(bytes: JSONWriter.bytes(of: .object(object)))
            }
            waiting.append(object)
            if waiting.count == Self.objectsOfTable { try show() }
        }
        if !waiting.isEmpty { try show() }
    }

    /// How many objects are kept to be shown as one table.
    private static let objectsOfTable = 1_000

    private static func table(_ objects: [JSONObject]) -> Table {
        // Objects of entities that inherit may have more properties than the first.
        var names: [String] = []
        var known = Set<String>()
        for object in objects {
            for member in object["values"]?.object?.members ?? []
            where known.insert(member.key).inserted {
                names.append(member.key)
            }
        }
        let isConflicted = objects.contains { $0["conflicted"]?.boolean ?? false }
        var table = Table(
            [Table.Column("ID", fit: .whole)]
                + (isConflicted ? [Table.Column("CONFLICT", fit: .whole)] : [])
                + names.enumerated().map { Table.Column($1, fit: .middle, rank: $0, least: 6) })
        for object in objects {
            let values = object["values"]?.object ?? JSONObject()
            let isOwn = object["conflicted"]?.boolean ?? false
            table.add(
                [Table.Cell(JSONRendering.brief(object["id"]), isOwn ? .red : .cyan)]
                    + (isConflicted ? [Table.Cell(isOwn ? "unresolved" : "", .red)] : [])
                    + names.map { Table.Cell(JSONRendering.brief(values[$0])) })
        }
        return table
    }

    private static func registers(_ object: JSONObject, _ style: Style) -> [String] {
        let values = object["values"]?.object ?? JSONObject()
        var lines = [style.paint(JSONRendering.brief(object["id"]), .cyan)]
        for member in values.members {
            let register = object["versions"]?.object?[member.key]?.object
            let dot = register?["dot"]?.string ?? ""
            let value = DisplayText.line(JSONRendering.brief(member.value))
            lines.append("  \(member.key) = \(value)  \(style.paint(dot, .dim))")
            let siblings = register?["siblings"]?.array ?? []
            for sibling in siblings.compactMap(\.object) where sibling["dot"]?.string != dot {
                let other = DisplayText.line(JSONRendering.brief(sibling["value"]))
                let line = "    beside it: \(other)  \(sibling["dot"]?.string ?? "")"
                lines.append(style.paint(line, .yellow))
            }
        }
        return lines
    }
}
