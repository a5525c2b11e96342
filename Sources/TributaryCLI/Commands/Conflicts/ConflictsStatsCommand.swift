import ArgumentParser
import Console
import Coordinator

/// `tributary conflicts stats`.
struct ConflictsStatsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats",
        abstract: "Count open conflicts by state and kind, and name the objects most written over.",
        discussion: """
            Which objects those are follows from the newest 1,000 entries of the journal, open and \
            closed: an object that many nodes write at once has many of them.
            """)

    /// How many entries of the journal are looked at: enough to see what is written over and over,
    /// and read in milliseconds.
    static let entries = 1_000
    /// How many objects are named.
    static let objects = 5

    @OptionGroup var source: SourceOptions

    func run() async throws {
        let interface = try source.open()
        let status = try await interface.get("/v1/status")
        var counts = status.json.object?["conflicts"]?.object ?? JSONObject()
        let path = RequestPath("conflicts").adding("state", "all")
        let journal = try await ConflictPages.newest(Self.entries, of: path, from: interface)
        counts["objects"] = .array(Self.busiest(journal.conflicts))
        try interface.show(InterfaceAnswer(.object(counts)), asJSON: source.json) {
            Self.lines($0, $1)
        }
        await interface.close()
    }

    /// The objects that have the most of the entries, those with most first, and then by URI.
    static func busiest(_ entries: [JSONObject]) -> [JSONValue] {
        var counts: [String: (open: Int, closed: Int)] = [:]
        for entry in entries {
            guard let object = entry["object"]?.string else { continue }
            if entry["open"]?.boolean ?? false {
                counts[object, default: (0, 0)].open += 1
            } else {
                counts[object, default: (0, 0)].closed += 1
            }
        }
        let sorted = counts.sorted {
            ($1.value.open + $1.value.closed, $0.key) < ($0.value.open + $0.value.closed, $1.key)
        }
        return sorted.prefix(objects).map { object, count in
            [
                "object": .string(object), "open": .integer(Int64(count.open)),
                "closed": .integer(Int64(count.closed)),
            ]
        }
    }

    private static func lines(_ counts: JSONObject, _ terminal: Terminal) -> [String] {
        var table = Table(["STATE", "KIND", Table.Column("OPEN", isNumeric: true)])
        for state in counts.members {
            for kind in state.value.object?.members ?? [] {
                table.add([
                    Table.Cell(state.key), Table.Cell(kind.key),
                    Table.Cell(JSONRendering.brief(kind.value)),
                ])
            }
        }
        var busiest = Table([
            "MOST WRITTEN OVER", Table.Column("OPEN", isNumeric: true),
            Table.Column("CLOSED", isNumeric: true),
        ])
        let objects = (counts["objects"]?.array ?? []).compactMap(\.object)
        for object in objects {
            busiest.add([
                Table.Cell(object["object"]?.string ?? ""),
                Table.Cell(JSONRendering.brief(object["open"] ?? .null)),
                Table.Cell(JSONRendering.brief(object["closed"] ?? .null)),
            ])
        }
        return table.lines(terminal)
            + (objects.isEmpty ? [] : [""] + busiest.lines(terminal))
    }
}
