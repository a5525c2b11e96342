import Coordinator
import Foundation
import Synchronization

@testable import Node

/// The keys of a cluster under test: each node's own, and those that each lists of the others.
///
/// A test that changes something writes the nodes' files with ``write(_:)``. The nodes read them at
/// their start and when a test makes them reload.
final class Keyring: Sendable {
    private struct State {
        /// The pair that a node is to hold, and its file.
        var own: [Int: (keys: CurveKeys, file: String)] = [:]
        /// What a node lists of another; what is not here is the other's own key alone.
        var listed: [Int: [Int: [CurvePublicKey]]] = [:]
        /// Peers that a node's file leaves out.
        var left: [Int: Set<Int>] = [:]
        var made = 0
    }

    private let cluster: TestCluster
    /// The files as the cluster wrote them, without keys.
    private let plain: [Int: String]
    private let state = Mutex(State())

    /// Makes a key for each node and writes all files.
    init(_ cluster: TestCluster) throws {
        self.cluster = cluster
        var plain: [Int: String] = [:]
        for node in cluster.nodes {
            plain[node.number] = try String(contentsOf: node.configuration, encoding: .utf8)
        }
        self.plain = plain
        for node in cluster.nodes { try renew(node.number) }
        try writeAll()
    }

    /// Gives a node a new pair, in a file of its own; tells the former.
    @discardableResult
    func renew(_ node: Int) throws -> CurveKeys? {
        let keys = try CurveKeys.generate()
        let count = state.withLock { state in
            state.made += 1
            return state.made
        }
        let file = cluster.folder.appendingPathComponent("n\(node)-\(count).secret").path
        try keys.write(secretFile: file)
        return state.withLock { state in
            defer { state.own[node] = (keys, file) }
            return state.own[node]?.keys
        }
    }

    func keys(of node: Int) throws -> CurveKeys {
        guard let own = state.withLock({ $0.own[node] }) else {
            throw EndToEndError("Node \(node) has no key")
        }
        return own.keys
    }

    /// Lets a node hold the pair of another.
    func lend(_ other: Int, to node: Int) {
        state.withLock { $0.own[node] = $0.own[other] }
    }

    /// Says what a node lists of another; nil for the other's own key alone.
    func list(_ keys: [CurvePublicKey]?, of node: Int, at reader: Int) {
        state.withLock { $0.listed[reader, default: [:]][node] = keys }
    }

    /// Takes a peer out of a node's file, or puts it back.
    func leave(_ node: Int, out: Bool = true, at reader: Int) {
        state.withLock { state in
            if out {
                state.left[reader, default: []].insert(node)
            } else {
                state.left[reader, default: []].remove(node)
            }
        }
    }

    func writeAll() throws { for node in cluster.nodes { try write(node.number) } }

    /// Writes a node's file.
    func write(_ number: Int) throws {
        let (state, text) = (state.withLock { $0 }, plain[number] ?? "")
        guard let own = state.own[number] else { throw EndToEndError("Node \(number) has no key") }
        var lines: [String] = []
        var isLeftOut = false
        for line in text.split(separator: "\n").map(String.init) {
            if line.hasPrefix("    - node: "), let peer = Int(line.dropFirst(12)) {
                isLeftOut = state.left[number]?.contains(peer) ?? false
                guard !isLeftOut else { continue }
                let keys =
                    state.listed[number]?[peer] ?? state.own[peer].map { [$0.keys.publicKey] } ?? []
                let quoted = keys.map { "\"\($0.text)\"" }.joined(separator: ", ")
                lines += [line, "      publicKeys: [\(quoted)]"]
            } else if line == "  peers:" {
                lines += ["  secretKeyFile: \(own.file)", line]
            } else if !isLeftOut || !line.hasPrefix("      ") {
                lines.append(line)
            }
        }
        let node = cluster.node(number)
        try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: node.configuration)
    }
}

extension NodeHandle {
    /// Has the node read its file again; gives what it says has changed.
    @discardableResult
    func reload() async throws -> [String] {
        let answer = try await expect("POST", "/v1/reload")
        return (answer["changed"]?.array ?? []).compactMap(\.string)
    }

    /// What the node knows of its connections to a peer.
    func peer(_ number: Int) async throws -> (isConnected: Bool, handshake: String, refusal: String)
    {
        let peers = (try await status()["peers"]?.array ?? []).compactMap(\.object)
        guard let peer = peers.first(where: { $0["node"]?.integer == Int64(number) }) else {
            return (false, "", "")
        }
        return (peer["connected"]?.boolean ?? false, peer.text("handshake"), peer.text("refusal"))
    }

    /// Who was refused for his key here: reason and key.
    func refused() async throws -> [(reason: String, key: String)] {
        let keys = try await status()["keys"]?.object
        return (keys?["refused"]?.array ?? []).compactMap(\.object)
            .map { ($0.text("reason"), $0.text("publicKey")) }
    }
}
