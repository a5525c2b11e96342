import Merge
import Testing

@testable import Coordinator

/// What predicates hold of, written down by hand; each is asked of SQL and of memory.
@Suite("Predicates hold of")
struct PredicateLanguageTests {
    private typealias Request = Coordinator.FetchRequest

    /// The people that match, by their numbers.
    private func found(_ text: String, _ fixture: FetchingFixture) throws -> [Int64] {
        let predicate = try Predicate(format: text)
        let rows = try fixture.rows(Request("Person", predicate: predicate))
        let entity = try #require(fixture.model.entity(named: "Person"))
        let evaluator = try PredicateEvaluator(
            predicate, entity: entity, model: fixture.model, cluster: "demo",
            now: FetchingFixture.now)
        let people = fixture.world.rows(of: "Person")
        let expected = try people.filter { try evaluator.matches($0) }.map(\.row.rawValue)
        #expect(rows == expected, "SQL and memory differ: \(text)")
        return rows
    }

    /// People 1, 2, ... with values of one attribute.
    private func people(
        _ attribute: String, _ values: [PropertyValue]
    ) throws -> FetchingFixture {
        try FetchingFixture { world in
            for (number, value) in zip(Int64(1)..., values) {
                world.insert("Person", number).values[attribute] = value
            }
        }
    }

    /// 1 leads 2, 3 and 4, of whom 4 has no age; 2 leads 5; 6 has neither manager nor reports.
    private func family() throws -> FetchingFixture {
        try FetchingFixture { world in
            let ages: [PropertyValue] = [
                .integer(50), .integer(30), .integer(20), .null, .integer(1), .integer(9),
            ]
            for (number, age) in zip(Int64(1)..., ages) {
                let person = world.insert(number == 5 ? "Employee" : "Person", number)
                person.values["age"] = age
                person.values["name"] = .string("p\(number)")
                person.values["balance"] = age.isNull ? .null : .decimal("0.\(number)")
            }
            for (number, manager) in [(1, 0), (2, 0), (3, 0), (4, 1)] {
                world.objects[number].references["manager"] = world.objects[manager]
            }
        }
    }

    @Test(
        "CD-128: BETWEEN with expressions is inclusive, and unknown where it hangs on a nil",
        arguments: [
            ("age BETWEEN {manager.age - 20, manager.age}", [2]),
            ("NOT age BETWEEN {manager.age - 20, manager.age}", [3, 5]),
            ("NOT age BETWEEN {100, manager.age}", [1, 2, 3, 5, 6]),
            ("5 BETWEEN {1, age}", [1, 2, 3, 6]), ("age IN {manager.age - 20, 9}", [2, 6]),
            ("NOT age IN {manager.age, 9}", [2, 3, 5]),
        ] as [(String, [Int64])])
    func ranges(text: String, expected: [Int64]) throws {
        #expect(try found(text, family()) == expected)
    }

    @Test(
        "CD-129: quantifiers over no objects, and over unknown values",
        arguments: [
            ("ANY reports.age > 0", [1, 2]), ("NONE reports.age > 0", [3, 4, 5, 6]),
            ("ALL reports.age > 0", [2, 3, 4, 5, 6]), ("ANY manager.reports.age > 25", [2, 3, 4]),
            ("NOT ANY manager.reports.age > 25", [1, 5, 6]),
            ("NONE manager.reports.age > 25", [1, 5, 6]),
            ("NOT NONE manager.reports.age > 25", [2, 3, 4]),
            ("ALL manager.reports.age < 10", [1, 5, 6]),
            ("NOT ALL manager.reports.age < 10", [2, 3, 4]),
            ("ANY reports.reports.age == 1", [1]),
            ("ALL reports.reports.age == 2", [3, 4, 5, 6, 2]),
            ("ANY reports.age < age - 25", [1, 2]), ("ALL reports.age < age", [2, 3, 4, 5, 6]),
            ("ANY reports.reports.@count > 0", [1]), ("manager IN manager.manager.reports", [5]),
        ] as [(String, [Int64])])
    func quantifiers(text: String, expected: [Int64]) throws {
        #expect(try found(text, family()) == expected.sorted())
    }

    @Test(
        "CD-131: aggregates of none and of nils",
        arguments: [
            ("reports.@count == 0", [3, 4, 5, 6]), ("reports.@sum.age == 0", [3, 4, 5, 6]),
            ("reports.@sum.age == 50", [1]), ("reports.age.@avg == 25", [1]),
            ("reports.@max.age == nil", [3, 4, 5, 6]), ("reports.@min.age == 20", [1]),
            ("reports.@avg.age == nil", [3, 4, 5, 6]), ("NOT reports.@max.age > 100", [1, 2]),
            ("manager.reports.@sum.age == 0", [1, 6]),
            ("manager.reports.@sum.age == 50", [2, 3, 4]),
            ("manager.reports.@sum.balance == '0.5'", [2, 3, 4, 5]),
            ("manager.reports.@sum.balance == 0", [1, 6]),
            ("manager.reports.@avg.balance == '0.25'", [2, 3, 4]),
            ("manager.reports.@max.age == nil", [1, 6]), ("sum:(reports.age) == 1", [2]),
            ("manager.reports.@count == 0", [1, 6]), ("manager.reports.@count == 3", [2, 3, 4]),
            ("reports.@distinctUnionOfObjects.age.@count == 2", [1]),
            ("SUBQUERY(reports, $x, $x.age > 0).@count == 2", [1]),
            ("SUBQUERY(reports, $x, $x.age > 0).@sum.age == 50", [1]),
            ("SUBQUERY(reports, $x, $x.age > 99).@max.age == nil", [1, 2, 3, 4, 5, 6]),
            ("SUBQUERY(manager.reports, $x, $x != SELF).@count == 2", [2, 3, 4]),
            ("SUBQUERY(reports, $x, $x.reports.@count == 1).@count == 1", [1]),
            (
                "SUBQUERY(reports, $x, SUBQUERY($x.reports, $y, $y.age < $x.age AND age > 40)"
                    + ".@count > 0).@count > 0", [1]
            ),
        ] as [(String, [Int64])])
    func aggregates(text: String, expected: [Int64]) throws {
        #expect(try found(text, family()) == expected)
    }

    @Test(
        "CD-131: what is unknown because of a nil",
        arguments: [
            ("age != 50", [2, 3, 5, 6]), ("age == nil", [4]), ("age + 1 != 51", [2, 3, 5, 6]),
            ("age + nil == 1", []), ("NOT age + 1 == 51", [2, 3, 5, 6]),
            ("age / 0 == nil", [1, 2, 3, 4, 5, 6]), ("TERNARY(age > 25, 1, 2) == 2", [3, 4, 5, 6]),
            ("manager.age - age == 20", [2]), ("1 == 1", [1, 2, 3, 4, 5, 6]), ("1 == nil", []),
            ("nil == nil", [1, 2, 3, 4, 5, 6]), ("entity == 'Employee'", [5]),
            ("entity.name != 'Employee'", [1, 2, 3, 4, 6]),
            ("manager.entity == 'Person'", [2, 3, 4, 5]),
            ("objectID == 'x-tributary://demo/Person/p3'", [3]), ("manager.self == nil", [1, 6]),
            ("name ENDSWITH CAST(age / 10 - 1, 'string')", [2]),
            ("name ENDSWITH CAST(age / 10 - 4, 'string')", [1]),
            ("name MATCHES CAST(age, 'string')", []), ("'p1,p3' CONTAINS name", [1, 3]),
            ("name LIKE name", [1, 2, 3, 4, 5, 6]), ("age ** 2 == 900", [2]),
            ("modulus:by:(age, 20) == 10", [1, 2]), ("-age < -20", [1, 2]),
        ] as [(String, [Int64])])
    func unknown(text: String, expected: [Int64]) throws {
        #expect(try found(text, family()) == expected)
    }

    @Test(
        "texts by Unicode, whatever the locale",
        arguments: [
            ("lowercase:(name) == 'i\u{307}stanbul'", [1]), ("uppercase:(name) == 'STRASSE'", [2]),
            ("lowercase:(name) == 'straße'", [2]), ("uppercase:(name) == 'I'", [3]),
            ("canonical:(name) == 'elan'", [4, 5]), ("length:(name) == 5", [5]),
            ("length:(name) == 4", [4]), ("name ==[n] '\u{E9}lan'", [4]),
            ("name ==[d] 'elan'", [4, 5]), ("length:(name) == 3", [6, 8]),
            ("length:(name) == 0", [7]),
            ("lowercase:(name) == ''", [7]), ("CAST(name, 'uri') == nil", []),
            ("uppercase:(name) ENDSWITH 'z'", []), ("uppercase:(name) ENDSWITH 'Z'", [8]),
            ("length:(uppercase:(name)) == 7", [2]),
        ] as [(String, [Int64])])
    func unicode(text: String, expected: [Int64]) throws {
        let names = [
            "İstanbul", "straße", "ı", "\u{E9}lan", "e\u{301}lan", "👩‍🦰", "", "x\u{0}z",
        ]
        let fixture = try people("name", names.map { .string($0) })
        #expect(try found(text, fixture) == expected)
    }

    @Test(
        "integers beyond 2^53 stay exact, and what 64 bits do not hold is unknown",
        arguments: [
            ("age == 9007199254740993", [2]), ("age + 0 == 9007199254740993", [2]),
            ("age + 0.0 == 9007199254740992", [1, 2]), ("age - 1 == 9007199254740992.0", [2]),
            ("age == CAST(age, 'double')", [1, 4, 5]), ("age + 1 == nil", [3]),
            ("age - 1 == nil", [4]), ("-age == nil", [4]), ("abs:(age) == nil", [4]),
            ("age * 2 == nil", [3, 4]), ("age / -1 == nil", [4]),
            ("modulus:by:(age, -1) == 0", [1, 2, 3, 4, 5]), ("age / 2 == -3", [5]),
            ("modulus:by:(age, 2) == -1", [5]), ("CAST(age, 'integer32') == -7", [5]),
            ("NOT age + 1 > 0", [4, 5]), ("age / 2.0 == -3.5", [5]),
        ] as [(String, [Int64])])
    func integers(text: String, expected: [Int64]) throws {
        let ages: [Int64] = [9_007_199_254_740_992, 9_007_199_254_740_993, .max, .min, -7]
        let fixture = try people("age", ages.map { .integer($0) })
        #expect(try found(text, fixture) == expected)
    }

    /// All digits of the least decimal but the last.
    private static let least = "0." + String(repeating: "0", count: 37)

    @Test(
        "decimals are exact",
        arguments: [
            ("balance + '0.2' == '0.3'", [1]), ("balance + 0.2 == 0.3", [1]),
            ("balance * 3 == 0.3", [1]), ("balance * balance == 0.01", [1]),
            ("balance + 1 == nil", [3]), ("balance * 10 == nil", [3]),
            ("balance * 0.5 == 0", [2]), ("balance * 1.5 == '\(least)2'", [2]),
            ("balance * 2.5 == '\(least)2'", [2]), ("balance * 2.6 == '\(least)3'", [2]),
            ("ceiling:(balance) == -1", [4]), ("floor:(balance) == -2", [4]),
            ("trunc:(balance) == -1", [4]), ("abs:(balance) == 1.5", [4]), ("-balance == 1.5", [4]),
            ("CAST(balance, 'integer64') == -1", [4]), ("CAST(balance, 'double') == 0.1", [1]),
            ("CAST(balance, 'string') == '-1.5'", [4]),
        ] as [(String, [Int64])])
    func decimals(text: String, expected: [Int64]) throws {
        let fixture = try people(
            "balance",
            ["0.1", "\(Self.least)1", String(repeating: "9", count: 38), "-1.5"]
                .map { .decimal($0) })
        #expect(try found(text, fixture) == expected)
    }

    @Test(
        "dates before 1970, seconds, and one now for a request",
        arguments: [
            ("born + 1 == '1970-01-01T00:00:00.000Z'", [1]),
            ("born < CAST('1970-01-01T00:00:00.000Z', 'date')", [1]),
            ("born - CAST('1970-01-01T00:00:00.000Z', 'date') == -1", [1]),
            ("born + 0.0004 == born", [1, 2, 3]), ("born + 1 == nil", [3]),
            ("born > now() - 86400", [2, 3]),
            ("born == now() - 0.5", [2]), ("now() - born == 0.5", [2]),
            ("now() == now()", [1, 2, 3]),
            ("CAST(born, 'double') == -978307201", [1]),
            ("CAST(born, 'string') BEGINSWITH '1969'", [1]),
            ("CAST(-978307201, 'date') == born", [1]),
            ("CAST(CAST(born, 'double'), 'date') == born", [1, 2]),
        ] as [(String, [Int64])])
    func dates(text: String, expected: [Int64]) throws {
        let fixture = try people("born", [.date(-1_000), .date(1_769_860_800_000), .date(.max)])
        #expect(try found(text, fixture) == expected)
    }

    @Test(
        "doubles: NaN stays one, a division by zero is unknown, and sums do not hang on their order"
    )
    func doubles() throws {
        let fixture = try people(
            "weight",
            [.double(.nan), .double(.infinity), .double(-0.0), .double(1e300), .double(4)])
        #expect(try found("weight * 2 == CAST('NaN', 'double')", fixture) == [1])
        #expect(try found("weight - weight == CAST('NaN', 'double')", fixture) == [1, 2])
        #expect(try found("weight / 0 == nil", fixture) == [1, 2, 3, 4, 5])
        #expect(try found("sqrt:(weight) == 2", fixture) == [5])
        #expect(try found("sqrt:(-weight) == nil", fixture) == [2, 4, 5])
        #expect(try found("CAST(weight, 'integer64') == nil", fixture) == [1, 2, 4])
        #expect(try found("CAST(weight, 'string') == '0.0'", fixture) == [3])
        for order in [[1e300, 1, -1e300, 3], [-1e300, 3, 1e300, 1], [3, 1, 1e300, -1e300]] {
            var sum = DoubleSum()
            for number in order { sum.add(number) }
            #expect(sum.total == 4 && sum.average == 1)
        }
        for numbers: [Double] in [
            [0.1, 0.2], [.leastNonzeroMagnitude, .leastNonzeroMagnitude], [1.7e308, 1.7e308],
            [-0.1, -0.7], [1, 0x1p-53],
        ] {
            var sum = DoubleSum()
            for number in numbers { sum.add(number) }
            #expect(sum.total == numbers[0] + numbers[1])
        }
    }

    @Test("now() comes from outside, once a request, and none where it is not asked")
    func now() throws {
        let fixture = try people("born", [.date(5)])
        let compiler = FetchCompiler(
            model: fixture.model, codes: FetchingFixture.codes, now: { 5 })
        let compiled = try compiler.compile(
            Request("Person", predicate: Predicate(format: "born == now() AND now() > born - 1")))
        #expect(compiled.bindings.filter { $0 == .date(5) }.count == 2)
        #expect(!compiled.sql.contains("now"))
    }
}
