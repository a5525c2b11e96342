import Coordinator
import Foundation
import Glibc
import Logging
import Merge
import Synchronization
import TestSupport
import Testing

@testable import Node

/// A link that a test can cut: while it is, nothing goes out and what comes in is thrown away.
final class Link: Sendable {
    private let state = Mutex(false)
    var isCut: Bool {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }
}

/// A ZeroMQ transport behind a link.
final class LinkedTransport: Transport {
    private let real: ZeroMQTransport
    private let link: Link

    init(_ real: ZeroMQTransport, _ link: Link) {
        self.real = real
        self.link = link
    }

    var wakeup: Wakeup { real.wakeup }
    var statistics: TransportStatistics { real.statistics }

    func poll(timeoutMilliseconds: Int) throws -> [IncomingFrame] {
        let frames = try real.poll(timeoutMilliseconds: timeoutMilliseconds)
        return link.isCut ? [] : frames
    }
    func publish(_ frame: [UInt8]) throws -> FrameOutcome {
        link.isCut ? .sent : try real.publish(frame)
    }
    func send(_ frame: [UInt8], to node: NodeID) throws -> FrameOutcome {
        link.isCut ? .unreachable : try real.send(frame, to: node)
    }
    func reply(_ frame: [UInt8], along route: ReplyRoute) throws -> FrameOutcome {
        link.isCut ? .unreachable : try real.reply(frame, along: route)
    }
    func route(to node: NodeID) -> ReplyRoute? { real.route(to: node) }
    func connect(to peer: MeshPeer) throws { try real.connect(to: peer) }
    func disconnect(from node: NodeID, hearing keys: [CurvePublicKey]) throws {
        try real.disconnect(from: node, hearing: keys)
    }
    func update(_ change: MeshChange) throws { try real.update(change) }
    var keyReport: MeshKeyReport { real.keyReport }
}

/// The addresses of a cluster whose nodes are started and stopped by a test.
final class TestCluster: Sendable {
    let directory: URL
    let peers: [MeshPeer]

    init(_ count: Int) throws {
        directory = try URL.makeTemporaryFolder()
        let ports = try Loopback.freePorts(count * 2)
        peers = try (0..<count).map { index in
            MeshPeer(
                node: try #require(NodeID(index + 1)), publish: Self.endpoint(ports[index * 2]),
                exchange: Self.endpoint(ports[index * 2 + 1]))
        }
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    /// Starts a node, number 1 and up, on its store, which is made where there is none.
    func start(
        _ number: Int, link: Link = Link(), history: HistoryLimits = HistoryLimits(),
        logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    ) async throws -> NodeService {
        let own = peers[number - 1]
        let coordinator = try await open(number)
        var settings = NodeService.Settings()
        settings.peers = peers.filter { $0.node != own.node }
        settings.history = history
        settings.logger = logger
        let service = try NodeService(coordinator: coordinator, settings: settings) {
            LinkedTransport(
                try ZeroMQTransport(
                    .init(node: own.node, publish: own.publish, exchange: own.exchange)), link)
        }
        try await service.start()
        return service
    }

    /// Opens a node's store. The lock of a store goes with the last reference to its coordinator,
    /// which a thread that has just ended may hold a moment longer.
    func open(_ number: Int) async throws -> PersistentStoreCoordinator {
        var opened: PersistentStoreCoordinator?
        try await eventually("the store is free") {
            do {
                opened = try PersistentStoreCoordinator(
                    storeAt: directory.appendingPathComponent("\(number).sqlite").path,
                    model: Self.model(), cluster: "test", node: peers[number - 1].node)
                return true
            } catch let error as CoordinatorError where error.code == .storeInUse {
                return false
            }
        }
        return try #require(opened)
    }

    static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Note", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [
                    AttributeDescription("text", .string),
                    AttributeDescription("number", .integer64),
                ])
        ])
    }

    private static func endpoint(_ port: Int) -> MeshEndpoint {
        MeshEndpoint(address: HostAddress(host: "127.0.0.1", port: UInt16(port)))
    }
}

extension NodeService {
    /// Saves new notes, each in a save of its own.
    @discardableResult
    func insertNotes(_ count: Int, text: String = "note") async throws -> [SaveResult] {
        let entity = try #require(coordinator.model.entity(named: "Note"))
        let position = try #require(entity.properties.firstIndex { $0.name == "text" })
        var results: [SaveResult] = []
        for number in 0..<count {
            results.append(try await save(Self.insertion(entity, position, "\(text) \(number)")))
        }
        return results
    }

    static func insertion(
        _ entity: ManagedObjectModel.Entity, _ position: Int, _ text: String
    ) -> SaveRequest {
        SaveRequest(operations: [
            SaveOperation(
                kind: .insert, entity: entity, row: RowID(-1),
                values: [(position: position, value: .string(text))])
        ])
    }

    /// Waits until all nodes hold the same, and at least so many transactions.
    static func converge(_ services: [NodeService], transactions: UInt64) async throws {
        try await eventually("all nodes hold the same") {
            let states = try services.map { service in
                try service.coordinator.read { (try $0.token.versionVector, try $0.digest) }
            }
            return states.allSatisfy { $0.0 == states[0].0 && $0.1 == states[0].1 }
                && states[0].0.entries.reduce(0) { $0 + $1.sequence } >= transactions
        }
    }
}
