@testable import Coordinator
@testable import Merge
@testable import Node

/// Names that saves give to objects they insert.
enum RowIDs {
    static let new = RowID(-1)
}

extension Decoder {
    /// A predicate as text, asked of the store by SQL and of the same objects in memory.
    static let predicate = Decoder(
        name: "predicate", maximumLength: 1024,
        seeds: { _ in PredicateSamples.texts.map { Array($0.utf8) } },
        run: { bytes in
            guard let text = String(validating: bytes, as: UTF8.self),
                let predicate = attempt(
                    throwing: PredicateError.self,
                    { try Predicate(format: text, substitutions: PredicateSamples.substitutions) })
            else { return }
            // What is asked of the store and of memory at two moments may differ.
            if predicate.description.contains("now()") { return }
            for name in ["Person", "Employee", "Group"] {
                guard let entity = SampleModel.model.entity(named: name) else { continue }
                let evaluator = attempt(throwing: PredicateError.self) {
                    try PredicateEvaluator(
                        predicate, entity: entity, model: SampleModel.model,
                        cluster: SampleModel.cluster)
                }
                let found = EngineWorld.shared.read { reader in
                    attempt(
                        throwing: CoordinatorError.self, where: { $0.code == .invalidPredicate },
                        { try reader.objectIDs(FetchRequest(name, predicate: predicate)) })
                }
                demand((evaluator == nil) == (found == nil), "only one of SQL and memory refuses")
                guard let evaluator, let found else { continue }
                let expected = must {
                    try ObjectsInMemory.shared.rows(of: entity, evaluator)
                }
                demand(
                    found.map(\.row).sorted() == expected,
                    "SQL finds \(found.map(\.row)) and memory \(expected): \(predicate)")
            }
        })

    /// A fetch as a client sends it, carried out.
    static let fetch = Decoder(
        name: "fetch", maximumLength: 4096,
        seeds: { _ in PredicateSamples.fetches.map { Array($0.utf8) } },
        run: { bytes in
            guard
                let json = attempt(throwing: JSONError.self, { try JSONParser.parse(bytes) }),
                let fetch = clientFetch(json)
            else { return }
            EngineWorld.shared.read { reader in
                _ = attempt(throwing: CoordinatorError.self, where: isRefusal) {
                    switch fetch.request.resultType {
                    case .objects: _ = try reader.fetch(fetch.request)
                    case .ids: _ = try reader.objectIDs(fetch.request)
                    case .dictionary: _ = try reader.dictionaries(fetch.request)
                    case .count: _ = try reader.count(fetch.request)
                    }
                }
            }
        })

    private static func isRefusal(_ error: CoordinatorError) -> Bool {
        [.malformed, .invalidPredicate, .limitExceeded].contains(error.code)
    }

    private static func clientFetch(_ json: JSONValue) -> ClientFetch? {
        do {
            return try ClientFetch(json, model: SampleModel.model)
        } catch is HTTPError {
            return nil
        } catch is PredicateError {
            return nil
        } catch { fatalError("FINDING: an error that callers do not expect: \(error)") }
    }
}

/// Predicates and fetches that fit the sample model.
enum PredicateSamples {
    static let substitutions: [String: PredicateValue] = [
        "a": .integer(3), "b": .string("Ada"), "c": .list([.integer(1), .null, .string("x")]),
        "d": .double(.nan), "e": .null, "f": .boolean(true),
    ]

    static let texts = [
        "TRUEPREDICATE", "FALSEPREDICATE", "age == 1", "name ==[cd] 'ada'", "name != nil",
        "name LIKE[c] '*d?'", "name MATCHES '[a-z]+(b|\\\\u00e4)*'", "name BEGINSWITH 'stra'",
        "name ENDSWITH[d] \"e\"", "name CONTAINS $b", "name IN[c] {'ADA', 'bob', nil}",
        "age BETWEEN {-3, 17}", "age IN $c", "age > weight", "balance >= '9.5'", "balance == -9.5",
        "born < CAST(0, 'NSDate')", "born == '1970-01-01T00:00:00Z'", "isMember == YES",
        "token == '00000000-0000-0001-0000-000000000001'", "home ==[c] 'http://a'",
        "photo == 'AQL/'", "photo != nil", "weight == $d", "weight == 'Infinity'", "ratio < 0.5",
        "manager == nil", "manager.manager.name == 'Ada'", "manager == manager.manager",
        "SELF == manager", "SELF IN {'x-tributary://fuzz/Person/p1'}", "desk.place == nil",
        "ANY reports.age > 1", "ALL groups.members.age != 3", "NONE pets.name == nil",
        "reports.@count > 1", "groups CONTAINS 'x-tributary://fuzz/Group/p7'",
        "label == 'group 11'",
        "NOT (age == 1 OR (name == 'a' AND NOT manager.age < 2))", "!(age => $a) && name <> $e",
        "5 < age", "#name == 'x'", "title == nil", "ANY members.name ==[cd] 'ADA'",
        "members.@count == 3", "manager.name ==[c] name", "desk == manager.desk",
        "SUBQUERY(reports, $x, $x.age > age AND $x.manager == SELF).@count * 2 > pets.@max.age",
        "manager.reports.@sum.balance - balance >= reports.balance.@avg",
        "TERNARY(entity == 'Person', lowercase:(name), 'x') BEGINSWITH[c] manager.name",
        "born + 86400 BETWEEN {CAST(0, 'NSDate'), born - -age}", "objectID IN groups.members",
        "modulus:by:(age, 7) ** 2 != abs:(-weight) / ratio", "name ==[n] canonical:(name)",
        "CAST(weight, 'string') IN {name, CAST(age, 'string')}", "ANY reports.age > age + 1",
        "reports.@distinctUnionOfObjects.name.@count < length:(manager.name)",
    ]

    static let fetches =
        texts.prefix(12).map { text in
            JSONWriter.text(
                of: ["entity": .string("Person"), "predicate": .string(text)])
        } + [
            "{\"entity\":\"Person\",\"sort\":[\"-age\",\"name\",\"manager.name\"],\"limit\":3,"
                + "\"offset\":1,\"versions\":true,\"properties\":[\"name\",\"manager\",\"pets\"]}",
            "{\"entity\":\"Employee\",\"resultType\":\"ids\",\"sort\":[\"title\"]}",
            "{\"entity\":\"Person\",\"resultType\":\"count\",\"predicate\":\"age > $x\","
                + "\"substitutions\":{\"x\":[1,2.5,\"a\",null,true]}}",
            "{\"entity\":\"Person\",\"resultType\":\"dictionary\",\"properties\":[\"isMember\","
                + "{\"name\":\"n\",\"function\":\"count\"},{\"name\":\"m\",\"function\":\"max\","
                + "\"keyPath\":\"age\"}],\"groupBy\":[\"isMember\"],\"having\":\"n > 1\","
                + "\"sort\":[\"-n\"]}",
            "{\"entity\":\"Animal\",\"resultType\":\"dictionary\",\"properties\":[\"owner.name\","
                + "{\"name\":\"s\",\"function\":\"sum\",\"keyPath\":\"owner.balance\"},"
                + "{\"name\":\"v\",\"function\":\"average\",\"keyPath\":\"age\"},"
                + "{\"name\":\"w\",\"function\":\"min\",\"keyPath\":\"owner.weight\"}],"
                + "\"groupBy\":[\"owner.name\"]}",
            "{\"entity\":\"Person\",\"prefetch\":[\"pets\",\"groups.members\"],"
                + "\"timeoutSeconds\":0.5}",
        ]
}
