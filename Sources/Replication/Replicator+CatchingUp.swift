import Merge

/// Finding what is missing, and pulling it: page by page, one pull a peer, no byte twice.
extension Replicator {
    /// A long transaction of which the first pieces have come. There is one at a time.
    struct Assembly: Sendable {
        var dot: Dot
        var total: UInt64
        var bytes: [UInt8]
        var usedAt: UInt64
    }

    /// At most this many pulls at once: each may bring a page into memory.
    static let pullsAtOnce = 4

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

    /// Sends the pulls that are due. Peers are asked for different things: what one was asked
    /// for counts as coming. Writers are preferred, for they have their own for certain.
    ///
    /// Of one whose log is too short nothing counts as coming: else another would never be asked for
    /// what that one lacks, and nobody would find that its log is too short as well.
    mutating func pullWhatIsMissing() {
        pullDue = nil
        guard !queue.isApplyingBehind, !beginTransferIfNeeded() else { return }
        var coming = queue.possessed()
        coming.join(blocked)
        var outstanding = 0
        for peer in peers {
            guard let pulling = peer.pulling else { continue }
            outstanding += 1
            // An answer that is overdue may still come, but others need not wait for it.
            if now < pulling.askedAt + limits.pullTimeoutMilliseconds, !peer.isHistoryShort {
                coming.join(pulling.target)
            }
        }
        let order = pullOrder()
        for wantsWriter in [true, false] {
            for index in order where outstanding < Self.pullsAtOnce {
                guard canPull(index), !coming.covers(peers[index].vector),
                    !wantsWriter || isWriter(index, beyond: coming)
                else { continue }
                pull(from: index, beyond: coming)
                if !peers[index].isHistoryShort { coming.join(peers[index].vector) }
                outstanding += 1
            }
        }
        // Who may not be asked yet is looked at again soon.
        if peers.contains(where: { $0.isAgreed && !coming.covers($0.vector) }) {
            pullDue = now + limits.graceMilliseconds
        }
    }

    /// The peers from the one after us on, so that nodes do not all ask the first; those that
    /// answered lately before those that did not.
    func pullOrder() -> [Int] {
        let first = peers.firstIndex { $0.node > node } ?? peers.endIndex
        let around = Array(first..<peers.endIndex) + Array(0..<first)
        return around.enumerated().sorted {
            (peers[$0.element].failures, $0.offset) < (peers[$1.element].failures, $1.offset)
        }.map(\.element)
    }

    private func canPull(_ index: Int) -> Bool {
        let peer = peers[index]
        return peer.isConfigured && isBelieved(peer.node) && peer.isAgreed && peer.pulling == nil
            && now >= peer.pullAllowedAt && peer.isConnected(now: now, limits: limits)
            && !peer.isQuarantined(now: now)
    }

    private func isWriter(_ index: Int, beyond vector: VersionVector) -> Bool {
        let node = peers[index].node
        return peers[index].vector.entries.contains {
            $0.actor.node == node && $0.sequence > vector[$0.actor]
        }
    }

    private mutating func pull(from index: Int, beyond vector: VersionVector) {
        let id = makeID()
        var resume: Pull.Resume?
        if let assembly, peers[index].vector.contains(assembly.dot) {
            resume = Pull.Resume(dot: assembly.dot, offset: UInt64(assembly.bytes.count))
        }
        peers[index].pulling = PeerProgress.Pulling(
            id: id, vector: vector, target: peers[index].vector,
            durable: peers[index].durable, askedAt: now,
            deadline: now + peers[index].pullTimeout(limits))
        counts.pullCount += 1
        let pull = Pull(
            id: id, vector: vector, credit: peers[index].credit(limits.pageBytes), resume: resume)
        effects.append(.send(to: peers[index].node, bytes: encoded(.pull(pull))))
    }

    /// Gives up pulls whose time is over; another peer is asked first, where one has it.
    mutating func expirePulls() {
        for index in peers.indices {
            guard let pulling = peers[index].pulling, now >= pulling.deadline else { continue }
            peers[index].expiredPull = pulling
            peers[index].pulling = nil
            peers[index].failures += 1
            peers[index].noteLate()
            peers[index].pullAllowedAt = now + limits.graceMilliseconds
            counts.pullTimeoutCount += 1
            noteGap(isCertain: true)
        }
    }

    /// Ends the pull that an answer belongs to; nil where it belongs to none.
    private mutating func finishPull(_ id: UInt64, from index: Int) -> PeerProgress.Pulling? {
        if let pulling = peers[index].pulling, pulling.id == id {
            peers[index].pulling = nil
            peers[index].expiredPull = nil
            // A slow link keeps its long time-out, or every other page would be asked for twice.
            if now - pulling.askedAt < limits.pullTimeoutMilliseconds / 2 {
                peers[index].failures = 0
                peers[index].noteSoon()
            }
            return pulling
        }
        guard let expired = peers[index].expiredPull, expired.id == id else { return nil }
        peers[index].expiredPull = nil
        return expired
    }

    mutating func receivePage(_ page: Page, from index: Int) {
        guard let pulling = finishPull(page.id, from: index) else {
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
        // Where one of a batch cannot be applied all that is ready waits anew, each actor in a lane of its
        // own: of new ones a page brings no more than there may be lanes.
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
            let missing = lag(of: reached, behind: pulling.durable)
            raise(.historyTooShort(peer: peers[index].node, missing: missing))
        }
        if !isFruitful, pulling.vector.covers(queue.possessed()) {
            // Nothing new came, or nothing that memory has room for: others are asked first.
            delayPull(index)
        }
        noteGap(isCertain: true)
    }

    private mutating func delayPull(_ index: Int) {
        peers[index].pullAllowedAt = now + peers[index].pullTimeout(limits)
        peers[index].failures += 1
    }

    mutating func receivePiece(_ piece: Piece, from index: Int) {
        guard finishPull(piece.id, from: index) != nil else {
            return counts.ignoredCount += 1
        }
        // As a page; the pieces before it are kept, so only this one is asked for again.
        guard !queue.isApplyingBehind else { return noteGap(isCertain: true) }
        if piece.recovery != .new { recovery.outgrow() }
        guard piece.total <= UInt64(limits.transactionBytes) else {
            return quarantine(index, reason: "a transaction is longer than the limit")
        }
        if let assembly, assembly.dot != piece.dot, !queue.has(assembly.dot),
            now < assembly.usedAt + limits.outgoingMilliseconds
        {
            // Another long one is being put together; there is memory for one.
            return delayPull(index)
        }
        if assembly?.dot != piece.dot || assembly?.total != piece.total {
            assembly = Assembly(dot: piece.dot, total: piece.total, bytes: [], usedAt: now)
        }
        // Two who were asked may give the same part, and one what another was asked for before: what
        // is known of it is left out, and what is put together already is never given up for it.
        guard var current = assembly, piece.offset <= current.bytes.count,
            piece.offset + UInt64(piece.bytes.count) > current.bytes.count
        else {
            delayPull(index)
            return noteGap(isCertain: true)
        }
        assembly = nil  // so that the bytes are appended in place
        current.bytes += piece.bytes.dropFirst(current.bytes.count - Int(piece.offset))
        current.usedAt = now
        if UInt64(current.bytes.count) == current.total {
            if let taken = take(current.bytes, from: index, isPulled: true),
                !queue.has(taken.dot)
            {
                delayPull(index)
            }
        } else {
            assembly = current
        }
        noteGap(isCertain: true)
    }

    /// How many transactions the one vector lacks of the other.
    func lag(of vector: VersionVector, behind other: VersionVector) -> UInt64 {
        var sum: UInt64 = 0
        for entry in other.entries {
            let known = vector[entry.actor]
            guard entry.sequence > known else { continue }
            let (next, overflow) = sum.addingReportingOverflow(entry.sequence - known)
            sum = overflow ? .max : next
        }
        return sum
    }
}
