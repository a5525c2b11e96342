import GRDB
import Merge
import Testing

@testable import Coordinator

@Suite("Fetch requests as SQL")
struct FetchCompilerTests {
    private typealias Request = Coordinator.FetchRequest

    private let fixture: FetchingFixture

    init() throws { fixture = try FetchingFixture(seed: 5) }

    private func compile(_ request: Coordinator.FetchRequest) throws -> CompiledFetch {
        try FetchCompiler(model: fixture.model, codes: FetchingFixture.codes, cluster: "demo")
            .compile(request)
    }

    @Test("binds constants and never writes them into the statement")
    func bindings() throws {
        let hostile = "x'); DROP TABLE \"Person\"; --"
        let compiled = try compile(
            Request("Person", predicate: Predicate("name == %@", [.string(hostile)])))
        #expect(
            compiled.sql
                == "SELECT t0._id, t0._entity FROM \"Person\" AS t0 WHERE (t0.\"name\" = ?) "
                + "ORDER BY t0._id")
        #expect(compiled.bindings == [.string(hostile)])
    }

    @Test("refuses names that the model does not have")
    func identifiers() throws {
        for name in ["name\"; --", "_id", "_entity", "rowid", "mood", "title", "name.x", "@sum"] {
            #expect(throws: (any Error).self) {
                try compile(Request("Person", sortDescriptors: [SortDescriptor(name)]))
            }
            #expect(throws: (any Error).self) {
                try compile(Request("Person", predicate: Predicate("%K == 1", [.string(name)])))
            }
        }
        #expect(throws: FetchRequestError.self) { try compile(Request("Person\" --")) }
    }

    @Test(
        "refuses what does not fit the model",
        arguments: [
            "name == 1", "age == 'x'", "name > nil", "reports.name == 'x'", "ANY name == 'x'",
            "manager > 'x-tributary://demo/Person/p7'", "manager == 7",
            "manager == 'x-tributary://other/Person/p7'",
            "manager == 'x-tributary://demo/Group/p7'", "born == 5", "token == 'x'",
            "age BEGINSWITH 'x'", "age ==[c] 1", "name MATCHES '(a'", "name IN {nil}",
            "name IN 'x'", "age BETWEEN {1}", "reports.@count.x == 1", "name.@count == 1",
            "reports.reports.@count > 1", "name == age", "1 == 'x'", "manager == desk",
            "5 LIKE name", "mood == 'x'", "age == 'NaN'", "age + name > 1", "name + 1 > 1",
            "balance / 2 > 1", "balance + weight > 1", "balance > age", "sqrt:(balance) > 1",
            "lowercase:(age) == 'x'", "born + born > 1", "born + '1' > 1", "manager + 1 > 1",
            "reports.@sum.name > 1", "reports.@sum > 1", "age.@max > 1", "@max.age > 1",
            "reports.reports.@max.age > 1", "reports.@max.pets.@count > 1",
            "reports.@unionOfObjects.age > 1", "reports.@max.isMember == YES",
            "SUBQUERY(reports, $x, $x.age > 1) > 1", "SUBQUERY(manager, $x, $x.age > 1).@count > 1",
            "SUBQUERY(reports.pets, $x, $x.age > 1).@count > 1", "$x.age > 1 OR age == 1",
            "SUBQUERY(reports, $x, $x.title == 'a').@count > 1", "ANY age + 1 > 1",
            "SUBQUERY(reports, $x, $x.age > 1).age == 1", "reports == manager",
            "TERNARY(age > 1, age, name) == 1", "TERNARY(age > 1, manager, desk) == nil",
            "CAST(manager, 'string') == 'x'", "CAST(photo, 'integer64') == 1",
            "entity == 'Persn'", "entity.age == 1", "age IN {age, {1}}", "age IN reports",
            "age BETWEEN {age, 1, 2}", "name IN {name, nil}", "manager IN manager",
            "name ==[n] age", "(1 + 2) == {1}", "ANY reports.age > reports.age",
            "count:(age) > 1", "sum:(1) > 1", "nil < 1", "name BEGINSWITH age",
        ])
    func refused(text: String) throws {
        // Some of them are no predicates at all.
        guard let predicate = try? Predicate(format: text, substitutions: ["x": .integer(1)]) else {
            return
        }
        #expect(throws: PredicateError.self) {
            try compile(Request("Person", predicate: predicate))
        }
        let entity = try #require(fixture.model.entity(named: "Person"))
        #expect(throws: PredicateError.self) {
            try PredicateEvaluator(predicate, entity: entity, model: fixture.model, cluster: "demo")
        }
    }

    @Test("a subentity's fetch leaves out its siblings, and its parent's can leave it out")
    func subentities() throws {
        var request = Request("Person")
        let all = try fixture.rows(request)
        request.includesSubentities = false
        let own = try fixture.rows(request)
        let employees = try fixture.rows(Request("Employee"))
        #expect(!employees.isEmpty && !own.isEmpty)
        #expect((own + employees).sorted() == all)
    }

    @Test(
        "a path of many to-manys costs what it comes by, and not the ways there are",
        .timeLimit(.minutes(1)),
        arguments: ["ANY", "NONE", "ALL"])
    func manyToManys(quantifier: String) throws {
        let model = try FetchingFixture.model()
        let node = try EngineNode(model, node: 1)
        let count = 40
        let people = try (0..<count).map { _ in
            try node.insert("Person", ["name": .string("x")]).row
        }
        for _ in 0..<count {
            _ = try node.insert(
                "Group", [:],
                [RelationshipOperation(name: "members", kind: .add, members: people)])
        }
        // 40 to the power of 8 ways.
        let path = Array(repeating: "groups.members", count: 4).joined(separator: ".")
        let name = quantifier == "ALL" ? "x" : "nobody"
        let request = FetchRequest(
            "Person", predicate: try Predicate("\(quantifier) \(path).name == '\(name)'"))
        let found = try node.coordinator.read { try $0.count(request) }
        #expect(found == (quantifier == "ANY" ? 0 : count))
    }

    /// The steps by which SQLite carries out a fetch.
    private func plan(_ request: Coordinator.FetchRequest) throws -> String {
        let compiled = try compile(request)
        return try fixture.queue.read {
            try Row.fetchAll($0, sql: "EXPLAIN QUERY PLAN " + FetchingFixture.bound(compiled))
                .map { $0["detail"] as String }.joined(separator: "\n")
        }
    }

    @Test(
        "a to-many behind a to-one or another to-many is looked through once for all objects",
        arguments: [
            "ANY manager.reports.age == -5", "NONE manager.reports.age == -5",
            "ALL manager.reports.age == -5", "NOT ANY manager.reports.age == -5",
            "ANY groups.members.age > 3", "ANY manager.groups.label == 'x'",
            "manager.reports.@count > 3", "manager.manager.reports.@max.age > 1",
            "SUBQUERY(manager.reports, $x, $x.age > 3).@count > 1",
            "ANY manager.reports.pets.@count > 1", "manager.reports.@sum.balance > 1",
        ])
    func once(text: String) throws {
        let predicate = try Predicate(format: text)
        #expect(try !plan(Request("Person", predicate: predicate)).contains("CORRELATED"))
        // Of an object that is named, what it has is looked at alone.
        let narrow = try Predicate(
            format: "SELF == 'x-tributary://demo/Person/p7' AND NOT (\(text))")
        let compiled = try compile(Request("Person", predicate: narrow))
        #expect(!compiled.sql.contains("GROUP BY") && !compiled.sql.contains("t0.\"manager\" IN"))
    }

    @Test("sorting by a count behind a to-one counts once for all objects")
    func sortsOnce() throws {
        let order = [SortDescriptor("manager.reports.@count")]
        let predicate = try Predicate("manager.reports.@count > 1")
        let compiled = try compile(Request("Person", predicate: predicate, sortDescriptors: order))
        #expect(compiled.sql.split(separator: "GROUP BY").count == 2)
        #expect(
            try !plan(Request("Person", sortDescriptors: order)).contains("CORRELATED"))
    }

    @Test("columns are asked before functions, and those before to-manys")
    func cheapFirst() throws {
        let sql = try compile(
            Request(
                "Person",
                predicate: Predicate(
                    format:
                        "ANY reports.age > 1 AND name LIKE '*a' AND desk.place == 'x' AND age == 1")
            )
        ).sql
        let places = ["\"age\" =", "\"place\"", "tributary_text", "EXISTS"].map {
            sql.firstRange(of: $0)?.lowerBound
        }
        let order = try places.map { try #require($0) }
        #expect(order == order.sorted())
    }

    @Test("an OR across two to-manys gives each object once")
    func eachOnce() throws {
        let rows = try fixture.rows(
            Request(
                "Person",
                predicate: Predicate("ANY groups.label != 'x' OR ANY reports.age != 99")))
        #expect(Set(rows).count == rows.count && !rows.isEmpty)
    }

    @Test("aggregates by group agree with a count by hand")
    func aggregates() throws {
        let request = Request(
            "Animal", sortDescriptors: [SortDescriptor("total", ascending: false)],
            resultType: .dictionary,
            propertiesToFetch: [
                .keyPath("name"), .aggregate(name: "total", function: .sum, keyPath: "age"),
                .aggregate(name: "n", function: .count, keyPath: ""),
                .aggregate(name: "most", function: .max, keyPath: "owner.balance"),
            ], propertiesToGroupBy: ["name"],
            havingPredicate: try Predicate("n >= 1 AND name != 'nobody'"))
        let compiled = try compile(request)
        #expect(compiled.columns.map(\.name) == ["name", "total", "n", "most"])
        #expect(compiled.columns[1].content == .attribute(.integer64))
        #expect(compiled.columns[3].content == .attribute(.decimal))
        let rows = try fixture.queue.read {
            try Row.fetchAll($0, sql: FetchingFixture.bound(compiled))
        }
        var expected: [String: (Int64, Int64)] = [:]
        for animal in fixture.world.rows(of: "Animal") {
            guard case .string(let name)? = animal.values["name"] else { continue }
            var entry = expected[name] ?? (0, 0)
            if case .integer(let age)? = animal.values["age"] { entry.0 += age }
            entry.1 += 1
            expected[name] = entry
        }
        #expect(rows.count == expected.count)
        for row in rows {
            let name: String = row[0]
            #expect(row[1] == expected[name]?.0)
            #expect(row[2] == expected[name]?.1)
        }
        #expect(rows.map { $0[1] as Int64 } == rows.map { $0[1] as Int64 }.sorted(by: >))
    }

    @Test("refuses columns that are neither grouped by nor aggregates, and having without groups")
    func groupingRefusals() throws {
        let total = FetchedProperty.aggregate(name: "total", function: .sum, keyPath: "age")
        let having = try Predicate("total > 1")
        for request in [
            Request(
                "Animal", resultType: .dictionary, propertiesToFetch: [.keyPath("age"), total],
                propertiesToGroupBy: ["name"]),
            Request(
                "Animal", resultType: .dictionary, propertiesToFetch: [.keyPath("age"), total]),
            Request(
                "Animal", resultType: .dictionary, propertiesToFetch: [total],
                havingPredicate: having),
            Request("Animal", propertiesToGroupBy: ["name"]),
            Request("Animal", propertiesToFetch: [total]),
            Request(
                "Animal", resultType: .dictionary,
                propertiesToFetch: [.aggregate(name: "x", function: .sum, keyPath: "name")]),
            Request("Animal", fetchLimit: -1),
        ] {
            #expect(throws: FetchRequestError.self) { try compile(request) }
        }
        #expect(throws: PredicateError.self) {
            try compile(
                Request(
                    "Animal", resultType: .dictionary, propertiesToFetch: [.keyPath("name")],
                    propertiesToGroupBy: ["name"], havingPredicate: try Predicate("age > 1")))
        }
    }

    @Test("distinct results leave out repetitions, in order")
    func distinct() throws {
        var request = Request(
            "Animal", sortDescriptors: [SortDescriptor("name", ascending: false)],
            resultType: .dictionary, propertiesToFetch: [.keyPath("name")])
        request.returnsDistinctResults = true
        let compiled = try compile(request)
        let names = try fixture.queue.read {
            try String.fetchAll($0, sql: FetchingFixture.bound(compiled))
        }
        let expected = Set(
            fixture.world.rows(of: "Animal").compactMap {
                if case .string(let name)? = $0.values["name"] { name } else { nil }
            })
        #expect(names == expected.sorted(by: >))
    }

    @Test("a prefix is searched as a range that an index serves")
    func prefixUsesIndex() throws {
        try fixture.queue.write {
            try $0.execute(sql: "CREATE INDEX byName ON \"Person\" (\"name\")")
        }
        let compiled = try compile(
            Request("Person", predicate: Predicate("name BEGINSWITH 'Bo'"), resultType: .count))
        let plan = try fixture.queue.read {
            try Row.fetchAll($0, sql: "EXPLAIN QUERY PLAN " + FetchingFixture.bound(compiled))
                .map { $0["detail"] as String }.joined()
        }
        #expect(plan.contains("byName"))
    }
}

@Suite("Regular expressions")
struct RegularExpressionTests {
    @Test(
        "match whole texts",
        arguments: [
            ("a*b", "aaab", true), ("a*b", "aaabc", false), ("(ab|c)+", "abcab", true),
            ("[a-c]{2,3}", "abc", true), ("[a-c]{2,3}", "abca", false),
            ("\\d+\\.\\d", "12.5", true),
            ("[^x]*", "abc", true), ("[^x]*", "axc", false), ("", "", true), ("", "a", false),
            ("a|", "", true), ("^a$", "a", true), (".", "\n", false), ("(a?){3}a{3}", "aaa", true),
            ("a{0}", "", true), ("[]a]+", "]a", true), ("x\\u0041", "xA", true),
            ("(?:ab)*?", "abab", true), ("[\\w-]+", "a-b", true),
        ])
    func matches(pattern: String, text: String, isMatch: Bool) throws {
        #expect(try RegularExpression(pattern).matches(text) == isMatch)
    }

    @Test(
        "ranges leave out what they name in either case",
        arguments: [
            ("[^A-Z]+", "BOB", false), ("[^A-Z]+", "bob", false), ("[^a-z]+", "BOB", false),
            ("[^A-Z]+", "12", true), ("[A-Z]+", "bob", true), ("[^A]", "a", false),
        ])
    func ignoresCase(pattern: String, text: String, isMatch: Bool) throws {
        let expression = try RegularExpression(pattern, options: .caseInsensitive)
        #expect(expression.matches(text) == isMatch)
    }

    @Test("patterns that Swift takes for equal are kept apart")
    func cache() throws {
        let cache = RegularExpressionCache()
        let texts = ["\u{E9}", "e\u{301}"]
        for pattern in texts + texts.reversed() {
            let expression = try #require(cache.expression(pattern, []))
            for text in texts {
                #expect(expression.matches(text) == text.utf8.elementsEqual(pattern.utf8))
            }
        }
    }

    @Test(
        "refuses what it does not know",
        arguments: [
            "(", ")", "[a", "*", "a**", "a{2,1}", "a{9999}", "(?=a)", "\\1", "a\\", "[b-a]",
        ])
    func refuses(pattern: String) {
        #expect(throws: PatternError.self) { try RegularExpression(pattern) }
    }

    @Test("patterns that make others backtrack for ages end, and huge ones are refused")
    func bounded() throws {
        let text = String(repeating: "a", count: 5_000) + "!"
        #expect(try !RegularExpression("(a+)+").matches(text))
        #expect(try !RegularExpression("(a|a)*b").matches(text))
        #expect(throws: PatternError.self) { try RegularExpression("((a{100}){100}){100}") }
        #expect(throws: PatternError.self) {
            try RegularExpression(String(repeating: "(", count: 900))
        }
    }

    @Test("[c] and [d] fold what they say", arguments: [("É", "e"), ("ß", "SS"), ("ſ", "s")])
    func folding(left: String, right: String) {
        let both: ComparisonOptions = [.caseInsensitive, .diacriticInsensitive]
        #expect(TextFolding.fold(left, both) == TextFolding.fold(right, both))
        #expect(TextFolding.fold(left, []) == left)
    }
}
