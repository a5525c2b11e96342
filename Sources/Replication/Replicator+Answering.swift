import Merge

/// Answering pulls. A peer costs one log read and one page, however slow it is and however often
/// it asks.
extension Replicator {
    /// A long transaction that is being sent in pieces, kept so that the log is read once.
    struct Outgoing: Sendable {
        var dot: Dot
        var bytes: [UInt8]
        var usedAt: UInt64
    }

    mutating func receivePull(_ pull: Pull, from index: Int) {
        guard peers[index].answering == nil else {
            return peers[index].waitingPull = pull
        }
        if let resume = pull.resume, let outgoing, outgoing.dot == resume.dot,
            !pull.vector.contains(resume.dot), resume.offset < UInt64(outgoing.bytes.count)
        {
            return replyPiece(of: outgoing, offset: Int(resume.offset), to: pull, index)
        }
        let id = makeID()
        peers[index].answering = PeerProgress.Answering(readID: id, pull: pull)
        effects.append(.readLog(id: id, after: pull.vector, byteLimit: credit(pull)))
    }

    /// The pull's credit within what we grant: never so little that pieces would never end.
    private func credit(_ pull: Pull) -> Int {
        Int(min(max(pull.credit, UInt64(min(65_536, limits.pageBytes))), UInt64(limits.pageBytes)))
    }

    private mutating func replyPiece(
        of outgoing: Outgoing, offset: Int, to pull: Pull, _ index: Int
    ) {
        let end = min(offset + credit(pull), outgoing.bytes.count)
        let piece = Piece(
            id: pull.id, dot: outgoing.dot, offset: UInt64(offset),
            total: UInt64(outgoing.bytes.count), bytes: Array(outgoing.bytes[offset..<end]),
            recovery: recovery(toldTo: index))
        self.outgoing = Outgoing(dot: outgoing.dot, bytes: outgoing.bytes, usedAt: now)
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
            let long = Outgoing(dot: dot, bytes: first, usedAt: now)
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
            recovery: recovery(toldTo: index))
        effects.append(.reply(to: peers[index].node, bytes: encoded(.page(page))))
    }
}
