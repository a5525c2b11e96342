import ArgumentParser
import Console
import Coordinator
import Foundation
import Node

/// `tributary save`.
struct SaveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "save",
        abstract: "Save one atomic transaction, described as JSON or CBOR.",
        discussion: """
            The JSON is the body of POST /v1/save: {"operations": [{"insert": "Person", "values": \
            {"name": "Ada"}}]}. CBOR (RFC 8949) has the same structure. Without a saveID it is \
            given one, so that a lost answer can be asked for.
            """)

    @Argument(help: "A file with JSON or CBOR, or - for standard input.", completion: .file())
    var file: String

    @Flag(help: "Allow more than 20,000 operations. Other saves wait while they are written.")
    var bulk = false

    @OptionGroup var options: NodeOptions

    func run() async throws {
        let bytes = try ByteSource.whole(file, maximumBytes: 1 << 30)
        var body: JSONObject
        let isCBOR = Self.isCBOR(bytes)
        do {
            let value =
                isCBOR
                ? try CBORParser.parse(bytes, maximumBytes: 1 << 30)
                : try JSONParser.parse(bytes, maximumBytes: 1 << 30)
            guard let object = value.object else {
                throw CommandFailure.usage("\(file) holds \(value.kind), not an object.")
            }
            body = object
        } catch let error as JSONError {
            throw CommandFailure.usage("\(file) is not JSON: \(error).")
        } catch let error as CBORError {
            throw CommandFailure.usage("\(file) cannot be taken as CBOR: \(error).")
        }
        let saveID: String
        switch body["saveID"] ?? .null {
        case .null: saveID = "save-\(UUID().uuidString)"
        case .string(let given): saveID = given
        // With another one in its place it would be saved again each time.
        case let other: throw CommandFailure.usage("The \"saveID\" is \(other.kind), not a string.")
        }
        body["saveID"] = .string(saveID)
        if bulk { body["bulk"] = .boolean(true) }
        let isEmpty = body["operations"]?.array?.isEmpty ?? false
        var node = try options.open()
        node.sendsCBOR = isCBOR
        let answer = try await node.save(.object(body), saveID: saveID)
        do {
            try show(answer, of: node, isEmpty: isEmpty)
        } catch let failure as CommandFailure where !failure.isUnread {
            let dot = answer.json.object?["transaction"]?.string
            throw CommandFailure(
                failure.code, (dot.map { "Saved as \($0). " } ?? "") + failure.message)
        }
        await node.close()
    }

    /// Whether bytes begin as a map of CBOR does: no text in UTF-8 begins with such a byte.
    private static func isCBOR(_ bytes: [UInt8]) -> Bool {
        bytes.first.map { (0xA0...0xBF).contains($0) } ?? false
    }

    private func show(
        _ answer: InterfaceAnswer, of node: some ClientInterface, isEmpty: Bool
    ) throws {
        try node.show(answer, asJSON: options.json) { answer, terminal in
            guard let dot = answer["transaction"]?.string else {
                return [
                    isEmpty
                        ? "There was nothing to save: \(file) has no operations."
                        : "Nothing changed: the objects have these values already, or the merge policy kept "
                            + "the store's."
                ]
            }
            var lines = ["Saved as \(terminal.style.paint(dot, .green))."]
            for id in answer["ids"]?.object?.members ?? [] {
                lines.append("\(id.key)\t\(JSONRendering.brief(id.value))")
            }
            for object in answer["incremented"]?.object?.members ?? [] {
                let values = object.value.object?.members ?? []
                lines.append(
                    ([object.key] + values.map { "\($0.key) \(JSONRendering.brief($0.value))" })
                        .joined(separator: "\t"))
            }
            let conflicts = answer["conflicts"]?.array ?? []
            if !conflicts.isEmpty {
                lines.append("Conflicts on the way: \(JSONRendering.brief(.array(conflicts)))")
            }
            return lines
        }
    }
}

extension NodeInterface {
    /// Saves, and asks what became of it where the answer is lost.
    ///
    /// - Throws: ``CommandFailure`` with `outcomeUnknown` where nobody could be asked.
    func save(
        _ body: JSONValue, saveID: String, path: String = "/v1/save"
    ) async throws -> InterfaceAnswer {
        do {
            return try await post(path, body)
        } catch let failure as CommandFailure where failure.mayHaveHappened {
            // The node does it at most once under that ID, so to ask again does no harm.
            for _ in 0..<5 {
                try await Task.sleep(for: .milliseconds(500))
                do {
                    return try await post(path, body)
                } catch let again as CommandFailure
                    where again.mayHaveHappened || again.code == .noAnswer
                {
                    continue
                }
            }
            throw CommandFailure(
                .outcomeUnknown,
                "The node's answer was lost: \(failure.message) Whether save \(saveID) was done is "
                    + "told by GET /v1/saves/\(RequestPath.encode(saveID)) when it is back.")
        }
    }
}
