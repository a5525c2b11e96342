import Coordinator
import Merge
import Testing

/// What objects of a context show of their values, before and after a save.
extension ContextConformanceTests {
    @Test("CD-97: the fault of a missing row is a deleted object with null values")
    func missingRow() throws {
        let id = try store.insert("Item", ["p": "a"])
        let object = context.performAndWait { context.object(with: id) }
        try store.delete(id)
        try context.performAndWait {
            let value: PropertyValue = object["p"]
            #expect(value.isNull)
            #expect(object.isDeleted)
            object["p"] = "ghost"
            #expect(!context.hasChanges)
            try context.save()
        }
        #expect(try !store.isStored(id))
        let strict = store.context()
        strict.shouldDeleteInaccessibleFaults = false
        strict.performAndWait {
            let _: PropertyValue = strict.object(with: id)["p"]
            #expect(strict.faultingError?.code == .objectNotFound)
            #expect(throws: CoordinatorError.self) { try strict.save() }
        }
    }

    @Test("CD-98: assigning an equal value is a change, but none to persist, and writes nothing")
    func equalValue() throws {
        let id = try store.insert("Item", ["p": "a"])
        let version = try store.version(of: id)
        let object = try context.existing(id)
        try context.performAndWait {
            object["p"] = "a"
            #expect(context.hasChanges)
            #expect(object.hasChanges)
            #expect(!object.hasPersistentChangedValues)
            try context.save()
            #expect(!context.hasChanges)
        }
        #expect(try store.version(of: id) == version)
    }

    @Test("CD-99: changedValues are since fetch or save; committedValues are the base")
    func changedValues() throws {
        let object = try context.existing(try store.insert("Item", ["p": "a"]))
        try context.performAndWait {
            object["p"] = "b"
            object["q"] = "c"
            #expect(object.changedValues() == ["p": .string("b"), "q": .string("c")])
            #expect(
                object.committedValues(forKeys: ["p", "q"]) == ["p": .string("a"), "q": .null])
            try context.save()
            #expect(object.changedValues().isEmpty)
            #expect(object.committedValues(forKeys: ["q"]) == ["q": .string("c")])
        }
    }

    @Test("CD-8, CD-99: the side of a one-to-one that is kept at the other is a value as well")
    func derivedToOne() throws {
        try context.performAndWait {
            let (ada, passport) = (context.insert("Person"), context.insert("Passport"))
            ada["name"] = "Ada"
            try context.save()
            for (holder, key, target) in [
                (ada, "passport", passport), (passport, "holder", ada),
            ] {
                let reference = PropertyValue.reference(target.objectID.row)
                #expect(holder.changedValues().isEmpty)
                holder.setRelatedObject(target, forKey: key)
                #expect(holder.changedValues() == [key: reference])
                #expect(holder.committedValues(forKeys: [key]) == [key: .null])
                try context.save()
                #expect(holder.changedValues().isEmpty)
                #expect(holder.committedValues(forKeys: [key]) == [key: reference])
                holder.setRelatedObject(nil, forKey: key)
                #expect(holder.changedValues() == [key: .null])
                #expect(holder.committedValues(forKeys: [key]) == [key: reference])
                try context.save()
            }
        }
    }

    @Test("CD-100: an inserted object has a temporary ID until it is saved")
    func temporaryID() throws {
        try context.performAndWait {
            let object = context.insert("Item")
            #expect(object.objectID.isTemporaryID)
            #expect(object.isInserted)
            let temporary = object.objectID
            try context.save()
            #expect(!object.objectID.isTemporaryID)
            #expect(!object.isInserted)
            #expect(context.registeredObject(for: object.objectID) === object)
            #expect(context.registeredObject(for: temporary) == nil)
            #expect(object["n"] == 7)
        }
    }

    @Test("CD-100: an object that a save deleted is inserted again, with all it is given")
    func insertedAgain() throws {
        try context.performAndWait {
            let item = context.insert("Item", ["p": "a"])
            try context.save()
            context.delete(item)
            try context.save()
            context.insert(item)
            #expect(item.committedValues(forKeys: ["p"]) == ["p": .null])
            item["p"] = "a"
            try context.save()
            #expect(try store.stored(item.objectID, "p") == "a")
            context.delete(item)
            try context.save()
            context.insert(item)
            context.delete(item)
            try context.save()
            #expect(item.managedObjectContext == nil)
            #expect(!context.hasChanges)
        }
    }

    @Test("CD-100: references between inserted objects lead to permanent IDs after the save")
    func temporaryReferences() throws {
        try context.performAndWait {
            let person = context.insert("Person", ["name": "Ada"])
            let item = context.insert("Item")
            let tag = context.insert("Tag")
            item.setRelatedObject(person, forKey: "owner")
            item.add(tag, toRelationship: "tags")
            #expect(person.relatedObjects(forKey: "items") == [item])
            try context.save()
            let owner: PropertyValue = item["owner"]
            #expect(owner == .reference(person.objectID.row))
            #expect(item.relatedObject(forKey: "owner") === person)
            #expect(person.relatedObjects(forKey: "items") == [item])
            #expect(tag.relatedObjects(forKey: "items") == [item])
            #expect(try store.storedMembers(person.objectID, "items") == [item.objectID])
            #expect(try store.storedMembers(tag.objectID, "items") == [item.objectID])
        }
    }
}
