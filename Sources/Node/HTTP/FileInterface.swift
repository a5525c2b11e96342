// The HTTP interface of a store's file, answered in this process: the resources of a node without
// a socket.

internal import Coordinator
internal import Merge
internal import NIOCore

/// Answers requests of the HTTP interface from a store's file, which is opened for reading only.
///
/// The same resources answer as on a node. What only a running node knows, such as its peers, is
/// empty or null, and what changes something is refused. Usable from any task.
package struct FileInterface: Sendable {
    /// An answer: its status, and its body in parts.
    package struct Answer: Sendable {
        /// The status that HTTP would have.
        package let status: Int
        fileprivate let body: HTTPAnswer.Body

        /// Hands the body over, part by part. A part need not end where a line does.
        ///
        /// - Throws: what the closure throws, and ``CoordinatorError`` where reading on fails.
        package func send(_ write: ([UInt8]) async throws -> Void) async throws {
            switch body {
            case .whole(let bytes): try await write(bytes)
            case .budgeted(let bytes): while let part = bytes.next() { try await write(part) }
            case .stream(let stream):
                try await stream { try await write(Array($0.readableBytesView)) }
            }
        }

        /// The whole body.
        ///
        /// - Throws: ``CoordinatorError`` where reading on fails.
        package func bytes() async throws -> [UInt8] {
            var bytes: [UInt8] = []
            try await send { bytes += $0 }
            return bytes
        }
    }

    private let router: HTTPRouter

    /// The one who asks is the one whose memory and time it takes: bounds that protect a node from
    /// its clients are out of reach here.
    private enum Limits {
        static let bodyBytes = 1 << 30
        static let answerBytes = 1 << 30
        static let readTimeout = Duration.seconds(1 << 30)
    }

    /// Opens a store's file.
    ///
    /// - Throws: ``CoordinatorError`` where it is no store or cannot be read.
    package init(readingStoreAt path: String) throws {
        let coordinator = try PersistentStoreCoordinator(readingStoreAt: path)
        router = HTTPRouter(
            services: HTTPServices(
                backend: FileBackend(coordinator: coordinator),
                maximumBodyBytes: Limits.bodyBytes, maximumAnswerBytes: Limits.answerBytes,
                readTimeout: Limits.readTimeout, readingThreads: 2))
    }

    /// Answers a request.
    ///
    /// - Parameters:
    ///   - method: such as "GET".
    ///   - target: the path with its query, percent-encoded.
    ///   - body: JSON, or nothing.
    ///   - wantsLines: whether newline-delimited JSON is wanted.
    package func answer(
        _ method: String, _ target: String, body: [UInt8] = [], wantsLines: Bool = false
    ) async -> Answer {
        do {
            let (segments, query) = try RequestTarget.parse(target)
            let endpoint = try router.endpoint(
                method, segments, access: HTTPAccess([]), field: nil)
            var parts = HTTPRequestParts(segments: segments, query: query, body: body)
            parts.wantsLines = wantsLines
            if let parameters = endpoint.parameters { try parts.allowParameters(parameters) }
            let answer = try await endpoint.handler(parts)
            return Answer(status: answer.status, body: answer.body)
        } catch {
            let failure = await router.services.answer(to: error)
            return Answer(status: failure.status, body: .whole(failure.body))
        }
    }

    /// Closes the file.
    package func close() async {
        await router.services.stop()
        router.services.coordinator.close()
    }
}

/// A node that does not run: what its store's file tells of it.
private struct FileBackend: NodeBackend {
    let coordinator: PersistentStoreCoordinator
    var isReady: Bool { false }

    func status() async -> NodeStatus {
        let kept = try? coordinator.read {
            (members: try $0.membership.current, orphans: try $0.orphanedDots())
        }
        return NodeStatus(
            members: kept?.members ?? [],
            held: (kept?.orphans ?? []).map {
                NodeStatus.Held(transaction: $0, reason: NodeService.keptOrphan)
            })
    }

    func metricsText() async throws -> String {
        throw NotSupported("A store's file measures nothing; ask a running node.")
    }

    func peerDigests() async -> [PeerDigest] { [] }

    func waitForAcknowledgements(
        of dot: Dot, level: Acknowledgement, timeout: Duration
    ) async -> [NodeID] { [] }
}
