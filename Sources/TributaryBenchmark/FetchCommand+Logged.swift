import Coordinator
import Logging

extension FetchCommand {
    /// Objects of a fetch as in a published log of Core Data's, and what showing the SQL costs.
    func logged(_ path: String) throws -> MarkdownTable {
        let count = min(15_002, objects)
        var request = FetchRequest(SampleData.entityName)
        request.fetchLimit = count
        func fetch(_ coordinator: PersistentStoreCoordinator) throws {
            let context = ManagedObjectContext(coordinator)
            let found = try context.performAndWait { try context.fetch(request).count }
            guard found == count else { throw BenchmarkError("The store has \(found).") }
        }
        var options = PersistentStoreCoordinator.Options()
        options.sqlDebug = nil
        let silent = try PersistentStoreCoordinator(readingStoreAt: path, options: options)
        defer { silent.close() }
        options.sqlDebug = SQLDebug(
            level: 1, logger: Logger(label: "none") { _ in SwiftLogNoOpLogHandler() })
        let shown = try PersistentStoreCoordinator(readingStoreAt: path, options: options)
        defer { shown.close() }
        let bare = try BareReader(
            path: path,
            "SELECT _id, count, name, weight FROM Item ORDER BY _id LIMIT \(count)")
        let times = try rounds([
            { _ = try bare.sum() }, { try fetch(silent) }, { try fetch(shown) },
        ])
        var table = MarkdownTable(
            "\(Figures.text(Double(count), 0)) objects, all in", columns: ["", "time"])
        for (name, own) in zip(
            ["bare sqlite3_step", "context, objects", "with SQL debugging, not written"], times)
        {
            table.add(name, Figures.milliseconds(Figures.median(own)))
        }
        return table
    }
}
