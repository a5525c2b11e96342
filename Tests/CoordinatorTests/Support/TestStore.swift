import Coordinator
import Foundation
import Merge

/// A store of its own, in memory unless the environment's TRIBUTARY_TEST_STORES says `disk`; it is removed
/// with the last reference.
final class TestStore: Sendable {
    let coordinator: PersistentStoreCoordinator
    private let directory: URL?

    init(
        _ model: ManagedObjectModel? = nil, node: Int = 1,
        isOnDisk: Bool = false, options: PersistentStoreCoordinator.Options = .init()
    ) throws {
        let model = try model ?? Self.standardModel()
        let kind = ProcessInfo.processInfo.environment["TRIBUTARY_TEST_STORES"]
        guard isOnDisk || kind == "disk" else {
            directory = nil
            coordinator = try PersistentStoreCoordinator(
                inMemory: model, cluster: "test", node: Self.node(node), options: options)
            return
        }
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tributary-\(UUID().uuidString)")
        directory = folder
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        coordinator = try PersistentStoreCoordinator(
            storeAt: folder.appendingPathComponent("store.sqlite").path, model: model,
            cluster: "test", node: Self.node(node), options: options)
    }

    deinit {
        if let directory { try? FileManager.default.removeItem(at: directory) }
    }

    private static func node(_ number: Int) throws -> NodeID {
        guard let node = NodeID(number) else { throw CocoaError(.formatting) }
        return node
    }

    /// Items with attributes; people in a tree, with one-to-one passports; books by authors
    /// that a cascade takes along; tags many-to-many.
    static func standardModel() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Item",
                attributes: [
                    .init("p", .string), .init("q", .string),
                    .init("n", .integer64, defaultValue: .integer(7)),
                    .init("note", .string, isTransient: true),
                ],
                relationships: [
                    .init("tags", to: "Tag", inverse: "items", isToMany: true),
                    .init("owner", to: "Person", inverse: "items"),
                ]),
            EntityDescription(
                "Tag", attributes: [.init("name", .string)],
                relationships: [.init("items", to: "Item", inverse: "tags", isToMany: true)]),
            EntityDescription(
                "Person",
                attributes: [.init("name", .string, isOptional: false), .init("age", .integer64)],
                relationships: [
                    .init("manager", to: "Person", inverse: "reports"),
                    .init("reports", to: "Person", inverse: "manager", isToMany: true),
                    .init("items", to: "Item", inverse: "owner", isToMany: true),
                    .init("passport", to: "Passport", inverse: "holder"),
                    .init(
                        "books", to: "Book", inverse: "author", isToMany: true, deleteRule: .cascade
                    ),
                    .init(
                        "debts", to: "Debt", inverse: "debtor", isToMany: true, deleteRule: .deny),
                    .init("pets", to: "Pet", inverse: "keeper", isToMany: true),
                ]),
            EntityDescription(
                "Passport", attributes: [.init("number", .string)],
                relationships: [.init("holder", to: "Person", inverse: "passport")]),
            EntityDescription(
                "Book", attributes: [.init("title", .string)],
                relationships: [
                    .init("author", to: "Person", inverse: "books"),
                    .init("sequel", to: "Book", inverse: "prequel", deleteRule: .cascade),
                    .init("prequel", to: "Book", inverse: "sequel", deleteRule: .cascade),
                ]),
            EntityDescription(
                "Debt", attributes: [.init("sum", .integer64)],
                relationships: [.init("debtor", to: "Person", inverse: "debts")]),
            EntityDescription(
                "Pet", attributes: [.init("name", .string)],
                relationships: [.init("keeper", to: "Person", inverse: "pets", isOptional: false)]),
        ])
    }

    /// A store, and a context of it with the error policy.
    static func withContext(
        _ model: ManagedObjectModel? = nil
    ) throws -> (TestStore, ManagedObjectContext) {
        let store = try TestStore(model)
        return (store, store.context())
    }

    // MARK: Shortcuts

    /// A context with the error policy.
    func context(_ policy: MergePolicy = .error) -> ManagedObjectContext {
        let context = coordinator.newBackgroundContext()
        context.mergePolicy = ContextMergePolicy(merge: policy)
        return context
    }

    /// Saves what is changed in a context of its own.
    func save(
        _ policy: MergePolicy = .error, _ change: (ManagedObjectContext) throws -> Void
    ) throws {
        let context = context(policy)
        try context.performAndWait {
            try change(context)
            try context.save()
        }
    }

    /// Saves a new object and gives its ID.
    @discardableResult
    func insert(_ entity: String, _ values: [String: String] = [:]) throws -> ManagedObjectID {
        let context = context()
        return try context.performAndWait {
            let object = context.insert(entity, values)
            try context.save()
            return object.objectID
        }
    }

    /// Saves a change of one attribute, whatever the store holds.
    func update(_ id: ManagedObjectID, _ key: String, _ value: String?) throws {
        try save { try $0.existingObject(with: id)[key] = value }
    }

    /// Saves a delete.
    func delete(_ id: ManagedObjectID) throws {
        try save { $0.delete(try $0.existingObject(with: id)) }
    }

    /// An attribute as the store has it; nil where the object is gone.
    func stored(_ id: ManagedObjectID, _ key: String) throws -> String? {
        let context = context()
        return try context.performAndWait {
            do { return try context.existingObject(with: id)[key] } catch let error
                as CoordinatorError where error.code == .objectNotFound
            { return nil }
        }
    }

    /// A to-one as the store has it.
    func storedReference(_ id: ManagedObjectID, _ key: String) throws -> PropertyValue {
        let context = context()
        return try context.performAndWait { try context.existingObject(with: id)[key] }
    }

    /// Whether the store has the object.
    func isStored(_ id: ManagedObjectID) throws -> Bool {
        let context = context()
        return try context.performAndWait {
            do {
                _ = try context.existingObject(with: id)
                return true
            } catch let error as CoordinatorError where error.code == .objectNotFound {
                return false
            }
        }
    }

    /// The IDs that a to-many leads to in the store.
    func storedMembers(_ id: ManagedObjectID, _ key: String) throws -> [ManagedObjectID] {
        let context = context()
        return try context.performAndWait {
            try context.existingObject(with: id)
                .relatedObjects(forKey: key, as: ManagedObject.self).map(\.objectID)
        }
    }
}

extension ManagedObjectContext {
    /// Inserts an object with values.
    @discardableResult
    func insert(
        _ entityName: String, _ values: [String: any PropertyValueConvertible]
    ) -> ManagedObject {
        let object = insert(entityName)
        for (key, value) in values { object.setValue(value, forKey: key) }
        return object
    }

    /// The object of that identity, which must be there, from outside the context's queue.
    func existing(_ id: ManagedObjectID) throws -> ManagedObject {
        try performAndWait { try existingObject(with: id) }
    }
}
