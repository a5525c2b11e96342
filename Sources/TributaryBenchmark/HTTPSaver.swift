import Client
import Coordinator
import Node

/// One saver with a connection of its own, which is kept alive.
struct HTTPSaver: Sendable {
    let client: NodeClient

    init(url: String) throws { client = try NodeClient(url: url) }

    /// The operation that inserts an object.
    ///
    /// - Parameter name: by what the answer is to tell its URI, with an @ in front; nil for not at
    ///   all.
    static func insertion(_ item: SampleData.Item, named name: String? = nil) -> String {
        let id = name.map { "\"id\":\"\($0)\"," } ?? ""
        return """
            {"insert":"Item",\(id)"values":{"count":\(item.count),\
            "name":"\(item.name)","note":"\(item.note)","weight":\(item.weight)}}
            """
    }

    /// The operation that writes over an object's note.
    static func noting(_ note: String, in uri: String) -> String {
        """
        {"update":"\(uri)","values":{"note":"\(note)"}}
        """
    }

    /// Saves one object; gives the answer's body.
    func save(_ item: SampleData.Item) async throws -> [UInt8] {
        try await save([Self.insertion(item)])
    }

    /// Makes one save of operations; gives the answer's body.
    func save(_ operations: [String]) async throws -> [UInt8] {
        let answer = try await client.request(
            "POST", "/v1/save",
            body: Array("{\"operations\":[\(operations.joined(separator: ","))]}".utf8))
        guard answer.status == 200 else {
            throw BenchmarkError(
                "A save was answered with \(answer.status): "
                    + String(decoding: answer.body.prefix(500), as: UTF8.self))
        }
        return answer.body
    }
}
