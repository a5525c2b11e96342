import Coordinator
import Foundation
import Merge
import Synchronization
import TestSupport
import Testing

/// A real coordinator on a temporary file whose clock the script sets.
final class ScriptedNode {
    let coordinator: PersistentStoreCoordinator
    let model: ManagedObjectModel
    private let directory: URL
    private let clock: ScriptedClock

    private final class ScriptedClock: Sendable {
        let milliseconds = Mutex<UInt64>(ScriptedNode.beginning)
        let randomness = Mutex<UInt64>(0)
    }

    /// The time that scripts count from, in milliseconds since 1970.
    static let beginning: UInt64 = 1_800_000_000_000

    init(_ model: ManagedObjectModel, node: Int) throws {
        self.model = model
        directory = StoreFolders.parent.appendingPathComponent(
            "tributary-model-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let clock = ScriptedClock()
        self.clock = clock
        var options = PersistentStoreCoordinator.Options()
        options.readers = 1
        options.wallMilliseconds = { clock.milliseconds.withLock { $0 } }
        options.random = {
            clock.randomness.withLock {
                $0 += 1
                return $0 << 8 | UInt64(node)
            }
        }
        coordinator = try PersistentStoreCoordinator(
            storeAt: directory.appendingPathComponent("store.sqlite").path, model: model,
            cluster: "script", node: try #require(NodeID(node)), options: options)
    }

    deinit {
        coordinator.close()
        try? FileManager.default.removeItem(at: directory)
    }

    /// Sets the clock, in seconds of the script; what is saved next carries that time.
    func at(_ seconds: UInt64) -> ScriptedNode {
        clock.milliseconds.withLock { $0 = Self.beginning + seconds * 1000 }
        return self
    }

    // MARK: Saving

    private func entity(_ name: String) throws -> ManagedObjectModel.Entity {
        try #require(model.entity(named: name))
    }

    func operation(
        _ kind: SaveOperation.Kind, _ id: ManagedObjectID, _ values: [String: PropertyValue] = [:],
        _ relationships: [RelationshipOperation] = [], stale: RowSnapshot? = nil,
        resolves: Bool = false
    ) throws -> SaveOperation {
        let entity = try entity(id.entityName)
        return SaveOperation(
            kind: kind, entity: entity, row: id.row,
            values: try values.sorted { $0.key < $1.key }.map {
                (try #require(entity.position(of: $0.key)), $0.value)
            },
            relationships: relationships, version: stale?.version, snapshot: stale?.values,
            resolves: resolves)
    }

    @discardableResult
    func save(_ operations: SaveOperation..., policy: MergePolicy = .error) throws -> SaveResult {
        try coordinator.save(SaveRequest(operations: operations, mergePolicy: policy))
    }

    func insert(
        _ entity: String, _ values: [String: PropertyValue] = [:],
        _ relationships: [RelationshipOperation] = []
    ) throws -> ManagedObjectID {
        let id = ManagedObjectID(entityName: entity, row: RowID(-1))
        let result = try save(try operation(.insert, id, values, relationships))
        return ManagedObjectID(entityName: entity, row: try #require(result.insertedRows.first).row)
    }

    @discardableResult
    func update(
        _ id: ManagedObjectID, _ values: [String: PropertyValue],
        _ relationships: [RelationshipOperation] = [], stale: RowSnapshot? = nil,
        resolves: Bool = false, policy: MergePolicy = .error
    ) throws -> Dot? {
        try save(
            try operation(.update, id, values, relationships, stale: stale, resolves: resolves),
            policy: policy
        ).transaction
    }

    @discardableResult
    func delete(_ id: ManagedObjectID, resolves: Bool = false) throws -> Dot? {
        try save(try operation(.delete, id, resolves: resolves)).transaction
    }

    /// The code that a save fails with; nil where it does not fail.
    func code(_ body: () throws -> Void) throws -> CoordinatorError.Code? {
        do {
            try body()
            return nil
        } catch let error as CoordinatorError { return error.code }
    }

    // MARK: Reading

    func row(_ id: ManagedObjectID) throws -> RowSnapshot? {
        let entity = try entity(id.entityName)
        return try coordinator.read { try $0.row(entity, id.row) }
    }

    func value(_ id: ManagedObjectID, _ property: String) throws -> PropertyValue? {
        let position = try #require(try entity(id.entityName).position(of: property))
        return try row(id)?.values[position]
    }

    func members(_ id: ManagedObjectID, _ name: String) throws -> [RowID] {
        let entity = try entity(id.entityName)
        let relationship = try #require(entity.relationship(named: name))
        return try coordinator.read {
            try $0.members(of: relationship, entity: entity, row: id.row).map(\.row)
        }
    }

    func journal(isOpen: Bool? = nil) throws -> [Conflict] {
        try coordinator.read { try $0.conflicts(ConflictQuery(isOpen: isOpen, limit: 10_000)) }
    }

    /// The names of the open conflicts, with the state of each.
    func openConflicts() throws -> [String: ConflictState] {
        Dictionary(
            try journal(isOpen: true).map { ($0.id.description, $0.state) },
            uniquingKeysWith: { first, _ in first })
    }

    var vector: VersionVector { get throws { try coordinator.currentToken.versionVector } }

    var digest: ProjectionDigest { get throws { try coordinator.currentDigest } }

    /// Everything applied here, in the order applied.
    func log() throws -> [EncodedTransaction] {
        try coordinator.read { reader in
            let beginnings = try reader.beginnings()
            return try reader.transactions(notCoveredBy: VersionVector(), byteLimit: .max)
                .transactions.map { try EncodedTransaction(decoding: $0).completed(by: beginnings) }
        }
    }

    // MARK: Delivering

    func apply(_ transactions: [EncodedTransaction]) throws {
        let result = try coordinator.apply(transactions)
        #expect(result.rejected.isEmpty, "\(result.rejected)")
    }

    /// Takes over what other nodes have and this one lacks.
    @discardableResult
    func take(_ others: ScriptedNode...) throws -> ScriptedNode {
        for other in others {
            let have = try vector
            try apply(try other.log().filter { !have.contains($0.dot) })
        }
        return self
    }

    /// Lets go of what is no longer needed once the vector is stable.
    func collect(stable: VersionVector) throws {
        let result = try coordinator.collect(stable: stable)
        #expect(result.isDone)
        let report = try coordinator.verify()
        #expect(report.isOK, "\(report.differences)")
    }

    /// Takes over one transaction of another node.
    func take(_ dot: Dot?, of other: ScriptedNode) throws {
        try apply(try other.log().filter { $0.dot == dot })
    }
}
