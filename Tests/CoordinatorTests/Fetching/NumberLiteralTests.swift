import Merge
import Testing

@testable import Coordinator

@Suite("Numbers in predicates")
struct NumberLiteralTests {
    private let fixture: FetchingFixture

    init() throws { fixture = try FetchingFixture(seed: 5, people: 1) }

    private struct Subject: PredicateSubject {
        let predicateRow = RowID(7)
        let values: [String: PropertyValue]

        func predicateValue(ofAttribute name: String) throws -> PropertyValue {
            values[name] ?? .null
        }
        func predicateTarget(ofToOne name: String) throws -> Self? { nil }
        func predicateTargets(ofToMany name: String) throws -> [Self] { [] }
    }

    /// What SQL is given, and whether the predicate holds in memory.
    private func holds(
        _ text: String, _ values: [String: PropertyValue],
        _ substitutions: [String: PredicateValue] = [:]
    ) throws -> Bool {
        let entity = try #require(fixture.model.entity(named: "Person"))
        let predicate = try Predicate(format: text, substitutions: substitutions)
        return try PredicateEvaluator(predicate, entity: entity, model: fixture.model)
            .matches(Subject(values: values))
    }

    @Test(
        "A decimal literal is compared to its last digit, as a substitution is",
        arguments: [
            ("balance == 0.1234567890123456789", true), ("balance == 0.1234567890123456788", false),
            ("balance > 0.1234567890123456788", true), ("balance < 0.1234567890123456788", false),
            ("balance IN {1.5, 0.1234567890123456789}", true),
            ("balance BETWEEN {0.12345678901234567889, 0.12345678901234567891}", true),
            ("balance == 1234567890123456789e-19", true),
            ("balance == CAST('0.1234567890123456789', 'decimal')", true),
        ])
    func decimals(_ text: String, _ isTrue: Bool) throws {
        let values: [String: PropertyValue] = ["balance": .decimal("0.1234567890123456789")]
        #expect(try holds(text, values) == isTrue)
        #expect(try holds("balance == $d", values, ["d": .string("0.1234567890123456789")]))
    }

    @Test(
        "An integer beyond 2^53 is compared exactly with a literal that has a fraction",
        arguments: [
            ("age == 9007199254740993.0", true), ("age == 9007199254740992.0", false),
            ("age == 9007199254740993.5", false), ("age != 9007199254740993.5", true),
            ("age < 9007199254740993.5", true), ("age <= 9007199254740993.5", true),
            ("age > 9007199254740993.5", false), ("age > 9007199254740992.5", true),
            ("9007199254740992.5 < age", true), ("age IN {9007199254740993.5}", false),
            ("NOT age IN {9007199254740993.5}", true), ("age IN {9007199254740993.0, 1}", true),
            ("age BETWEEN {9007199254740992.5, 9007199254740993.5}", true),
            ("age BETWEEN {9007199254740993.5, 9007199254740994.5}", false),
            ("age < 9223372036854775807.5", true), ("age > -9223372036854775808.5", true),
            ("age < 99999999999999999999999.5", true),
            ("age == 9007199254740993.00000000000000000000000000000000000000000000001", false),
        ])
    func integers(_ text: String, _ isTrue: Bool) throws {
        #expect(try holds(text, ["age": .integer(9_007_199_254_740_993)]) == isTrue)
    }

    @Test("A nil is neither equal to a number between two integers nor different")
    func unknown() throws {
        for text in [
            "age == 9007199254740993.5", "age != 9007199254740993.5", "age IN {9007199254740993.5}",
        ] {
            #expect(try !holds(text, [:]))
            #expect(try !holds("NOT \(text)", [:]))
        }
    }

    @Test("SQL is given the digits that were written")
    func bindings() throws {
        let compiler = FetchCompiler(
            model: fixture.model, codes: FetchingFixture.codes, cluster: "demo")
        let compiled = try compiler.compile(
            FetchRequest(
                "Person",
                predicate: Predicate(
                    format: "balance == 0.1234567890123456789 AND age == 9007199254740993.0")))
        #expect(
            compiled.bindings
                == [.decimal("0.1234567890123456789"), .integer(9_007_199_254_740_993)])
    }

    @Test("A literal that a decimal has no room for is refused")
    func tooLong() throws {
        let digits = String(repeating: "1", count: 39)
        #expect(throws: PredicateError.self) { try holds("balance == 0.\(digits)", [:]) }
        #expect(try holds("weight < 0.\(digits)2", ["weight": .double(0.1)]))
    }
}
