import ArgumentParser
import Coordinator
import Foundation
import Merge

/// Fetching through a context, beside GRDB and SQLite alone on the same file.
struct FetchCommand: Measurement {
    static let configuration = CommandConfiguration(
        commandName: "fetch",
        abstract: "Fetches of a context, beside GRDB and a bare SQLite loop on the same file.")

    @OptionGroup var common: CommonOptions

    @Option(help: "How many objects.")
    var objects = 100_000

    @Option(
        help: ArgumentHelp(
            "Hold objects in this way, and print the bytes that they take.", visibility: .private))
    var held: Held?

    @Option(help: ArgumentHelp("The store to hold objects of.", visibility: .private))
    var store: String?

    /// The ways to hold all objects.
    enum Held: String, CaseIterable, ExpressibleByArgument {
        case faults
        case realised
        case batched
    }

    func tables() async throws -> [MarkdownTable] {
        if let held, let store {
            print(try hold(held, store))
            return []
        }
        return try await Workspace.with(common.directory, "fetch") { workspace in
            let path = workspace.file("store.sqlite")
            let coordinator = try Self.store(path, objects)
            defer { coordinator.close() }
            return [
                try lists(coordinator, path), try logged(path), try memory(coordinator, path),
                try relationships(coordinator), try pages(coordinator),
                try findOrCreate(coordinator), try toManys(coordinator),
            ] + (try derived(workspace))
        }
    }

    // MARK: The store

    private static let owners = 1_000
    private static let membersOfOwner = 10

    private static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                SampleData.entityName, mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [
                    .init("count", .integer64), .init("name", .string), .init("note", .string),
                    .init("weight", .double),
                ],
                relationships: [.init("shelf", to: "Shelf", inverse: "items")],
                indexes: [IndexDescription(name: "byName", elements: ["name"])]),
            EntityDescription(
                "Shelf", attributes: [.init("label", .string)],
                relationships: [
                    .init("items", to: SampleData.entityName, inverse: "shelf", isToMany: true)
                ]),
            EntityDescription(
                "Owner", attributes: [.init("name", .string)],
                relationships: [
                    .init("members", to: "Member", inverse: "owner", isToMany: true)
                ]),
            EntityDescription(
                "Member", attributes: [.init("name", .string)],
                relationships: [.init("owner", to: "Owner", inverse: "members")]),
        ])
    }

    /// Items, half of them on one shelf and the rest on a thousand; and owners with their members.
    private static func store(_ path: String, _ objects: Int) throws -> PersistentStoreCoordinator {
        guard let node = NodeID(1) else { throw BenchmarkError("There is no node 1.") }
        let coordinator = try PersistentStoreCoordinator(
            storeAt: path, model: try model(), cluster: "benchmark", node: node)
        let context = ManagedObjectContext(coordinator)
        try context.performAndWait {
            let shelves = (0...1_000).map { number in
                let shelf = context.insert("Shelf")
                shelf["label"] = "shelf \(number)"
                return shelf
            }
            try context.save(SaveOptions(isBulk: true))
            for start in stride(from: 0, to: objects, by: 10_000) {
                for number in start..<min(start + 10_000, objects) {
                    let item = SampleData.Item(number &* 7_919 % 1_000_003)
                    let object = context.insert(SampleData.entityName)
                    object["count"] = item.count
                    object["name"] = item.name
                    object["note"] = item.note
                    object["weight"] = item.weight
                    let place = number.isMultiple(of: 2) ? 0 : number % 1_000 + 1
                    object["shelf"] = PropertyValue.reference(shelves[place].objectID.row)
                }
                try context.save(SaveOptions(isBulk: true))
            }
            for number in 0..<owners {
                let owner = context.insert("Owner")
                owner["name"] = "owner \(number)"
                for place in 0..<membersOfOwner {
                    let member = context.insert("Member")
                    member["name"] = "member \(number).\(place)"
                    member["owner"] = PropertyValue.reference(owner.objectID.row)
                }
            }
            try context.save(SaveOptions(isBulk: true))
            context.reset()
        }
        return coordinator
    }

    /// Rounds of several contenders, which take turns.
    func rounds(_ bodies: [() throws -> Void]) throws -> [[Double]] {
        var times = [[Double]](repeating: [], count: bodies.count)
        for body in bodies { try body() }
        for _ in 0..<common.rounds {
            for (place, body) in bodies.enumerated() {
                times[place].append(try Clocks.measure(body).wall)
            }
        }
        return times
    }

    /// The median of the ratios of pairs.
    static func ratio(_ times: [Double], _ others: [Double]) -> Double {
        Figures.median(zip(times, others).map { $0 / $1 })
    }

    // MARK: Lists

    private static let sql = "SELECT _id, count, name, weight FROM Item ORDER BY name"

    private func lists(
        _ coordinator: PersistentStoreCoordinator, _ path: String
    ) throws -> MarkdownTable {
        let bare = try BareReader(path: path, Self.sql)
        let peer = try GRDBReader(path: path, Self.sql)
        let request = FetchRequest(
            SampleData.entityName, sortDescriptors: [SortDescriptor("name")])
        func touch(_ object: ManagedObject) -> Int {
            let count: Int64? = object["count"]
            let name: String? = object["name"]
            let weight: Double? = object["weight"]
            return Int(count ?? 0) &+ (name?.utf8.count ?? 0) &+ (weight == nil ? 0 : 1)
        }
        let times = try rounds([
            { _ = try bare.sum() },
            { _ = try peer.sumByHand() }, { _ = try peer.sumOfRecords() },
            {
                let count = try coordinator.read { try $0.fetch(request).count }
                guard count == objects else { throw BenchmarkError("The store has \(count).") }
            },
            {
                let context = ManagedObjectContext(coordinator)
                let sum = try context.performAndWait {
                    try context.fetch(request).reduce(0) { $0 &+ touch($1) }
                }
                guard sum != 0 else { throw BenchmarkError("The context read nothing.") }
            },
        ])
        var table = MarkdownTable(
            "\(Figures.text(Double(objects), 0)) objects in order, three properties of each touched",
            columns: ["", "time", "times bare"])
        let names = [
            "bare sqlite3_step", "GRDB, rows decoded by hand", "GRDB, Codable records",
            "rows without objects", "context, objects",
        ]
        table.rows = zip(names, times).map { name, own in
            [
                name, Figures.milliseconds(Figures.median(own)),
                Figures.text(Self.ratio(own, times[0])),
            ]
        }
        table.goals = [
            Goal("rows beside bare", .atMost(1.3), Self.ratio(times[3], times[0]), unit: " times"),
            Goal(
                "objects beside bare", .atMost(2.5), Self.ratio(times[4], times[0]),
                unit: " times"),
            Goal(
                "objects beside GRDB's Codable records", .atMost(1),
                Self.ratio(times[4], times[2]), unit: " times"),
        ]
        return table
    }

    // MARK: Memory

    private static var byName: FetchRequest {
        FetchRequest(SampleData.entityName, sortDescriptors: [SortDescriptor("name")])
    }

    /// What holding all objects takes, in bytes: of a process that does nothing else.
    private func hold(_ held: Held, _ path: String) throws -> Int {
        let coordinator = try PersistentStoreCoordinator(readingStoreAt: path)
        defer { coordinator.close() }
        let context = ManagedObjectContext(coordinator)
        return try context.performAndWait {
            var short = Self.byName
            short.fetchLimit = 100
            _ = try context.fetch(short).map { $0["name"] as String? }
            let before = ProcessGroup(below: [getpid()]).residentBytes
            var kept: [Any] = []
            switch held {
            case .faults: kept = try context.fetch(Self.byName)
            case .realised:
                let objects = try context.fetch(Self.byName)
                for object in objects { _ = object["name"] as String? }
                kept = objects
            case .batched:
                let list = try context.fetch(Self.byName, batchSize: 50)
                _ = list[list.count / 2]["name"] as String?
                kept = [list]
            }
            defer { withExtendedLifetime(kept) {} }
            return Int(ProcessGroup(below: [getpid()]).residentBytes - before)
        }
    }

    /// Has a process of its own hold all objects.
    private func bytes(_ held: Held, _ path: String) throws -> Double {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        process.arguments = ["fetch", "--held", held.rawValue, "--store", path]
        process.standardOutput = output
        try process.run()
        let text = String(
            decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        let line = text.split(separator: "\n").first { Int($0) != nil }
        guard let line, let bytes = Double(line) else {
            throw BenchmarkError("The process that holds objects said: \(text)")
        }
        return bytes
    }

    private func memory(
        _ coordinator: PersistentStoreCoordinator, _ path: String
    ) throws -> MarkdownTable {
        let request = Self.byName
        var short = request
        short.fetchLimit = 1_000
        let faults = try bytes(.faults, path)
        let realised = try bytes(.realised, path)
        let batched = try bytes(.batched, path)
        let opening = try rounds([
            {
                let context = ManagedObjectContext(coordinator)
                try context.performAndWait {
                    _ = try context.fetch(short).first?["name"] as String?
                }
            },
            {
                let context = ManagedObjectContext(coordinator)
                try context.performAndWait {
                    _ = try context.fetch(request, batchSize: 50)[0]["name"] as String?
                }
            },
        ])
        var table = MarkdownTable(
            "What \(Figures.text(Double(objects), 0)) held objects take",
            columns: ["", "bytes an object", "to open"])
        func each(_ total: Double) -> String { Figures.text(total / Double(objects), 0) }
        table.add("faults with their rows", each(faults), "")
        table.add("realised", each(realised), "")
        table.add(
            "a list by batches of 50", each(batched),
            Figures.milliseconds(Figures.median(opening[1])))
        table.add("a list of 1,000", "", Figures.milliseconds(Figures.median(opening[0])))
        table.goals = [
            Goal(
                "bytes of a held object", .atMost(250), realised / Double(objects), unit: ""),
            Goal(
                "a list by batches beside one held whole", .atMost(1.0 / 9), batched / realised,
                unit: " times"),
            Goal(
                "opening it beside a list of 1,000", .atMost(2),
                Self.ratio(opening[1], opening[0]), unit: " times"),
        ]
        return table
    }

    // MARK: Relationships

    private func relationships(
        _ coordinator: PersistentStoreCoordinator
    ) throws -> MarkdownTable {
        func walk(_ keyPaths: [String]) throws {
            coordinator.forgetCachedRows()
            let context = ManagedObjectContext(coordinator)
            let sum = try context.performAndWait {
                var request = FetchRequest("Owner")
                request.relationshipKeyPathsForPrefetching = keyPaths
                return try context.fetch(request).reduce(0) { sum, owner in
                    owner.relatedObjects(forKey: "members", as: ManagedObject.self).reduce(sum) {
                        $0 + (($1["name"] as String?)?.utf8.count ?? 0)
                    }
                }
            }
            guard sum > 0 else { throw BenchmarkError("There are no members.") }
        }
        let times = try rounds([{ try walk([]) }, { try walk(["members"]) }])
        var table = MarkdownTable(
            "\(Self.owners) owners with \(Self.membersOfOwner) members each, all touched",
            columns: ["", "time"])
        table.add("by faults", Figures.milliseconds(Figures.median(times[0])))
        table.add("prefetched", Figures.milliseconds(Figures.median(times[1])))
        table.goals = [
            Goal(
                "faults beside prefetching", .atLeast(20), Self.ratio(times[0], times[1]),
                unit: " times")
        ]
        return table
    }

    // MARK: Pages

    private func pages(_ coordinator: PersistentStoreCoordinator) throws -> MarkdownTable {
        var request = FetchRequest(
            SampleData.entityName, sortDescriptors: [SortDescriptor("name")])
        request.fetchLimit = 25
        let contexts = try [0, 1, 1_000].map { count -> ManagedObjectContext in
            let context = ManagedObjectContext(coordinator)
            try context.performAndWait {
                var some = FetchRequest(SampleData.entityName)
                some.fetchLimit = max(count, 1)
                some.fetchOffset = objects / 3
                for object in try context.fetch(some).prefix(count) { object["note"] = "changed" }
            }
            return context
        }
        let times = try rounds(
            contexts.map { context in
                {
                    try context.performAndWait {
                        for _ in 0..<100 { _ = try context.fetch(request).last?["name"] as String? }
                    }
                }
            })
        var table = MarkdownTable(
            "A page of 25 of \(Figures.text(Double(objects), 0))",
            columns: ["unsaved changes", "time"])
        for (count, times) in zip(["0", "1", "1,000"], times) {
            table.add(count, Figures.milliseconds(Figures.median(times) / 100))
        }
        table.goals = [
            Goal(
                "page with 1 change", .atMost(1.5), Self.ratio(times[1], times[0]), unit: " times"),
            Goal("page with 1,000", .atMost(3), Self.ratio(times[2], times[0]), unit: " times"),
        ]
        return table
    }

    private func findOrCreate(_ coordinator: PersistentStoreCoordinator) throws -> MarkdownTable {
        func create(_ count: Int) throws {
            let context = ManagedObjectContext(coordinator)
            try context.performAndWait {
                for number in 0..<count {
                    let name = "new \(number)"
                    let request = FetchRequest(
                        SampleData.entityName,
                        predicate: try Predicate("name == %@", [.string(name)]), fetchLimit: 1)
                    if try context.fetch(request).isEmpty {
                        context.insert(SampleData.entityName)["name"] = name
                    }
                }
            }
        }
        let times = try rounds([{ try create(2_000) }, { try create(8_000) }])
        var table = MarkdownTable(
            "Find-or-create in one context", columns: ["objects", "time an object"])
        table.add("2,000", Figures.text(Figures.median(times[0]) / 2_000 * 1e6, 1) + " us")
        table.add("8,000", Figures.text(Figures.median(times[1]) / 8_000 * 1e6, 1) + " us")
        table.goals = [
            Goal(
                "time an object, 8,000 beside 2,000", .atMost(1.5),
                Self.ratio(times[1], times[0]) / 4, unit: " times")
        ]
        return table
    }

    // MARK: Conditions over to-manys

    private func toManys(_ coordinator: PersistentStoreCoordinator) throws -> MarkdownTable {
        var table = MarkdownTable(
            "Conditions over to-manys, half of the objects with one owner", columns: ["", "time"])
        var slowest = 0.0
        for format in [
            "ANY shelf.items.count == -5", "NONE shelf.items.count == -5",
            "ALL shelf.items.count >= 0", "shelf.items.@count > 1000",
        ] {
            let request = FetchRequest(
                SampleData.entityName, predicate: try Predicate(format: format))
            let times = try rounds([{ _ = try coordinator.read { try $0.count(request) } }])
            table.add("`\(format)`", Figures.milliseconds(Figures.median(times[0])))
            slowest = max(slowest, Figures.median(times[0]))
        }
        let sorted = FetchRequest(
            SampleData.entityName, sortDescriptors: [SortDescriptor("shelf.items.@count")],
            fetchLimit: 25)
        let times = try rounds([{ _ = try coordinator.read { try $0.fetch(sorted) } }])
        table.add("sorted by `shelf.items.@count`", Figures.milliseconds(Figures.median(times[0])))
        slowest = max(slowest, Figures.median(times[0]))
        table.goals = [
            Goal("slowest to-many", .atMost(200), slowest * 1_000, unit: " ms")
        ]
        return table
    }
}
