import Coordinator
import Foundation
import Merge

/// Makes a store of contacts and shows them as an application would: a list, sections, groups and a
/// search. Each step says how many statements it ran, and fails if there were more than it needs.
@main
struct ContactList {
    private struct Unexpected: Error, CustomStringConvertible { let description: String }

    private static func expect(_ isTrue: Bool, _ message: String) throws {
        if !isTrue { throw Unexpected(description: message) }
    }

    static func main() async {
        do {
            let folder = FileManager.default.temporaryDirectory
                .appendingPathComponent("contact-list-\(UUID().uuidString)")
            let count = try count(in: Array(CommandLine.arguments.dropFirst()))
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            try await show(count, in: folder)
        } catch {
            FileHandle.standardError.write(Data("contact-list: \(error)\n".utf8))
            exit(1)
        }
    }

    private static func count(in arguments: [String]) throws -> Int {
        if arguments.isEmpty { return 100_000 }
        let count = arguments.count == 2 && arguments[0] == "--count" ? Int(arguments[1]) ?? 0 : 0
        try expect(
            (1_000...10_000_000).contains(count), "usage: contact-list [--count 1000...10000000]")
        return count
    }

    private static func show(_ count: Int, in folder: URL) async throws {
        guard let node = NodeID(1) else { return }
        let coordinator = try PersistentStoreCoordinator(
            storeAt: folder.appendingPathComponent("contacts.sqlite").path,
            model: AddressBook.model(), cluster: "contacts", node: node)
        defer { coordinator.close() }
        try fill(coordinator, with: count)
        let context = ManagedObjectContext(coordinator, classes: AddressBook.classes)
        try context.performAndWait {
            try scroll(context, count)
            try divide(context, count)
            try countGroups(context, count)
        }
        for text in ["m", "ma", "mar", "MARTA n"] { try await search(for: text, context) }
    }

    /// Runs a step on the context's queue, and fails unless it takes so many statements.
    private static func step(
        _ name: String, _ context: ManagedObjectContext, statements expected: UInt64,
        _ work: () throws -> String
    ) throws {
        let (before, clock) = (context.counters.statements, ContinuousClock())
        let start = clock.now
        let result = try work()
        let milliseconds = Int(start.duration(to: clock.now) / .milliseconds(1))
        let statements = context.counters.statements - before
        print("\(name): \(result) (\(statements) statements, \(milliseconds) ms)")
        try expect(statements == expected, "\(name): \(statements) statements, not \(expected)")
    }

    private static let given = ["Ada", "Élan", "Jana", "Márta", "Marie", "Oskar", "Zoë"]
    private static let family = ["Larsen", "Ítalo", "Moreau", "Novák", "Öberg", "Weiß"]

    /// Saves contacts, 2,000 at a time, each time from an empty context.
    private static func fill(_ coordinator: PersistentStoreCoordinator, with count: Int) throws {
        let context = ManagedObjectContext(coordinator, classes: AddressBook.classes)
        try context.performAndWait {
            for name in ["Family", "Friends", "Work"] { context.insert(Group.self)["name"] = name }
            try context.save()
            for start in stride(from: 0, to: count, by: 2_000) {
                let groups = try context.fetch(FetchRequest("Group"), as: Group.self)
                let end = min(start + 2_000, count)
                for number in start..<end {
                    let contact = context.insert(Contact.self)
                    contact.name =
                        "\(given[number % given.count]) \(family[number % family.count]) \(number)"
                    contact.setRelatedObject(groups[number % groups.count], forKey: "group")
                    let photo = context.insert(Photo.self)
                    photo["bytes"] = Data(repeating: UInt8(truncatingIfNeeded: number), count: 64)
                    contact.setRelatedObject(photo, forKey: "photo")
                }
                try context.save()
                context.reset()
                if end % 20_000 == 0 || end == count { print("saved \(end) of \(count) contacts") }
            }
        }
    }

    /// A list knows which contacts there are, and reads the batches that come on the screen.
    private static func scroll(_ context: ManagedObjectContext, _ count: Int) throws {
        let request = FetchRequest("Contact", sortDescriptors: [SortDescriptor("sortName")])
        let list = try context.fetch(request, batchSize: 50, as: Contact.self)
        try step("list", context, statements: 1) {
            let rows = context.counters.rows
            let first = list.prefix(20).map(\.name)[0]
            let read = context.counters.rows - rows
            try expect(list.count == count, "the list has \(list.count) contacts")
            try expect(read == 50, "the first screen read \(read) contacts, more than a batch")
            return "\(list.count) contacts, \(read) read, the first is \(first)"
        }
        try step("scroll", context, statements: 9) {
            "\(list.prefix(500).filter { $0.name.isEmpty }.count) of 500 have no name"
        }
        try step("picture", context, statements: 1) {
            "\(list[499].photo?.bytes.count ?? 0) bytes for \(list[499].name)"
        }
    }

    /// Sections by the first letter.
    private static func divide(_ context: ManagedObjectContext, _ count: Int) throws {
        let order = [SortDescriptor("initial"), SortDescriptor("sortName")]
        let controller = FetchedResultsController<Contact>(
            fetchRequest: FetchRequest("Contact", sortDescriptors: order),
            managedObjectContext: context, sectionNameKeyPath: "initial")
        try step("sections", context, statements: 1) {
            try controller.performFetch()
            let sections = (controller.sections ?? []).map { ($0.name, $0.numberOfObjects) }
            try expect(sections.map(\.1).reduce(0, +) == count, "contacts are in no section")
            return sections.map { "\($0) \($1)" }.joined(separator: ", ")
        }
    }

    /// The groups with how many contacts each has. No contact is read for it.
    private static func countGroups(_ context: ManagedObjectContext, _ count: Int) throws {
        let request = FetchRequest("Group", sortDescriptors: [SortDescriptor("name")])
        try step("groups", context, statements: 1) {
            let groups = try context.fetch(request, as: Group.self)
            try expect(groups.map(\.contactCount).reduce(0, +) == count, "a count is wrong")
            return groups.map { "\($0.name) \($0.contactCount)" }.joined(separator: ", ")
        }
    }

    /// A search field: SQLite works beside the context's queue, and an application cancels the task when
    /// the next letter comes.
    private static func search(for text: String, _ context: ManagedObjectContext) async throws {
        let request = FetchRequest(
            "Contact", predicate: try Predicate("name BEGINSWITH[cd] %@", [.string(text)]),
            sortDescriptors: [SortDescriptor("sortName")], fetchLimit: 20)
        let before = context.counters.statements
        let names = try await context.fetch(request, as: Contact.self) { $0.map(\.name) }
        let statements = context.counters.statements - before
        print("search \(text): \(names.first ?? "nobody"), ... (\(statements) statements)")
        let advice = try context.persistentStoreCoordinator.indexAdvice(for: request)
        try expect(names.count == 20 && statements == 1, "the search found \(names.count)")
        try expect(advice.isEmpty, "the search used no index")
    }
}
