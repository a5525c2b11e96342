/// The name of a conflict: the same on every node whose vector is equal.
///
///     Entity.pDECIMAL.property             a property's register
///     Entity.pDECIMAL.object               existence, or a row-grained register
///     Entity.pDECIMAL.property.target      a reference to a row that is gone
///     Entity.pDECIMAL.relationship.pDECIMAL   a link
///     Entity.pDECIMAL.unique.CONSTRAINT    a group, by its survivor
///     Entity.pDECIMAL.relationship.count   a to-many with too few objects, or too many
///
/// A closed conflict's name is followed by `@` and the generation that closed it.
public struct ConflictID: Hashable, Sendable, CustomStringConvertible {
    /// The row's entity, by its root's name in the store.
    public let entity: String
    /// The row.
    public let row: RowID
    /// The part of the row, as in the table above, without the row itself.
    public let subject: String
    /// The generation that closed it; nil while it is open.
    public let closedAt: UInt64?

    /// Names a conflict.
    public init(entity: String, row: RowID, subject: String, closedAt: UInt64? = nil) {
        self.entity = entity
        self.row = row
        self.subject = subject
        self.closedAt = closedAt
    }

    /// The name as people see it.
    public var description: String {
        let open = "\(entity).\(row).\(subject)"
        guard let closedAt else { return open }
        return "\(open)@\(closedAt)"
    }

    /// Reads what ``description`` prints; nil where it is anything else.
    public init?(_ text: String) {
        let halves = text.split(separator: "@", omittingEmptySubsequences: false)
        guard halves.count <= 2, let name = halves.first else { return nil }
        let parts = name.split(separator: ".", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[0].isEmpty, !parts[2].isEmpty, let row = RowID(parts[1])
        else { return nil }
        var closedAt: UInt64?
        if halves.count == 2 {
            // Integer parsing also takes signs and leading zeros.
            guard let generation = UInt64(halves[1]),
                String(generation).utf8.elementsEqual(halves[1].utf8)
            else { return nil }
            closedAt = generation
        }
        self.init(
            entity: String(parts[0]), row: row, subject: String(parts[2]), closedAt: closedAt)
    }
}

/// The kind of a conflict's disagreement.
public enum ConflictKind: String, Hashable, Sendable, CaseIterable {
    /// Concurrent writes to one property.
    case update
    /// A delete against writes.
    case delete
    /// Concurrent writes to one row under a row-grained policy.
    case row
    /// Rows with the same unique key.
    case uniqueness
    /// A reference to a row that is gone.
    case dangling
    /// A link added and removed concurrently.
    case link
    /// A to-many that saves together left with too few objects, or too many.
    case count
    /// The values that a context's save discarded on the node where it happened.
    case save
}

/// Where a conflict stands.
public enum ConflictState: String, Hashable, Sendable, CaseIterable {
    /// Nobody has decided; the policy is an error policy.
    case unresolved
    /// The policy chose; or it is over, and no save that had seen all sides has ended it.
    case settled
    /// A later save that had seen all sides overwrote it.
    case resolved
}

/// Why a side is visible, as data and as a sentence.
public struct Explanation: Hashable, Sendable {
    /// The rules by which a side can win.
    public enum Rule: String, Hashable, Sendable {
        /// The first write by the total order of stamps.
        case earliest
        /// The last write by the total order of stamps.
        case latest
        /// A delete wins over concurrent writes.
        case deleteWins
        /// The row stays, flagged: hiding data is the worse mistake.
        case staysAlive
        /// The target of a reference is gone.
        case targetGone
        /// The relationship points to the objects that are left, though they are too few or too
        /// many.
        case memberCount
        /// The context's merge policy decided at a save.
        case savePolicy
        /// A merge policy of the application's own chose.
        case named
    }

    /// The rule that decided.
    public let rule: Rule
    /// A sentence for people.
    public let text: String

    /// Pairs a rule with its sentence.
    public init(rule: Rule, text: String) {
        self.rule = rule
        self.text = text
    }

    /// Explains the choice among property siblings.
    public static func choosing(_ policy: MergePolicy) -> Explanation {
        switch policy {
        case .error, .errorByRow:
            Explanation(
                rule: .earliest,
                text: "Policy \(policy.rawValue) decides nothing: the earliest write is shown "
                    + "until somebody resolves the conflict.")
        case .mergeByPropertyStoreTrump, .rollback:
            Explanation(
                rule: .earliest,
                text: "Policy \(policy.rawValue): what the store had first stands; the "
                    + "earliest write wins on every node.")
        case .mergeByPropertyObjectTrump, .overwrite:
            Explanation(
                rule: .latest,
                text: "Policy \(policy.rawValue): the newer object's change stands; the "
                    + "latest write wins on every node.")
        case .named:
            Explanation(
                rule: .named,
                text:
                    "Policy \(policy.rawValue): the application's own rule chose among the writes, "
                    + "as on every node.")
        }
    }

    /// Explains the outcome of a delete against writes.
    public static func deleting(_ policy: MergePolicy) -> Explanation {
        switch policy {
        case .mergeByPropertyStoreTrump, .mergeByPropertyObjectTrump:
            Explanation(
                rule: .deleteWins,
                text: "Policy \(policy.rawValue): a delete wins over concurrent edits, which "
                    + "are kept here.")
        case .error, .errorByRow:
            Explanation(
                rule: .staysAlive,
                text: "Policy \(policy.rawValue) decides nothing: the row stays until "
                    + "somebody resolves the conflict.")
        case .rollback, .overwrite, .named: choosing(policy)
        }
    }
}

/// A register in conflict, found by looking at a row's state alone.
public struct RegisterConflict: Hashable, Sendable {
    /// Which register.
    public enum Subject: Hashable, Sendable {
        /// The property at this position in the entity's canonical order.
        case property(Int)
        /// The row's existence, or the whole row under a row-grained policy.
        case object
    }

    /// Which register.
    public let subject: Subject
    /// Which kind.
    public let kind: ConflictKind
    /// Unresolved or settled.
    public let state: ConflictState
    /// The policy that applies.
    public let policy: MergePolicy
    /// Why the visible side is visible.
    public let explanation: Explanation
    /// The siblings' stamps, earliest first.
    package let stamps: [Stamp]
}

extension RowState {
    /// The conflicts of the row, a function of its state (DESIGN section 10).
    ///
    /// Only registers of live rows are conflicts; of a dead row only its existence (MODEL P7).
    public func conflicts(_ policies: EntityPolicies) -> [RegisterConflict] {
        var result: [RegisterConflict] = []
        if existence.siblings.count > 1 {
            let disagree =
                existence.siblings.contains { !$0.value.isAlive }
                && existence.siblings.contains { $0.value.isAlive }
            if disagree || existence.isInConflict {
                let policy = policies.entity
                result.append(
                    RegisterConflict(
                        subject: .object, kind: disagree ? .delete : .row,
                        state: policy.leavesUnresolved ? .unresolved : .settled, policy: policy,
                        explanation: disagree ? .deleting(policy) : .choosing(policy),
                        stamps: existence.siblings.map(\.stamp)))
            }
        }
        guard !policies.isRowGrained, isAlive(policies) else { return result }
        for position in properties.indices where properties[position].isInConflict {
            let policy = policies.properties[position]
            result.append(
                RegisterConflict(
                    subject: .property(position), kind: .update,
                    state: policy.leavesUnresolved ? .unresolved : .settled, policy: policy,
                    explanation: .choosing(policy),
                    stamps: properties[position].siblings.map(\.stamp)))
        }
        return result
    }
}
