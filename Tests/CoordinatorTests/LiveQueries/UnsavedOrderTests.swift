import Coordinator
import Testing

@Suite("The order of a fetch with unsaved changes of other objects") struct UnsavedOrderTests {
    @Test("Sort keys show an owner's unsaved name, also if no fetched object has changes")
    func unsavedOwner() throws {
        let (store, context) = try TestStore.withContext()
        try store.save { context in
            for name in ["a", "b"] {
                let person = context.insert("Person", ["name": name])
                context.insert("Item", ["p": "of \(name)"]).setRelatedObject(
                    person, forKey: "owner")
            }
        }
        let request = try store.request("Item", sort: "owner.name")
        try context.performAndWait {
            func names() throws -> [String?] { try context.fetch(request).map { $0["p"] } }
            #expect(try names() == ["of a", "of b"])
            let owners = try context.fetch(store.request("Person", where: "name == 'a'"))
            owners.first?["name"] = "c"
            #expect(try names() == ["of b", "of a"])
            #expect(
                try context.fetchObjectIDs(request) == context.fetch(request).map(\.objectID))
            // The same with a change of another object.
            context.insert("Item", ["p": "of nobody"])
            #expect(try names() == ["of nobody", "of b", "of a"])
        }
    }
}
