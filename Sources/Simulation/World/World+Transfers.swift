internal import Coordinator
internal import Merge
internal import NodeCore
internal import Replication

/// Stores whose place a copy of another's takes, and what their journals said.
extension World {
    /// Remembers closed conflicts whose journal may forget them.
    func remember(_ conflicts: [Conflict]) {
        for conflict in conflicts where remembered.insert(conflict).inserted {
            pastConflicts.append(conflict)
        }
    }

    /// Has a process take over a copy of a member's store at once, past the mesh: what a node does
    /// where no log would do is right where one would, too.
    func takeOver(_ taker: SimulatedProcess, from donor: SimulatedProcess) {
        let members = donor.state.membership
        guard donor !== taker, taker.isAlive, donor.isAlive, !taker.isPaused, !donor.isPaused,
            !taker.isFenced, donor.coordinator.recovery == .none,
            donor.coordinator.model.modelHash == taker.coordinator.model.modelHash,
            members.isEmpty || members.current.contains(taker.machine.node),
            taker.store.incoming.begun() == nil
        else { return }
        let given = donor.run { _ in
            try donor.store.outgoing.read(0, from: 0, byteLimit: .max, for: taker.machine.node)
        }
        guard taker.isAlive, case .success(let part) = given else { return }
        let taken = taker.run { coordinator in
            _ = try taker.store.incoming.write(part.bytes, of: part.offer, at: 0)
            _ = try taker.store.incoming.check(
                cluster: coordinator.cluster, model: coordinator.model)
        }
        guard taker.isAlive else { return }
        if case .success = taken { return installTransfer(taker) }
        try? taker.store.incoming.discard()
    }

    /// A process ends to go on with a copy of another's store, as one whose node it is does.
    func installTransfer(_ process: SimulatedProcess) {
        let machine = process.machine
        process.rememberJournal()
        guard machine.process === process else { return }
        end(machine, .closed)
        do {
            let installed = try TransferInstaller.install(
                at: machine.storePath, model: model(of: machine), cluster: Self.cluster,
                node: machine.node, options: machine.options(seed: draw()))
            met(.storeTransferred)
            // A copy knows the models that its donor does, and not those that its own store did.
            machine.hadEditions = []
            observe(.tookOver(node: machine.number, donor: installed.donor))
            if installed.carriedCount > 0 {
                met(installed.isJoined ? .storesJoined : .savesCarriedOver)
            }
            // The last steps are allowed to fail.
            if machine.disk.isPowerLost || machine.disk.isKilled { settle(machine) }
            trace {
                "node \(process.name) goes on with a copy of node \(installed.donor)'s store and "
                    + "\(installed.carriedCount) transactions of its own"
            }
        } catch {
            trace { "node \(process.name) cannot go on with a copy: \(error)" }
            let code = (error as? CoordinatorError)?.code
            let isExpected = [.diskFull, .inputOutput, .limitExceeded, .memberDeparted].contains(
                code)
            if !isExpected {
                violate(0, "node \(process.name) cannot take over a copy: \(error)")
            }
            settle(machine)
            try? IncomingTransfer(storeAt: machine.storePath, files: machine.disk).discard()
            // Another fault may strike that.
            settle(machine)
        }
        start(machine, orphans: process.core.orphans)
        // What is amiss with it may be purged before the end.
        machine.process?.verifyAndObserve()
    }
}
