// Does the README's example do what it says?

import Coordinator
import Merge
import Testing

@Suite("The README's example")
struct ReadmeTests {
    @Test("It saves a note and finds it by a predicate")
    func example() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Note", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [
                    AttributeDescription("title", .string, isOptional: false),
                    AttributeDescription("stars", .integer64, defaultValue: .integer(0)),
                ])
        ])
        let store = try TestStore(model)
        let coordinator = store.coordinator

        let context = ManagedObjectContext(coordinator)
        let titles = try context.performAndWait {
            let note = context.insert("Note")
            note["title"] = "Milk"
            try context.save()

            var request = FetchRequest("Note")
            request.predicate = try Predicate(
                "title BEGINSWITH[cd] %@ AND stars < 5", [.string("mi")])
            return try context.fetch(request).map { $0["title"] as String? ?? "" }
        }
        #expect(titles == ["Milk"])
    }
}
