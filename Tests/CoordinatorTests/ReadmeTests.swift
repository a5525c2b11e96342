// Do the examples of README and documentation do what they say?

import Coordinator
import Foundation
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
                    .init("title", .string, isOptional: false),
                    .init("stars", .integer64, defaultValue: .integer(0)),
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

    @Test("The upkeep that it names collects what was deleted, and keeps the history of it")
    func upkeep() throws {
        let store = try TestStore()
        let coordinator = store.coordinator
        let context = ManagedObjectContext(coordinator)
        try context.performAndWait {
            let item = context.insert("Item")
            try context.save()
            context.delete(item)
            try context.save()
        }

        coordinator.maintain()
        let stable = coordinator.durableVector
        let collected = try coordinator.collect(stable: stable)
        let tended = try coordinator.tendHistory(HistoryLimits(), HistoryKnowledge(stable: stable))

        #expect(collected.tombstonesCollected == 1 && collected.isDone)
        #expect(tended.purged == 0 && tended.isDone)
    }

    @Test("The model in docs/DATA-MODEL.md is one")
    func model() throws {
        let page = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("docs/DATA-MODEL.md")
        let parts = try String(contentsOf: page, encoding: .utf8).components(separatedBy: "```")
        try #require(parts.count == 3)
        let model = try ManagedObjectModel(json: Array(parts[1].utf8))
        let person = try #require(model.entity(named: "Person"))
        #expect(person.uniquenessConstraints.count == 1 && model.entities.count == 1)
        for policy in MergePolicy.allCases { #expect(parts[2].contains("| `\(policy)` |")) }
        for type in AttributeType.allCases { #expect(parts[2].contains("`\(type)`")) }
    }
}
