import Coordinator
import Foundation
import Merge
import Testing

/// Identities that objects have before they are saved.
@Suite struct ReservedIdentityTests {
    @Test("No two objects get one identity, whether it is given before the save or by it")
    func unique() throws {
        let store = try TestStore()
        var ids = Set<ManagedObjectID>()
        for round in 0..<30 {
            let context = store.context()
            let given = try context.performAndWait {
                let objects = (0..<50).map { context.insert("Item", ["p": "\(round) \($0)"]) }
                if round % 3 == 0 { try context.obtainPermanentIDs(for: objects) }
                if round % 3 == 1 { try context.obtainPermanentIDs(for: [objects[round]]) }
                let early = objects.map(\.objectID).filter { !$0.isTemporaryID }
                // Some are given up, and their identities are never used.
                if round % 6 == 3 { return early }
                try context.save()
                let saved = objects.map(\.objectID)
                #expect(Set(early).isSubset(of: saved))
                return saved
            }
            for id in given { #expect(ids.insert(id).inserted) }
        }
    }

    @Test("An identity that is reserved is not given by a later opening of the store")
    func reopening() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            "tributary-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let container = PersistentContainer(
            name: "Reserved", managedObjectModel: try TestStore.standardModel())
        container.persistentStoreDescription.path = folder.appendingPathComponent("s.sqlite").path
        var ids = Set<ManagedObjectID>()
        for _ in 0..<4 {
            try container.loadPersistentStores()
            let context = container.newBackgroundContext()
            let found = try context.performAndWait {
                let objects = (0..<5).map { _ in context.insert("Item") }
                try context.obtainPermanentIDs(for: Array(objects[0..<3]))
                let early = objects[0..<2].map(\.objectID)
                for object in objects[0..<2] { context.delete(object) }
                try context.save()
                return early + objects[2...].map(\.objectID)
            }
            for id in found { #expect(ids.insert(id).inserted) }
            container.close()
        }
        #expect(ids.count == 20)
    }

    @Test("Objects with given identities become one with stored ones of their key, as others do")
    func upsert() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "User", attributes: [.init("mail", .string), .init("note", .string)],
                relationships: [.init("friend", to: "User")], uniquenessConstraints: [["mail"]])
        ])
        let store = try TestStore(model)
        let stored = try store.insert("User", ["mail": "a"])
        let context = store.context(.mergeByPropertyObjectTrump)
        try context.performAndWait {
            let user = context.insert("User", ["mail": "a", "note": "new"])
            let friend = context.insert("User", ["mail": "b"])
            friend.setRelatedObject(user, forKey: "friend")
            try context.obtainPermanentIDs(for: [user, friend])
            try context.save()
            #expect(friend["friend"] == PropertyValue.reference(stored.row))
        }
        #expect(try store.stored(stored, "note") == "new")
    }
}
