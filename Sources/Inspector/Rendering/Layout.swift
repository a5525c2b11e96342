// Where things are on the screen.

internal import Console

/// The places of a screen, from its size and what is shown at the bottom.
struct Layout {
    /// Smaller terminals show only that they are too small.
    static let smallest = Size(columns: 40, rows: 12)
    /// From here on the list shows values too.
    static let wide = 110

    static let tabs: [(view: InspectorState.View, title: String)] = [
        (.conflicts, "Conflicts"), (.nodes, "Nodes"), (.log, "Log"),
    ]

    let size: Size
    /// The lines above the keys: a message or what is asked.
    let bottom: [StyledLine]
    /// Where the person types, in the last line of ``bottom``: its column.
    let cursor: Int?

    init(_ state: InspectorState) {
        size = state.size
        (bottom, cursor) = Bottom.lines(state)
    }

    /// Below title and summary.
    var bodyTop: Int { 2 }
    /// Rows between the summary and the bottom.
    var bodyHeight: Int { max(1, size.rows - bodyTop - bottom.count - 1) }
    /// The first row of the list, below its headings.
    var listTop: Int { bodyTop + 1 }
    /// Rows of the list.
    var listHeight: Int {
        // Not of the bottom's height: the list does not jump when something is asked.
        max(1, (size.rows - 4) * 2 / 5 - 1)
    }
    /// The row between the list and the conflict.
    var separator: Int { listTop + listHeight }
    /// Rows of the conflict under the list.
    var detailHeight: Int { max(0, bodyTop + bodyHeight - separator - 1) }

    /// The view of the title at a column of the first row.
    func tab(at column: Int) -> InspectorState.View? {
        var start = Self.firstTab
        for tab in Self.tabs {
            let end = start + tab.title.count + 2
            if (start..<end).contains(column) { return tab.view }
            start = end
        }
        return nil
    }

    static let name = " tributary "
    static let firstTab = name.count
}
