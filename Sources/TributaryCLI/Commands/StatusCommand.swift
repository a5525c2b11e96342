import ArgumentParser
import Console
import Coordinator

/// `tributary status`.
struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show a node's vector, peers, conflicts and store.")

    @OptionGroup var source: SourceOptions

    func run() async throws {
        let interface = try source.open()
        let answer = try await interface.get("/v1/status")
        try interface.show(answer, asJSON: source.json, Self.lines)
        await interface.close()
    }

    private static func lines(_ status: JSONObject, _ terminal: Terminal) -> [String] {
        func line(_ name: String, _ text: String) -> String {
            DisplayText.pad(terminal.style.paint(name, .bold), to: 0)
                + String(repeating: " ", count: max(1, 12 - name.count)) + DisplayText.line(text)
        }
        var lines = [
            line("cluster", JSONRendering.brief(status["cluster"])),
            line("node", JSONRendering.brief(status["node"])),
            line("vector", JSONRendering.vector(status["vector"])),
            line("generation", JSONRendering.brief(status["generation"])),
            line("digest", JSONRendering.brief(status["digest"])),
            line("model", JSONRendering.brief(status["modelHash"])),
            line("conflicts", conflicts(status["conflicts"])),
        ]
        if let store = status["store"] { lines.append(line("store", JSONRendering.brief(store))) }
        if let stability = status["stability"]?.object {
            lines.append(line("collection", collection(stability)))
        }
        if let history = status["history"]?.object {
            lines += self.history(history).map { line("history", $0) }
            let consumers = (history["consumers"]?.array ?? []).compactMap(\.object)
            lines += consumers.map { line("consumer", consumer($0)) }
        }
        if let transfer = status["transfer"]?.object {
            lines.append(line("transfer", JSONRendering.brief(.object(transfer))))
        }
        if let refusal = status["savesRefused"]?.object {
            lines.append(line("saves", "refused: \(JSONRendering.brief(refusal["message"]))"))
        }
        lines += parked(status["parked"]).map { line("parked", $0) }
        for held in status["held"]?.array ?? [] {
            lines.append(line("held", JSONRendering.brief(held)))
        }
        for alarm in (status["alarms"]?.array ?? []).compactMap(\.object) {
            lines.append(line("alarm", self.alarm(alarm)))
        }
        let peers = (status["peers"]?.array ?? []).compactMap(\.object)
        guard !peers.isEmpty else { return lines }
        var table = Table([
            Table.Column("PEER", isNumeric: true), "STATE",
            Table.Column("MISSING THERE", isNumeric: true),
            Table.Column("MISSING HERE", isNumeric: true),
            Table.Column("CLOCK MS", isNumeric: true), "VECTOR",
        ])
        for peer in peers {
            let isConnected = peer["connected"]?.boolean ?? false
            let isRefused = !(peer["refusal"] ?? .null == .null)
            table.add([
                Table.Cell(JSONRendering.brief(peer["node"])),
                isRefused
                    ? Table.Cell("refused", .red)
                    : isConnected ? Table.Cell("connected", .green) : Table.Cell("away", .yellow),
                Table.Cell(JSONRendering.brief(peer["lag"])),
                Table.Cell(JSONRendering.brief(peer["missingHere"])),
                Table.Cell(JSONRendering.brief(peer["clockOffsetMilliseconds"])),
                Table.Cell(JSONRendering.vector(peer["vector"])),
            ])
        }
        return lines + [""] + table.lines(terminal)
    }

    /// `departed, 2 times, the last 3 min ago: This node is ...`.
    static func alarm(_ alarm: JSONObject) -> String {
        let count = alarm["count"]?.integer ?? 1
        return "\(alarm["name"]?.string ?? "")\(count > 1 ? ", \(count) times, the last" : ",") "
            + "\(JSONRendering.age(alarm["lastMillisecondsAgo"])) ago: \(alarm["text"]?.string ?? "")"
    }

    /// The values from members with another model that have no place in this one, a line a
    /// property.
    static func parked(_ value: JSONValue?) -> [String] {
        (value?.array ?? []).compactMap(\.object).map { entry in
            "\(entry["place"]?.string ?? ""): \(JSONRendering.brief(entry["count"])) values, for which "
                + "the model has no place any more"
        }
    }

    /// The members that hold collection back, since when and why, and what waits for them; on one
    /// line.
    static func collection(_ stability: JSONObject) -> String {
        let waiting = stability["waiting"]?.object
        func count(_ key: String) -> Int64 { waiting?[key]?.integer ?? 0 }
        let what =
            "\(count("transactions")) transactions and \(count("rows")) rows wait, "
            + "\(count("tombstones")) tombstones are kept"
        let holders = (stability["heldBackBy"]?.array ?? []).compactMap(\.integer)
        let members = (stability["members"]?.array ?? []).compactMap(\.object)
        var parts = holders.compactMap { node -> String? in
            guard let member = members.first(where: { $0["node"]?.integer == node }) else {
                return nil
            }
            let reason = (member["text"]?.string ?? "").replacing(/\.$/, with: "")
            let age = JSONRendering.age(member["waitingMilliseconds"])
            return "held back by node \(node) for \(age) (\(reason))"
        }
        if stability["recovering"]?.boolean == true {
            parts.append("nothing is collected: this node's store is not vouched for")
        }
        return (parts.isEmpty ? ["goes on"] : parts).joined(separator: ", ") + "; \(what)"
    }

    /// How much history there is, and what keeps it.
    static func history(_ history: JSONObject) -> [String] {
        var text =
            "\(JSONRendering.brief(history["transactions"])) transactions, "
            + "\(JSONRendering.bytes(history["bytes"])), "
            + "\(JSONRendering.brief(history["closedConflicts"])) closed conflicts"
        if let oldest = history["oldest"]?.object {
            text += ", since \(JSONRendering.time(.object(oldest)))"
        }
        var lines = [text]
        if let hold = history["heldBackBy"]?.string { lines.append("is kept: \(hold)") }
        if let last = history["lastUnstable"]?.object {
            lines.append(
                "was purged before these members had it: node "
                    + (last["members"]?.array ?? []).map(JSONRendering.brief)
                    .joined(separator: ", "))
        }
        return lines
    }

    private static func consumer(_ consumer: JSONObject) -> String {
        let name = consumer["name"]?.string ?? ""
        if consumer["expired"]?.boolean == true {
            return "\(name): expired; what it had not read was purged"
        }
        let behind = consumer["behind"]?.object
        let age = JSONRendering.age(behind?["ageMilliseconds"])
        return "\(name): \(JSONRendering.brief(behind?["transactions"])) behind"
            + (age.isEmpty ? "" : ", the oldest for \(age)")
    }

    /// `2 unresolved (update 2), 1 settled (delete 1)`, or `none`.
    static func conflicts(_ value: JSONValue?) -> String {
        let parts = (value?.object?.members ?? []).compactMap { state -> String? in
            let kinds = state.value.object?.members ?? []
            let total = kinds.reduce(0) { $0 + ($1.value.integer ?? 0) }
            guard total > 0 else { return nil }
            let names = kinds.map { "\($0.key) \(JSONRendering.brief($0.value))" }
            return "\(total) \(state.key) (\(names.joined(separator: ", ")))"
        }
        return parts.isEmpty ? "none" : parts.joined(separator: ", ")
    }
}
