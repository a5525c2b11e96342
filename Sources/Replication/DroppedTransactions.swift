import Merge

/// Transactions that were dropped as their actors were closed: by name, and with their bytes until it
/// is known whether somebody has what they wait for.
///
/// They were acknowledged where they were saved, and may be nowhere else by now. So what is found to be
/// lost to all is given out once, to be kept for people, and is forgotten here: what was lost earlier
/// in a run takes no room of what is lost later.
///
/// Invariants: sorted by dot, none twice; at most ``Limits/orphans``, and together with at most
/// ``Limits/orphanBytes``, which is what `bytes` counts.
struct DroppedTransactions: Sendable {
    private struct Entry: Sendable {
        let dot: Dot
        /// Nil where there was no room for it.
        var transaction: ReceivedTransaction?
    }

    private var entries: [Entry] = []
    private(set) var bytes = 0

    var isEmpty: Bool { entries.isEmpty }

    /// Adds a transaction, within bounds.
    ///
    /// - Returns: false where there is no room even for its name.
    mutating func add(_ transaction: ReceivedTransaction, _ limits: Limits) -> Bool {
        let place = place(of: transaction.dot)
        if place == entries.endIndex || entries[place].dot != transaction.dot {
            guard entries.count < limits.orphans else { return false }
            entries.insert(Entry(dot: transaction.dot), at: place)
        }
        guard entries[place].transaction == nil,
            bytes + transaction.size <= limits.orphanBytes
        else { return true }
        entries[place].transaction = transaction
        bytes += transaction.size
        return true
    }

    /// Forgets what was applied after all.
    mutating func forget(coveredBy vector: VersionVector) {
        entries.removeAll { entry in
            guard vector.contains(entry.dot) else { return false }
            bytes -= entry.transaction?.size ?? 0
            return true
        }
    }

    /// Gives out, by dot, what is lost: it is not here any more.
    ///
    /// - Parameter isLost: whether that is so of an actor's transactions; asked once an actor.
    /// - Returns: the transactions, and the names of those that there was no room for.
    mutating func giveOut(
        where isLost: (ActorID) -> Bool
    ) -> (transactions: [EncodedTransaction], names: [Dot]) {
        var (transactions, names): ([EncodedTransaction], [Dot]) = ([], [])
        var (actor, isActorLost): (ActorID?, Bool) = (nil, false)
        entries.removeAll { entry in
            if actor != entry.dot.actor {
                actor = entry.dot.actor
                isActorLost = isLost(entry.dot.actor)
            }
            guard isActorLost else { return false }
            guard let transaction = entry.transaction else {
                names.append(entry.dot)
                return true
            }
            bytes -= transaction.size
            transactions.append(transaction.decoded())
            return true
        }
        return (transactions, names)
    }

    /// The names of what is lost and was not given out yet, by dot.
    ///
    /// - Parameters:
    ///   - vector: what is applied; it is left out.
    ///   - isLost: as for ``giveOut(where:)``.
    func dots(beyond vector: VersionVector, where isLost: (ActorID) -> Bool) -> [Dot] {
        var dots: [Dot] = []
        var (actor, isActorLost): (ActorID?, Bool) = (nil, false)
        for entry in entries where !vector.contains(entry.dot) {
            if actor != entry.dot.actor {
                actor = entry.dot.actor
                isActorLost = isLost(entry.dot.actor)
            }
            if isActorLost { dots.append(entry.dot) }
        }
        return dots
    }

    private func place(of dot: Dot) -> Int {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].dot < dot { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
