// The conflicts that were loaded, and which of them are seen: filter, groups, marks.

internal import Glibc

/// The list of conflicts.
package struct ConflictList: Sendable {
    /// By what the list is divided.
    package enum Grouping: String, CaseIterable, Sendable {
        case none
        case entity
        case policy
        case author
        case node
        case kind

        var next: Grouping {
            let all = Self.allCases
            return all[((all.firstIndex(of: self) ?? 0) + 1) % all.count]
        }
    }

    /// Which states are seen.
    package enum Scope: String, CaseIterable, Sendable {
        case all
        case unresolved
        case open

        var next: Scope {
            let all = Self.allCases
            return all[((all.firstIndex(of: self) ?? 0) + 1) % all.count]
        }
    }

    /// A heading of a divided list.
    package struct Group: Hashable, Sendable {
        package let name: String
        package let count: Int
        package let isCollapsed: Bool
    }

    /// A row of the list: a heading by its place in ``groups``, or a conflict by its place in ``items``.
    package enum Row: Hashable, Sendable {
        case group(Int)
        case item(Int)
    }

    /// More conflicts are not kept.
    package static let maximum = 100_000

    /// The conflicts, newest first.
    package private(set) var items: [ConflictItem] = []
    /// Whether the node has more than are kept.
    package var hasMore = false
    /// Whether pages are still to come.
    package var isLoading = false
    /// What was typed to filter.
    package private(set) var filter = ""
    package private(set) var grouping = Grouping.none
    package private(set) var scope = Scope.all
    /// The places in ``items`` of what the filter lets through, those that wait for somebody first.
    package private(set) var matches: [Int] = []
    package private(set) var rows: [Row] = []
    package private(set) var groups: [Group] = []
    /// The row that is chosen.
    package private(set) var cursor = 0
    /// The first row that is shown.
    package private(set) var top = 0
    /// Where a range began.
    package private(set) var anchor: Int?
    /// How many conflicts are marked.
    package private(set) var markedCount = 0
    private var marked: [Bool] = []
    private var collapsed: Set<String> = []

    /// An empty list.
    package init() {}

    // MARK: Contents

    /// The chosen conflict; nil on a heading or in an empty list.
    package var selected: ConflictItem? {
        guard rows.indices.contains(cursor), case .item(let index) = rows[cursor] else {
            return nil
        }
        return items[index]
    }

    /// Whether a conflict is marked, or in the range that is being drawn.
    package func isMarked(row: Int) -> Bool {
        if let range, range.contains(row) { return true }
        guard case .item(let index) = rows[row] else { return false }
        return marked[index]
    }

    /// The marked conflicts in the order of the list.
    package var markedItems: [ConflictItem] {
        items.indices.filter { marked[$0] }.map { items[$0] }
    }

    /// How many of the loaded ones wait for somebody.
    package private(set) var unresolvedCount = 0

    /// Puts conflicts in the place of those that were there; marks and choice stay with their IDs.
    package mutating func replace(_ new: [ConflictItem]) {
        let chosen = selected?.id
        let ids = markedCount > 0 ? Set(markedItems.map(\.id)) : []
        items = Array(new.prefix(Self.maximum))
        marked =
            ids.isEmpty
            ? Array(repeating: false, count: items.count)
            : items.map { ids.contains($0.id) }
        markedCount = ids.isEmpty ? 0 : marked.reduce(0) { $0 + ($1 ? 1 : 0) }
        unresolvedCount = items.reduce(0) { $0 + ($1.state == .unresolved ? 1 : 0) }
        anchor = nil
        match(items.indices)
        guard let chosen, !choose({ $0.id == chosen }) else { return }
        // It has closed: its name has a generation now.
        choose { $0.openID == chosen }
    }

    /// Adds a page at the end.
    package mutating func append(_ page: [ConflictItem]) {
        let first = items.count
        items += page.prefix(Self.maximum - items.count)
        marked += Array(repeating: false, count: items.count - first)
        unresolvedCount += items[first...].reduce(0) { $0 + ($1.state == .unresolved ? 1 : 0) }
        let chosen = selected?.id
        let more = (first..<items.count).filter { isSeen($0) }
        if grouping == .none, !more.contains(where: { items[$0].state == .unresolved }) {
            matches += more
            rows += more.map { .item($0) }
        } else {
            match(items.indices)
            if let chosen, cursor > 0 { choose { $0.id == chosen } }
        }
    }

    /// Puts the newest conflicts in front. A closed one takes the place of the open one it was.
    ///
    /// - Returns: false where none of them was known, so that others may lie between.
    package mutating func merge(newest page: [ConflictItem]) -> Bool {
        guard !items.isEmpty else {
            replace(page)
            return true
        }
        if items.starts(with: page) { return true }
        var ids = Set(page.map(\.id))
        let isKnown = items.contains { ids.contains($0.id) } || items.count < page.count
        for item in page where !item.isOpen { ids.insert(item.openID) }
        replace(page + items.filter { !ids.contains($0.id) })
        return isKnown
    }

    // MARK: What is seen

    /// Sets the filter. Its words must all be in a conflict.
    package mutating func setFilter(_ text: String) {
        guard text != filter else { return }
        let isNarrower = text.hasPrefix(filter)
        let chosen = selected?.id
        filter = text
        anchor = nil
        // What was left out already does not come back by a longer filter.
        if isNarrower { match(matches) } else { match(items.indices) }
        cursor = 0
        if let chosen { choose { $0.id == chosen } }
    }

    /// Divides the list by the next of the ways there are.
    package mutating func cycleGrouping() {
        let chosen = selected?.id
        grouping = grouping.next
        anchor = nil
        collapsed = []
        match(matches)
        cursor = 0
        if let chosen { choose { $0.id == chosen } }
    }

    /// Shows the next of the sets of states there are.
    package mutating func cycleScope() {
        let chosen = selected?.id
        scope = scope.next
        anchor = nil
        match(items.indices)
        cursor = 0
        if let chosen { choose { $0.id == chosen } }
    }

    /// Opens or closes the group that is chosen; false where none is.
    package mutating func toggleGroup() -> Bool {
        guard rows.indices.contains(cursor), case .group(let index) = rows[cursor] else {
            return false
        }
        let name = groups[index].name
        if collapsed.remove(name) == nil { collapsed.insert(name) }
        match(matches)
        cursor = rows.firstIndex(of: .group(index)) ?? 0
        return true
    }

    private func isSeen(_ index: Int) -> Bool {
        let item = items[index]
        switch scope {
        case .all: break
        case .unresolved: if item.state != .unresolved { return false }
        case .open: if !item.isOpen { return false }
        }
        return filterWords.allSatisfy { Self.contains(item.searchText, $0) }
    }

    private var filterWords: [[UInt8]] {
        filter.isEmpty
            ? [] : filter.lowercased().split(separator: " ").map { ConflictItem.searchable($0) }
    }

    /// Whether a word is in a text; both end with a zero, and the system's search is fast also where
    /// nothing is optimised.
    private static func contains(_ text: [UInt8], _ word: [UInt8]) -> Bool {
        text.withUnsafeBytes { text in
            word.withUnsafeBytes { word in
                guard let text = text.assumingMemoryBound(to: CChar.self).baseAddress,
                    let word = word.assumingMemoryBound(to: CChar.self).baseAddress
                else { return false }
                return strstr(text, word) != nil
            }
        }
    }

    private mutating func match(_ candidates: some Sequence<Int>) {
        let words = filterWords
        var waiting: [Int] = []
        var others: [Int] = []
        for index in candidates {
            let isWaiting = items[index].state == .unresolved
            switch scope {
            case .all: break
            case .unresolved: if !isWaiting { continue }
            case .open: if !items[index].isOpen { continue }
            }
            guard
                words.isEmpty
                    || words.allSatisfy({ Self.contains(items[index].searchText, $0) })
            else { continue }
            if isWaiting { waiting.append(index) } else { others.append(index) }
        }
        matches = waiting + others
        group()
        cursor = min(cursor, max(0, rows.count - 1))
    }

    private mutating func group() {
        guard grouping != .none else {
            groups = []
            rows = matches.map { .item($0) }
            return
        }
        var places: [String: Int] = [:]
        var buckets: [(name: String, items: [Int])] = []
        for index in matches {
            let name = name(ofGroupOf: items[index])
            if let place = places[name] {
                buckets[place].items.append(index)
            } else {
                places[name] = buckets.count
                buckets.append((name, [index]))
            }
        }
        buckets.sort { ($1.items.count, $0.name) < ($0.items.count, $1.name) }
        groups = []
        rows = []
        rows.reserveCapacity(matches.count + buckets.count)
        for (place, bucket) in buckets.enumerated() {
            let isCollapsed = collapsed.contains(bucket.name)
            groups.append(
                Group(name: bucket.name, count: bucket.items.count, isCollapsed: isCollapsed))
            rows.append(.group(place))
            if !isCollapsed { for index in bucket.items { rows.append(.item(index)) } }
        }
    }

    private func name(ofGroupOf item: ConflictItem) -> String {
        switch grouping {
        case .none: ""
        case .entity: item.entity
        case .policy: item.policy.isEmpty ? "no policy" : item.policy
        case .author: item.people.isEmpty ? "nobody" : item.people.joined(separator: ", ")
        case .node: item.nodes.isEmpty ? "no node" : "node \(item.nodes)"
        case .kind: item.kind
        }
    }

    // MARK: Choice and marks

    /// Goes so many rows down, or up where it is less than 0.
    package mutating func move(by count: Int) {
        cursor = max(0, min(rows.count - 1, cursor + count))
    }

    /// Goes to a row.
    package mutating func move(to row: Int) { cursor = max(0, min(rows.count - 1, row)) }

    /// Goes to the first conflict that fits; stays where none does.
    @discardableResult
    package mutating func choose(_ isWanted: (ConflictItem) -> Bool) -> Bool {
        let found = rows.firstIndex { row in
            if case .item(let index) = row { isWanted(items[index]) } else { false }
        }
        if let found { cursor = found }
        return found != nil
    }

    /// Has so many rows shown with the chosen one among them.
    package mutating func reveal(height: Int) {
        let height = max(1, height)
        if cursor < top { top = cursor }
        if cursor >= top + height { top = cursor - height + 1 }
        top = max(0, min(top, rows.count - height))
    }

    private var range: ClosedRange<Int>? {
        anchor.map { min($0, cursor)...max($0, cursor) }
    }

    /// Marks the chosen row or takes its mark away; of a heading all that is under it. A range that is
    /// being drawn is marked instead.
    package mutating func toggleMark() {
        if anchor != nil { return toggleRange() }
        guard rows.indices.contains(cursor) else { return }
        switch rows[cursor] {
        case .item(let index):
            set(index, !marked[index])
            move(by: 1)
        case .group(let place):
            let name = groups[place].name
            let indices = matches.filter { self.name(ofGroupOf: items[$0]) == name }
            let areAll = indices.allSatisfy { marked[$0] }
            for index in indices { set(index, !areAll) }
        }
    }

    /// Begins a range at the chosen row, or marks all from there to here.
    package mutating func toggleRange() {
        guard let range else {
            if !rows.isEmpty { anchor = cursor }
            return
        }
        for row in range where rows.indices.contains(row) {
            if case .item(let index) = rows[row] { set(index, true) }
        }
        anchor = nil
    }

    /// Marks all that the filter lets through; where all are, takes the marks away.
    package mutating func toggleAll() {
        let areAll = matches.allSatisfy { marked[$0] }
        for index in matches { set(index, !areAll) }
    }

    /// Takes all marks away, and ends a range.
    package mutating func clearMarks() {
        anchor = nil
        guard markedCount > 0 else { return }
        marked = Array(repeating: false, count: items.count)
        markedCount = 0
    }

    private mutating func set(_ index: Int, _ isMarked: Bool) {
        guard marked[index] != isMarked else { return }
        marked[index] = isMarked
        markedCount += isMarked ? 1 : -1
    }
}
