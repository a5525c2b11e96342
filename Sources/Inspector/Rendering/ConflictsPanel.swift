// The list of conflicts, and the chosen one under it.

internal import Console

/// Draws the first panel.
enum ConflictsPanel {
    static func summary(_ state: InspectorState) -> StyledLine {
        let list = state.list
        var line: StyledLine = []
        let waiting = list.unresolvedCount
        if waiting > 0 {
            line.append(
                Span(
                    waiting == 1 ? "1 waits for a decision" : "\(waiting) wait for a decision", .red
                ))
        } else {
            line.append(Span("None waits for a decision", .green))
        }
        line.append(Span(", \(list.items.count)\(list.hasMore ? " newest" : "") in all"))
        if list.hasMore { line.append(Span("; the node has more than are kept", .yellow)) }
        if list.isLoading, !state.isStaging { line.append(Span(", loading…", .dim)) }
        if list.scope != .all { line.append(Span("  only \(list.scope.rawValue)", .yellow)) }
        if !list.filter.isEmpty {
            line.append(Span("  filter: \(list.filter)", .yellow))
            line.append(Span(" (\(list.matches.count))", .dim))
        }
        if list.grouping != .none {
            line.append(Span("  by \(list.grouping.rawValue)", .yellow))
        }
        if list.markedCount > 0 {
            line.append(Span("  \(list.markedCount) marked", .bold))
        }
        if list.anchor != nil { line.append(Span("  drawing a range: v ends it", .yellow)) }
        return line
    }

    static func draw(_ state: InspectorState, _ layout: Layout, _ screen: inout Screen) {
        let columns = Columns(state.size.columns)
        heading(columns, layout, &screen)
        let list = state.list
        if list.rows.isEmpty {
            screen.write(empty(state), row: layout.listTop, column: 3, .dim)
        }
        for offset in 0..<layout.listHeight {
            let index = list.top + offset
            guard list.rows.indices.contains(index) else { break }
            let row = layout.listTop + offset
            let isChosen = index == list.cursor
            if isChosen { screen.fill(row: row, from: 0, to: state.size.columns, .reversed) }
            switch list.rows[index] {
            case .group(let place):
                let group = list.groups[place]
                let line = [
                    Span(group.isCollapsed ? "▸ " : "▾ ", .bold),
                    Span(list.title(of: group), .bold),
                    Span("  \(group.count)", .dim),
                ]
                screen.write(line, row: row, column: 1, isChosen: isChosen)
            case .item(let item):
                draw(
                    list.items[item], row, isChosen, list.isMarked(row: index), columns, state,
                    &screen)
            }
        }
        details(state, layout, &screen)
    }

    private static func empty(_ state: InspectorState) -> String {
        if state.list.isLoading { return "Loading…" }
        if !state.list.items.isEmpty {
            return state.list.filter.isEmpty
                ? "None is \(state.list.scope.rawValue). Press s to see others."
                : "Nothing matches the filter. Esc clears it."
        }
        return "No conflicts."
    }

    /// Where the columns of the list begin and end.
    private struct Columns {
        let id: Range<Int>
        let subject: Range<Int>
        let people: Range<Int>
        /// Empty in a narrow terminal.
        let values: Range<Int>
        let state: Range<Int>
        let age: Range<Int>

        init(_ width: Int) {
            age = (width - 8)..<(width - 1)
            state = (width - 20)..<(width - 9)
            id = 3..<12
            let rest = width - 21 - 13
            if width >= Layout.wide {
                subject = 13..<(13 + rest * 3 / 10)
                people = (subject.upperBound + 1)..<(subject.upperBound + 1 + rest * 2 / 10)
                values = (people.upperBound + 1)..<(width - 21)
            } else {
                subject = 13..<(13 + rest * 62 / 100)
                people = (subject.upperBound + 1)..<(width - 21)
                values = people.upperBound..<people.upperBound
            }
        }
    }

    private static func heading(
        _ columns: Columns, _ layout: Layout, _ screen: inout Screen
    ) {
        let headings = [
            (columns.id, "ID"), (columns.subject, "WHAT"), (columns.people, "WHO"),
            (columns.values, "VALUES"), (columns.state, "STATE"), (columns.age, "AGO"),
        ]
        for (range, title) in headings where !range.isEmpty {
            screen.write(
                title, row: layout.bodyTop, column: range.lowerBound, limit: range.upperBound,
                CellStyle(isBold: true, isDim: true))
        }
    }

    private static func draw(
        _ item: ConflictItem, _ row: Int, _ isChosen: Bool, _ isMarked: Bool,
        _ columns: Columns, _ state: InspectorState, _ screen: inout Screen
    ) {
        func write(_ line: StyledLine, _ range: Range<Int>) {
            guard !range.isEmpty else { return }
            screen.write(
                StyledLines.cut(line, to: range.count), row: row, column: range.lowerBound,
                limit: range.upperBound, isChosen: isChosen)
        }
        if isMarked { write([Span("✓", CellStyle(hue: .yellow, isBold: true))], 1..<2) }
        let style: CellStyle =
            switch item.state {
            case .unresolved: .red
            case .settled: item.isOpen ? .yellow : .plain
            case .resolved: .green
            }
        write([Span(item.short, .cyan)], columns.id)
        let title = state.titles[item.object].map { "\"\($0)\"" } ?? item.row
        write([Span(item.subject, .bold), Span("  \(title)", .dim)], columns.subject)
        write([Span(item.people)], columns.people)
        write(values(item), columns.values)
        write([Span(item.state.name, style)], columns.state)
        write([Span(ValueLines.age(item.milliseconds, now: state.now))], columns.age)
    }

    private static func values(_ item: ConflictItem) -> StyledLine {
        var line: StyledLine = []
        for side in item.sides {
            if !line.isEmpty { line.append(Span(" / ", .dim)) }
            line.append(Span(side.value, side.isVisible ? .green : .plain))
        }
        return line
    }

    // MARK: The chosen one

    private static func details(
        _ state: InspectorState, _ layout: Layout, _ screen: inout Screen
    ) {
        let row = layout.separator
        guard row < layout.bodyTop + layout.bodyHeight else { return }
        for column in 0..<state.size.columns { screen.write("─", row: row, column: column, .dim) }
        guard let item = state.chosen else { return }
        screen.write(
            StyledLines.cut(
                [Span(" \(Deciding.subject(item, state)) ", .bold)], to: state.size.columns - 4),
            row: row, column: 2)
        let columns = state.size.columns - 2
        var lines: [StyledLine] = [ThreeWayLines.summary(item)]
        if let conflict = state.chosenConflict {
            lines += ThreeWayLines(conflict, state, columns: columns, isWhole: false).lines()
        } else if let failure = state.conflictFailure, failure.id == item.id {
            lines.append([Span(failure.text, .red)])
        } else {
            lines.append([Span("Loading…", .dim)])
        }
        var height = layout.detailHeight
        let isCut = lines.count > height
        if isCut { height -= 1 }
        for (offset, line) in lines.prefix(max(0, height)).enumerated() {
            screen.write(StyledLines.cut(line, to: columns), row: row + 1 + offset, column: 1)
        }
        if isCut, height >= 0 {
            screen.write(
                "… \(lines.count - height) more lines: press Enter", row: row + 1 + height,
                column: 1, .dim)
        }
    }

    /// The chosen conflict whole.
    static func whole(_ state: InspectorState, columns: Int) -> [StyledLine] {
        guard let item = state.chosen else { return [[Span("No conflict is chosen.", .dim)]] }
        guard let conflict = state.chosenConflict else {
            if let failure = state.conflictFailure, failure.id == item.id {
                return [[Span(failure.text, .red)]]
            }
            return [ThreeWayLines.summary(item), [Span("Loading…", .dim)]]
        }
        return ThreeWayLines(conflict, state, columns: columns, isWhole: true).lines()
    }
}
