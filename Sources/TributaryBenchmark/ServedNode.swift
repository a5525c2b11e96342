import Client
import Coordinator
import Foundation
import Node

/// A node in a process of its own: the built program beside the benchmark's.
final class ServedNode {
    let number: Int
    let port: Int
    let url: String
    let client: NodeClient
    private let configuration: String
    private let output: String
    private var process: Process?

    private init(number: Int, port: Int, configuration: String, output: String) throws {
        self.number = number
        self.port = port
        url = "http://127.0.0.1:\(port)"
        client = try NodeClient(url: url)
        self.configuration = configuration
        self.output = output
    }

    /// Writes the configuration of nodes that know each other, and starts none of them.
    ///
    /// - Parameters:
    ///   - model: their model, as JSON.
    ///   - others: where all nodes but the first have their stores; nil for the same folder.
    ///   - links: what they reach each other through; nil for directly.
    static func prepare(
        _ count: Int, in workspace: Workspace, model: String = SampleData.modelJSON,
        others: Workspace? = nil, links: MeshLinks? = nil
    ) async throws -> [ServedNode] {
        try write(model, to: workspace.file("model.json"))
        let ports = try FreePorts.take(count * 3)
        var nodes: [ServedNode] = []
        for number in 1...count {
            let own = (number - 1) * 3
            let folder = number == 1 ? workspace : others ?? workspace
            var lines = [
                "cluster: benchmark", "node: \(number)",
                "store: \(folder.file("n\(number).sqlite"))",
                "model: model.json", "http:", "  listen: 127.0.0.1:\(ports[own])",
            ]
            if count > 1 {
                lines += [
                    "mesh:", "  publish: tcp://127.0.0.1:\(ports[own + 1])",
                    "  exchange: tcp://127.0.0.1:\(ports[own + 2])", "  peers:",
                ]
                for peer in 1...count where peer != number {
                    var (publish, exchange) = (ports[peer * 3 - 2], ports[peer * 3 - 1])
                    if let links {
                        publish = try await links.port(towards: publish)
                        exchange = try await links.port(towards: exchange)
                    }
                    lines += [
                        "    - node: \(peer)", "      publish: tcp://127.0.0.1:\(publish)",
                        "      exchange: tcp://127.0.0.1:\(exchange)",
                    ]
                }
            }
            let path = workspace.file("n\(number).yaml")
            try write(lines.joined(separator: "\n") + "\n", to: path)
            nodes.append(
                try ServedNode(
                    number: number, port: ports[own], configuration: path,
                    output: workspace.file("n\(number).log")))
        }
        return nodes
    }

    private static func write(_ text: String, to path: String) throws {
        try text.write(toFile: path, atomically: true, encoding: .utf8)
    }

    /// Runs a benchmark with nodes that are all started, and ends them whatever happens.
    ///
    /// - Parameters:
    ///   - started: how many of them are started, from the first; nil for all.
    ///   - model: their model, as JSON.
    ///   - others: where all but the first have their stores; nil for the same folder.
    ///   - links: what they reach each other through; nil for directly.
    ///   - prepare: what to do before, such as filling a store.
    static func with<Result>(
        _ count: Int, started: Int? = nil, in workspace: Workspace,
        model: String = SampleData.modelJSON, others: Workspace? = nil, links: MeshLinks? = nil,
        prepare: () throws -> Void = {}, _ body: ([ServedNode]) async throws -> Result
    ) async throws -> Result {
        let nodes = try await Self.prepare(
            count, in: workspace, model: model, others: others, links: links)
        defer {
            for node in nodes { node.end() }
        }
        try prepare()
        for node in nodes.prefix(started ?? count) { try node.start() }
        for node in nodes.prefix(started ?? count) { try await node.waitUntilReady() }
        if (started ?? count) > 1 { try await waitUntilConnected(nodes) }
        let result = try await body(nodes)
        for node in nodes { await node.client.close() }
        return result
    }

    /// Starts the process.
    ///
    /// - Parameter isIdle: whether it gets what others leave of the processors only.
    func start(isIdle: Bool = false) throws {
        guard FileManager.default.createFile(atPath: output, contents: nil),
            let log = FileHandle(forWritingAtPath: output)
        else { throw BenchmarkError("\(output) cannot be written.") }
        let process = Process()
        let program = try Self.program()
        let arguments = ["serve", "--config", configuration]
        process.executableURL = isIdle ? URL(fileURLWithPath: "/usr/bin/chrt") : program
        process.arguments = (isIdle ? ["--idle", "0", program.path] : []) + arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = log
        process.standardError = log
        try process.run()
        self.process = process
    }

    /// The program, in the folder of this one.
    private static func program() throws -> URL {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let folder = URL(fileURLWithPath: own).deletingLastPathComponent()
        for name in ["tributary", "TributaryCLI"] {
            let program = folder.appendingPathComponent(name)
            if FileManager.default.isExecutableFile(atPath: program.path) { return program }
        }
        throw BenchmarkError("There is no tributary in \(folder.path): build the product first.")
    }

    /// Ends the process: gently, then not.
    func end() { process?.end(with: SIGTERM, or: SIGKILL) }

    /// Waits until it answers.
    func waitUntilReady(every milliseconds: Int = 5) async throws {
        let deadline = Clocks.seconds() + 30
        while Clocks.seconds() < deadline {
            if let answer = try? await client.request("GET", "/readyz"), answer.status == 200 {
                return
            }
            guard process?.isRunning ?? false else { break }
            try await Task.sleep(for: .milliseconds(milliseconds))
        }
        let log = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
        throw BenchmarkError("Node \(number) did not get ready:\n\(log.suffix(2000))")
    }

    private static func waitUntilConnected(_ nodes: [ServedNode]) async throws {
        let deadline = Clocks.seconds() + 30
        for node in nodes {
            while true {
                let peers = try await node.status()["peers"]?.array ?? []
                let connected = peers.count { $0.object?["connected"]?.boolean ?? false }
                if connected >= nodes.count - 1 { break }
                guard Clocks.seconds() < deadline else {
                    throw BenchmarkError("Node \(node.number) does not reach its peers.")
                }
                try await Task.sleep(for: .milliseconds(20))
            }
        }
    }

    /// The node's status.
    func status() async throws -> JSONObject {
        let answer = try await client.request("GET", "/v1/status")
        guard answer.status == 200, let status = try JSONParser.parse(answer.body).object else {
            throw BenchmarkError("Node \(number) answered \(answer.status) to a question.")
        }
        return status
    }

    /// The node's metrics without labels, by name.
    func metrics() async throws -> [String: Double] {
        let answer = try await client.request("GET", "/metrics")
        guard answer.status == 200 else {
            throw BenchmarkError("Node \(number) answered \(answer.status) to a question.")
        }
        let lines = String(decoding: answer.body, as: UTF8.self).split(separator: "\n")
        return lines.reduce(into: [:]) { metrics, line in
            let words = line.split(separator: " ")
            if words.count == 2 { metrics[String(words[0])] = Double(words[1]) }
        }
    }

    /// Has it compute from its rows what it says that it shows.
    ///
    /// - Throws: where that is something else.
    func verify() async throws {
        let answer = try await client.request("POST", "/v1/verify")
        guard answer.status == 200,
            try JSONParser.parse(answer.body).object?["ok"]?.boolean == true
        else {
            throw BenchmarkError(
                "Node \(number) has not what it says: "
                    + String(decoding: answer.body.prefix(500), as: UTF8.self))
        }
    }

    /// The memory it holds, in megabytes of 10^6 bytes.
    var residentMegabytes: Double { memory("VmRSS:") }

    /// The most memory it has held, likewise.
    var peakMegabytes: Double { memory("VmHWM:") }

    private func memory(_ key: String) -> Double {
        guard let process else { return 0 }
        let path = "/proc/\(process.processIdentifier)/status"
        let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
        for line in text.split(separator: "\n") where line.hasPrefix(key) {
            let number = line.split(separator: " ").dropFirst().first.flatMap { Double($0) }
            return (number ?? 0) * 1024 / 1e6
        }
        return 0
    }
}

extension ServedNode: Server {
    var processID: pid_t? { process?.processIdentifier }

    func start() throws { try start(isIdle: false) }
}

/// Ports of loopback that nobody listens on, below those that the system deals out by itself.
enum FreePorts {
    static func take(_ count: Int) throws -> [Int] {
        var ports: [Int] = []
        var candidate = 21_000 + Int(getpid()) % 9000
        for _ in 0..<10_000 where ports.count < count {
            candidate = candidate >= 31_000 ? 21_000 : candidate + 1
            if isFree(candidate) { ports.append(candidate) }
        }
        guard ports.count == count else { throw BenchmarkError("There are no free ports.") }
        return ports
    }

    private static func isFree(_ port: Int) -> Bool {
        let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard socket >= 0 else { return false }
        defer { close(socket) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}
