import Dispatch
import Foundation
import GRDB
import Merge
import Testing

@testable import Coordinator

/// Very many deletes of objects with unique keys: a key is taken until all are shown, and free from
/// then on, though the rows that had it are put away later.
extension StagedKeysTests {
    /// Nothing is written yet, some is, all is shown, some is put away, and all is.
    private static let moments = [1, 9] + Array(15...24) + [26, 40]

    private func filled(_ entity: String) throws -> [ManagedObjectID] {
        let saved = try node.coordinator.save(try insertions(node, entity))
        try checkEqual()
        return saved.rows.map(\.objectID)
    }

    private func deletes(_ node: EngineNode, _ ids: [ManagedObjectID]) throws -> SaveRequest {
        SaveRequest(operations: try ids.map { try node.deletion($0) })
    }

    @Test(
        "Deletes are staged, here and as another node's", arguments: ["Product", "Sheet", "Crate"])
    func deleted(entity: String) throws {
        let ids = try filled(entity)
        try node.reopenStaging(atOnce: 12, worksAlone: true)
        _ = try node.coordinator.save(try deletes(node, Array(ids.prefix(25))))
        #expect(node.coordinator.stagedTransactions == 1)
        _ = try other.coordinator.save(try deletes(other, Array(ids.suffix(25))))
        try checkEqual()
        #expect(node.coordinator.stagedTransactions == 2)
        #expect(try objects(node, entity) == 0)
        // Their keys are free, and a tombstone keeps none; one that comes back has its own again.
        _ = try node.coordinator.save(try insertions(node, entity))
        #expect(node.coordinator.stagedTransactions == 3)
        try other.update(
            ids[7], ["code": .string("key 8"), "state": .string("back")], resolves: true)
        try checkEqual()
        #expect(try node.onlyConflict().kind == .uniqueness)
        #expect(try objects(other, entity) == ids.count)
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test(
        "A key is free from when the deletes are shown", arguments: ["Product", "Sheet", "Crate"],
        moments)
    func keyTakenMeanwhile(entity: String, parts: Int) throws {
        let ids = try filled(entity)
        let kept = try node.insert(entity, ["code": .string("kept")])
        try node.reopenStaging(atOnce: 12, worksAlone: false)
        let coordinator = node.coordinator
        let request = try deletes(node, ids)
        var isTaken = false
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            #expect(try coordinator.verify().isOK)
            let isShown = try objects(node, entity) == 1
            let code = try node.code {
                try node.save(
                    try node.change(kept, ["code": .string("key 4")]),
                    try node.insertion(entity, -1, ["code": .string("key 50")]),
                    try node.insertion(entity, -2, ["code": .string("key 2")]))
                isTaken = true
            }
            // They may be shown before it has its turn.
            #expect(code == nil || (code == .constraintConflict && !isShown))
            #expect(try coordinator.verify().isOK)
        }
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 1)
        let left = try objects(node, entity)
        #expect(left == (isTaken ? 3 : 1))
        try node.expectNothingStaged()
        try checkEqual()
    }

    /// One of another node that has not heard of the others, and is earlier than they are or later.
    private func stranger(_ entity: String, isEarlier: Bool) throws -> (
        EngineNode, [ManagedObjectID]
    ) {
        let stranger = try EngineNode(model, node: 3)
        let values: [String: PropertyValue] = ["code": .string("key 11")]
        if isEarlier { _ = try stranger.insert(entity, values) }
        let ids = try filled(entity)
        if !isEarlier { _ = try stranger.insert(entity, values) }
        try node.reopenStaging(atOnce: 12, worksAlone: false)
        return (stranger, ids)
    }

    @Test(
        "Another node's object of the same key comes meanwhile",
        arguments: [("Product", false), ("Product", true), ("Sheet", false), ("Crate", true)],
        moments)
    func groupedMeanwhile(of kind: (entity: String, isEarlier: Bool), parts: Int) throws {
        let entity = kind.entity
        let (stranger, ids) = try stranger(entity, isEarlier: kind.isEarlier)
        // And one of a node that has deleted one of them.
        try other.delete(ids[20])
        _ = try other.insert(entity, ["code": .string("key 21")])
        let coordinator = node.coordinator
        let request = try deletes(node, ids.filter { $0 != ids[20] })
        let log = stranger.transactions + other.transactions.suffix(2)
        let code = try node.code {
            _ = try BetweenParts.run(coordinator, parts: parts) {
                try coordinator.save(request)
            } meanwhile: {
                let rejected = try coordinator.apply(log).rejected
                #expect(rejected.isEmpty)
                let report = try coordinator.verify()
                #expect(report.isOK)
            }
        }
        node.finishStaging()
        #expect(try coordinator.verify().isOK)
        let wasStaged = coordinator.stagedTransactions == 1
        // Who deletes an object that stands for another deletes both, in one piece; and of one for
        // which another stands nobody knew.
        #expect(code == nil || (!wasStaged && kind.isEarlier && code == .mergeConflict), "\(code)")
        try node.expectNothingStaged()
        try other.take(from: stranger)
        try checkEqual()
        if code == nil { #expect(try objects(node, entity) == (wasStaged ? 2 : 1)) }
    }

    /// Saves, applies what others have written once so many parts are done, and closes the store
    /// before anything else is done.
    private func saveClosing(
        _ request: SaveRequest, afterParts parts: Int, meanwhile log: [EncodedTransaction]
    ) throws -> CoordinatorError.Code? {
        let coordinator = node.coordinator
        let closed = DispatchSemaphore(value: 0)
        let observation = coordinator.observeCommits { [weak coordinator] notice in
            guard !notice.isLocal, let coordinator else { return }
            let closing = DispatchSemaphore(value: 0)
            coordinator.makeDurable { _ in closing.signal() }
            Thread {
                coordinator.close()
                closed.signal()
            }.start()
            closing.wait()
        }
        let code = try node.code {
            _ = try BetweenParts.run(coordinator, parts: parts) {
                try coordinator.save(request)
            } meanwhile: {
                _ = try coordinator.apply(log)
                closed.wait()
            }
        }
        observation.cancel()
        try node.open()
        return code
    }

    @Test(
        "A row that another node brings back meanwhile finds its key taken",
        arguments: [("Product", false), ("Product", true), ("Sheet", true), ("Crate", false)],
        moments)
    func backMeanwhile(of kind: (entity: String, isTakenEarlier: Bool), parts: Int) throws {
        let entity = kind.entity
        let (stranger, ids) = try stranger(entity, isEarlier: kind.isTakenEarlier)
        try other.update(ids[10], ["state": .string("changed")])
        let log = (kind.isTakenEarlier ? stranger.transactions : []) + other.transactions.suffix(1)
        let coordinator = node.coordinator
        let request = try deletes(node, ids)
        let code = try node.code {
            _ = try BetweenParts.run(coordinator, parts: parts) {
                try coordinator.save(request)
            } meanwhile: {
                _ = try? node.insert(entity, ["code": .string("key 11")])
                let rejected = try coordinator.apply(log).rejected
                #expect(rejected.isEmpty)
                let report = try coordinator.verify()
                #expect(report.isOK)
            }
        }
        node.finishStaging()
        #expect(code == nil || code == .mergeConflict, "\(code)")
        #expect(try coordinator.verify().isOK)
        try node.expectNothingStaged()
        try other.take(from: stranger)
        try checkEqual()
    }

    @Test(
        "The same, and the store is closed before it is put away", arguments: [false, true],
        [17, 20, 23])
    func backAndClosed(isTakenEarlier: Bool, parts: Int) throws {
        let (stranger, ids) = try stranger("Product", isEarlier: isTakenEarlier)
        try other.update(ids[10], ["state": .string("changed")])
        let log = (isTakenEarlier ? stranger.transactions : []) + other.transactions.suffix(1)
        let code = try saveClosing(try deletes(node, ids), afterParts: parts, meanwhile: log)
        #expect(code == nil)
        #expect(node.coordinator.hasFinishedStaging)
        #expect(try node.coordinator.verify().isOK)
        try node.expectNothingStaged()
        try other.take(from: stranger)
        try checkEqual()
        #expect(try objects(node, "Product") == 1)
    }

    @Test("Of a row that came to be eclipsed before it was deleted nothing is left of that")
    func eclipsedMeanwhile() throws {
        let (stranger, ids) = try stranger("Product", isEarlier: true)
        let code = try saveClosing(
            try deletes(node, ids), afterParts: 9, meanwhile: stranger.transactions)
        #expect(code == .notWritable)
        #expect(node.coordinator.hasFinishedStaging)
        #expect(try node.coordinator.verify().isOK)
        #expect(node.coordinator.tombstoneCount == 0)
        // It is shown once more, and then it is deleted with the others.
        let conflict = try node.onlyConflict()
        let _: SaveResult = try node.coordinator.resolve(
            conflict.id, .change([conflict.object: ["code": .string("another key")]]))
        #expect(try node.conflicts().isEmpty)
        _ = try node.coordinator.save(try deletes(node, ids))
        node.finishStaging()
        #expect(node.coordinator.stagedTransactions == 1)
        try node.expectNothingStaged()
        try other.take(from: stranger)
        try checkEqual()
    }

    @Test(
        "Whose key is taken is looked up, and no table read whole",
        arguments: [("Product", 2), ("Sheet", 1), ("Box", 1)])
    func lookedUp(root: String, count: Int) throws {
        node.close()
        let queue = try DatabaseQueue(path: node.path)
        defer { try? queue.close() }
        let plans = try queue.write { database in
            let table = try SuccessorTable.create(root: root, in: database)
            defer { try? table.drop(in: database, isShown: false) }
            return try table.keys(in: database).map { key in
                try Row.fetchAll(
                    database,
                    sql: "EXPLAIN QUERY PLAN DELETE FROM \(root) WHERE "
                        + key.condition.replacing(/NEW\."[^"]*"/, with: "'a value'")
                ).map { $0["detail"] as String }
            }
        }
        #expect(plans.count == count)
        for plan in plans {
            #expect(plan.count == 1 && plan[0].hasPrefix("SEARCH \(root) USING"), "\(plan)")
        }
    }

    @Test(
        "Deletes of rows that stand for others are written in one piece", arguments: [false, true])
    func grouped(isForeign: Bool) throws {
        let ids = try filled("Product")
        let stranger = try EngineNode(model, node: 3)
        _ = try stranger.insert("Product", ["code": .string("key 11")])
        for node in [node, other] { try node.take(from: stranger) }
        #expect(try node.onlyConflict().kind == .uniqueness)
        try node.reopenStaging(atOnce: 12, worksAlone: true)
        let author = isForeign ? other : node
        _ = try author.coordinator.save(try deletes(author, ids))
        try checkEqual()
        // A few of another node's are applied when the others are shown.
        #expect(node.coordinator.stagedTransactions == (isForeign ? 1 : 0))
        try node.expectNothingStaged()
        try checkEqual()
    }
}
