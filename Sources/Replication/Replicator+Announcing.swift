import Merge

/// Telling others: heads every second, saves at once; and taking in what others tell.
extension Replicator {
    // MARK: - Heads

    mutating func publishHeads() {
        advanceStability()
        // At the next tick then.
        if closed.areDepartedApplied(by: queue) { return }
        effects.append(.publish(encoded(.heads(heads), telling: state.beginnings)))
        let fifth = limits.headsMilliseconds / 5
        nextHeadsAt =
            now + limits.headsMilliseconds - fifth
            + UInt64.random(in: 0...(2 * fifth), using: &generator)
        // PUB/SUB is a hint: a peer that is not heard there is asked over the exchange.
        for index in peers.indices {
            let heard = peers[index].lastPublished
            let isSilent = heard.map { now >= $0 + limits.silenceMilliseconds } ?? true
            if !peers[index].isAgreed || isSilent || !peers[index].hasMetUs {
                sayHello(index)
            }
        }
    }

    /// Asks a peer where it stands, at most twice a heads interval.
    mutating func sayHello(_ index: Int) {
        guard isStarted, peers[index].isConfigured, !peers[index].isQuarantined(now: now),
            !closed.areDepartedApplied(by: queue)
        else { return }
        if let last = peers[index].lastHello, now < last + limits.headsMilliseconds / 2 { return }
        peers[index].lastHello = now
        effects.append(.send(to: peers[index].node, bytes: encoded(.hello(heads))))
    }

    /// Where we stand.
    var heads: Heads {
        let met = Array(peers.lazy.filter(\.isConfigured).compactMap(\.met).prefix(limits.peers))
        var known = closed.incarnations.newest.filter {
            $0 != configuration.actor && !met.contains($0)
        }
        if let predecessor = configuration.predecessor, predecessor < configuration.actor,
            !known.contains(where: { $0.node == node })
        {
            known.insert(predecessor, at: known.firstIndex { $0.node > node } ?? known.endIndex)
        }
        let wall = HybridTimestamp(
            milliseconds: min(wallMilliseconds, HybridTimestamp.maximumMilliseconds), counter: 0)
        return Heads(
            actor: configuration.actor, vector: state.vector, durable: state.durable,
            recorded: state.recorded.meet(state.durable), digest: state.digest,
            clock: max(latestTimestamp, wall ?? .zero),
            wallMilliseconds: wallMilliseconds, modelHash: configuration.modelHash,
            met: met, known: Array(known.prefix(limits.peers)),
            departed: Array(closed.incarnations.departed.prefix(limits.peers)),
            recovery: recovery.stage,
            founders: recovery.stage == .none
                ? Array(recovery.founders.newest.prefix(limits.peers)) : [],
            configured: Array(members.configured.sorted().prefix(limits.peers)))
    }

    // MARK: - Saves

    /// Publishes local saves that are durable: small ones together, long ones by name only.
    mutating func announce(_ transactions: [EncodedTransaction]) {
        guard isStarted else { return }
        for transaction in transactions {
            latestTimestamp = max(latestTimestamp, transaction.transaction.timestamp)
        }
        for publication in Publication.plan(transactions, limits) {
            switch publication {
            case .together(let group):
                effects.append(.publish(encoded(.notification(group))))
            case .byName(let transaction): announceLong(transaction)
            }
        }
    }

    private mutating func announceLong(_ transaction: EncodedTransaction) {
        let size = transaction.bytes.count
        guard size <= limits.transactionBytes else {
            return raise(.transactionTooLarge(transaction.dot, bytes: size))
        }
        let announced = Announced(dot: transaction.dot, size: UInt64(size))
        effects.append(.publish(encoded(.announcement([announced]))))
        // All peers will ask for it now, piece by piece.
        if size > limits.pageBytes {
            outgoing.keep(
                .init(
                    dot: transaction.dot, predecessors: transaction.transaction.seen,
                    bytes: transaction.bytes), now: now, limits: limits)
        }
    }

    mutating func receiveNotification(_ transactions: [[UInt8]], from index: Int) {
        for bytes in transactions {
            guard let taken = take(bytes, from: index, isPulled: false) else { return }
            // A writer has its own transaction, and so all before it.
            if taken.dot.actor == peers[index].actor {
                peers[index].vector.advance(to: taken.dot)
            }
            switch taken.outcome {
            case .deliverable, .duplicate: break
            case .waitsForSequence: noteGap(isCertain: true)
            case .waitsForSeen: noteGap(isCertain: false)
            }
        }
    }

    mutating func receiveAnnouncement(_ announced: [Announced], from index: Int) {
        for transaction in announced {
            guard transaction.dot.actor == peers[index].actor else { continue }
            peers[index].vector.advance(to: transaction.dot)
        }
        if !queue.delivered.covers(peers[index].vector) { noteGap(isCertain: true) }
    }

    /// Takes in a transaction's bytes from a peer.
    ///
    /// - Returns: nil where nothing more of the frame is to be taken in: the bytes could not be
    ///   decoded, and the link is quarantined.
    mutating func take(
        _ bytes: [UInt8], from index: Int, isPulled: Bool
    ) -> (dot: Dot, outcome: CausalQueue.Outcome)? {
        do throws(DecodingFailure) {
            let dot = try Transaction.head(bytes).dot
            if dot.actor == configuration.actor, !state.vector.contains(dot) {
                raiseReuse(dot, from: index)
                return (dot, .duplicate)
            }
            // A published transaction is taken from its writer only, in the writer's present run:
            // all else could arrive after a report that says nobody has it (MODEL.md, P15).
            if !isPulled, dot.actor != peers[index].actor || !isBelieved(peers[index].node) {
                counts.closedCount += 1
                return (dot, .duplicate)
            }
            // Known by its name before the rest is decoded: most of what comes twice is dropped.
            if queue.has(dot) {
                counts.duplicateCount += 1
                return (dot, .duplicate)
            }
            // An unrequested transaction makes no more work while there is enough.
            if !isPulled, !queue.hasRoom(for: bytes.count) {
                counts.droppedCount += 1
                return (dot, .waitsForSeen)
            }
            let received = try ReceivedTransaction(checking: bytes)
            if !isPulled, !queue.hasRoom(for: received.size) {
                counts.droppedCount += 1
                return (dot, .waitsForSeen)
            }
            return (dot, queue.insert(received))
        } catch {
            quarantine(index, reason: "a transaction: \(error)")
            return nil
        }
    }
}
