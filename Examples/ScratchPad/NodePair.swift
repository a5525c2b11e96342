import Coordinator
import Foundation
import Logging
import Merge
import Node

/// Two nodes of a cluster in this process, with their stores in a folder. They hear each other over the
/// loopback, unencrypted, as only an example may.
struct NodePair {
    private struct Failure: Error, CustomStringConvertible { let description: String }

    private let nodes: [NodeProcess]

    init(in folder: String, model: String) throws {
        let modelFile = folder + "/model.json"
        try Data(model.utf8).write(to: URL(fileURLWithPath: modelFile))
        let tokenFile = folder + "/token"
        try Data("0123456789abcdef0123456789abcdef\n".utf8).write(
            to: URL(fileURLWithPath: tokenFile))
        guard chmod(tokenFile, 0o600) == 0 else {
            throw Failure(description: "\(tokenFile) stays open to others.")
        }
        let ports = try FreePorts.find(6)
        let endpoints = try ports.map { port in
            guard let endpoint = MeshEndpoint("tcp://127.0.0.1:\(port)") else {
                throw Failure(description: "\(port) is no port.")
            }
            return endpoint
        }
        nodes = try (1...2).map { number in
            guard let node = NodeID(number), let peer = NodeID(3 - number) else {
                throw Failure(description: "\(number) is no node.")
            }
            var configuration = NodeConfiguration(
                cluster: "pads", node: node, store: folder + "/\(number).sqlite", model: modelFile)
            configuration.http.listen = HostAddress(host: "127.0.0.1", port: ports[number + 3])
            configuration.http.tokenFile = tokenFile
            var mesh = NodeConfiguration.Mesh(
                publish: endpoints[2 * number - 2], exchange: endpoints[2 * number - 1])
            mesh.insecure = true
            mesh.peers = [
                MeshPeer(
                    node: peer, publish: endpoints[4 - 2 * number],
                    exchange: endpoints[5 - 2 * number])
            ]
            configuration.mesh = mesh
            return NodeProcess(configuration)
        }
    }

    /// Runs both nodes while a block uses their coordinators.
    func run(
        _ body:
            @escaping @Sendable (PersistentStoreCoordinator, PersistentStoreCoordinator)
            async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            var opened: [AsyncStream<PersistentStoreCoordinator>] = []
            for node in nodes {
                let (stream, continuation) = AsyncStream.makeStream(
                    of: PersistentStoreCoordinator.self)
                opened.append(stream)
                var node = node
                node.logger = Logger(label: "node") { _ in SwiftLogNoOpLogHandler() }
                node.announce = { _ in }
                node.whenOpen = { continuation.yield($0) }
                let running = node
                group.addTask {
                    defer { continuation.finish() }
                    try await running.runUntilCancelled()
                }
            }
            let streams = opened
            group.addTask {
                var coordinators: [PersistentStoreCoordinator] = []
                for stream in streams {
                    for await coordinator in stream {
                        coordinators.append(coordinator)
                        break
                    }
                }
                guard coordinators.count == 2 else {
                    throw Failure(description: "A node did not start.")
                }
                // A new store takes saves once its node has met another that lacks nothing either.
                for _ in 0..<3_000 where !coordinators.allSatisfy(\.takesSaves) {
                    try await Task.sleep(for: .milliseconds(10))
                }
                try await body(coordinators[0], coordinators[1])
                throw CancellationError()
            }
            do { while try await group.next() != nil {} } catch is CancellationError {}
            group.cancelAll()
        }
    }
}

/// Ports of the loopback that nobody listens at.
private enum FreePorts {
    static func find(_ count: Int) throws -> [UInt16] {
        var sockets: [Int32] = []
        defer { for socket in sockets { close(socket) } }
        return try (0..<count).map { _ in
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            sockets.append(descriptor)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let isBound = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
                }
            }
            guard isBound else { throw CocoaError(.fileReadUnknown) }
            return UInt16(bigEndian: address.sin_port)
        }
    }
}
