import Merge

/// Taking a donor's store over as a copy, and giving one (DESIGN section 8, *store transfer*).
///
/// A node needs a copy where no peer's log reaches back to what it has, and wants one where it has
/// nothing of the others yet and their logs are long. Meanwhile it pulls nothing. The parts are asked for one
/// by one, so a part is in memory on either side, and a donor gives each joiner one at a time.
///
/// What is put together is a matter of the shell: the copy and what this store has besides become
/// one, and the node starts again with it (``Effect/installTransfer(_:donor:)``).
extension Replicator {
    // MARK: - Taking one

    /// Begins a transfer where one is needed, or goes on with it.
    ///
    /// - Returns: whether one is under way, so that nothing is pulled.
    mutating func beginTransferIfNeeded() -> Bool {
        if transfer != nil { return true }
        // One that has come a part of the way to its own join finds the rest purged as others do.
        // One that was told that it has departed goes on reading others' logs, for whoever told it may
        // have been none itself; so it takes their copy too, where they give one.
        guard isStarted, state.membership[node]?.isCurrent ?? true, !acceptance.isOutdated,
            now >= transferAllowedAt
        else { return false }
        let ahead = peersAhead
        // One that has saved as much itself reads the others' logs: its own saves would have to be
        // applied to the copy.
        let hasNothing =
            state.vector.entries.allSatisfy { $0.actor.node == node }
            && VersionVector().lag(behind: state.vector) < limits.transferTransactions
        let isNewcomer =
            hasNothing
            && ahead.contains {
                state.vector.lag(behind: peers[$0].vector) >= limits.transferTransactions
            }
        let isAnyShort = ahead.contains { peers[$0].isHistoryShort }
        guard isNewcomer || (isAnyShort && !ahead.contains { mayReach($0) }) else {
            return false
        }
        // A copy must fit this node's model. Of a store that somebody has to vouch for it is as good
        // as that store's log; but where there is another it may have more.
        let fitting = ahead.filter { peers[$0].modelHash == configuration.modelHash }
        let donors =
            fitting.filter { peers[$0].recovery == .none }
            + fitting.filter { peers[$0].recovery != .none }
        let begun = configuration.transfer.flatMap { begun in
            donors.first {
                peers[$0].node == begun.donor && peers[$0].failures < Self.patience
            }
        }
        // One that was begun with is given the time to be heard.
        if begun == nil, configuration.transfer != nil,
            now < startedAt + limits.connectedMilliseconds
        {
            return true
        }
        guard let index = begun ?? donors.first else { return false }
        var progress = TransferProgress(
            donor: peers[index].node, isNewcomer: isNewcomer,
            wish: state.vector.meet(peers[index].vector), phase: .pausing(until: now),
            progressedAt: now)
        if begun != nil, let place = configuration.transfer {
            progress.copy = place.copy
            progress.offset = place.offset
        }
        configuration.transfer = nil
        transfer = progress
        tendTransfer()
        return true
    }

    /// The peers that have what this node lacks and can be asked, in the order of asking.
    private var peersAhead: [Int] {
        PullPlan.order(peers, after: node).filter {
            peers[$0].isAvailable(now: now, limits: limits) && isBelieved(peers[$0].node)
                && !queue.delivered.covers(peers[$0].vector)
        }
    }

    /// Pulls in a row without a timely answer after which nobody waits for a peer's log.
    private static let patience: UInt64 = 3

    /// Whether a peer's log may give what is missing: it was not found too short, and it answers.
    private func mayReach(_ index: Int) -> Bool {
        !peers[index].isHistoryShort && peers[index].failures < Self.patience
    }

    /// Asks for the next part, or for one again, where it is time.
    mutating func tendTransfer() {
        guard var progress = transfer else { return discardTransferIfUnneeded() }
        guard progress.isWaiting else { return }
        guard let index = donorIndex(progress) else {
            return giveUpTransfer(for: 0, isPlaceKept: false)
        }
        if !progress.isNewcomer, peersAhead.contains(where: { mayReach($0) }) {
            // Somebody came whose log may reach; if it does not, this is gone on with.
            return giveUpTransfer(for: 0)
        }
        switch progress.phase {
        // One that has started again does not know that it was asked.
        case .asking(_, let deadline):
            guard now >= deadline || progress.donorActor != peers[index].actor else { return }
            if now >= deadline { peers[index].noteLate() }
        case .pausing(let until): guard now >= until else { return }
        case .taking, .checking: return
        }
        let isHeard = peers[index].isAgreed && peers[index].isConnected(now: now, limits: limits)
        // Before the first part the copy has to be made. Whoever gives nothing is left, heard or
        // not; what has come is gone on with, if it comes back.
        let patience =
            progress.copy == nil && isHeard
            ? limits.transferTimeoutMilliseconds : limits.transferPatienceMilliseconds
        if now >= progress.progressedAt + patience {
            peers[index].failures += 1
            return giveUpTransfer(for: 0)
        }
        guard isHeard else {
            progress.phase = .pausing(until: now + limits.headsMilliseconds)
            return transfer = progress
        }
        if progress.donorActor != peers[index].actor {
            progress.wish = state.vector.meet(peers[index].vector)
        }
        let id = makeID()
        let pull = TransferPull(
            id: id, number: progress.copy?.number ?? 0, offset: progress.offset,
            credit: peers[index].credit(limits.transferPartBytes), vector: progress.wish)
        progress.phase = .asking(id: id, deadline: now + limits.pullTimeoutMaximumMilliseconds)
        progress.donorActor = peers[index].actor
        transfer = progress
        effects.append(.send(to: progress.donor, bytes: encoded(.transferPull(pull))))
    }

    /// The donor, while its copy may be taken: what it tells could make its word worth nothing.
    private func donorIndex(_ progress: TransferProgress) -> Int? {
        guard let index = peerIndex(progress.donor), peers[index].isConfigured,
            isBelieved(progress.donor)
        else { return nil }
        return index
    }

    /// Gives the transfer up, and asks for none for some time.
    ///
    /// - Parameter isPlaceKept: whether what has come is on disk and may be gone on with.
    private mutating func giveUpTransfer(for milliseconds: UInt64, isPlaceKept: Bool = true) {
        configuration.transfer = transfer.flatMap { progress in
            progress.copy.map {
                .init(donor: progress.donor, copy: $0, offset: progress.offset)
            }
        }
        if !isPlaceKept { configuration.transfer = nil }
        transfer = nil
        transferAllowedAt = now + milliseconds
        noteGap(isCertain: true)
    }

    /// A part of a copy is of no use any more once logs have given all that was missing.
    private mutating func discardTransferIfUnneeded() {
        guard configuration.transfer != nil, recovery.stage == .none,
            now >= startedAt + limits.transferPatienceMilliseconds, peersAhead.isEmpty,
            peers.contains(where: { $0.isAgreed && $0.isConnected(now: now, limits: limits) })
        else { return }
        configuration.transfer = nil
        effects.append(.discardTransfer)
    }

    mutating func receivePart(_ part: TransferPart, from index: Int) {
        guard var progress = transfer, progress.donor == peers[index].node,
            case .asking(let id, let deadline) = progress.phase, id == part.id
        else { return counts.ignoredCount += 1 }
        guard donorIndex(progress) != nil else {
            return giveUpTransfer(for: 0, isPlaceKept: false)
        }
        guard let copy = part.copy else {
            peers[index].failures += 1
            return giveUpTransfer(for: limits.headsMilliseconds)
        }
        if copy != progress.copy || part.offset != progress.offset {
            // Another copy begins anew; anything else does not follow what is there.
            guard part.offset == 0, copy.total > 0 else {
                return quarantine(index, reason: "a part of a copy is out of place")
            }
        }
        peers[index].failures = 0
        let isSoon =
            now + limits.pullTimeoutMaximumMilliseconds
            < deadline + limits.pullTimeoutMilliseconds / 2
        if isSoon { peers[index].noteSoon() }
        progress.copy = copy
        progress.offset = part.offset
        progress.progressedAt = now
        if part.bytes.isEmpty, part.offset == copy.total {
            progress.phase = .checking
            effects.append(.installTransfer(copy, donor: progress.donor))
        } else {
            progress.phase = .taking
            effects.append(
                .takeTransfer(copy, donor: progress.donor, offset: part.offset, bytes: part.bytes))
        }
        transfer = progress
        if !peers[index].isAsNew { recovery.outgrow() }
    }

    mutating func finishTaking(_ offset: UInt64) {
        guard var progress = transfer, progress.phase == .taking else { return }
        progress.offset = offset
        progress.phase = .pausing(until: now)
        transfer = progress
        tendTransfer()
    }

    mutating func refuseTransfer(_ reason: String) {
        guard let progress = transfer else { return }
        raise(.transferFailed(donor: progress.donor, reason: reason))
        if let index = peerIndex(progress.donor) { peers[index].failures += 1 }
        // A disk that is full, or a copy that will not do, costs as much the next time.
        let pause = limits.transferRetryMilliseconds << min(transferRefusals, 16)
        transferRefusals += 1
        giveUpTransfer(
            for: min(pause, limits.transferRetryMaximumMilliseconds), isPlaceKept: false)
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
