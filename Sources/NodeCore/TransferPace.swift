/// How fast a node gives copies of its store while it is saved to.
///
/// Giving a copy keeps a core and the disk busy, here and where it is taken, and a save that meets
/// that waits for both. Nothing takes less of them, but the longer it is drawn out the fewer saves
/// meet it: so while a node is saved to, what it gives in a second is bounded, to all takers
/// together. A node that nobody saves to gives as fast as it can.
///
/// A value that only decides; the shell waits.
struct TransferPace {
    /// How long after a save the node counts as being saved to, in milliseconds: somebody who saves
    /// every few seconds is to notice as little as somebody who saves all the time.
    static let busyMilliseconds: UInt64 = 10_000
    /// The longest that a part is put off, in milliseconds: well before its taker asks for it again,
    /// however many take copies.
    static let longestMilliseconds: UInt64 = 10_000

    private let bytesPerSecond: UInt64
    private var savedAt: UInt64?
    /// When what was given until now has taken its time.
    private var freeAt: UInt64 = 0

    /// - Parameter bytesPerSecond: the bound; 0 for none.
    init(bytesPerSecond: UInt64) { self.bytesPerSecond = bytesPerSecond }

    /// Notes that this node was saved to.
    ///
    /// - Parameter now: monotonic milliseconds, as in ``delay(for:at:)``.
    mutating func noteSave(at now: UInt64) { savedAt = now }

    /// How long to wait before a part is given, in milliseconds; what it takes is reserved.
    ///
    /// - Parameters:
    ///   - bytes: the most that the part may have.
    ///   - now: monotonic milliseconds.
    mutating func delay(for bytes: Int, at now: UInt64) -> UInt64 {
        guard bytesPerSecond > 0, let savedAt, now < savedAt + Self.busyMilliseconds else {
            freeAt = now
            return 0
        }
        let start = min(max(now, freeAt), now + Self.longestMilliseconds)
        freeAt = start + UInt64(max(bytes, 0)) * 1_000 / bytesPerSecond
        return start - now
    }
}
