internal import Coordinator
internal import Merge
internal import Replication

/// Nodes that come to have another model, one after the other.
extension World {
    /// The model that a machine's store is opened with.
    func model(of machine: Machine) -> ManagedObjectModel {
        plan.editions?.models[machine.edition] ?? plan.model
    }

    /// Closes a machine's process; its store is opened with a later model from now on. Its clients
    /// start over, because what they remember is in the places of the model before.
    ///
    /// - Returns: whether it had a former one.
    @discardableResult
    func takeUpModel(_ edition: Int, _ machine: Machine) -> Bool {
        guard machine.edition < edition else { return false }
        if machine.process != nil { end(machine, .closed) }
        machine.edition = edition
        machine.memory.forgetModel()
        return true
    }

    /// Whether a machine has been given a model that deviates from the others'.
    func isDeviating(_ machine: Machine) -> Bool {
        plan.editions?.deviations[machine.edition] != nil
    }

    /// Lets a machine's store, or a new one, be opened with a model that deviates from the one that
    /// others are given.
    ///
    /// - Returns: whether it was done.
    func deviate(_ machine: Machine, to edition: Int) -> Bool {
        guard let deviation = plan.editions?.deviations[edition], machine.process != nil,
            machine.edition < deviation.base + (deviation.isNew ? 1 : 0),
            !machines.contains(where: { $0.isCopy && !$0.isRemoved }),
            !machines.contains(where: isDeviating)
        else { return false }
        if deviation.isNew {
            makeAnew(machine, by: edition)
        } else {
            takeUpModel(edition, machine)
            restart(machine, after: 100)
        }
        return true
    }

    /// Ends a deviation: what the store has settled otherwise stays in it, so it is made again,
    /// with the model of the others.
    func makeAnew(_ machine: Machine) {
        guard let deviation = plan.editions?.deviations[machine.edition] else { return }
        makeAnew(machine, by: deviation.base)
    }

    /// Replaces a machine's store by a new one with another model; nobody puts the former one back.
    private func makeAnew(_ machine: Machine, by edition: Int) {
        end(machine, .wiped)
        machine.edition = edition
        machine.image = nil
        machine.memory.forgetModel()
        forget(machine)
        restart(machine, after: 100)
    }

    /// A node takes what was written by its own model and those before it, and nothing else: neither
    /// by one that comes after, nor by one that deviates.
    func checkModels(_ notice: CommitNotice, at machine: Machine) {
        guard let editions = plan.editions, !notice.isLocal else { return }
        for transaction in notice.transactions
        where !editions.takes(transaction.transaction.modelHash, at: machine.edition) {
            violate(
                1,
                "node \(machine.number + 1): expected nothing of a model that its own does not "
                    + "follow, found \(transaction.dot) applied")
        }
    }

    /// Opens a machine's store with a model that it is to refuse, and goes on with its own: taken
    /// it would have nodes show different data of the same saves.
    func tryModel(_ number: Int, _ machine: Machine, for time: UInt64) {
        guard let trial = plan.editions?.trials[number], machine.process != nil,
            machine.edition == trial.base, !trial.known.isDisjoint(with: machine.hadEditions)
        else { return }
        end(machine, .closed)
        defer {
            settle(machine)
            restart(machine, after: time)
        }
        let disk = machine.disk
        let faults = disk.faultCount
        do {
            var options = machine.options(seed: draw())
            options.migration = .inferredGroupingDuplicates
            try PersistentStoreCoordinator(
                storeAt: machine.storePath, model: trial.model, cluster: Self.cluster,
                node: machine.node, options: options
            ).close()
            violate(
                1,
                "node \(machine.number + 1): expected a model refused (\(trial.fault)), found "
                    + "it taken")
        } catch {
            let code = (error as? CoordinatorError)?.code
            trace { "node \(machine.number + 1) refuses a model: \(error)" }
            if code == .mappingNotInferable || code == .modelMismatch {
                met(.modelRefused)
                if trial.fault == .swap { met(.swapRefused) }
            } else if code != .diskFull, disk.faultCount == faults, !disk.isKilled,
                !disk.isPowerLost
            {
                violate(
                    1,
                    "node \(machine.number + 1): expected a model refused (\(trial.fault)), "
                        + "found \(error)")
            }
        }
    }

    /// By which model an observation is to be judged: its node's. When all is settled there is one
    /// model left.
    func edition(of observation: Observation) -> Int {
        switch observation {
        case .healed: context.archive.edition
        case .settled(let final, _):
            final.keys.map { machines[$0].edition }.min() ?? 0
        case .started(let node, _, _, _), .found(let node, _), .committed(let node, _),
            .acknowledged(let node, _, _), .performed(let node, _), .confirmed(let node, _, _),
            .refused(let node, _, _),
            .unknown(let node, _, _), .read(let node, _), .pinned(let node, _, _),
            .pastRead(let node, _, _),
            .pinRead(let node, _, _), .pinExpired(let node, _, _), .contextSaved(let node, _),
            .ended(let node, _), .tookOver(let node, _), .durable(let node, _),
            .stable(let node, _, _),
            .collected(let node, _, _), .purged(let node, _), .alarm(let node, _),
            .gauges(let node, _), .tended(let node, _, _, _):
            machines[node].edition
        }
    }

    /// Takes note where a process's opening has migrated its store.
    func noteMigration(by process: SimulatedProcess) {
        let machine = process.machine
        guard let editions = plan.editions else { return }
        let former = editions.former(of: machine.edition).filter(machine.hadEditions.contains)
        guard machine.hadEditions.insert(machine.edition).inserted, let last = former.last,
            !process.state.vector.isEmpty
        else { return }
        met(.storeMigrated)
        for edition in (last + 1)..<(editions.base(of: machine.edition) + 1) {
            for beacon in editions.beacons[edition] { met(beacon) }
        }
    }
}
