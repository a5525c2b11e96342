public import Merge

/// How much of the past a store keeps: its log and the closed entries of its conflict journal.
public struct HistoryLimits: Hashable, Sendable {
    /// How long transactions are kept, in milliseconds since they were saved; by default 30 days.
    public var keepMilliseconds: UInt64 = 30 * 86_400_000
    /// The most bytes that the transactions of the log may come to; by default 4 GiB. Over it
    /// they go although they are younger, and although a consumer needs them.
    public var maximumBytes: UInt64 = 4 << 30
    /// The most closed entries of the conflict journal; by default a million.
    public var maximumRecords = 1_000_000

    /// The defaults.
    public init() {}
}

/// The state of the other members when history is purged.
public struct HistoryKnowledge: Hashable, Sendable {
    /// The stable transactions: all members have them for certain.
    public var stable: VersionVector
    /// The transactions that at least one other member has for certain; ``stable`` is enough if
    /// there is no other member.
    public var elsewhere: VersionVector

    /// Puts together what is known.
    public init(stable: VersionVector, elsewhere: VersionVector = VersionVector()) {
        self.stable = stable
        self.elsewhere = elsewhere
    }
}

/// Why a transaction stays in the log that is old enough to go, or that is over the limit.
public enum HistoryHold: Hashable, Sendable {
    /// It is not stable: a member is not known to have it.
    case notStable(Dot)
    /// A consumer has not read it.
    case consumer(String)
    /// It is over the limit, and no other member is known to have it.
    case onlyHere(Dot)
}

/// The outcome of one step of tending history.
public struct HistoryTending: Hashable, Sendable {
    /// Transactions that went as they were old, stable and read by all consumers.
    public var purgedByAge = 0
    /// Stable transactions that went as the log was over its limit.
    public var purgedBySize = 0
    /// Transactions that went for the same reason though a member is not known to have them; one
    /// other member has each of them.
    public var purgedUnstable = 0
    /// The last of those; nil where there is none.
    public var lastUnstable: Dot?
    /// Closed conflicts that went as there were too many; not those that went with their
    /// transactions.
    public var recordsDropped = 0
    /// Consumers that lost what they had not read, by name.
    public var expired: [String] = []
    /// Consumers that have their places in no log any more since another's store was taken over, by
    /// name; reported once.
    public var lost: [String] = []
    /// The reason why the oldest transaction stays although it may go by age or size; nil if none.
    public var hold: HistoryHold?
    /// Whether another step would find nothing to do at once.
    public var isDone = true

    /// Nothing purged.
    public init() {}

    /// All transactions that went.
    public var purged: Int { purgedByAge + purgedBySize + purgedUnstable }
}
