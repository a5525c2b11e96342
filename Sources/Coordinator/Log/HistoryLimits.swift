package import Merge

/// How much of the past a store keeps: its log and the closed entries of its conflict journal.
package struct HistoryLimits: Hashable, Sendable {
    /// How long transactions are kept, in milliseconds since they were saved; by default 30 days.
    package var keepMilliseconds: UInt64 = 30 * 86_400_000
    /// The most bytes that the transactions of the log may come to; by default 4 GiB. Over it
    /// they go although they are younger, and although a consumer needs them.
    package var maximumBytes: UInt64 = 4 << 30
    /// The most closed entries of the conflict journal; by default a million.
    package var maximumRecords = 1_000_000

    /// The defaults.
    package init() {}
}

/// What is known of the other members when history is purged.
package struct HistoryKnowledge: Hashable, Sendable {
    /// What is stable: all members have it for certain.
    package var stable: VersionVector
    /// What at least one other member has for certain; no more than ``stable`` is needed where
    /// there is no other member.
    package var elsewhere: VersionVector

    /// Puts together what is known.
    package init(stable: VersionVector, elsewhere: VersionVector = VersionVector()) {
        self.stable = stable
        self.elsewhere = elsewhere
    }
}

/// Why a transaction stays in the log that is old enough to go, or that is over the limit.
package enum HistoryHold: Hashable, Sendable {
    /// It is not stable: a member is not known to have it.
    case notStable(Dot)
    /// A consumer has not read it.
    case consumer(String)
    /// It is over the limit, and no other member is known to have it.
    case onlyHere(Dot)
}

/// What one step of tending history came to.
package struct HistoryTending: Hashable, Sendable {
    /// Transactions that went as they were old, stable and read by all consumers.
    package var purgedByAge = 0
    /// Stable transactions that went as the log was over its limit.
    package var purgedBySize = 0
    /// Transactions that went for the same reason though a member is not known to have them; one
    /// other member has each of them.
    package var purgedUnstable = 0
    /// The last of those; nil where there is none.
    package var lastUnstable: Dot?
    /// Closed conflicts that went as there were too many; not those that went with their
    /// transactions.
    package var recordsDropped = 0
    /// Consumers that lost what they had not read, by name.
    package var expired: [String] = []
    /// Consumers whose places are in no log any more since another's store was taken over, by name;
    /// told once.
    package var lost: [String] = []
    /// What keeps the oldest transaction although it may go by age or size; nil where none.
    package var hold: HistoryHold?
    /// Whether another step would find nothing to do at once.
    package var isDone = true

    /// Nothing purged.
    package init() {}

    /// All transactions that went.
    package var purged: Int { purgedByAge + purgedBySize + purgedUnstable }
}
