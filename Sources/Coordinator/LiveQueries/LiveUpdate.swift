import Merge

/// A run of results that share a section name.
struct LiveSection: Hashable {
    /// The name as a value, because values compare texts by their bytes, as the order does.
    let key: PropertyValue
    let start: Int
    let count: Int

    init(_ name: String, start: Int, count: Int) {
        key = .string(name)
        self.start = start
        self.count = count
    }

    var name: String { if case .string(let name) = key { name } else { "" } }
    var range: Range<Int> { start..<start + count }
}

extension [LiveSection] {
    /// Where a position of the whole list is within the sections.
    func path(of position: Int) -> FetchedResultsIndexPath {
        let index = lowerBound { $0.start <= position } - 1
        return FetchedResultsIndexPath(section: index, item: position - self[index].start)
    }
}

/// What becomes of one object among the results.
struct LiveChange {
    let old: LiveEntry?
    let new: LiveEntry?
    /// Whether its values or members changed.
    let isChanged: Bool
    var oldPosition: Int?
    var newPosition: Int?

    /// Whether it is among the results before and after, placed by the same keys.
    var staysInPlace: Bool {
        guard let old, let new else { return false }
        return new.hasPlace(of: old)
    }

    /// Whether only its ID is another one, as after its first save.
    var isRenamed: Bool {
        guard let old, let new else { return false }
        return old.row != new.row && old.values == new.values
    }
}

/// The difference between the results before and after an event, as a table shows it.
struct LiveUpdate {
    struct Section {
        let index: Int
        let section: LiveSection
        let objects: [ManagedObject]
    }

    struct Object {
        let object: ManagedObject
        let kind: FetchedResultsChangeType
        let from: FetchedResultsIndexPath?
        let to: FetchedResultsIndexPath?
    }

    private(set) var deletedSections: [Section] = []
    private(set) var insertedSections: [Section] = []
    /// Deletes by their old places; then inserts, moves and updates by their new ones.
    private(set) var objects: [Object] = []
    /// Whether the list of IDs is another one.
    private(set) var changesIDs = false

    var isEmpty: Bool { deletedSections.isEmpty && insertedSections.isEmpty && objects.isEmpty }

    /// No difference.
    init() {}

    /// - Parameters:
    ///   - changes: With their positions.
    ///   - entries: The results afterwards.
    init(
        _ changes: [LiveChange], from old: [LiveSection], to new: [LiveSection],
        entries: [LiveEntry]
    ) {
        changesIDs = changes.contains { !$0.staysInPlace }
        if changesIDs, old.map(\.key) != new.map(\.key) {
            compareSections(changes, old, new, entries)
        }
        let silent = Self.renamedInPlace(changes)
        var sorted: [(rank: Int, position: Int, object: Object)] = []
        for change in changes {
            guard let kind = Self.kind(of: change, silent),
                let object = change.new?.object ?? change.old?.object,
                let position = change.newPosition ?? change.oldPosition
            else { continue }
            sorted.append(
                (
                    kind.rank, position,
                    Object(
                        object: object, kind: kind, from: change.oldPosition.map(old.path),
                        to: change.newPosition.map(new.path))
                ))
        }
        sorted.sort { ($0.rank, $0.position) < ($1.rank, $1.position) }
        objects = sorted.map(\.object)
    }

    /// Whether there is anything to report of changes, with their positions.
    static func isReported(_ changes: [LiveChange]) -> Bool {
        let silent = renamedInPlace(changes)
        return changes.contains { kind(of: $0, silent) != nil }
    }

    private static func kind(
        of change: LiveChange, _ silent: Set<Int>
    ) -> FetchedResultsChangeType? {
        if change.old == nil { return .insert }
        if change.new == nil { return .delete }
        let isSilent = change.newPosition.map(silent.contains) ?? false
        if change.staysInPlace || isSilent { return change.isChanged ? .update : nil }
        return .move
    }

    private mutating func compareSections(
        _ changes: [LiveChange], _ old: [LiveSection], _ new: [LiveSection],
        _ entries: [LiveEntry]
    ) {
        let (before, after) = (Set(old.map(\.key)), Set(new.map(\.key)))
        for (index, section) in new.enumerated() where !before.contains(section.key) {
            insertedSections.append(
                Section(
                    index: index, section: section,
                    objects: entries[section.range].map(\.object)))
        }
        for (index, section) in old.enumerated() where !after.contains(section.key) {
            // Each of its objects has left it, so the changes name them all.
            let objects = changes.filter {
                $0.oldPosition.map(section.range.contains) ?? false
            }.sorted { ($0.oldPosition ?? 0) < ($1.oldPosition ?? 0) }.compactMap(\.old?.object)
            deletedSections.append(Section(index: index, section: section, objects: objects))
        }
    }

    /// The new positions of objects that have a new ID and are still in the same place among the
    /// others.
    ///
    /// Each is between two neighbours that do not move. It stays if these are the same as before,
    /// and if all that are between these two stay in one order.
    private static func renamedInPlace(_ changes: [LiveChange]) -> Set<Int> {
        guard changes.contains(where: \.isRenamed) else { return [] }
        let moving = changes.filter { !$0.staysInPlace }
        let left = moving.compactMap(\.oldPosition).sorted()
        let arrived = moving.compactMap(\.newPosition).sorted()
        var groups: [Int: [(old: Int, new: Int)]] = [:]
        for change in moving where change.isRenamed {
            guard let old = change.oldPosition, let new = change.newPosition else { continue }
            let rank = old - left.lowerBound { $0 < old }
            if rank == new - arrived.lowerBound({ $0 < new }) {
                groups[rank, default: []].append((old, new))
            }
        }
        var result = Set<Int>()
        for group in groups.values {
            let sorted = group.sorted { $0.old < $1.old }.map(\.new)
            if zip(sorted, sorted.dropFirst()).allSatisfy({ $0 < $1 }) { result.formUnion(sorted) }
        }
        return result
    }
}

extension Array {
    /// How many elements of a sorted list come before a place.
    func lowerBound(_ isBefore: (Element) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if isBefore(self[middle]) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
