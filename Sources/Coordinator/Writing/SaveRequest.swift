public import Merge

/// One atomic save, as a value: what a context or the HTTP interface hands to the coordinator.
package struct SaveRequest: Sendable {
    /// The operations, in order.
    package var operations: [SaveOperation]
    /// How objects that moved on since they were fetched are settled.
    package var mergePolicy: MergePolicy
    /// What the policy of a context decided otherwise, after former attempts.
    var settled = SettledConflicts()
    /// The author, in the application's words (transactionAuthor).
    package var author: String?
    /// The context's name.
    package var contextName: String?
    /// Why it is made, at most ``Transaction/Bounds/noteBytes``.
    package var note: String?
    /// A name under which the save is done at most once, 1...200 bytes.
    package var saveID: String?
    /// Whether it may have more operations than ``Bounds/operations``. Other saves wait while it is
    /// written.
    package var isBulk: Bool
    /// Whether the operations are what a client asked for, word by word, so that others under its ``saveID``
    /// are another save. A context's are what differs from what was fetched: who repeats such a save after
    /// it was done asks for less.
    package var isWordByWord = false
    /// What a batch request's transaction is a part of; nil of other saves. Such a save is not validated,
    /// but for the types of its values and the targets of its references.
    var batch: BatchMark?
    /// Changes of membership, instead of operations.
    var membership: [MembershipChange] = []

    /// How much it asks for: its operations, with the members that they name.
    var size: Int {
        operations.indices.reduce(operations.count) { size, place in
            operations[place].relationships.reduce(size) { $0 + $1.members.count }
        }
    }

    /// Bounds of a save.
    package enum Bounds {
        /// The most operations of a save that is not ``SaveRequest/isBulk``. What delete rules add does
        /// not count.
        package static let operations = 20_000
    }

    /// Whether it has more operations than a save may have unless it is ``isBulk``.
    package var exceedsLimit: Bool { !isBulk && countedOperations > Bounds.operations }

    /// How many operations the limit counts.
    var countedOperations: Int {
        operations.count <= Bounds.operations
            ? operations.count : operations.count { !$0.isByRule }
    }

    /// Describes a save.
    package init(
        operations: [SaveOperation], mergePolicy: MergePolicy = .error, author: String? = nil,
        contextName: String? = nil, saveID: String? = nil, note: String? = nil, isBulk: Bool = false
    ) {
        self.operations = operations
        self.mergePolicy = mergePolicy
        self.author = author
        self.contextName = contextName
        self.saveID = saveID
        self.note = note
        self.isBulk = isBulk
    }
}

/// What a transaction says of itself: who made it, where and why.
package struct SaveDescription: Hashable, Sendable {
    /// The author, in the application's words.
    package var author: String?
    /// The context's name.
    package var contextName: String?
    /// The reason, at most ``Transaction/Bounds/noteBytes``.
    package var note: String?

    /// Describes a save.
    package init(author: String? = nil, contextName: String? = nil, note: String? = nil) {
        self.author = author
        self.contextName = contextName
        self.note = note
    }

    /// Refuses a note that other nodes would refuse.
    ///
    /// - Throws: ``CoordinatorError`` (`malformed`).
    package func check() throws {
        guard let note, note.isEmpty || note.utf8.count > Transaction.Bounds.noteBytes else {
            return
        }
        throw CoordinatorError(
            .malformed,
            "A note has 1 to \(Transaction.Bounds.noteBytes) bytes of UTF-8, not "
                + "\(note.utf8.count).")
    }
}

extension SaveRequest {
    /// A save of some operations by somebody.
    init(operations: [SaveOperation], by who: SaveDescription, isBulk: Bool = false) {
        self.init(
            operations: operations, author: who.author, contextName: who.contextName,
            note: who.note, isBulk: isBulk)
    }
}

/// A transaction's place in a batch request, which is kept with its answer.
struct BatchMark: Hashable, Sendable {
    /// What tells the request from others under its save ID.
    var fingerprint: [UInt8]
    /// How many objects the transaction was done with.
    var count = 0
    /// The last row that it was to be done with; nil of an insert.
    var last: RowID?
}

extension CoordinatorError {
    /// The refusal of a save with too many operations that does not say that it is bulk.
    static func notBulk(_ count: Int) -> CoordinatorError {
        CoordinatorError(
            .limitExceeded,
            "The save has \(count) operations; the limit is \(SaveRequest.Bounds.operations). Divide it, "
                + "or allow it with isBulk (over HTTP \"bulk\": true, on the command line --bulk). Other "
                + "saves wait while a bulk save is written: about 0.3 s per 100,000 inserts, five times "
                + "that for updates, and eight times for deletes that cascade.")
    }
}

/// One object's part of a save.
///
/// Wherever a row is named (``row``, references, members), a number below 0 is a temporary
/// identity: that of an insert in the same request.
package struct SaveOperation: Sendable {
    /// The kinds of operation.
    package enum Kind: Hashable, Sendable {
        /// A new object; its row is a temporary identity.
        case insert
        /// New values for an object.
        case update
        /// The end of an object; delete rules are carried out by the coordinator.
        case delete
        /// Nothing but a check that the object has not moved on (detectConflicts(for:)).
        case check
    }

    /// Which kind.
    package var kind: Kind
    /// The object's entity.
    package var entity: ManagedObjectModel.Entity
    /// The object's row.
    package var row: RowID
    /// The values assigned, by position in the entity's canonical order of properties. Of a
    /// delete, where to-ones lead that its delete rules are to follow, instead of the store's.
    package var values: [(position: Int, value: PropertyValue)]
    /// Relationships kept elsewhere than in the row: to-manys, and derived sides of one-to-ones.
    /// Of a delete, what its delete rules are to take for made or broken before.
    package var relationships: [RelationshipOperation]
    /// The version the caller fetched. Without it the operation is made against whatever the
    /// store holds: last write wins, by choice.
    package var version: RowVersion?
    /// The values the caller fetched, in canonical order; nil where it keeps none. What the store
    /// computes is left out.
    package var snapshot: [PropertyValue]? {
        didSet { snapshot = Self.written(snapshot, of: entity) }
    }
    /// Whether the write resolves unresolved conflicts of what it writes; of a delete also of
    /// what its delete rules take along.
    package var resolves: Bool
    /// What an update adds to the numbers that the store has, by position. The planner replaces them
    /// by plain ``values``.
    package var increments: [(position: Int, amount: PropertyValue)] = []
    /// The condition that the store's object must meet, or the whole save is refused; of an update or
    /// a delete.
    package var condition: SaveCondition?
    /// Whether a delete rule added it in a context.
    var isByRule = false
    /// The caller's name for an inserted object, to find it in the answer; kept with the answer of
    /// a save that has an ID.
    package var name: String?
    /// The identity that an insert was given before the save, from those that are reserved.
    var reservedRow: RowID?
    /// Whether an update has the values of all properties, as the journal kept them, so that it can
    /// bring back a row that the store knows nothing of any more.
    var isWholeRow = false
    /// Whether it is for the row that it names alone: not for a row that is shown in its place,
    /// nor for others of its group.
    var isExact = false

    /// Describes an operation.
    package init(
        kind: Kind, entity: ManagedObjectModel.Entity, row: RowID,
        values: [(position: Int, value: PropertyValue)] = [],
        relationships: [RelationshipOperation] = [], version: RowVersion? = nil,
        snapshot: [PropertyValue]? = nil, resolves: Bool = false, name: String? = nil
    ) {
        self.kind = kind
        self.entity = entity
        self.row = row
        self.values = values
        self.relationships = relationships
        self.version = version
        self.snapshot = Self.written(snapshot, of: entity)
        self.resolves = resolves
        self.name = name
    }

    private static func written(
        _ columns: [PropertyValue]?, of entity: ManagedObjectModel.Entity
    ) -> [PropertyValue]? {
        guard let columns, columns.count > entity.properties.count else { return columns }
        return Array(columns.prefix(entity.properties.count))
    }
}

extension SaveOperation {
    /// Whether what it writes, or whether it writes, depends on the store's state.
    var hasPremises: Bool { condition != nil || !increments.isEmpty }

    /// The operation with only the values that it writes. A delete's values decide its rules alone.
    var written: SaveOperation {
        guard kind == .delete else { return self }
        var result = self
        result.values = []
        result.relationships = []
        return result
    }
}

/// A change to the members of a relationship whose state is kept elsewhere than in the row.
public struct RelationshipOperation: Hashable, Sendable {
    /// The kind of change.
    public enum Kind: String, Hashable, Sendable {
        /// Members join.
        case add
        /// Members leave.
        case remove
        /// These are the members, and no others.
        case replace
    }

    /// The relationship's name.
    public var name: String
    /// The kind of change.
    public var kind: Kind
    /// The members' rows.
    public var members: [RowID]

    /// Describes a change.
    public init(name: String, kind: Kind, members: [RowID]) {
        self.name = name
        self.kind = kind
        self.members = members
    }
}

/// The outcome of a save.
public struct SaveResult: Hashable, Sendable {
    /// The transaction; nil where the policy left nothing to save.
    public var transaction: Dot?
    /// Its timestamp.
    public var timestamp: HybridTimestamp?
    /// Its causal context; where there is no transaction, the store's vector.
    public var seen: VersionVector
    /// The state of the store that contains it.
    public var token: QueryGenerationToken
    /// The identities of inserted objects, by their temporary ones, in order of the request.
    public var insertedRows: [InsertedRow]
    /// Conflicts between nodes that the save settled or resolved on the way.
    public var conflicts: [ConflictID]
    /// The results of the operations, if they differ from what was asked for, and the versions of
    /// all rows written: those of the operations first, each kind in order of row.
    public var rows: [SavedRow]

    /// The values of incremented properties after the save, in order of the request; without those that
    /// the merge policy left as they were. None in an answer that was rebuilt.
    package var incremented: [IncrementedValue] = []

    /// Whether the answer was rebuilt from its transaction, which came back from other nodes after
    /// this node's store was put back or lost. Then ``conflicts`` is empty, the token is that of
    /// the return, and ``insertedRows`` has rows only in answer to a repeated request, as far as
    /// the request shows them: not if an inserted object became one with another of its key.
    public var isRebuilt = false

    /// A temporary identity with the one it became.
    public struct InsertedRow: Hashable, Sendable {
        /// The number below 0 in the request.
        public let temporary: RowID
        /// The number from now on.
        public let row: RowID
        /// The object's entity.
        public let entityName: String
        /// The caller's name for it.
        public let name: String?
    }

    /// A property after an increment.
    package struct IncrementedValue: Hashable, Sendable {
        /// Which object.
        package let objectID: ManagedObjectID
        /// The property's name.
        package let property: String
        /// The sum.
        package let value: PropertyValue
    }

    /// A row after the save.
    public struct SavedRow: Hashable, Sendable {
        /// Which object.
        public let objectID: ManagedObjectID
        /// Its version now; nil where it is deleted.
        public let version: RowVersion?
        /// All its values now, in canonical order; nil if they are what the operation assigned over
        /// its snapshot, so that the client knows them.
        public let values: [PropertyValue]?
        /// Whether the policy dropped what the save was to do with it, or did that to another object
        /// that is shown in its place.
        var isDropped = false
    }
}
