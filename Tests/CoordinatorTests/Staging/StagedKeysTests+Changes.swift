import Merge
import Testing

@testable import Coordinator

/// Very many objects that get other unique keys: the new ones are taken from when all are shown, and the
/// old ones free, though the rows get theirs later.
extension StagedKeysTests {
    private static let changeMoments = [1, 5] + Array(9...28) + [40]

    private func filled(_ entity: String) throws -> [ManagedObjectID] {
        let saved = try node.coordinator.save(try insertions(node, entity))
        try checkEqual()
        return saved.rows.map(\.objectID)
    }

    /// Object 1 to 50 gets the key of its number and so many.
    private func renaming(
        _ node: EngineNode, _ ids: [ManagedObjectID], by step: Int = 1_000
    ) throws -> SaveRequest {
        SaveRequest(
            operations: try ids.enumerated().map {
                try node.change($1, ["code": .string("key \($0 + 1 + step)")])
            })
    }

    /// The objects that a fetch finds under a code.
    private func coded(
        _ node: EngineNode, _ entity: String, _ number: Int
    ) throws -> [ManagedObjectID] {
        var request = FetchRequest(entity)
        request.predicate = try Predicate("code == 'key \(number)'")
        return try node.coordinator.read { try $0.objectIDs(request) }
    }

    @Test(
        "Changes of keys are staged, here and as another node's",
        arguments: ["Product", "Sheet", "Crate"])
    func renamed(entity: String) throws {
        let ids = try filled(entity)
        try node.reopenStaging(atOnce: 12, worksAlone: true)
        let result = try node.coordinator.save(try renaming(node, ids))
        #expect(node.coordinator.stagedTransactions == 1)
        #expect(result.rows.map(\.objectID) == ids)
        for number in [1, 25, 50] {
            #expect(try coded(node, entity, number) == [])
            #expect(try coded(node, entity, number + 1_000) == [ids[number - 1]])
        }
        try checkEqual()
        _ = try other.coordinator.save(try renaming(other, ids, by: 2_000))
        try checkEqual()
        #expect(node.coordinator.stagedTransactions == 2)
        #expect(try coded(node, entity, 2_007) == [ids[6]])
        for id in ids {
            let states = try [node, other].map { node in
                try node.coordinator.read { try $0.registers(try node.entity(entity), id.row) }
            }
            #expect(states[0] == states[1])
        }
        // What they had is free, what they have is not.
        #expect(
            try node.code { _ = try node.insert(entity, ["code": .string("key 2007")]) }
                == .constraintConflict)
        _ = try node.insert(entity, ["code": .string("key 1007")])
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test("Keys that others have, or have in the shade, are changed in one piece")
    func renamedToTaken() throws {
        let ids = try filled("Product")
        try node.reopenStaging(atOnce: 12, worksAlone: true)
        // Each gets the one of the next.
        _ = try node.coordinator.save(try renaming(node, ids, by: 1))
        #expect(try coded(node, "Product", 51) == [ids[49]])
        #expect(try coded(node, "Product", 2) == [ids[0]])
        try checkEqual()
        // Two get the same one.
        var twice = try renaming(node, ids)
        twice.operations[30] = twice.operations[40]
        twice.operations[30].row = ids[30].row
        let refused = twice
        #expect(try node.code { _ = try node.coordinator.save(refused) } == .constraintConflict)
        _ = try other.insert("Product", ["code": .string("key 1007")])
        _ = try node.coordinator.save(try renaming(node, Array(ids.dropFirst(20)), by: 3_000))
        #expect(node.coordinator.stagedTransactions == 1)
        // Another node has one of the new keys already, which shows one of the two.
        _ = try node.coordinator.save(try renaming(node, ids))
        #expect(node.coordinator.stagedTransactions == 2)
        try checkEqual()
        #expect(try node.onlyConflict().kind == .uniqueness)
        #expect(try coded(node, "Product", 1_007) == [ids[6]])
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test(
        "An old key is free, and a new one taken, from when the changes are shown",
        arguments: ["Product", "Sheet", "Crate"], changeMoments)
    func renamedMeanwhile(entity: String, parts: Int) throws {
        let ids = try filled(entity)
        let kept = try node.insert(entity, ["code": .string("kept")])
        try node.reopenStaging(atOnce: 12, worksAlone: false)
        let coordinator = node.coordinator
        let request = try renaming(node, ids)
        var isTaken = false
        let result = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            #expect(try coordinator.verify().isOK)
            let isShown = try coded(node, entity, 1_004) == [ids[3]]
            #expect(try coded(node, entity, 4) == (isShown ? [] : [ids[3]]))
            let code = try node.code {
                try node.save(
                    try node.change(kept, ["code": .string("key 4")]),
                    try node.insertion(entity, -1, ["code": .string("key 50")]))
                isTaken = true
            }
            // They may be shown before it has its turn.
            #expect(code == nil || (code == .constraintConflict && !isShown))
            let isOld = try coded(node, entity, 1_004) == [ids[3]]
            if isOld {
                let code = try node.code {
                    _ = try node.insert(entity, ["code": .string("key 1004")])
                }
                #expect(code == .constraintConflict)
            }
            #expect(try coordinator.verify().isOK)
        }
        #expect(result.rows.count == Self.count)
        node.finishStaging()
        #expect(coordinator.stagedTransactions == 1)
        #expect(try coded(node, entity, 4) == (isTaken ? [kept] : []))
        #expect(try coded(node, entity, 1_004) == [ids[3]])
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test(
        "Who takes a new key meanwhile has it, and all is refused or becomes a group",
        arguments: ["Product", "Sheet", "Crate"], changeMoments)
    func newKeyTakenMeanwhile(entity: String, parts: Int) throws {
        let ids = try filled(entity)
        try node.reopenStaging(atOnce: 12, worksAlone: false)
        let coordinator = node.coordinator
        let request = try renaming(node, ids)
        var isTaken = false
        let code = try node.code {
            _ = try BetweenParts.run(coordinator, parts: parts) {
                try coordinator.save(request)
            } meanwhile: {
                let code = try node.code {
                    _ = try node.insert(entity, ["code": .string("key 1004")])
                    isTaken = true
                }
                #expect(code == nil || code == .constraintConflict)
                #expect(try coordinator.verify().isOK)
            }
        }
        node.finishStaging()
        #expect(code == (isTaken ? .constraintConflict : nil))
        #expect(coordinator.stagedTransactions == (isTaken ? 0 : 1))
        #expect(try coded(node, entity, 4) == (isTaken ? [ids[3]] : []))
        #expect(try coded(node, entity, 1_004).count == 1)
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test(
        "Keys are looked for while what is given up is taken back, a table after the other",
        arguments: [20, 30, 40, 50, 60])
    func soughtWhileTakenBack(parts: Int) throws {
        let ids = try filled("Product")
        try node.reopenStaging(atOnce: 4, worksAlone: false)
        let coordinator = node.coordinator
        // The successors go first, and then the inserts.
        var changes = try renaming(node, ids)
        changes.operations += try insertions(node, from: 101).operations
        let request = changes
        let code = try node.code {
            _ = try BetweenParts.run(coordinator, parts: parts) {
                try coordinator.save(request)
            } meanwhile: {
                for number in 1_004...1_044 {
                    // The first is one of the new keys.
                    let key = number == 1_004 ? "key 1004" : "another \(number)"
                    _ = try node.insert("Product", ["code": .string(key)])
                }
            }
        }
        #expect(code == .constraintConflict)
        #expect(coordinator.stagedTransactions == 0)
        #expect(try objects(node) == Self.count + 41)
        try node.expectNothingStaged()
        try checkEqual()
    }

    @Test(
        "Another node's changes, and others' objects of the old and the new keys come between",
        arguments: [("Product", false), ("Product", true), ("Sheet", false), ("Crate", true)],
        changeMoments)
    func renamedElsewhere(of kind: (entity: String, isEarlier: Bool), parts: Int) throws {
        let entity = kind.entity
        let stranger = try EngineNode(model, node: 3)
        func inserts() throws {
            for number in [11, 1_012] {
                _ = try stranger.insert(entity, ["code": .string("key \(number)")])
            }
        }
        if kind.isEarlier { try inserts() }
        let ids = try filled(entity)
        if !kind.isEarlier { try inserts() }
        _ = try other.coordinator.save(try renaming(other, ids))
        let large = Array(other.transactions.suffix(1))
        try node.reopenStaging(atOnce: 12, worksAlone: false)
        let coordinator = node.coordinator
        let result = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.apply(large)
        } meanwhile: {
            // Of its own, which takes an old key or a new one where they are free.
            _ = try? node.insert(entity, ["code": .string("key 20")])
            _ = try? node.insert(entity, ["code": .string("key 1021")])
            let report = try coordinator.verify()
            #expect(report.isOK)
        }
        #expect(result.rejected.isEmpty)
        try node.take(from: stranger)
        #expect(try coordinator.verify().isOK)
        node.finishStaging()
        try node.expectNothingStaged()
        try other.take(from: stranger)
        try checkEqual()
        for number in [11, 1_012, 1_020, 1_021] {
            #expect(try coded(node, entity, number).count == 1)
            #expect(try coded(node, entity, number) == (try coded(other, entity, number)))
        }
    }

    @Test(
        "The store is copied and closed amid them", arguments: [9, 15, 17, 18, 19, 20, 21, 22, 24])
    func renamedAndCopied(parts: Int) throws {
        let ids = try filled("Product")
        try node.reopenStaging(atOnce: 12, worksAlone: false)
        let coordinator = node.coordinator
        let request = try renaming(node, ids)
        let path = node.path + ".copy"
        var isShown = false
        _ = try BetweenParts.run(coordinator, parts: parts) {
            try coordinator.save(request)
        } meanwhile: {
            // An old key is taken where it is free: the copy has the row that had it.
            isShown = (try? node.insert("Product", ["code": .string("key 9")])) != nil
            _ = try coordinator.backUp(to: path)
        }
        let copy = try PersistentStoreCoordinator(
            storeAt: path, model: node.model, cluster: "test", node: node.node)
        #expect(try copy.verify().isOK)
        let count = try copy.read { try $0.count(FetchRequest("Product")) }
        #expect(count == Self.count + (isShown ? 1 : 0))
        copy.close()
        try node.expectNothingStaged()
        try checkEqual()
    }
}
