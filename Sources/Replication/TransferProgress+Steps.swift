import Merge

extension TransferProgress {
    /// The next step of a transfer while nothing comes.
    enum Step: Hashable, Sendable {
        case wait
        /// The donor gives nothing: it is left, heard or not. What has come is gone on with, if it
        /// comes back.
        case giveUp
        /// The donor is not heard: it is looked at again with its next heads.
        case pause
        /// The next part is asked for, or one again.
        case ask
    }

    /// The outcome of a part.
    enum Taken: Hashable, Sendable {
        /// It does not follow what is there.
        case outOfPlace
        /// It is to be written.
        case part(TransferCopy)
        /// The copy is whole.
        case whole(TransferCopy)
    }

    /// Where a later transfer can go on; nil before the donor has told which copy.
    var place: Replicator.Configuration.BegunTransfer? {
        copy.map { .init(donor: donor, copy: $0, offset: offset) }
    }

    /// Whether the part that was asked for is late.
    func isLate(now: UInt64) -> Bool {
        if case .asking(_, let deadline) = phase { now >= deadline } else { false }
    }

    /// The next step now.
    func step(_ donor: PeerProgress, now: UInt64, limits: Limits) -> Step {
        switch phase {
        // One that has started again does not know that it was asked.
        case .asking(_, let deadline):
            guard now >= deadline || donorActor != donor.actor else { return .wait }
        case .pausing(let until): guard now >= until else { return .wait }
        case .taking, .checking: return .wait
        }
        let isHeard = donor.isAgreed && donor.isConnected(now: now, limits: limits)
        // Before the first part the copy has to be made.
        let patience =
            copy == nil && isHeard
            ? limits.transferTimeoutMilliseconds : limits.transferPatienceMilliseconds
        if now >= progressedAt + patience { return .giveUp }
        return isHeard ? .ask : .pause
    }

    /// Asks the donor for the next part.
    ///
    /// - Parameter vector: what this store has.
    mutating func ask(
        _ donor: PeerProgress, id: UInt64, vector: VersionVector, now: UInt64, limits: Limits
    ) -> TransferPull {
        if donorActor != donor.actor { wish = vector.meet(donor.vector) }
        phase = .asking(id: id, deadline: now + limits.pullTimeoutMaximumMilliseconds)
        donorActor = donor.actor
        return TransferPull(
            id: id, number: copy?.number ?? 0, offset: offset,
            credit: donor.credit(limits.transferPartBytes), vector: wish)
    }

    /// Takes in a part. Another copy begins again from its beginning.
    mutating func take(_ part: TransferPart, of copy: TransferCopy, now: UInt64) -> Taken {
        if copy != self.copy || part.offset != offset {
            guard part.offset == 0, copy.total > 0 else { return .outOfPlace }
        }
        self.copy = copy
        offset = part.offset
        progressedAt = now
        let isWhole = part.bytes.isEmpty && part.offset == copy.total
        phase = isWhole ? .checking : .taking
        return isWhole ? .whole(copy) : .part(copy)
    }
}
