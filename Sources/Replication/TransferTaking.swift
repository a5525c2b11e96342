import Merge

/// The taking in of members' copies in one run: the one under way, the place of the one before, and
/// when another may be asked for.
struct TransferTaking: Sendable {
    /// The copy that is being taken in.
    var progress: TransferProgress?
    /// The part on disk of a copy that is not being taken in now.
    private(set) var begun: Replicator.Configuration.BegunTransfer?
    private var allowedAt: UInt64 = 0
    /// Copies that would not do or could not be written.
    private var refusals: UInt64 = 0

    init(begun: Replicator.Configuration.BegunTransfer?) { self.begun = begun }

    /// Lets no copy be asked for before that time.
    mutating func pause(until time: UInt64) { allowedAt = time }

    /// Whether a copy may be asked for.
    func isAllowed(now: UInt64) -> Bool { now >= allowedAt }

    /// Begins to take a copy in.
    mutating func begin(_ progress: TransferProgress) {
        begun = nil
        self.progress = progress
    }

    /// Gives the copy up, and lets none be asked for before that time.
    ///
    /// - Parameter isPlaceKept: whether what has come is on disk and may be gone on with.
    mutating func giveUp(until time: UInt64, isPlaceKept: Bool) {
        begun = isPlaceKept ? progress?.place : nil
        progress = nil
        allowedAt = time
    }

    /// Gives a copy up that would not do or could not be written. A disk that is full, or a copy that
    /// will not do, costs as much the next time.
    mutating func refuse(now: UInt64, limits: Limits) {
        let pause = limits.transferRetryMilliseconds << min(refusals, 16)
        refusals += 1
        giveUp(
            until: now + min(pause, limits.transferRetryMaximumMilliseconds), isPlaceKept: false)
    }

    /// Forgets what is on disk.
    mutating func discard() { begun = nil }
}
