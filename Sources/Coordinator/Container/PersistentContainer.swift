import Foundation
import Merge
import Synchronization

/// A model, its store, and contexts for it, set up in three lines. As NSPersistentContainer.
///
/// ```swift
/// let container = PersistentContainer(name: "Notes", managedObjectModel: model)
/// try container.loadPersistentStores()
/// let notes = try await container.performBackgroundTask { context in ... }
/// ```
///
/// One store on one machine needs neither a cluster nor a node's number: see
/// ``PersistentStoreDescription/cluster`` for a store that is to be a node's later.
///
/// Thread-safe.
public final class PersistentContainer: Sendable {
    /// The container's name, and that of its store's file unless a description says otherwise.
    public let name: String
    /// The model.
    public let managedObjectModel: ManagedObjectModel

    private struct State {
        var description: PersistentStoreDescription
        var coordinator: PersistentStoreCoordinator?
        var viewContext: ManagedObjectContext?
        var classes: [String: ManagedObject.Type] = [:]
    }

    private let state: Mutex<State>
    /// Held while the store is opened, so that one thread does it and others wait.
    private let loading = Mutex(())

    /// Makes a container with the store `NAME.sqlite` in ``defaultDirectory``. Nothing is opened yet.
    ///
    /// - Parameters:
    ///   - name: The container's name.
    ///   - managedObjectModel: The model.
    public init(name: String, managedObjectModel: ManagedObjectModel) {
        self.name = name
        self.managedObjectModel = managedObjectModel
        let path = Self.defaultDirectory + "/" + name + ".sqlite"
        state = Mutex(State(description: PersistentStoreDescription(path: path)))
    }

    /// Makes a container with the model of a file `NAME.json` among the program's resources, or else in
    /// the folder the program was started in.
    ///
    /// - Throws: ``CoordinatorError`` `inputOutput` where there is none; ``ModelError`` where it is not a
    ///   model.
    public convenience init(name: String) throws {
        let folders = [Bundle.main.resourcePath, FileManager.default.currentDirectoryPath]
        let paths = folders.compactMap { $0.map { $0 + "/" + name + ".json" } }
        guard let data = paths.lazy.compactMap({ FileManager.default.contents(atPath: $0) }).first
        else {
            throw CoordinatorError(
                .inputOutput, "There is no model: neither \(paths.joined(separator: " nor ")).")
        }
        self.init(name: name, managedObjectModel: try ManagedObjectModel(json: Array(data)))
    }

    /// The folder for stores that are described without one: `tributary` in the folder for the user's
    /// data, which the environment's `XDG_DATA_HOME` names, or else `~/.local/share`.
    public static var defaultDirectory: String {
        let environment = ProcessInfo.processInfo.environment
        let data =
            environment["XDG_DATA_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
            ?? NSHomeDirectory() + "/.local/share"
        return data + "/tributary"
    }

    /// Where the store is and how it is opened. To be changed before it is loaded: later changes are
    /// refused.
    public var persistentStoreDescription: PersistentStoreDescription {
        get { state.withLock(\.description) }
        set {
            let isEarly = state.withLock { state in
                guard state.coordinator == nil else { return false }
                state.description = newValue
                return true
            }
            require(
                isEarly, "The store of \(name) is loaded already; describe it before.",
                at: SourcePlace(#fileID, #line))
        }
    }

    /// Opens the store; makes it, and its folder, where there is none. Blocks while a store of another
    /// model is migrated, or another thread opens it. Does nothing where it is open.
    ///
    /// - Throws: ``CoordinatorError`` as
    ///   ``PersistentStoreCoordinator/init(storeAt:model:cluster:node:options:)``; then it can be tried
    ///   again.
    public func loadPersistentStores() throws {
        try loading.withLock { _ in
            let (coordinator, description) = state.withLock { ($0.coordinator, $0.description) }
            if coordinator != nil { return }
            let opened = try open(description)
            state.withLock { $0.coordinator = opened }
        }
    }

    /// Opens the store beside the caller's task, as ``loadPersistentStores()``.
    ///
    /// - Throws: As ``loadPersistentStores()``.
    public func loadPersistentStores() async throws {
        try await withCheckedThrowingContinuation {
            (continuation: CheckedContinuation<Void, any Error>) in
            DispatchQueue.global().async {
                // Not the asynchronous one of the same name.
                let load: () throws -> Void = self.loadPersistentStores
                continuation.resume(with: Result { try load() })
            }
        }
    }

    private func open(
        _ description: PersistentStoreDescription
    ) throws -> PersistentStoreCoordinator {
        var options = description.options
        options.migration = description.shouldMigrateStoreAutomatically ? .inferred : .none
        if description.isInMemory {
            guard !description.isReadOnly, description.path.isEmpty else {
                throw CoordinatorError(
                    .malformed, "A store in memory has no path, and is not read only.")
            }
            return try PersistentStoreCoordinator(
                inMemory: managedObjectModel, cluster: description.cluster,
                node: description.node, options: options)
        }
        if description.isReadOnly {
            let coordinator = try PersistentStoreCoordinator(
                readingStoreAt: description.path, options: options)
            guard coordinator.model.modelHash == managedObjectModel.modelHash else {
                throw CoordinatorError(
                    .modelMismatch,
                    "\(description.path) was written with another model than that of \(name), and a "
                        + "store that is only read is not migrated.")
            }
            return coordinator
        }
        let folder = URL(fileURLWithPath: description.path).deletingLastPathComponent()
        do {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        } catch {
            throw CoordinatorError(.inputOutput, "\(folder.path) cannot be made: \(error)")
        }
        return try PersistentStoreCoordinator(
            storeAt: description.path, model: managedObjectModel, cluster: description.cluster,
            node: description.node, options: options)
    }

    // MARK: Using it

    /// The coordinator of the store.
    ///
    /// - Precondition: The store is loaded.
    public var persistentStoreCoordinator: PersistentStoreCoordinator {
        guard let coordinator = state.withLock(\.coordinator) else {
            misuse(
                "The store of \(name) is not loaded; call loadPersistentStores() first.",
                at: SourcePlace(#fileID, #line))
        }
        return coordinator
    }

    /// Gives the objects of an entity a class, in ``viewContext`` and the contexts that are made later.
    ///
    /// - Precondition: The model has such an entity, and ``viewContext`` was not asked for yet.
    public func register(
        _ type: ManagedObject.Type, for entityName: String, file: StaticString = #fileID,
        line: UInt = #line
    ) {
        let place = SourcePlace(file, line)
        require(
            managedObjectModel.entity(named: entityName) != nil,
            "The model has no entity \(entityName).", at: place)
        let isEarly = state.withLock { state in
            state.classes[entityName] = type
            return state.viewContext == nil
        }
        require(isEarly, "\(type) is registered after viewContext was made.", at: place)
    }

    /// The context of the main queue, always the same one. It merges what others save if its
    /// ``ManagedObjectContext/automaticallyMergesChangesFromParent`` is set.
    ///
    /// The main actor, and what else runs on the main queue, may use it as it is; others inside its
    /// `perform`. That needs a main queue that runs: a program with `async` main, a run loop, or
    /// `dispatchMain()`. On a server where the main thread does something else its `perform` would wait
    /// for ever; use
    /// ``newBackgroundContext()`` or ``performBackgroundTask(_:)-(((ManagedObjectContext)->Result))`` there.
    ///
    /// - Precondition: The store is loaded.
    public var viewContext: ManagedObjectContext {
        let coordinator = persistentStoreCoordinator
        return state.withLock { state in
            if let known = state.viewContext { return known }
            let made = ManagedObjectContext(
                coordinator, classes: state.classes, usesMainQueue: true)
            state.viewContext = made
            return made
        }
    }

    /// Makes a context with a queue of its own.
    ///
    /// - Precondition: The store is loaded.
    public func newBackgroundContext() -> ManagedObjectContext {
        ManagedObjectContext(persistentStoreCoordinator, classes: state.withLock(\.classes))
    }

    /// Runs a block on the queue of a new context and gives its result. Usable from any task.
    ///
    /// - Precondition: The store is loaded.
    /// - Throws: What the block throws.
    public func performBackgroundTask<Result: Sendable, Failure: Error>(
        _ block: @escaping @Sendable (ManagedObjectContext) throws(Failure) -> Result
    ) async throws(Failure) -> Result {
        let context = newBackgroundContext()
        return try await context.perform { () throws(Failure) -> Result in try block(context) }
    }

    /// Runs a block on the queue of a new context and returns at once. Usable from any thread.
    ///
    /// - Precondition: The store is loaded.
    public func performBackgroundTask(
        _ block: @escaping @Sendable (ManagedObjectContext) -> Void
    ) {
        let context = newBackgroundContext()
        context.perform { block(context) }
    }

    /// Closes the store; it can be loaded again. Contexts of it fail from then on.
    public func close() {
        let coordinator = state.withLock { state in
            defer {
                state.coordinator = nil
                state.viewContext = nil
            }
            return state.coordinator
        }
        coordinator?.close()
    }
}
