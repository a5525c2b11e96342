import Client
import Console
import Coordinator
import Foundation
import LinkProxy
import Merge

/// Something the demo could not go on without.
struct DemoError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Three real nodes as processes of their own, and the links between them, which can be cut.
///
/// Whatever happens, ``stop()`` ends what was started.
final class DemoCluster {
    let folder: URL
    private(set) var nodes: [DemoNode] = []
    private var processes: [Process] = []
    private var links: [LinkProxy] = []
    let program: DemoProgram

    init(folder: URL, program: DemoProgram) throws {
        self.folder = folder
        self.program = program
        try Data(DemoModel.json.utf8).write(to: folder.appendingPathComponent("model.json"))
    }

    /// Starts the nodes; each reaches each other one through links of its own.
    func start() async throws {
        let ports = try FreePorts.take(9)
        for number in 1...3 {
            var peers = ""
            for peer in 1...3 where peer != number {
                let publish = try await LinkProxy(
                    targetHost: "127.0.0.1", targetPort: ports[peer * 3 - 2])
                let exchange = try await LinkProxy(
                    targetHost: "127.0.0.1", targetPort: ports[peer * 3 - 1])
                links += [publish, exchange]
                peers += """
                        - {node: \(peer), publish: "tcp://127.0.0.1:\(publish.port)", \
                    exchange: "tcp://127.0.0.1:\(exchange.port)"}

                    """
            }
            let configuration = """
                cluster: demo
                node: \(number)
                store: n\(number).sqlite
                model: model.json
                http:
                  listen: 127.0.0.1:\(ports[number * 3 - 3])
                mesh:
                  publish: tcp://127.0.0.1:\(ports[number * 3 - 2])
                  exchange: tcp://127.0.0.1:\(ports[number * 3 - 1])
                  peers:
                \(peers)
                """
            let file = folder.appendingPathComponent("n\(number).yaml")
            try Data(configuration.utf8).write(to: file)
            try startNode(number, file, url: "http://127.0.0.1:\(ports[number * 3 - 3])")
        }
        for node in nodes { try await waitUntilReady(node) }
    }

    private func startNode(_ number: Int, _ configuration: URL, url: String) throws {
        let process = Process()
        process.executableURL = program.url
        process.arguments = ["serve", "--config", configuration.path]
        process.environment = DemoProgram.environment
        let log = folder.appendingPathComponent("n\(number).log")
        try Data().write(to: log)
        let handle = try FileHandle(forWritingTo: log)
        process.standardOutput = handle
        process.standardError = handle
        process.standardInput = FileHandle.nullDevice
        try process.run()
        processes.append(process)
        nodes.append(DemoNode(number: number, url: url, client: try NodeClient(url: url)))
    }

    private func waitUntilReady(_ node: DemoNode) async throws {
        for _ in 0..<300 {
            if let answer = try? await node.client.request("GET", "/readyz", timeout: .seconds(2)),
                answer.status == 200
            {
                return
            }
            guard processes[node.number - 1].isRunning else { break }
            try await Task.sleep(for: .milliseconds(50))
        }
        let log = folder.appendingPathComponent("n\(node.number).log")
        let text = (try? String(contentsOf: log, encoding: .utf8)) ?? ""
        throw DemoError("Node \(node.number) did not start. It says:\n\(text)")
    }

    /// Cuts every link.
    func cut() async { for link in links { await link.cut() } }

    /// Mends every link.
    func heal() async { for link in links { await link.heal() } }

    /// Ends the nodes and the links, gently first; also where the task is cancelled.
    func stop() async {
        for node in nodes { await node.client.close() }
        for process in processes where process.isRunning { process.terminate() }
        for process in processes {
            for _ in 0..<100 where process.isRunning { await Self.pause() }
            if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        }
        for link in links { await link.shutdown() }
        links = []
    }

    /// Lets 50 milliseconds pass, which a cancelled task's sleep does not.
    private static func pause() async {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(50)) {
                continuation.resume()
            }
        }
    }
}

/// The program `tributary`, which the demo runs as its nodes and as their clients.
struct DemoProgram: Sendable {
    let url: URL

    /// Takes a file, or by default the one beside this program.
    ///
    /// - Throws: ``CommandFailure`` with `usage` where no program is there.
    init(path: String?) throws {
        let own = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        url =
            path.map { URL(fileURLWithPath: $0) }
            ?? own.deletingLastPathComponent().appendingPathComponent("tributary")
        guard FileManager.default.isExecutableFile(atPath: url.path) else {
            throw CommandFailure.usage(
                "\(url.path) is no program. Build it with `swift build --product tributary`, or name "
                    + "another with --program FILE.")
        }
    }

    /// What programs of the demo are started with: the demo says itself where its nodes listen, and
    /// whom to ask.
    static var environment: [String: String] {
        ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("TRIBUTARY_") }
    }

    /// Runs the program and waits for it; it is ended with the task.
    func run(_ arguments: [String]) async throws -> (status: Int32, output: String) {
        let process = Process()
        process.executableURL = url
        process.arguments = arguments
        process.environment = Self.environment
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        process.standardInput = FileHandle.nullDevice
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                DispatchQueue.global().async {
                    do {
                        try process.run()
                        let data = output.fileHandleForReading.readDataToEndOfFile()
                        process.waitUntilExit()
                        continuation.resume(
                            returning: (
                                process.terminationStatus, String(decoding: data, as: UTF8.self)
                            ))
                    } catch { continuation.resume(throwing: error) }
                }
            }
        } onCancel: {
            if process.isRunning { process.terminate() }
        }
    }
}

/// Free ports of the loopback interface, below those that the system deals out to connections by
/// itself: one of those could be taken between the look and the node's start.
enum FreePorts {
    /// Takes so many ports that nobody listens on, all different.
    static func take(_ count: Int) throws -> [Int] {
        let first = Int.random(in: 20_000..<31_000)
        var ports: [Int] = []
        for port in first..<first + 1_000 where ports.count < count && isFree(port) {
            ports.append(port)
        }
        guard ports.count == count else { throw DemoError("There are no free ports to be had.") }
        return ports
    }

    private static func isFree(_ port: Int) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = UInt16(port).bigEndian
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        return withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, size) == 0
            }
        }
    }
}
