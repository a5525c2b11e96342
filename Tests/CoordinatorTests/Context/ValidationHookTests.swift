import Coordinator
import Merge
import Synchronization
import Testing

/// What objects of an application's classes say of themselves before a save.
@Suite struct ValidationHookTests {
    private static let own = ValidationFailure.Code(rawValue: 5_001)

    /// Trims names, and wants people to be older than their reports.
    final class Person: ManagedObject {
        override func validateValue(_ value: inout PropertyValue, forKey key: String) throws {
            if key == "name", case .string(let name) = value {
                value = .string(name.split(separator: " ").joined(separator: " "))
            }
            try super.validateValue(&value, forKey: key)
            if key == "age", case .integer(let age) = value, age < 0 {
                throw ValidationFailure(
                    property: key, code: ValidationHookTests.own, message: "Nobody is \(age).")
            }
        }

        override func validateForInsert() throws {
            try super.validateForInsert()
            try compare()
        }

        override func validateForUpdate() throws {
            try super.validateForUpdate()
            try compare()
        }

        override func validateForDelete() throws {
            try super.validateForDelete()
            if self["name"] == "the last" {
                throw ValidationFailure(
                    code: ValidationHookTests.own, message: "The last one stays.")
            }
        }

        private func compare() throws {
            guard let age: Int64 = self["age"],
                let manager: Person = relatedObject(forKey: "manager"),
                let other: Int64 = manager["age"], other < age
            else { return }
            throw ValidationFailure(
                property: "age", code: ValidationHookTests.own,
                message: "A manager is older than \(age).")
        }
    }

    let store: TestStore
    let context: ManagedObjectContext

    init() throws {
        (store, context) = try TestStore.withContext()
        context.performAndWait { context.register(Person.self, for: "Person") }
    }

    private func failure(_ change: () throws -> Void) throws -> CoordinatorError {
        try context.performAndWait {
            try change()
            return try #require(throws: CoordinatorError.self) { try context.save() }
        }
    }

    @Test("A hook changes a value, and the changed one is saved")
    func changesValues() throws {
        let id = try context.performAndWait {
            let person = context.insert(Person.self)
            person["name"] = "  Ada   Lovelace "
            try context.save()
            #expect(person["name"] == "Ada Lovelace")
            #expect(!context.hasChanges)
            return person.objectID
        }
        #expect(try store.stored(id, "name") == "Ada Lovelace")
    }

    @Test("CD-104: one failure has its own code and message, several are one 1560 that lists each")
    func codes() throws {
        let one = try failure {
            let person = context.insert(Person.self)
            person["name"] = "p"
            person["age"] = -1 as Int64
        }
        #expect(one.code == .validationFailed)
        #expect(one.number == 5_001)
        #expect(one.message == "Nobody is -1.")
        #expect(one.failures.first?.property == "age")
        #expect(one.failures.first?.object.isEmpty == false)
        let several = try failure {
            let other = context.insert(Person.self)
            other["age"] = -2 as Int64
            context.insert("Pet")["name"] = "without a keeper"
        }
        #expect(several.number == 1_560)
        #expect(
            several.failures.map(\.code.rawValue).sorted() == [1_570, 1_570, 5_001, 5_001])
    }

    @Test("Checks that compare values are asked at inserts and at updates")
    func comparing() throws {
        let (boss, report) = try context.performAndWait {
            let boss = context.insert(Person.self)
            boss["name"] = "boss"
            boss["age"] = 50 as Int64
            let report = context.insert(Person.self)
            report["name"] = "report"
            report["age"] = 40 as Int64
            report.setRelatedObject(boss, forKey: "manager")
            try context.save()
            return (boss, report)
        }
        let error = try failure { report["age"] = 60 as Int64 }
        #expect(error.number == 5_001)
        try context.performAndWait {
            boss["age"] = 70 as Int64
            try context.save()
        }
    }

    @Test("A delete is refused by the hook, and by a rule that denies it")
    func deletes() throws {
        let person = try context.performAndWait {
            let person = context.insert(Person.self)
            person["name"] = "the last"
            try context.save()
            return person
        }
        let error = try failure { context.delete(person) }
        #expect(error.number == 5_001)
        context.performAndWait { context.rollback() }
        let denied = try failure {
            person["name"] = "p"
            context.insert("Debt").setRelatedObject(person, forKey: "debtor")
            context.delete(person)
        }
        #expect(denied.code == .deleteDenied)
        #expect(denied.number == 1_600)
    }

    @Test("What else a hook throws comes through as it is, and nothing is saved")
    func otherErrors() throws {
        struct Strike: Error {}
        final class Striking: ManagedObject {
            override func validateForInsert() throws { throw Strike() }
        }
        let striking = ManagedObjectContext(store.coordinator, classes: ["Item": Striking.self])
        striking.performAndWait {
            striking.insert("Item")
            #expect(throws: Strike.self) { try striking.save() }
            #expect(striking.insertedObjects.count == 1)
        }
        #expect(try store.context().countOnQueue("Item") == 0)
    }

    @Test("CD-105: a child's save is refused for what the model does not allow")
    func children() throws {
        let child = ManagedObjectContext(parent: context)
        let error = child.performAndWait {
            child.insert("Pet")["name"] = "without a keeper"
            return #expect(throws: CoordinatorError.self) { try child.save() }
        }
        #expect(error?.number == 1_570)
        context.performAndWait { #expect(!context.hasChanges) }
    }
}

extension ManagedObjectContext {
    fileprivate func countOnQueue(_ entity: String) throws -> Int {
        try performAndWait { try count(for: FetchRequest(entity)) }
    }
}
