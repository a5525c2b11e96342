import Synchronization

/// What was read and saved so far: by one context, by all of a coordinator, or by all who read through it.
public struct ContextCounters: Hashable, Sendable {
    /// Fetches and counts.
    public var fetches: UInt64 = 0
    /// Saves that went through.
    public var saves: UInt64 = 0
    /// Faults that were fired one by one.
    public var faults: UInt64 = 0
    /// Those of them that a row already read has served.
    public var cacheHits: UInt64 = 0
    /// Those of them that had to ask the store.
    public var cacheMisses: UInt64 = 0
    /// Rows that were read from the store.
    public var rows: UInt64 = 0
    /// Statements that were run to read.
    public var statements: UInt64 = 0
}

/// Counts for a context, and for its coordinator along with it.
final class ContextCounting: Sendable {
    private let parent: ContextCounting?
    private let fetches = Atomic<UInt64>(0)
    private let saves = Atomic<UInt64>(0)
    private let hits = Atomic<UInt64>(0)
    private let misses = Atomic<UInt64>(0)
    private let rows = Atomic<UInt64>(0)
    private let statements = Atomic<UInt64>(0)

    init(of parent: ContextCounting? = nil) { self.parent = parent }

    var counters: ContextCounters {
        func value(_ counter: borrowing Atomic<UInt64>) -> UInt64 {
            counter.load(ordering: .relaxed)
        }
        let (hits, misses) = (value(hits), value(misses))
        return ContextCounters(
            fetches: value(fetches), saves: value(saves), faults: hits + misses, cacheHits: hits,
            cacheMisses: misses, rows: value(rows), statements: value(statements))
    }

    /// Whether nobody counts fetches and rows but those who run the statements. Contexts count
    /// their own, because they know what their unsaved changes add.
    var isOfAll: Bool { parent == nil }

    func countFetch() {
        fetches.add(1, ordering: .relaxed)
        parent?.countFetch()
    }

    func countSave() {
        saves.add(1, ordering: .relaxed)
        parent?.countSave()
    }

    func countFault(isHit: Bool) {
        if isHit { hits.add(1, ordering: .relaxed) } else { misses.add(1, ordering: .relaxed) }
        parent?.countFault(isHit: isHit)
    }

    func countStatement() {
        statements.add(1, ordering: .relaxed)
        parent?.countStatement()
    }

    func countRows(_ count: Int) {
        rows.add(UInt64(count), ordering: .relaxed)
        parent?.countRows(count)
    }
}

extension PersistentStoreCoordinator {
    /// What all its contexts have fetched, read and saved so far. Usable from any thread.
    public var contextCounters: ContextCounters { instruments.contextCounting.counters }

    /// The same with all other reads through it, such as those of a node's HTTP interface. Of these
    /// the rows are those that fetches gave, and no saves are counted. Usable from any thread.
    public var counters: ContextCounters { instruments.counting.counters }
}
