// The panels of lines: blame, objects, nodes, log and help.

internal import Console
internal import Coordinator

/// Who wrote something, as the panels tell it.
private func origin(_ write: JSONObject, now: Int64) -> String {
    var parts: [String] = []
    if let author = write["author"]?.string, !author.isEmpty { parts.append(author) }
    if let node = write["node"]?.integer { parts.append("node \(node)") }
    let milliseconds = write["timestamp"]?.object?["milliseconds"]?.integer ?? 0
    if milliseconds > 0 {
        parts.append(
            "\(ValueLines.time(milliseconds)) (\(ValueLines.age(milliseconds, now: now)) ago)")
    }
    if let context = write["context"]?.string, !context.isEmpty {
        parts.append("context \(context)")
    }
    return parts.joined(separator: ", ")
}

/// Why each value of an object is what it is.
enum BlamePanel {
    static func lines(_ state: InspectorState, columns: Int) -> [StyledLine] {
        guard let blame = state.blame else { return [] }
        if let failure = blame.failure { return [[Span(failure, .red)]] }
        if let answer = blame.blame { return lines(answer, state, columns) }
        if let versions = blame.versions { return lines(ofVersions: versions, state, columns) }
        return [[Span("Loading…", .dim)]]
    }

    private static func lines(
        _ answer: JSONObject, _ state: InspectorState, _ columns: Int
    ) -> [StyledLine] {
        var lines: [StyledLine] = []
        if let deleted = answer["deleted"]?.object {
            lines += StyledLines.wrap(
                [Span("deleted   ", .red), Span(origin(deleted, now: state.now))], to: columns,
                indent: 4)
            if let note = deleted["note"]?.string, !note.isEmpty {
                lines.append([Span("  “\(note)”")])
            }
        } else if answer["alive"]?.boolean == false {
            lines.append([Span("The object is deleted.", .red)])
        }
        if let inserted = answer["inserted"]?.object {
            lines.append([Span("inserted  ", .bold), Span(origin(inserted, now: state.now))])
        }
        let property = state.chosen?.object == state.blame?.uri ? state.chosen?.property : nil
        let all = (answer["properties"]?.array ?? []).compactMap(\.object)
        // The one that the conflict is about comes first.
        let first = all.filter { property != nil && $0["property"]?.string == property }
        let rest = all.filter { property == nil || $0["property"]?.string != property }
        for entry in first + rest {
            lines.append([])
            lines += self.property(entry, state, columns)
        }
        return lines
    }

    private static func property(
        _ entry: JSONObject, _ state: InspectorState, _ columns: Int
    ) -> [StyledLine] {
        let name = entry["property"]?.string ?? ""
        var lines: [StyledLine] = [
            [
                Span(name, .bold), Span("  "),
                Span(ValueLines.brief(entry["value"] ?? .null, maximum: 200)),
            ]
        ]
        guard let write = entry["write"]?.object else {
            return lines + [[Span("  Nobody ever wrote it.", .dim)]]
        }
        lines += StyledLines.wrap(
            [Span("  written by "), Span(origin(write, now: state.now))], to: columns, indent: 4)
        if let note = write["note"]?.string, !note.isEmpty {
            lines += StyledLines.wrap([Span("  “\(note)”")], to: columns, indent: 4)
        }
        lines.append([Span("  \(write["dot"]?.string ?? "")", .dim)])
        if let previous = entry["previous"]?.object {
            let who = previous["write"]?.object.map { ", by \(origin($0, now: state.now))" } ?? ""
            lines += StyledLines.wrap(
                [
                    Span("  replaced "),
                    Span(ValueLines.brief(previous["value"] ?? .null, maximum: 200)),
                    Span(who, .dim),
                ], to: columns, indent: 4)
        }
        for beat in (entry["beat"]?.array ?? []).compactMap(\.object) {
            let value =
                beat["deleted"]?.boolean ?? false
                ? "a deletion" : ValueLines.brief(beat["value"] ?? .null, maximum: 200)
            let who = beat["write"]?.object.map { origin($0, now: state.now) } ?? ""
            lines += StyledLines.wrap(
                [
                    Span(
                        beat["state"]?.string == "unresolved" ? "  undecided beside " : "  beat ",
                        .yellow), Span(value), Span(", by \(who)"),
                ], to: columns, indent: 4
            )
            lines += StyledLines.wrap(
                [Span("    because: \(beat["text"]?.string ?? "")", .dim)], to: columns, indent: 4)
        }
        switch entry["undo"]?.object?["kind"]?.string {
        case "conflict"?:
            let undo = entry["undo"]?.object
            let name = undo?["short"]?.string ?? undo?["conflict"]?.string ?? ""
            lines.append([
                Span("  taken back by: ", .dim), Span("u", .key), Span(" at conflict "),
                Span(name, .cyan),
            ])
        case "save"?:
            let dot = entry["undo"]?.object?["transaction"]?.string ?? ""
            let command = ShellText.line(
                ["tributary", "undo", dot] + (state.source.isReadOnly ? [] : state.source.flags))
            lines += StyledLines.wrap(
                [Span("  taken back by: ", .dim), Span(command, .cyan)], to: columns, indent: 4)
        default: break
        }
        return lines
    }

    private static func lines(
        ofVersions answer: JSONObject, _ state: InspectorState, _ columns: Int
    ) -> [StyledLine] {
        var lines: [StyledLine] = [
            [
                Span(
                    "This node does not answer blame. These are the writes behind each value:",
                    .yellow)
            ]
        ]
        let versions = answer["versions"]?.object ?? JSONObject()
        for member in answer["values"]?.object?.members ?? [] {
            lines.append([])
            lines.append([
                Span(member.key, .bold), Span("  \(ValueLines.brief(member.value, maximum: 200))"),
            ])
            guard let version = versions[member.key]?.object else {
                lines.append([Span("  no write is known", .dim)])
                continue
            }
            let dot = version["dot"]?.string ?? ""
            let milliseconds = version["timestamp"]?.object?["milliseconds"]?.integer ?? 0
            lines.append([
                Span("  node \(dot.prefix { $0 != "." }), \(ValueLines.time(milliseconds))"),
                Span("  \(dot)", .dim),
            ])
            for sibling in (version["siblings"]?.array ?? []).compactMap(\.object)
            where sibling["dot"]?.string != dot {
                let dot = sibling["dot"]?.string ?? ""
                lines.append([
                    Span("  beside it ", .yellow),
                    Span(ValueLines.brief(sibling["value"] ?? .null, maximum: 200)),
                    Span("  \(dot)", .dim),
                ])
            }
        }
        return lines
    }
}

/// An object with its values, those next to it, its conflicts and its life.
enum ObjectPanel {
    static func lines(
        _ state: InspectorState, columns: Int
    ) -> (lines: [StyledLine], cursor: Int?) {
        guard let shown = state.object else { return ([], nil) }
        var lines: [StyledLine] = [[Span(shown.uri, .dim)]]
        if let failure = shown.failure {
            lines.append([Span(failure, .red)])
        } else if let object = shown.object {
            lines += values(object)
        } else {
            lines.append([Span("Loading…", .dim)])
        }
        var cursor: Int?
        if !shown.neighbours.isEmpty {
            lines += [[], [Span("Related objects", .bold)]]
            for (index, neighbour) in shown.neighbours.enumerated() {
                if index == shown.cursor { cursor = lines.count }
                lines.append([
                    Span("\(neighbour.relationship) → ", .dim),
                    Span(state.title(of: neighbour.uri)),
                ])
            }
        }
        let conflicts = state.list.items.filter { $0.object == shown.uri }
        lines += [[], [Span("Conflicts of this object: \(conflicts.count)", .bold)]]
        for item in conflicts.prefix(20) {
            lines.append([
                Span("\(item.short)  ", .cyan), Span(item.property ?? item.kind),
                Span("  \(item.state.name)  \(item.people)", .dim),
            ])
        }
        return (lines + life(shown, state, columns), cursor)
    }

    private static func values(_ object: JSONObject) -> [StyledLine] {
        let members = object["values"]?.object?.members ?? []
        let width = min(24, members.map { DisplayText.width($0.key) }.max() ?? 0)
        return members.filter { member in
            if case .array = member.value { return false }
            return member.value.string.flatMap { ObjectURI($0) } == nil
        }.map { member in
            [
                Span(DisplayText.pad(member.key, to: width) + "  ", .bold),
                Span(ValueLines.brief(member.value, maximum: 400)),
            ]
        }
    }

    private static func life(
        _ shown: InspectorState.ObjectState, _ state: InspectorState, _ columns: Int
    ) -> [StyledLine] {
        var lines: [StyledLine] = [[], [Span("What was written, oldest first", .bold)]]
        if let failure = shown.lifeFailure { return lines + [[Span(failure, .dim)]] }
        guard let life = shown.life else { return lines + [[Span("Loading…", .dim)]] }
        if life["complete"]?.boolean == false {
            lines.append([Span("Older history was removed.", .dim)])
        }
        for entry in (life["entries"]?.array ?? []).compactMap(\.object) {
            let joins = (entry["after"]?.array ?? []).count
            lines.append([
                Span(joins > 1 ? "● " : "○ ", .cyan), Span(entry["kind"]?.string ?? "", .bold),
                Span("  \(origin(entry, now: state.now))"),
                Span("  \(entry["dot"]?.string.map(ValueLines.shortDot) ?? "")", .dim),
            ])
            for key in ["values", "add", "remove"] {
                guard let values = entry[key]?.object, !values.members.isEmpty else { continue }
                let text = ValueLines.brief(.object(values), maximum: 300)
                lines += StyledLines.wrap(
                    [Span("    \(key == "values" ? "" : key + " ")\(text)")], to: columns, indent: 4
                )
            }
            if let note = entry["note"]?.string, !note.isEmpty {
                lines.append([Span("    “\(note)”")])
            }
        }
        return lines
    }
}

/// The commands that were run, the latest first.
enum LogPanel {
    static func lines(_ state: InspectorState, columns: Int) -> [StyledLine] {
        if state.log.entries.isEmpty { return [[Span("Nothing was asked yet.", .dim)]] }
        return state.log.entries.reversed().flatMap { entry -> [StyledLine] in
            let time = ValueLines.time(entry.milliseconds).dropFirst(11).prefix(8)
            let lines = StyledLines.wrap(
                [Span("\(time)  ", .dim), Span(entry.command, .cyan)], to: columns, indent: 10)
            let style: CellStyle = entry.isGood ? .green : .red
            let outcome = entry.outcome ?? "under way"
            return lines
                + StyledLines.wrap(
                    [Span("          "), Span(outcome, entry.outcome == nil ? .dim : style)],
                    to: columns, indent: 10)
        }
    }
}

/// All keys.
enum HelpPanel {
    private static let keys: [(heading: String, keys: [(String, String)])] = [
        (
            "Look",
            [
                ("↑ ↓ j k", "choose a conflict; PgUp, PgDn, Home, End"),
                ("Enter →", "show the conflict whole; open or close a group"),
                ("J K", "the next and the previous one, while one is shown whole"),
                ("/", "filter as you type: ID, entity, property, values, authors, node"),
                ("s", "all, only those that wait for a decision, only open ones"),
                ("g", "group by entity, policy, author, node, kind"),
                ("b", "blame: who wrote each value, and what it beat"),
                ("o", "the object, what is related to it, and its life"),
                ("r", "read everything again (it is read every two seconds anyway)"),
            ]
        ),
        (
            "Decide (each asks before it is done, and takes a note)",
            [
                ("1 … 9", "take this side"), ("e", "type another value"),
                ("d", "delete the object"), ("u", "undo the outcome"),
                ("p", "resolve by a policy: the marked ones, or else this one"),
            ]
        ),
        (
            "Mark",
            [
                ("Space", "mark or unmark one; on a heading the whole group"),
                ("v", "begin a range, and end it"), ("a", "all that the filter shows, or none"),
            ]
        ),
        (
            "Elsewhere",
            [
                ("n", "nodes: lag, vectors, digests, held saves, alarms"),
                ("l", "log: each action as a tributary command"),
                ("Tab", "conflicts, nodes, log in turn"), ("m", "mouse on or off"),
                ("Esc ←", "back; in the list: clear the filter, then the marks"),
                ("Ctrl-Z", "suspend; fg comes back"), ("Ctrl-L", "draw again"), ("q", "quit"),
            ]
        ),
    ]

    static func lines(columns: Int) -> [StyledLine] {
        keys.enumerated().flatMap { index, group -> [StyledLine] in
            (index == 0 ? [] : [[]]) + [[Span(group.heading, .bold)]]
                + group.keys.map { key, meaning in
                    [Span("  " + DisplayText.pad(key, to: 10), .key), Span(meaning)]
                }
        }
    }
}
