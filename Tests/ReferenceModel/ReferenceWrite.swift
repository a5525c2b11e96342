import Coordinator
import Merge

/// What one transaction said of one row or of one link.
struct ReferenceWrite: Sendable {
    /// The transaction's place in the total order.
    let stamp: Stamp
    /// What its writer had seen.
    let seen: VersionVector
    /// The model its writer used.
    let modelHash: [UInt8]
    /// Whether it ended the row, or took the link away.
    var isDeath: Bool
    /// Whether it says something of every property: what it does not name it leaves null.
    var isWhole = false
    /// The values it wrote, carried ones included.
    var values: [String: PropertyValue] = [:]
    /// The properties whose values its save assigned.
    var assigned: Set<String> = []

    init(_ transaction: Transaction, isDeath: Bool) {
        stamp = transaction.stamp
        seen = transaction.seen
        modelHash = transaction.modelHash
        self.isDeath = isDeath
    }

    var dot: Dot { stamp.dot }

    /// Whether its writer had seen the other write; nobody overwrites what they have not seen.
    func saw(_ other: ReferenceWrite) -> Bool {
        if dot.actor == other.dot.actor { return dot.sequence > other.dot.sequence }
        return seen.contains(other.dot)
    }

    /// The writes that no other of the list has seen: the siblings of a register (DESIGN 5.1).
    static func maximal(_ writes: [ReferenceWrite]) -> [ReferenceWrite] {
        if writes.count < 2 { return writes }
        return writes.filter { write in !writes.contains { $0.saw(write) } }
    }

    /// What an application's own policy chooses of the list, given in the total order.
    static func choose(
        _ writes: [ReferenceWrite], _ policy: NamedMergePolicy,
        value: (ReferenceWrite) -> PropertyValue
    ) -> ReferenceWrite? {
        if writes.isEmpty { return nil }
        let sorted = writes.sorted { $0.stamp.precedes($1.stamp) }
        let place = policy.chosen(
            among: sorted.map {
                .init(value: value($0), timestamp: $0.stamp.timestamp, dot: $0.dot)
            })
        return sorted[place]
    }

    /// The first or the last of the list by the total order.
    static func choose(
        _ writes: [ReferenceWrite], _ choice: MergePolicy.Choice
    ) -> ReferenceWrite? {
        switch choice {
        case .earliest: writes.min { $0.stamp.precedes($1.stamp) }
        case .latest: writes.max { $0.stamp.precedes($1.stamp) }
        }
    }
}

/// One property of a row: its siblings and which of them stands.
struct ReferenceRegister: Sendable {
    /// The maximal writes.
    let siblings: [ReferenceWrite]
    /// The sibling that the policy chooses.
    var winner: ReferenceWrite
    /// The policy that chose it.
    let policy: MergePolicy
    /// What the winner wrote; of a row that eclipses others, the winner of the whole group.
    var raw: PropertyValue
    /// What a row of a group has by itself, and whose write that is; nil where that is the same.
    var own: (winner: ReferenceWrite, raw: PropertyValue)?
    /// What readers see: a reference that leads nowhere is null.
    var shown: PropertyValue
}

/// One row with all that is known of it.
struct ReferenceRow: Sendable {
    /// The entity it was inserted as.
    let entity: ManagedObjectModel.Entity
    /// Everything that was ever written to it.
    let writes: [ReferenceWrite]
    /// The siblings of its existence register.
    let existence: [ReferenceWrite]
    /// The policy that settles its existence.
    let policy: MergePolicy
    /// Whether its registers say that it is there.
    let isAlive: Bool
    /// The row that readers see in its place, where it is eclipsed.
    var survivor: RowID?
    /// Of a row that eclipses others, these, in order of insertion.
    var eclipsed: [RowID] = []
    /// Its properties by name; under a row-grained policy all share the siblings of existence.
    var registers: [String: ReferenceRegister]

    /// Whether readers see it.
    var isVisible: Bool { isAlive && survivor == nil }

    /// Whether the siblings of its existence disagree on whether there is a row.
    var isDisputed: Bool {
        existence.contains { $0.isDeath } && existence.contains { !$0.isDeath }
    }
}

/// One link of a many-to-many relationship.
struct ReferenceLink: Sendable {
    /// Which link.
    struct Key: Hashable, Sendable {
        let name: String
        let source: RowID
        let target: RowID
    }

    /// Which link.
    let key: Key
    /// Everything that was ever written to it.
    let writes: [ReferenceWrite]
    /// The maximal writes.
    let siblings: [ReferenceWrite]
    /// The policy that settles it.
    let policy: MergePolicy
    /// Whether the register says that there is a link, its ends apart.
    let isMade: Bool
    /// Whether both its ends are alive.
    let endsLive: Bool

    /// Whether its siblings disagree.
    var isDisputed: Bool {
        siblings.contains { $0.isDeath } && siblings.contains { !$0.isDeath }
    }
}
