public import Merge

/// A conflict that a commit opened or closed: what an application needs to say that there is one.
///
/// ``PersistentStoreCoordinator/conflict(_:)`` gives its sides.
public struct ConflictSummary: Hashable, Sendable {
    /// Its name in the journal after the commit.
    public let id: ConflictID
    /// Its name while it was open; nil if it never was, because it tells what a save's policy discarded.
    public let openID: ConflictID?
    /// The kind of disagreement.
    public let kind: ConflictKind
    /// Where it stands after the commit. An open one is unresolved if nobody has decided, and settled
    /// if a merge policy chose the side that readers see.
    public let state: ConflictState
    /// The property in dispute; nil where it is a row, its existence or a link.
    public let property: String?

    /// Whether it is open.
    public var isOpen: Bool { id.closedAt == nil }
    /// The object in dispute.
    public var object: ManagedObjectID {
        ManagedObjectID(entityName: id.entity, row: id.row)
    }

    init(_ conflict: Conflict, id: ConflictID, openID: ConflictID?) {
        self.id = id
        self.openID = openID
        kind = conflict.kind
        state = conflict.state
        property = conflict.property
    }
}

/// The conflicts that a group of commits opens and closes, for its notice and for the answers of its saves.
///
/// Empty, it costs nothing: only what is written to the journal is noted.
struct GroupConflicts {
    private enum Event {
        case opened(ConflictSummary)
        case ended(ConflictID)
    }

    /// The conflicts closed, in order.
    private(set) var closed: [ConflictSummary] = []
    /// What became of those that the group opened; so many as a notice can name, and a few more.
    private var events: [Event] = []
    /// Those of them that are open.
    private var open: [ConflictID: ConflictSummary] = [:]
    private var hasMore = false

    /// How far the group has come, for ``rewind(events:closed:)``.
    var lengths: (events: Int, closed: Int) { (events.count, closed.count) }

    /// Forgets what came after.
    mutating func rewind(events: Int, closed: Int) {
        self.closed.removeLast(self.closed.count - closed)
        if self.events.count == events { return }
        self.events.removeLast(self.events.count - events)
        open = [:]
        for event in self.events {
            switch event {
            case .opened(let conflict): open[conflict.id] = conflict
            case .ended(let id): open[id] = nil
            }
        }
    }

    /// Notes an entry that the group has written first, or brought up to date after that.
    mutating func noteOpened(_ conflict: Conflict) {
        let id = conflict.id.asOpen
        let summary = ConflictSummary(conflict, id: id, openID: id)
        if open[id] == summary { return }
        guard open[id] != nil || open.count < CommitNotice.Bounds.conflicts,
            events.count < 2 * CommitNotice.Bounds.conflicts
        else {
            hasMore = true
            return
        }
        open[id] = summary
        events.append(.opened(summary))
    }

    /// Notes that an open entry is gone.
    mutating func noteEnded(_ id: ConflictID) {
        if open.isEmpty || open.removeValue(forKey: id) == nil { return }
        events.append(.ended(id))
    }

    /// Notes a closed entry.
    mutating func noteClosed(_ conflict: Conflict, id: ConflictID, openID: ConflictID?) {
        closed.append(ConflictSummary(conflict, id: id, openID: openID))
    }

    /// What a notice names, in the order of the openings and closings.
    var told: (opened: [ConflictSummary], closed: [ConflictSummary], hasMore: Bool) {
        let most = CommitNotice.Bounds.conflicts
        var left = open
        let opened = events.compactMap { event in
            guard case .opened(let conflict) = event else { return nil as ConflictSummary? }
            return left.removeValue(forKey: conflict.id)
        }
        return (
            opened, closed.count > most ? Array(closed.prefix(most)) : closed,
            hasMore || closed.count > most
        )
    }
}
