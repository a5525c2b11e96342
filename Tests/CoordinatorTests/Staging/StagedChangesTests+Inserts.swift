import Merge
import Testing

@testable import Coordinator

/// Inserts together with updates and deletes: each is staged as its kind is, and all shown at once.
extension StagedChangesTests {
    private static let inserts = 24

    /// All that there is gets a new title, but for two objects that go, and new ones with it come in
    /// between.
    private func mixed(_ node: EngineNode, saveID: String? = nil) throws -> SaveRequest {
        var request = try updates(node, saveID: saveID)
        request.operations[7] = try node.deletion(ids[7])
        request.operations[9] = try node.deletion(ids[9])
        let folder = try node.folder()
        for number in 1...Int64(Self.inserts) {
            var values: [String: PropertyValue] = ["title": .string("after")]
            let entity = ["Item", "Sheet", "Plan"][Int(number % 3)]
            if entity == "Item" { values["folder"] = .reference(folder.row) }
            if entity == "Sheet" { values["code"] = .string("new \(number)") }
            request.operations.insert(
                try node.insertion(entity, -number, values), at: Int(number))
        }
        return request
    }

    private var mixedCount: Int { Self.count - 2 + Self.inserts }

    @Test("Inserts are staged with them: answer, rows, log, digest, and the other node's")
    func withInserts() throws {
        let third = try EngineNode(model, node: 3)
        try third.reopenStaging()
        try third.take(from: node)
        let request = try mixed(node, saveID: "mixed")
        let result = try node.coordinator.save(request)
        #expect(node.coordinator.stagedTransactions == 1)
        let dot = try #require(result.transaction)
        #expect(
            result.insertedRows.map(\.temporary) == (1...Int64(Self.inserts)).map { RowID(-$0) })
        #expect(Set(result.rows.map(\.objectID.row)).count == Self.count + Self.inserts)
        for row in result.rows {
            let isDeleted = row.objectID == ids[7] || row.objectID == ids[9]
            #expect(row.version == (isDeleted ? nil : RowVersion(dots: [dot])))
            #expect(try node.row(row.objectID)?.version == row.version)
        }
        #expect(try titled(node) == mixedCount)
        #expect(node.transactions.last?.transaction.changes.count == Self.count + Self.inserts)
        #expect(try node.coordinator.save(request).transaction == dot)
        try node.expectNothingStaged()
        // In one piece at the other node it is the same, and staged at a third one as well.
        try checkEqual()
        #expect(other.coordinator.stagedTransactions == 0)
        try third.take(from: node)
        #expect(third.coordinator.stagedTransactions == 1)
        #expect(try third.coordinator.currentDigest == node.coordinator.currentDigest)
        try third.expectNothingStaged()
    }

    @Test(
        "Nobody sees a part of them with inserts, and what is written between is kept",
        arguments: [1, 5, 9, 13, 30, 50, 51, 52, 53, 54, 60, 70, 72, 74, 76, 80, 90])
    func betweenWithInserts(parts: Int) throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try mixed(node)
        let possible = [0, mixedCount]
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            #expect(possible.contains(try titled(node)))
            #expect(try coordinator.verify().isOK)
            try node.save(
                try node.change(ids[0], ["note": .string("mine")]),
                try node.change(ids[2], ["note": .string("mine")]),
                try node.insertion("Sheet", -1, ["code": .string("a key")]))
            #expect(possible.contains(try titled(node)))
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 1)
        #expect(coordinator.overtakenTransactions == 0)
        #expect(try titled(node) == mixedCount)
        #expect(try node.value(ids[0], "note") == .string("mine"))
        #expect(try node.row(ids[7]) == nil)
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test(
        "A key of theirs that a save takes before they are shown has all refused",
        arguments: [13, 30, 50])
    func keyTakenFromMixed(parts: Int) throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try mixed(node)
        let code = try node.code {
            _ = try BetweenParts.run(coordinator, parts: parts) {
                try coordinator.save(request)
            } meanwhile: {
                _ = try node.insert("Sheet", ["code": .string("new 1")])
            }
        }
        #expect(code == .constraintConflict)
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 0)
        #expect(coordinator.overtakenTransactions == 1)
        #expect(try titled(node) == 0)
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test("What they refer to and delete as well, or what only in one piece can be said")
    func mixedInOnePiece() throws {
        let folder = try node.insert("Folder", ["name": .string("free")])
        var referring = try mixed(node)
        referring.operations.append(try node.deletion(folder))
        referring.operations.append(
            try node.insertion("Item", -100, ["folder": .reference(folder.row)]))
        let before = try titled(node)
        #expect(
            try node.code { _ = try node.coordinator.save(referring) } == .validationFailed)
        #expect(try titled(node) == before)
        #expect(node.coordinator.stagedTransactions == 0)
        var twice = try updates(node, ["title": .string("moved")])
        twice.operations.append(try node.insertion("Item", -1, ["title": .string("new")]))
        twice.operations.append(
            try node.change(
                ids[1], [:], [.init(name: "tags", kind: .add, members: [RowID(-1)])]))
        let saved = try node.coordinator.save(twice)
        #expect(try node.members(ids[1], "tags") == saved.insertedRows.map(\.row))
        #expect(node.coordinator.stagedTransactions == 0)
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test(
        "Another node's that refer to what they delete, and to what is deleted meanwhile",
        arguments: [1, 8, 13, 30, 50, 60])
    func mixedFromElsewhere(parts: Int) throws {
        let folders = try (1...3).map {
            try other.insert("Folder", ["name": .string("other \($0)")])
        }
        try exchange(node, other)
        var request = try mixed(other)
        for number in 0..<8 {
            request.operations.append(
                try other.insertion(
                    "Item", -100 - Int64(number),
                    ["title": .string("after"), "folder": .reference(folders[number % 3].row)]))
        }
        _ = try other.coordinator.save(request)
        let log = Array(other.transactions.suffix(1))
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let result = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.apply(log)
        } meanwhile: {
            try node.save(
                try node.deletion(folders[0]), try node.change(ids[3], ["note": .string("mine")]))
            #expect([0, mixedCount + 8].contains(try titled(node)))
            #expect(try coordinator.verify().isOK)
        }
        #expect(result.rejected.isEmpty)
        node.finishStaging()
        // What they refer to is gone before they are written, before they are shown, or after that.
        #expect(coordinator.overtakenTransactions == (parts == 30 || parts == 50 ? 1 : 0))
        #expect(coordinator.stagedTransactions == (parts == 60 ? 1 : 0))
        #expect(try titled(node) == mixedCount + 8)
        try node.expectNothingStaged()
        try checkEqual()
        #expect(try node.row(folders[0]) == nil)
    }

    @Test("Who inserts a row and changes it as well is refused, staged or not")
    func insertedAndChanged() throws {
        _ = try other.coordinator.save(try mixed(other))
        let honest = try #require(other.transactions.last)
        let third = try EngineNode(model, node: 3)
        try third.take(from: node)
        for place in [0, honest.transaction.changes.count] {
            for kind in [Change.Kind.update, .delete, .revival] {
                let first = try #require(
                    honest.transaction.changes.first { $0.kind == .insert })
                var forged = honest.transaction
                var change = first
                change.kind = kind
                forged.changes.insert(change, at: place)
                for store in [node, third] {
                    let digest = try store.coordinator.currentDigest
                    let result = try store.coordinator.apply([EncodedTransaction(forged)])
                    #expect(result.rejected.map(\.dot) == [forged.dot])
                    #expect(try store.coordinator.currentDigest == digest)
                    #expect(store.coordinator.stagedTransactions == 0)
                }
            }
        }
        for store in [node, third] {
            #expect(try store.coordinator.apply([honest]).rejected.isEmpty)
            #expect(try store.coordinator.verify().isOK)
        }
        #expect(node.coordinator.stagedTransactions == 1)
        try checkEqual()
    }

    @Test(
        "A copy made meanwhile is finished by its opening, with inserts as well",
        arguments: [3, 10, 30, 55, 70, 75])
    func mixedCopied(parts: Int) throws {
        try node.reopenStaging(worksAlone: false)
        let coordinator = node.coordinator
        let request = try mixed(node)
        let path = node.path + ".copy"
        var shown = 0
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            _ = try coordinator.backUp(to: path)
            shown = try titled(node)
            try node.update(ids[0], ["note": .string("later")])
        }
        #expect(shown == (parts > 52 ? mixedCount : 0))
        let reader = try PersistentStoreCoordinator(readingStoreAt: path)
        #expect(try reader.verify().isOK)
        reader.close()
        let copy = try PersistentStoreCoordinator(
            storeAt: path, model: model, cluster: "test", node: node.node)
        // The first six parts only check.
        #expect(copy.hasFinishedStaging == (parts > 6))
        #expect(try copy.verify().isOK)
        #expect(
            try copy.read { read in
                try ["Item", "Sheet", "Plan"].reduce(0) {
                    var fetch = FetchRequest($1)
                    fetch.predicate = try Predicate("title == 'after'")
                    return try $0 + read.count(fetch)
                }
            } == shown)
        copy.close()
        try checkEqual()
    }
}
