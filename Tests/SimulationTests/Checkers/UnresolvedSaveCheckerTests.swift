import Merge
import Testing

@testable import Coordinator
@testable import Simulation

/// Law 12, of saves over what waits for a decision.
struct UnresolvedSaveCheckerTests {
    private let first = CheckerScript.actor(0)
    private let second = CheckerScript.actor(1)
    private let book = ManagedObjectID.of("Book", 20)
    private let page = ManagedObjectID.of("Page", 21)

    /// A book whose page one node has changed and another deleted; then a save with these
    /// operations deletes both. What the checker makes of that.
    private func told(_ operations: [(id: ManagedObjectID, resolves: Bool)]) throws -> [String] {
        var script = try CheckerScript()
        let transactions = [
            script.transaction(
                first, 1, at: 10, .insert("Book", 20),
                .insert("Page", 21, ["book": .reference(book.row)])),
            script.transaction(first, 2, at: 20, .update("Page", 21, ["text": "a"])),
            script.transaction(second, 1, at: 30, seen: [(first, 1)], .delete("Page", 21)),
            script.transaction(
                first, 3, at: 40, seen: [(second, 1)],
                .delete("Book", 20),
                .delete("Page", 21)),
        ]
        return try told(&script, transactions, operations)
    }

    /// What the checker makes of the last of these, which came of a save with these operations.
    private func told(
        _ script: inout CheckerScript, _ transactions: [EncodedTransaction],
        _ operations: [(id: ManagedObjectID, resolves: Bool)]
    ) throws -> [String] {
        let last = try #require(transactions.last)
        var checker = UnresolvedSaveChecker()
        let vector = [(first, UInt64(3)), (second, UInt64(1))]
        let save = SaveRequest(
            operations: try operations.map { id, resolves in
                SaveOperation(
                    kind: .delete, entity: try #require(script.model.entity(named: id.entityName)),
                    row: id.row, resolves: resolves)
            })
        let result = SaveResult(
            transaction: last.dot, timestamp: last.transaction.timestamp,
            seen: last.transaction.seen,
            token: script.token(1, CheckerScript.vector(vector)), insertedRows: [], conflicts: [],
            rows: [])
        return script.tell(
            &checker, script.committed(1, vector, transactions),
            .acknowledged(node: 0, save: save, result: result))
    }

    @Test("Law 12: who resolves a row resolves what its delete rules take along")
    func resolved() throws {
        #expect(try told([(book, true)]) == [])
        #expect(try told([(book, false), (page, true)]) == [])
    }

    @Test("Law 12: a save over an unresolved conflict that does not say so is caught")
    func overwritten() throws {
        for operations in [[(book, false)], [(book, true), (page, false)], [(page, false)]] {
            let told = try told(operations.map { (id: $0.0, resolves: $0.1) })
            #expect(told.count == 1 && told[0].contains("for Page.p21.object was unresolved"))
        }
    }

    @Test("Law 12: who resolves an eclipsed row resolves what is written in its place")
    func eclipsed() throws {
        for row in [30, 31] as [Int64] {
            #expect(try toldOfGroup(row, resolves: true) == [])
            #expect(try toldOfGroup(row, resolves: false).count == 1)
        }
    }

    /// Two badges are one, and its page was changed and deleted at the same time; then a save
    /// that names one of the badges deletes all three.
    private func toldOfGroup(_ row: Int64, resolves: Bool) throws -> [String] {
        var script = try CheckerScript()
        let number = ["number": PropertyValue.integer(1)]
        let transactions = [
            script.transaction(
                first, 1, at: 10, .insert("Badge", 30, number),
                .insert("Badge", 31, number),
                .insert("Page", 21, ["badge": .reference(RowID(30))])),
            script.transaction(first, 2, at: 20, .update("Page", 21, ["text": "a"])),
            script.transaction(second, 1, at: 30, seen: [(first, 1)], .delete("Page", 21)),
            script.transaction(
                first, 3, at: 40, seen: [(second, 1)],
                .delete("Badge", 30),
                .delete("Badge", 31),
                .delete("Page", 21)),
        ]
        return try told(&script, transactions, [(ManagedObjectID.of("Badge", row), resolves)])
    }
}
