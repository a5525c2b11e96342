public import Foundation
public import Merge

/// One save in a store's history, made here or at another node, as NSPersistentHistoryTransaction; a value.
public struct PersistentHistoryTransaction: Hashable, Sendable {
    /// Its place in the order applied here, from 1; rising, and with gaps in what a filter lets through.
    public let transactionNumber: UInt64
    /// The state after it: what to ask for later history by. Good at every node of the cluster.
    public let token: QueryGenerationToken
    /// Its name, which is the same at every node.
    public let dot: Dot
    /// When it was saved, by its writer's clock.
    public let timestamp: Date
    /// The author that the saving context named (`transactionAuthor`).
    public let author: String?
    /// The name of the context that saved it.
    public let contextName: String?
    /// The reason that the author gave; nil for none.
    public let note: String?
    /// The name under which it was saved at most once.
    public let saveID: String?
    /// The changes of objects, in the order of the save, one an object and transaction, and then those that
    /// it brought about; nil where none were asked for. Of a filter by entity or property only what that
    /// lets through.
    public let changes: [PersistentHistoryChange]?

    /// The node that saved it.
    public var node: NodeID { dot.actor.node }

    /// Its changes by object, for contexts to merge as they would merge the save itself; nil where none
    /// were asked for.
    public func objectIDNotification() -> ContextDidSave? {
        guard let changes else { return nil }
        func objects(_ type: PersistentHistoryChange.ChangeType) -> Set<ManagedObjectID> {
            Set(changes.lazy.filter { $0.changeType == type }.map(\.changedObjectID))
        }
        return ContextDidSave(
            inserted: objects(.insert), updated: objects(.update), deleted: objects(.delete),
            token: token)
    }
}

/// What a transaction did to one object, as NSPersistentHistoryChange; a value.
public struct PersistentHistoryChange: Hashable, Sendable {
    /// The kinds of change.
    public enum ChangeType: String, Hashable, Sendable, CaseIterable {
        /// The object is new, or back.
        case insert
        /// It has other values or relationships.
        case update
        /// It is gone.
        case delete
    }

    /// Which object.
    public let changedObjectID: ManagedObjectID
    /// Which kind.
    public let changeType: ChangeType
    /// Of an update the attributes and relationships that were assigned; else empty. A to-many that is the
    /// other side of a to-one is none of them: the to-one is.
    public let updatedProperties: Set<String>
    /// Of a delete what the object had, of the attributes that are
    /// ``AttributeDescription/preservesValueInHistoryOnDeletion``; nil else.
    public let tombstone: [String: PropertyValue]?
    /// Whether nobody wrote it: a to-one leads elsewhere since, because of what the transaction did to
    /// another object.
    public let isDerived: Bool
}
