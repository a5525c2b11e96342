import Coordinator
import Merge
import Synchronization
import Testing

/// The hooks of an object's life, and what a context tells of changes.
@Suite struct LifeCycleTests {
    /// Writes down which hooks are called.
    final class Item: ManagedObject {
        static let log = Mutex<[ObjectIdentifier: [String]]>([:])

        static func calls(of object: ManagedObject) -> [String] {
            log.withLock { $0[ObjectIdentifier(object)] ?? [] }
        }

        private func note(_ call: String) {
            Self.log.withLock { $0[ObjectIdentifier(self), default: []].append(call) }
        }

        override func awake(fromSnapshotEvents events: SnapshotEventType) {
            note("awake \(events.rawValue)")
            self["q"] = "awoken"
        }

        override func willTurnIntoFault() { note("will \(self["p"] as String? ?? "-")") }

        override func didTurnIntoFault() { note("did \(isFault)") }
    }

    let store: TestStore
    let context: ManagedObjectContext

    init() throws {
        (store, context) = try TestStore.withContext()
        context.performAndWait { context.register(Item.self, for: "Item") }
    }

    private func item(_ value: String = "p0") throws -> ManagedObject {
        let id = try store.insert("Item", ["p": value])
        return try context.performAndWait { try context.existingObject(with: id) }
    }

    @Test("An object hears that it turns into a fault, with its values before and without after")
    func faulting() throws {
        let item = try item()
        context.performAndWait { context.refresh(item, mergeChanges: false) }
        #expect(Item.calls(of: item) == ["will p0", "did true"])
    }

    @Test("A rollback and a refresh awake the objects that they change, and do not dirty them")
    func awaking() throws {
        let item = try item()
        try context.performAndWait {
            item["p"] = "p1"
            context.rollback()
            #expect(item["p"] == "p0")
            #expect(item["q"] == "awoken")
            #expect(!context.hasChanges)
            try store.update(item.objectID, "p", "p2")
            context.refresh(item, mergeChanges: true)
            #expect(item["p"] == "p2")
        }
        #expect(
            Item.calls(of: item) == [
                "awake \(SnapshotEventType.rollback.rawValue)",
                "awake \(SnapshotEventType.refresh.rawValue)",
            ])
    }

    @Test("CD-32: an object that a policy gave other values awakes with the flag of the policy")
    func mergePolicy() throws {
        let item = try item()
        context.mergePolicy = .mergeByPropertyStoreTrump
        try context.performAndWait {
            item["p"] = "ours"
            try store.update(item.objectID, "p", "theirs")
            try context.save()
            #expect(item["p"] == "theirs")
        }
        #expect(Item.calls(of: item) == ["awake \(SnapshotEventType.mergePolicy.rawValue)"])
    }

    @Test("changedValuesForCurrentEvent has the old values, inside a handler those it is told of")
    func currentEvent() throws {
        let item = try item()
        let told = Mutex<[String: PropertyValue]>([:])
        context.observeObjectsDidChange { changes in
            let values = changes.updated.first?.changedValuesForCurrentEvent() ?? [:]
            told.withLock { $0 = values }
        }
        context.performAndWait {
            item["p"] = "p1"
            item["p"] = "p2"
            #expect(item.changedValuesForCurrentEvent() == ["p": .string("p0")])
            context.processPendingChanges()
            #expect(told.withLock { $0 } == ["p": .string("p0")])
            #expect(item.changedValuesForCurrentEvent().isEmpty)
            item["q"] = "q1"
            #expect(item.changedValuesForCurrentEvent() == ["q": .null])
            #expect(Set(item.changedValues().keys) == ["p", "q"])
            let new = context.insert("Item", ["p": "new"])
            #expect(new.changedValuesForCurrentEvent() == ["p": .null])
        }
    }

    @Test("To-manys have changed members, and those that were committed")
    func members() throws {
        let item = try item()
        let tags = try ["a", "b", "c"].map { try store.insert("Tag", ["name": $0]) }
        try context.performAndWait {
            let tags = tags.map { context.object(with: $0) }
            for tag in tags.prefix(2) { item.add(tag, toRelationship: "tags") }
            try context.save()
            item.remove(tags[0], fromRelationship: "tags")
            item.add(tags[2], toRelationship: "tags")
            let changed = item.changedMembers()["tags"]
            #expect(changed?.added == [tags[2].objectID])
            #expect(changed?.removed == [tags[0].objectID])
            #expect(
                item.committedObjectIDs(forRelationshipNamed: "tags")
                    == tags.prefix(2).map(\.objectID).sorted())
            #expect(context.insert("Tag").changedMembers().isEmpty)
        }
    }

    @Test("An owner counts as updated when its to-many changes, realised or not")
    func owners() throws {
        let item = try item()
        let (first, second) = (
            try store.insert("Person", ["name": "1"]), try store.insert("Person", ["name": "2"])
        )
        try context.performAndWait {
            item.setRelatedObject(context.object(with: first), forKey: "owner")
            #expect(context.updatedObjects.map(\.objectID).contains(first))
            try context.save()
            context.refreshAllObjects()
            item["owner"] = PropertyValue.reference(second.row)
            let updated = Set(context.updatedObjects.map(\.objectID))
            #expect(updated == [item.objectID, first, second])
            #expect(!context.object(with: first).hasPersistentChangedValues)
        }
    }

    @Test("Observers hear which objects were invalidated, and that all are after a reset")
    func invalidation() throws {
        let item = try item()
        let heard = Mutex<[(Int, Bool)]>([])
        context.observeObjectsDidChange { changes in
            heard.withLock { $0.append((changes.invalidated.count, changes.invalidatesAll)) }
        }
        context.performAndWait {
            item["p"] = "p1"
            context.processPendingChanges()
            context.refresh(item, mergeChanges: false)
            context.processPendingChanges()
            context.reset()
        }
        let all = heard.withLock { $0 }
        #expect(all.map(\.0) == [0, 1, 0])
        #expect(all.map(\.1) == [false, false, true])
    }

    @Test("A context keeps what an application gives it, and objects in use if it is told to")
    func keeping() throws {
        context.userInfo["window"] = 7
        #expect(context.userInfo["window"] as? Int == 7)
        let id = try store.insert("Item", ["p": "p0"])
        context.performAndWait {
            context.retainsRegisteredObjects = true
            _ = context.object(with: id)
            #expect(context.registeredObject(for: id) != nil)
            context.retainsRegisteredObjects = false
            #expect(context.registeredObject(for: id) == nil)
        }
    }

    @Test("A handler decides over a fault without a row")
    func inaccessible() throws {
        let missing = ManagedObjectID(entityName: "Item", row: RowID(987_654))
        context.shouldHandleInaccessibleFault { _ in false }
        context.performAndWait {
            let value: String? = context.object(with: missing)["p"]
            #expect(value == nil)
            #expect(context.faultingError?.code == .objectNotFound)
            context.reset()
        }
        context.shouldDeleteInaccessibleFaults = false
        context.shouldHandleInaccessibleFault { $0.objectID == missing }
        context.performAndWait {
            let object = context.object(with: missing)
            let value: String? = object["p"]
            #expect(value == nil)
            #expect(object.isDeleted)
            #expect(context.faultingError == nil)
        }
    }

    @Test("Changes from elsewhere are merged into a parent before its children")
    func nestedMerging() throws {
        let item = try item()
        let child = ManagedObjectContext(parent: context)
        let id = item.objectIDInTests(context)
        let inner = try child.performAndWait { try child.existingObject(with: id) }
        try store.update(id, "p", "p1")
        ManagedObjectContext.mergeChanges(
            fromRemoteContextSave: ContextDidSave(updated: [id]), into: [child, context])
        #expect(context.performAndWait { item["p"] as String? } == "p1")
        #expect(child.performAndWait { inner["p"] as String? } == "p1")
    }

    @Test("A block runs at once inside one of the context if it is scheduled so")
    func scheduling() async throws {
        let value = await context.perform(schedule: .immediate) { 1 }
        let other = await context.perform(schedule: .enqueued) { 2 }
        #expect(value + other == 3)
    }
}

extension ManagedObject {
    fileprivate func objectIDInTests(_ context: ManagedObjectContext) -> ManagedObjectID {
        context.performAndWait { objectID }
    }
}
