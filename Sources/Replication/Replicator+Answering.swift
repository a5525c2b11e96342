import Merge

/// Answering pulls. A peer costs one log read and one page, however slow it is and however often
/// it asks.
extension Replicator {
    /// A long transaction that is being sent in pieces, kept so that the log is read once.
    struct Outgoing: Sendable {
        var dot: Dot
        /// All that is before it in this node's log is within.
        var predecessors: VersionVector
        var bytes: [UInt8]
        var usedAt: UInt64
    }

    mutating func receivePull(_ pull: Pull, from index: Int) {
        guard peers[index].answering == nil else {
            return peers[index].waitingPull = pull
        }
        if let next = nextPiece(for: pull) {
            return replyPiece(of: next.outgoing, offset: next.offset, to: pull, index)
        }
        let id = makeID()
        peers[index].answering = PeerProgress.Answering(readID: id, pull: pull)
        effects.append(.readLog(id: id, after: pull.vector, byteLimit: credit(pull)))
    }

    /// The pull's credit within what we grant: never so little that pieces would never end.
    private func credit(_ pull: Pull) -> Int {
        Int(min(max(pull.credit, UInt64(min(65_536, limits.pageBytes))), UInt64(limits.pageBytes)))
    }

    /// What a pull is answered with where that is kept: the long transaction that it goes on with, or
    /// the one that comes first of what it lacks, as the log would tell.
    private func nextPiece(for pull: Pull) -> (outgoing: Outgoing, offset: Int)? {
        let missing = outgoing.filter { !pull.vector.contains($0.dot) }
        if let resume = pull.resume, let begun = missing.first(where: { $0.dot == resume.dot }),
            resume.offset < UInt64(begun.bytes.count)
        {
            return (begun, Int(resume.offset))
        }
        return missing.first { pull.vector.covers($0.predecessors) }.map { ($0, 0) }
    }

    /// Keeps a long transaction that is being sent, as the one used last; what was used longest ago
    /// makes room.
    mutating func keepOutgoing(_ long: Outgoing) {
        outgoing.removeAll { $0.dot == long.dot }
        outgoing.append(long)
        var bytes = outgoing.reduce(0) { $0 + $1.bytes.count }
        while outgoing.count > 1, bytes > limits.outgoingBytes {
            bytes -= outgoing.removeFirst().bytes.count
        }
    }

    private mutating func replyPiece(
        of outgoing: Outgoing, offset: Int, to pull: Pull, _ index: Int
    ) {
        let end = min(offset + credit(pull), outgoing.bytes.count)
        let piece = Piece(
            id: pull.id, dot: outgoing.dot, offset: UInt64(offset),
            total: UInt64(outgoing.bytes.count), bytes: Array(outgoing.bytes[offset..<end]),
            recovery: recovery.told(to: peers[index].actor))
        var used = outgoing
        used.usedAt = now
        keepOutgoing(used)
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
        let credit = credit(pull)
        if let first = transactions.first, first.count > credit {
            guard let dot = try? Envelope.dot(ofTransaction: first) else { return }
            let long = Outgoing(
                dot: dot, predecessors: pull.vector, bytes: first, usedAt: now)
            let resumed = pull.resume.flatMap {
                $0.dot == dot && $0.offset < UInt64(first.count) ? Int($0.offset) : nil
            }
            return replyPiece(of: long, offset: resumed ?? 0, to: pull, index)
        }
        var bytes = 0
        var fitting = 0
        for transaction in transactions.prefix(limits.transactionsInFrame) {
            bytes += transaction.count
            if bytes > credit { break }
            fitting += 1
        }
        let page = Page(
            id: pull.id, transactions: Array(transactions.prefix(fitting)),
            reachedEnd: reachedEnd && fitting == transactions.count, vector: state.vector,
            recovery: recovery.told(to: peers[index].actor))
        effects.append(.reply(to: peers[index].node, bytes: encoded(.page(page))))
    }
}
