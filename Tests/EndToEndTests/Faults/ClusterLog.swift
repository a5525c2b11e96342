import Coordinator
import Foundation
import Merge

/// Every transaction that any node of a cluster has in its log, as the very bytes that are kept.
///
/// They come from backups, which running nodes make: what the logs hold, and not what the client
/// interface renders of it, for that would be judged by itself.
struct ClusterLog {
    /// By dot.
    private(set) var transactions: [Dot: EncodedTransaction] = [:]
    /// Dots under which two nodes have different bytes (law 11).
    private(set) var ambiguous: Set<Dot> = []

    /// Reads the logs of all nodes.
    init(of cluster: TestCluster) async throws {
        for node in cluster.nodes {
            let copy = cluster.folder.appendingPathComponent("log-\(UUID().uuidString).sqlite")
            defer { try? FileManager.default.removeItem(at: copy) }
            _ = try await node.expect(
                "POST", "/v1/backup", ["path": .string(copy.path)], timeout: .seconds(60))
            let store = try PersistentStoreCoordinator(readingStoreAt: copy.path)
            defer { store.close() }
            let log = try store.read { try $0.history(afterPosition: 0, limit: .max) }
            for logged in log {
                let dot = logged.encoded.dot
                let known = transactions.updateValue(logged.encoded, forKey: dot)
                if let known, known.bytes != logged.encoded.bytes { ambiguous.insert(dot) }
            }
        }
    }
}
