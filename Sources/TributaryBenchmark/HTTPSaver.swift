import Coordinator
import Node

/// One saver with a connection of its own, which is kept alive.
struct HTTPSaver: Sendable {
    let client: NodeClient

    init(url: String) throws { client = try NodeClient(url: url) }

    /// The body of a save of one object.
    static func body(_ item: SampleData.Item) -> [UInt8] {
        Array(
            """
            {"operations":[{"insert":"Item","values":{"count":\(item.count),\
            "name":"\(item.name)","note":"\(item.note)","weight":\(item.weight)}}]}
            """.utf8)
    }

    /// Saves one object; gives the answer's body.
    func save(_ item: SampleData.Item) async throws -> [UInt8] {
        let answer = try await client.request(
            "POST", "/v1/save", body: Self.body(item),
            headers: [("Content-Type", "application/json")])
        guard answer.status == 200 else {
            throw BenchmarkError(
                "A save was answered with \(answer.status): "
                    + String(decoding: answer.body.prefix(500), as: UTF8.self))
        }
        return answer.body
    }
}
