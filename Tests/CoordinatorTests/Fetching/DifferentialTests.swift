import Merge
import TestSupport
import Testing

@testable import Coordinator

@Suite("SQL and memory")
struct DifferentialTests {
    /// Random predicates that fit the model.
    struct Generator {
        var choices: SeededGenerator

        mutating func predicate(depth: Int) -> String {
            if depth > 0, choices.chance(45) {
                switch choices.next() % 3 {
                case 0: return "NOT (\(predicate(depth: depth - 1)))"
                case 1:
                    return "(\(predicate(depth: depth - 1)) AND \(predicate(depth: depth - 1)))"
                default:
                    return "(\(predicate(depth: depth - 1)) OR \(predicate(depth: depth - 1)))"
                }
            }
            return comparison()
        }

        private mutating func comparison() -> String {
            let prefix = choices.pick(["", "", "", "manager.", "manager.manager.", "desk.user."])
            switch choices.next() % 24 {
            case 12...23: return general(prefix)
            case 0:
                return choices.pick(
                    [
                        "TRUEPREDICATE", "FALSEPREDICATE", "name == home OR TRUEPREDICATE",
                        "manager == desk.user", "age < weight", "manager.age >= ratio",
                        "name ==[c] manager.name", "balance > manager.balance",
                        "manager.desk == desk", "manager != desk.user.manager",
                    ].filter { !$0.contains("home") })
            case 1: return "\(prefix)\(number()) \(ordering()) \(numeral())"
            case 2: return "\(prefix)name \(textComparison()) \(text())"
            case 3:
                let name = choices.pick([
                    "name", "age", "weight", "balance", "born", "manager", "desk", "photo",
                ])
                return "\(prefix)\(name) \(choices.pick(["==", "!="])) nil"
            case 4:
                let list = (0..<choices.next() % 4).map { _ in text() }.joined(separator: ", ")
                return "\(prefix)name IN\(flags()) {\(list)}"
            case 5:
                return "\(prefix)\(number()) BETWEEN {\(numeral()), \(numeral())}"
            case 6:
                let path = choices.pick(["reports", "groups", "pets", "manager.pets"])
                return "\(prefix)\(path).@count \(ordering()) \(choices.next() % 4)"
            case 7, 8: return quantified(prefix)
            case 9:
                return choices.pick([
                    "\(prefix)balance \(ordering()) '9.5'", "\(prefix)balance == '10.0'",
                    "\(prefix)balance BETWEEN {-1, '9.50001'}", "\(prefix)balance IN {1, 10}",
                    "\(prefix)born \(ordering()) '1970-01-01T00:00:00.000Z'",
                    "\(prefix)born > CAST(0, 'NSDate')", "\(prefix)isMember == YES",
                    "\(prefix)isMember != 0",
                    "\(prefix)token \(ordering()) '00000000-0000-0001-a000-000000000000'",
                    "\(prefix)home ==[c] 'http://a'", "\(prefix)home BEGINSWITH 'http'",
                    "\(prefix)photo \(ordering()) 'AQID'", "\(prefix)photo == ''",
                    "\(prefix)name BETWEEN {'Bob', 'a'}",
                    "\(prefix)name BETWEEN[cd] {'a', 'b'}",
                ])
            case 10:
                let uri = "'x-tributary://demo/Person/p\(7 * (1 + choices.next() % 14))'"
                return choices.pick([
                    "manager == \(uri)", "manager != \(uri)", "SELF == \(uri)", "SELF != \(uri)",
                    "SELF IN {\(uri), 'x-tributary://demo/Employee/p7'}",
                    "manager IN {\(uri)}", "desk.user == \(uri)", "reports CONTAINS \(uri)",
                    "\(uri) IN groups.members", "manager.manager == \(uri)",
                ])
            default:
                return "\(prefix)age IN {\(numeral()), 17, 40}"
            }
        }

        private mutating func quantified(_ prefix: String) -> String {
            let quantifier = choices.pick(["ANY", "SOME", "ALL", "NONE"])
            let path = choices.pick([
                "reports", "groups.members", "pets.owner", "reports.reports",
                "groups.members.reports", "reports.manager.groups.members",
                "groups.members.groups.members", "reports.reports.reports.reports",
            ])
            switch choices.next() % 5 {
            case 0: return "\(quantifier) \(prefix)pets.age \(ordering()) \(choices.pick([1, 5]))"
            case 1: return "\(quantifier) \(prefix)groups.label \(textComparison()) \(text())"
            case 2: return "\(quantifier) \(prefix)\(path).name \(textComparison()) \(text())"
            case 3:
                return "\(quantifier) \(prefix)\(path).manager \(choices.pick(["==", "!="])) nil"
            default: return "\(quantifier) \(prefix)\(path).desk.user.age \(ordering()) 17"
            }
        }

        private mutating func number() -> String { choices.pick(["age", "weight", "ratio"]) }

        mutating func ordering() -> String {
            choices.pick(["==", "=", "!=", "<>", "<", "<=", "=<", ">", ">=", "=>"])
        }

        mutating func numeral() -> String {
            choices.pick([
                "0", "17", "-3", "1.5", "17.5", "0.1", "9223372036854775807", "9.3e18", "-1e300",
                "0.5", "5e-324", "-9223372036854775808",
            ])
        }

        mutating func flags() -> String { choices.pick(["", "[c]", "[d]", "[cd]"]) }

        mutating func textComparison() -> String {
            let name = choices.pick([
                "==", "!=", "<", ">=", "BEGINSWITH", "ENDSWITH", "CONTAINS", "LIKE", "MATCHES",
            ])
            return name + flags()
        }

        mutating func text() -> String {
            choices.pick(
                [
                    "'Ada'", "'a'", "'b'", "''", "'A.*'", "'*a*'", "'?d?'", "'ÉLAN'", "'strasse'",
                    "'[a-z]+'", "'o''", "'B*'", "'\\\\*'", "'%'", "'\\u0000'", "'\u{10FFFF}'",
                    "'\u{D7FF}'", "'é'", "'(Bob|Ada)(by)?'", "'日'", "'x'",
                ].filter { $0 != "'o''" && !$0.contains("(") || $0.hasSuffix("?'") })
        }
    }

    @Test(
        "CD-131: random predicates give the same objects in SQL and in memory", arguments: 0..<6)
    func samePredicates(seed: UInt64) throws {
        let fixture = try FetchingFixture(seed: seed)
        var generator = Generator(choices: SeededGenerator(seed: seed &* 77 &+ 5))
        let entity = try #require(fixture.model.entity(named: "Person"))
        let people = fixture.world.rows(of: "Person")
        var matched = 0
        var refused = 0
        for _ in 0..<3_500 {
            let text = generator.predicate(depth: 3)
            // Not every comparison of the generator fits every type; those are refused by both.
            let predicate: Predicate
            let evaluator: PredicateEvaluator
            do {
                predicate = try Predicate(format: text)
                evaluator = try PredicateEvaluator(
                    predicate, entity: entity, model: fixture.model, cluster: "demo",
                    now: FetchingFixture.now)
                // What is printed is the same predicate.
                let printed = predicate.description
                #expect(try Predicate(format: printed).description == printed, "\(text)")
            } catch {
                let isNoValue = ["MATCHES", " is no ", "out of range"].contains {
                    "\(text): \(error)".contains($0)
                }
                #expect(isNoValue, "\(text): \(error)")
                refused += 1
                continue
            }
            let found = try fixture.rows(FetchRequest("Person", predicate: predicate))
            let expected = try people.filter { try evaluator.matches($0) }.map(\.row.rawValue)
            #expect(found == expected, "\(text)")
            if !found.isEmpty, found.count < people.count { matched += 1 }
        }
        #expect(matched > 900 && refused < 150)
    }

    @Test("random orders, limits and offsets give the same objects in SQL and in memory")
    func sameOrder() throws {
        let fixture = try FetchingFixture(seed: 99, people: 30)
        var choices = SeededGenerator(seed: 3)
        let entity = try #require(fixture.model.entity(named: "Person"))
        let keys = [
            "name", "age", "weight", "ratio", "balance", "born", "isMember", "token", "home",
            "photo", "manager.name", "manager.balance", "desk.place", "reports.@count",
            "manager.groups.@count", "manager.reports.@count", "reports.@max.balance",
            "manager.reports.@avg.weight", "manager.pets.@min.name", "entity",
            "desk.user.entity.name", "localizedStandard:(name, sv)", "localizedStandard:(name)",
            "localizedStandard:(manager.name, de)", "localizedStandard:(desk.place)",
        ]
        for _ in 0..<300 {
            let sort = (0..<choices.next() % 4).map { _ in
                SortDescriptor(text: (choices.chance(50) ? "-" : "") + choices.pick(keys))
            }
            let limit = Int(choices.next() % 12)
            let offset = Int(choices.next() % 40)
            let found = try fixture.rows(
                FetchRequest(
                    "Person", sortDescriptors: sort, fetchLimit: limit, fetchOffset: offset))
            let sorted = try SortEvaluator(sort, entity: entity, model: fixture.model)
                .sort(fixture.world.rows(of: "Person")).map(\.row.rawValue).dropFirst(offset)
            #expect(found == Array(limit == 0 ? sorted : sorted.prefix(limit)), "\(sort)")
            let count = try fixture.rows(
                FetchRequest(
                    "Person", sortDescriptors: sort, fetchLimit: limit, fetchOffset: offset,
                    resultType: .count))
            #expect(count == [Int64(found.count)])
        }
    }

    @Test("a prefix's range ends where texts no longer begin with it")
    func prefixRange() {
        #expect(SQLBuilder.end(ofPrefix: "ab") == "ac")
        #expect(SQLBuilder.end(ofPrefix: "a\u{10FFFF}") == "b")
        #expect(SQLBuilder.end(ofPrefix: "\u{D7FF}") == "\u{E000}")
        #expect(SQLBuilder.end(ofPrefix: "\u{7F}") == "\u{80}")
        #expect(SQLBuilder.end(ofPrefix: "\u{10FFFF}") == nil)
        #expect(SQLBuilder.end(ofPrefix: "") == nil)
    }
}
