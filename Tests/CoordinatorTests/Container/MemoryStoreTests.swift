import Coordinator
import Foundation
import GRDB
import Merge
import Testing

/// Stores in memory, and stores that are removed or replaced.
@Suite struct MemoryStoreTests {
    private static let folders = "/dev/shm"

    private static func isThere(_ coordinator: PersistentStoreCoordinator) -> Bool {
        FileManager.default.fileExists(atPath: coordinator.storePath)
    }

    private static func insert(
        _ name: String, _ coordinator: PersistentStoreCoordinator
    ) throws {
        let context = ManagedObjectContext(coordinator)
        try context.performAndWait {
            context.insert("Item")["p"] = name
            try context.save()
        }
    }

    private static func names(_ coordinator: PersistentStoreCoordinator) throws -> [String] {
        let context = ManagedObjectContext(coordinator)
        return try context.performAndWait {
            try context.fetch(FetchRequest("Item")).compactMap { $0["p"] as String? }.sorted()
        }
    }

    /// Calls a body with a folder that is removed afterwards.
    private static func withFolder(_ body: (String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tributary-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder.path)
    }

    private static func open(_ path: String) throws -> PersistentStoreCoordinator {
        try PersistentStoreCoordinator(
            storeAt: path, model: TestStore.standardModel(), cluster: "local", node: .first)
    }

    // MARK: In memory

    @Test("A container's store in memory is new each time, and gone when it is closed")
    func container() throws {
        let container = PersistentContainer(
            name: "Notes", managedObjectModel: try TestStore.standardModel())
        container.persistentStoreDescription = .inMemory()
        for _ in 0..<2 {
            try container.loadPersistentStores()
            let coordinator = container.persistentStoreCoordinator
            #expect(coordinator.storePath.hasPrefix(Self.folders))
            #expect(try Self.names(coordinator) == [])
            try Self.insert("a", coordinator)
            #expect(try Self.names(coordinator) == ["a"])
            #expect(Self.isThere(coordinator))
            container.close()
            #expect(!Self.isThere(coordinator))
        }
    }

    @Test("A store in memory that is read only, or has a path, is refused")
    func contradictions() throws {
        for change: (inout PersistentStoreDescription) -> Void in [
            { $0.isReadOnly = true }, { $0.path = "/tmp/notes.sqlite" },
        ] {
            let container = PersistentContainer(
                name: "Notes", managedObjectModel: try TestStore.standardModel())
            var description = PersistentStoreDescription.inMemory()
            change(&description)
            container.persistentStoreDescription = description
            let error = try #require(throws: CoordinatorError.self) {
                try container.loadPersistentStores()
            }
            #expect(error.code == .malformed)
        }
    }

    @Test("It goes with the last reference, and one that is open stays")
    func released() throws {
        let open = try PersistentStoreCoordinator(inMemory: TestStore.standardModel())
        try Self.insert("a", open)
        var other: PersistentStoreCoordinator? = try PersistentStoreCoordinator(
            inMemory: TestStore.standardModel())
        let path = try #require(other?.storePath)
        #expect(path != open.storePath)
        other = nil
        #expect(!FileManager.default.fileExists(atPath: path))
        #expect(try Self.names(open) == ["a"])
    }

    @Test("What a killed program left is swept away by the next store")
    func swept() throws {
        let left = "\(Self.folders)/tributary-memory-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: left, withIntermediateDirectories: false)
        let coordinator = try PersistentStoreCoordinator(inMemory: TestStore.standardModel())
        #expect(!FileManager.default.fileExists(atPath: left))
        #expect(Self.isThere(coordinator))
    }

    @Test("CD-60: a store in memory has query generations, as one on a disk has")
    func pinned() throws {
        let coordinator = try PersistentStoreCoordinator(inMemory: TestStore.standardModel())
        try Self.insert("a", coordinator)
        let context = ManagedObjectContext(coordinator)
        let before = try context.performAndWait { () throws -> Int in
            context.setQueryGeneration(from: .current)
            return try context.count(for: FetchRequest("Item"))
        }
        #expect(before == 1)
        try Self.insert("b", coordinator)
        let seen = try context.performAndWait { try context.count(for: FetchRequest("Item")) }
        #expect(seen == 1)
        #expect(try Self.names(coordinator) == ["a", "b"])
    }

    @Test("It can be backed up, and a store on a disk be made of it")
    func backedUp() throws {
        try Self.withFolder { folder in
            let coordinator = try PersistentStoreCoordinator(inMemory: TestStore.standardModel())
            try Self.insert("a", coordinator)
            _ = try coordinator.backUp(to: folder + "/copy.sqlite")
            coordinator.close()
            let kept = try Self.open(folder + "/copy.sqlite")
            #expect(try Self.names(kept) == ["a"])
        }
    }

    // MARK: Removing and replacing

    @Test("CD-119: a store that is destroyed and added again is empty")
    func destroyed() throws {
        try Self.withFolder { folder in
            let path = folder + "/store.sqlite"
            let first = try Self.open(path)
            try Self.insert("a", first)
            let before = try #require(first.actor)
            first.close()
            try PersistentStoreCoordinator.destroyPersistentStore(at: path)
            #expect(!FileManager.default.fileExists(atPath: path))
            let second = try Self.open(path)
            #expect(try Self.names(second) == [])
            // A node never uses an incarnation twice.
            #expect(try #require(second.actor).incarnation > before.incarnation)
            try Self.insert("b", second)
            #expect(try Self.names(second) == ["b"])
        }
    }

    @Test("CD-119: replacing onto a missing destination copies")
    func copied() throws {
        try Self.withFolder { folder in
            let (from, to) = (folder + "/seed.sqlite", folder + "/store.sqlite")
            let seed = try Self.open(from)
            try Self.insert("seed", seed)
            seed.close()
            try PersistentStoreCoordinator.replacePersistentStore(
                at: to, withPersistentStoreFrom: from)
            let copy = try Self.open(to)
            #expect(try Self.names(copy) == ["seed"])
            try Self.insert("more", copy)
            copy.close()
            #expect(try Self.names(Self.open(from)) == ["seed"])
            // And onto one that is there: its objects are gone.
            try PersistentStoreCoordinator.replacePersistentStore(
                at: to, withPersistentStoreFrom: from)
            #expect(try Self.names(Self.open(to)) == ["seed"])
            let left = try FileManager.default.contentsOfDirectory(atPath: folder)
            #expect(!left.contains { $0.contains("before-restore") })
        }
    }

    @Test("A store that is open is neither destroyed nor replaced nor copied")
    func inUse() throws {
        try Self.withFolder { folder in
            let (one, two) = (folder + "/one.sqlite", folder + "/two.sqlite")
            let open = try Self.open(one)
            try Self.insert("a", open)
            try Self.insert("b", Self.open(two))
            let attempts: [() throws -> Void] = [
                { try PersistentStoreCoordinator.destroyPersistentStore(at: one) },
                {
                    try PersistentStoreCoordinator.replacePersistentStore(
                        at: one, withPersistentStoreFrom: two)
                },
                {
                    try PersistentStoreCoordinator.replacePersistentStore(
                        at: two, withPersistentStoreFrom: one)
                },
            ]
            for attempt in attempts {
                let error = try #require(throws: CoordinatorError.self) { try attempt() }
                #expect(error.code == .storeInUse)
            }
            #expect(try Self.names(open) == ["a"])
            open.close()
            #expect(try Self.names(Self.open(two)) == ["b"])
        }
    }

    @Test(
        "What is no store is neither destroyed nor replaced, whatever it looks like",
        arguments: ["text", "short", "database"])
    func strangers(_ kind: String) throws {
        try Self.withFolder { folder in
            let (path, seed) = (folder + "/notes.db", folder + "/seed.sqlite")
            let made = try Self.open(seed)
            made.close()
            var other: DatabasePool?
            switch kind {
            case "text":
                try Data(repeating: 65, count: 5_000).write(to: URL(fileURLWithPath: path))
            case "short": try Data("ten bytes.".utf8).write(to: URL(fileURLWithPath: path))
            default:
                other = try DatabasePool(path: path)
                try other?.write { try $0.execute(sql: "CREATE TABLE theirs (a); ") }
            }
            let before = try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
            for attempt: () throws -> Void in [
                { try PersistentStoreCoordinator.destroyPersistentStore(at: path) },
                {
                    try PersistentStoreCoordinator.replacePersistentStore(
                        at: path, withPersistentStoreFrom: seed)
                },
                {
                    try PersistentStoreCoordinator.replacePersistentStore(
                        at: folder + "/new.sqlite", withPersistentStoreFrom: path)
                },
            ] {
                let error = try #require(throws: CoordinatorError.self) { try attempt() }
                #expect(error.code == .storeLayout)
            }
            let after = try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
            #expect(after == before)
            let count = try other?.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM theirs") }
            #expect(count == (other == nil ? nil : 0))
        }
    }

    @Test("What a restoring left is destroyed with the store")
    func leftovers() throws {
        try Self.withFolder { folder in
            let path = folder + "/store.sqlite"
            let first = try Self.open(path)
            try Self.insert("a", first)
            first.close()
            try FileManager.default.copyItem(atPath: path, toPath: path + "-restored")
            try FileManager.default.removeItem(atPath: path)
            try PersistentStoreCoordinator.destroyPersistentStore(at: path)
            #expect(try Self.names(Self.open(path)) == [])
        }
    }

    @Test("What is no store is not destroyed; where there is nothing, nothing is done")
    func others() throws {
        try Self.withFolder { folder in
            let path = folder + "/notes.txt"
            let text = Data("SQLite format 3\u{0}".utf8) + Data(repeating: 7, count: 8_192)
            try text.write(to: URL(fileURLWithPath: path))
            let error = try #require(throws: CoordinatorError.self) {
                try PersistentStoreCoordinator.destroyPersistentStore(at: path)
            }
            #expect(error.code == .storeLayout)
            #expect(FileManager.default.fileExists(atPath: path))
            try PersistentStoreCoordinator.destroyPersistentStore(at: folder + "/none.sqlite")
            #expect(!FileManager.default.fileExists(atPath: folder + "/none.sqlite-lock"))
            let missing = try #require(throws: CoordinatorError.self) {
                try PersistentStoreCoordinator.replacePersistentStore(
                    at: path, withPersistentStoreFrom: folder + "/none.sqlite")
            }
            #expect(missing.code == .inputOutput)
            #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == text)
        }
    }
}
