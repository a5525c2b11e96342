import Coordinator
import GRDB
import Merge
import Testing

/// What the advisor says of requests, with SQLite's word for it.
@Suite("Advice about indexes")
struct IndexAdviceTests {
    private static func elements(_ advice: [IndexAdvice]) -> [[String]] {
        advice.map { $0.index.elements.map(\.description) }
    }

    private func advice(
        _ store: TestStore, _ entity: String, where predicate: String? = nil, sort: String...
    ) throws -> [IndexAdvice] {
        try store.coordinator.indexAdvice(
            for: FetchRequest(
                entity, predicate: try predicate.map { try Predicate(format: $0) },
                sortDescriptors: sort.map(SortDescriptor.init(text:))))
    }

    @Test("The properties compared for equality come first, then what is sorted by or a range")
    func order() throws {
        let store = try TestStore()
        #expect(
            Self.elements(try advice(store, "Item", where: "q == 'x' AND n > 3"))
                == [["q", "n"]])
        #expect(
            Self.elements(try advice(store, "Item", where: "q == 'x'", sort: "p", "n"))
                == [["q", "p", "n"]])
        #expect(Self.elements(try advice(store, "Item", where: "p == 'a'")) == [["p"]])
        #expect(
            Self.elements(try advice(store, "Item", where: "n BETWEEN {3, 4}", sort: "n"))
                == [["n"]])
        #expect(Self.elements(try advice(store, "Item", sort: "p")) == [["p"]])
        // Once there is such an index, a context's fetch takes it.
        #expect(Self.elements(try advice(store, "Item", where: "n > 3")) == [["n"]])
        #expect(
            Self.elements(try advice(store, "Item", where: "q == 'x'", sort: "-p", "n"))
                == [["q", "-p", "n"]])
    }

    @Test("What SQLite would not use is not advised")
    func unused() throws {
        let store = try TestStore()
        #expect(try advice(store, "Item", where: "p CONTAINS 'a'").isEmpty)
        #expect(try advice(store, "Item", where: "p == 'a' OR q CONTAINS 'b'").isEmpty)
        #expect(try advice(store, "Item").isEmpty)
        // The reference has an index already.
        #expect(try advice(store, "Item", where: "owner == nil").isEmpty)
    }

    @Test("Decimals are ordered by a collation that no index of a model has, so none is advised")
    func decimals() throws {
        let store = try TestStore(
            try ManagedObjectModel(entities: [
                EntityDescription("Sale", attributes: [.init("sum", .decimal)])
            ]))
        #expect(try advice(store, "Sale", where: "sum > 3").isEmpty)
        #expect(Self.elements(try advice(store, "Sale", where: "sum == 3")) == [["sum"]])
    }

    @Test("The index advised, put in the model, is used as foretold, and is advised no more")
    func cycle() throws {
        let store = try TestStore()
        let found = try advice(store, "Person", where: "name == 'a'", sort: "age")
        let one = try #require(found.first)
        #expect(one.entity == "Person" && one.index.name == "byNameAge")
        let served = try #require(one.served.first)
        #expect(served.planBefore.lines.contains { $0.hasPrefix("SCAN t0") })
        let foretold = served.planAfter.lines
        #expect(foretold == ["SEARCH t0 USING INDEX Person.byNameAge (name=?)"])

        var model = TestStore.peopleModel
        model.indexes = [one.index]
        let indexed = try TestStore(try ManagedObjectModel(entities: [model]))
        #expect(try advice(indexed, "Person", where: "name == 'a'", sort: "age").isEmpty)
        let plan = try DatabaseQueue(path: indexed.coordinator.storePath).read { database in
            try Row.fetchAll(
                database,
                sql: """
                    EXPLAIN QUERY PLAN SELECT * FROM Person AS t0 WHERE name = 'a'
                    ORDER BY age, _id
                    """)
        }
        #expect(plan.map { $0["detail"] as String } == foretold)
    }

    @Test("Requests are served together, with what they took; the beginning of an index joins it")
    func observed() throws {
        let store = try TestStore()
        for number in 0..<10 { try store.insert("Item", ["p": "\(number)", "q": "x"]) }
        let context = store.context()
        try context.performAndWait {
            for _ in 0..<3 { _ = try context.fetch(store.request("Item", where: "p == '1'")) }
            _ = try context.fetch(store.request("Item", where: "p == '1'", sort: "q"))
            _ = try context.fetch(store.request("Person", where: "age == 3"))
            _ = try context.fetch(store.request("Tag"))
        }
        let advice = try store.coordinator.indexAdvice()
        #expect(Set(Self.elements(advice)) == [["p", "q"], ["age"]])
        let joined = try #require(advice.first { $0.entity == "Item" })
        #expect(joined.count == 4)
        #expect(
            Set(joined.served.map(\.request.shape.description)) == ["p = ?", "p = ?, sorted by q"])
        // Advising is no request.
        #expect(try store.coordinator.indexAdvice().map(\.count) == advice.map(\.count))
    }

    @Test("What most requests compare comes first, so that one index serves them all")
    func shared() throws {
        let store = try TestStore()
        let context = store.context()
        try context.performAndWait {
            for predicate in [
                "q == 'x'", "p == 'a' AND q == 'x'", "n == 1 AND p == 'a' AND q == 'x'",
            ] {
                _ = try context.fetch(store.request("Item", where: predicate))
            }
        }
        let advice = try store.coordinator.indexAdvice()
        #expect(Self.elements(advice) == [["q", "p", "n"]])
        #expect(advice.first?.served.count == 3)
    }

    @Test("Its size is within a half of what the index takes once it is made")
    func size() throws {
        let store = try TestStore(isOnDisk: true)
        try store.save { context in
            for number in 0..<3_000 {
                context.insert("Item", ["p": "item number \(number)", "q": "x"])
            }
        }
        let one = try #require(try advice(store, "Item", where: "p == 'a'").first)
        #expect(one.rows == 3_000)
        store.coordinator.close()
        let queue = try DatabaseQueue(path: store.coordinator.storePath)
        let pages = try queue.inDatabase { database in
            let page = try Int.fetchOne(database, sql: "PRAGMA page_size") ?? 0
            func used() throws -> Int {
                try Int.fetchOne(
                    database,
                    sql: "SELECT page_count - freelist_count FROM pragma_page_count, "
                        + "pragma_freelist_count") ?? 0
            }
            let before = try used()
            try database.execute(sql: "CREATE INDEX trial ON Item (p)")
            let size = (try used() - before) * page
            try database.execute(sql: "DROP INDEX trial")
            return size
        }
        #expect(one.bytes > pages / 2 && one.bytes < pages * 3 / 2 + 8_192, "\(one.bytes) \(pages)")
    }

    @Test("An index is advised once for all entities of a hierarchy")
    func hierarchy() throws {
        let store = try TestStore(
            try ManagedObjectModel(entities: [
                EntityDescription("Shape", attributes: [.init("area", .double)]),
                EntityDescription("Circle", parent: "Shape"),
                EntityDescription("Square", parent: "Shape"),
            ]))
        let context = store.context()
        try context.performAndWait {
            for entity in ["Circle", "Square", "Shape"] {
                _ = try context.fetch(store.request(entity, where: "area == 3"))
            }
        }
        let advice = try store.coordinator.indexAdvice()
        #expect(Self.elements(advice) == [["area"]])
        #expect(advice.first?.served.count == 3)
    }

    @Test("Derived attributes can be indexed, so they are advised too")
    func derived() throws {
        func store(_ indexes: [IndexDescription]) throws -> TestStore {
            try TestStore(
                try ManagedObjectModel(entities: [
                    EntityDescription(
                        "Note",
                        attributes: [
                            .init("title", .string), .init("day", .integer64),
                            .init("sortTitle", .string, derivation: .canonical("title")),
                        ], indexes: indexes)
                ]))
        }
        let advice = try advice(try store([]), "Note", where: "day == 3", sort: "sortTitle")
        #expect(Self.elements(advice) == [["day", "sortTitle"]])
        let indexed = try store(advice.map(\.index))
        #expect(try self.advice(indexed, "Note", where: "day == 3", sort: "sortTitle").isEmpty)
    }

    @Test("What ANALYZE has found in the store counts")
    func statistics() throws {
        var model = TestStore.peopleModel
        model.indexes = ["age", "name"].map {
            IndexDescription(name: "by_\($0)", elements: [.init($0)])
        }
        let store = try TestStore(try ManagedObjectModel(entities: [model]), isOnDisk: true)
        try store.save { context in
            for number in 0..<1_000 {
                context.insert("Person", ["name": "\(number)", "age": Int64(3)])
            }
        }
        let request = try store.request("Person", where: "name == 'x' AND age == 3")
        func plan(_ coordinator: PersistentStoreCoordinator) throws -> String? {
            let advice = try coordinator.indexAdvice(for: request)
            #expect(Self.elements(advice) == [["age", "name"]])
            return advice.first?.served.first?.planBefore.lines.first
        }
        #expect(try plan(store.coordinator) == "SEARCH t0 USING INDEX Person.by_age (age=?)")
        let path = store.coordinator.storePath
        store.coordinator.close()
        try DatabaseQueue(path: path).write { try $0.execute(sql: "ANALYZE Person") }
        let analysed = try PersistentStoreCoordinator(readingStoreAt: path)
        // All are of one age, so that its index is of no use.
        #expect(try plan(analysed) == "SEARCH t0 USING INDEX Person.by_name (name=?)")
        analysed.close()
    }

    @Test("A request that makes no sense is refused with what is wrong in it")
    func refused() throws {
        let store = try TestStore()
        #expect(throws: CoordinatorError.self) { try advice(store, "Nobody", where: "p == 'a'") }
        #expect(throws: CoordinatorError.self) { try advice(store, "Item", where: "zzz == 'a'") }
    }

    @Test("A model's names of any length and likeness get different names of indexes")
    func names() throws {
        let long = String(repeating: "x", count: 110)
        let store = try TestStore(
            try ManagedObjectModel(entities: [
                EntityDescription(
                    "Thing",
                    attributes: [.init("\(long)1", .string), .init("\(long)2", .string)],
                    indexes: [IndexDescription(name: "byXxx", elements: ["\(long)1"])]),
                EntityDescription(
                    "Pair",
                    attributes: [.init("ab", .string), .init("a", .string), .init("b", .string)]),
            ]))
        let context = store.context()
        try context.performAndWait {
            for (entity, predicate) in [
                ("Thing", "\(long)2 == 'x'"), ("Thing", "\(long)2 == 'x' AND \(long)1 > 'y'"),
                ("Pair", "ab == 'x'"), ("Pair", "a == 'x' AND b == 'y'"),
            ] { _ = try context.fetch(store.request(entity, where: predicate)) }
        }
        let advice = try store.coordinator.indexAdvice()
        let names = advice.map { "\($0.entity).\($0.index.name)".lowercased() }
        #expect(Set(names).count == names.count && names.count == 3, "\(names)")
        #expect(advice.allSatisfy { $0.index.name.utf8.count <= 120 })
    }
}

extension TestStore {
    /// People by name and age.
    fileprivate static var peopleModel: EntityDescription {
        EntityDescription(
            "Person", attributes: [.init("name", .string), .init("age", .integer64)])
    }
}
