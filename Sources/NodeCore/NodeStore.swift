package import Coordinator
internal import Merge
internal import Replication

/// The store as the node's shell uses it: the only place where a job becomes calls of the
/// coordinator. It may be used from any thread.
package struct NodeStore: Sendable {
    /// The store.
    package let coordinator: PersistentStoreCoordinator
    /// The copies of it that others are given.
    package let outgoing: OutgoingTransfer
    /// The part of another's copy that has arrived.
    package let incoming: IncomingTransfer

    /// Prepares; touches nothing.
    ///
    /// - Parameter clock: monotonic milliseconds, by which copies for others age.
    package init(_ coordinator: PersistentStoreCoordinator, clock: @escaping @Sendable () -> UInt64)
    {
        self.coordinator = coordinator
        outgoing = OutgoingTransfer(coordinator, clock: clock)
        incoming = IncomingTransfer(for: coordinator)
    }

    /// Where an earlier run has left the copy that it was taking in; nil where there is nothing to
    /// go on with.
    var begunTransfer: Replicator.Configuration.BegunTransfer? {
        incoming.begun().map {
            .init(donor: $0.offer.donor, copy: TransferCopy($0.offer), offset: $0.offset)
        }
    }

    /// Does a job.
    ///
    /// Jobs of the writer's lane are only handed to it. Others are done before this returns.
    ///
    /// - Parameter completion: called once, for jobs of the writer's lane on the writer's queue.
    package func perform(
        _ job: StoreJob,
        completion: @escaping @Sendable (Result<StoreOutcome, any Error>) -> Void
    ) {
        switch job {
        case .apply(let transactions):
            coordinator.apply(transactions) { result in
                completion(
                    result.map { applied in
                        .applied(
                            StoreState(applied),
                            rejected: applied.rejected.map {
                                Rejection(dot: $0.dot, reason: $0.reason)
                            })
                    })
            }
        case .makeDurable:
            let coordinator = coordinator
            coordinator.makeDurable { result in
                completion(
                    result.flatMap { Result { .durable(try StoreState(of: coordinator)) } })
            }
        case .collect(let stable, let limit):
            coordinator.collect(stable: stable, limit: limit) {
                completion($0.map { .collected($0) })
            }
        case .remember(let actor):
            coordinator.remember(actor) { completion($0.map { .done }) }
        case .setRecovery(let recovery, let founders):
            coordinator.setRecovery(recovery, founders: founders) { completion($0.map { .done }) }
        case .keepOrphans(let orphans):
            coordinator.keepOrphans(orphans) { completion($0.map { .orphansKept($0) }) }
        case .tendHistory(let limits, let knowledge):
            coordinator.tendHistory(limits, knowledge) {
                completion($0.map { .historyTended($0) })
            }
        default: completion(Result { try performWaiting(job) })
        }
    }

    private func performWaiting(_ job: StoreJob) throws -> StoreOutcome {
        switch job {
        case .readLog(_, let vector, let byteLimit):
            return try readLog(after: vector, byteLimit: byteLimit)
        case .record: return .recorded(try coordinator.recordStanding())
        case .learnModels(let texts):
            let known = Set(try coordinator.learn(texts.compactMap(\.model)))
            return .learnt(texts.filter { known.contains($0.hash) })
        case .compareModel(let text, _): return .compared(difference(of: text))
        case .readTransfer(_, let number, let offset, let byteLimit, let node, let vector):
            let part = try outgoing.read(
                number, from: offset, byteLimit: byteLimit, for: node, covering: vector)
            return .transferPart(
                TransferCopy(part.offer), offset: part.offset, bytes: part.bytes)
        case .takeTransfer(let copy, let donor, let offset, let bytes):
            let offer = TransferOffer(
                donor: donor, number: copy.number, total: copy.total, digest: copy.digest)
            return try discardingAtFailure {
                .transferTaken(try incoming.write(bytes, of: offer, at: offset))
            }
        case .checkTransfer:
            return try discardingAtFailure {
                try incoming.check(for: coordinator)
                return .done
            }
        case .discardTransfer: try incoming.discard()
        case .tendTransfers(let all): outgoing.tend(all: all)
        case .maintain: return .pinsExpired(coordinator.maintain())
        case .apply, .makeDurable, .collect, .remember, .setRecovery, .keepOrphans, .tendHistory:
            break
        }
        return .done
    }

    /// Reads what a peer asked for.
    ///
    /// An effect says that only what is durable may be read, so that nobody hears of a save that
    /// a power loss here would undo. Our own saves are durable before anybody can read them: the
    /// commit becomes visible after its fsync. Other nodes' transactions that are applied but not
    /// yet synced here are given too, because they were durable at their origin before they were
    /// published. Holding them back would cost a peer that can reach only us a second, and would
    /// make us look like one that does not answer.
    private func readLog(after vector: VersionVector, byteLimit: Int) throws -> StoreOutcome {
        try coordinator.read { reader in
            let page = try reader.transactions(
                notCoveredBy: vector, byteLimit: max(1, byteLimit))
            let vector = try reader.token.versionVector
            return .logPage(
                page.transactions, reachedEnd: page.reachedEnd,
                ownSequence: coordinator.actor.map { vector[$0] } ?? 0)
        }
    }

    private func difference(of text: ModelText) -> String {
        guard let model = text.model else {
            return text.unregisteredPolicy.map {
                "its model names the merge policy \($0), which this program has not registered"
            } ?? "the model that it tells of is not that of its hash"
        }
        return "here / there: "
            + ModelDifference.summary(ModelDifference.betweenPeers(coordinator.model, model))
    }

    /// Removes what has come of a copy where it cannot be gone on with, so that there is room for
    /// saves again.
    private func discardingAtFailure(_ body: () throws -> StoreOutcome) throws -> StoreOutcome {
        do { return try body() } catch {
            try? incoming.discard()
            throw error
        }
    }
}

extension TransferCopy {
    /// The same in the protocol's words.
    fileprivate init(_ offer: TransferOffer) {
        self.init(number: offer.number, total: offer.total, digest: offer.digest)
    }
}
