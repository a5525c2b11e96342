internal import Coordinator
internal import Merge
internal import Replication

/// The events of a plan: work, readings, faults of links and machines.
extension World {
    func machine(_ number: Int) -> Machine? {
        number < context.machines ? machines[number] : nil
    }

    func carryOut(_ event: PlannedEvent) {
        guard !isHealed else { return }
        var chance = SeededGenerator(seed: event.seed)
        trace { "\(event.kind)" }
        switch event.kind {
        case .work(let node, let workload, let steps):
            work(node, workload, steps, &chance)
        case .read(let node): machine(node)?.process?.readAndObserve()
        case .pin(let node, let time):
            guard let process = machine(node)?.process else { return }
            pinCount += 1
            let number = pinCount
            process.pin(number)
            after(time * 1_000) { process.unpin(number) }
        case .partition(let side, let isOneWay, let time):
            // Of machines drawn one by one all may be on one side, and nothing is cut.
            let links = links(side: side, isOneWay: isOneWay)
            guard !links.isEmpty else { return }
            count(event.kind.name)
            for link in links { network.cut(link) }
            after(time * 1_000) { [self] in
                for link in links { network.mend(link) }
            }
        case .cut(let from, let to, let time):
            let link = SimulatedNetwork.Link(from: from, to: to)
            guard mayCarry(link) else { return }
            count(event.kind.name)
            network.cut(link)
            after(time * 1_000) { [self] in network.mend(link) }
        case .clog(let from, let to, let time):
            let link = SimulatedNetwork.Link(from: from, to: to)
            guard mayCarry(link) else { return }
            count(event.kind.name)
            network.clog(link)
            after(time * 1_000) { [self] in
                for frame in network.release(link, &generator) { deliver(frame) }
            }
        default: carryOutOnMachine(event.kind, &chance)
        }
    }

    private func links(side: [Int], isOneWay: Bool) -> [SimulatedNetwork.Link] {
        var links: [SimulatedNetwork.Link] = []
        for from in side {
            for to in 0..<context.machines where !side.contains(to) {
                links.append(.init(from: from, to: to))
                if !isOneWay { links.append(.init(from: to, to: from)) }
            }
        }
        return links.filter(mayCarry)
    }

    /// Whether anything ever goes over a link.
    private func mayCarry(_ link: SimulatedNetwork.Link) -> Bool {
        link.from != link.to && !areStrangers(machines[link.from], machines[link.to])
    }

    /// The machine of a node at which people and programs save; nil where they wait.
    ///
    /// Where a copy runs, they have moved to it, and while the original is the later of the two they
    /// wait: two stores of one node that both take saves while they are apart cannot both be kept
    /// (ARCHITECTURE, failure model).
    func used(_ original: Machine) -> Machine? {
        let copy = machines.first { $0.isCopy && !$0.isRemoved && $0.node == original.node }
        guard let copy else { return original }
        return copy.incarnation < original.incarnation ? nil : copy
    }

    private func work(
        _ node: Int, _ workload: Int, _ steps: Int, _ chance: inout SeededGenerator
    ) {
        let workloads = Workloads.all(for: plan.model)
        // The same ones suit the next model.
        guard let original = machine(node), !workloads.isEmpty else { return }
        guard let machine = used(original) else { return }
        for _ in 0..<steps {
            guard let process = machine.process, process.isAlive else { return }
            let session = WorkloadSession(process: process, memory: machine.memory)
            workloads[workload % workloads.count].step(session, &chance)
            for complaint in machine.memory.takeComplaints() { violate(0, complaint) }
        }
    }

    private func carryOutOnMachine(
        _ kind: PlannedEvent.Kind, _ chance: inout SeededGenerator
    ) {
        switch kind {
        case .pause(let node, let time):
            guard let process = machine(node)?.process else { return }
            count(kind.name)
            process.pause()
            after(time * 1_000) { process.resume() }
        case .close(let node, let time): take(down: node, .closed, as: kind, for: time)
        case .kill(let node, 0, let time): take(down: node, .killed, as: kind, for: time)
        case .kill(let node, let operations, _):
            machine(node)?.disk.arm(.kill, afterOperations: operations)
        case .powerLoss(let node, 0, let time):
            take(down: node, .powerLost, as: kind, for: time)
        case .powerLoss(let node, let operations, _):
            machine(node)?.disk.arm(.powerLoss, afterOperations: operations)
        case .backUp(let node):
            guard let machine = machine(node) else { return }
            count(kind.name)
            backUp(machine, byCommand: options.hasBackups && chance.chance(in: 2))
        case .wipe(let node, let time):
            if let machine = machine(node),
                hasAloneChange(machine)
                    || wouldHideMembers(
                        machine, telling: Membership(), naming: otherMembers(than: machine))
            {
                return trace { "node \(node + 1) keeps its store: it must tell of members" }
            }
            take(down: node, .wiped, as: kind, for: time) { self.forget($0) }
        case .restore(let node, let time): restore(node, as: kind, for: time)
        case .copy(let node, let takesAddress, let time):
            if copy(node, takesAddress, time) { count(kind.name) }
        case .clockStep(let node, let step):
            guard let machine = machine(node) else { return }
            count(kind.name)
            machine.clock.offset += step
        case .migrate(let node, let edition, let time):
            guard let machine = machine(node), takeUpModel(edition, machine) else { return }
            restart(machine, after: time)
        case .tryModel(let node, let trial, let time):
            if let machine = machine(node) { tryModel(trial, machine, for: time) }
        case .deviate(let node, let edition, let time):
            guard let machine = machine(node), deviate(machine, to: edition) else { return }
            count(kind.name)
            after(time * 1_000) { [self] in makeAnew(machine) }
        case .takeOver(let node, let donor):
            guard let taker = machine(node).flatMap(used)?.process,
                let giver = machine(donor).flatMap(used)?.process
            else { return }
            takeOver(taker, from: giver)
        case .join(let node): join(node, &chance)
        case .leave(let node): leave(node)
        case .retire(let node, let cut, let away):
            retire(node, cut: cut, away: away, &chance)
        case .diskFull(let node, let time):
            guard let machine = machine(node) else { return }
            let refused = machine.disk.refusalCount
            machine.disk.capacity = 0
            after(time * 1_000) { [self] in
                machine.disk.capacity = nil
                guard machine.disk.refusalCount > refused else { return }
                count(kind.name)
                machine.wasFull = true
            }
        case .writeError(let node, let operations):
            machine(node)?.disk.arm(.writeError, afterOperations: operations)
        case .readError(let node, let operations):
            machine(node)?.disk.arm(.readError, afterOperations: operations)
        case .syncError(let node, let operations):
            machine(node)?.disk.arm(.syncError, afterOperations: operations)
        default: break
        }
    }

    /// Takes a machine down for a time, and does something to its disk meanwhile.
    func take(
        down node: Int, _ how: Ending, as kind: PlannedEvent.Kind, for time: UInt64,
        _ body: (Machine) -> Void = { _ in }
    ) {
        guard let machine = machine(node) else { return }
        if machine.process != nil || how == .wiped || how == .restored {
            count(kind.name)
            end(machine, how)
        }
        body(machine)
        restart(machine, after: time)
    }

    /// Starts a copy of a machine beside it.
    ///
    /// - Returns: whether it was done.
    private func copy(_ node: Int, _ takesAddress: Bool, _ time: UInt64) -> Bool {
        // Going back from a copy would forget a departure that only the copy has applied. If all
        // nodes had copies, the originals would take them for lost: so one node has none.
        let copied = machines.count { $0.isCopy && !$0.isRemoved }
        guard !plan.hasDepartures, machines.count(where: { !$0.isCopy }) > copied + 1,
            let original = machine(node), original.process != nil, !isDeviating(original),
            !machines.contains(where: { $0.isCopy && $0.node == original.node })
        else { return false }
        let copy = Machine(
            number: machines.count, node: original.node,
            disk: SimulatedDisk(seed: draw(), image: original.disk.image().withoutSideFiles),
            settings: original.settings, isCopy: true)
        copy.heldAtEnd = original.held
        copy.membershipAtEnd = original.membership
        copy.configured = original.configured
        copy.edition = original.edition
        copy.hadEditions = original.hadEditions
        machines.append(copy)
        setTime(microseconds)
        if takesAddress { addresses[copy.node] = copy.number }
        start(copy)
        after(time * 1_000) { [self] in remove(copy) }
        return true
    }

    func remove(_ copy: Machine) {
        guard !copy.isRemoved else { return }
        copy.isRemoved = true
        copy.isOut = true
        if let place = machines.firstIndex(where: { !$0.isCopy && $0.node == copy.node }) {
            addresses[copy.node] = machines[place].number
        }
        for machine in machines { routes[machine.number]?[copy.node] = nil }
        end(copy, .copyRemoved)
        let (held, membership) = (copy.heldAtEnd, copy.membershipAtEnd)
        copy.heldAtEnd = VersionVector()
        // Going back to the machine that was copied restores an older store, and says so.
        guard let original = machines.first(where: { !$0.isCopy && $0.node == copy.node }) else {
            return
        }
        if hasAloneOfOthers(original), hasAloneChange(original) {
            // With a new store it would be forgotten who joined, and nobody would be there to tell.
            trace {
                "node \(original.number + 1) goes on with its copy's disk: it must tell of members"
            }
            end(original, .closed)
            original.disk.restore(copy.disk.image())
            original.heldAtEnd = held
            original.membershipAtEnd = membership
            original.hadEditions = copy.hadEditions
            observe(.ended(node: original.number, how: .restored))
        } else if hasAloneOfOthers(original) {
            trace { "node \(original.number + 1) gets a new store: it has what others gave up" }
            end(original, .wiped)
            forget(original)
        } else {
            end(original, .closed)
            original.disk.restore(original.disk.image().withoutSideFiles)
        }
        original.isOut = false
        restart(original, after: 100)
    }

    /// Stops the earlier of a node's two stores, or the one not vouched for, once it alone holds a
    /// save of another node.
    ///
    /// Its writer lost that save with its disk while it was still on its way here, and at the word
    /// of the other store the members have gone on without it. They would get it back from this one
    /// when it goes on by itself (ARCHITECTURE, failure model). Going back to it makes it again,
    /// see ``remove(_:)``.
    func checkDouble(of process: SimulatedProcess) {
        let machine = process.machine
        guard machine.process === process,
            machines.contains(where: {
                $0 !== machine && $0.node == machine.node && !$0.isRemoved
                    && ($0.incarnation > machine.incarnation
                        || !process.replicatorStatus.isSaving)
            }), hasAloneOfOthers(machine)
        else { return }
        trace { "node \(process.name) stops: it alone has what others gave up" }
        leave(process)
    }

    /// Whether a machine's store alone holds saves of other nodes: one that had been replaced by a
    /// copy may have got them since, and the cluster have gone on without them.
    private func hasAloneOfOthers(_ machine: Machine) -> Bool {
        let elsewhere = machines.reduce(into: VersionVector()) { vector, other in
            if other !== machine, !other.isRemoved, !isSuperseded(other) {
                vector.join(other.held)
            }
        }
        return machine.held.entries.contains {
            $0.actor.node != machine.node && elsewhere[$0.actor] < $0.sequence
        }
    }

    /// Takes a machine's store away.
    func forget(_ machine: Machine) {
        machine.disk.wipe()
        machine.hadEditions = []
        machine.heldAtEnd = VersionVector()
        machine.membershipAtEnd = Membership()
        configureAnew(machine)
    }
}
