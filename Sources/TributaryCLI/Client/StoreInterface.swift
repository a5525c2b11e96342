// The reading part of the client interface, answered from a store's file by a node's own resources.

import Console
import Coordinator
import Node

/// Answers from the file of a store, which is opened for reading only.
struct StoreInterface: ClientInterface {
    let name: String
    private let file: FileInterface

    /// - Throws: ``CommandFailure`` where the file is no store or cannot be read.
    init(path: String) throws {
        name = path
        do {
            file = try FileInterface(readingStoreAt: path)
        } catch { throw CommandFailure(describing: error) }
    }

    func exchange(
        _ method: String, _ path: String, _ body: JSONValue?
    ) async throws -> (status: Int, body: [UInt8]) {
        let answer = await file.answer(
            method, path, body: body.map { JSONWriter.bytes(of: $0) } ?? [])
        return (answer.status, try await answer.bytes())
    }

    func fetchedLines(
        _ body: JSONValue, _ receive: ([UInt8]) async throws -> Void
    ) async throws {
        let answer = await file.answer(
            "POST", "/v1/fetch", body: JSONWriter.bytes(of: body), wantsLines: true)
        guard answer.status == 200 else {
            throw CommandFailure(status: answer.status, body: try await answer.bytes())
        }
        var rest: [UInt8] = []
        try await answer.send { part in
            rest += part
            var begin = rest.startIndex
            while let end = rest[begin...].firstIndex(of: 0x0A) {
                try await receive(Array(rest[begin..<end]))
                begin = end + 1
            }
            rest.removeSubrange(..<begin)
        }
    }

    func close() async { await file.close() }
}
