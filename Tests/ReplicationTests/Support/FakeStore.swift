import Merge
import Replication

/// A store of nothing but its log, with a part of it on disk. It checks that what it must apply is
/// in causal order. A value: a copy of it is a backup.
struct FakeStore {
    var vector = VersionVector()
    var log: [EncodedTransaction] = []
    var digest = ProjectionDigest()
    var refused: Set<Dot> = []
    var violations: [Dot] = []

    /// Whether what is applied waits for ``sync()`` to be on disk; a save never waits.
    var isLazy = false
    /// What is on disk: a prefix of the log.
    private(set) var durable = VersionVector()
    private(set) var durableCount = 0
    private(set) var recovery = Recovery.none
    private(set) var isFounder = false
    /// The length of the log at the latest recovery state, and the state before.
    private var note: (count: Int, recovery: Recovery, isFounder: Bool)?
    private(set) var founders: [ActorID] = []
    /// In which incarnations of its node it was open, the present one the last.
    var lives: [ActorID] = []
    /// The incarnations of others that it remembers; on disk at once.
    private(set) var incarnations: [ActorID] = []
    /// All that was declared stable to this store.
    var declared = VersionVector()

    init(recovery: Recovery = .none, isLazy: Bool = false) {
        self.recovery = recovery
        self.isLazy = isLazy
    }

    /// Who is a member, as the log tells.
    private(set) var membership = Membership()

    var state: StoreState {
        StoreState(vector: vector, durable: durable, digest: digest, membership: membership)
    }

    mutating func append(_ transaction: EncodedTransaction) {
        guard vector.covers(transaction.transaction.seen), !vector.contains(transaction.dot) else {
            return violations.append(transaction.dot)
        }
        vector.advance(to: transaction.dot)
        log.append(transaction)
        for change in transaction.transaction.changes {
            let shape = transaction.transaction.shapes[change.shape]
            if let change = MembershipChange(change, shape: shape) {
                membership.apply(change, stamp: transaction.transaction.stamp)
            }
        }
        digest.add((Transaction.checksum(transaction.bytes), transaction.dot.sequence))
        if !isLazy { sync() }
    }

    mutating func sync() {
        durable = vector
        durableCount = log.count
    }

    mutating func apply(_ transactions: [EncodedTransaction]) -> [Rejection] {
        var rejected: [Rejection] = []
        for transaction in transactions {
            if refused.contains(transaction.dot) {
                rejected.append(Rejection(dot: transaction.dot, reason: "no such row"))
            } else if rejected.isEmpty || vector.covers(transaction.transaction.seen) {
                append(transaction)
            }
        }
        return rejected
    }

    /// How much of the log was purged, from its beginning: it is not read out any more.
    var purgedCount = 0
    /// A copy of another's store that is coming in, and which.
    var incoming: (copy: TransferCopy, bytes: [UInt8])?

    /// Becomes a copy of another's store with what it has besides.
    mutating func take(_ other: FakeStore) {
        let own = log.filter { !other.vector.contains($0.dot) }
        let purged = log[..<purgedCount].filter { !other.vector.contains($0.dot) }
        if let lost = purged.first { violations.append(lost.dot) }
        (vector, digest, membership) = (other.vector, other.digest, other.membership)
        log = other.log
        purgedCount = other.purgedCount
        for transaction in own { append(transaction) }
        sync()
    }

    /// Reads what is on disk; nothing where it does not reach back far enough.
    func read(after: VersionVector, byteLimit: Int) -> ([[UInt8]], Bool) {
        if log[..<purgedCount].contains(where: { !after.contains($0.dot) }) { return ([], true) }
        var result: [[UInt8]] = []
        var bytes = 0
        for transaction in log[..<durableCount] where !after.contains(transaction.dot) {
            if !result.isEmpty, bytes + transaction.bytes.count > byteLimit {
                return (result, false)
            }
            bytes += transaction.bytes.count
            result.append(transaction.bytes)
        }
        return (result, true)
    }

    /// Takes away what is not on disk. A note in the store is lost with all that came after it.
    mutating func losePower() {
        let kept = Array(log[..<durableCount])
        if let note, durableCount <= note.count {
            (recovery, isFounder) = (note.recovery, note.isFounder)
        }
        vector = VersionVector()
        digest = ProjectionDigest()
        membership = Membership()
        log = []
        for transaction in kept { append(transaction) }
        sync()
    }

    mutating func outgrow() {
        note = (log.count, recovery, isFounder)
        recovery = .restored
        isFounder = false
    }

    mutating func noteFounder() {
        note = (log.count, recovery, isFounder)
        isFounder = true
    }

    /// Only what is on disk is vouched for, so the note may be taken for durable.
    mutating func vouch(founders: [ActorID]) {
        recovery = .none
        isFounder = false
        self.founders = founders
        note = nil
    }

    mutating func remember(_ actor: ActorID) {
        incarnations.removeAll { $0.node == actor.node }
        incarnations.append(actor)
    }

    /// Becomes what the restore command makes of a backup.
    mutating func restore() {
        recovery = .restored
        isFounder = false
        founders = []
        note = nil
    }
}
