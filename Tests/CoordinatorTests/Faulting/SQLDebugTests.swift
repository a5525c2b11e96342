import Coordinator
import Logging
import Merge
import Synchronization
import Testing

/// What is written of the SQL that a store runs.
@Suite("SQL debugging")
struct SQLDebugTests {
    /// Collects what is logged.
    private final class Lines: Sendable {
        let lines = Mutex<[String]>([])
        var all: [String] { lines.withLock { $0 } }
    }

    private struct Handler: LogHandler {
        let lines: Lines
        var logLevel = Logger.Level.info
        var metadata: Logger.Metadata = [:]
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }
        func log(event: LogEvent) {
            lines.lines.withLock { $0.append("\(event.level): \(event.message)") }
        }
    }

    private let lines = Lines()

    private func store(_ level: Int, _ change: (inout SQLDebug) -> Void = { _ in }) throws
        -> TestStore
    {
        let lines = lines
        var debug = SQLDebug(
            level: level, logger: Logger(label: "test") { _ in Handler(lines: lines) })
        change(&debug)
        var options = PersistentStoreCoordinator.Options()
        options.sqlDebug = debug
        return try TestStore(options: options)
    }

    @Test("CD-145: each level shows what the one below does, and more", arguments: 1...4)
    func levels(level: Int) throws {
        let store = try store(level)
        for text in ["amber", "blue"] { try store.insert("Item", ["p": text]) }
        let before = lines.all.count
        let context = store.context()
        let found = try context.performAndWait {
            try context.fetch(store.request("Item", where: "p >= 'a'", sort: "p")).count
        }
        #expect(found == 2)
        let written = lines.all.dropFirst(before)
        func count(_ part: String) -> Int { written.count { $0.contains(part) } }
        #expect(count("sql: SELECT t0._id") == 1)
        #expect(count("s for 2 rows") == 1)
        #expect((count("bound: ") > 0) == (level >= 2))
        #expect((count("p >= 'a'") + count("\"p\" >= 'a'") > 0) == (level >= 2))
        #expect((count("details: ") > 0 && count("amber") > 0) == (level >= 3))
        #expect((count("plan: ") > 0) == (level >= 4))
    }

    @Test("Nothing is written where nobody asked for it")
    func off() throws {
        let store = try store(0)
        try store.insert("Item", ["p": "a"])
        #expect(lines.all.isEmpty)
    }

    @Test("What costs more than it gives is warned of, with what would mend it")
    func warnings() throws {
        let store = try store(1) { debug in
            debug.scanLimit = 10
            debug.resultLimit = 20
            debug.faultLimit = 5
        }
        try store.save { context in
            for number in 0..<30 {
                let person = context.insert("Person", ["name": "\(number)"])
                person.add(context.insert("Book", ["title": "x"]), toRelationship: "books")
            }
        }
        let context = store.context()
        try context.performAndWait {
            _ = try context.fetch(store.request("Person", where: "name == '7'"))
            let all = try context.fetch(store.request("Person", sort: "name"))
            for person in all {
                _ = person.relatedObjects(forKey: "books", as: ManagedObject.self)
            }
        }
        func isWarned(_ part: String) -> Bool {
            lines.all.contains { $0.hasPrefix("warning: ") && $0.contains(part) }
        }
        #expect(isWarned("rows were looked at for 1"))
        #expect(isWarned("a temporary b-tree puts 30 rows in order"))
        #expect(isWarned("30 objects of Person were fetched without a limit"))
        #expect(isWarned("Person.books was followed to more than 5 objects"))
    }
}
