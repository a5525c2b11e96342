// The conflicts that were loaded, and which of them are seen: filter, groups, marks.

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
    // What is asked of every conflict at a key, beside the conflicts themselves: reading a whole one
    // costs ten times as much.
    private var texts = SearchTexts()
    private var isWaiting: [Bool] = []
    private var isOpen: [Bool] = []
    /// The group of each conflict, by its place in ``groupNames``; empty without groups.
    private var groupOf: [Int] = []
    private var groupNames: [String] = []
    private var groupPlaces: [String: Int] = [:]
    private var collapsed: Set<String> = []
    /// What shorter filters let through, for a person who takes letters away again.
    private var wider: [(filter: String, matches: [Int])] = []
    private static let maximumWider = 8

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
        let chosen = selected
        let ids = markedCount > 0 ? Set(markedItems.map(\.id)) : []
        items = []
        marked = []
        texts = SearchTexts()
        isWaiting = []
        isOpen = []
        groupOf = []
        unresolvedCount = 0
        anchor = nil
        add(new)
        if !ids.isEmpty { marked = items.map { ids.contains($0.id) } }
        markedCount = marked.reduce(0) { $0 + ($1 ? 1 : 0) }
        matchAll()
        guard let chosen, !choose(where: { $0.id == chosen.id }) else { return }
        // It has closed: its name has a generation now.
        let openID = chosen.openID
        choose { $0.openID == openID }
    }

    /// Adds a page at the end.
    package mutating func append(_ page: [ConflictItem]) {
        let first = items.count
        let chosen = selectedIndex
        add(page)
        let more = (first..<items.count).filter { isSeen($0, filterWords) }
        if grouping == .none, !more.contains(where: { isWaiting[$0] }) {
            matches += more
            wider = []
            rows += more.map { .item($0) }
        } else {
            matchAll()
            if cursor > 0 { choose(index: chosen) }
        }
    }

    private mutating func add(_ page: [ConflictItem]) {
        let first = items.count
        items += page.prefix(Self.maximum - first)
        for item in items[first...] {
            texts.append(item.searchText)
            let isWaiting = item.state == .unresolved
            self.isWaiting.append(isWaiting)
            if isWaiting { unresolvedCount += 1 }
            isOpen.append(item.isOpen)
            marked.append(false)
        }
        if grouping != .none { nameGroups(from: first) }
    }

    private mutating func nameGroups(from first: Int) {
        for item in items[first...] {
            let name = key(ofGroupOf: item)
            if let place = groupPlaces[name] {
                groupOf.append(place)
            } else {
                groupPlaces[name] = groupNames.count
                groupOf.append(groupNames.count)
                groupNames.append(name)
            }
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
        let chosen = selectedIndex
        anchor = nil
        if isNarrower {
            wider.append((filter, matches))
            if wider.count > Self.maximumWider { wider.removeFirst() }
        }
        filter = text
        if isNarrower {
            // What was left out already does not come back by a longer filter, and all words but the
            // last are met already.
            match(matches, Array(filterWords.suffix(1)))
        } else if let last = wider.last, last.filter == text {
            matches = last.matches
            wider.removeLast()
            group()
        } else {
            match(items.indices, filterWords)
        }
        cursor = 0
        choose(index: chosen)
    }

    /// Divides the list by the next of the ways there are.
    package mutating func cycleGrouping() {
        let chosen = selectedIndex
        grouping = grouping.next
        anchor = nil
        collapsed = []
        groupOf = []
        groupNames = []
        groupPlaces = [:]
        if grouping != .none { nameGroups(from: 0) }
        group()
        cursor = 0
        choose(index: chosen)
    }

    /// Shows the next of the sets of states there are.
    package mutating func cycleScope() {
        let chosen = selectedIndex
        scope = scope.next
        anchor = nil
        matchAll()
        cursor = 0
        choose(index: chosen)
    }

    /// Opens or closes the group that is chosen; false where none is.
    package mutating func toggleGroup() -> Bool {
        guard rows.indices.contains(cursor), case .group(let index) = rows[cursor] else {
            return false
        }
        let name = groups[index].name
        if collapsed.remove(name) == nil { collapsed.insert(name) }
        group()
        cursor = rows.firstIndex(of: .group(index)) ?? 0
        return true
    }

    private func isSeen(_ index: Int, _ words: [[UInt8]]) -> Bool {
        switch scope {
        case .all: break
        case .unresolved: if !isWaiting[index] { return false }
        case .open: if !isOpen[index] { return false }
        }
        return texts.contains(words, at: index)
    }

    private var filterWords: [[UInt8]] {
        filter.isEmpty
            ? [] : filter.lowercased().split(separator: " ").map { SearchTexts.searchable($0) }
    }

    /// Looks through all conflicts again.
    private mutating func matchAll() {
        wider = []
        match(items.indices, filterWords)
    }

    private mutating func match(_ candidates: some Sequence<Int>, _ words: [[UInt8]]) {
        var waiting: [Int] = []
        var others: [Int] = []
        // To search all at once is faster than one by one, unless few are left.
        let hits = candidates.underestimatedCount > items.count / 8 ? texts.hits(words) : nil
        for index in candidates
        where hits.map({ $0[index] && isSeen(index, []) }) ?? isSeen(index, words) {
            if isWaiting[index] { waiting.append(index) } else { others.append(index) }
        }
        matches = waiting + others
        group()
    }

    private mutating func group() {
        guard grouping != .none else {
            groups = []
            rows = matches.map { .item($0) }
            cursor = min(cursor, max(0, rows.count - 1))
            return
        }
        var buckets: [[Int]] = Array(repeating: [], count: groupNames.count)
        for index in matches { buckets[groupOf[index]].append(index) }
        let order = buckets.indices.filter { !buckets[$0].isEmpty }.sorted {
            (buckets[$1].count, groupNames[$0]) < (buckets[$0].count, groupNames[$1])
        }
        groups = []
        rows = []
        rows.reserveCapacity(matches.count + order.count)
        for (place, bucket) in order.enumerated() {
            let name = groupNames[bucket]
            let isCollapsed = collapsed.contains(name)
            groups.append(
                Group(name: name, count: buckets[bucket].count, isCollapsed: isCollapsed))
            rows.append(.group(place))
            if !isCollapsed { for index in buckets[bucket] { rows.append(.item(index)) } }
        }
        cursor = min(cursor, max(0, rows.count - 1))
    }

    private func key(ofGroupOf item: ConflictItem) -> String {
        switch grouping {
        case .none: ""
        case .entity: item.entity
        case .policy: item.policy
        case .author: item.people
        case .node: item.nodes
        case .kind: item.kind
        }
    }

    /// What a group is called.
    package func title(of group: Group) -> String {
        switch grouping {
        case .none, .entity, .kind: group.name
        case .policy: group.name.isEmpty ? "no policy" : group.name
        case .author: group.name.isEmpty ? "nobody" : group.name
        case .node: group.name.isEmpty ? "no node" : "node \(group.name)"
        }
    }

    // MARK: Choice and marks

    /// Goes so many rows down, or up where it is less than 0.
    package mutating func move(by count: Int) {
        cursor = max(0, min(rows.count - 1, cursor + count))
    }

    /// Goes to a row.
    package mutating func move(to row: Int) { cursor = max(0, min(rows.count - 1, row)) }

    private var selectedIndex: Int? {
        guard rows.indices.contains(cursor), case .item(let index) = rows[cursor] else {
            return nil
        }
        return index
    }

    private mutating func choose(index: Int?) {
        guard let index, let row = rows.firstIndex(of: .item(index)) else { return }
        cursor = row
    }

    /// Goes to the first conflict that fits; stays where none does.
    @discardableResult
    package mutating func choose(where isWanted: (ConflictItem) -> Bool) -> Bool {
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
            guard let group = groupPlaces[groups[place].name] else { return }
            let indices = matches.filter { groupOf[$0] == group }
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
