import Merge
import Testing

@testable import Coordinator

/// Contexts with many objects: what is done for many at once comes to what is done for each.
@Suite("Large graphs")
struct LargeGraphTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    @Test("A delete reads the objects that it takes along together")
    func cascade() throws {
        let count = 1_100
        let person = try store.insert("Person", ["name": "a"])
        try store.save { context in
            let owner = try context.existingObject(with: person)
            for _ in 0..<count { owner.add(context.insert("Book"), toRelationship: "books") }
        }
        store.coordinator.forgetCachedRows()
        let context = store.context()
        try context.performAndWait {
            let owner = try context.existingObject(with: person)
            let misses = context.counters.cacheMisses
            context.delete(owner)
            context.processPendingChanges()
            #expect(context.counters.cacheMisses == misses)
            #expect(context.deletedObjects.count == count + 1)
            try context.save()
            #expect(try context.fetch(store.request("Book")).isEmpty)
        }
    }

    @Test("A delete takes an object out of the members that others are known to have")
    func members() throws {
        let count = 1_100
        try store.save { context in
            for number in 0..<count {
                let owner = context.insert("Person", ["name": "\(10_000 + number)"])
                for _ in 0..<2 { owner.add(context.insert("Book"), toRelationship: "books") }
            }
        }
        let context = store.context()
        try context.performAndWait {
            let owners = try context.fetch(store.request("Person", sort: "name"))
            let books = owners.map { $0.objectIDs(forRelationshipNamed: "books") }
            for place in [0, count - 1] { context.delete(context.object(with: books[place][0])) }
            try context.save()
            for place in [0, 1, count - 1] {
                let left = place == 1 ? books[place] : [books[place][1]]
                #expect(owners[place].objectIDs(forRelationshipNamed: "books") == left)
            }
        }
    }

    @Test("Of a new object with very many properties those count that were assigned")
    func assigned() throws {
        let names = (0..<130).map { "p\(1_000 + $0)" }
        let store = try TestStore(
            try ManagedObjectModel(entities: [
                EntityDescription(
                    "Wide", attributes: names.map { AttributeDescription($0, .string) })
            ]))
        let chosen = [0, 1, 63, 64, 65, 129].map { names[$0] }
        let context = store.context()
        try context.performAndWait {
            let object = context.insert("Wide")
            for name in chosen { object[name] = "value of \(name)" }
            #expect(object.changedValues().keys.sorted() == chosen)
            try context.save()
            context.refresh(object, mergeChanges: false)
            for name in names {
                #expect(
                    object[name] == (chosen.contains(name) ? "value of \(name)" : nil as String?))
            }
        }
    }
}
