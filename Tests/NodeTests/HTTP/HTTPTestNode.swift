import Client
import Coordinator
import Foundation
import Merge
import Node
import Simulation
import Synchronization
import TestSupport

/// A node without a mesh: a coordinator in a temporary directory behind the HTTP interface.
final class HTTPTestNode: Sendable {
    let backend: FakeBackend
    let server: HTTPServer
    let client: NodeClient
    let directory: URL

    var coordinator: PersistentStoreCoordinator { backend.coordinator }
    var url: String { "http://127.0.0.1:\(server.port)" }

    private init(backend: FakeBackend, server: HTTPServer, client: NodeClient, directory: URL) {
        self.backend = backend
        self.server = server
        self.client = client
        self.directory = directory
    }

    /// Runs a test against a node, and removes it.
    ///
    /// - Parameter disk: where its store is; nil for in a folder.
    static func run(
        options: HTTPServer.Options = HTTPServer.Options(), model: String = modelText,
        disk: SimulatedDisk? = nil,
        _ body: (HTTPTestNode) async throws -> Void
    ) async throws {
        let directory = try URL.makeTemporaryFolder()
        defer { try? FileManager.default.removeItem(at: directory) }
        var storeOptions = PersistentStoreCoordinator.Options()
        if let disk { storeOptions.files = disk }
        let coordinator = try PersistentStoreCoordinator(
            storeAt: disk?.path("store.sqlite")
                ?? directory.appendingPathComponent("store.sqlite").path,
            model: try ManagedObjectModel(json: Array(model.utf8)), cluster: "demo",
            node: try node(1), options: storeOptions)
        defer { coordinator.close() }
        var options = options
        options.listen = HostAddress(host: "127.0.0.1", port: 0)
        let backend = FakeBackend(coordinator)
        let server = try await HTTPServer.start(backend: backend, options: options)
        var limits = NodeClient.Limits()
        limits.requestTimeout = .seconds(300)
        limits.connectTimeout = .seconds(60)
        let client = try NodeClient(
            url: "http://127.0.0.1:\(server.port)", token: options.token, limits: limits)
        let node = HTTPTestNode(
            backend: backend, server: server, client: client, directory: directory)
        do {
            try await body(node)
        } catch {
            await client.close()
            await server.stop()
            throw error
        }
        await client.close()
        await server.stop()
    }

    static func node(_ number: Int) throws -> NodeID {
        guard let node = NodeID(number) else { throw CocoaError(.formatting) }
        return node
    }

    /// An answer with its body as JSON.
    struct Answer {
        let status: Int
        let headers: [(String, String)]
        let json: JSONValue
        let text: String

        subscript(path: String) -> JSONValue? {
            var value: JSONValue? = json
            for part in path.split(separator: ".") {
                if let index = Int(part), let array = value?.array {
                    value = index < array.count ? array[index] : nil
                } else {
                    value = value?.object?[String(part)]
                }
            }
            return value
        }

        var code: String? { self["error.code"]?.string }
        var message: String { self["error.message"]?.string ?? "" }
    }

    func ask(
        _ method: String, _ path: String, _ body: String? = nil,
        headers: [(String, String)] = []
    ) async throws -> Answer {
        let response = try await client.request(
            method, path, body: body.map { Array($0.utf8) }, headers: headers)
        return Answer(
            status: response.status, headers: response.headers,
            json: (try? JSONParser.parse(response.body, maximumBytes: .max)) ?? .null,
            text: String(decoding: response.body, as: UTF8.self))
    }

    func save(_ body: String) async throws -> Answer { try await ask("POST", "/v1/save", body) }

    func save(operations: String...) async throws -> Answer {
        try await save(#"{"operations": [\#(operations.joined(separator: ", "))]}"#)
    }

    func fetch(_ body: String) async throws -> Answer { try await ask("POST", "/v1/fetch", body) }

    /// Inserts a person and gives its URI and version.
    func insertPerson(
        _ name: String, _ values: String = ""
    ) async throws -> (uri: String, version: String) {
        let answer = try await save(
            """
            {"operations": [{"insert": "Person", "id": "@p",
              "values": {"name": "\(name)"\(values.isEmpty ? "" : ", " + values)}}]}
            """)
        guard let uri = answer["ids.@p"]?.string,
            let version = answer["transaction"]?.string
        else { throw Unexpected(answer.text) }
        return (uri, version)
    }

    /// An answer that a test cannot go on with.
    struct Unexpected: Error {
        let text: String
        init(_ text: String) { self.text = text }
    }

    /// Applies a concurrent write of another node to a person's name, so that there is a
    /// conflict: it has seen nothing but the person's insertion.
    func applyForeignName(
        _ name: String, of uri: String, seen: VersionVector, node: Int = 2
    ) throws {
        guard let object = ObjectURI(uri) else { throw Unexpected(uri) }
        try apply(
            node: node, seen: seen, [ChangeShape(entity: "Person", assigned: ["name"])],
            [Change(kind: .update, shape: 0, row: object.row, values: [.string(name)])])
    }

    /// Applies what another node has written without having seen more than that.
    func apply(
        node: Int = 2, seen: VersionVector, _ shapes: [ChangeShape], _ changes: [Change],
        sequence: UInt64 = 1
    ) throws {
        let actor = ActorID(node: try Self.node(node), startedAtSeconds: 1_700_000_000, random: 7)
        let milliseconds = 1_700_000_000_000 + sequence
        let transaction = Transaction(
            dot: Dot(actor: actor, sequence: sequence),
            timestamp: HybridTimestamp(milliseconds: milliseconds, counter: 3) ?? .zero,
            seen: seen, author: "elsewhere", modelHash: coordinator.model.modelHash,
            shapes: shapes, changes: changes)
        _ = try coordinator.apply([EncodedTransaction(transaction)])
    }

    static let modelText = """
        {"entities": [
          {"name": "Person",
           "attributes": [
             {"name": "name", "type": "string", "optional": false, "validation": {"max": 20}},
             {"name": "age", "type": "integer64"}, {"name": "small", "type": "integer16"},
             {"name": "ratio", "type": "double"}, {"name": "price", "type": "decimal"},
             {"name": "born", "type": "date"}, {"name": "photo", "type": "binary"},
             {"name": "token", "type": "uuid"}, {"name": "site", "type": "uri"},
             {"name": "active", "type": "boolean"},
             {"name": "mood", "type": "string", "transient": true}],
           "relationships": [
             {"name": "manager", "destination": "Person", "inverse": "reports"},
             {"name": "reports", "destination": "Person", "inverse": "manager", "toMany": true},
             {"name": "friends", "destination": "Person", "inverse": "friends", "toMany": true},
             {"name": "pass", "destination": "Pass", "inverse": "holder"},
             {"name": "notes", "destination": "Note", "inverse": "owner", "toMany": true,
              "deleteRule": "deny"}]},
          {"name": "Pass",
           "attributes": [{"name": "number", "type": "string"}],
           "relationships": [{"name": "holder", "destination": "Person", "inverse": "pass"}],
           "uniquenessConstraints": [["number"]]},
          {"name": "Note", "mergePolicy": "mergeByPropertyObjectTrump",
           "attributes": [{"name": "text", "type": "string"}],
           "relationships": [{"name": "owner", "destination": "Person", "inverse": "notes"}]},
          {"name": "Shape", "abstract": true, "attributes": [{"name": "area", "type": "double"}]},
          {"name": "Circle", "parent": "Shape"}]}
        """
}

extension HTTPServer.Options {
    /// The default ones, but for what is changed.
    static func with(_ change: (inout Self) -> Void) -> Self {
        var options = Self()
        change(&options)
        return options
    }
}

/// A backend with a store and no mesh.
final class FakeBackend: NodeBackend {
    let coordinator: PersistentStoreCoordinator
    let ready = Mutex(true)
    let missing = Mutex<[NodeID]>([])
    let digests = Mutex<[PeerDigest]>([])
    let failures = Mutex<[RequestFailure]>([])
    let connectionNotes = Mutex<[ConnectionNote]>([])
    /// How often something that ends in a save was done through it, but for saves.
    let savings = Mutex(0)

    init(_ coordinator: PersistentStoreCoordinator) { self.coordinator = coordinator }

    var isReady: Bool { ready.withLock { $0 } }

    func status() async -> NodeStatus {
        var members = [coordinator.node]
        var peers: [NodeStatus.Peer] = []
        if let other = NodeID(2) {
            members.append(other)
            peers.append(
                NodeStatus.Peer(
                    node: other, isConnected: true, vector: VersionVector(), lag: 4,
                    missingHere: 0, clockOffsetMilliseconds: -12))
        }
        return NodeStatus(members: members, peers: peers)
    }

    func metricsText() async -> String { "tributary_up 1\n" }

    func peerDigests() async -> [PeerDigest] { digests.withLock { $0 } }

    func noteFailure(_ failure: RequestFailure) { failures.withLock { $0.append(failure) } }

    func noteConnections(_ note: ConnectionNote) { connectionNotes.withLock { $0.append(note) } }

    func saving(
        _ save: @Sendable (PersistentStoreCoordinator) async throws -> SaveResult
    ) async throws -> SaveResult {
        savings.withLock { $0 += 1 }
        return try await save(coordinator)
    }

    func waitForAcknowledgements(
        of dot: Dot, level: Acknowledgement, timeout: Duration
    ) async -> [NodeID] { missing.withLock { $0 } }
}

/// Makes a golden text of an answer: what differs from run to run is replaced by its kind.
func normalised(_ text: String) -> String {
    var result = text
    for (pattern, replacement) in [
        (#"[0-9]+\.[0-9a-f]{9,16}-([0-9]+)"#, "DOT-$1"), (#"[0-9]+\.[0-9a-f]{9,16}"#, "ACTOR"),
        (#""milliseconds":[0-9]+,"counter":[0-9]+"#, "TIME"),
        (#"p[0-9]{12,19}"#, "pROW"), (#""token":"[A-Za-z0-9_-]{16,}""#, #""token":"TOKEN""#),
    ] {
        result = result.replacingOccurrences(
            of: pattern, with: replacement, options: .regularExpression)
    }
    return result
}
