import Merge

/// The results of a request, in order, kept up to date from what events touch. To be used on the
/// context's queue.
///
/// Work is proportional to the change: only touched objects are evaluated, and places are found by
/// binary search with the keys that each object was placed by. Where touched objects alone do not
/// tell the results, it fetches again and compares.
final class LiveResults {
    /// Up to so many changed places are changed one by one, each by moving what is behind it.
    private static let fewPlaces = 16
    /// Up to so many touched objects are always looked at one by one.
    private static let fewObjects = 64
    /// The most IDs in one query.
    private static let idsPerQuery = 10_000

    private unowned let context: ManagedObjectContext
    private let plan: LivePlan
    private(set) var entries: [LiveEntry]
    private(set) var sections: [LiveSection]
    private var held: [ObjectIdentifier: LiveEntry] = [:]
    /// Whether there were changes that it did not follow.
    private var isBehind = false
    /// How many times an object's sort keys were read or its predicate was asked.
    private(set) var evaluations = 0

    /// Fetches.
    ///
    /// - Parameters:
    ///   - hasSections: Whether the first sort key names sections.
    ///   - cached: Sections that an equal fetch gave; used if they fit what is fetched.
    /// - Throws: As ``ManagedObjectContext/fetch(_:)``.
    init(
        _ request: FetchRequest, hasSections: Bool, context: ManagedObjectContext,
        cached: [LiveSection]? = nil
    ) throws {
        self.context = context
        // The store says first what is wrong with the request.
        let objects = try context.fetch(Self.whole(request))
        plan = try LivePlan(request, hasSections: hasSections, context: context)
        entries = []
        sections = []
        entries = try sorted(objects)
        sections = cached.flatMap { isRight($0) ? $0 : nil } ?? makeSections()
        held = Self.byObject(entries)
    }

    /// The request to fetch by: keys of all objects are read at once, so batches would only cost
    /// more queries.
    private static func whole(_ request: FetchRequest) -> FetchRequest {
        var request = request
        request.fetchBatchSize = 0
        request.returnsObjectsAsFaults = false
        return request
    }

    private func sorted(_ objects: [ManagedObject]) throws -> [LiveEntry] {
        var entries = try objects.map(plan.placed)
        evaluations += entries.count
        try context.objectRegistry.throwFaultingError()
        // The store sorts by what is saved. An object that was not merged shows other values.
        if !zip(entries, entries.dropFirst()).allSatisfy(plan.precedes) {
            entries.sort(by: plan.precedes)
        }
        return entries
    }

    private static func byObject(_ entries: [LiveEntry]) -> [ObjectIdentifier: LiveEntry] {
        Dictionary(
            entries.map { (ObjectIdentifier($0.object), $0) },
            uniquingKeysWith: { first, _ in first })
    }

    // MARK: Reading

    func entry(of object: ManagedObject) -> LiveEntry? { held[ObjectIdentifier(object)] }

    /// The position of an entry: the first that no other comes before.
    func position(of entry: LiveEntry) -> Int {
        entries.lowerBound { plan.precedes($0, entry) }
    }

    // MARK: Sections

    /// Each section's end is found by steps that double, and then by halving the last one.
    private func makeSections() -> [LiveSection] {
        guard plan.hasSections else { return [LiveSection("", start: 0, count: entries.count)] }
        var sections: [LiveSection] = []
        var start = 0
        while start < entries.count {
            let first = entries[start]
            var (inside, step) = (start, 1)
            while inside + step < entries.count, plan.isSameSection(first, entries[inside + step]) {
                inside += step
                step *= 2
            }
            var outside = min(inside + step, entries.count)
            while outside - inside > 1 {
                let middle = (inside + outside) / 2
                if plan.isSameSection(first, entries[middle]) {
                    inside = middle
                } else {
                    outside = middle
                }
            }
            sections.append(
                LiveSection(plan.sectionName(of: first), start: start, count: outside - start))
            start = outside
        }
        return sections
    }

    /// Whether sections are those of the results. The results are in order, so the two ends of each
    /// section tell.
    private func isRight(_ sections: [LiveSection]) -> Bool {
        guard plan.hasSections else { return false }
        var end = 0
        for section in sections {
            guard section.start == end, section.count > 0, section.range.upperBound <= entries.count
            else { return false }
            let (first, last) = (entries[end], entries[section.range.upperBound - 1])
            guard plan.isSameSection(first, last),
                end == 0 || !plan.isSameSection(entries[end - 1], first),
                section.key == .string(plan.sectionName(of: first))
            else { return false }
            end = section.range.upperBound
        }
        return end == entries.count
    }

    // MARK: Following

    /// Notes that changes went by which it did not follow.
    func fallBehind() { isBehind = true }

    /// Follows an event.
    ///
    /// - Parameter willChange: Called before the results change, if there is something to report.
    /// - Throws: What reading throws. The results stay as they were, and follow at the next event.
    func update(_ touches: LiveTouches, willChange: () -> Void = {}) throws -> LiveUpdate {
        do {
            try context.objectRegistry.throwFaultingError()
            guard !isBehind, let touched = touched(touches) else {
                return try fetchAgain(touches, willChange)
            }
            return touched.isEmpty
                ? LiveUpdate() : apply(try changes(touched, touches), willChange)
        } catch {
            isBehind = true
            throw error
        }
    }

    private struct Touched {
        var objects = Set<ManagedObject>()
        var objectIDs: [ManagedObjectID] = []
        var count: Int { objects.count + objectIDs.count }
        var isEmpty: Bool { count == 0 }
    }

    /// The touched objects and rows that can be results; nil where only a fetch tells the results.
    ///
    /// That is so if an object is touched that key paths lead through, because objects that are no
    /// results can become some by it; if results are touched while such objects have unsaved
    /// changes, because a fetch sees those of some objects only; if the request has a limit or an
    /// offset, because the store knows who moves in; and if fetching is cheaper.
    private func touched(_ touches: LiveTouches) -> Touched? {
        if touches.isEverything { return nil }
        var touched = Touched()
        for object in touches.changed.union(touches.saved) {
            if plan.crossed.contains(object.entity.name) { return nil }
            if plan.concerns(object) { touched.objects.insert(object) }
        }
        for objectID in touches.objectIDs {
            if plan.crossed.contains(objectID.entityName) { return nil }
            if plan.concerns(objectID) { touched.objectIDs.append(objectID) }
        }
        if touched.isEmpty { return touched }
        let isCheaper = touched.count <= max(Self.fewObjects, entries.count / 4)
        return isCheaper && !plan.isPaged && !hasUnsavedCrossed ? touched : nil
    }

    private var hasUnsavedCrossed: Bool {
        guard !plan.crossed.isEmpty else { return false }
        let graph = context.graph
        return [graph.inserted, graph.updated, graph.deleted].contains { objects in
            objects.keys.contains { plan.crossed.contains($0.entityName) }
        }
    }

    // MARK: Single objects

    private func changes(_ touched: Touched, _ touches: LiveTouches) throws -> [LiveChange] {
        var objects = touched.objects
        var unread = Set<ManagedObjectID>()
        for objectID in touched.objectIDs {
            if let object = context.graph.registry[objectID]?.object
                ?? context.objectRegistry.registered(objectID.row, plan.entity)
            {
                objects.insert(object)
            } else {
                unread.insert(objectID)
            }
        }
        unread.formUnion(objects.filter(isUnread).map(\.objectID))
        // Held until they are evaluated.
        let found = Set(try fetch(unread))
        let missing = objects.filter { unread.contains($0.objectID) && !found.contains($0) }
        objects.formUnion(found)

        var changes: [LiveChange] = []
        for object in objects.sorted(by: { $0.objectID < $1.objectID }) {
            let old = entry(of: object)
            var new: LiveEntry?
            if object.managedObjectContext === context, !object.isDeleted,
                !missing.contains(object)
            {
                evaluations += 1
                new = try plan.entry(for: object)
            }
            if old == nil, new == nil { continue }
            changes.append(
                LiveChange(
                    old: old, new: new,
                    isChanged: isChanged(object, old?.version, new?.version, touches)))
        }
        try context.objectRegistry.throwFaultingError()
        return changes
    }

    /// Whether its values are still in the store only.
    private func isUnread(_ object: ManagedObject) -> Bool {
        object.isFault && !object.isInaccessible && object.change == .none
            && object.managedObjectContext === context
    }

    private func isChanged(
        _ object: ManagedObject, _ old: RowVersion?, _ new: RowVersion?, _ touches: LiveTouches
    ) -> Bool {
        touches.changed.contains(object) || old != new && !touches.saved.contains(object)
    }

    /// Reads objects that can be results in a few queries, and not one by one.
    private func fetch(_ objectIDs: Set<ManagedObjectID>) throws -> [ManagedObject] {
        let objectIDs = objectIDs.sorted()
        var result: [ManagedObject] = []
        for start in stride(from: 0, to: objectIDs.count, by: Self.idsPerQuery) {
            let some = objectIDs[start..<min(start + Self.idsPerQuery, objectIDs.count)]
            var request = FetchRequest(
                plan.entity.name,
                predicate: .comparison(
                    PredicateComparison(
                        .keyPath([]), .isIn, .constant(.list(some.map { .object($0) })))))
            request.includesSubentities = plan.request.includesSubentities
            request.includesPendingChanges = false
            result += try context.fetch(Self.whole(request))
        }
        return result
    }

    /// Takes changes into the results. All positions are found before anything moves.
    private func apply(_ changes: [LiveChange], _ willChange: () -> Void) -> LiveUpdate {
        var changes = changes
        for index in changes.indices {
            changes[index].oldPosition = changes[index].old.map(position)
        }
        let moving = changes.filter { !$0.staysInPlace }
        let left = moving.compactMap(\.oldPosition).sorted()
        let arrived = moving.compactMap(\.new).sorted(by: plan.precedes)
        for index in changes.indices {
            guard let new = changes[index].new else { continue }
            let before = position(of: new)
            changes[index].newPosition =
                before - left.lowerBound { $0 < before }
                + arrived.lowerBound { plan.precedes($0, new) }
        }
        if LiveUpdate.isReported(changes) { willChange() }

        for change in changes where change.staysInPlace {
            change.old?.version = change.new?.version
        }
        for change in moving {
            if let old = change.old { held[ObjectIdentifier(old.object)] = nil }
        }
        for entry in arrived { held[ObjectIdentifier(entry.object)] = entry }
        let oldSections = sections
        if !moving.isEmpty {
            replace(left, by: arrived)
            sections = makeSections()
        }
        return LiveUpdate(changes, from: oldSections, to: sections, entries: entries)
    }

    /// - Parameters:
    ///   - left: Positions to give up, ascending.
    ///   - arrived: What comes in, in order.
    private func replace(_ left: [Int], by arrived: [LiveEntry]) {
        if left.count + arrived.count <= Self.fewPlaces {
            for position in left.reversed() { entries.remove(at: position) }
            for entry in arrived { entries.insert(entry, at: position(of: entry)) }
            return
        }
        var merged: [LiveEntry] = []
        merged.reserveCapacity(entries.count - left.count + arrived.count)
        var (nextLeft, nextArrived) = (0, 0)
        for (position, entry) in entries.enumerated() {
            if nextLeft < left.count, left[nextLeft] == position {
                nextLeft += 1
                continue
            }
            while nextArrived < arrived.count, plan.precedes(arrived[nextArrived], entry) {
                merged.append(arrived[nextArrived])
                nextArrived += 1
            }
            merged.append(entry)
        }
        merged += arrived[nextArrived...]
        entries = merged
    }

    // MARK: Everything

    /// Fetches and compares with what was there.
    private func fetchAgain(
        _ touches: LiveTouches, _ willChange: () -> Void
    ) throws -> LiveUpdate {
        let fresh = try sorted(try context.fetch(Self.whole(plan.request)))
        isBehind = false
        // An object of a context that was reset is another instance of the same row.
        var byObject: [ObjectIdentifier: Int] = [:]
        var byRow: [RowID: Int] = [:]
        for (position, entry) in entries.enumerated() {
            byObject[ObjectIdentifier(entry.object)] = position
            byRow[entry.row] = position
        }
        var changes: [LiveChange] = []
        var isHeld = [Bool](repeating: false, count: entries.count)
        for (newPosition, new) in fresh.enumerated() {
            let oldPosition = byObject[ObjectIdentifier(new.object)] ?? byRow[new.row]
            guard let oldPosition, !isHeld[oldPosition] else {
                changes.append(
                    LiveChange(old: nil, new: new, isChanged: true, newPosition: newPosition))
                continue
            }
            isHeld[oldPosition] = true
            let old = entries[oldPosition]
            let change = LiveChange(
                old: old, new: new,
                isChanged: old.object !== new.object
                    || isChanged(new.object, old.version, new.version, touches),
                oldPosition: oldPosition, newPosition: newPosition)
            if !change.staysInPlace || change.isChanged { changes.append(change) }
        }
        for (position, old) in entries.enumerated() where !isHeld[position] {
            changes.append(
                LiveChange(old: old, new: nil, isChanged: true, oldPosition: position))
        }
        if LiveUpdate.isReported(changes) { willChange() }
        let oldSections = sections
        entries = fresh
        held = Self.byObject(fresh)
        sections = makeSections()
        return LiveUpdate(changes, from: oldSections, to: sections, entries: entries)
    }
}
