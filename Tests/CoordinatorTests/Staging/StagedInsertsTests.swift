import Coordinator
import Merge
import Synchronization
import Testing

/// Transactions of very many inserts, which are written part by part while others are saved.
@Suite("Staged transactions")
struct StagedInsertsTests {
    private static let objects = 50
    /// What stands in the rows of a staged transaction.
    private static let stagedVersion = Int64(1) << 62 | 1

    private let model: ManagedObjectModel
    private let node: EngineNode
    private let other: EngineNode

    init() throws {
        model = try EngineModel.everything()
        node = try Self.node(model, 1)
        other = try EngineNode(model, node: 2)
    }

    /// A node that stages what has ten objects, three at a time.
    private static func node(
        _ model: ManagedObjectModel, _ number: Int, worksAlone: Bool = true
    ) throws -> EngineNode {
        let node = try EngineNode(model, node: number)
        node.close()
        node.configure = {
            $0.stagedOperations = 10
            $0.stagedAtOnce = 3
            $0.worksAlone = worksAlone
        }
        try node.open()
        return node
    }

    private func insertions(
        _ node: EngineNode, count: Int = objects, saveID: String? = nil
    ) throws -> SaveRequest {
        SaveRequest(
            operations: try (1...count).map {
                try node.insertion("Tag", -Int64($0), ["name": .string("large \($0)")])
            }, saveID: saveID)
    }

    private func count(_ node: EngineNode, _ predicate: String = "name BEGINSWITH 'large'") throws
        -> Int
    {
        var request = FetchRequest("Tag")
        request.predicate = try Predicate(predicate)
        return try node.coordinator.read { try $0.count(request) }
    }

    @Test("What is staged is saved as if it were small: answer, rows, log, digest, notice")
    func saved() throws {
        let result = try node.coordinator.save(try insertions(node))
        #expect(node.coordinator.stagedTransactions == 1)
        #expect(result.insertedRows.count == Self.objects)
        #expect(Set(result.rows.map(\.objectID.row)).count == Self.objects)
        let dot = try #require(result.transaction)
        #expect(try count(node) == Self.objects)
        for row in result.rows {
            #expect(try node.row(row.objectID)?.version == RowVersion(dots: [dot]))
        }
        #expect(node.transactions.map(\.dot) == [dot])
        #expect(try node.coordinator.verify().isOK)
        // In one piece at another node it is the same.
        try other.take(from: node)
        #expect(try other.coordinator.currentDigest == node.coordinator.currentDigest)
        #expect(other.coordinator.stagedTransactions == 0)
        node.close()
        #expect(
            try node.look("SELECT count(*) FROM Tag WHERE _version = \(Self.stagedVersion)") == 0)
        #expect(try node.look("SELECT count(*) FROM _staged") == 0)
    }

    @Test("A foreign transaction is staged likewise")
    func applied() throws {
        _ = try other.coordinator.save(try insertions(other))
        try node.take(from: other)
        #expect(node.coordinator.stagedTransactions == 1)
        #expect(try count(node) == Self.objects)
        #expect(try other.coordinator.currentDigest == node.coordinator.currentDigest)
        #expect(try node.coordinator.verify().isOK)
        let id = try #require(
            try node.coordinator.read { try $0.objectIDs(FetchRequest("Tag")) }.first)
        try node.update(id, ["color": .string("red")])
        try other.take(from: node)
        #expect(try other.value(id, "color") == .string("red"))
        #expect(try other.coordinator.currentDigest == node.coordinator.currentDigest)
    }

    @Test("Others come between its parts, and nobody sees a part of it")
    func between() async throws {
        let small = try (0..<400).map { number in
            try other.insert("Tag", ["name": .string("small \(number)")])
        }
        let log = other.transactions
        #expect(log.count == small.count)
        node.close()
        node.configure = {
            $0.stagedOperations = 10
            $0.stagedAtOnce = 3
        }
        try node.open()
        let request = try insertions(node)
        let coordinator = node.coordinator
        let chain = Meanwhile(coordinator, log)
        chain.start()
        let before = chain.counts.count
        let saved = try await coordinator.save(request)
        let after = chain.counts.count
        await chain.end()
        let dot = try #require(saved.transaction)
        // 17 parts are checked and 17 written, and one of the others is applied between each two.
        let actor = try #require(log.first?.dot.actor)
        #expect(after - before >= 30)
        #expect(saved.seen[actor] > 0)
        #expect(chain.counts.contains(0))
        #expect(Set(chain.counts).subtracting([0, Self.objects]).isEmpty)
        #expect(chain.areSound)
        #expect(try node.vector.contains(dot))
        #expect(try node.coordinator.verify().isOK)
    }

    @Test("What is not valid is refused whole, and leaves nothing")
    func invalid() throws {
        var request = try insertions(node)
        request.operations[40].values.append((0, .integer(5)))
        #expect(
            try node.code { _ = try node.coordinator.save(request) } == .validationFailed)
        #expect(try count(node, "TRUEPREDICATE") == 0)
        #expect(node.coordinator.stagedTransactions == 0)
        _ = try node.insert("Tag", ["name": .string("after")])
        #expect(try node.coordinator.verify().isOK)
        node.close()
        #expect(try node.look("SELECT count(*) FROM Tag") == 1)
        #expect(try node.look("SELECT count(*) FROM _staged") == 0)
    }

    @Test("A save ID holds for two that wait to be staged, and for a small one that comes between")
    func saveID() throws {
        let large = try insertions(node, saveID: "import")
        var small = large
        small.operations = Array(large.operations.prefix(1))
        let results = try node.coordinator.saveTogether([large, large, small]).map { try $0.get() }
        #expect(Set(results.map(\.transaction)).count == 1)
        // The small one came first, for it was not staged; nothing is left of the others.
        #expect(try count(node) == 1)
        #expect(try node.coordinator.verify().isOK)
        node.close()
        #expect(try node.look("SELECT count(*) FROM Tag") == 1)
    }

    /// Notes in folders: one that is there, one of the save that comes last, and none.
    private func notes(_ node: EngineNode, in folder: RowID, count: Int = 20) throws -> SaveRequest
    {
        SaveRequest(
            operations: try (1...count).map { number in
                let target = [folder, RowID(-Int64(count) - 1), nil][number % 3]
                return try node.insertion(
                    "Note", -Int64(number), target.map { ["folder": .reference($0)] } ?? [:])
            } + [try node.insertion("Folder", -Int64(count) - 1, ["name": .string("last")])])
    }

    @Test(
        "References are staged too, to rows of the transaction and to others",
        arguments: [false, true])
    func references(isForeign: Bool) throws {
        let folder = try node.insert("Folder")
        try other.take(from: node)
        let author = isForeign ? other : node
        let result = try author.coordinator.save(try notes(author, in: folder.row))
        let last = try #require(result.insertedRows.last).row
        try node.take(from: other)
        try other.take(from: node)
        #expect(node.coordinator.stagedTransactions == 1)
        #expect(other.coordinator.stagedTransactions == 0)
        #expect(try node.members(folder, "notes").count == 6)
        #expect(
            try node.members(ManagedObjectID(entityName: "Folder", row: last), "notes").count == 7)
        #expect(try other.coordinator.currentDigest == node.coordinator.currentDigest)
        #expect(try node.coordinator.verify().isOK)
        // What was staged is released like anything else.
        try node.delete(folder)
        try other.take(from: node)
        #expect(try other.coordinator.currentDigest == node.coordinator.currentDigest)
        #expect(try node.coordinator.verify().isOK)
    }

    @Test(
        "A target that is deleted meanwhile: nothing of it is left, and in one piece it is refused")
    func lostTarget() throws {
        let folder = try node.insert("Folder")
        node.close()
        node.configure = {
            $0.stagedOperations = 10
            $0.stagedAtOnce = 1
        }
        try node.open()
        let request = try notes(node, in: folder.row)
        let coordinator = node.coordinator
        var error: CoordinatorError?
        do {
            _ = try BetweenParts.run(coordinator) {
                try coordinator.save(request)
            } meanwhile: {
                try node.delete(folder)
            }
        } catch let failure as CoordinatorError { error = failure }
        #expect(error?.code == .validationFailed)
        #expect(coordinator.stagedTransactions == 0)
        #expect(try coordinator.read { try $0.count(FetchRequest("Note")) } == 0)
        #expect(try coordinator.verify().isOK)
        node.close()
        #expect(try node.look("SELECT count(*) FROM Note") == 0)
        #expect(try node.look("SELECT count(*) FROM _staged") == 0)
    }

    @Test("The same of another node's: in one piece its references are kept, and show nothing")
    func lostTargetOfForeign() throws {
        let folder = try node.insert("Folder")
        try other.take(from: node)
        _ = try other.coordinator.save(try notes(other, in: folder.row))
        let log = Array(other.transactions.suffix(1))
        node.close()
        node.configure = {
            $0.stagedOperations = 10
            $0.stagedAtOnce = 1
        }
        try node.open()
        let coordinator = node.coordinator
        let result = try BetweenParts.run(coordinator) {
            try coordinator.apply(log)
        } meanwhile: {
            try node.delete(folder)
        }
        #expect(result.rejected.isEmpty)
        #expect(coordinator.stagedTransactions == 0)
        #expect(try coordinator.read { try $0.count(FetchRequest("Note")) } == 20)
        #expect(try coordinator.verify().isOK)
        try other.take(from: node)
        #expect(try other.coordinator.currentDigest == coordinator.currentDigest)
        node.close()
        #expect(try node.look("SELECT count(*) FROM _staged") == 0)
    }

    @Test("What cannot be staged from its first part on leaves nothing that hinders the next")
    func givenUpAtOnce() throws {
        let folder = try node.insert("Folder")
        try other.take(from: node)
        _ = try other.coordinator.save(try notes(other, in: folder.row))
        _ = try other.coordinator.save(try notes(other, in: RowID(-21)))
        let log = Array(other.transactions.suffix(2))
        try node.delete(folder)
        #expect(try node.coordinator.apply([log[0]]).rejected.isEmpty)
        #expect(node.coordinator.stagedTransactions == 0)
        #expect(try node.coordinator.apply([log[1]]).rejected.isEmpty)
        #expect(node.coordinator.stagedTransactions == 1)
        try other.take(from: node)
        #expect(try other.coordinator.currentDigest == node.coordinator.currentDigest)
        #expect(try node.coordinator.verify().isOK)
    }

    // MARK: What a process that ended has left

    private func leaveHidden(_ node: EngineNode, entity: String = "Tag") throws {
        node.close()
        try node.tamper(
            """
            INSERT INTO _staged (id) VALUES (1);
            INSERT INTO Tag (_id, _version, _timestamp, name)
                VALUES (77, \(Self.stagedVersion), 0, 'large hidden'),
                    (78, \(Self.stagedVersion), 0, 'large hidden');
            """)
    }

    @Test("Rows that were never shown are removed by the next opening")
    func removed() throws {
        let kept = try node.insert("Tag", ["name": .string("kept")])
        try leaveHidden(node)
        try node.open()
        #expect(node.coordinator.hasFinishedStaging)
        #expect(try count(node, "TRUEPREDICATE") == 1)
        #expect(try node.value(kept, "name") == .string("kept"))
        #expect(try node.coordinator.verify().isOK)
        _ = try node.coordinator.save(try insertions(node))
        #expect(node.coordinator.stagedTransactions == 1)
        node.close()
        try node.open()
        #expect(!node.coordinator.hasFinishedStaging)
    }

    @Test("Rows that were shown get their version by the next opening")
    func folded() throws {
        let result = try node.coordinator.save(try insertions(node))
        let (digest, dot) = (try node.coordinator.currentDigest, try #require(result.transaction))
        node.close()
        try node.tamper(
            """
            INSERT INTO _staged (id, dot, timestamp)
                SELECT 1, _version, _timestamp FROM Tag LIMIT 1;
            UPDATE Tag SET _version = \(Self.stagedVersion), _timestamp = 0 WHERE _id % 2 = 0;
            """)
        // A reader that cannot finish it reads it as it is.
        let reader = try PersistentStoreCoordinator(readingStoreAt: node.path)
        #expect(try reader.verify().isOK)
        reader.close()
        try node.open()
        #expect(node.coordinator.hasFinishedStaging)
        #expect(try node.coordinator.currentDigest == digest)
        #expect(try node.coordinator.verify().isOK)
        let row = try #require(result.rows.first)
        #expect(try node.row(row.objectID)?.version == RowVersion(dots: [dot]))
        node.close()
        #expect(
            try node.look("SELECT count(*) FROM Tag WHERE _version = \(Self.stagedVersion)") == 0)
    }

    @Test("No way of reading finds hidden rows")
    func hidden() throws {
        let folder = try node.insert("Folder", ["name": .string("f")])
        let note = try node.insert("Note", ["folder": .reference(folder.row)])
        let second = try node.insert("Note")
        let tag = try node.insert(
            "Tag", ["name": .string("shown")],
            [.init(name: "notes", kind: .add, members: [note.row])])
        try leaveHidden(node)
        try node.tamper(
            "INSERT INTO \"Note.tags\" (source, target, _alive, _siblings) "
                + "VALUES (\(note.row.rawValue), 77, 1, x'80')")
        try node.tamper(
            "INSERT INTO \"Note.tags\" (source, target, _alive, _siblings) VALUES "
                + "(\(second.row.rawValue), \(tag.row.rawValue), 2, x'831b400000000000000100f5')")
        let reader = try PersistentStoreCoordinator(readingStoreAt: node.path)
        defer { reader.close() }
        func request(_ entity: String, _ predicate: String) throws -> FetchRequest {
            var request = FetchRequest(entity)
            request.predicate = try Predicate(predicate)
            return request
        }
        try reader.read { read in
            let entity = try #require(reader.model.entity(named: "Tag"))
            #expect(try read.count(try request("Tag", "TRUEPREDICATE")) == 1)
            #expect(try read.fetch(FetchRequest("Tag")).map(\.objectID) == [tag])
            #expect(try read.objectIDs(FetchRequest("Tag")) == [tag])
            #expect(try read.row(entity, RowID(77)) == nil)
            #expect(try read.rows(entity, [RowID(77), tag.row]).map(\.objectID) == [tag])
            #expect(try read.registers(entity, RowID(78)) == nil)
            #expect(
                try read.objectIDs(try request("Note", "ANY tags.name == 'large hidden'")) == [])
            #expect(try read.objectIDs(try request("Note", "tags.@count == 1")) == [note])
            let relationship = try #require(
                reader.model.entity(named: "Note")?.relationship(named: "tags"))
            let owner = try #require(reader.model.entity(named: "Note"))
            #expect(
                try read.members(of: relationship, entity: owner, row: note.row) == [tag])
            #expect(
                try read.members(of: relationship, entity: owner, row: second.row) == [])
            #expect(
                try read.objectIDs(try request("Note", "ANY tags.name == 'shown'")) == [note])
            #expect(try read.objectIDs(try request("Tag", "notes.@count == 1")) == [tag])
            var dictionaries = FetchRequest("Tag")
            dictionaries.resultType = .dictionary
            dictionaries.propertiesToFetch = [.keyPath("name")]
            #expect(try read.dictionaries(dictionaries).count == 1)
        }
    }

    @Test("A store of an older layout gets its digest anew")
    func upgraded() throws {
        let id = try node.insert("Tag", ["name": .string("old")])
        let digest = try node.coordinator.currentDigest
        node.close()
        try node.tamper(
            "DROP TABLE _staged; PRAGMA user_version = 6; UPDATE _state SET digestLow = 5")
        try node.open()
        #expect(try node.coordinator.currentDigest == digest)
        #expect(try node.coordinator.verify().isOK)
        #expect(try node.value(id, "name") == .string("old"))
        node.close()
        #expect(try node.look("PRAGMA user_version") == 15)
    }
}

/// Foreign transactions, applied one after the other on the writer's queue, each as soon as the
/// last is: so one of them waits whenever the writer looks for work.
private final class Meanwhile: Sendable {
    private struct State {
        var next = 0
        var counts: [Int] = []
        var areSound = true
        var isEnding = false
        var isOver = false
    }

    private let coordinator: PersistentStoreCoordinator
    private let log: [EncodedTransaction]
    private let state = Mutex(State())

    init(_ coordinator: PersistentStoreCoordinator, _ log: [EncodedTransaction]) {
        self.coordinator = coordinator
        self.log = log
    }

    /// How many objects of the large transaction were seen each time.
    var counts: [Int] { state.withLock { $0.counts } }

    /// Whether every state that was looked at is what its digest says.
    var areSound: Bool { state.withLock { $0.areSound } }

    func start() {
        let next = state.withLock { state -> Int in
            defer { state.next += 1 }
            return state.next
        }
        guard !state.withLock({ $0.isEnding }) else { return state.withLock { $0.isOver = true } }
        // After the last of them there is still somebody who waits.
        guard next < log.count else {
            return coordinator.makeDurable { [self] _ in
                look(next)
                start()
            }
        }
        coordinator.apply([log[next]]) { [self] _ in
            look(next)
            start()
        }
    }

    private func look(_ number: Int) {
        var request = FetchRequest("Tag")
        request.predicate = try? Predicate("name BEGINSWITH 'large'")
        let count = try? coordinator.read { try $0.count(request) }
        let isSound = number % 10 != 0 || (try? coordinator.verify().isOK) ?? false
        state.withLock { state in
            state.counts.append(count ?? -1)
            state.areSound = state.areSound && isSound
        }
    }

    func end() async {
        state.withLock { $0.isEnding = true }
        while !state.withLock({ $0.isOver }) { await Task.yield() }
    }
}
