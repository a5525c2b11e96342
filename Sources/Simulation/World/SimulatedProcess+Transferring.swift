internal import Coordinator
internal import Merge
internal import Replication

/// What in the product is StoreTransfers and HistoryKeeper: copies of stores given and taken, and
/// history that is purged, which makes them needed.
extension SimulatedProcess {
    func readTransfer(
        _ id: UInt64, _ number: UInt64, from offset: UInt64, byteLimit: Int, for node: NodeID,
        covering vector: VersionVector
    ) {
        let result = run { _ in
            try outgoing.read(
                number, from: offset, byteLimit: byteLimit, for: node, covering: vector)
        }
        later(handover()) {
            let part = try? result.get()
            $0.feed(
                .transferRead(
                    id: id, copy: part.map { TransferCopy($0.offer) },
                    offset: part?.offset ?? 0, bytes: part?.bytes ?? [],
                    now: $0.world.milliseconds))
        }
    }

    func take(_ copy: TransferCopy, donor: NodeID, offset: UInt64, bytes: [UInt8]) {
        let offer = TransferOffer(
            donor: donor, number: copy.number, total: copy.total, digest: copy.digest)
        let result = run { _ in try incoming.write(bytes, of: offer, at: offset) }
        if case .failure = result, isAlive { try? incoming.discard() }
        later(handover()) {
            let now = $0.world.milliseconds
            switch result {
            case .success(let offset): $0.feed(.transferTaken(offset: offset, now: now))
            case .failure(let error): $0.feed(.transferRefused("\(error)", now: now))
            }
        }
    }

    func checkTransfer() {
        let result = run { try incoming.check(for: $0) }
        guard isAlive else { return }
        switch result {
        case .success: later(0) { $0.world.installTransfer($0) }
        case .failure(let error):
            try? incoming.discard()
            later(handover()) {
                $0.feed(.transferRefused("\(error)", now: $0.world.milliseconds))
            }
        }
    }

    /// Takes a copy of a member's store over at once, past the mesh: what a node does where no log
    /// would do is right where one would, too.
    ///
    /// - Returns: whether a whole copy is there, to be put in the store's place.
    func takesOver(from donor: SimulatedProcess) -> Bool {
        let members = donor.state.membership
        guard donor !== self, isAlive, donor.isAlive, !isPaused, !donor.isPaused, !isFenced,
            donor.coordinator.recovery == .none,
            donor.coordinator.model.modelHash == coordinator.model.modelHash,
            members.isEmpty || members.current.contains(machine.node), incoming.begun() == nil
        else { return false }
        let given = donor.run { _ in
            try donor.outgoing.read(0, from: 0, byteLimit: .max, for: machine.node)
        }
        guard isAlive, case .success(let part) = given else { return false }
        let taken = run { coordinator in
            _ = try incoming.write(part.bytes, of: part.offer, at: 0)
            _ = try incoming.check(cluster: coordinator.cluster, model: coordinator.model)
        }
        guard isAlive else { return false }
        if case .success = taken { return true }
        try? incoming.discard()
        return false
    }

    func tendHistory() {
        guard isAlive, let limits = machine.settings.historyLimits else { return }
        let status = replicator.status
        if let elsewhere = status.recordedElsewhere {
            purge(limits, HistoryKnowledge(stable: status.stable, elsewhere: elsewhere))
        }
        if isAlive { outgoing.tend() }
    }

    private func purge(_ limits: HistoryLimits, _ knowledge: HistoryKnowledge) {
        rememberJournal()
        guard isAlive else { return }
        let result = run { try $0.tendHistory(limits, knowledge) }
        guard let tended = succeeds(result, at: "tend its history") else { return }
        if tended.purgedUnstable > 0 { met(.historyPurged) }
        if case .consumer = tended.hold { met(.historyKept) }
        let purged = run { try $0.read { try $0.purgedVector } }
        if case .success(let vector) = purged { observe { .purged(node: $0, vector: vector) } }
        if tended.recordsDropped > 0 { met(.closedRecordsDropped) }
        if case .success(let status) = run({ try $0.historyStatus() }) {
            observe { .tended(node: $0, limits: limits, tending: tended, status: status) }
        }
    }

    /// Lets the world remember what the journal says of the past, before some of it goes.
    func rememberJournal() {
        let result = run { coordinator in
            try coordinator.read {
                try $0.conflicts(ConflictQuery(isOpen: false, limit: 10_000))
            }
        }
        if case .success(let conflicts) = result { world.remember(conflicts) }
    }
}

extension TransferCopy {
    /// The same in the protocol's words.
    init(_ offer: TransferOffer) {
        self.init(number: offer.number, total: offer.total, digest: offer.digest)
    }
}
