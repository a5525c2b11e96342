package import Coordinator
package import Merge

/// Saves that can never be applied and are not in the store yet. The replicator has given them up,
/// so they wait here until the store has taken them, within bounds.
package struct OrphanBook: Hashable, Sendable {
    /// How many bytes are written at once, unless a single one is longer.
    static let bytesAtOnce = 1 << 20

    /// Of what waits here, so that a full disk does not fill memory.
    private let bounds: OrphanedTransaction.Bounds
    private var waiting: [EncodedTransaction] = []
    private var bytes = 0
    /// The saves without room, by name, sorted.
    private var leftOut: [Dot] = []

    /// Begins with none.
    package init(bounds: OrphanedTransaction.Bounds = .init()) { self.bounds = bounds }

    /// The saves that are not in the store, because they could not be written yet or have no room;
    /// by dot.
    package var notKept: [Dot] { (waiting.map(\.dot) + leftOut).sorted() }

    /// The next to be written, so few that saves do not wait long for them.
    package var next: [EncodedTransaction] {
        var (count, bytes) = (0, 0)
        for orphan in waiting {
            bytes += orphan.bytes.count
            if count > 0, bytes > Self.bytesAtOnce { break }
            count += 1
        }
        return Array(waiting.prefix(count))
    }

    /// Takes orphans over.
    ///
    /// - Returns: which there was room for. The others are to be left out.
    package mutating func take(
        _ orphans: [EncodedTransaction]
    ) -> (taken: [Dot], leftOut: [Dot]) {
        var (taken, leftOut): ([Dot], [Dot]) = ([], [])
        for orphan in orphans {
            guard waiting.count < bounds.count, bytes + orphan.bytes.count <= bounds.bytes else {
                leftOut.append(orphan.dot)
                continue
            }
            waiting.append(orphan)
            bytes += orphan.bytes.count
            taken.append(orphan.dot)
        }
        return (taken, leftOut)
    }

    /// Remembers the names of what there was no room for, within bounds.
    package mutating func leaveOut(_ dots: [Dot]) {
        let known = Set(leftOut)
        let news = dots.filter { !known.contains($0) }
        leftOut += news.prefix(bounds.count - min(bounds.count, known.count))
        leftOut.sort()
    }

    /// Removes the first ones, which the store has taken.
    package mutating func letGo(first count: Int) {
        bytes -= waiting.prefix(count).reduce(0) { $0 + $1.bytes.count }
        waiting.removeFirst(min(count, waiting.count))
    }
}
