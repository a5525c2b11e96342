// A conflict three-way: what was there before, what each side made of it, and why one is seen.

internal import Coordinator

/// The lines of a conflict.
struct ThreeWayLines {
    private let conflict: Conflict
    private let state: InspectorState
    private let columns: Int
    /// Whether all is shown, and not only what fits under the list.
    private let isWhole: Bool
    /// Columns of the labels.
    private static let label = 9

    init(_ conflict: Conflict, _ state: InspectorState, columns: Int, isWhole: Bool) {
        self.conflict = conflict
        self.state = state
        self.columns = max(Self.label + 10, columns)
        self.isWhole = isWhole
    }

    /// All lines.
    func lines() -> [StyledLine] {
        var lines: [StyledLine] = []
        if isWhole { lines += heading() }
        lines += base()
        for index in conflict.sides.indices { lines += side(index) }
        lines += outcome()
        if isWhole { lines += commands() }
        return lines
    }

    /// Item, state and policy on one line.
    static func summary(_ item: ConflictItem) -> StyledLine {
        let style: CellStyle =
            switch item.state {
            case .unresolved: .red
            case .settled: .yellow
            case .resolved: .green
            }
        let state =
            switch item.state {
            case .unresolved: "waits for a decision"
            case .settled: "settled by the policy"
            case .resolved: "resolved"
            }
        var line = [Span(item.short, .cyan), Span(" · \(item.kind) · "), Span(state, style)]
        if !item.isOpen, item.state != .resolved { line.append(Span(", closed")) }
        if !item.policy.isEmpty { line.append(Span(" · \(item.policy)", .dim)) }
        if !item.violation.isEmpty { line.append(Span(" · breaks \(item.violation)", .red)) }
        return line
    }

    private func heading() -> [StyledLine] {
        let item = conflict.item
        return [
            Self.summary(item), [Span(item.id, .dim)], [Span(item.object, .dim)], [],
        ]
    }

    // MARK: Values

    private func labelled(_ name: String, _ style: CellStyle, _ line: StyledLine) -> StyledLine {
        let fill = String(repeating: " ", count: max(1, Self.label - name.count))
        return [Span(name, style), Span(fill)] + line
    }

    private func base() -> [StyledLine] {
        guard let base = conflict.base else {
            guard conflict.item.kind == "update", isWhole else { return [] }
            return [
                labelled("before", .bold, [Span("not known, or nothing was written before", .dim)])
            ]
        }
        let value = shortened(value(base, against: nil))
        var lines = [labelled("before", .bold, value.first ?? [])]
        lines += value.dropFirst().map { indented($0) }
        if isWhole, !conflict.baseDot.isEmpty {
            lines.append(indented([Span(conflict.baseDot, .dim)]))
        }
        return lines
    }

    /// The beginning of a long base: the sides show what differs.
    private func shortened(_ lines: [StyledLine]) -> [StyledLine] {
        guard lines.count > 5 else { return lines }
        return lines.prefix(4) + [[Span("… \(lines.count - 4) more lines", .dim)]]
    }

    private func indented(_ line: StyledLine) -> StyledLine {
        [Span(String(repeating: " ", count: Self.label))] + line
    }

    /// What a side is compared with: the base, or else another side.
    private func comparison(_ index: Int) -> JSONValue? {
        if let base = conflict.base { return base }
        let sides = conflict.sides
        let other =
            sides.indices.first { $0 != index && sides[$0].isVisible }
            ?? sides.indices.first { $0 != index }
        return other.map { sides[$0].value }
    }

    private func side(_ index: Int) -> [StyledLine] {
        let side = conflict.sides[index]
        let name = "side \(index + 1)"
        let isShown = side.isVisible && conflict.item.isOpen
        let style: CellStyle = isShown ? CellStyle(hue: .green, isBold: true) : .bold
        // A closed conflict knows what was seen then; what is there now stands below.
        let mark =
            conflict.item.isOpen
            ? Span("◀ shown  ", CellStyle(hue: .green, isBold: true)) : Span("◀ was shown  ", .dim)
        var shown: StyledLine = side.isVisible ? [mark] : []
        if !isWhole, !side.isVisible, conflict.sides.contains(where: \.isVisible) {
            shown.append(Span(String(repeating: " ", count: mark.text.count)))
        }
        shown.append(Span(side.origin))
        if side.milliseconds > 0 {
            shown.append(
                Span(
                    isWhole
                        ? ", \(ValueLines.time(side.milliseconds))"
                        : ", \(ValueLines.age(side.milliseconds, now: state.now)) ago", .dim))
        }
        let value =
            side.isDeleted
            ? [[Span("deleted", .red)]] : value(side.value, against: comparison(index))
        let relationships = side.relationships.map { [Span($0)] }
        var lines: [StyledLine] = []
        if !isWhole, value.count == 1, relationships.isEmpty {
            // Value and origin on one line, one under the other of each side.
            let room = columns - Self.label
            let first = max(16, room / 2 - 2)
            lines.append(
                labelled(
                    name, style, StyledLines.pad(value[0], to: first) + [Span("  ")] + shown))
            return lines
        }
        lines.append(labelled(name, style, shown))
        if isWhole {
            var dot = side.dot
            if let object = side.object { dot += "  \(object)" }
            if !dot.isEmpty { lines.append(indented([Span(dot, .dim)])) }
        }
        lines += (value + relationships).map { indented($0) }
        if isWhole { lines.append([]) }
        return lines
    }

    /// A value in lines; what differs from another is marked.
    private func value(_ value: JSONValue, against other: JSONValue?) -> [StyledLine] {
        let row = value.object?["values"]?.object ?? value.object
        guard let row else {
            return single(value, other, property: conflict.item.property)
        }
        let otherRow = other?.object?["values"]?.object ?? other?.object
        var lines: [StyledLine] = []
        if let object = value.object?["object"]?.string {
            lines.append([Span(state.title(of: object), .bold)])
        }
        var equal = 0
        for member in row.members {
            let otherValue = otherRow?[member.key]
            if otherRow != nil, otherValue == member.value {
                equal += 1
                continue
            }
            let values = single(member.value, otherValue, property: member.key)
            lines.append([Span("\(member.key)  ", .dim)] + (values.first ?? []))
            lines += values.dropFirst()
        }
        if equal > 0 {
            lines.append([
                Span(equal == 1 ? "1 equal value" : "\(equal) equal values", .dim)
            ])
        }
        return lines.isEmpty ? [[Span("no values", .dim)]] : lines
    }

    private func single(
        _ value: JSONValue, _ other: JSONValue?, property: String?
    ) -> [StyledLine] {
        let type = property.flatMap { state.model.type(of: $0, in: conflict.item.entity) }
        guard case .string(let text) = value else {
            let shown = ValueLines.brief(value, maximum: isWhole ? 2_000 : 200)
            let isSame = other == nil || other == value
            return [[Span(shown, isSame ? .plain : .changed)]]
        }
        let size = max(text.utf8.count, other?.string?.utf8.count ?? 0)
        guard size <= Self.maximumCompared else {
            return [Self.excerpt(text, other?.string)]
                + (isWhole ? [[Span(Self.advice, .dim)]] : [])
        }
        if type == "binary", let bytes = ValueText.bytes(fromBase64: text) {
            return BinaryLines.lines(
                bytes, against: other?.string.flatMap { ValueText.bytes(fromBase64: $0) },
                isWhole: isWhole)
        }
        if let uri = ObjectURI(text) {
            let isSame = other == nil || other == value
            return [
                [
                    Span(
                        state.titles[text].map { "\(uri.entityName)/\(uri.row) \"\($0)\"" }
                            ?? "\(uri.entityName)/\(uri.row)", isSame ? .plain : .changed)
                ]
            ]
        }
        let room = columns - Self.label
        guard LineComparison.isLong(text) else {
            let spans = other?.string.map { WordDifference.spans(text, from: $0) } ?? [Span(text)]
            let quoted = [Span("\"", .dim)] + spans + [Span("\"", .dim)]
            return isWhole ? StyledLines.wrap(quoted, to: room) : [quoted]
        }
        if isWhole {
            return LineComparison.lines(text, from: other?.string, columns: room)
        }
        return [Self.excerpt(text, other?.string)]
    }

    /// Longer values are not compared at each key: that would take longer than a person waits.
    private static let maximumCompared = 32_768
    /// So much of a long value is looked through for the first difference.
    private static let maximumSearched = 1 << 20
    private static let advice = "Too long for this screen: tributary conflicts show has it whole."

    /// A long text in one line: the place where it begins to differ, and its length.
    private static func excerpt(_ text: String, _ other: String?) -> StyledLine {
        let size = Span("\(text.utf8.count) bytes  ", .dim)
        guard let other, !other.utf8.elementsEqual(text.utf8) else {
            return [size, Span("\"\(text.prefix(200))…\"")]
        }
        let pairs = zip(text.utf8, other.utf8).lazy.prefix(maximumSearched)
        let common = pairs.prefix { $0 == $1 }.count
        let start = max(0, common - 12)
        let part = String(decoding: text.utf8.dropFirst(start).prefix(200), as: UTF8.self)
        let oldPart = String(decoding: other.utf8.dropFirst(start).prefix(200), as: UTF8.self)
        return [size] + (start > 0 ? [Span("…", .dim)] : [])
            + WordDifference.spans(part, from: oldPart)
    }

    // MARK: Outcome

    private func outcome() -> [StyledLine] {
        var lines: [StyledLine] = []
        for (index, text) in ValueLines.wrap(conflict.reason, to: columns - Self.label).enumerated()
        where !conflict.reason.isEmpty {
            lines.append(index == 0 ? labelled("why", .bold, [Span(text)]) : indented([Span(text)]))
        }
        if let decision = conflict.decision {
            var text = decision["author"]?.string ?? ""
            if text.isEmpty, let node = decision["by"]?.integer { text = "node \(node)" }
            let milliseconds = decision["timestamp"]?.object?["milliseconds"]?.integer ?? 0
            if milliseconds > 0 {
                text +=
                    isWhole
                    ? ", \(ValueLines.time(milliseconds))"
                    : ", \(ValueLines.age(milliseconds, now: state.now)) ago"
            }
            lines.append(
                labelled("decided", CellStyle(hue: .green, isBold: true), [Span("by " + text)]))
            if let note = decision["note"]?.string, !note.isEmpty {
                lines += StyledLines.wrap([Span("“\(note)”")], to: columns - Self.label)
                    .map { indented($0) }
            }
        }
        return lines + now()
    }

    /// The value that the object has now, where a later write may have changed it.
    private func now() -> [StyledLine] {
        guard let subject = state.subject, subject.uri == conflict.item.object else { return [] }
        if let failure = subject.failure {
            return [labelled("now", .bold, [Span(failure, .dim)])]
        }
        guard let values = subject.object?["values"]?.object, let property = conflict.item.property,
            let value = values[property], !conflict.item.isOpen || isWhole
        else { return [] }
        let shown = single(value, nil, property: property)
        let style = CellStyle(hue: .green, isBold: true)
        return [labelled("now", style, shown.first ?? [])]
            + (isWhole ? shown.dropFirst().map { indented($0) } : [])
    }

    private func commands() -> [StyledLine] {
        var lines: [StyledLine] = [[], [Span("The same from a shell", .bold)]]
        var commands = [
            ShellText.line(
                ["tributary", "conflicts", "show", conflict.item.id] + state.source.flags)
        ]
        let item = conflict.item
        if item.isOpen,
            let side = conflict.sides.first(where: { !$0.isVisible && !$0.dot.isEmpty })
                ?? conflict.sides.first(where: { !$0.dot.isEmpty })
        {
            let way = Decision.Way.side(0, dot: side.dot, object: nil)
            commands.append(command(way))
        }
        if item.state != .unresolved, item.kind != "uniqueness" { commands.append(command(.undo)) }
        for text in commands {
            lines += StyledLines.wrap([Span(text, .cyan)], to: columns, indent: 2)
        }
        return lines
    }

    private func command(_ way: Decision.Way) -> String {
        Decision(
            id: conflict.item.id, object: conflict.item.object, dots: conflict.dots, way: way,
            summary: "", author: state.source.author
        ).command(state.source)
    }
}

/// Bytes as people compare them.
enum BinaryLines {
    /// Rows of sixteen that are shown of a whole value.
    private static let maximumRows = 64

    static func lines(_ bytes: [UInt8], against other: [UInt8]?, isWhole: Bool) -> [StyledLine] {
        var head: StyledLine = [Span("binary, \(bytes.count) bytes")]
        var first = 0
        if let other, other != bytes {
            first = zip(bytes, other).prefix { $0 == $1 }.count
            head.append(Span(", differs from byte \(first) on", .yellow))
        } else if other != nil {
            head.append(Span(", the same", .dim))
        }
        guard isWhole else {
            let shown = bytes.dropFirst(first).prefix(8).map(hexadecimal).joined(separator: " ")
            return [head + [Span("  \(shown)", .dim)]]
        }
        var lines = [head]
        var start = 0
        var rows = 0
        for offset in stride(from: 0, to: bytes.count, by: 16) {
            guard rows < maximumRows else { break }
            if let other, other != bytes {
                // A row before and a row after each difference are enough.
                let near = max(0, offset - 16)..<min(bytes.count, offset + 32)
                if near.allSatisfy({ $0 < other.count && other[$0] == bytes[$0] }) { continue }
            }
            if offset > start { lines.append([Span("… \(offset - start) equal bytes", .dim)]) }
            start = offset + 16
            rows += 1
            var line: StyledLine = [Span(padded(offset) + "  ", .dim)]
            for index in offset..<min(offset + 16, bytes.count) {
                let isSame = other.map { index < $0.count && $0[index] == bytes[index] } ?? true
                line.append(Span(hexadecimal(bytes[index]), isSame ? .plain : .changed))
                line.append(Span(" "))
            }
            lines.append(line)
        }
        let rest = bytes.count - start
        if rest > 0 { lines.append([Span("… \(rest) more bytes", .dim)]) }
        return lines
    }

    private static func hexadecimal(_ byte: UInt8) -> String {
        let text = String(byte, radix: 16)
        return byte < 16 ? "0" + text : text
    }

    private static func padded(_ offset: Int) -> String {
        let text = String(offset, radix: 16)
        return String(repeating: "0", count: max(0, 6 - text.count)) + text
    }
}
