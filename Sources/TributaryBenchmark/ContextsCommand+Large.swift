import Coordinator
import Merge

/// One save of all objects: others wait while it is written.
extension ContextsCommand {
    private static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            SampleData.entity(),
            EntityDescription(
                "Shelf", attributes: [.init("label", .string)],
                relationships: [
                    .init(
                        "books", to: "Book", inverse: "shelf", isToMany: true,
                        deleteRule: .cascade)
                ]),
            EntityDescription(
                "Book", attributes: [.init("title", .string)],
                relationships: [.init("shelf", to: "Shelf", inverse: "books")]),
        ])
    }

    func large() async throws -> MarkdownTable {
        var (updates, cascades, deletes) = ([Double](), [Double](), [Double]())
        for _ in 0..<common.rounds {
            try await Workspace.with(common.directory, "contexts") { workspace in
                let store = try SampleData.openStore(
                    at: workspace.file("large.sqlite"), model: try Self.model())
                defer { store.coordinator.close() }
                let context = ManagedObjectContext(store.coordinator)
                try context.performAndWait {
                    updates.append(try updateAll(context))
                    deletes.append(try deleteAll(context))
                    cascades.append(try cascade(context))
                }
            }
        }
        let count = Figures.text(Double(objects), 0)
        var table = MarkdownTable(
            "One save of \(count) objects, durable", columns: ["", "time until it is saved"])
        for (name, times) in [
            ("updates", updates), ("deletes", deletes),
            ("a delete that cascades over all", cascades),
        ] {
            table.add(name, Figures.text(Figures.median(times)) + " s")
        }
        let bound = Goal.Bound.atMost(Double(objects) / 100_000)
        table.goals = [
            Goal("one save of \(count) updates", bound, Figures.median(updates), unit: " s"),
            Goal("one save of \(count) deletes", nil, Figures.median(deletes), unit: " s"),
            Goal(
                "a delete that cascades over \(count)", bound, Figures.median(cascades), unit: " s"),
        ]
        return table
    }

    /// Inserts objects, in saves of 10,000.
    private func insert(
        _ context: ManagedObjectContext, _ body: (Int) -> Void
    ) throws {
        for start in stride(from: 0, to: objects, by: 10_000) {
            for number in start..<min(start + 10_000, objects) { body(number) }
            try context.save()
        }
        context.reset()
    }

    private func updateAll(_ context: ManagedObjectContext) throws -> Double {
        try insert(context) { number in
            let item = SampleData.Item(number)
            let object = context.insert(SampleData.entityName)
            object["count"] = item.count
            object["name"] = item.name
            object["note"] = item.note
            object["weight"] = item.weight
        }
        let held = try context.fetch(FetchRequest(SampleData.entityName))
        return try Clocks.measure {
            for object in held { object["note"] = "another note" }
            try context.save(SaveOptions(isBulk: true))
        }.wall
    }

    private func deleteAll(_ context: ManagedObjectContext) throws -> Double {
        context.reset()
        let held = try context.fetch(FetchRequest(SampleData.entityName))
        return try Clocks.measure {
            for object in held { context.delete(object) }
            try context.save(SaveOptions(isBulk: true))
        }.wall
    }

    private func cascade(_ context: ManagedObjectContext) throws -> Double {
        let shelf = context.insert("Shelf")
        try context.save()
        let id = shelf.objectID
        try insert(context) { number in
            let book = context.insert("Book")
            book["title"] = "book \(number)"
            book["shelf"] = PropertyValue.reference(id.row)
        }
        let found = try context.fetch(FetchRequest("Shelf"))
        guard let shelf = found.first else { throw BenchmarkError("There is no shelf.") }
        return try Clocks.measure {
            context.delete(shelf)
            try context.save(SaveOptions(isBulk: true))
        }.wall
    }
}
