/// One save, as it is kept in the log and sent to other nodes.
///
/// Every save is one transaction with one dot and one timestamp; it is applied atomically.
package struct Transaction: Hashable, Sendable {
    /// The save's name.
    package var dot: Dot
    /// When, by the writer's hybrid clock.
    package var timestamp: HybridTimestamp
    /// The writer's vector immediately before this save, every earlier save of the same group
    /// commit included: its causal context.
    package var seen: VersionVector
    /// The author, in the application's own words.
    package var author: String?
    /// The saving context's name.
    package var contextName: String?
    /// The name under which the save can be repeated without being done twice.
    package var saveID: String?
    /// Why it was made, in the author's words: of decisions over conflicts.
    package var note: String?
    /// The hash of the model the writer used, 32 bytes.
    package var modelHash: [UInt8]
    /// The meaning of the changes' values; changes point here by position.
    package var shapes: [ChangeShape]
    /// The changes, in the order of the save.
    package var changes: [Change]

    /// Composes a transaction.
    package init(
        dot: Dot, timestamp: HybridTimestamp, seen: VersionVector, author: String? = nil,
        contextName: String? = nil, saveID: String? = nil, note: String? = nil,
        modelHash: [UInt8],
        shapes: [ChangeShape], changes: [Change]
    ) {
        self.dot = dot
        self.timestamp = timestamp
        self.seen = seen
        self.author = author
        self.contextName = contextName
        self.saveID = saveID
        self.note = note
        self.modelHash = modelHash
        self.shapes = shapes
        self.changes = changes
    }

    /// The transaction's place in the total order.
    package var stamp: Stamp { Stamp(timestamp: timestamp, dot: dot) }
}

/// The entity and the properties that a run of changes has in common, named once.
package struct ChangeShape: Hashable, Sendable {
    /// The entity's name; of a link, `Entity.relationship` of the side that sorts first.
    package var entity: String
    /// The properties whose values a change carries because the save assigned them.
    package var assigned: [String]
    /// The properties carried along unassigned: an insert's defaults, the rest of the row under a
    /// row-grained policy, or what history keeps of a deleted one. Their values follow the assigned
    /// ones.
    package var carried: [String]

    /// Describes a shape.
    package init(entity: String, assigned: [String], carried: [String] = []) {
        self.entity = entity
        self.assigned = assigned
        self.carried = carried
    }

    /// How many values a change of this shape has.
    package var valueCount: Int { assigned.count + carried.count }

    /// Whether no property stands in it twice, so that a change has one value of each.
    package var namesEachOnce: Bool { Set(assigned).union(carried).count == valueCount }
}

/// One row's or one link's change within a transaction.
package struct Change: Hashable, Sendable {
    /// The kinds of change.
    package enum Kind: UInt8, Hashable, Sendable, CaseIterable {
        /// A new row.
        case insert = 0
        /// New values for a row.
        case update = 1
        /// The end of a row.
        case delete = 2
        /// A dead row comes back, whole; it counts as an insertion.
        case revival = 3
        /// A link of a many-to-many relationship is made.
        case link = 4
        /// A link is taken away.
        case unlink = 5
    }

    /// Which kind.
    package var kind: Kind
    /// The position of the change's shape in its transaction.
    package var shape: Int
    /// The row; of a link the row on the side that sorts first.
    package var row: RowID
    /// The row on a link's other side.
    package var target: RowID?
    /// The values of the shape's properties, in its order.
    package var values: [PropertyValue]

    /// Describes a change.
    ///
    /// - Parameter target: given exactly for links.
    package init(
        kind: Kind, shape: Int, row: RowID, target: RowID? = nil, values: [PropertyValue] = []
    ) {
        self.kind = kind
        self.shape = shape
        self.row = row
        self.target = target
        self.values = values
    }
}
