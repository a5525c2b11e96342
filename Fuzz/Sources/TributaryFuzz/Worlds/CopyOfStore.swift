import Foundation
import GRDB

@testable import Coordinator
@testable import Merge

/// A node's store, and the copy of another's that is to take its place; each has what the other
/// lacks. The copy is changed again and again, as if its donor lied.
struct CopyOfStore {
    /// Made at the first use; libFuzzer uses one thread.
    static let shared = must { try CopyOfStore() }

    private let own: [UInt8]
    /// The sound copy.
    let copy: [UInt8]

    private static var donor: NodeID { SampleRows.strangers[0].node }

    private static func options(joinsAlways: Bool = false) -> PersistentStoreCoordinator.Options {
        var options = PersistentStoreCoordinator.Options()
        options.readers = 1
        options.wallMilliseconds = SampleRows.environment.wallMilliseconds
        options.random = SampleRows.environment.random
        options.joinsAlways = joinsAlways
        return options
    }

    private static func open(
        _ name: String, _ node: NodeID
    ) throws -> PersistentStoreCoordinator {
        try PersistentStoreCoordinator(
            storeAt: path(name), model: SampleModel.model, cluster: SampleModel.cluster, node: node,
            options: options())
    }

    private init() throws {
        atexit { try? FileManager.default.removeItem(at: CopyOfStore.folder) }
        try FileManager.default.createDirectory(
            at: Self.folder, withIntermediateDirectories: true)
        let ours = try Self.open("own", SampleRows.node)
        let theirs = try Self.open("donor", Self.donor)
        let saved = try ours.save(
            SaveRequest(operations: SampleRows.inserts(), saveID: "the first"))
        let seen = try ours.currentToken.versionVector
        let page = try ours.read {
            try $0.transactions(notCoveredBy: VersionVector(), byteLimit: 1 << 20)
        }
        let logged = try page.transactions.map { try EncodedTransaction(decoding: $0) }
        var rows: [Int: RowID] = [:]
        for inserted in saved.insertedRows {
            rows[Int(-inserted.temporary.rawValue)] = inserted.row
        }
        let foreign = SampleRows.foreign(rows, seen: seen).map { EncodedTransaction($0) }
        let refused =
            try ours.apply([foreign[0], foreign[2]]).rejected
            + theirs.apply(logged + [foreign[1]]).rejected
        precondition(refused.isEmpty, "The sample does not fit: \(refused)")
        for (store, label) in [(ours, "ours"), (theirs, "theirs")] {
            _ = try store.save(
                SaveRequest(operations: Self.edits(rows, label), mergePolicy: .overwrite))
            store.close()
        }
        own = try Array(Data(contentsOf: URL(fileURLWithPath: Self.path("own"))))
        copy = try Array(Data(contentsOf: URL(fileURLWithPath: Self.path("donor"))))
    }

    /// What either node saves without having seen the other: a value, a link, and a key.
    private static func edits(_ rows: [Int: RowID], _ label: String) -> [SaveOperation] {
        func entity(_ name: String) -> ManagedObjectModel.Entity {
            guard let entity = SampleModel.model.entity(named: name) else {
                preconditionFailure("\(name) is in the model")
            }
            return entity
        }
        func value(_ entity: ManagedObjectModel.Entity, _ name: String, _ value: PropertyValue)
            -> (position: Int, value: PropertyValue)
        { (entity.position(of: name) ?? 0, value) }
        let (group, key) = (entity("Group"), entity("Key"))
        return [
            SaveOperation(
                kind: .update, entity: group, row: rows[21] ?? RowID(1),
                values: [value(group, "label", .string(label))],
                relationships: [
                    RelationshipOperation(
                        name: "members", kind: label == "ours" ? .add : .remove,
                        members: [rows[6] ?? RowID(1)])
                ], resolves: true),
            SaveOperation(
                kind: .insert, entity: key, row: RowID(-1),
                values: [
                    value(key, "number", .integer(2)), value(key, "word", .string("both")),
                ].sorted { $0.position < $1.position }),
        ]
    }

    /// One of this process's own; `run` has it made in memory.
    private static var folder: URL {
        FileManager.default.temporaryDirectory
            .appendingPathComponent("copy-\(ProcessInfo.processInfo.processIdentifier)")
    }

    private static func path(_ name: String) -> String {
        folder.appendingPathComponent(name + ".sqlite").path
    }

    /// Changes the sound copy by SQL.
    func changed(by body: (Database) throws -> Void) -> [UInt8] {
        let path = Self.path("donor")
        return must {
            for suffix in ["-wal", "-shm"] {
                try? FileManager.default.removeItem(atPath: path + suffix)
            }
            try Data(copy).write(to: URL(fileURLWithPath: path))
            let queue = try DatabaseQueue(path: path)
            try queue.writeWithoutTransaction(body)
            try queue.close()
            return try Array(Data(contentsOf: URL(fileURLWithPath: path)))
        }
    }

    /// Takes a copy over as a node does: it is received, checked and put in the store's place, which
    /// is then read whole. Where it is refused the store is as it was.
    func takeOver(_ bytes: [UInt8], joinsAlways: Bool) {
        let path = Self.path("own")
        let options = Self.options(joinsAlways: joinsAlways)
        must {
            for name in try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
            where name.hasPrefix("own.sqlite") {
                try FileManager.default.removeItem(at: Self.folder.appendingPathComponent(name))
            }
            try Data(own).write(to: URL(fileURLWithPath: path))
        }
        let incoming = IncomingTransfer(storeAt: path, files: options.files)
        let taken = attempt(throwing: CoordinatorError.self) {
            let beside = Self.path("donor")
            must { try Data(bytes).write(to: URL(fileURLWithPath: beside)) }
            let offer = TransferOffer(
                donor: Self.donor, number: 1, total: UInt64(bytes.count),
                digest: try TransferOffer.digest(of: beside, options.files))
            demand(TransferOffer(offer.bytes) == offer, "an offer reads otherwise")
            _ = try incoming.write(bytes, of: offer, at: 0)
            _ = try incoming.check(cluster: SampleModel.cluster, model: SampleModel.model)
            return try TransferInstaller.install(
                at: path, model: SampleModel.model, cluster: SampleModel.cluster,
                node: SampleRows.node, options: options)
        }
        let opened = attempt(throwing: CoordinatorError.self) {
            try PersistentStoreCoordinator(
                storeAt: path, model: SampleModel.model, cluster: SampleModel.cluster,
                node: SampleRows.node, options: options)
        }
        guard let opened else { return demand(taken != nil, "a refused copy damages the store") }
        let report = attempt(throwing: CoordinatorError.self) { try opened.verify() }
        if taken == nil { demand(report?.isOK == true, "a refused copy changes the store") }
        opened.close()
    }
}
