import Merge

/// Finding what is missing, and pulling it: page by page, one pull a peer, no byte twice.
extension Replicator {
    // MARK: - Asking

    /// Notes that something is missing, if it is, so that it is pulled.
    ///
    /// - Parameter isCertain: whether it is lost rather than late; else it gets a moment to come.
    mutating func noteGap(isCertain: Bool) {
        let due = isCertain ? now : now + limits.graceMilliseconds
        if let pullDue, pullDue <= due { return }
        guard peers.contains(where: { $0.isAgreed && !queue.delivered.covers($0.vector) }) else {
            return
        }
        pullDue = due
    }

    /// Sends the pulls that are due.
    mutating func pullWhatIsMissing() {
        pullDue = nil
        guard !queue.isApplyingBehind, !beginTransferIfNeeded() else { return }
        let candidates = PullPlan.order(peers, after: node).filter {
            peers[$0].isAvailable(now: now, limits: limits) && peers[$0].pulling == nil
                && now >= peers[$0].pullAllowedAt && isBelieved(peers[$0].node)
        }
        let plan = PullPlan(
            peers, candidates: candidates,
            possessed: queue.possessed().joined(PullPlan.blocked(queue.holds, peers)),
            now: now, limits: limits)
        for step in plan.steps { pull(from: step.index, beyond: step.beyond) }
        if plan.isIncomplete { pullDue = now + limits.graceMilliseconds }
    }

    private mutating func pull(from index: Int, beyond vector: VersionVector) {
        let pull = Pull(
            id: makeID(), vector: vector, credit: peers[index].credit(limits.pageBytes),
            resume: assembly.resume(from: peers[index].vector))
        peers[index].beginPull(pull.id, beyond: vector, now: now, limits: limits)
        counts.pullCount += 1
        effects.append(.send(to: peers[index].node, bytes: encoded(.pull(pull))))
    }

    /// Gives up pulls whose time is over; another peer is asked first, where one has it.
    mutating func expirePulls() {
        for index in peers.indices where peers[index].expirePull(now: now, limits: limits) {
            counts.pullTimeoutCount += 1
            noteGap(isCertain: true)
        }
    }

    mutating func receivePage(_ page: Page, from index: Int) {
        guard let pulling = peers[index].finishPull(page.id, now: now, limits: limits) else {
            return counts.ignoredCount += 1
        }
        // Several peers were asked while there was room, and one answer, or one that is overdue,
        // has filled it: the next counts as lost.
        guard !queue.isApplyingBehind else {
            counts.droppedCount += UInt64(page.transactions.count)
            return noteGap(isCertain: true)
        }
        if page.recovery != .new, !page.transactions.isEmpty { recovery.outgrow() }
        var reached = pulling.vector
        var isFruitful = false
        // If one of a batch cannot be applied, all that is ready waits again, each actor in a lane
        // of its own: of new ones a page brings no more than there may be lanes.
        var (left, begun) = (page.transactions.count, 0)
        for bytes in page.transactions {
            guard begun <= limits.lanes else { break }
            left -= 1
            guard let taken = take(bytes, from: index, isPulled: true) else { break }
            if taken.dot.sequence == 1 { begun += 1 }
            reached.advance(to: taken.dot)
            if taken.outcome != .duplicate, queue.has(taken.dot) { isFruitful = true }
        }
        guard peers[index].isAgreed else { return }
        noteIncarnations(page.vector.entries.map(\.actor))
        guard peers[index].isAgreed else { return }
        learn(page.vector, durable: VersionVector(), from: index)
        counts.droppedCount += UInt64(left)
        if page.reachedEnd, left == 0 {
            peers[index].isHistoryShort = !reached.covers(pulling.durable)
        }
        if peers[index].isHistoryShort, !peers[index].isHistoryRaised {
            peers[index].isHistoryRaised = true
            let missing = reached.lag(behind: pulling.durable)
            raise(.historyTooShort(peer: peers[index].node, missing: missing))
        }
        if !isFruitful, pulling.vector.covers(queue.possessed()) {
            // Nothing new came, or nothing that memory has room for: others are asked first.
            peers[index].delayPull(now: now, limits: limits)
        }
        noteGap(isCertain: true)
    }

    mutating func receivePiece(_ piece: Piece, from index: Int) {
        guard peers[index].finishPull(piece.id, now: now, limits: limits) != nil else {
            return counts.ignoredCount += 1
        }
        // As a page; the pieces before it are kept, so only this one is asked for again.
        guard !queue.isApplyingBehind else { return noteGap(isCertain: true) }
        if piece.recovery != .new { recovery.outgrow() }
        guard piece.total <= UInt64(limits.transactionBytes) else {
            return quarantine(index, reason: "a transaction is longer than the limit")
        }
        let isHere = assembly.dot.map(queue.has) ?? false
        switch assembly.add(piece, isHere: isHere, now: now, limits: limits) {
        case .busy: return peers[index].delayPull(now: now, limits: limits)
        case .useless: peers[index].delayPull(now: now, limits: limits)
        case .appended: break
        case .whole(let bytes):
            if let taken = take(bytes, from: index, isPulled: true), !queue.has(taken.dot) {
                peers[index].delayPull(now: now, limits: limits)
            }
        }
        noteGap(isCertain: true)
    }

    // MARK: - Answering

    // A peer costs one log read and one page, however slow it is and however often it asks.

    mutating func receivePull(_ pull: Pull, from index: Int) {
        guard peers[index].answering == nil else {
            return peers[index].waitingPull = pull
        }
        if let next = outgoing.next(for: pull) {
            return replyPiece(of: next.long, offset: next.offset, to: pull, index)
        }
        let id = makeID()
        peers[index].answering = PeerProgress.Answering(readID: id, pull: pull)
        effects.append(.readLog(id: id, after: pull.vector, byteLimit: pull.granted(limits)))
    }

    private mutating func replyPiece(
        of long: Outgoing.Long, offset: Int, to pull: Pull, _ index: Int
    ) {
        let piece = pull.piece(
            of: long, offset: offset, recovery: recovery.told(to: peers[index].actor),
            limits: limits)
        outgoing.keep(long, now: now, limits: limits)
        effects.append(.reply(to: peers[index].node, bytes: encoded(.piece(piece))))
    }

    mutating func answer(_ id: UInt64, with transactions: [[UInt8]], reachedEnd: Bool) {
        guard let index = peers.firstIndex(where: { $0.answering?.readID == id }),
            let pull = peers[index].answering?.pull
        else { return }
        peers[index].answering = nil
        if let waiting = peers[index].waitingPull {
            // The peer has given the first one up.
            peers[index].waitingPull = nil
            return receivePull(waiting, from: index)
        }
        guard !transactions.isEmpty || reachedEnd else { return }
        if let first = transactions.first, first.count > pull.granted(limits) {
            guard let dot = try? Transaction.head(first).dot else { return }
            let long = Outgoing.Long(dot: dot, predecessors: pull.vector, bytes: first)
            let resumed = pull.resume.flatMap {
                $0.dot == dot && $0.offset < UInt64(first.count) ? Int($0.offset) : nil
            }
            return replyPiece(of: long, offset: resumed ?? 0, to: pull, index)
        }
        let fitting = pull.fitting(transactions, limits)
        let page = Page(
            id: pull.id, transactions: Array(transactions.prefix(fitting)),
            reachedEnd: reachedEnd && fitting == transactions.count, vector: state.vector,
            recovery: recovery.told(to: peers[index].actor))
        effects.append(.reply(to: peers[index].node, bytes: encoded(.page(page))))
    }
}
