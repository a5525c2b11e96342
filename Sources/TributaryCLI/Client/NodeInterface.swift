// The client interface of a running node, over HTTP.

import Client
import Console
import Coordinator
import Merge
import Node

/// Talks to a node. Usable from any task.
struct NodeInterface: ClientInterface {
    let name: String
    let client: NodeClient
    /// Whether bodies are sent as CBOR where the node takes it: bytes are shorter so.
    var sendsCBOR = false

    /// - Throws: ``CommandFailure`` where the URL is none, or the roots of trust cannot be read.
    init(url: String, token: String?, trust: TLSTrust = .system) throws {
        name = url
        do {
            client = try NodeClient(url: url, token: token, trust: trust)
        } catch { throw CommandFailure(describing: error) }
    }

    func exchange(
        _ method: String, _ path: String, _ body: JSONValue?
    ) async throws -> (status: Int, body: [UInt8]) {
        let deadline = Self.deadline(path, body)
        let answer: NodeClient.Response
        if sendsCBOR, let body {
            // Answers are shown as they come, so they are JSON all the same.
            answer = try await client.request(
                method, path, cbor: CBORWriter.bytes(of: body),
                orJSON: { JSONWriter.bytes(of: body) }, headers: [("Accept", "application/json")],
                timeout: deadline)
        } else {
            answer = try await client.request(
                method, path, body: body.map { JSONWriter.bytes(of: $0) }, timeout: deadline)
        }
        return (answer.status, answer.body)
    }

    func fetchedLines(
        _ body: JSONValue, _ receive: ([UInt8]) async throws -> Void
    ) async throws {
        let stream = try await client.stream(
            "POST", "/v1/fetch", body: JSONWriter.bytes(of: body),
            headers: [("Accept", "application/x-ndjson")],
            idleTimeout: Self.deadline("/v1/fetch", body))
        guard stream.status == 200 else {
            throw CommandFailure(status: stream.status, body: try await Self.whole(stream))
        }
        for try await line in stream { try await receive(Array(line.utf8)) }
    }

    /// Carries a batch request out; hands over each line of the answer.
    ///
    /// - Throws: ``CommandFailure`` where the answer is no success.
    func batchLines(_ body: JSONValue, _ receive: (JSONObject) throws -> Void) async throws {
        let stream = try await client.stream(
            "POST", "/v1/batch", body: JSONWriter.bytes(of: body),
            headers: [("Accept", "application/x-ndjson")], idleTimeout: Self.ofWholeStores)
        guard stream.status == 200 else {
            throw CommandFailure(status: stream.status, body: try await Self.whole(stream))
        }
        for try await line in stream {
            let object = try JSONParser.parse(Array(line.utf8), maximumBytes: 1 << 30).object
            if let object { try receive(object) }
        }
    }

    /// Follows the log; hands over every applied transaction until the closure gives false.
    func changes(_ receive: (JSONObject) async throws -> Bool) async throws {
        do {
            let stream = try await client.stream("GET", "/v1/changes", idleTimeout: .seconds(60))
            guard stream.status == 200 else {
                throw CommandFailure(status: stream.status, body: try await Self.whole(stream))
            }
            // The head of the answer says that the node follows: nothing is missed from here on.
            guard try await receive(JSONObject()) else { return }
            for try await line in stream where line.hasPrefix("data:") {
                let bytes = Array(line.dropFirst(5).utf8)
                guard let object = try JSONParser.parse(bytes, maximumBytes: 1 << 30).object
                else { continue }
                guard try await receive(object) else { return }
            }
        } catch { throw CommandFailure(describing: error) }
        throw CommandFailure(.noAnswer, "\(name) ended the feed: it has stopped.")
    }

    func close() async { await client.close() }

    // MARK: Deadlines

    /// How long a node has for its ordinary answers: more than the minute after which it gives up
    /// what it reads, so that the command can still show its reason.
    private static let usual = Duration.seconds(75)

    /// How long verifying and backing up may take: both read the whole store, so its size alone
    /// bounds them, and nobody here knows that. In a day a slow disk reads a terabyte. To give up
    /// sooner would call a failure what the node goes on with, and completes. One that ends
    /// meanwhile ends the connection as well, and that is noticed at once.
    private static let ofWholeStores = Duration.seconds(86_400)

    /// How long the answer to a request may take.
    static func deadline(_ path: String, _ body: JSONValue?) -> Duration {
        switch path {
        case "/v1/verify", "/v1/backup", "/v1/batch": ofWholeStores
        default: usual + patience(path, body)
        }
    }

    /// For how long a request lets the node wait, for other nodes or for their saves: it answers
    /// after that only. What is no such time the node refuses at once.
    private static func patience(_ path: String, _ body: JSONValue?) -> Duration {
        let seconds: Double? =
            switch body?.object?["timeoutSeconds"] {
            case .integer(let number)?: Double(number)
            case .double(let number)?: number
            default:
                path.firstRange(of: "timeoutSeconds=").flatMap {
                    Double(path[$0.upperBound...].prefix { $0 != "&" })
                }
            }
        guard let seconds, (0...3_600).contains(seconds) else { return .zero }
        return .milliseconds(Int64(seconds * 1000))
    }

    private static func whole(_ stream: NodeLineStream) async throws -> [UInt8] {
        var body: [UInt8] = []
        for try await line in stream where body.count < 1 << 20 { body += Array(line.utf8) }
        return body
    }
}
