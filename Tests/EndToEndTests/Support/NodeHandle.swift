import Client
import Coordinator
import Foundation
import Node
import Synchronization
import TestSupport

/// One node of a cluster under test: its files, its process while it runs, and what it answers.
final class NodeHandle: Sendable {
    let number: Int
    let folder: URL
    let store: URL
    let httpPort: Int
    let publishPort: Int
    let exchangePort: Int
    private let running = Mutex<TestProcess?>(nil)
    private let client: NodeClient

    /// - Parameter storeFolder: where its store is; nil for beside everything else.
    init(number: Int, folder: URL, ports: [Int], storeFolder: URL? = nil) throws {
        self.number = number
        self.folder = folder
        store = (storeFolder ?? folder).appendingPathComponent("n\(number).sqlite")
        httpPort = ports[0]
        publishPort = ports[1]
        exchangePort = ports[2]
        client = try NodeClient(url: "http://127.0.0.1:\(ports[0])")
    }

    var ports: [Int] { [httpPort, publishPort, exchangePort] }
    var url: String { "http://127.0.0.1:\(httpPort)" }
    var configuration: URL { folder.appendingPathComponent("n\(number).yaml") }
    /// The file of what it says on standard error, of all its runs.
    var errors: URL { folder.appendingPathComponent("n\(number).err") }
    /// All that it has said on standard error.
    var said: String { (try? String(contentsOf: errors, encoding: .utf8)) ?? "" }
    var process: TestProcess? { running.withLock { $0 } }
    var residentBytes: Int { process?.residentBytes ?? 0 }

    /// How many descriptors the node has open; 0 when it does not run.
    var openDescriptors: Int { process?.openDescriptors ?? 0 }

    /// A client with a connection of its own, for requests beside others.
    func makeClient() throws -> NodeClient { try NodeClient(url: url) }

    /// The settings of a node.
    ///
    /// - Parameters:
    ///   - ports: for HTTP, to publish and to exchange; only the first for a node without a mesh.
    ///   - peers: the numbers of others, with the ports at which they publish and exchange.
    static func settings(
        number: Int, store: String, model: String = "model.json", ports: [Int],
        peers: [(number: Int, publish: Int, exchange: Int)] = []
    ) -> String {
        var lines = [
            "cluster: test", "node: \(number)", "store: \(store)", "model: \(model)", "http:",
            "  listen: 127.0.0.1:\(ports[0])",
        ]
        if ports.count > 1 {
            lines += [
                "mesh:", "  publish: tcp://127.0.0.1:\(ports[1])",
                "  exchange: tcp://127.0.0.1:\(ports[2])",
            ]
        }
        if !peers.isEmpty { lines.append("  peers:") }
        for peer in peers {
            lines += [
                "    - node: \(peer.number)", "      publish: tcp://127.0.0.1:\(peer.publish)",
                "      exchange: tcp://127.0.0.1:\(peer.exchange)",
            ]
        }
        return lines.joined(separator: "\n") + "\n"
    }

    // MARK: - The process

    /// Starts the node and waits until it says that it is ready.
    ///
    /// - Parameters:
    ///   - launcher: a program with arguments that becomes the node's, such as a tracer.
    ///   - environment: what is added to the environment.
    func start(launcher: [String] = [], environment: [String: String] = [:]) async throws {
        guard try await startUnlessEnded(launcher: launcher, environment: environment) else {
            throw EndToEndError(
                "Node \(number) ended at its start. It says: \(process?.lastErrors ?? "")")
        }
    }

    /// The same; gives whether it became ready, and not whether it ended before.
    func startUnlessEnded(
        launcher: [String] = [], environment: [String: String] = [:]
    ) async throws -> Bool {
        let output = folder.appendingPathComponent("n\(number).out")
        try Data().write(to: output)
        let process = try TestProcess(
            ["serve", "--config", configuration.path], output: output,
            errors: errors, launcher: launcher,
            environment: environment)
        running.withLock { $0 = process }
        var isReady = false
        try await eventually(
            "node \(number) was ready. It says: \(process.lastErrors)", every: .milliseconds(10)
        ) {
            let said = (try? String(contentsOf: output, encoding: .utf8)) ?? ""
            isReady = said.split(separator: "\n").contains { $0.contains(":\(httpPort)") }
            return isReady || !process.isRunning
        }
        return isReady
    }

    /// Ends the process without warning, and waits until it is gone.
    func kill() async throws {
        process?.send(SIGKILL)
        _ = try await process?.waitForExit()
    }

    /// Asks the process to end; gives its exit code.
    func terminate() async throws -> Int32 {
        guard let process else { return 0 }
        process.send(SIGTERM)
        return try await process.waitForExit()
    }

    /// Stops the process where it stands, as if its machine had been suspended.
    func suspend() { process?.send(SIGSTOP) }

    /// Lets a stopped process go on.
    func resume() { process?.send(SIGCONT) }

    func end() async {
        await client.close()
        await process?.end()
    }

    // MARK: - What it answers

    /// Asks, and gives status and answer, whatever the status.
    func ask(
        _ method: String, _ path: String, _ body: JSONValue? = nil,
        timeout: Duration = .seconds(30), using other: NodeClient? = nil
    ) async throws -> (status: Int, body: JSONObject) {
        let answer = try await (other ?? client).request(
            method, path, body: body.map { JSONWriter.bytes(of: $0) }, timeout: timeout)
        let value =
            answer.body.isEmpty
            ? nil
            : try? JSONParser.parse(answer.body, maximumBytes: 256 << 20)
        return (answer.status, value?.object ?? [:])
    }

    /// Asks, and throws where the answer is an error.
    func expect(
        _ method: String, _ path: String, _ body: JSONValue? = nil,
        timeout: Duration = .seconds(30), using other: NodeClient? = nil
    ) async throws -> JSONObject {
        let (status, answer) = try await ask(method, path, body, timeout: timeout, using: other)
        guard (200..<300).contains(status) else {
            throw EndToEndError(
                "Node \(number) answered \(method) \(path) with \(status): "
                    + JSONWriter.text(of: .object(answer)).prefix(1000))
        }
        return answer
    }

    /// Saves operations; gives the answer.
    @discardableResult
    func save(
        _ operations: [JSONValue], saveID: String? = nil, using other: NodeClient? = nil
    ) async throws -> SaveAnswerText {
        var request: JSONObject = ["operations": .array(operations)]
        if let saveID { request["saveID"] = .string(saveID) }
        return SaveAnswerText(try await expect("POST", "/v1/save", .object(request), using: other))
    }

    /// The same of operations that are listed.
    @discardableResult
    func save(_ operations: JSONValue..., saveID: String? = nil) async throws -> SaveAnswerText {
        try await save(operations, saveID: saveID)
    }

    /// Asks for a save; gives the answer, also where it is an error.
    func askToSave(_ operations: JSONValue...) async throws -> (status: Int, body: JSONObject) {
        try await ask("POST", "/v1/save", ["operations": .array(operations)])
    }

    /// The alarms that were raised last, by name.
    func alarms() async throws -> [String] {
        try await status().objects("alarms").map { $0.text("name") }
    }

    /// Why it refuses saves; nil where it takes them.
    func savingRefusal() async throws -> String? {
        try await status()["savesRefused"]?.object?.text("code")
    }

    /// All objects of an entity by name; `generation` reads a pinned one.
    func objects(_ entity: String, generation: String? = nil) async throws -> [JSONObject] {
        var request: JSONObject = ["entity": .string(entity), "sort": .array(["name"])]
        if let generation { request["generation"] = .string(generation) }
        let answer = try await expect("POST", "/v1/fetch", .object(request))
        return answer.objects("objects")
    }

    func count(_ entity: String, generation: String? = nil) async throws -> Int {
        var request: JSONObject = ["entity": .string(entity), "resultType": "count"]
        if let generation { request["generation"] = .string(generation) }
        let answer = try await expect("POST", "/v1/fetch", .object(request))
        guard let count = answer["count"]?.integer else {
            throw EndToEndError("A count without a count: \(answer)")
        }
        return Int(count)
    }

    func conflicts(_ query: String) async throws -> [JSONObject] {
        try await expect("GET", "/v1/conflicts?\(query)").objects("conflicts")
    }

    /// The conflicts that nobody has resolved, lowest ID first.
    func unresolvedConflicts() async throws -> [JSONObject] {
        return try await conflicts("state=unresolved&limit=10000")
            .sorted { $0.text("id") < $1.text("id") }
    }

    func status() async throws -> JSONObject { try await expect("GET", "/v1/status") }

    /// What must be equal where the same was applied.
    func position() async throws -> Position { Position(try await status()) }

    /// A metric without labels; nil where there is none.
    func metric(_ name: String) async throws -> Double? {
        let answer = try await client.request("GET", "/metrics")
        let lines = String(decoding: answer.body, as: UTF8.self).split(separator: "\n")
        return lines.first { $0.hasPrefix("\(name) ") }?.split(separator: " ").last
            .flatMap { Double($0) }
    }

    /// Whether the digest fits the rows here, and the peers' at the same vector.
    func verify() async throws -> JSONObject {
        try await expect("POST", "/v1/verify", timeout: .seconds(60))
    }
}

/// Vector and digest of a node.
struct Position: Hashable, Sendable, CustomStringConvertible {
    let vector: [String: Int64]
    let digest: String

    init(_ status: JSONObject) {
        vector = status.vector("vector")
        digest = status.text("digest")
    }

    var description: String {
        let entries = vector.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }
        return "\(digest) at \(entries.joined(separator: ", "))"
    }
}

/// What a node answered to a save.
struct SaveAnswerText: Sendable {
    /// Orders writes as their policies do.
    struct Stamp: Comparable, Sendable {
        let milliseconds: Int64
        let counter: Int64
        let node: Int64

        static func < (left: Stamp, right: Stamp) -> Bool {
            (left.milliseconds, left.counter, left.node)
                < (right.milliseconds, right.counter, right.node)
        }
    }

    let body: JSONObject

    init(_ body: JSONObject) { self.body = body }

    /// The dot; empty where nothing was left to save.
    var transaction: String { body.text("transaction") }

    var stamp: Stamp {
        let timestamp = body["timestamp"]?.object ?? [:]
        return Stamp(
            milliseconds: timestamp["milliseconds"]?.integer ?? 0,
            counter: timestamp["counter"]?.integer ?? 0,
            node: Int64(transaction.split(separator: ".").first ?? "") ?? 0)
    }

    /// The URI of an object that the request named.
    func uri(_ name: String) throws -> String {
        guard let uri = body["ids"]?.object?[name]?.string else {
            throw EndToEndError("The save's answer does not say what became of \(name)")
        }
        return uri
    }
}

extension JSONObject {
    func text(_ key: String) -> String { self[key]?.string ?? "" }

    func objects(_ key: String) -> [JSONObject] { (self[key]?.array ?? []).compactMap(\.object) }

    /// The code of an error; empty where it is none.
    var code: String { self["error"]?.object?.text("code") ?? "" }

    func vector(_ key: String) -> [String: Int64] {
        var result: [String: Int64] = [:]
        for member in self[key]?.object?.members ?? [] {
            result[member.key] = member.value.integer ?? -1
        }
        return result
    }

    /// A property of an object as a fetch gives it.
    func value(_ property: String) -> JSONValue? { self["values"]?.object?[property] }
}
