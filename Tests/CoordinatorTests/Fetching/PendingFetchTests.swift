import Merge
import TestSupport
import Testing

@testable import Coordinator

/// What a fetch does with a context's unsaved changes, and what it costs.
@Suite("Fetching with pending changes")
struct PendingFetchTests {
    private let store: TestStore
    private let context: ManagedObjectContext

    init() throws { (store, context) = try TestStore.withContext() }

    @Test("A page makes objects of what is on it alone, with pending changes of its entity too")
    func pageCost() throws {
        try store.save { context in
            for number in 0..<500 { context.insert("Item", ["p": "\(number)"]) }
        }
        try context.performAndWait {
            var request = try store.request("Item", sort: "p", limit: 10)
            let kept = try context.fetch(request)
            kept[3]["q"] = "changed"
            kept[4]["p"] = "zz"
            context.delete(kept[5])
            request.fetchOffset = 200
            let page = try context.fetch(request)
            #expect(page.count == 10)
            #expect(try context.count(for: store.request("Item")) == 499)
            #expect(context.registeredObjects.count == kept.count + page.count)
        }
    }

    @Test("Find-or-create looks at what it finds, not at all that is pending")
    func findOrCreate() throws {
        var index = PendingIndex()
        context.performAndWait {
            let entity = context.entityNamed("Item")
            let objects = (0..<100).map { context.insert("Item", ["p": "\($0 % 50)"]) }
            func candidates(_ value: String, _ options: ComparisonOptions = []) -> Int? {
                index.candidates(
                    for: [("p", .string(value), options)], of: entity, among: { objects })?.count
            }
            #expect(candidates("7") == 2)
            objects[7]["p"] = "x"
            index.note(objects[7])
            #expect(candidates("7") == 1)
            #expect(candidates("x") == 1)
            context.delete(objects[7])
            index.note(objects[7])
            #expect(candidates("x") == 0)
            #expect(candidates("none") == 0)
            #expect(
                index.candidates(
                    for: [("n", .double(1), [])], of: entity, among: { objects }) == nil)
        }
    }

    @Test("What a fetch gives equals the store's objects and the pending ones, whatever was done")
    func equalsAll() throws {
        var choices = SeededGenerator(seed: 35)
        let keys = ["a", "b", "B", "c", "d", "é"]
        try store.save { context in
            for _ in 0..<60 { context.insert("Item", ["p": choices.pick(keys)]) }
        }
        let predicates = [
            nil, "p == 'b'", "p ==[c] 'b' AND n > 3", "n == 4", "p IN {'a', 'c'}",
            "p == 'a' OR n == 2", "NOT (p == 'a')", "owner == NULL AND p ==[cd] 'E'",
        ]
        let sorts = [
            nil, "p", "-p", "n", "-n", "localizedStandard:(p, sv)", "-localizedStandard:(p)",
        ]
        for step in 0..<250 {
            try context.performAndWait {
                try change(&choices, keys)
                if step % 90 == 89 { context.rollback() }
                if step % 140 == 139 { try context.save() }
                let request = try store.request(
                    "Item", where: choices.pick(predicates), sort: choices.pick(sorts),
                    limit: choices.pick([0, 0, 1, 7, 1_000]),
                    offset: choices.pick([0, 0, 1, 5, 40, 500]))
                let expected = try reference(request)
                #expect(try context.fetchObjectIDs(request) == expected, "step \(step)")
                #expect(try context.fetch(request).map(\.objectID) == expected)
                #expect(try context.count(for: request) == expected.count)
            }
        }
    }

    private func change(_ choices: inout SeededGenerator, _ keys: [String]) throws {
        let all = try context.fetch(store.request("Item"))
        for _ in 0..<choices.pick([1, 1, 12]) {
            switch choices.pick([0, 0, 1, 1, 1, 2, 3]) {
            case 0:
                context.insert("Item", ["p": choices.pick(keys)])["n"] =
                    PropertyValue.integer(choices.pick([1, 2, 3, 4]))
            case 1:
                let object = choices.pick(all)
                if !object.isDeleted { object["p"] = choices.pick(keys) }
            case 2: choices.pick(all)["n"] = PropertyValue.integer(choices.pick([1, 2, 3, 4]))
            default: context.delete(choices.pick(all))
            }
        }
    }

    /// All rows of the store without the changed ones, and the changed ones, tested and sorted in memory.
    private func reference(_ request: FetchRequest) throws -> [ManagedObjectID] {
        let entity = context.entityNamed("Item")
        let evaluator = try PredicateEvaluator(
            request.predicate, entity: entity, model: context.managedObjectModel)
        let order = try SortEvaluator(
            request.sortDescriptors, entity: entity, model: context.managedObjectModel)
        var rows = try store.coordinator.read { try $0.fetch(FetchRequest("Item")) }.map {
            PlainRow(entity: entity, row: $0.objectID.row, values: $0.values)
        }
        let changed = context.updatedObjects.union(context.deletedObjects).map(\.objectID.row)
        rows.removeAll { changed.contains($0.row) }
        for object in context.insertedObjects.union(context.updatedObjects) {
            rows.append(
                PlainRow(entity: entity, row: object.objectID.row, values: object.values))
        }
        let page = try order.sort(rows.filter { try evaluator.matches($0) })
            .dropFirst(request.fetchOffset)
        return (request.fetchLimit > 0 ? page.prefix(request.fetchLimit) : page).map {
            ManagedObjectID(entityName: "Item", row: $0.row)
        }
    }
}

/// A row by itself, as a predicate sees it.
private struct PlainRow: PredicateSubject {
    let entity: ManagedObjectModel.Entity
    let row: RowID
    let values: [PropertyValue]

    var predicateRow: RowID { row }
    func predicateValue(ofAttribute name: String) -> PropertyValue {
        entity.position(of: name).map { values[$0] } ?? .null
    }
    func predicateTarget(ofToOne name: String) -> PlainRow? { nil }
    func predicateTargets(ofToMany name: String) -> [PlainRow] { [] }
}
