import Merge

/// Taking a donor's store over as a copy, and giving one (DESIGN section 8, *store transfer*).
///
/// A node needs a copy where no peer's log reaches back to what it has, and wants one where it has
/// nothing of the others yet and their logs are long. Meanwhile it pulls nothing. The parts are asked for one
/// by one, so a part is in memory on either side, and a donor gives each joiner one at a time.
///
/// The shell joins the stores: the copy and what this store has besides become one, and the node
/// starts again with it (``Effect/installTransfer(_:donor:)``).
extension Replicator {
    // MARK: - Taking one

    /// Begins a transfer where one is needed, or goes on with it.
    ///
    /// - Returns: whether one is under way, so that nothing is pulled.
    mutating func beginTransferIfNeeded() -> Bool {
        if taking.progress != nil { return true }
        // One that has come a part of the way to its own join finds the rest purged as others do.
        // A node that heard that it has departed goes on reading others' logs, because the node
        // that said so may have been no member itself. So it takes their copy too, if they give
        // one.
        guard isStarted, state.membership[node]?.isCurrent ?? true, !acceptance.isOutdated,
            taking.isAllowed(now: now)
        else { return false }
        let need = TransferNeed(
            own: node, vector: state.vector, modelHash: models.own, limits: limits)
        let choice = need.choice(
            among: peersAhead, begun: taking.begun,
            isSettling: now < startedAt + limits.connectedMilliseconds, now: now)
        switch choice {
        case .none: return false
        case .wait: return true
        case .begin(let progress):
            taking.begin(progress)
            tendTransfer()
            return true
        }
    }

    /// The peers that have what this node lacks and can be asked, in the order of asking.
    private var peersAhead: [PeerProgress] {
        PullPlan.order(peers, after: node).map { peers[$0] }.filter {
            $0.isAvailable(now: now, limits: limits) && isBelieved($0.node)
                && !queue.delivered.covers($0.vector)
        }
    }

    /// The copy of a member's store that is being taken in.
    var transfer: TransferProgress? { taking.progress }

    /// Asks for the next part, or for one again, where it is time.
    mutating func tendTransfer() {
        guard var progress = taking.progress else { return discardTransferIfUnneeded() }
        guard progress.isWaiting else { return }
        guard let index = donorIndex(progress) else {
            return giveUpTransfer(for: 0, isPlaceKept: false)
        }
        if !progress.isNewcomer, peersAhead.contains(where: TransferNeed.mayReach) {
            // Somebody came whose log may reach; if it does not, this is gone on with.
            return giveUpTransfer(for: 0)
        }
        if progress.isLate(now: now) { peers[index].noteLate() }
        switch progress.step(peers[index], now: now, limits: limits) {
        case .wait: return
        case .giveUp:
            peers[index].failures += 1
            giveUpTransfer(for: 0)
        case .pause:
            progress.phase = .pausing(until: now + limits.headsMilliseconds)
            taking.progress = progress
        case .ask:
            let pull = progress.ask(
                peers[index], id: makeID(), vector: state.vector, now: now, limits: limits)
            taking.progress = progress
            effects.append(.send(to: progress.donor, bytes: encoded(.transferPull(pull))))
        }
    }

    /// The donor, while its copy may be taken: what it tells could make its word worth nothing.
    private func donorIndex(_ progress: TransferProgress) -> Int? {
        guard let index = peerIndex(progress.donor), peers[index].isConfigured,
            isBelieved(progress.donor)
        else { return nil }
        return index
    }

    private mutating func giveUpTransfer(for milliseconds: UInt64, isPlaceKept: Bool = true) {
        taking.giveUp(until: now + milliseconds, isPlaceKept: isPlaceKept)
        noteGap(isCertain: true)
    }

    /// A part of a copy is of no use any more once logs have given all that was missing.
    private mutating func discardTransferIfUnneeded() {
        guard taking.begun != nil, recovery.stage == .none,
            now >= startedAt + limits.transferPatienceMilliseconds, peersAhead.isEmpty,
            peers.contains(where: { $0.isAgreed && $0.isConnected(now: now, limits: limits) })
        else { return }
        taking.discard()
        effects.append(.discardTransfer)
    }

    mutating func receivePart(_ part: TransferPart, from index: Int) {
        guard var progress = taking.progress, progress.donor == peers[index].node,
            case .asking(let id, let deadline) = progress.phase, id == part.id
        else { return counts.ignoredCount += 1 }
        guard donorIndex(progress) != nil else {
            return giveUpTransfer(for: 0, isPlaceKept: false)
        }
        guard let copy = part.copy else {
            peers[index].failures += 1
            return giveUpTransfer(for: limits.headsMilliseconds)
        }
        switch progress.take(part, of: copy, now: now) {
        case .outOfPlace:
            return quarantine(index, reason: "a part of a copy is out of place")
        case .part(let copy):
            effects.append(
                .takeTransfer(copy, donor: progress.donor, offset: part.offset, bytes: part.bytes))
        case .whole(let copy):
            effects.append(.installTransfer(copy, donor: progress.donor))
        }
        taking.progress = progress
        peers[index].failures = 0
        let isSoon =
            now + limits.pullTimeoutMaximumMilliseconds
            < deadline + limits.pullTimeoutMilliseconds / 2
        if isSoon { peers[index].noteSoon() }
        if !peers[index].isAsNew { recovery.outgrow() }
    }

    mutating func finishTaking(_ offset: UInt64) {
        guard taking.progress?.phase == .taking else { return }
        taking.progress?.offset = offset
        taking.progress?.phase = .pausing(until: now)
        tendTransfer()
    }

    mutating func refuseTransfer(_ reason: String) {
        guard let progress = taking.progress else { return }
        raise(.transferFailed(donor: progress.donor, reason: reason))
        if let index = peerIndex(progress.donor) { peers[index].failures += 1 }
        taking.refuse(now: now, limits: limits)
        noteGap(isCertain: true)
    }

    // MARK: - Giving one

    mutating func receiveTransferPull(_ pull: TransferPull, from index: Int) {
        // Also one that has left, like its log: what it saved before nobody else may have.
        guard peers[index].isConfigured, !acceptance.isOutdated else {
            let none = TransferPart(id: pull.id, copy: nil)
            return effects.append(
                .reply(to: peers[index].node, bytes: encoded(.transferPart(none))))
        }
        // One reading at a time; the latest wish counts.
        let isReading = peers[index].giving != nil
        let readID = peers[index].giving?.readID ?? makeID()
        peers[index].giving = PeerProgress.Giving(readID: readID, pull: pull)
        if !isReading { readTransfer(index) }
    }

    private mutating func readTransfer(_ index: Int) {
        guard let giving = peers[index].giving else { return }
        peers[index].giving?.isAsked = true
        effects.append(
            .readTransfer(
                id: giving.readID, number: giving.pull.number, offset: giving.pull.offset,
                byteLimit: Int(min(max(giving.pull.credit, 1), UInt64(limits.transferPartBytes))),
                for: peers[index].node, covering: giving.pull.vector.meet(state.vector)))
    }

    mutating func giveTransfer(
        _ id: UInt64, copy: TransferCopy?, offset: UInt64, bytes: [UInt8]
    ) {
        guard let index = peers.firstIndex(where: { $0.giving?.readID == id }),
            let giving = peers[index].giving
        else { return }
        guard giving.isAsked else { return readTransfer(index) }
        peers[index].giving = nil
        guard peers[index].isAgreed else { return }
        let part = TransferPart(id: giving.pull.id, copy: copy, offset: offset, bytes: bytes)
        effects.append(.reply(to: peers[index].node, bytes: encoded(.transferPart(part))))
    }
}
