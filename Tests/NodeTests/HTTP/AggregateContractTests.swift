import Coordinator
import Node
import Synchronization
import Testing

@Suite("Aggregates of POST /v1/fetch")
struct AggregateContractTests {
    /// Inserts people, each with the values of one attribute.
    private func fill(
        _ node: HTTPTestNode, _ attribute: String, _ values: [String], name: String = "P"
    ) async throws {
        let operations = values.map {
            #"{"insert": "Person", "values": {"name": "\#(name)", "\#(attribute)": \#($0)}}"#
        }
        let answer = try await node.save(
            "{\"operations\": [\(operations.joined(separator: ", "))]}")
        guard answer.status == 200 else { throw HTTPTestNode.Unexpected(answer.text) }
    }

    private func ask(
        _ node: HTTPTestNode, _ attribute: String, _ more: String = ""
    ) async throws -> HTTPTestNode.Answer {
        let properties = ["sum", "average"].map {
            #"{"name": "\#($0)", "function": "\#($0)", "keyPath": "\#(attribute)"}"#
        }
        return try await node.fetch(
            "{\"entity\": \"Person\", \"properties\": [\(properties.joined(separator: ", "))]"
                + "\(more)}")
    }

    @Test("A sum beyond 64 bits is the request's fault, and names function and key path")
    func sumOfLargeIntegers() async throws {
        try await HTTPTestNode.run { node in
            try await fill(node, "age", ["9223372036854775807", "1"])
            let answer = try await ask(node, "age")
            #expect(answer.status == 422 && answer.code == "aggregateOverflow", "\(answer.text)")
            #expect(answer.message.contains("sum") && answer.message.contains("\"age\""))
            #expect(node.backend.failures.withLock { $0.isEmpty })
            let lines = try await node.ask(
                "POST", "/v1/fetch",
                #"{"entity": "Person", "groupBy": ["name"], "having": "total > 1", "properties": "#
                    + #"[{"name": "total", "function": "sum", "keyPath": "age"}]}"#,
                headers: [("Accept", "application/x-ndjson")])
            #expect(lines.status == 422, "\(lines.text)")
            #expect(node.backend.failures.withLock { $0.isEmpty })
            // Only the sum counts, and not what it goes through.
            try await fill(node, "age", ["-1", "-9223372036854775808", "-5"])
            let whole = try await ask(node, "age")
            #expect(whole["rows.0.sum"] == .integer(-6), "\(whole.text)")
            let none = try await ask(node, "age", #", "predicate": "age == 77""#)
            #expect(none["rows.0.sum"] == .integer(0) && none["rows.0.average"] == .null)
        }
    }

    @Test(
        "Sums and averages of decimals are exact decimals, as strings",
        arguments: [
            ([], "0", nil), (["0.1", "0.2"], "0.3", "0.15"),
            (
                ["12345678901234567890.25", "12345678901234567890.25"],
                "24691357802469135780.5", "12345678901234567890.25"
            ),
            (["1", "1", "0"], "2", "0.66666666666666666666666666666666666667"),
            (["-1.5", "0.5"], "-1", "-0.5"), (["0.1", "-0.1"], "0", "0"),
            // Whatever is over 38 digits is rounded.
            (["0.00000000000000000000000000000000000001", "1"], "1", "0.5"),
        ] as [([String], String, String?)])
    func decimals(values: [String], sum: String, average: String?) async throws {
        try await HTTPTestNode.run { node in
            try await fill(node, "price", values.map { "\"\($0)\"" } + ["null"])
            let answer = try await ask(node, "price")
            #expect(answer["rows.0.sum"] == .string(sum), "\(answer.text)")
            #expect(
                answer["rows.0.average"] == average.map { .string($0) } ?? .null, "\(answer.text)")
        }
    }

    @Test("Groups are chosen and sorted by exact sums; a sum beyond 38 digits is refused")
    func groupsOfDecimals() async throws {
        try await HTTPTestNode.run { node in
            try await fill(node, "price", ["\"9\"", "\"0.75\""], name: "A")
            try await fill(node, "price", ["\"9.5\"", "\"0.25\""], name: "B")
            let request =
                #"{"entity": "Person", "groupBy": ["name"], "sort": ["total"], "having": "#
                + #""total > 9.7", "properties": ["name", "#
                + #"{"name": "total", "function": "sum", "keyPath": "price"}]}"#
            let answer = try await node.fetch(request)
            let rows = (answer["rows"]?.array ?? []).compactMap { $0.object?["total"]?.string }
            #expect(rows == ["9.75", "9.75"], "\(answer.text)")
            let large = "\"9" + String(repeating: "0", count: 37) + "\""
            try await fill(node, "price", [large, large])
            let refused = try await ask(node, "price")
            #expect(refused.status == 422 && refused.code == "aggregateOverflow")
            #expect(refused.message.contains("\"price\""), "\(refused.message)")
        }
    }

    @Test(
        "What is no finite number stays what it is in sums and averages",
        arguments: [
            (["\"NaN\"", "1.0"], JSONValue.string("NaN")), (["\"NaN\""], .string("NaN")),
            (["\"Infinity\"", "\"-Infinity\""], .string("NaN")),
            (["\"Infinity\"", "1"], .string("Infinity")),
            (["\"-Infinity\"", "\"-Infinity\""], .string("-Infinity")),
            (["\"NaN\"", "\"Infinity\""], .string("NaN")), (["1.5", "1.5"], .double(1.5)),
        ])
    func numbersThatAreNone(values: [String], average: JSONValue) async throws {
        try await HTTPTestNode.run { node in
            try await fill(node, "ratio", values + ["null"])
            let answer = try await ask(node, "ratio")
            #expect(answer["rows.0.average"] == average, "\(answer.text)")
            #expect(
                answer["rows.0.sum"] == (average == .double(1.5) ? .double(3) : average),
                "\(answer.text)")
            let none = try await ask(node, "ratio", #", "predicate": "age == 77""#)
            #expect(none["rows.0.sum"] == .double(0) && none["rows.0.average"] == .null)
        }
    }
}
