import Merge
import Synchronization
import TestSupport
import Testing

@testable import Coordinator

/// The notices that an application heard of one node, with the conflicts in them.
final class HeardCommits: Sendable {
    private let heard = Mutex<[CommitNotice]>([])
    private let observation = Mutex<CommitObservation?>(nil)

    init(_ node: EngineNode) {
        let observation = node.coordinator.observeCommits { [weak self] notice in
            self?.heard.withLock { $0.append(notice) }
        }
        self.observation.withLock { $0 = observation }
    }

    /// The notices since it was asked last.
    func take() -> [CommitNotice] {
        heard.withLock { heard in
            defer { heard = [] }
            return heard
        }
    }

    /// The one notice since it was asked last.
    func only() throws -> CommitNotice {
        let heard = take()
        #expect(heard.count == 1)
        return try #require(heard.last)
    }
}

/// The conflicts that a commit notice names.
@Suite struct CommittedConflictsTests {
    private let a: EngineNode
    private let b: EngineNode
    private let heard: HeardCommits

    init() throws {
        (a, b) = try EngineNode.pair()
        heard = HeardCommits(a)
    }

    /// An object with a property that both nodes have given a value; the first node knows of its own.
    private func contested(_ entity: String, _ property: String) throws -> ManagedObjectID {
        let id = try a.insert(entity)
        try b.take(from: a)
        try a.update(id, [property: .string("one")])
        try b.update(id, [property: .string("two")])
        _ = heard.take()
        return id
    }

    @Test(
        "A merge opens a conflict, unresolved under an error policy and settled under others",
        arguments: [
            ("Note", "p", ConflictState.unresolved), ("Folder", "name", .settled),
            ("Tag", "name", .settled),
        ])
    func opened(entity: String, property: String, state: ConflictState) throws {
        let id = try contested(entity, property)
        try a.take(from: b)
        let notice = try heard.only()
        #expect(!notice.isLocal && notice.closedConflicts.isEmpty && !notice.hasMoreConflicts)
        let opened = try #require(notice.openedConflicts.first)
        #expect(notice.openedConflicts.count == 1)
        #expect(opened.object == id && opened.property == property)
        #expect(opened.kind == .update && opened.state == state)
        #expect(opened.isOpen && opened.openID == opened.id)
        let conflict = try #require(try a.coordinator.conflict(opened.id))
        #expect(conflict == (try a.onlyConflict()))
        #expect(conflict.openedAt == notice.token.generation)
    }

    @Test("Saves and merges without a conflict name none")
    func nothing() throws {
        let id = try a.insert("Note", ["p": .string("one")])
        try b.take(from: a)
        try b.update(id, ["p": .string("two")])
        try a.take(from: b)
        try a.delete(id)
        let notices = heard.take()
        #expect(notices.count == 3)
        for notice in notices {
            #expect(notice.openedConflicts.isEmpty && notice.closedConflicts.isEmpty)
            #expect(!notice.hasMoreConflicts)
        }
    }

    @Test("A third side of an open conflict opens none")
    func another() throws {
        let c = try EngineNode(a.model, node: 3)
        let id = try contested("Note", "p")
        try c.take(from: a)
        try c.update(id, ["p": .string("three")])
        try a.take(from: b)
        _ = heard.take()
        try a.take(from: c)
        let notice = try heard.only()
        #expect(notice.openedConflicts.isEmpty && notice.closedConflicts.isEmpty)
        #expect(try a.onlyConflict().id.subject == "p")
    }

    @Test("A resolution closes a conflict, and its undo closes nothing that is not open")
    func resolved() throws {
        _ = try contested("Note", "p")
        try a.take(from: b)
        let opened = try #require(try heard.only().openedConflicts.first)
        let result = try a.resolve(opened.id, .policy(.overwrite))
        let notice = try heard.only()
        #expect(notice.isLocal && notice.openedConflicts.isEmpty)
        let closed = try #require(notice.closedConflicts.first)
        #expect(notice.closedConflicts.map(\.id) == result.conflicts)
        #expect(closed.openID == opened.id && closed.id.closedAt == notice.token.generation)
        #expect(closed.state == .resolved && closed.property == "p" && !closed.isOpen)
        #expect(closed.object == opened.object)
        #expect(try a.coordinator.conflict(opened.id) == nil)
        #expect(try a.coordinator.conflict(closed.id)?.state == .resolved)

        try a.undo(closed.id)
        let undone = try heard.only()
        #expect(undone.openedConflicts.isEmpty && undone.closedConflicts.isEmpty)
    }

    @Test("An undo beside another node's write opens the conflict again")
    func reopened() throws {
        let id = try contested("Note", "p")
        try a.take(from: b)
        let opened = try #require(try heard.only().openedConflicts.first)
        try a.resolve(opened.id, .policy(.overwrite))
        let closed = try #require(try heard.only().closedConflicts.first)
        try b.take(from: a)
        try b.update(id, ["p": .string("later")])
        try a.undo(closed.id)
        _ = heard.take()
        try a.take(from: b)
        let notice = try heard.only()
        #expect(notice.openedConflicts.map(\.id) == [opened.id])
        #expect(notice.closedConflicts.isEmpty)
    }

    @Test("A save elsewhere that has seen all sides closes the conflict where it arrives")
    func closedByMerge() throws {
        let id = try contested("Tag", "name")
        try exchange(a, b)
        _ = heard.take()
        try b.update(id, ["name": .string("decided")])
        try a.take(from: b)
        let notice = try heard.only()
        #expect(!notice.isLocal && notice.openedConflicts.isEmpty)
        #expect(notice.closedConflicts.map(\.state) == [.resolved])
        #expect(notice.closedConflicts.map(\.object) == [id])
    }

    @Test("A merge that brings a conflict and its end names it as closed only")
    func passing() throws {
        let id = try contested("Note", "p")
        try b.take(from: a)
        try b.resolve(try b.onlyConflict().id, .policy(.overwrite))
        try a.take(from: b)
        let notice = try heard.only()
        #expect(notice.openedConflicts.isEmpty)
        #expect(notice.closedConflicts.map(\.object) == [id])
        #expect(try a.conflicts().isEmpty)
    }

    @Test("A conflict that a commit closes and opens again is in both lists")
    func closedAndOpened() throws {
        let c = try EngineNode(a.model, node: 3)
        let id = try contested("Note", "p")
        try a.take(from: b)
        let opened = try #require(try heard.only().openedConflicts.first)
        try c.take(from: a)
        try b.take(from: a)
        try b.resolve(opened.id, .policy(.overwrite))
        try c.take(from: b)
        // Both have seen the decision, and not each other.
        try b.update(id, ["p": .string("left")])
        try c.update(id, ["p": .string("right")])
        try b.take(from: c)
        try a.take(from: b)
        let notice = try heard.only()
        #expect(notice.closedConflicts.compactMap(\.openID) == [opened.id])
        #expect(notice.openedConflicts.map(\.id) == [opened.id])
        #expect(try a.onlyConflict().openedAt == notice.token.generation)
    }

    @Test("What stability settles is named as closed, with no transaction")
    func collected() throws {
        let id = try contested("Tag", "name")
        try exchange(a, b)
        _ = heard.take()
        _ = try a.coordinator.collect(stable: try a.vector)
        let notice = try heard.only()
        #expect(notice.closedConflicts.map(\.object) == [id])
        #expect(notice.closedConflicts.map(\.state) == [.settled])
        #expect(notice.updated.isEmpty && notice.openedConflicts.isEmpty)
    }

    @Test("What a save's policy discards is named as closed, and was never open")
    func discarded() throws {
        let id = try a.insert("Note", ["p": .string("old")])
        let version = try a.version(id)
        try a.update(id, ["p": .string("store")])
        _ = heard.take()
        let result = try a.update(
            id, ["p": .string("mine")], version: version, policy: .mergeByPropertyStoreTrump)
        let notice = try heard.only()
        #expect(notice.closedConflicts.map(\.id) == result.conflicts)
        #expect(notice.closedConflicts.map(\.kind) == [.save])
        #expect(notice.closedConflicts.map(\.openID) == [nil])
    }

    @Test("A transaction that is refused leaves no conflict in the notice")
    func refused() throws {
        var group = GroupConflicts()
        _ = try contested("Note", "p")
        try a.take(from: b)
        let conflict = try a.onlyConflict()
        var other = conflict
        other.id = ConflictID(entity: "Note", row: conflict.id.row, subject: "q")
        group.noteOpened(conflict)
        let before = group.lengths
        group.noteEnded(conflict.id)
        group.noteClosed(conflict, id: conflict.id, openID: conflict.id)
        group.noteOpened(other)
        #expect(group.told.opened.map(\.id) == [other.id])
        group.rewind(events: before.events, closed: before.closed)
        #expect(group.told.opened.map(\.id) == [conflict.id])
        #expect(group.told.closed.isEmpty && !group.told.hasMore)
    }

    @Test("A merge of very many conflicts names the first, and says that there are more")
    func many() throws {
        let count = CommitNotice.Bounds.conflicts + 20
        var ids: [ManagedObjectID] = []
        let result = try a.save(
            SaveRequest(
                operations: try (1...count).map { try a.insertion("Tag", Int64(-$0)) },
                mergePolicy: .error))
        ids = result.insertedRows.map { ManagedObjectID(entityName: "Tag", row: $0.row) }
        try b.take(from: a)
        for (node, name) in [(a, "one"), (b, "two")] {
            try node.save(
                SaveRequest(
                    operations: try ids.map { try node.change($0, ["name": .string(name)]) },
                    mergePolicy: .error))
        }
        _ = heard.take()
        try a.take(from: b)
        let opening = try heard.only()
        #expect(opening.openedConflicts.count == CommitNotice.Bounds.conflicts)
        #expect(opening.hasMoreConflicts)
        try a.save(
            SaveRequest(
                operations: try ids.map { try a.change($0, ["name": .string("three")]) },
                mergePolicy: .error))
        let closing = try heard.only()
        #expect(closing.closedConflicts.count == CommitNotice.Bounds.conflicts)
        #expect(closing.hasMoreConflicts && closing.openedConflicts.isEmpty)
    }

    @Test("An open conflict that a write of another model leaves unresolved is named again")
    func statesThatChange() throws {
        func model(_ policy: MergePolicy) throws -> ManagedObjectModel {
            try ManagedObjectModel(entities: [
                EntityDescription("Offer", mergePolicy: policy, attributes: [.init("p", .string)])
            ])
        }
        let (trump, error) = (try model(.mergeByPropertyObjectTrump), try model(.error))
        let nodes = try (1...3).map { try EngineNode(trump, node: $0) }
        let id = try nodes[0].insert("Offer", ["p": .string("0")])
        for node in nodes.dropFirst() { try node.take(from: nodes[0]) }
        try nodes[0].update(id, ["p": .string("1")])
        try nodes[1].update(id, ["p": .string("2")])
        try nodes[0].take(from: nodes[1])
        #expect(try nodes[0].onlyConflict().state == .settled)
        for node in [nodes[0], nodes[2]] { try node.migrate(to: error) }
        try nodes[2].update(id, ["p": .string("3")])
        let heard = HeardCommits(nodes[0])
        try nodes[0].take(from: nodes[2])
        let conflict = try nodes[0].onlyConflict()
        #expect(conflict.state == .unresolved)
        #expect(heard.take().flatMap(\.openedConflicts).map(\.state) == [.unresolved])
    }

    @Test("Notices tell the difference of the journal before and after", arguments: 0..<6)
    func histories(_ block: Int) throws {
        var mirrors: [JournalMirror] = []
        for seed in block * 8..<(block + 1) * 8 {
            var cluster = try RandomCluster(seed: UInt64(seed) + 5_000, a.model)
            let place = mirrors.count
            mirrors += cluster.nodes.map { JournalMirror($0) }
            for step in 1...60 {
                try cluster.run(steps: 1)
                for index in mirrors[place...].indices { try mirrors[index].follow(seed) }
                guard step % 20 == 0 else { continue }
                try cluster.settle()
                for index in mirrors[place...].indices {
                    try mirrors[index].follow(seed)
                    let node = mirrors[index].node
                    _ = try node.coordinator.collect(stable: try node.vector, limit: 20)
                    try mirrors[index].follow(seed)
                }
            }
        }
        // All of it has happened, or this has tested nothing.
        #expect(
            mirrors.contains { $0.count.opened > 0 } && mirrors.contains { $0.count.closed > 0 })
        #expect(mirrors.contains { $0.count.settled > 0 })
    }

    /// The journal as an application keeps it that only hears notices.
    private struct JournalMirror {
        let node: EngineNode
        private let heard: HeardCommits
        private var open = Set<ConflictID>()
        private var closed = Set<ConflictID>()
        private(set) var count = (opened: 0, closed: 0, settled: 0)

        init(_ node: EngineNode) {
            self.node = node
            heard = HeardCommits(node)
        }

        /// Takes the notices, and expects that the journal is as they tell, each by itself as well.
        mutating func follow(_ seed: Int) throws {
            let notices = heard.take()
            let (openBefore, closedBefore) = (open, closed)
            for notice in notices {
                #expect(!notice.hasMoreConflicts)
                open.subtract(notice.closedConflicts.compactMap(\.openID))
                closed.formUnion(notice.closedConflicts.map(\.id))
                for conflict in notice.openedConflicts {
                    #expect(open.insert(conflict.id).inserted, "seed \(seed): \(conflict.id)")
                }
                count.opened += notice.openedConflicts.count
                count.closed += notice.closedConflicts.count
                count.settled += notice.transactions.isEmpty ? notice.closedConflicts.count : 0
            }
            let entries = try page(isOpen: true)
            let openNow = Set(entries.map(\.id))
            let closedNow = Set(try page(isOpen: false).map(\.id))
            #expect(open == openNow, "seed \(seed)")
            #expect(closed == closedNow, "seed \(seed)")
            guard let notice = notices.first, notices.count == 1 else { return }
            let again = Set(notice.closedConflicts.compactMap(\.openID)).intersection(openNow)
            #expect(
                Set(notice.openedConflicts.map(\.id))
                    == openNow.subtracting(openBefore).union(again), "seed \(seed)")
            #expect(
                Set(notice.closedConflicts.map(\.id)) == closedNow.subtracting(closedBefore),
                "seed \(seed)")
            for conflict in notice.openedConflicts {
                let entry = try #require(entries.first { $0.id == conflict.id })
                #expect(ConflictSummary(entry, id: entry.id, openID: entry.id) == conflict)
                #expect(entry.openedAt == notice.token.generation)
            }
        }

        /// All entries, page by page.
        private func page(isOpen: Bool) throws -> [Conflict] {
            var query = ConflictQuery(isOpen: isOpen, limit: 7)
            var found: [Conflict] = []
            repeat {
                let page = try node.coordinator.conflicts(query)
                found += page.conflicts
                query.after = page.next
            } while query.after != nil
            return found
        }
    }
}
