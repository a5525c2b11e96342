import Merge
import Synchronization
import TestSupport
import Testing

@testable import Coordinator

@Suite("Commits as a sequence") struct CommitSequenceTests {
    private let a: EngineNode
    private let b: EngineNode

    init() throws { (a, b) = try EngineNode.pair() }

    /// The commits of the first node, with room for so many that wait for a reader.
    private func commits(limit: Int) -> CommitSequence {
        CommitSequence(observers: a.coordinator.observers, limit: limit)
    }

    private func insert(_ count: Int) throws {
        for _ in 0..<count { try a.insert("Tag") }
    }

    @Test("It has saves made here and merges, in order, without their transactions")
    func order() async throws {
        try a.insert("Tag")
        var commits = a.coordinator.commits.makeAsyncIterator()
        let here = try a.insert("Tag", ["name": .string("here")])
        let there = try b.insert("Tag", ["name": .string("there")])
        try a.take(from: b)
        try a.delete(here)
        let saved = try #require(try await commits.next())
        #expect(saved.isLocal && saved.inserted == [here] && saved.missed == 0)
        let merged = try #require(try await commits.next())
        #expect(!merged.isLocal && merged.value.inserted == [there])
        #expect(merged.token.generation == saved.token.generation + 1)
        #expect(merged.value.transactions.isEmpty)
        #expect(try await commits.next()?.deleted == [here])
    }

    @Test("A reader that waits gets a commit that is made meanwhile")
    func waiting() async throws {
        let commits = a.coordinator.commits
        let (ready, continuation) = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            var iterator = commits.makeAsyncIterator()
            continuation.yield()
            return try await iterator.next()?.inserted
        }
        for await _ in ready { break }
        let id = try a.insert("Tag")
        #expect(try await task.value == [id])
    }

    @Test("A reader that is too slow holds no saver back, and learns how many commits it missed")
    func slow() async throws {
        var commits = commits(limit: 3).makeAsyncIterator()
        try insert(10)
        let newest = try a.coordinator.currentToken.generation
        var read: [Observed<CommitNotice>] = []
        for _ in 0..<3 { read.append(try #require(try await commits.next())) }
        #expect(read.map(\.missed) == [7, 0, 0])
        #expect(read.map(\.token.generation) == [newest - 2, newest - 1, newest])
        try insert(1)
        #expect(try await commits.next()?.missed == 0)
        try insert(4)
        #expect(try await commits.next()?.missed == 1)
    }

    @Test("Commits of many objects are dropped earlier, and one alone never is")
    func large() async {
        let buffer = ObservationBuffer<Int>(limit: 10, sizeLimit: 100) { $0 }
        func next() async -> [Int] {
            guard case .success(let element?) = await buffer.next() else { return [] }
            return [element.value, element.missed]
        }
        for size in [60, 30, 20, 500] { buffer.add(size) }
        #expect(await next() == [500, 3])
        for size in [60, 30, 20] { buffer.add(size) }
        #expect(await next() == [30, 1])
        #expect(await next() == [20, 0])
        buffer.add(40)
        buffer.end()
        buffer.add(50)
        #expect(await next() == [40, 0])
        #expect(await next() == [])
    }

    @Test("Iterations are independent, and each begins when its iterator is made")
    func independent() async throws {
        let commits = a.coordinator.commits
        var first = commits.makeAsyncIterator()
        let one = try a.insert("Tag")
        var second = commits.makeAsyncIterator()
        let two = try a.insert("Tag")
        #expect(try await first.next()?.inserted == [one])
        #expect(try await second.next()?.inserted == [two])
        #expect(try await first.next()?.inserted == [two])
    }

    @Test("It ends when its task is cancelled, and nobody observes any more")
    func cancelled() async throws {
        let before = a.coordinator.observers.count
        let commits = a.coordinator.commits
        let (ready, continuation) = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            var count = 0
            for try await _ in commits {
                count += 1
                continuation.yield()
            }
            return count
        }
        while a.coordinator.observers.count == before { await Task.yield() }
        try insert(1)
        for await _ in ready { break }
        task.cancel()
        #expect(try await task.value == 1)
        #expect(a.coordinator.observers.count == before)
    }

    @Test("Who drops the iterator observes no more")
    func dropped() async throws {
        let before = a.coordinator.observers.count
        var commits: CommitSequence.AsyncIterator? = a.coordinator.commits.makeAsyncIterator()
        #expect(a.coordinator.observers.count == before + 1)
        try insert(1)
        _ = try await commits?.next()
        commits = nil
        #expect(a.coordinator.observers.count == before)
    }

    @Test("A closed coordinator ends it behind the commits that wait")
    func closed() async throws {
        let coordinator = a.coordinator
        var commits = coordinator.commits.makeAsyncIterator()
        let id = try a.insert("Tag")
        a.close()
        #expect(try await commits.next()?.inserted == [id])
        #expect(try await commits.next() == nil)
        #expect(try await commits.next() == nil)
        for try await _ in coordinator.commits { Issue.record("There was a commit.") }
    }

    @Test("It ends when nobody keeps the coordinator alive, and keeps none itself")
    func released() async throws {
        let commits: CommitSequence
        var iterator: CommitSequence.AsyncIterator
        do {
            let short = try TestStore()
            commits = short.coordinator.commits
            iterator = commits.makeAsyncIterator()
            try short.insert("Item")
        }
        #expect(try await iterator.next() != nil)
        #expect(try await iterator.next() == nil)
        for try await _ in commits { Issue.record("There was a commit.") }
    }

    @Test("It throws what stopped the coordinator, also where it begins afterwards")
    func failed() async throws {
        let coordinator = a.coordinator
        var commits = coordinator.commits.makeAsyncIterator()
        let id = try a.insert("Tag")
        func fail() throws {
            try coordinator.maintainBlocking { _ in
                throw CoordinatorError(.inputOutput, "The disk fails.")
            }
        }
        #expect(throws: CoordinatorError.self) { try fail() }
        #expect(try await commits.next()?.inserted == [id])
        var late = coordinator.commits.makeAsyncIterator()
        for _ in 0..<2 {
            let error = await #expect(throws: CoordinatorError.self) { try await commits.next() }
            #expect(error?.code == .inputOutput)
            #expect(try await commits.next() == nil)
            swap(&commits, &late)
        }
    }

    @Test("Readers that come, go and are slow lose nothing that they are not told of")
    func many() async throws {
        let commits = commits(limit: 4)
        let coordinator = a.coordinator
        let tag = try a.entity("Tag")
        let before = coordinator.observers.count
        let last = 60
        let start = try coordinator.currentToken.generation
        let readers = (0..<8).map { reader in
            let iterator = commits.makeAsyncIterator()
            return Task {
                var iterator = iterator
                var told = 0
                while let commit = try await iterator.next() {
                    told += 1 + commit.missed
                    #expect(commit.token.generation == start + UInt64(told))
                    if told == last || reader == 7 { return told }
                    for _ in 0..<reader { await Task.yield() }
                }
                return told
            }
        }
        readers[6].cancel()
        for _ in 0..<last {
            let insert = SaveOperation(kind: .insert, entity: tag, row: RowID(-1))
            _ = try await coordinator.save(
                SaveRequest(operations: [insert], mergePolicy: .error))
            await Task.yield()
        }
        for (reader, task) in readers.enumerated() {
            let told = try await task.value
            if reader < 6 { #expect(told == last) } else { #expect(told <= last) }
        }
        #expect(coordinator.observers.count == before)
    }

    /// What docs/for-core-data-developers.md has an application do.
    private actor ConflictList {
        private(set) var shown: [ConflictID: ManagedObjectID] = [:]
        private let told: AsyncStream<[ConflictID]>.Continuation

        init(_ told: AsyncStream<[ConflictID]>.Continuation) { self.told = told }

        func follow(_ coordinator: PersistentStoreCoordinator) async throws {
            var commits = coordinator.commits.makeAsyncIterator()
            try reload(from: coordinator)
            while let commit = try await commits.next() {
                if commit.missed > 0 || commit.hasMoreConflicts {
                    try reload(from: coordinator)
                    continue
                }
                for conflict in commit.closedConflicts {
                    if let id = conflict.openID { shown[id] = nil }
                }
                for conflict in commit.openedConflicts where conflict.state == .unresolved {
                    shown[conflict.id] = conflict.object
                }
                told.yield(Array(shown.keys))
            }
        }

        private func reload(from coordinator: PersistentStoreCoordinator) throws {
            let page = try coordinator.conflicts(ConflictQuery(state: .unresolved, limit: 1_000))
            shown = Dictionary(uniqueKeysWithValues: page.conflicts.map { ($0.id, $0.object) })
            told.yield(Array(shown.keys))
        }
    }

    @Test("An application shows conflicts as they open, until somebody resolves them")
    func application() async throws {
        let (told, continuation) = AsyncStream.makeStream(of: [ConflictID].self)
        var views = told.makeAsyncIterator()
        let list = ConflictList(continuation)
        let first = try a.insert("Note")
        let second = try a.insert("Note")
        try b.take(from: a)
        for id in [first, second] {
            try a.update(id, ["p": .string("mine"), "r": .string("mine")])
            try b.update(id, ["p": .string("theirs"), "r": .string("theirs")])
            if id == first { try a.take(from: b) }
        }
        let coordinator = a.coordinator
        let task = Task { try await list.follow(coordinator) }
        let known = try #require(await views.next())
        #expect(known.map(\.row) == [first.row] && known.map(\.subject) == ["p"])
        try a.take(from: b)
        let opened = try #require(await views.next())
        #expect(Set(opened.map(\.row)) == [first.row, second.row])
        #expect(await list.shown.values.contains(second))
        for id in opened {
            func resolve() throws { try a.resolve(id, .policy(.overwrite)) }
            try resolve()
        }
        #expect(await views.next()?.count == 1)
        #expect(await views.next()?.isEmpty == true)
        a.close()
        try await task.value
    }
}
