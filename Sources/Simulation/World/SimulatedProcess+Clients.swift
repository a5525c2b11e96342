internal import Coordinator
internal import Merge
internal import NodeCore
internal import Replication
internal import Synchronization

/// The clients' work at a node: they save, change members, read, pin, verify and make backups, and
/// hear the outcome.
extension SimulatedProcess {
    /// Saves as one group; nil for each that was refused or whose outcome is unknown.
    func save(_ requests: [SaveRequest]) -> [SaveResult?] {
        var tagged = requests
        for place in tagged.indices where tagged[place].author == nil {
            machine.memory.saves += 1
            tagged[place].author = "n\(machine.number + 1).\(machine.memory.saves)"
        }
        var results: [Result<SaveResult, any Error>] = []
        let before = state.vector[actor]
        _ = run { coordinator in results = coordinator.saveTogether(tagged) }
        for (save, result) in zip(tagged, results) { tell(save, result, after: before) }
        let failed = results.filter { if case .failure = $0 { true } else { false } }.count
        if isAlive, failed > 0, failed < results.count { met(.saveOfGroupFailed) }
        return results.map { try? $0.get() }
    }

    private func tell(
        _ save: SaveRequest, _ result: Result<SaveResult, any Error>, after known: UInt64
    ) {
        switch result {
        case .success(let result):
            // Also where the machine died right after: the answer may have gone out before.
            world.statistics.saves += 1
            if machine.wasFull, isAlive {
                machine.wasFull = false
                met(.diskFullRecovered)
            }
            observe { .acknowledged(node: $0, save: save, result: result) }
            guard isFenced, let dot = result.transaction, dot.actor == actor, dot.sequence > known
            else { return }
            world.violate(
                2,
                "\(Telling.node(machine.number)) acknowledged \(dot): expected refused, because it "
                    + "knows that it has departed")
        case .failure(let error):
            let error = error as? CoordinatorError ?? CoordinatorError(.inputOutput, "\(error)")
            if !isAlive || error.code == .outcomeUnknown {
                world.statistics.unknowns += 1
                met(.outcomeUnknown)
                if save.saveID != nil { machine.memory.unanswered.append(save) }
                observe { .unknown(node: $0, save: save, error: error) }
            } else {
                world.statistics.refusals += 1
                switch error.code {
                case .recovering: met(.savingHeldBack)
                case .clockDrift: met(.clockDriftRefused)
                case .mergeConflict: met(.staleSaveRefused)
                case .unresolvedConflict: met(.unresolvedSaveRefused)
                case .memberDeparted: met(.departedSaveRefused)
                default: break
                }
                // A store that is recovering may have done a save with an ID and lost it, and one
                // with its clock off, or of a node that departed, may have done it before: its
                // client is to try again, and has not been told that nothing was saved.
                let isPassing = [.recovering, .clockDrift, .memberDeparted].contains(error.code)
                if isPassing, save.saveID != nil { return }
                observe { .refused(node: $0, save: save, error: error) }
            }
        }
    }

    /// Whether it knows that its node has departed.
    var isFenced: Bool {
        (isToldDeparted && !isSavingAllowed)
            || state.membership[machine.node]?.departure != nil
    }

    /// Saves a change of membership as the product does: the first of a cluster tells of all
    /// members there are.
    ///
    /// - Returns: its transaction; nil where it was refused or its outcome is unknown.
    func change(_ change: MembershipChange) -> Dot? {
        var changes = [change]
        let known = try? coordinator.membership
        if known?.isEmpty ?? true {
            let all = [machine.node] + machine.configured
            changes = all.map { .join($0, World.address(of: $0)) } + changes
        }
        let result = perform { try $0.changeMembership(changes) }
        switch result {
        case .success(let saved): return saved.transaction
        case .failure(let error):
            world.trace { "node \(self.name) does not change members: \(error)" }
            return nil
        }
    }

    /// Runs what saves by itself.
    func perform<Value>(
        _ body: (PersistentStoreCoordinator) throws -> Value
    ) -> Result<Value, any Error> {
        let result = Result { try body(coordinator) }
        let dots = mailbox.notices.withLock { notices in
            notices.filter(\.isLocal).flatMap { $0.transactions.map(\.dot) }
        }
        takeCommits()
        if case .success = result, !dots.isEmpty {
            world.statistics.saves += UInt64(dots.count)
            observe { .performed(node: $0, dots: dots) }
        }
        return result
    }

    /// Reads as a client does, and observes the answer; nil if that failed.
    ///
    /// - Parameter body: notes in the reading what it gives.
    func read<Value>(_ body: (StoreReader, inout Reading) throws -> Value) -> Value? {
        let result = run { coordinator in
            try coordinator.read { reader in
                var reading = Reading(token: try reader.token, digest: try reader.digest)
                let value = try body(reader, &reading)
                return (value, reading)
            }
        }
        guard case .success(let (value, reading)) = result else {
            noteReadFailure(result)
            return nil
        }
        world.statistics.readings += 1
        observe { .read(node: $0, reading: reading) }
        return value
    }

    /// Reads everything, from the newest generation or a pinned one; nil where that failed.
    func readWhole(_ pin: GenerationPin? = nil) -> Reading? {
        let result = run { coordinator in
            try coordinator.read(pin) { try Reading.whole($0, coordinator.model) }
        }
        noteReadFailure(result)
        guard var reading = try? result.get() else { return nil }
        reading.pastConflicts = world.pastConflicts
        return reading
    }

    /// Lets the store be judged by itself, unless it cannot be read.
    func verifyAndObserve() {
        let result = run { try $0.verify() }
        noteReadFailure(result)
        guard let report = try? result.get() else { return }
        var differences = report.differences + report.derivedDifferences
        if !report.isOK, differences.isEmpty { differences = ["its digest is not of its rows"] }
        for difference in differences {
            world.violate(1, "node \(self.name) does not verify: \(difference)")
        }
    }

    /// Makes a backup as a client asks for one; nil where that failed.
    func backUp(to path: String) -> StoreBackup? {
        let faults = machine.disk.faultCount
        let result = run { try $0.backUp(to: path) }
        if isAlive, case .failure(let error) = result {
            world.trace { "node \(self.name) makes no backup: \(error)" }
            let isFull = (error as? CoordinatorError)?.code == .diskFull
            if machine.disk.faultCount == faults, !isFull {
                world.violate(0, "node \(name) makes no backup, without a fault: \(error)")
            }
        }
        world.checkDisk(of: self)
        return try? result.get()
    }

    func noteReadFailure(_ result: Result<some Any, any Error>) {
        guard isAlive, case .failure = result else { return }
        _ = succeeds(result, at: "read")
        met(.readFailed)
    }

    /// The value of a call that succeeds whenever the disk does; nil if it failed, or if the
    /// process ended over it.
    func succeeds<Value>(_ result: Result<Value, any Error>, at what: String) -> Value? {
        guard isAlive else { return nil }
        switch result {
        case .success(let value): return value
        case .failure(let error):
            world.trace { "node \(self.name) cannot \(what): \(error)" }
            let disk = machine.disk
            if disk.faultCount == faultsBefore, disk.refusalCount == refusalsBefore {
                world.violate(
                    0, "node \(name) cannot \(what), though its disk has no fault: \(error)")
            }
            return nil
        }
    }

    func readAndObserve() {
        guard let reading = readWhole() else { return }
        pastPoints.note(reading)
        world.statistics.readings += 1
        observe { .read(node: $0, reading: reading) }
    }

    // MARK: Acknowledgements

    /// The most that clients wait for at once. Who waits asks peers at every tick, and they put on
    /// disk what they have; so most saves are waited for by nobody.
    private static let confirmations = 8
    private static let patienceMilliseconds: UInt64 = 2_000

    /// Lets clients wait, at some saves, until each other member has them on disk.
    func awaitConfirmations(of dots: [Dot]) {
        guard isAlive else { return }
        let members = state.membership.isEmpty ? machine.configured : state.membership.current
        for dot in dots where generator.chance(in: 8) {
            for peer in members
            where peer != machine.node && acknowledgements.count < Self.confirmations {
                let wish = AcknowledgementBook.Wish(
                    dot: dot, peers: [peer], needed: 1,
                    deadline: world.milliseconds + Self.patienceMilliseconds)
                guard case .waits(let number) = acknowledgements.begin(wish) else { continue }
                awaited[number] = (dot, peer)
            }
        }
    }

    func updateAcknowledgements() {
        guard isAlive, acknowledgements.count > 0 else { return }
        for (number, outcome) in acknowledgements.update(core.confirmations) {
            guard let (dot, peer) = awaited.removeValue(forKey: number), outcome == .confirmed
            else { continue }
            met(.saveConfirmed)
            observe { .confirmed(node: $0, dot: dot, by: peer) }
        }
    }

    func expireAcknowledgements() {
        for (number, _) in acknowledgements.expire(now: world.milliseconds) {
            awaited[number] = nil
        }
    }
}
