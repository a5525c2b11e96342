import Merge

/// Transactions that were dropped as their actors were closed: by name, and with their bytes until it
/// is known whether somebody has what they wait for.
///
/// They were acknowledged where they were saved, and may be nowhere else by now. So what is found to be
/// lost to all is given out once, to be kept for people, and its bytes are let go of here.
///
/// Invariants: sorted by dot, none twice; at most ``Limits/orphans``, and together with at most
/// ``Limits/orphanBytes``, which is what `bytes` counts.
struct DroppedTransactions: Sendable {
    private struct Entry: Sendable {
        let dot: Dot
        /// Nil where there was no room for it, or once it was given out.
        var transaction: EncodedTransaction?
        var isGiven = false
    }

    private var entries: [Entry] = []
    private(set) var bytes = 0

    /// Adds a transaction, within bounds.
    mutating func add(_ transaction: EncodedTransaction, _ limits: Limits) {
        let fits = bytes + transaction.bytes.count <= limits.orphanBytes
        let place = entries.firstIndex { $0.dot >= transaction.dot } ?? entries.endIndex
        if place == entries.endIndex || entries[place].dot != transaction.dot {
            guard entries.count < limits.orphans else { return }
            entries.insert(Entry(dot: transaction.dot), at: place)
        }
        guard fits, !entries[place].isGiven, entries[place].transaction == nil else { return }
        entries[place].transaction = transaction
        bytes += transaction.bytes.count
    }

    /// Forgets what was applied after all.
    mutating func forget(coveredBy vector: VersionVector) {
        entries.removeAll { entry in
            guard vector.contains(entry.dot) else { return false }
            bytes -= entry.transaction?.bytes.count ?? 0
            return true
        }
    }

    /// Gives out, by dot, what is lost and has not been given out yet.
    ///
    /// - Parameter isLost: whether that is so of an actor's transactions; asked once an actor.
    mutating func giveOut(where isLost: (ActorID) -> Bool) -> [EncodedTransaction] {
        var given: [EncodedTransaction] = []
        var (actor, isActorLost): (ActorID?, Bool) = (nil, false)
        for index in entries.indices {
            guard let transaction = entries[index].transaction else { continue }
            if actor != transaction.dot.actor {
                actor = transaction.dot.actor
                isActorLost = isLost(transaction.dot.actor)
            }
            guard isActorLost else { continue }
            entries[index].transaction = nil
            entries[index].isGiven = true
            bytes -= transaction.bytes.count
            given.append(transaction)
        }
        return given
    }

    /// The names of what is lost, by dot, and of those of them that were given out.
    ///
    /// - Parameters:
    ///   - vector: what is applied; it is left out.
    ///   - isLost: as for ``giveOut(where:)``.
    func dots(
        beyond vector: VersionVector, where isLost: (ActorID) -> Bool
    ) -> (all: [Dot], given: [Dot]) {
        var (all, given): ([Dot], [Dot]) = ([], [])
        var (actor, isActorLost): (ActorID?, Bool) = (nil, false)
        for entry in entries where !vector.contains(entry.dot) {
            if actor != entry.dot.actor {
                actor = entry.dot.actor
                isActorLost = isLost(entry.dot.actor)
            }
            guard isActorLost else { continue }
            all.append(entry.dot)
            if entry.isGiven { given.append(entry.dot) }
        }
        return (all, given)
    }
}
