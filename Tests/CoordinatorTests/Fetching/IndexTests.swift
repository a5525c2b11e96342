import GRDB
import Merge
import TestSupport
import Testing

@testable import Coordinator

/// Indexes that a model asks for, by what SQLite's plans say of fetches.
@Suite("Indexes")
struct IndexTests {
    private func node(_ indexes: [IndexDescription]) throws -> EngineNode {
        try EngineNode(Self.model(indexes))
    }

    private static func model(_ indexes: [IndexDescription]) throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Message",
                attributes: [
                    .init("sender", .string), .init("sentAt", .date), .init("size", .integer64),
                    .init("isRead", .boolean, defaultValue: .boolean(false)),
                    .init("state", .string), .init("price", .decimal),
                ], indexes: indexes)
        ])
    }

    private func plan(
        _ node: EngineNode, _ format: String?, _ sort: [SortDescriptor] = [], limit: Int = 0,
        isHeld: Bool = true
    ) throws -> String {
        var request = FetchRequest("Message", sortDescriptors: sort, fetchLimit: limit)
        request.predicate = try format.map { try Predicate(format: $0) }
        return try node.coordinator.read { reader in
            let compiled = try reader.compile(
                request, selecting: ["t0._id"], isHeld: isHeld)
            return try String.fetchAll(
                reader.database, sql: "EXPLAIN QUERY PLAN " + compiled.sql,
                arguments: StatementArguments(compiled.bindings.map { _ in nil as String? }),
                adapter: SuffixRowAdapter(fromIndex: 3)
            ).joined(separator: "; ")
        }
    }

    @Test("C3: one index serves a filter and a sort by two keys of other directions")
    func filterAndSort() throws {
        let sort = [SortDescriptor("sentAt", ascending: false), SortDescriptor("size")]
        let bare = try node([])
        let slow = try plan(bare, "sender == 'a'", sort)
        #expect(slow.contains("SCAN t0"))
        #expect(slow.contains("TEMP B-TREE"))
        let node = try node([
            IndexDescription(
                name: "bySender", elements: ["sender", "-sentAt", "size"])
        ])
        let quick = try plan(node, "sender == 'a'", sort, limit: 25)
        #expect(quick == "SEARCH t0 USING COVERING INDEX Message.bySender (sender=?)")
        // In one direction alone SQLite sorts what is equal in the first key.
        let plain = try self.node([
            IndexDescription(name: "bySender", elements: ["sender", "sentAt", "size"])
        ])
        #expect(try plan(plain, "sender == 'a'", sort).contains("TEMP B-TREE"))
    }

    @Test("An index serves a range without a sort, and a page is taken in the table's order")
    func range() throws {
        let node = try node([
            IndexDescription(name: "bySize", elements: ["sender", "size"]),
            IndexDescription(name: "byTime", elements: ["sentAt"]),
            IndexDescription(name: "byPrice", elements: ["price"]),
            IndexDescription(name: "read", elements: ["state"], predicate: "isRead == YES"),
        ])
        let late = "sentAt > CAST(5, 'NSDate')"
        let sorted = "; USE TEMP B-TREE FOR ORDER BY"
        #expect(
            try plan(node, late)
                == "SEARCH t0 USING COVERING INDEX Message.byTime (sentAt>?)" + sorted)
        #expect(
            try plan(node, "sender == 'a' AND size BETWEEN {1, 2}")
                == "SEARCH t0 USING COVERING INDEX Message.bySize (sender=? AND size>? AND size<?)"
                + sorted)
        // No index serves these, so nothing is put in order.
        for format in ["size > 5", "price > 5", "state > 'a'"] {
            #expect(try plan(node, format) == "SCAN t0")
        }
        // What is given row by row is not held to be sorted.
        #expect(try plan(node, late, isHeld: false) == "SCAN t0")
        #expect(try plan(node, late, limit: 5) == "SCAN t0")
    }

    @Test("An index with a predicate serves the fetches that have its terms, and no others")
    func partial() throws {
        let node = try node([
            IndexDescription(
                name: "unread", elements: ["sentAt"], predicate: "isRead == NO AND size > 10"),
            IndexDescription(
                name: "odd", elements: ["size"],
                predicate: #"state IN {"it's", 'new'} OR price == 1.5"#),
        ])
        let sort = [SortDescriptor("sentAt")]
        for (format, isServed) in [
            ("isRead == NO AND size > 10", true),
            ("sender == 'x' AND size > 10 AND isRead == FALSE", true),
            ("isRead == NO", false), ("isRead == YES AND size > 10", false),
            ("isRead == NO AND size > 11", false), ("isRead == NO OR size > 10", false),
        ] {
            let plan = try plan(node, format, sort)
            #expect(plan.contains("Message.unread") == isServed, "\(format): \(plan)")
        }
        let odd = try plan(
            node, #"(state IN {"it's", 'new'} OR price == 1.5) AND size == 3"#)
        #expect(odd.contains("Message.odd"), "\(odd)")
        for number in 0..<40 {
            try node.insert(
                "Message",
                [
                    "size": .integer(Int64(number)), "isRead": .boolean(number % 3 == 0),
                    "state": .string(number % 5 == 0 ? "it's" : "old"),
                    "price": .decimal(number == 7 ? "1.5" : "2"),
                ])
        }
        func count(_ format: String) throws -> Int {
            let request = FetchRequest("Message", predicate: try Predicate(format: format))
            return try node.coordinator.read { try $0.fetch(request).count }
        }
        #expect(try count("isRead == NO AND size > 10") == 19)
        #expect(try count(#"state IN {"it's", 'new'} OR price == 1.5"#) == 9)
        #expect(try count("isRead == NO AND size > 11") == 18)
    }

    @Test("Indexes are made again where a description changes, and kept where it does not")
    func adoption() throws {
        let first = IndexDescription(name: "i", elements: ["sender", "size"])
        var other = first
        other.elements[1].isAscending = false
        var third = other
        third.predicate = "isRead == NO"
        let node = try node([first])
        let page = "SELECT rootpage FROM sqlite_master WHERE name = 'Message.i'"
        func sql() throws -> Int64 {
            defer { try? node.open() }
            node.close()
            return try node.look(
                "SELECT (instr(sql, 'DESC') > 0) + 2 * (instr(sql, 'WHERE') > 0) "
                    + "FROM sqlite_master WHERE name = 'Message.i'")
        }
        node.close()
        let place = try node.look(page)
        try node.open()
        node.close()
        #expect(try node.look(page) == place)
        try node.open()
        #expect(try sql() == 0)
        for (index, expected) in [(other, Int64(1)), (third, 3), (first, 0)] {
            try node.migrate(to: Self.model([index]), .none)
            #expect(try sql() == expected)
        }
    }

    @Test("A constant with an apostrophe before a mark stands in an index as in a fetch")
    func apostrophes() throws {
        let text = "a'\u{301}b"
        let node = try node([
            IndexDescription(name: "i", elements: ["size"], predicate: "state == \"\(text)\"")
        ])
        try node.insert("Message", ["state": .string(text)])
        let request = FetchRequest(
            "Message", predicate: try Predicate("state == %@", [.string(text)]))
        #expect(try node.coordinator.read { try $0.fetch(request).count } == 1)
    }

    @Test("A model says what an index's predicate cannot be")
    func refusals() throws {
        for format in [
            "size >", "none == 1", "sender BEGINSWITH 'a'", "sender ==[c] 'a'", "size == sentAt",
            "price > 1.5", "size + 1 == 2", "TRUEPREDICATE", "sender MATCHES 'a'",
        ] {
            let error = #expect(throws: ModelError.self) {
                try Self.model([
                    IndexDescription(name: "i", elements: ["size"], predicate: format)
                ])
            }
            #expect(error?.place == "Message index i", "\(format)")
        }
    }

    @Test("A model in JSON says directions and predicates")
    func json() throws {
        let model = try Self.model([
            IndexDescription(
                name: "i", elements: ["sender", .init("size", ascending: false)],
                predicate: "isRead == NO"),
            IndexDescription(name: "j", elements: ["size"]),
        ])
        let text = JSONWriter.text(of: model.jsonValue())
        #expect(text.contains(#""elements":["sender","-size"]"#), "\(text)")
        #expect(try ManagedObjectModel(json: Array(text.utf8)).descriptions == model.descriptions)
        let plain = try Self.model([])
        #expect(plain.versionHash == model.versionHash)
        #expect(plain.modelHash == model.modelHash)
    }
}
