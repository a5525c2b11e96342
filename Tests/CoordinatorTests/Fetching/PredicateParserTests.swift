import GRDB
import Merge
import TestSupport
import Testing

@testable import Coordinator

@Suite("The predicate language")
struct PredicateParserTests {
    @Test(
        "parses to what it means",
        arguments: [
            ("a = 1", "a == 1"),
            ("a=1 and b<>2 or not c<3", "((a == 1 AND b != 2) OR NOT (c < 3))"),
            ("a == 1 || b == 2 && c == 3", "(a == 1 OR (b == 2 AND c == 3))"),
            ("!(a => 1)", "NOT (a >= 1)"),
            ("NOT NOT a =< -1.5e2", "a <= -150.0"),
            ("name beginswith[CD] 'fran'", "name BEGINSWITH[cd] \"fran\""),
            ("name LIKE[d] \"*x\\*\"", "name LIKE[d] \"*x\\\\*\""),
            ("x == nil AND y != NULL", "(x == nil AND y != nil)"),
            ("x == YES AND y == FALSE", "(x == TRUE AND y == FALSE)"),
            ("TRUEPREDICATE", "TRUEPREDICATE"),
            ("age IN {1, 2 , 3}", "age IN {1, 2, 3}"),
            ("age IN {}", "age IN {}"),
            ("age BETWEEN {1, 2}", "age BETWEEN {1, 2}"),
            ("ANY friends.name == 'x'", "ANY friends.name == \"x\""),
            ("SOME a.b > 1", "ANY a.b > 1"),
            ("NONE a.b > 1", "NONE a.b > 1"),
            ("friends.@count > 2", "friends.@count > 2"),
            ("SELF IN {'x'}", "SELF IN {\"x\"}"),
            ("self.name == 'x'", "name == \"x\""),
            ("#any == 1", "#any == 1"),
            ("5 < age", "5 < age"),
            ("born > CAST('1970-01-01T00:00:01Z', 'date')", "born > \"1970-01-01T00:00:01.000Z\""),
            ("a == 0.1234567890123456789", "a == 0.1234567890123456789"),
            ("a == 9007199254740993.0", "a == 9007199254740993.0"),
            ("a == 0.10", "a == 0.1"),
            ("born > CAST(0, 'NSDate')", "born > \"2001-01-01T00:00:00.000Z\""),
            ("a-1 > -1", "(a - 1) > -1"), ("a - -1 * b < - 2", "(a - (-1 * b)) < -(2)"),
            ("(a + b) / c ** 2 == 1", "((a + b) / (c ** 2)) == 1"),
            ("((a)) > (1)", "a > 1"), ("(a > 1) and ((b) > 2)", "(a > 1 AND b > 2)"),
            ("lowercase(a) ==[n] 'x'", "lowercase:(a) ==[n] \"x\""),
            ("modulus:by:(a, 2) == 1", "modulus:by:(a, 2) == 1"),
            ("d > now() - 86400", "d > (now() - 86400)"),
            ("a IN {b, 1 + c, 2}", "a IN {b, (1 + c), 2}"),
            ("now == 1 AND count > sum", "(now == 1 AND count > sum)"),
            (
                "SUBQUERY(a.b, $x, $x.c > 1 AND $x == SELF).@count > 1",
                "SUBQUERY(a.b, $x, ($x.c > 1 AND $x == SELF)).@count > 1"
            ),
            (
                "TERNARY(a > 1, b, 'x') == CAST(c, 'NSString')",
                "TERNARY(a > 1, b, \"x\") == CAST(c, \"string\")"
            ),
            ("a.@max.b > c.d.@avg", "a.@max.b > c.d.@avg"),
            (
                "d - CAST(0, 'NSDate') > 1",
                "(d - CAST(\"2001-01-01T00:00:00.000Z\", \"date\")) > 1"
            ),
        ])
    func parses(text: String, meaning: String) throws {
        #expect(try Predicate(format: text).description == meaning)
    }

    @Test("takes substitutions and arguments as values, never as text")
    func substitutions() throws {
        let hostile = "x' OR TRUEPREDICATE OR name == 'y"
        let substituted = try Predicate(
            format: "name == $prefix AND age IN $ages",
            substitutions: ["prefix": .string(hostile), "ages": .list([.integer(1)])])
        #expect(
            substituted.description
                == "(name == \"x' OR TRUEPREDICATE OR name == 'y\" AND age IN {1})")
        let argued = try Predicate(
            "%K == %@ AND age > %d", [.string("manager.name"), .string(hostile), .integer(3)])
        #expect(
            argued.description
                == "(manager.name == \"x' OR TRUEPREDICATE OR name == 'y\" AND age > 3)")
    }

    @Test(
        "says what is wrong and where",
        arguments: [
            ("", 0), ("a", 1), ("a ==", 4), ("a == 1 b", 7), ("(a == 1", 7), ("a == 1)", 6),
            ("a == 'x", 5), ("a LIKE[q] 'x'", 7), ("é == 1", 0), ("a == $b", 5), ("a == %@", 5),
            ("a IN {1, {2}}", 9), ("ANY == 1", 4), ("a ~ 1", 2), ("a == 1..2", 5), ("a. == 1", 3),
            ("and == 1", 0), ("a == 12x", 5), ("a == CAST(1, 'nothing')", 13),
            ("'ééé' == ?", 9), ("SUBQUERY(a, $b, c).@count > 1", 17), ("a + > 1", 4),
            ("a + 1", 5), ("(a + 1) AND b == 1", 8), ("foo:(a) == 1", 0), ("abs:(a, b) == 1", 0),
            ("abs:(a == 1", 11), ("FUNCTION(a, 'b') == 1", 0), ("a ==[l] 'x'", 5),
            ("a ==[cn] 'x'", 5), ("TERNARY(a, b, c) == 1", 9), ("a == (b == 1)", 13),
            ("SUBQUERY(a, b, TRUEPREDICATE).@count > 1", 12), ("CAST(a, 'x') == 1", 8),
            ("SUBQUERY(a, $x, SUBQUERY(b, $x, TRUEPREDICATE).@count > 1).@count > 1", 28),
            ("a == '\\u12'", 8),
        ])
    func faults(text: String, offset: Int) {
        #expect {
            _ = try Predicate(format: text)
        } throws: {
            ($0 as? PredicateError)?.offset == offset
        }
    }

    @Test("bears hostile nesting and length")
    func hostile() {
        let deep = String(repeating: "(", count: 60_000)
        #expect(throws: PredicateError.self) { try Predicate(format: deep) }
        #expect(throws: PredicateError.self) { try Predicate(format: deep + deep) }
        #expect(throws: PredicateError.self) {
            try Predicate(format: String(repeating: "NOT ", count: 15_000))
        }
        #expect(throws: PredicateError.self) {
            try Predicate(format: String(repeating: "{", count: 60_000))
        }
        for piece in ["-", "a + ", "abs:(", "TERNARY(a == 1, 1, ", "SUBQUERY(a, $x, ", "a **"] {
            #expect(throws: PredicateError.self) {
                try Predicate(format: String(repeating: piece, count: 3_000) + "a == 1")
            }
        }
    }

    @Test("deepest and widest predicates are still understood by SQLite")
    func extremes() throws {
        let fixture = try FetchingFixture(seed: 1)
        let depth = PredicateParser.maximumDepth
        let deep =
            String(repeating: "(age == 1 OR NOT (age == 2 AND NOT ", count: depth / 2)
            + "age == 3" + String(repeating: "))", count: depth / 2)
        _ = try fixture.rows(Coordinator.FetchRequest("Person", predicate: Predicate(format: deep)))
        let wide = (0..<4_000).map { "age == \($0)" }.joined(separator: " OR ")
        _ = try fixture.rows(Coordinator.FetchRequest("Person", predicate: Predicate(format: wide)))
        let list = PredicateValue.list((0..<25_000).map { .integer($0) })
        let found = try fixture.rows(
            Coordinator.FetchRequest("Person", predicate: Predicate("age IN %@", [list])))
        let expected = try fixture.rows(
            Coordinator.FetchRequest("Person", predicate: Predicate("age BETWEEN {0, 24999}")))
        #expect(found == expected)
    }

    @Test("what SQLite does not bear is refused as a predicate, and not told as the disk's fault")
    func beyondSQLite() throws {
        let node = try EngineNode()
        let parts = String(repeating: "q == 1 OR q == 2 AND NOT (", count: 16)
        let text = parts + "q == 3" + String(repeating: ")", count: 16)
        let request = FetchRequest("Note", predicate: try Predicate(format: text))
        for isCount in [false, true] {
            let code = try node.code {
                try node.coordinator.read { reader in
                    _ = isCount ? try reader.count(request) : try reader.fetch(request).count
                }
            }
            #expect(code == .invalidPredicate)
        }
    }

    @Test("no text whatever makes it trap")
    func fuzz() throws {
        let fixture = try FetchingFixture(seed: 2, people: 3)
        let entity = try #require(fixture.model.entity(named: "Person"))
        let compiler = FetchCompiler(model: fixture.model, codes: FetchingFixture.codes)
        let pieces = [
            "name", "age", "manager", ".", "reports", "@count", "==", "!=", "<", "IN", "{", "}",
            "(", ")", ",", "'x'", "\"", "'", "\\", "1", "-", "2.5", "1e400", "$a", "%@", "%K",
            "ANY", "ALL", "NONE", "NOT", "AND", "OR", "nil", "SELF", "BETWEEN", "MATCHES",
            "LIKE", "[cd]", "[", "CAST(", "'date'", "\u{301}", "é", "\u{0}", "#", "@", "TRUE",
            "+", "*", "/", "**", "abs:(", "SUBQUERY(reports, $x, ", "$x.age", "TERNARY(", "now()",
            "CAST(", "'string'", "@max", "@sum", "entity", "length:(", "reports.@avg.age",
            "'[a-'", "'(*'", "balance", "photo", "weight", "'NaN'", " ", "\n", "groups.members",
        ]
        let sound = [
            "name LIKE[cd] '*a?' AND (age IN {1, 2} OR weight BETWEEN {0, 1.5})",
            "ANY reports.name MATCHES '[a-z]+(x|y)*' OR NOT groups.@count > 1",
            "manager.manager.balance >= '1.5' AND born < CAST(0, 'NSDate') AND photo != nil",
            "NONE groups.members.age == $a OR ALL pets.age != 3",
            "SUBQUERY(reports, $x, $x.age > age + 1).@count * 2 > reports.@max.weight",
            "TERNARY(entity == 'Person', born + 60, now()) - born > length:(name) AND name IN {name}",
            "manager.reports.@sum.balance * 2 > floor:(balance) OR abs:(-age) BETWEEN {age, 3}",
        ]
        var choices = SeededGenerator(seed: 11)
        var understood = 0
        for _ in 0..<20_000 {
            var text = (0..<choices.next() % 10).map { _ in choices.pick(pieces) }
                .joined(separator: choices.pick(["", " "]))
            if choices.chance(60) {
                // A sound predicate with some of its characters exchanged.
                var characters = Array(choices.pick(sound))
                for _ in 0..<choices.next() % 3 {
                    let place = Int(choices.next() % UInt64(characters.count))
                    characters.replaceSubrange(place...place, with: choices.pick(pieces))
                }
                text = String(characters)
            }
            guard
                let predicate = try? Predicate(format: text, substitutions: ["a": .integer(1)]),
                let compiled = try? compiler.compile(
                    Coordinator.FetchRequest("Person", predicate: predicate))
            else { continue }
            understood += 1
            let evaluator = try PredicateEvaluator(predicate, entity: entity, model: fixture.model)
            for person in fixture.world.rows(of: "Person") { _ = try evaluator.matches(person) }
            try fixture.queue.read {
                _ = try Int64.fetchAll($0, sql: FetchingFixture.bound(compiled))
            }
        }
        #expect(understood > 2_000)
    }
}
