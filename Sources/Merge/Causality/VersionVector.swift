/// The applied transactions: for each actor its highest contiguous sequence. Absent means 0.
///
/// Kept as an array sorted by actor, so that equal vectors are equal values and no hash order
/// can leak into bytes.
///
/// Invariants: actors rise strictly; every sequence is at least 1.
public struct VersionVector: Hashable, Sendable {
    /// One actor's part of a vector.
    public struct Entry: Hashable, Sendable {
        /// The writer of the transactions.
        public let actor: ActorID
        /// The highest sequence applied with all before it, at least 1.
        public internal(set) var sequence: UInt64

        /// Pairs an actor with a sequence.
        public init(actor: ActorID, sequence: UInt64) {
            self.actor = actor
            self.sequence = sequence
        }
    }

    /// The entries, sorted by actor.
    public private(set) var entries: [Entry]

    /// A vector that knows nothing.
    public init() { entries = [] }

    /// Builds a vector from entries in any order; of two for one actor the higher counts, and
    /// zeros are left out, for absent means 0.
    public init(_ entries: some Sequence<Entry>) {
        self.init()
        for entry in entries { advance(entry.actor, to: entry.sequence) }
    }

    /// Takes entries that are sorted and positive already, or gives nil.
    ///
    /// For decoders: canonical bytes have exactly one order.
    public init?(canonical entries: [Entry]) {
        var previous: ActorID?
        for entry in entries {
            guard entry.sequence > 0 else { return nil }
            if let previous, previous >= entry.actor { return nil }
            previous = entry.actor
        }
        self.entries = entries
    }

    /// Whether nothing is known.
    public var isEmpty: Bool { entries.isEmpty }

    /// The sequence known of an actor; 0 where none is.
    public subscript(actor: ActorID) -> UInt64 {
        let index = position(of: actor)
        guard index < entries.count, entries[index].actor == actor else { return 0 }
        return entries[index].sequence
    }

    /// Whether the transaction that the dot names is among what is known.
    public func contains(_ dot: Dot) -> Bool { self[dot.actor] >= dot.sequence }

    /// Whether all that the other knows is known here too.
    public func covers(_ other: VersionVector) -> Bool {
        if entries.count == other.entries.count, entries == other.entries { return true }
        if other.entries.count < entries.count / 16 {
            return other.entries.allSatisfy { self[$0.actor] >= $0.sequence }
        }
        var index = 0
        for entry in other.entries {
            while index < entries.count, entries[index].actor < entry.actor { index += 1 }
            guard index < entries.count, entries[index].actor == entry.actor,
                entries[index].sequence >= entry.sequence
            else { return false }
        }
        return true
    }

    /// Raises an actor's sequence; a lower one changes nothing.
    public mutating func advance(_ actor: ActorID, to sequence: UInt64) {
        guard sequence > 0 else { return }
        let index = position(of: actor)
        if index < entries.count, entries[index].actor == actor {
            if entries[index].sequence < sequence { entries[index].sequence = sequence }
        } else {
            entries.insert(Entry(actor: actor, sequence: sequence), at: index)
        }
    }

    /// Raises the vector to include a dot and, by contiguity, all before it.
    public mutating func advance(to dot: Dot) { advance(dot.actor, to: dot.sequence) }

    /// The least vector that covers both.
    public mutating func join(_ other: VersionVector) {
        guard !covers(other) else { return }
        if other.entries.count < max(8, entries.count / 64) {
            for entry in other.entries { advance(entry.actor, to: entry.sequence) }
            return
        }
        var merged: [Entry] = []
        merged.reserveCapacity(max(entries.count, other.entries.count))
        var index = 0
        for entry in other.entries {
            while index < entries.count, entries[index].actor < entry.actor {
                merged.append(entries[index])
                index += 1
            }
            guard index < entries.count, entries[index].actor == entry.actor else {
                merged.append(entry)
                continue
            }
            merged.append(entries[index].sequence < entry.sequence ? entry : entries[index])
            index += 1
        }
        merged += entries[index...]
        entries = merged
    }

    /// The sum of all sequences, modulo 2^64. If one of two vectors covers the other, their sums
    /// are equal only if the vectors are.
    public var total: UInt64 { entries.reduce(0) { $0 &+ $1.sequence } }

    /// The entries for which something holds.
    public func filter(_ isIncluded: (Entry) -> Bool) -> VersionVector {
        var result = VersionVector()
        result.entries = entries.filter(isIncluded)
        return result
    }

    /// The least vector that covers both.
    public func joined(_ other: VersionVector) -> VersionVector {
        var result = self
        result.join(other)
        return result
    }

    /// The greatest vector that both cover.
    public func meet(_ other: VersionVector) -> VersionVector {
        VersionVector(
            entries.map { Entry(actor: $0.actor, sequence: min($0.sequence, other[$0.actor])) })
    }

    /// How this vector stands to another; the only comparison of vectors there is.
    public func order(relativeTo other: VersionVector) -> CausalOrder {
        switch (covers(other), other.covers(self)) {
        case (true, true): .equal
        case (true, false): .after
        case (false, true): .before
        case (false, false): .concurrent
        }
    }

    private func position(of actor: ActorID) -> Int {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].actor < actor { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
