import Coordinator
import Foundation
import GRDB
import Merge
import Synchronization
import TestSupport
import Testing

/// A coordinator on a file of its own that can be closed and opened again, and that keeps what
/// its commit notices told.
final class EngineNode {
    let path: String
    private(set) var model: ManagedObjectModel
    let node: NodeID
    private(set) var opened: PersistentStoreCoordinator?
    private let directory: URL
    private let files: any StoreFiles
    /// What its options are beside the files.
    var configure: (inout PersistentStoreCoordinator.Options) -> Void
    private let heard = Heard()
    private var observation: CommitObservation?

    private final class Heard: Sendable {
        let list = Mutex<[EncodedTransaction]>([])
    }

    /// - Parameters:
    ///   - model: ``EngineModel/everything()`` unless given.
    ///   - store: a store's file; the node gets a copy of it and of the file beside it.
    ///   - configure: what its options are beside the files.
    init(
        _ model: ManagedObjectModel? = nil, node: Int = 1, files: any StoreFiles = SystemFiles(),
        from store: URL? = nil,
        configure: @escaping (inout PersistentStoreCoordinator.Options) -> Void = { _ in }
    ) throws {
        self.model = try model ?? EngineModel.everything()
        self.files = files
        self.configure = configure
        self.node = try #require(NodeID(node))
        directory = StoreFolders.parent.appendingPathComponent("tributary-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        path = directory.appendingPathComponent("store.sqlite").path
        for suffix in store == nil ? [] : ["", "-incarnation"] {
            try FileManager.default.copyItem(
                atPath: (store?.path ?? "") + suffix, toPath: path + suffix)
        }
        try open()
    }

    /// Nodes 1 and 2, new and apart.
    static func pair(
        _ model: ManagedObjectModel? = nil
    ) throws -> (first: EngineNode, second: EngineNode) {
        let model = try model ?? EngineModel.everything()
        return (try EngineNode(model, node: 1), try EngineNode(model, node: 2))
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    func open() throws {
        var options = PersistentStoreCoordinator.Options()
        options.files = files
        configure(&options)
        try open(model, options)
    }

    private func open(
        _ model: ManagedObjectModel, _ options: PersistentStoreCoordinator.Options
    ) throws {
        let coordinator = try PersistentStoreCoordinator(
            storeAt: path, model: model, cluster: "test", node: node, options: options)
        observation = coordinator.observeCommits { [heard] notice in
            heard.list.withLock { $0 += notice.transactions }
        }
        opened = coordinator
    }

    /// Closes the node and opens it with another model; where that fails it stays closed.
    func migrate(
        to other: ManagedObjectModel, _ migration: ModelMigration = .inferredGroupingDuplicates
    ) throws {
        close()
        var options = PersistentStoreCoordinator.Options()
        options.migration = migration
        try open(other, options)
        model = other
    }

    func close() {
        observation = nil
        opened?.close()
        opened = nil
    }

    func reopen() throws {
        close()
        try open()
    }

    var coordinator: PersistentStoreCoordinator {
        guard let opened else { preconditionFailure("The node is closed.") }
        return opened
    }

    /// Every transaction the commit notices held, in order.
    var transactions: [EncodedTransaction] { heard.list.withLock { $0 } }

    var vector: VersionVector {
        get throws { try coordinator.currentToken.versionVector }
    }

    /// Changes the file behind the engine's back; the node must be closed.
    func tamper(_ sql: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.write { try $0.execute(sql: sql) }
        try queue.close()
    }

    /// Changes the file beside the open engine.
    func meddle(_ sql: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { try $0.execute(sql: sql) }
        try queue.close()
    }

    /// The number that a query gives in the file; the node must be closed.
    func look(_ sql: String) throws -> Int64 {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try #require(try queue.read { try Int64.fetchOne($0, sql: sql) })
    }

    // MARK: Saving

    func entity(_ name: String) throws -> ManagedObjectModel.Entity {
        try #require(model.entity(named: name))
    }

    func values(
        _ entity: String, _ values: [String: PropertyValue]
    ) throws -> [(position: Int, value: PropertyValue)] {
        let entity = try self.entity(entity)
        return try values.sorted { $0.key < $1.key }.map {
            (try #require(entity.position(of: $0.key)), $0.value)
        }
    }

    func insertion(
        _ entity: String, _ temporary: Int64 = -1, _ values: [String: PropertyValue] = [:],
        _ relationships: [RelationshipOperation] = []
    ) throws -> SaveOperation {
        SaveOperation(
            kind: .insert, entity: try self.entity(entity), row: RowID(temporary),
            values: try self.values(entity, values), relationships: relationships)
    }

    func change(
        _ id: ManagedObjectID, _ values: [String: PropertyValue] = [:],
        _ relationships: [RelationshipOperation] = [], version: RowVersion? = nil,
        resolves: Bool = false
    ) throws -> SaveOperation {
        SaveOperation(
            kind: .update, entity: try entity(id.entityName), row: id.row,
            values: try self.values(id.entityName, values), relationships: relationships,
            version: version, resolves: resolves)
    }

    func deletion(
        _ id: ManagedObjectID, version: RowVersion? = nil, resolves: Bool = false
    ) throws -> SaveOperation {
        SaveOperation(
            kind: .delete, entity: try entity(id.entityName), row: id.row, version: version,
            resolves: resolves)
    }

    @discardableResult
    func save(
        _ operations: SaveOperation..., policy: MergePolicy = .error, author: String? = nil
    ) throws -> SaveResult {
        try coordinator.save(
            SaveRequest(operations: operations, mergePolicy: policy, author: author))
    }

    @discardableResult
    func save(_ request: SaveRequest) throws -> SaveResult { try coordinator.save(request) }

    /// Saves one new object.
    @discardableResult
    func insert(
        _ entity: String, _ values: [String: PropertyValue] = [:],
        _ relationships: [RelationshipOperation] = []
    ) throws -> ManagedObjectID {
        let result = try save(try insertion(entity, -1, values, relationships))
        return ManagedObjectID(entityName: entity, row: try #require(result.insertedRows.first).row)
    }

    @discardableResult
    func update(
        _ id: ManagedObjectID, _ values: [String: PropertyValue] = [:],
        _ relationships: [RelationshipOperation] = [], version: RowVersion? = nil,
        resolves: Bool = false, policy: MergePolicy = .error, author: String? = nil
    ) throws -> SaveResult {
        try save(
            try change(id, values, relationships, version: version, resolves: resolves),
            policy: policy, author: author)
    }

    @discardableResult
    func delete(_ id: ManagedObjectID, resolves: Bool = false) throws -> SaveResult {
        try save(try deletion(id, resolves: resolves))
    }

    // MARK: Reading

    func row(_ id: ManagedObjectID) throws -> RowSnapshot? {
        let entity = try self.entity(id.entityName)
        return try coordinator.read { try $0.row(entity, id.row) }
    }

    /// A property as readers see it; nil where the row is gone.
    func value(_ id: ManagedObjectID, _ property: String) throws -> PropertyValue? {
        let position = try #require(try entity(id.entityName).columnPosition(of: property))
        return try row(id)?.values[position]
    }

    func members(_ id: ManagedObjectID, _ name: String) throws -> [RowID] {
        let entity = try self.entity(id.entityName)
        let relationship = try #require(entity.relationship(named: name))
        return try coordinator.read {
            try $0.members(of: relationship, entity: entity, row: id.row).map(\.row)
        }
    }

    func conflicts(
        _ state: ConflictState? = nil, kind: ConflictKind? = nil, isOpen: Bool? = true
    ) throws -> [Conflict] {
        try coordinator.read {
            try $0.conflicts(ConflictQuery(state: state, kind: kind, isOpen: isOpen, limit: 10_000))
        }
    }

    /// The one open conflict there is.
    func onlyConflict() throws -> Conflict {
        let found = try conflicts()
        #expect(found.count == 1)
        return try #require(found.first)
    }

    /// The version of a row that must be there.
    func version(_ id: ManagedObjectID) throws -> RowVersion { try #require(try row(id)).version }

    // MARK: Deciding

    @discardableResult
    func resolve(
        _ conflict: ConflictID, _ resolution: ConflictResolution, sides: [Dot]? = nil
    ) throws -> SaveResult {
        try coordinator.resolve(conflict, resolution, sides: sides)
    }

    @discardableResult
    func undo(_ conflict: ConflictID, sides: [Dot]? = nil) throws -> SaveResult {
        try coordinator.undo(conflict, sides: sides)
    }

    // MARK: Between nodes

    /// Takes over what another node has and this one lacks.
    func take(from other: EngineNode) throws {
        let have = try vector
        let missing = try other.coordinator.read {
            try $0.transactions(notCoveredBy: have, byteLimit: .max).transactions
        }
        let result = try coordinator.apply(try missing.map { try EncodedTransaction(decoding: $0) })
        #expect(result.rejected.isEmpty)
    }

    /// The code that a save fails with; nil where it does not fail.
    func code(_ body: () throws -> Void) throws -> CoordinatorError.Code? {
        do {
            try body()
            return nil
        } catch let error as CoordinatorError { return error.code }
    }
}

/// Brings nodes to one vector, and expects one digest of them and that each verifies.
func exchange(_ nodes: EngineNode...) throws { try exchange(nodes) }

func exchange(_ nodes: [EngineNode]) throws {
    for _ in 0..<2 {
        for node in nodes {
            for other in nodes where other !== node { try node.take(from: other) }
        }
    }
    let digests = try Set(nodes.map { try $0.coordinator.currentDigest })
    #expect(digests.count == 1)
    for node in nodes {
        let report = try node.coordinator.verify()
        #expect(report.isOK, "\(report.differences)")
        #expect(report.derivedDifferences.isEmpty, "\(report.derivedDifferences)")
    }
}

extension RelationshipOperation {
    /// Members join.
    static func add(_ members: RowID..., to name: String) -> Self {
        Self(name: name, kind: .add, members: members)
    }

    /// Members leave.
    static func remove(_ members: RowID..., from name: String) -> Self {
        Self(name: name, kind: .remove, members: members)
    }
}
