internal import Coordinator
internal import Merge
internal import Replication

/// Members that come and go, as operators of the product make them do.
extension World {
    /// How often an operator looks whether a majority has a join on disk.
    private static let patienceMilliseconds: UInt64 = 250
    /// How often an operator tries again where no node takes a change.
    private static let retryMilliseconds: UInt64 = 500
    /// How often.
    private static let attempts = 20

    static func address(of node: NodeID) -> MemberAddress {
        MemberAddress(publish: "tcp://n\(node):1", exchange: "tcp://n\(node):2")
    }

    /// Prepares the machines that may join. Their chance is apart from the others'.
    func addJoiners() {
        for (place, settings) in plan.joiners.enumerated() {
            let number = plan.machines.count + place
            guard let node = NodeID(number + 1) else { continue }
            let machine = Machine(
                number: number, node: node,
                disk: SimulatedDisk(seed: plan.seed &* 0x9E6C_63D0_876A_3F35 &+ UInt64(number)),
                settings: settings)
            machine.isEnrolled = false
            addresses[node] = number
            machines.append(machine)
        }
    }

    // MARK: Who is a member

    /// The members' processes, once each of them, by its own store, takes for the members exactly
    /// whom all stores together tell. Empty before that, or where one of them is down.
    ///
    /// Stores that were put back or are new agree among themselves while they have not come as far
    /// in the log as the changes that others remember: such a world has not settled.
    var memberProcesses: [SimulatedProcess] {
        guard !plan.joiners.isEmpty || plan.hasDepartures else {
            let all = machines.filter { !$0.isCopy }.compactMap(\.process)
            return all.count == context.machines ? all : []
        }
        let current = members(by: knownMembership)
        let processes = machines.prefix(context.machines)
            .filter { current.contains($0.node) }.compactMap(\.process)
        let isAgreed = processes.allSatisfy { members(by: $0.state.membership) == current }
        return isAgreed && processes.count == current.count ? processes : []
    }

    /// The members by transactions; without any, those that the cluster began with.
    private func members(by membership: Membership) -> [NodeID] {
        membership.isEmpty ? machines.prefix(context.founders).map(\.node) : membership.current
    }

    /// All that any member's store tells of members: what an operator knows. Who leaves is known to
    /// have left when another tells so, not when it says so itself: others may not have heard.
    private var knownMembership: Membership { membership { $0.membership } }

    /// The same, if each told this; nil for who does not count.
    private func membership(told: (Machine) -> Membership?) -> Membership {
        machines.filter { !$0.isRemoved && everChanged[$0.node]?.departure == nil }
            .compactMap(told).reduce(into: Membership()) { $0.join($1) }
    }

    /// A new machine is configured with the members there are: else it might believe one that
    /// departed (ARCHITECTURE, failure model).
    func configureAnew(_ machine: Machine) {
        guard !knownMembership.isEmpty else { return }
        machine.configured = otherMembers(than: machine)
        let named = machine.configured.map(\.description).joined(separator: ", ")
        trace { "node \(machine.number + 1) is configured with \(named)" }
    }

    /// The members that an operator names in a configuration.
    func otherMembers(than machine: Machine) -> [NodeID] {
        // A join that a majority does not know may be lost with the one disk that has it.
        knownMembership.current.filter { node in
            node != machine.node && machines.contains { $0.node == node && $0.isEnrolled }
        }
    }

    /// Whether a machine's disk alone holds a change of membership. Its maker waits until a majority
    /// has it, because a lost machine takes what it alone has heard with it (ARCHITECTURE, failure
    /// model). Of two disks with one number nobody can say which will be given up.
    func hasAloneChange(_ machine: Machine) -> Bool {
        guard !machine.membership.isEmpty else { return false }
        let doubled = Set(machines.filter { $0.isCopy && !$0.isRemoved }.map(\.node))
        let others = machines.filter {
            $0 !== machine && !$0.isRemoved && !doubled.contains($0.node)
                && everChanged[$0.node]?.departure == nil
        }
        return context.archive.transactions.contains { transaction in
            transaction.shapes.contains { $0.entity == MembershipChange.entity }
                && machine.held.contains(transaction.dot)
                && !others.contains {
                    ($0.process?.state.durable ?? $0.heldAtEnd).contains(transaction.dot)
                }
        }
    }

    /// Whether a machine's image is older than a departure that its store has applied: what it has
    /// reported since would not hold any more (ARCHITECTURE, failure model).
    func hasForgottenDepartures(_ machine: Machine) -> Bool {
        machine.membership.departed.contains { machine.imageMembership[$0.node]?.departure == nil }
    }

    /// Whether some member would never hear of another, if a machine's store came to tell of these
    /// members only and its configuration to name those nodes.
    func wouldHideMembers(
        _ machine: Machine, telling membership: Membership, naming configured: [NodeID]
    ) -> Bool {
        hidesMembers { $0 === machine ? (membership, configured) : ($0.membership, $0.configured) }
    }

    /// Whether some member would never hear of another, if nobody listened to a machine any more; or
    /// nobody of one, where the join was put back at all others who knew it.
    func wouldHideMembers(retiring machine: Machine) -> Bool {
        let told = members(by: membership { $0 === machine ? nil : $0.membership })
        let isForgotten = started(by: knownMembership).contains {
            $0 !== machine && !told.contains($0.node)
        }
        if isForgotten { return true }
        return hidesMembers { $0 === machine ? nil : ($0.membership, $0.configured) }
    }

    /// Whether some member never hears of another, by what each tells; nil for who does not count.
    ///
    /// A node that lost its store asks the nodes that its log names, or its configuration, and
    /// those that their logs name. If all of those have lost theirs, or were put back to before a
    /// join, they take each other for the whole cluster (ARCHITECTURE, failure model). Of a node
    /// with two stores either may be the one that is asked, and each asks by its own log.
    private func hidesMembers(
        telling: (Machine) -> (membership: Membership, configured: [NodeID])?
    ) -> Bool {
        func stores(of node: NodeID) -> [Machine] {
            machines.filter { $0.node == node && !$0.isRemoved }
        }
        func told(by node: NodeID) -> [NodeID] {
            // Nobody listens to one that departed.
            guard everChanged[node]?.departure == nil else { return [] }
            let named = stores(of: node).compactMap(telling).map(\.membership.current)
            return named.dropFirst().reduce(named.first ?? []) { all, named in
                all.filter(named.contains)
            }
        }
        // What nobody tells who counts, has not come about: a departure, say, that was made at the
        // one that is to go.
        let heard = membership { telling($0)?.membership }
        // Who was never started has nothing that others lack.
        let members = started(by: heard).filter { telling($0) != nil }
        return members.flatMap { stores(of: $0.node) }.contains { member in
            guard let own = telling(member) else { return false }
            var known: Set = [member.node]
            var open = own.membership.current
            if open.isEmpty { open = own.configured }
            while let node = open.popLast() {
                if known.insert(node).inserted { open += told(by: node) }
            }
            return !members.allSatisfy { known.contains($0.node) }
        }
    }

    /// The members that were ever started, of all that transactions name.
    private func started(by membership: Membership) -> [Machine] {
        machines.prefix(context.machines).filter { machine in
            machine.isEnrolled
                && (membership.isEmpty || membership[machine.node]?.isCurrent ?? false)
        }
    }

    /// Whether a node may go: the others are two at least, whatever of the changes is lost.
    private func isDispensable(_ node: NodeID) -> Bool {
        let members = started(by: everChanged)
        return members.count > 2 && members.contains { $0.node == node }
    }

    /// The processes that may change members other than themselves.
    private func sponsors(against node: NodeID) -> [SimulatedProcess] {
        machines.prefix(context.machines).compactMap { used($0)?.process }.filter {
            $0.machine.node != node && $0.isSavingAllowed && !$0.isFenced && $0.isAlive
        }
    }

    private func members(knownTo process: SimulatedProcess) -> [NodeID] {
        let membership = process.state.membership
        return membership.isEmpty
            ? [process.machine.node] + process.machine.configured : membership.current
    }

    /// Saves a change at a process, and takes note of it.
    private func change(_ change: MembershipChange, at process: SimulatedProcess) -> Dot? {
        guard let dot = process.change(change) else { return nil }
        if let transaction = context.archive.transaction(dot) { noteChanges(in: transaction) }
        return dot
    }

    /// Takes note of changes that were made, also of those without a known outcome.
    func noteChanges(in transaction: Transaction) {
        for told in transaction.changes where transaction.shapes.indices.contains(told.shape) {
            if let told = MembershipChange(told, shape: transaction.shapes[told.shape]) {
                everChanged.apply(told, stamp: transaction.stamp)
            }
        }
    }

    // MARK: Joining

    /// Makes a machine a member through another, and starts it once a majority has that on disk.
    func join(_ number: Int, _ chance: inout SeededGenerator) {
        join(number, attempts: Self.attempts, chance)
    }

    private func join(_ number: Int, attempts: Int, _ chance: SeededGenerator) {
        var chance = chance
        guard let machine = machine(number), !machine.isEnrolled, attempts > 0, !isHealed else {
            return
        }
        // One whose outcome was unknown may have come about.
        if knownMembership[machine.node]?.isCurrent ?? false { return enrol(machine) }
        if let sponsor = chance.choice(sponsors(against: machine.node)),
            change(.join(machine.node, Self.address(of: machine.node)), at: sponsor) != nil
        {
            trace { "node \(number + 1) joins through node \(sponsor.name)" }
            return enrol(machine)
        }
        after(Self.retryMilliseconds * 1_000) { [self] in
            join(number, attempts: attempts - 1, chance)
        }
    }

    /// A caller that made a join with an unknown outcome sees in the end whether it came about.
    func enrolWhoJoined() {
        for machine in machines where knownMembership[machine.node]?.isCurrent ?? false {
            enrol(machine)
        }
    }

    /// Starts a machine once a majority tells of its join, whichever of several attempts that was:
    /// one whose outcome was unknown may come about as the only one, where the next was made
    /// at a node that had been retired.
    private func enrol(_ machine: Machine) {
        guard !machine.isEnrolled else { return }
        let members = started(by: knownMembership)
        let holders = members.filter { member in
            guard let state = member.process?.state,
                let joined = state.membership[machine.node]?.joined
            else { return false }
            return state.durable.contains(joined.dot)
        }
        guard holders.count <= members.count / 2 else {
            // Its configuration names all members. If it named only some, and all those lost their
            // stores before the newcomer has caught up, it would make them vouch for each other.
            machine.configured = otherMembers(than: machine)
            machine.isEnrolled = true
            // It is installed like one of the others.
            machine.edition = members.map(\.edition).max() ?? 0
            statistics.nodes += 1
            met(.memberJoined)
            trace { "node \(machine.number + 1) is known to a majority" }
            return start(machine)
        }
        after(Self.patienceMilliseconds * 1_000) { [self] in enrol(machine) }
    }

    // MARK: Departing

    /// A node ends its own membership. It runs on, so that others get all of its saves.
    func leave(_ number: Int) {
        guard let process = machine(number)?.process, !process.isFenced,
            process.isSavingAllowed, isDispensable(process.machine.node)
        else { return }
        if change(.depart(process.machine.node, isRetired: false), at: process) != nil {
            met(.memberLeft)
        }
    }

    /// Retires a node through another: while it is cut off for a time, or while it is there.
    func retire(
        _ number: Int, cut: UInt64?, away: UInt64?, _ chance: inout SeededGenerator
    ) {
        guard let machine = machine(number), machine.isEnrolled else { return }
        let seed = chance.next()
        guard let cut else {
            return retire(
                machine, as: "retirement", isForced: true, attempts: Self.attempts, seed)
        }
        let links = (0..<context.machines).filter { $0 != number }.flatMap { other in
            [
                SimulatedNetwork.Link(from: number, to: other),
                SimulatedNetwork.Link(from: other, to: number),
            ]
        }
        for link in links { network.cut(link) }
        after(cut * 1_000) { [self] in
            retire(
                machine, as: "retirement while cut off", isForced: seed & 1 == 0,
                attempts: Self.attempts, seed)
        }
        guard let away else { return }
        after((cut + away) * 1_000) { [self] in
            for link in links { network.mend(link) }
        }
    }

    private func retire(
        _ machine: Machine, as fault: String, isForced: Bool, attempts: Int, _ seed: UInt64
    ) {
        guard attempts > 0, !isHealed, isDispensable(machine.node) else { return }
        var chance = SeededGenerator(seed: seed &+ UInt64(attempts))
        if !wouldHideMembers(retiring: machine),
            let sponsor = chance.choice(sponsors(against: machine.node)),
            members(knownTo: sponsor).contains(machine.node),
            isForced || !isHeard(machine.node, by: sponsor),
            change(.depart(machine.node, isRetired: true), at: sponsor) != nil
        {
            trace { "node \(machine.number + 1) is retired by node \(sponsor.name)" }
            count(fault)
            return met(.memberRetired)
        }
        after(Self.retryMilliseconds * 1_000) { [self] in
            retire(machine, as: fault, isForced: isForced, attempts: attempts - 1, seed)
        }
    }

    /// Whether a process has heard a node lately: then it retires it only where it is forced to.
    private func isHeard(_ node: NodeID, by process: SimulatedProcess) -> Bool {
        let patience = process.machine.settings.limits.connectedMilliseconds
        return process.replicatorStatus.peers.contains {
            $0.node == node && $0.heardAt.map { milliseconds < $0 + patience } ?? false
        }
    }

    /// The living processes of nodes that have departed, as the members know.
    private var departed: [SimulatedProcess] {
        guard plan.hasDepartures, let known = memberProcesses.first?.state.membership else {
            return []
        }
        return machines.prefix(context.machines)
            .filter { known[$0.node]?.departure != nil }.compactMap(\.process)
    }

    /// Those that go on as though they were members.
    var unfenced: [SimulatedProcess] {
        departed.filter { !$0.isFenced || $0.isSavingAllowed }
    }

    /// In a healed world every node that departed knows it, and takes no saves: members say so over
    /// the exchange. Their frames may be lost, so the world waits for that before it asks.
    func checkFences() {
        for process in departed
        where !memberProcesses[0].state.vector.covers(process.state.vector) {
            met(.savesDeparted)
        }
        for process in unfenced {
            violate(
                2,
                "\(Telling.node(process.machine.number)) has departed: expected that it knows, and "
                    + "takes no saves, found that it goes on")
        }
    }
}
