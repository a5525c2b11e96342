import Coordinator
import Merge

extension FetchCommand {
    // MARK: Derived attributes

    private static let contact = "Contact"
    /// How many names begin alike.
    private static let alike = 1_000

    private static func derivingModel() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                contact,
                attributes: [
                    .init("count", .integer64), .init("name", .string), .init("nickname", .string),
                    .init("weight", .double),
                    .init("canonicalName", .string, derivation: .canonical("name")),
                ],
                indexes: [IndexDescription(name: "byName", elements: ["canonicalName"])]),
            EntityDescription(
                "Drawer",
                attributes: [
                    .init("pieceCount", .integer64, derivation: .count(relationship: "pieces")),
                    .init(
                        "total", .integer64,
                        derivation: .sum(relationship: "pieces", attribute: "amount")),
                ],
                relationships: [
                    .init("pieces", to: "Piece", inverse: "drawer", isToMany: true)
                ]),
            EntityDescription(
                "Piece", attributes: [.init("amount", .integer64)],
                relationships: [.init("drawer", to: "Drawer", inverse: "pieces")]),
        ])
    }

    private static func fill(_ coordinator: PersistentStoreCoordinator, _ objects: Int) throws {
        let context = ManagedObjectContext(coordinator)
        try context.performAndWait {
            for start in stride(from: 0, to: objects, by: 10_000) {
                for number in start..<min(start + 10_000, objects) {
                    let object = context.insert(contact)
                    let name = "Ämilie \(number % (objects / alike)), \(number)"
                    object["count"] = Int64(number)
                    object["name"] = name
                    object["nickname"] = name
                    object["weight"] = Double(number)
                }
                try context.save(SaveOptions(isBulk: true))
                context.reset()
            }
        }
    }

    /// Searches without case and diacritics through a derived attribute, and what keeping one costs.
    func derived(_ workspace: Workspace) throws -> [MarkdownTable] {
        guard let node = NodeID(1) else { throw BenchmarkError("There is no node 1.") }
        let path = workspace.file("derived.sqlite")
        let coordinator = try PersistentStoreCoordinator(
            storeAt: path, model: try Self.derivingModel(), cluster: "benchmark", node: node)
        defer { coordinator.close() }
        try Self.fill(coordinator, objects)
        return [try search(coordinator, path), try keeping(coordinator)]
    }

    private func search(
        _ coordinator: PersistentStoreCoordinator, _ path: String
    ) throws -> MarkdownTable {
        let bare = try BareReader(
            path: path,
            """
            SELECT _id, count, name, weight FROM Contact
            WHERE canonicalName >= 'amilie 7,' AND canonicalName < 'amilie 7-' ORDER BY _id
            """)
        func search(_ key: String) throws -> FetchRequest {
            FetchRequest(
                Self.contact,
                predicate: try Predicate("\(key) BEGINSWITH[cd] %@", [.string("ÄMILIE 7,")]))
        }
        let (derived, plain) = (try search("name"), try search("nickname"))
        func fetch(_ request: FetchRequest) throws {
            let context = ManagedObjectContext(coordinator)
            let count = try context.performAndWait {
                try context.fetch(request).count { ($0["name"] as String?) != nil }
            }
            guard count == Self.alike else { throw BenchmarkError("The search gave \(count).") }
        }
        let times = try rounds([
            { _ = try bare.sum() },
            { _ = try coordinator.read { try $0.fetch(derived).count } },
            { try fetch(derived) }, { try fetch(plain) },
        ])
        var table = MarkdownTable(
            "\(Figures.text(Double(Self.alike), 0)) of \(Figures.text(Double(objects), 0)) by a "
                + "prefix, without case and diacritics", columns: ["", "time", "times bare"])
        let names = [
            "bare sqlite3_step over the range", "rows, through a derived attribute",
            "context, objects, through a derived attribute", "context, objects, without one",
        ]
        table.rows = zip(names, times).map { name, own in
            [
                name, Figures.milliseconds(Figures.median(own)),
                Figures.text(Self.ratio(own, times[0])),
            ]
        }
        table.goals = [
            Goal("prefix beside bare", .atMost(2), Self.ratio(times[1], times[0]), unit: " times")
        ]
        return table
    }

    /// Saves of one member, beside few and beside many.
    private func keeping(_ coordinator: PersistentStoreCoordinator) throws -> MarkdownTable {
        func drawer(_ pieces: Int) throws -> RowID {
            let context = ManagedObjectContext(coordinator)
            return try context.performAndWait {
                let drawer = context.insert("Drawer")
                try context.save()
                for start in stride(from: 0, to: pieces, by: 10_000) {
                    for number in start..<min(start + 10_000, pieces) {
                        let piece = context.insert("Piece")
                        piece["amount"] = Int64(number)
                        piece["drawer"] = PropertyValue.reference(drawer.objectID.row)
                    }
                    try context.save(SaveOptions(isBulk: true))
                }
                return drawer.objectID.row
            }
        }
        func add(_ drawer: RowID) throws {
            let context = ManagedObjectContext(coordinator)
            try context.performAndWait {
                for _ in 0..<20 {
                    let piece = context.insert("Piece")
                    piece["amount"] = 1
                    piece["drawer"] = PropertyValue.reference(drawer)
                    try context.save()
                }
            }
        }
        let (few, many) = (try drawer(10), try drawer(objects))
        let times = try rounds([{ try add(few) }, { try add(many) }])
        var table = MarkdownTable(
            "A save of one object that an owner counts and sums up", columns: ["members", "time"])
        table.add("10", Figures.milliseconds(Figures.median(times[0]) / 20))
        table.add(
            Figures.text(Double(objects), 0), Figures.milliseconds(Figures.median(times[1]) / 20))
        return table
    }
}
