import Coordinator
import Merge
import Testing

/// CONFORMANCE.md, delete rules (CD-108, CD-109): a save carries them out on what the context shows,
/// not on what the store had.
@Suite struct DeleteConformanceTests {
    /// Orders take their address along; accounts their profile, one each. Crates are not deleted
    /// while they have labels, and stay where labels go.
    private static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Order", attributes: [.init("sum", .integer64)],
                relationships: [
                    .init("address", to: "Address", deleteRule: .cascade),
                    .init("payment", to: "Address", deleteRule: .deny),
                ]),
            EntityDescription("Address", attributes: [.init("street", .string)]),
            EntityDescription(
                "Account",
                relationships: [
                    .init("profile", to: "Profile", inverse: "account", deleteRule: .cascade)
                ]),
            EntityDescription(
                "Profile", relationships: [.init("account", to: "Account", inverse: "profile")]),
            EntityDescription(
                "Crate",
                relationships: [
                    .init(
                        "labels", to: "Label", inverse: "crates", isToMany: true, deleteRule: .deny)
                ]),
            EntityDescription(
                "Label",
                relationships: [
                    .init(
                        "crates", to: "Crate", inverse: "labels", isToMany: true,
                        deleteRule: .noAction)
                ]),
        ])
    }

    private let store: TestStore
    private let context: ManagedObjectContext

    init() throws { (store, context) = try TestStore.withContext() }

    private func person(_ name: String) -> ManagedObject {
        context.insert("Person", ["name": name])
    }

    // MARK: Taken out before the delete

    @Test(
        "CD-109: what was taken out of a to-many before neither goes with the delete nor denies it",
        arguments: [("Book", "author"), ("Debt", "debtor")])
    func takenOut(entity: String, owner: String) throws {
        try context.performAndWait {
            let (ada, other) = (person("Ada"), context.insert(entity))
            other.setRelatedObject(ada, forKey: owner)
            try context.save()
            other.setRelatedObject(nil, forKey: owner)
            context.delete(ada)
            try context.save()
            #expect(other.managedObjectContext === context)
            #expect(try !store.isStored(ada.objectID))
            #expect(try store.isStored(other.objectID))
        }
    }

    @Test("CD-109: a link taken away before the delete does not deny it, one that is made does")
    func linksOfDeny() throws {
        let (store, context) = try TestStore.withContext(Self.model())
        try context.performAndWait {
            let crates = (0..<2).map { _ in context.insert("Crate") }
            let label = context.insert("Label")
            crates[0].add(label, toRelationship: "labels")
            try context.save()
            crates[0].remove(label, fromRelationship: "labels")
            context.delete(crates[0])
            try context.save()
            #expect(try !store.isStored(crates[0].objectID))
            crates[1].add(label, toRelationship: "labels")
            context.delete(crates[1])
            let error = #expect(throws: CoordinatorError.self) { try context.save() }
            #expect(error?.code == .deleteDenied)
            context.rollback()
            #expect(try store.storedMembers(crates[1].objectID, "labels").isEmpty)
        }
    }

    @Test("CD-109: a link removed before the delete of the side it is not named after is written")
    func linksOfSecondSide() throws {
        let store = try TestStore(
            try ManagedObjectModel(entities: [
                EntityDescription(
                    "Badge",
                    relationships: [.init("owners", to: "Owner", inverse: "badges", isToMany: true)]
                ),
                EntityDescription(
                    "Owner",
                    relationships: [
                        .init(
                            "badges", to: "Badge", inverse: "owners", isToMany: true,
                            deleteRule: .cascade)
                    ]),
            ]))
        let context = store.context()
        try context.performAndWait {
            let (owner, kept) = (context.insert("Owner"), context.insert("Badge"))
            let lost = context.insert("Badge")
            for badge in [kept, lost] { owner.add(badge, toRelationship: "badges") }
            try context.save()
            owner.remove(kept, fromRelationship: "badges")
            context.delete(owner)
            try context.save()
            #expect(try store.isStored(kept.objectID))
            #expect(try !store.isStored(lost.objectID))
            #expect(try store.storedMembers(kept.objectID, "owners").isEmpty)
        }
    }

    @Test("CD-24: a link taken away from what somebody else has deleted is nothing to refuse")
    func linkOfWhatIsGone() throws {
        let (item, tag) = (try store.insert("Item"), try store.insert("Tag"))
        try context.performAndWait {
            context.mergePolicy = .overwrite
            let (x, y) = (
                try context.existingObject(with: item), try context.existingObject(with: tag)
            )
            x.add(y, toRelationship: "tags")
            try context.save()
            x.remove(y, fromRelationship: "tags")
            context.delete(y)
            try store.delete(tag)
            try context.save()
            #expect(!context.hasChanges)
        }
    }

    // MARK: Deleted with its own references changed

    @Test("CD-109: a to-one that was led nowhere before the delete takes nothing along")
    func ownReferenceCleared() throws {
        try context.performAndWait {
            let books = (0..<2).map { _ in context.insert("Book") }
            books[1].setRelatedObject(books[0], forKey: "prequel")
            try context.save()
            books[1].setRelatedObject(nil, forKey: "prequel")
            context.delete(books[1])
            try context.save()
            #expect(books[0].managedObjectContext === context)
            #expect(try store.isStored(books[0].objectID))
            #expect(try !store.isStored(books[1].objectID))
        }
    }

    @Test(
        "CD-109: a to-one that was led elsewhere before the delete takes that along, not the former",
        arguments: [false, true])
    func ownReferenceChanged(isNew: Bool) throws {
        let (store, context) = try TestStore.withContext(Self.model())
        try context.performAndWait {
            let (order, former) = (context.insert("Order"), context.insert("Address"))
            let other = context.insert("Address")
            order.setRelatedObject(former, forKey: "address")
            try context.save()
            let target = isNew ? context.insert("Address") : other
            order.setRelatedObject(target, forKey: "address")
            context.delete(order)
            try context.save()
            #expect(try store.isStored(former.objectID))
            #expect(try store.isStored(other.objectID) == isNew)
            #expect(try !store.isStored(order.objectID))
            #expect(try store.context().storedCount(store.request("Address")) == (isNew ? 2 : 1))
        }
    }

    @Test("CD-109: an object's own to-one denies its delete by where it leads now")
    func ownReferenceOfDeny() throws {
        let (store, context) = try TestStore.withContext(Self.model())
        try context.performAndWait {
            let (order, address) = (context.insert("Order"), context.insert("Address"))
            try context.save()
            order.setRelatedObject(address, forKey: "payment")
            context.delete(order)
            let error = #expect(throws: CoordinatorError.self) { try context.save() }
            #expect(error?.code == .deleteDenied)
            context.rollback()
            order.setRelatedObject(address, forKey: "payment")
            try context.save()
            order.setRelatedObject(nil, forKey: "payment")
            context.delete(order)
            try context.save()
            #expect(try store.isStored(address.objectID))
            #expect(try !store.isStored(order.objectID))
        }
    }

    @Test("CD-104, CD-109: every delete that a rule denies is listed, beside what else is wrong")
    func severalDenied() throws {
        try context.performAndWait {
            let people = ["Ada", "Bob", "Cyd"].map(person)
            for one in people.dropLast() {
                context.insert("Debt").setRelatedObject(one, forKey: "debtor")
            }
            try context.save()
            for one in people { context.delete(one) }
            var error = try #require(throws: CoordinatorError.self) { try context.save() }
            #expect(error.code == .deleteDenied)
            #expect(error.number == 1560)
            #expect(error.failures.map(\.code.rawValue) == [1600, 1600])
            #expect(error.failures.map(\.property) == ["debts", "debts"])
            #expect(
                error.failures.map(\.object)
                    == people.prefix(2).map { $0.objectID.uriRepresentation(cluster: "test") })
            #expect(error.conflicts.map(\.object) == people.prefix(2).map(\.objectID))
            context.insert("Person")
            error = try #require(throws: CoordinatorError.self) { try context.save() }
            #expect(error.code == .deleteDenied)
            #expect(error.number == 1560)
            #expect(error.failures.map(\.code.rawValue).sorted() == [1570, 1600, 1600])
            #expect(context.deletedObjects == Set(people))
            for one in people { #expect(try store.isStored(one.objectID)) }
        }
    }

    @Test("CD-104: one delete that a rule denies fails with 1600")
    func oneDenied() throws {
        try context.performAndWait {
            let ada = person("Ada")
            context.insert("Debt").setRelatedObject(ada, forKey: "debtor")
            try context.save()
            context.delete(ada)
            let error = try #require(throws: CoordinatorError.self) { try context.save() }
            #expect(error.code == .deleteDenied)
            #expect(error.number == 1600)
            #expect(error.failures.map(\.code.rawValue) == [1600])
            #expect(error.conflicts.map(\.object) == [ada.objectID])
        }
    }

    @Test("CD-109: what was given to another in a one-to-one is not deleted with its former owner")
    func ownReferenceGivenAway() throws {
        let (store, context) = try TestStore.withContext(Self.model())
        try context.performAndWait {
            let accounts = (0..<2).map { _ in context.insert("Account") }
            let profile = context.insert("Profile")
            accounts[0].setRelatedObject(profile, forKey: "profile")
            try context.save()
            accounts[1].setRelatedObject(profile, forKey: "profile")
            context.delete(accounts[0])
            try context.save()
            #expect(try store.isStored(profile.objectID))
            let fresh = store.context()
            try fresh.performAndWait {
                let kept = try fresh.existingObject(with: accounts[1].objectID)
                #expect(kept["profile"] == .reference(profile.objectID.row))
            }
        }
    }

    @Test("CD-109: a delete over an object that moved on goes by the context's references too")
    func staleOwnReference() throws {
        let store = try TestStore(Self.model())
        let context = store.context(.mergeByPropertyObjectTrump)
        let (order, address) = try context.performAndWait {
            let (order, address) = (context.insert("Order"), context.insert("Address"))
            order.setRelatedObject(address, forKey: "address")
            try context.save()
            return (order, address)
        }
        try store.save { other in try other.existingObject(with: order.objectID)["sum"] = 1 }
        try context.performAndWait {
            order.setRelatedObject(nil, forKey: "address")
            context.delete(order)
            try context.save()
        }
        #expect(try !store.isStored(order.objectID))
        #expect(try store.isStored(address.objectID))
    }

    // MARK: A delete that the policy gives up

    @Test("CD-23, CD-147: what rollback keeps is not deleted with what would take it along")
    func keptFromCascade() throws {
        let (ada, book) = (
            try store.insert("Person", ["name": "Ada"]), try store.insert("Book", ["title": "One"])
        )
        let b = store.context(.rollback)
        let (adaB, bookB) = try b.performAndWait {
            let pair = (try b.existingObject(with: ada), try b.existingObject(with: book))
            pair.1.setRelatedObject(pair.0, forKey: "author")
            try b.save()
            return pair
        }
        try store.update(book, "title", "Two")
        try b.performAndWait {
            b.delete(adaB)
            b.processPendingChanges()
            #expect(bookB.isDeleted)
            try b.save()
            #expect(bookB.managedObjectContext === b && !bookB.isDeleted)
            #expect(bookB["title"] == "Two")
            #expect(bookB["author"] == PropertyValue.null)
            #expect(!b.hasChanges)
        }
        #expect(try !store.isStored(ada))
        #expect(try store.stored(book, "title") == "Two")
        let fresh = store.context()
        try fresh.performAndWait { () throws in
            #expect(try fresh.existingObject(with: book)["author"] == PropertyValue.null)
        }
        #expect(try store.coordinator.verify().isOK)
    }

    // MARK: Deletes of what was never saved, or is gone

    @Test("CD-107, CD-109: an insert that is dropped is taken out of what denies, and of links")
    func droppedInsert() throws {
        let (store, context) = try TestStore.withContext(Self.model())
        try context.performAndWait {
            let label = context.insert("Label")
            let saved = context.insert("Crate")
            try context.save()
            let crate = context.insert("Crate")
            crate.add(label, toRelationship: "labels")
            context.delete(crate)
            context.processPendingChanges()
            #expect(label.relatedObjects(forKey: "crates", as: ManagedObject.self).isEmpty)
            let dropped = context.insert("Label")
            saved.add(dropped, toRelationship: "labels")
            context.delete(dropped)
            context.processPendingChanges()
            #expect(saved.relatedObjects(forKey: "labels", as: ManagedObject.self).isEmpty)
            try context.save()
            #expect(try store.storedMembers(label.objectID, "crates").isEmpty)
        }
    }

    @Test(
        "What a delete here has nullified follows where the store leads by now",
        arguments: [true, false])
    func nullifiedAndLedElsewhere(isMerged: Bool) throws {
        let (item, first) = (try store.insert("Item"), try store.insert("Person", ["name": "A"]))
        let second = try store.insert("Person", ["name": "B"])
        let other = store.context()
        func lead(to id: ManagedObjectID) throws {
            try other.performAndWait {
                let person = try other.existingObject(with: id)
                try other.existingObject(with: item).setRelatedObject(person, forKey: "owner")
                try other.save()
            }
        }
        try lead(to: first)
        context.mergePolicy = .mergeByPropertyObjectTrump
        try context.performAndWait {
            let here = try context.existingObject(with: item)
            #expect(here.relatedObject(forKey: "owner")?.objectID == first)
            context.delete(try context.existingObject(with: first))
            context.processPendingChanges()
            #expect(here.relatedObject(forKey: "owner") == nil)
            try lead(to: second)
            if isMerged {
                context.mergeChanges(fromContextDidSave: ContextDidSave(updated: [item]))
                #expect(here.relatedObject(forKey: "owner")?.objectID == second)
            }
            try context.save()
            context.refresh(here, mergeChanges: false)
            #expect(here.relatedObject(forKey: "owner")?.objectID == second)
        }
        #expect(try !store.isStored(first))
    }

    @Test(
        "CD-94, CD-108: a delete here of what is found deleted elsewhere before its rules were run",
        arguments: [true, false])
    func deletedElsewhereFirst(isInEvent: Bool) throws {
        let (book, sequel) = try context.performAndWait {
            let books = (0..<2).map { _ in context.insert("Book") }
            books[1].setRelatedObject(books[0], forKey: "prequel")
            try context.save()
            return (books[1], books[0])
        }
        context.propagatesDeletesAtEndOfEvent = isInEvent
        try context.performAndWait {
            context.delete(book)
            try store.delete(book.objectID)
            context.mergeChanges(
                fromContextDidSave: ContextDidSave(deleted: [book.objectID, sequel.objectID]))
            #expect(book.isDeleted)
        }
        try context.performAndWait { try context.save() }
        context.performAndWait { #expect(!context.hasChanges) }
        #expect(try !store.isStored(book.objectID))
    }
}
