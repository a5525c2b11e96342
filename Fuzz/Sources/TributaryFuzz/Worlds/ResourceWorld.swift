import Foundation
import GRDB
import Synchronization

@testable import Coordinator
@testable import Merge
@testable import Node

/// The resources of the HTTP interface over the rows of ``EngineWorld/disputed``. Their store is
/// open for reading only: a request is read whole, and then refused where it would write, so that
/// no input leaves anything behind for the next one.
final class ResourceWorld: Sendable {
    /// Made at the first use; libFuzzer uses one thread.
    static let shared = must { try ResourceWorld() }

    let services: HTTPServices
    let backend: AskedBackend
    /// The journal's entries by name, from which requests pick one.
    let conflicts: [Conflict]
    private let router: HTTPRouter

    private init() throws {
        let folder = Self.folder
        atexit { try? FileManager.default.removeItem(at: ResourceWorld.folder) }
        try? FileManager.default.removeItem(at: folder)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let path = folder.appendingPathComponent("store.sqlite").path
        let file = try DatabaseQueue(path: path)
        try EngineWorld.disputed.queue.backup(to: file)
        try file.close()
        var options = PersistentStoreCoordinator.Options()
        options.wallMilliseconds = SampleRows.environment.wallMilliseconds
        options.random = SampleRows.environment.random
        // Whatever path an input names is taken, so that no backup is written there.
        options.files = NoFiles(length: 0)
        let store = try PersistentStoreCoordinator(readingStoreAt: path, options: options)
        // Nothing is to come, so a request that would wait for a token is refused at once.
        store.endWaiting()
        let journal = try store.read { try $0.conflicts(ConflictQuery()) }
        precondition(!journal.isEmpty, "The sample has no conflicts.")
        conflicts = journal.sorted { $0.id.description < $1.id.description }
        backend = AskedBackend(store)
        services = HTTPServices(
            backend: backend, maximumBodyBytes: JSONParser.defaultMaximumBytes,
            maximumAnswerBytes: 64 << 20, readTimeout: .seconds(60), readingThreads: 1)
        router = HTTPRouter(services: services)
    }

    /// One of this process's own; `run` has it made in memory.
    private static var folder: URL {
        FileManager.default.temporaryDirectory
            .appendingPathComponent("resources-\(ProcessInfo.processInfo.processIdentifier)")
    }

    func conflict(_ subject: Int) -> ConflictID { conflicts[subject % conflicts.count].id }

    private func path(of request: ForeignRequest) -> String {
        switch request.resource {
        case .resolution: "/v1/conflicts/\(conflict(request.subject))/resolution"
        case .undo: "/v1/conflicts/\(conflict(request.subject))/undo"
        case .members: "/v1/members"
        case .departure: "/v1/members/\(request.subject)/departure"
        case .consumer: "/v1/consumers/\(ForeignRequest.consumer)"
        case .generations: "/v1/generations"
        case .backup: "/v1/backup"
        case .verification: "/v1/verify"
        case .reload: "/v1/reload"
        case .conflicts: "/v1/conflicts"
        case .history, .purge: "/v1/history"
        case .changes: "/v1/changes"
        case .object:
            "/v1/objects/Person/\(EngineWorld.disputed.rows[request.subject + 1] ?? RowID(1))"
        }
    }

    /// Hands a request to its resource, as the server does.
    ///
    /// - Parameter input: the body, or the query where the resource reads none.
    /// - Returns: what the request was refused with; nil where it was not.
    func ask(_ request: ForeignRequest, _ input: [UInt8]) -> HTTPError? {
        let method = request.resource.method
        let path = path(of: request)
        let hasBody = request.resource.hasBody
        let target = hasBody ? path : path + "?" + String(decoding: input, as: UTF8.self)
        guard
            let (segments, query) = attempt(
                throwing: HTTPError.self, { try RequestTarget.parse(target) })
        else { return nil }
        guard let endpoint = router.endpoints(segments).first(where: { $0.method == method }) else {
            fatalError("FINDING: \(method) \(path) leads nowhere")
        }
        let parts = HTTPRequestParts(
            segments: segments, query: query, body: hasBody ? input : [])
        let services = services
        let refusal = BlockingTask.run { () async -> HTTPError? in
            do {
                if let parameters = endpoint.parameters {
                    try parts.allowParameters(parameters)
                }
                let answer = try await endpoint.handler(parts)
                if case .whole(let bytes) = answer.body { Self.demandJSON(bytes) }
                return nil
            } catch { return await services.answer(to: error) }
        }
        if let refusal {
            demand(
                ![500, 507].contains(refusal.status),
                "a request got a fault of the node's: \(refusal.code): \(refusal.message)")
            Self.demandJSON(refusal.body)
        }
        return refusal
    }

    private static func demandJSON(_ bytes: [UInt8]) {
        let parsed = attempt(throwing: JSONError.self) {
            try JSONParser.parse(bytes, maximumBytes: .max)
        }
        demand(parsed != nil, "an answer is no JSON")
    }
}

/// Somebody's word on a conflict.
struct Decision: Hashable, Sendable {
    /// Nil where the conflict's outcome is to be undone.
    var resolution: ConflictResolution?
    var sides: [Dot]?
    var who = SaveDescription()
}

extension ResourceWorld {
    /// Reads a body that its resource has accepted.
    func decision(_ body: [UInt8], over id: ConflictID, isUndo: Bool) -> Decision {
        let resource = ConflictsResource(services: services)
        let result = BlockingTask.run { () async -> Result<Decision, any Error> in
            do {
                let json: JSONValue = body.isEmpty ? [:] : try JSONParser.parse(body)
                let fields = try JSONFields(
                    json, allowed: json.object?.members.map(\.key) ?? [])
                var decision = Decision()
                if !isUndo { decision.resolution = try await resource.resolution(of: id, fields) }
                decision.sides = try await resource.sides(fields)
                decision.who = SaveDescription(
                    author: try fields.string("author"),
                    contextName: try fields.string("context"),
                    note: try fields.string("note"))
                return .success(decision)
            } catch { return .failure(error) }
        }
        return must { try result.get() }
    }

    /// A decision as a client writes it.
    func json(_ decision: Decision, over id: ConflictID) -> JSONValue {
        var object: JSONObject = [
            "author": ValueRenderer.text(decision.who.author),
            "context": ValueRenderer.text(decision.who.contextName),
            "note": ValueRenderer.text(decision.who.note),
        ]
        if let sides = decision.sides {
            object["sides"] = .array(sides.map { .string($0.description) })
        }
        switch decision.resolution {
        case nil: break
        case .side(let dot)?: object["side"] = .string(dot.description)
        case .sideOf(let objectID, let dot)?:
            object["side"] = .string(dot.description)
            object["object"] = .string(services.renderer.uri(objectID))
        case .sideNumber(let number)?: object["side"] = .integer(Int64(number))
        case .policy(let policy)?: object["policy"] = .string(policy.rawValue)
        case .delete?: object["delete"] = .boolean(true)
        case .values(let values)?: object["values"] = json(values, of: id.entity)
        case .change(let changes)?:
            var changed = JSONObject()
            for (objectID, values) in changes.sorted(by: { $0.key < $1.key }) {
                changed[services.renderer.uri(objectID)] = json(values, of: objectID.entityName)
            }
            object["change"] = .object(changed)
        }
        return .object(object)
    }

    private func json(_ values: [String: PropertyValue], of entity: String) -> JSONValue {
        services.renderer.snapshot(values, entity: entity) { _, destination in destination }
    }
}

/// A node that has no more than a store, and notes what it was asked for.
final class AskedBackend: NodeBackend {
    /// A change of membership.
    enum Change: Hashable, Sendable {
        case join(NodeID, MemberAddress, author: String?)
        case retire(NodeID, isForced: Bool, author: String?)
        case leave(author: String?)

        /// The change as a client writes it.
        var json: JSONValue {
            switch self {
            case .join(let node, let address, let author):
                return [
                    "node": .integer(Int64(node.rawValue)), "publish": .string(address.publish),
                    "exchange": .string(address.exchange),
                    "publicKeys": .array(address.publicKeys.map { .string($0) }),
                    "author": ValueRenderer.text(author),
                ]
            case .retire(_, let isForced, let author):
                return ["force": .boolean(isForced), "author": ValueRenderer.text(author)]
            case .leave(let author): return ["author": ValueRenderer.text(author)]
            }
        }
    }

    let coordinator: PersistentStoreCoordinator
    private let change = Mutex<Change?>(nil)

    init(_ coordinator: PersistentStoreCoordinator) { self.coordinator = coordinator }

    /// What was asked for since this was called last.
    func takeChange() -> Change? {
        change.withLock { change in
            defer { change = nil }
            return change
        }
    }

    private func refusal(of asked: Change) -> NotSupported {
        change.withLock { $0 = asked }
        return NotSupported("This node has no mesh.")
    }

    func join(
        _ node: NodeID, at address: MemberAddress, author: String?
    ) async throws -> SaveResult { throw refusal(of: .join(node, address, author: author)) }

    func retire(
        _ node: NodeID, isForced: Bool, author: String?
    ) async throws -> SaveResult {
        throw refusal(of: .retire(node, isForced: isForced, author: author))
    }

    func leave(author: String?) async throws -> SaveResult {
        throw refusal(of: .leave(author: author))
    }

    var isReady: Bool { true }
    func status() async -> NodeStatus { NodeStatus(members: [coordinator.node]) }
    func metricsText() async -> String { "" }
    func peerDigests() async -> [PeerDigest] { [] }
    func waitForAcknowledgements(
        of dot: Dot, level: Acknowledgement, timeout: Duration
    ) async -> [NodeID] { [] }
}
