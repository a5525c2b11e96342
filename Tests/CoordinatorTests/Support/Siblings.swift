import Coordinator
import Merge
import Testing

/// The set-up of CONFORMANCE.md: two contexts on one coordinator that have both fetched object
/// X {p, q}, whose values are "p0" and "q0".
struct Siblings {
    let store: TestStore
    let a: ManagedObjectContext
    let b: ManagedObjectContext
    let id: ManagedObjectID
    let xA: ManagedObject
    let xB: ManagedObject

    /// - Parameter policy: B's merge policy.
    init(_ policy: MergePolicy = .error) throws {
        store = try TestStore()
        id = try store.insert("Item", ["p": "p0", "q": "q0"])
        a = store.coordinator.newBackgroundContext()
        b = store.coordinator.newBackgroundContext()
        b.mergePolicy = ContextMergePolicy(merge: policy)
        let id = id
        xA = try a.performAndWait { [a] in try a.existingObject(with: id) }
        xB = try b.performAndWait { [b] in try b.existingObject(with: id) }
    }

    /// A gives X values and saves.
    func aSaves(_ values: [String: String]) throws {
        try a.performAndWait {
            for (key, value) in values { xA[key] = value }
            try a.save()
        }
    }

    /// A deletes X and saves.
    func aDeletes() throws {
        try a.performAndWait {
            a.delete(xA)
            try a.save()
        }
    }

    /// B gives X values and saves.
    func bSaves(_ values: [String: String]) throws {
        try b.performAndWait {
            for (key, value) in values { xB[key] = value }
            try b.save()
        }
    }

    /// B deletes X and saves.
    func bDeletes() throws {
        try b.performAndWait {
            b.delete(xB)
            try b.save()
        }
    }

    /// A property of B's X.
    func inB(_ key: String) -> String? { b.performAndWait { xB[key] } }

    /// A property of X in the store; nil where X is gone.
    func stored(_ key: String) throws -> String? { try store.stored(id, key) }

    /// Whether X is in the store.
    func isStored() throws -> Bool { try store.isStored(id) }

    /// The error that something throws.
    func error(_ body: () throws -> Void) throws -> CoordinatorError {
        try #require(throws: CoordinatorError.self, performing: body)
    }
}
