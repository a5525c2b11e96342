import Merge

/// Whether this node needs a copy of a member's store, and whose.
///
/// It needs one where no peer's log reaches back to what it has, and wants one where it has nothing
/// of the others yet and their logs are long.
struct TransferNeed {
    /// The next step.
    enum Choice: Hashable, Sendable {
        /// Logs do, or nobody can give a copy.
        case none
        /// The donor of a copy that was begun with is given the time to be heard.
        case wait
        /// Ask for that copy.
        case begin(TransferProgress)
    }

    /// Pulls in a row without a timely answer after which nobody waits for a peer's log.
    private static let patience: UInt64 = 3

    /// This node.
    let own: NodeID
    /// The vector of its store.
    let vector: VersionVector
    /// The model that it is written with.
    let modelHash: [UInt8]
    let limits: Limits

    /// Whether a peer's log may give what is missing: it was not found too short, and it answers.
    static func mayReach(_ peer: PeerProgress) -> Bool {
        !peer.isHistoryShort && peer.failures < patience
    }

    /// Whether it has nothing of the others, and logs are so long that a copy is quicker. One that has
    /// saved as much itself reads the others' logs: its own saves would have to be applied to the
    /// copy.
    private func isNewcomer(among ahead: [PeerProgress]) -> Bool {
        vector.entries.allSatisfy { $0.actor.node == own }
            && VersionVector().lag(behind: vector) < limits.transferTransactions
            && ahead.contains {
                vector.lag(behind: $0.vector) >= limits.transferTransactions
            }
    }

    /// The next step, given the peers that have what this node lacks, in the order of asking.
    ///
    /// A copy must fit this node's model. Of a store that somebody has to vouch for it is as good as
    /// that store's log; but where there is another it may have more.
    ///
    /// - Parameters:
    ///   - begun: the copy that an earlier run has taken in in part.
    ///   - isSettling: whether that run's donor may not have been heard yet.
    func choice(
        among ahead: [PeerProgress], begun: Replicator.Configuration.BegunTransfer?,
        isSettling: Bool, now: UInt64
    ) -> Choice {
        let isNewcomer = isNewcomer(among: ahead)
        let areLogsShort =
            ahead.contains(where: \.isHistoryShort) && !ahead.contains(where: Self.mayReach)
        guard isNewcomer || areLogsShort else { return .none }
        let fitting = ahead.filter { $0.modelHash == modelHash }
        let donors =
            fitting.filter { $0.recovery == .none } + fitting.filter { $0.recovery != .none }
        let former = begun.flatMap { begun in
            donors.first { $0.node == begun.donor && $0.failures < Self.patience }
        }
        if former == nil, begun != nil, isSettling { return .wait }
        guard let donor = former ?? donors.first else { return .none }
        var progress = TransferProgress(
            donor: donor.node, isNewcomer: isNewcomer, wish: vector.meet(donor.vector),
            phase: .pausing(until: now), progressedAt: now)
        if former != nil, let begun {
            progress.copy = begun.copy
            progress.offset = begun.offset
        }
        return .begin(progress)
    }
}
