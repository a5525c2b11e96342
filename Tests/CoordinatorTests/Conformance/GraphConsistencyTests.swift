import Coordinator
import Merge
import TestSupport
import Testing

/// Random work on a graph, checked against what must always hold: both sides of every
/// relationship agree (CD-107), and what a context shows after a save is what the store has.
@Suite struct GraphConsistencyTests {
    /// A context with the objects it works on, kept in order so that a seed repeats a run.
    private struct Worker {
        let store: TestStore
        let context: ManagedObjectContext
        var people: [ManagedObject] = []
        var items: [ManagedObject] = []
        var tags: [ManagedObject] = []
        var passports: [ManagedObject] = []
        var random: SeededGenerator

        init(_ store: TestStore, _ policy: MergePolicy, seed: UInt64) {
            self.store = store
            context = store.context(policy)
            random = SeededGenerator(seed: seed)
        }

        mutating func seedObjects() {
            for index in 0..<4 {
                let person = context.insert("Person", ["name": "Person \(index)"])
                people.append(person)
                items.append(context.insert("Item"))
                tags.append(context.insert("Tag"))
                passports.append(context.insert("Passport"))
            }
        }

        /// Takes all objects there are, as a fetch shows them.
        mutating func reload() throws {
            people = try context.fetch(store.request("Person"))
            items = try context.fetch(store.request("Item"))
            tags = try context.fetch(store.request("Tag"))
            passports = try context.fetch(store.request("Passport"))
        }

        mutating func forgetDeleted() {
            let isGone = { (object: ManagedObject) in
                object.isDeleted || object.managedObjectContext == nil
            }
            people.removeAll(where: isGone)
            items.removeAll(where: isGone)
            tags.removeAll(where: isGone)
            passports.removeAll(where: isGone)
        }

        private mutating func pick(_ objects: [ManagedObject]) -> ManagedObject? {
            objects.randomElement(using: &random)
        }

        /// Does one random thing.
        mutating func step() {
            guard let person = pick(people), let item = pick(items), let tag = pick(tags),
                let passport = pick(passports)
            else { return }
            switch Int.random(in: 0..<17, using: &random) {
            case 0, 1: item.setRelatedObject(person, forKey: "owner")
            case 2: item.setRelatedObject(nil, forKey: "owner")
            case 3, 4: person.add(item, toRelationship: "items")
            case 5: person.remove(item, fromRelationship: "items")
            case 6, 7: item.add(tag, toRelationship: "tags")
            case 8: tag.remove(item, fromRelationship: "items")
            case 9: person.setRelatedObject(passport, forKey: "passport")
            case 10: passport.setRelatedObject(pick(people), forKey: "holder")
            case 11: person.setRelatedObject(pick(people), forKey: "manager")
            case 12: item["p"] = "p\(Int.random(in: 0..<100, using: &random))"
            case 13: item["q"] = "q\(Int.random(in: 0..<100, using: &random))"
            case 14: items.append(context.insert("Item"))
            case 15:
                let victims = [item, tag, passport] + (people.count > 2 ? [person] : [])
                if let victim = pick(victims) { context.delete(victim) }
                context.processPendingChanges()
                forgetDeleted()
            default: context.refresh(item, mergeChanges: Bool.random(using: &random))
            }
        }

        /// The objects whose attributes the next save writes.
        func writing() -> [ManagedObject] {
            (people + items).filter { object in
                object.isInserted || object.changedValues().keys.contains { $0 == "p" || $0 == "q" }
            }
        }

        /// Objects as a save left them, without any refresh.
        func check(_ saved: [ManagedObject]) throws {
            let fresh = store.context()
            try fresh.performAndWait {
                for object in saved where object.managedObjectContext != nil {
                    let stored = try fresh.existingObject(with: object.objectID)
                    #expect(object.committedValues() == stored.committedValues())
                    #expect(!object.hasChanges)
                }
            }
        }

        /// Where the two sides of a relationship do not agree.
        func disagreements() -> [String] {
            var result: [String] = []
            func compare(_ what: String, _ own: [ManagedObject], _ other: [ManagedObject]) {
                if Set(own) != Set(other) || own.count != other.count {
                    result.append("\(what): \(own) and \(other)")
                }
            }
            for person in people {
                compare(
                    "\(person).items", person.relatedObjects(forKey: "items"),
                    items.filter { $0.relatedObject(forKey: "owner") === person })
                compare(
                    "\(person).reports", person.relatedObjects(forKey: "reports"),
                    people.filter { $0.relatedObject(forKey: "manager") === person })
                compare(
                    "\(person).passport",
                    person.relatedObject(forKey: "passport").map { [$0] } ?? [],
                    passports.filter { $0.relatedObject(forKey: "holder") === person })
            }
            for item in items {
                compare(
                    "\(item).tags", item.relatedObjects(forKey: "tags"),
                    tags.filter { $0.relatedObjects(forKey: "items").contains(item) })
            }
            return result
        }

        /// Where values or members are not what a fresh context reads.
        func differencesFromStore() throws -> [String] {
            let fresh = store.context()
            return try fresh.performAndWait {
                var result: [String] = []
                for object in people + items + tags + passports {
                    let stored = try fresh.existingObject(with: object.objectID)
                    if object.committedValues() != stored.committedValues()
                        || !object.changedValues().isEmpty
                    {
                        result.append("\(object): \(object.committedValues())")
                    }
                    for relationship in object.entity.relationships where relationship.isToMany {
                        let members = [object, stored].map {
                            $0.relatedObjects(forKey: relationship.name, as: ManagedObject.self)
                                .map(\.objectID)
                        }
                        if members[0] != members[1] {
                            result.append("\(object).\(relationship.name): \(members)")
                        }
                    }
                }
                return result
            }
        }
    }

    @Test(
        "Both sides of relationships agree through random changes, saves and rollbacks",
        arguments: 1...4)
    func inverses(seed: Int) throws {
        let store = try TestStore()
        var worker = Worker(store, .error, seed: UInt64(seed))
        try worker.context.performAndWait {
            worker.seedObjects()
            try worker.context.save()
            for round in 0..<12 {
                for _ in 0..<12 {
                    worker.step()
                    #expect(worker.disagreements() == [])
                }
                if round % 4 == 3 {
                    worker.context.rollback()
                    #expect(!worker.context.hasChanges)
                    try worker.reload()
                } else {
                    try worker.context.save()
                }
                #expect(worker.disagreements() == [])
                #expect(try worker.differencesFromStore() == [])
            }
        }
    }

    @Test(
        "After a save under any policy a context shows what the store has",
        arguments: [
            MergePolicy.mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump, .overwrite,
            .rollback,
        ], 1...2)
    func siblings(policy: MergePolicy, seed: Int) throws {
        let store = try TestStore()
        var first = Worker(store, policy, seed: UInt64(seed))
        var second = Worker(store, policy, seed: UInt64(seed) + 1000)
        try first.context.performAndWait {
            first.seedObjects()
            try first.context.save()
            try second.context.performAndWait {
                for _ in 0..<8 {
                    for worker in [first, second] { worker.context.reset() }
                    try first.reload()
                    try second.reload()
                    for _ in 0..<8 {
                        first.step()
                        second.step()
                    }
                    try first.context.save()
                    let saved = second.writing()
                    do { try second.context.save() } catch let error as CoordinatorError
                        where error.code == .validationFailed
                    {
                        // It referred to what the first one deleted.
                        #expect(error.failures.allSatisfy { $0.code == .danglingReference })
                        second.context.rollback()
                        continue
                    }
                    try second.check(saved)
                    // What neither touched may be stale, but then it has no part in the save.
                    for worker in [first, second] { worker.context.refreshAllObjects() }
                    try first.reload()
                    try second.reload()
                    for worker in [first, second] {
                        #expect(try worker.differencesFromStore() == [])
                        #expect(worker.disagreements() == [])
                    }
                }
            }
        }
    }
}
