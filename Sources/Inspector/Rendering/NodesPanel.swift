// The nodes: what the asked one shows, and how far each is from it.

internal import Coordinator

/// Lag, vectors, digests, held saves and alarms.
enum NodesPanel {
    static func lines(_ state: InspectorState, columns: Int) -> [StyledLine] {
        guard let status = state.status else { return [[Span("Loading…", .dim)]] }
        var lines: [StyledLine] = []
        let node = status["node"]?.integer.map { "node \($0)" } ?? "this store"
        lines.append([
            Span(node, .bold), Span(" of cluster \(status["cluster"]?.string ?? "")"),
            Span(state.source.isReadOnly ? "" : "  (asked)", .dim),
        ])
        if let refused = status["savesRefused"]?.object {
            lines.append([Span("  takes no saves: \(refused["message"]?.string ?? "")", .red)])
        }
        lines.append(entry("vector", ValueLines.vector(status["vector"])))
        lines.append(entry("digest", status["digest"]?.string ?? ""))
        lines.append(entry("generation", status["generation"]?.integer.map { "\($0)" } ?? ""))
        if let conflicts = status["conflicts"]?.object { lines.append(counts(conflicts)) }
        lines += peers(status, state, columns)
        lines += held(status, columns)
        lines += stability(status, columns)
        return lines + alarms(status, columns)
    }

    private static func entry(_ name: String, _ text: String) -> StyledLine {
        [
            Span("  " + name + String(repeating: " ", count: max(1, 12 - name.count)), .dim),
            Span(text),
        ]
    }

    private static func counts(_ conflicts: JSONObject) -> StyledLine {
        let text = conflicts.members.map { state in
            let kinds = state.value.object?.members ?? []
            return "\(kinds.reduce(0) { $0 + ($1.value.integer ?? 0) }) \(state.key)"
        }
        return entry("conflicts", text.joined(separator: ", ") + " (open)")
    }

    private static func peers(
        _ status: JSONObject, _ state: InspectorState, _ columns: Int
    ) -> [StyledLine] {
        let peers = (status["peers"]?.array ?? []).compactMap(\.object)
        if peers.isEmpty { return [[], [Span("No other nodes are known here.", .dim)]] }
        var lines: [StyledLine] = []
        for peer in peers {
            let number = peer["node"]?.integer ?? 0
            let isConnected = peer["connected"]?.boolean ?? false
            lines.append([])
            var head: StyledLine = [
                Span("node \(number)  ", .bold),
                Span(isConnected ? "● connected" : "✗ not connected", isConnected ? .green : .red),
            ]
            let lag = peer["lag"]?.integer ?? 0
            let missing = peer["missingHere"]?.integer ?? 0
            head.append(
                Span(
                    lag == 0 ? "  it lacks nothing" : "  it lacks \(lag)",
                    lag == 0 ? .plain : .yellow))
            head.append(
                Span(missing == 0 ? "" : ", missing here: \(missing)", .yellow))
            lines.append(head)
            lines.append(entry("vector", ValueLines.vector(peer["vector"])))
            lines.append(entry("digest", digest(of: number, state)))
            if let offset = peer["clockOffsetMilliseconds"]?.integer {
                lines.append(entry("clock", "\(offset) ms off"))
            }
            if let refusal = peer["refusal"]?.string {
                lines += StyledLines.wrap(
                    [Span("  refused: \(refusal)", .red)], to: columns, indent: 4)
            }
        }
        return lines
    }

    private static func digest(of node: Int64, _ state: InspectorState) -> String {
        guard let peers = state.verification?["peers"]?.object else {
            return "not compared: press V"
        }
        guard let peer = peers["\(node)"]?.object else { return "not known" }
        let agrees =
            switch peer["agrees"]?.boolean {
            case true?: "  agrees"
            case false?: "  DIFFERS at the same vector"
            case nil: "  at another vector, so not comparable"
            }
        return (peer["digest"]?.string ?? "") + agrees
    }

    private static func held(_ status: JSONObject, _ columns: Int) -> [StyledLine] {
        let held = (status["held"]?.array ?? []).compactMap(\.object)
        var lines: [StyledLine] = [
            [], [Span("Held saves: \(held.count)", held.isEmpty ? .bold : .yellow)],
        ]
        for entry in held.prefix(50) {
            lines += StyledLines.wrap(
                [
                    Span("  \(entry["transaction"]?.string ?? "")  ", .cyan),
                    Span(entry["reason"]?.string ?? ""),
                ], to: columns, indent: 4)
        }
        return lines
    }

    private static func stability(_ status: JSONObject, _ columns: Int) -> [StyledLine] {
        guard let stability = status["stability"]?.object else { return [] }
        var lines: [StyledLine] = [[], [Span("Stable, so that history may go", .bold)]]
        lines.append(entry("vector", ValueLines.vector(stability["vector"])))
        for member in (stability["members"]?.array ?? []).compactMap(\.object) {
            guard member["hindrance"]?.string != nil else { continue }
            let text = member["text"]?.string ?? member["hindrance"]?.string ?? ""
            lines += StyledLines.wrap(
                [Span("  node \(member["node"]?.integer ?? 0): \(text)", .yellow)], to: columns,
                indent: 4)
        }
        return lines
    }

    private static func alarms(_ status: JSONObject, _ columns: Int) -> [StyledLine] {
        let alarms = (status["alarms"]?.array ?? []).compactMap(\.object)
        var lines: [StyledLine] = [
            [], [Span("Alarms: \(alarms.count)", alarms.isEmpty ? .bold : .red)],
        ]
        for alarm in alarms {
            let seconds = (alarm["lastMillisecondsAgo"]?.integer ?? 0) / 1000
            lines += StyledLines.wrap(
                [
                    Span("  \(alarm["name"]?.string ?? "")", .red),
                    Span("  \(alarm["count"]?.integer ?? 0) times, \(seconds) s ago: ", .dim),
                    Span(alarm["text"]?.string ?? ""),
                ], to: columns, indent: 4)
        }
        return lines
    }
}
