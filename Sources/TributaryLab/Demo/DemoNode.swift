import Client
import Coordinator
import Foundation
import Merge

/// A node of the demo, and what the demo asks of it over the same HTTP interface as everybody.
struct DemoNode: Sendable {
    let number: Int
    let url: String
    let client: NodeClient
}

extension DemoNode {
    func ask(_ method: String, _ path: String, _ body: JSONValue? = nil) async throws -> JSONObject
    {
        let answer = try await client.request(
            method, path, body: body.map { JSONWriter.bytes(of: $0) },
            timeout: .seconds(30))
        let value = answer.body.isEmpty ? .object([:]) : try JSONParser.parse(answer.body)
        guard (200..<300).contains(answer.status), let object = value.object else {
            throw DemoError(
                "Node \(number) answered \(method) \(path) with \(answer.status): "
                    + String(decoding: answer.body.prefix(500), as: UTF8.self))
        }
        return object
    }

    func save(_ operations: [JSONValue], author: String) async throws -> JSONObject {
        try await ask(
            "POST", "/v1/save",
            .object(["operations": .array(operations), "author": .string(author)]))
    }

    func objects(_ entity: String, sort: String, limit: Int) async throws -> [JSONObject] {
        let answer = try await ask(
            "POST", "/v1/fetch",
            .object([
                "entity": .string(entity), "sort": .array([.string(sort)]),
                "limit": .integer(Int64(limit)),
            ]))
        return (answer["objects"]?.array ?? []).compactMap(\.object)
    }

    func count(_ entity: String, generation: String? = nil) async throws -> Int {
        var request: JSONObject = [
            "entity": .string(entity), "resultType": .string("count"),
        ]
        if let generation { request["generation"] = .string(generation) }
        return Int(try await ask("POST", "/v1/fetch", .object(request))["count"]?.integer ?? -1)
    }

    func status() async throws -> JSONObject { try await ask("GET", "/v1/status") }

    func conflicts(_ query: String) async throws -> [JSONObject] {
        (try await ask("GET", "/v1/conflicts?\(query)")["conflicts"]?.array ?? [])
            .compactMap(\.object)
    }
}

extension JSONObject {
    func text(_ key: String) -> String { self[key]?.string ?? "" }
}
