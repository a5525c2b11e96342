import Coordinator
import Testing

@Suite("Conditions and increments of POST /v1/save")
struct HotRowContractTests {
    @Test("An increment is answered with the sum, also when it is repeated or asked for by its ID")
    func increments() async throws {
        try await HTTPTestNode.run { node in
            let (uri, _) = try await node.insertPerson("Ada", #""age": 1, "price": "0.3""#)
            let body =
                #"{"operations": [{"update": "\#(uri)", "values": {"name": "Eve"}, "#
                + #""increment": {"age": 2, "price": "-0.5"}, "#
                + #""if": "age == $age", "substitutions": {"age": 1}}], "saveID": "s"}"#
            let answer = try await node.save(body)
            #expect(answer.status == 200, "\(answer.text)")
            let sums: JSONObject = ["age": .integer(3), "price": .string("-0.2")]
            let wanted: JSONValue = .object([uri: .object(sums)])
            #expect(answer["incremented"] == wanted, "\(answer.text)")
            #expect(try await node.save(body).text == answer.text)
            let kept = try await node.ask("GET", "/v1/saves/s")
            #expect(kept["incremented"] == wanted)
            let other = try await node.save(body.replacing(#""age": 2"#, with: #""age": 3"#))
            #expect(other.status == 409 && other.code == "saveIDReused")
            let condition = try await node.save(body.replacing("age ==", with: "age >="))
            #expect(condition.status == 409 && condition.code == "saveIDReused")
            let fetched = try await node.fetch(#"{"entity": "Person"}"#)
            #expect(fetched["objects.0.values.age"] == .integer(3))
            #expect(fetched["objects.0.values.name"] == .string("Eve"))
            // Other saves' answers are as they were.
            let plain = try await node.save(
                operations: #"{"update": "\#(uri)", "values": {"age": 7}}"#)
            #expect(plain["incremented"] == nil)
        }
    }

    @Test("A condition that does not hold is 409 conditionFailed with the object as it is")
    func conditions() async throws {
        try await HTTPTestNode.run { node in
            let (uri, version) = try await node.insertPerson("Ada", #""age": 1"#)
            let answer = try await node.save(
                operations: #"{"insert": "Note"}"#,
                #"{"update": "\#(uri)", "increment": {"age": -1}, "if": "age > 1"}"#)
            #expect(answer.status == 409 && answer.code == "conditionFailed", "\(answer.text)")
            #expect(answer.message == "\(uri) does not meet the condition: age > 1")
            #expect(answer["error.conflicts.0.object"] == .string(uri))
            #expect(answer["error.conflicts.0.property"] == .string("age"))
            #expect(answer["error.conflicts.0.newVersion"] == .string(version))
            #expect(answer["error.conflicts.0.cachedSnapshot.age"] == .integer(1))
            #expect(answer["error.conflicts.1"] == nil)
            #expect(try node.coordinator.currentToken.position == 1)
            let delete = #"{"delete": "\#(uri)", "if": "name == 'Eve'"}"#
            let kept = try await node.save(operations: delete)
            #expect(kept.status == 409 && kept.code == "conditionFailed", "\(kept.text)")
            let gone = try await node.save(operations: delete.replacing("Eve", with: "Ada"))
            #expect(gone.status == 200, "\(gone.text)")
            let lost = try await node.save(
                operations: #"{"update": "\#(uri)", "increment": {"age": 1}}"#)
            #expect(lost.status == 404 && lost.code == "objectNotFound")
        }
    }

    @Test("What makes no sense is refused and named")
    func refusals() async throws {
        try await HTTPTestNode.run { node in
            let (uri, _) = try await node.insertPerson("Ada", #""age": 1, "small": 32767"#)
            func answer(_ fields: String, _ kind: String = "update") async throws
                -> HTTPTestNode.Answer
            {
                try await node.save(operations: #"{"\#(kind)": "\#(uri)", \#(fields)}"#)
            }
            let malformed: [(String, String)] = [
                (#""increment": {"age": 1}, "values": {"age": 2}"#, "Person.age is among the"),
                (#""increment": {"name": 1}"#, "Person.name is no number."),
                (#""increment": {"manager": 1}"#, "Person.manager is no number."),
                (#""increment": {"friends": 1}"#, "Person.friends is no number."),
                (#""increment": {"nothing": 1}"#, "Person has no property \"nothing\"."),
                (#""increment": 1"#, "\"operations[0].increment\" must be an object."),
                (#""if": 1"#, "\"operations[0].if\" must be a string."),
                (#""substitutions": {"a": 1}"#, "which is not there"),
                (
                    #""if": "age == $a", "substitutions": {"a": {}}"#,
                    "operations[0].substitutions.a"
                ),
            ]
            for (fields, message) in malformed {
                let answer = try await answer(fields)
                #expect(answer.status == 400 && answer.code == "malformed", "\(answer.text)")
                #expect(answer.message.contains(message), "\(answer.text)")
            }
            for (fields, offset) in [
                (#""if": "age >""#, 5), (#""if": "height > 1""#, 0), (#""if": "age == $a""#, 7),
            ] {
                let answer = try await answer(fields)
                #expect(answer.status == 400 && answer.code == "invalidPredicate")
                #expect(answer.message.hasPrefix("\"operations[0].if\": "), "\(answer.text)")
                #expect(answer["error.offset"] == .integer(Int64(offset)), "\(answer.text)")
            }
            let invalid: [(String, Int64)] = [
                (#""increment": {"small": 1}"#, 1610), (#""increment": {"ratio": 1}"#, 1570),
                (#""increment": {"age": "1"}"#, 1550), (#""increment": {"age": 0.5}"#, 1550),
                (#""increment": {"age": null}"#, 1550), (#""increment": {"price": "x"}"#, 1550),
                (#""increment": {"ratio": "Infinity"}"#, 1550),
            ]
            for (fields, code) in invalid {
                let answer = try await answer(fields)
                #expect(answer.status == 422 && answer.code == "validationFailed", "\(answer.text)")
                #expect(answer["error.failures.0.code"] == .integer(code), "\(answer.text)")
                #expect(answer["error.failures.0.object"] == .string(uri), "\(answer.text)")
            }
            let deleted = try await answer(#""increment": {"age": 1}"#, "delete")
            #expect(deleted.status == 400 && deleted.code == "malformed")
            for fields in [#""if": "age == 1""#, #""increment": {"age": 1}"#] {
                let inserted = try await node.save(
                    operations: #"{"insert": "Person", "values": {"name": "x"}, \#(fields)}"#)
                #expect(inserted.status == 400 && inserted.code == "malformed")
            }
            #expect(try node.coordinator.currentToken.position == 1)
        }
    }

    @Test("200 increments of two clients at one node add up", .timeLimit(.minutes(2)))
    func clients() async throws {
        try await HTTPTestNode.run { node in
            let (uri, _) = try await node.insertPerson("Ada", #""age": 0"#)
            let body = #"{"operations": [{"update": "\#(uri)", "increment": {"age": 1}}]}"#
            let sums = try await withThrowingTaskGroup(of: [JSONValue].self) { group in
                for _ in 0..<2 {
                    group.addTask {
                        var sums: [JSONValue] = []
                        for _ in 0..<100 {
                            let answer = try await node.save(body)
                            guard answer.status == 200 else {
                                throw HTTPTestNode.Unexpected(answer.text)
                            }
                            sums.append(
                                answer["incremented"]?.object?[uri]?.object?["age"] ?? .null)
                        }
                        return sums
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            #expect(Set(sums) == Set((1...200).map { .integer($0) }))
            let fetched = try await node.fetch(#"{"entity": "Person"}"#)
            #expect(fetched["objects.0.values.age"] == .integer(200))
        }
    }
}
