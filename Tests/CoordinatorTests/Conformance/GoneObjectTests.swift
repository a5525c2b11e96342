import Coordinator
import Merge
import Synchronization
import Testing

/// What a context's objects do once they are gone, or what they led to is; and values that Core
/// Data takes as any number.
@Suite("Objects that are gone, members that went, and numbers of another type")
struct GoneObjectTests {
    private let store: TestStore
    private let context: ManagedObjectContext

    init() throws {
        store = try TestStore(try Self.model())
        context = store.context(.mergeByPropertyObjectTrump)
    }

    private static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Note",
                attributes: [
                    .init("text", .string), .init("weight", .double),
                    .init("ratio", .float),
                    .init("count", .integer64),
                    .init("price", .decimal),
                ],
                relationships: [
                    // Nobody leads back.
                    RelationshipDescription("tags", to: "Tag", isToMany: true),
                    .init("main", to: "Tag"),
                    .init("owner", to: "Person", inverse: "notes"),
                ]),
            EntityDescription("Tag", attributes: [.init("name", .string)]),
            EntityDescription(
                "Person", attributes: [.init("name", .string)],
                relationships: [
                    .init(
                        "notes", to: "Note", inverse: "owner", isToMany: true, deleteRule: .cascade)
                ]),
        ])
    }

    @Test("What is gone takes no values and leads nowhere, however it went")
    func takesNothing() throws {
        let id = try store.insert("Note", ["text": "a"])
        try context.performAndWait {
            let dropped = try context.existingObject(with: id)
            dropped["text"] = "mine"
            try store.delete(id)
            try context.save()
            let deleted = context.insert("Note")
            try context.save()
            context.delete(deleted)
            try context.save()
            let rolledBack = context.insert("Note")
            context.rollback()
            let forgotten = context.insert("Note", ["text": "x"])
            context.reset()
            #expect(forgotten.changedValues().isEmpty)
            let (tag, owner) = (context.insert("Tag"), context.insert("Person"))
            for gone in [dropped, deleted, rolledBack, forgotten] {
                gone["text"] = "late"
                gone.setRelatedObject(owner, forKey: "owner")
                gone.add(tag, toRelationship: "tags")
                owner.add(gone, toRelationship: "notes")
                let text: String? = gone["text"]
                #expect(text != "late" && gone.managedObjectContext == nil)
            }
            #expect(owner.relatedObjects(forKey: "notes").isEmpty)
            try context.save()
        }
    }

    @Test("An insert that is dropped is nobody's member, also where nothing leads back from it")
    func droppedInsert() throws {
        let id = try store.insert("Note")
        try context.performAndWait {
            let note = try context.existingObject(with: id)
            let (kept, tag) = (context.insert("Tag"), context.insert("Tag"))
            note.setRelatedObjects([kept, tag], forKey: "tags")
            note.setRelatedObject(tag, forKey: "main")
            context.delete(tag)
            context.processPendingChanges()
            #expect(note.relatedObjects(forKey: "tags") == [kept])
            #expect(note.relatedObject(forKey: "main") == nil)
            try context.save()
            #expect(note.relatedObjects(forKey: "tags") == [kept])
            context.delete(kept)
            try context.save()
            #expect(note.relatedObjects(forKey: "tags").isEmpty)
        }
    }

    @Test("An object that loses a member by its delete has changed, and is fetched so")
    func ownerOfDeleted() throws {
        try context.performAndWait {
            let (ada, note) = (context.insert("Person"), context.insert("Note"))
            note.setRelatedObject(ada, forKey: "owner")
            try context.save()
            _ = ada.relatedObjects(forKey: "notes")
            context.delete(note)
            context.processPendingChanges()
            #expect(ada.isUpdated)
            let without = FetchRequest(
                "Person", predicate: try Predicate(format: "notes.@count == 0"))
            #expect(try context.fetch(without) == [ada])
            try context.save()
            #expect(try context.fetch(without) == [ada])
        }
    }

    /// - Parameter isKnown: whether the object that is deleted elsewhere is still in use here.
    @Test(
        "CD-94: what is deleted elsewhere is taken out of the unsaved references to it",
        arguments: [true, false])
    func pendingReferences(isKnown: Bool) throws {
        let (ada, tag) = (try store.insert("Person", ["name": "Ada"]), try store.insert("Tag"))
        let (bob, id) = (try store.insert("Person", ["name": "Bob"]), try store.insert("Note"))
        let other = try store.insert("Tag")
        try context.performAndWait {
            let note = try context.existingObject(with: id)
            note.setRelatedObject(context.object(with: bob), forKey: "owner")
            note.add(context.object(with: other), toRelationship: "tags")
            try context.save()
            note.remove(context.object(with: other), fromRelationship: "tags")
            let inserted = context.insert("Note")
            for note in [note, inserted] {
                note.setRelatedObject(context.object(with: ada), forKey: "owner")
                note.setRelatedObject(context.object(with: tag), forKey: "main")
                note.add(context.object(with: tag), toRelationship: "tags")
                note["text"] = "mine"
            }
            let used = isKnown ? [ada, tag].map { context.object(with: $0) } : []
            let gone = [ada, tag, other]
            for id in gone { try store.delete(id) }
            context.mergeChanges(fromContextDidSave: ContextDidSave(deleted: Set(gone)))
            for one in used { #expect(one.isDeleted) }
            for note in [note, inserted] {
                #expect(note.relatedObject(forKey: "owner") == nil)
                #expect(note.relatedObject(forKey: "main") == nil)
                #expect(note.relatedObjects(forKey: "tags").isEmpty)
                #expect(note["text"] == "mine")
            }
            try context.save()
            for id in [note.objectID, inserted.objectID] {
                #expect(try store.storedReference(id, "owner") == .null)
                #expect(try store.stored(id, "text") == "mine")
            }
        }
        #expect(try store.isStored(bob))
    }

    @Test("CD-94: a reference not changed here reads as null, and is no change of the object")
    func cleanReference() throws {
        let (tag, id) = (try store.insert("Tag"), try store.insert("Note"))
        try context.performAndWait {
            let note = try context.existingObject(with: id)
            note.setRelatedObject(context.object(with: tag), forKey: "main")
            try context.save()
            note["text"] = "mine"
            try store.delete(tag)
            context.mergeChanges(fromContextDidSave: ContextDidSave(deleted: [tag]))
            #expect(note.relatedObject(forKey: "main") == nil)
            #expect(note.changedValues() == ["text": .string("mine")])
            try context.save()
        }
        #expect(try store.stored(id, "text") == "mine")
    }

    @Test("A delete that conflicts is carried out once its object was refreshed")
    func refreshedDelete() throws {
        let id = try store.insert("Note", ["text": "a"])
        let strict = store.context(.error)
        try strict.performAndWait {
            let note = try strict.existingObject(with: id)
            strict.delete(note)
            try store.update(id, "text", "b")
            #expect(throws: CoordinatorError.self) { try strict.save() }
            strict.refresh(note, mergeChanges: true)
            #expect(note.isDeleted)
            try strict.save()
        }
        #expect(try !store.isStored(id))
    }

    @Test("An object that the save updates and a cascade deletes is notified as deleted")
    func updatedAndCascaded() throws {
        let ada = try store.insert("Person")
        let told = Mutex<(updated: Set<ManagedObjectID>, deleted: Set<ManagedObjectID>)>(([], []))
        let token = context.observeDidSave { _, ids in
            told.withLock { $0 = (ids.updated, ids.deleted) }
        }
        defer { token.cancel() }
        try context.performAndWait {
            let person = try context.existingObject(with: ada)
            #expect(person.relatedObjects(forKey: "notes").isEmpty)
            // Another context makes one refer to her. This one's to-many does not know of it yet.
            let other = store.context()
            let id = try other.performAndWait {
                let note = other.insert("Note")
                note.setRelatedObject(try other.existingObject(with: ada), forKey: "owner")
                try other.save()
                return note.objectID
            }
            try context.existingObject(with: id)["text"] = "x"
            context.delete(person)
            try context.save()
            #expect(told.withLock { $0.updated.isEmpty })
            #expect(told.withLock { $0.deleted } == [ada, id])
        }
    }

    @Test("A number is brought to its attribute's type, where that can hold it")
    func numbers() throws {
        try context.performAndWait {
            let note = context.insert("Note")
            note["weight"] = 70
            note["ratio"] = 0.1
            note["price"] = 3
            note["count"] = 5.0
            let weight: Double? = note["weight"]
            #expect(weight == 70)
            try context.save()
            context.refresh(note, mergeChanges: false)
            let ratio: Double? = note["ratio"]
            let count: Int64? = note["count"]
            #expect(ratio == Double(Float(0.1)) && count == 5)
            let price: PropertyValue = note["price"]
            #expect(price == .decimal("3"))
            for (key, value) in [("count", 0.5), ("ratio", 1e300)] {
                note.setValue(value, forKey: key)
                #expect(throws: CoordinatorError.self) { try context.save() }
                context.refresh(note, mergeChanges: false)
            }
        }
    }

    private final class Diary: ManagedObject {
        override func awakeFromFetch() {
            guard let context = managedObjectContext else { return }
            context.insert("Tag", ["name": "read"])
        }
    }

    @Test("What is inserted while another object awakes is saved with its values")
    func insertedInAwakening() throws {
        let id = try store.insert("Note")
        try context.performAndWait {
            context.register(Diary.self, for: "Note")
            _ = try context.existingObject(with: id)
            try context.save()
            context.reset()
            let tags = try context.fetch(FetchRequest("Tag"))
            let names: [String?] = tags.map { $0["name"] }
            #expect(names == ["read"])
        }
    }
}
