internal import Coordinator
internal import Merge
internal import NodeCore
internal import Replication

/// A cluster in a box: machines, a network, time, and what a plan makes happen to them.
///
/// One thread and one seed; nothing waits. All chance comes from the seed, all time from the event
/// queue, so the same seed gives the same run, byte for byte.
final class World {
    static let cluster = "simulation"
    /// The longest a healed world may take to collect what is stable, in milliseconds.
    static let collectionMilliseconds: UInt64 = 60_000
    /// How often it is tried to open a store again whose double alone has something.
    static let doubleWaitMilliseconds: UInt64 = 500

    let plan: RunPlan
    let options: SimulationOptions
    let context: RunContext
    private(set) var report: RunReport
    var machines: [Machine] = []
    private var checkers: [any Checker]
    private var groups: GroupWatcher?
    private var queue = EventQueue()
    var network: SimulatedNetwork
    var generator: SeededGenerator
    private(set) var microseconds: UInt64 = 0
    /// How far the world's wall time is ahead of the time it has lived through.
    private var wallAdvance: UInt64 = 0
    /// The machine that answers at a node's address.
    var addresses: [NodeID: Int] = [:]
    /// The machine that last asked a machine in a node's name.
    var routes: [Int: [NodeID: Int]] = [:]
    var pinCount = 0
    private(set) var isHealed = false
    /// Whether clients read all there is after every commit, so that laws of every generation are
    /// checked at every one; in some runs, because it takes long.
    let readsEveryGeneration: Bool
    /// Closed conflicts that some journal may have forgotten since, as ``remember(_:)`` noted.
    var pastConflicts: [Conflict] = []
    var remembered = Set<Conflict>()
    /// Every change of membership that was ever made, also those that every disk has lost since.
    var everChanged = Membership()

    init(plan: RunPlan, options: SimulationOptions) {
        self.plan = plan
        self.options = options
        report = RunReport(seed: plan.seed)
        report.eventCount = plan.events.count
        network = SimulatedNetwork(settings: plan.network)
        generator = SeededGenerator(seed: plan.seed &* 0x9FB2_1C65_1E98_DF25 &+ 1)
        let founders = plan.machines.count
        context = RunContext(
            model: plan.model, machines: founders + plan.joiners.count, founders: founders,
            editions: plan.editions)
        checkers = Checkers.all()
        // It asks the oracle at every commit and judges nothing: one run of four is enough.
        groups = plan.seed.isMultiple(of: 4) ? GroupWatcher(plan.model) : nil
        readsEveryGeneration = plan.seed % 16 == 1
        for (number, settings) in plan.machines.enumerated() {
            guard let node = NodeID(number + 1) else { continue }
            addresses[node] = number
            machines.append(
                Machine(
                    number: number, node: node, disk: SimulatedDisk(seed: generator.next()),
                    settings: settings))
        }
        for machine in machines {
            machine.configured = machines.map(\.node).filter { $0 != machine.node }
        }
        addJoiners()
        report.statistics.runs = 1
        report.statistics.nodes = UInt64(founders)
    }

    // MARK: Time and chance

    /// Virtual milliseconds since the run began.
    var milliseconds: UInt64 { microseconds / 1_000 }

    func draw() -> UInt64 { generator.next() }

    /// Does something after a time.
    func after(_ microseconds: UInt64, _ action: @escaping () -> Void) {
        queue.add(at: self.microseconds + microseconds, action)
    }

    func setTime(_ microseconds: UInt64) {
        self.microseconds = microseconds
        context.now = milliseconds
        let wall = SimulatedClock.beginning + milliseconds + wallAdvance
        for machine in machines { machine.clock.set(wall) }
    }

    /// Lives through what is due until a time.
    private func live(until end: UInt64) {
        while let next = queue.nextMicroseconds, next <= end * 1_000 {
            guard let (time, action) = queue.takeFirst() else { break }
            if time > microseconds { setTime(time) }
            action()
        }
        setTime(max(microseconds, end * 1_000))
    }

    // MARK: Observing

    var statistics: RunStatistics {
        get { report.statistics }
        set { report.statistics = newValue }
    }

    func met(_ beacon: Beacon) { report.beacons[beacon] += 1 }

    func observe(_ observation: Observation) {
        if plan.editions != nil { context.archive.edition = edition(of: observation) }
        if options.isTraced, let line = observation.traceLine { trace { line } }
        for place in checkers.indices {
            for text in checkers[place].observe(observation, context) {
                violate(checkers[place].law, text)
            }
        }
        for beacon in groups?.observe(observation, context) ?? [] { met(beacon) }
    }

    func violate(_ law: Int, _ text: String) {
        let text = named(text)
        trace { "VIOLATION of law \(law): \(text)" }
        guard report.violations.count < 20 else { return }
        report.violations.append(Violation(law: law, milliseconds: milliseconds, text: text))
    }

    func trace(_ line: () -> String) {
        guard options.isTraced else { return }
        report.trace.append("\(milliseconds) ms  \(named(line()))")
    }

    /// A line with its paths as every run of a seed has them: disks are numbered through a process.
    private func named(_ line: String) -> String {
        machines.reduce(line) {
            $0.replacing($1.disk.path(""), with: "/node-\($1.number + 1)/")
        }
    }

    /// Counts a fault that has struck.
    func count(_ fault: String) { report.statistics.faults[fault, default: 0] += 1 }

    // MARK: The network

    var namesPublisher: Bool { network.settings.namesPublisher }

    /// The other nodes there are, which may have subscribed to one.
    func audience(of machine: Machine) -> [NodeID] {
        machines.filter { !$0.isCopy && $0.isEnrolled && $0.node != machine.node }.map(\.node)
    }

    func address(of node: NodeID) -> Int { addresses[node] ?? 0 }

    /// The client that last asked in a node's name: an answer to the node goes there.
    func route(from machine: Machine, to node: NodeID) -> Int {
        routes[machine.number]?[node] ?? address(of: node)
    }

    /// Sends a frame.
    ///
    /// - Returns: false where the sender notices that it cannot be sent.
    @discardableResult
    func send(
        _ bytes: [UInt8], from process: SimulatedProcess, to number: Int, _ channel: Channel,
        isQuestion: Bool = false
    ) -> Bool {
        let frame = SimulatedNetwork.Frame(
            from: process.machine.number, to: number,
            sender: Int(process.machine.node.rawValue), channel: channel,
            isQuestion: isQuestion, bytes: bytes, senderLife: process.life,
            receiverLife: machines[number].lives)
        statistics.frames += 1
        guard !areStrangers(process.machine, machines[number]) else {
            statistics.framesLost += 1
            return channel != .exchange
        }
        switch network.send(frame, now: microseconds, &generator) {
        case .waits: return true
        case .lost:
            statistics.framesLost += 1
            let link = SimulatedNetwork.Link(from: frame.from, to: frame.to)
            return !(channel == .exchange && network.isCut(link) && generator.next() & 1 == 0)
        case .arrives(let times):
            if times.count > 1 { statistics.framesRepeated += 1 }
            for time in times { queue.add(at: time) { [self] in deliver(frame) } }
            return true
        }
    }

    /// Whether two machines have no way to each other, ever.
    func areStrangers(_ one: Machine, _ other: Machine) -> Bool {
        let numbers = [one, other].map { Int($0.node.rawValue) - 1 }.sorted()
        return plan.strangers.contains(.init(from: numbers[0], to: numbers[1]))
    }

    func deliver(_ frame: SimulatedNetwork.Frame) {
        let receiver = machines[frame.to]
        guard let process = receiver.process else { return }
        let isOldReceiver = process.life != frame.receiverLife
        let sender = machines[frame.from]
        let isDeadSender = sender.process?.life != frame.senderLife
        guard !(isOldReceiver && isDeadSender) else { return }
        if frame.channel == .exchange, let node = NodeID(frame.sender) {
            routes[frame.to, default: [:]][node] = frame.from
        }
        process.take(frame)
    }

    // MARK: Lives

    /// - Parameters:
    ///   - start: when the process began that has run the node since; nil for now.
    ///   - orphans: what that could not write yet.
    func start(
        _ machine: Machine, minimumIncarnation: UInt64 = 0, since start: UInt64? = nil,
        orphans: OrphanBook = OrphanBook()
    ) {
        guard machine.process == nil, !machine.isOut, machine.isEnrolled else { return }
        guard !hasAloneDouble(machine) else {
            trace { "node \(machine.number + 1) waits: its double alone has what it saved" }
            return restart(
                machine, after: Self.doubleWaitMilliseconds, minimumIncarnation: minimumIncarnation)
        }
        let faults = machine.disk.faultCount
        do {
            let process = try SimulatedProcess(
                machine: machine, world: self, minimumIncarnation: minimumIncarnation,
                startedAt: start ?? milliseconds, orphans: orphans)
            machine.process = process
            machine.incarnation = process.actor.incarnation
            statistics.starts += 1
            trace { "node \(process.name) starts as \(process.actor)" }
            process.begin()
        } catch {
            trace { "node \(machine.number + 1) cannot start: \(error)" }
            let code = (error as? CoordinatorError)?.code
            let isStruck = code == .inputOutput && machine.disk.faultCount > faults
            if code != .diskFull, !isStruck {
                violate(0, "node \(machine.number + 1) cannot open its store: \(error)")
            }
            // What an opening that failed has left open is gone with its process.
            settle(machine)
            restart(machine, after: 1_000, minimumIncarnation: minimumIncarnation)
        }
    }

    func restart(
        _ machine: Machine, after milliseconds: UInt64, minimumIncarnation: UInt64 = 0
    ) {
        after(milliseconds * 1_000 + 1) { [self] in
            start(machine, minimumIncarnation: minimumIncarnation)
        }
    }

    /// Whether another live store of the machine's node holds what neither this machine's store nor
    /// the disk of any other node does. Of a node with two stores the later is its disk.
    ///
    /// Nobody opens a store of a node beside that: the cluster would go on with this one, without
    /// the other's saves, as if both took saves while they are apart (ARCHITECTURE, failure model).
    private func hasAloneDouble(_ machine: Machine) -> Bool {
        let doubles = machines.filter {
            $0 !== machine && $0.node == machine.node && !$0.isOut
        }
        guard !doubles.isEmpty else { return false }
        let elsewhere = machines.reduce(into: machine.held) { vector, other in
            guard other.node != machine.node, !isSuperseded(other), let process = other.process
            else { return }
            vector.join(process.state.durable)
        }
        return doubles.contains { !elsewhere.covers($0.held) }
    }

    /// Whether the cluster goes on with another store of the machine's node, which began later.
    func isSuperseded(_ machine: Machine) -> Bool {
        machines.contains {
            $0 !== machine && $0.node == machine.node && !$0.isRemoved
                && $0.incarnation > machine.incarnation
        }
    }

    /// Ends a process, and does to its disk what the ending means.
    func end(_ machine: Machine, _ how: Ending) {
        let process = machine.process
        machine.heldAtEnd = machine.held
        machine.membershipAtEnd = machine.membership
        machine.process = nil
        let isOrderly: Bool
        switch how {
        case .closed, .stopped: isOrderly = true
        default: isOrderly = false
        }
        process?.end(isOrderly: isOrderly)
        if !isOrderly {
            if how == .powerLost || machine.disk.isPowerLost {
                machine.disk.losePower(&generator)
            } else {
                machine.disk.kill()
            }
            process?.bury()
        } else {
            settle(machine)
        }
        trace { "node \(machine.number + 1) ends: \(how)" }
        observe(.ended(node: machine.number, how: how))
    }

    /// A fault that was to strike a process does not outlive it.
    func settle(_ machine: Machine) {
        if machine.disk.isPowerLost {
            machine.disk.losePower(&generator)
        } else {
            machine.disk.kill()
        }
    }

    /// Looks whether the disk took the process down in the midst of what it did.
    func checkDisk(of process: SimulatedProcess) {
        let machine = process.machine
        guard machine.process === process else { return }
        if machine.disk.isPowerLost {
            met(.powerLostUnsynced)
            end(machine, .powerLost)
            restart(machine, after: 200)
        } else if machine.disk.isKilled {
            met(.killedInWrite)
            end(machine, .killed)
            restart(machine, after: 200)
        }
    }

    /// A process stops by itself.
    func stop(_ process: SimulatedProcess, reason: String) {
        guard process.machine.process === process else { return }
        trace { "node \(process.name) stops: \(reason)" }
        if process.machine.disk.faultCount == process.faultsBefore {
            violate(0, "node \(process.name) stops, though its disk has no fault: \(reason)")
        }
        if process.machine.disk.count(of: .syncError) > process.failedSyncsBefore {
            met(.syncFailed)
        }
        end(process.machine, .stopped(reason: reason))
        restart(process.machine, after: 500)
    }

    /// A process leaves to its double, until somebody sets things right. In a healed world it has
    /// none any more: one peer after the other told it of its former lives, and its keeper starts
    /// it again.
    func leave(_ process: SimulatedProcess) {
        let machine = process.machine
        guard machine.process === process else { return }
        machine.isOut = !isHealed
        machine.reopenings = Reopenings()
        end(machine, .stopped(reason: "its number is in use"))
        guard isHealed else { return }
        restart(machine, after: 500)
    }

    /// A process that has heard of a later incarnation of itself begins one later still, or leaves.
    func reopen(_ process: SimulatedProcess, after incarnation: UInt64, hasMet: Bool) {
        let machine = process.machine
        guard machine.process === process else { return }
        let openFor = milliseconds - process.openedAt
        guard machine.reopenings.mayReopen(hasMet: hasMet, openFor: openFor) else {
            met(.doubleMet)
            return leave(process)
        }
        met(.incarnationReopened)
        end(machine, .closed)
        start(
            machine, minimumIncarnation: incarnation, since: process.startedAt,
            orphans: process.core.orphans)
    }

    /// Whether an incarnation is not one that lives now.
    func isClosed(_ actor: ActorID) -> Bool {
        !machines.contains { $0.process?.actor == actor }
    }

    // MARK: The run

    /// Lives through the plan, heals, converges, and checks; then once more after all were closed
    /// and opened again.
    func run() -> RunReport {
        SimulatedDisk.beginRun(seed: draw(), wallMilliseconds: { SimulatedClock.beginning })
        setTime(0)
        trace { "\(network.settings)" }
        for machine in machines {
            trace { "node \(machine.number + 1) has \(machine.settings)" }
        }
        for pair in plan.strangers.sorted(by: { ($0.from, $0.to) < ($1.from, $1.to) }) {
            trace { "nodes \(pair.from + 1) and \(pair.to + 1) never reach each other" }
        }
        for machine in machines { start(machine) }
        for event in plan.events {
            queue.add(at: event.milliseconds * 1_000) { [self] in carryOut(event) }
        }
        live(until: plan.chaosMilliseconds)
        heal()
        observe(.healed)
        converge("after healing")
        settleAndObserve(isReopened: false)
        for machine in machines where machine.process != nil { end(machine, .closed) }
        for machine in machines { start(machine) }
        converge("after opening again")
        settleAndObserve(isReopened: true)
        for machine in machines where machine.process != nil { end(machine, .closed) }
        // The very bytes: an order of changes that is by chance shows nowhere else.
        for transaction in context.archive.written {
            mix(Transaction.checksum(transaction.encoded()))
        }
        statistics.milliseconds = milliseconds
        for machine in machines {
            for fault in DiskFault.allCases where machine.disk.count(of: fault) > 0 {
                report.statistics.faults[fault.name, default: 0] += machine.disk.count(of: fault)
            }
            machine.disk.unmount()
        }
        // What was still to come holds this world, which holds it.
        queue = EventQueue()
        return report
    }

    /// Ends every fault: the network is whole, disks are sound, clocks are right, all are up.
    private func heal() {
        isHealed = true
        for machine in machines where machine.isCopy { remove(machine) }
        for frame in network.heal(&generator) { deliver(frame) }
        letStampedTimesCome()
        for machine in machines where !machine.isCopy {
            makeAnew(machine)
            if let last = plan.editions?.last { takeUpModel(last, machine) }
            machine.clock.offset = 0
            machine.disk.disarm()
            machine.disk.capacity = nil
            machine.isOut = false
            machine.reopenings = Reopenings()
            machine.process?.resume()
        }
        setTime(microseconds)
        trace { "all faults are over" }
        for machine in machines where !machine.isCopy { start(machine) }
        // A save whose outcome nobody knew shows in the store only now.
        letStampedTimesCome()
        setTime(microseconds)
        enrolWhoJoined()
    }

    /// Lets the time come at which transactions stamped far ahead are applied.
    private func letStampedTimesCome() {
        let latest = context.archive.transactions.map(\.timestamp.milliseconds).max() ?? 0
        let wall = SimulatedClock.beginning + milliseconds + wallAdvance
        if latest > wall { wallAdvance += latest - wall + 1_000 }
    }

    /// Lives on until all nodes have the same, durably, and have collected what is stable.
    private func converge(_ when: String) {
        // Time is bounded from the last that anybody applied, for as long as that takes: where a
        // frame holds one transaction and is long under way, hundreds of them take minutes.
        var deadline = milliseconds + options.convergenceMilliseconds
        var applied: [Int: UInt64] = [:]
        while !hasConverged, milliseconds < deadline {
            live(until: milliseconds + 250)
            for process in machines.filter({ !$0.isCopy }).compactMap(\.process) {
                let count = process.state.vector.entries.reduce(0) { $0 + $1.sequence }
                guard count > applied[process.machine.number, default: 0] else { continue }
                applied[process.machine.number] = count
                deadline = milliseconds + options.convergenceMilliseconds
            }
        }
        guard hasConverged else {
            return violate(1, "\(when) the nodes do not converge: \(standings)")
        }
        // Who never hears another cannot know what that one has, and collects nothing.
        guard plan.strangers.isEmpty else { return live(until: milliseconds + 2_000) }
        let limit = milliseconds + Self.collectionMilliseconds
        while !(hasCollected && unfenced.isEmpty), milliseconds < limit {
            live(until: milliseconds + 250)
        }
        if !hasCollected { violate(8, "\(when) not all becomes stable: \(standings)") }
        // And once more, so that the last collection is over.
        live(until: milliseconds + 2_000)
    }

    private var hasConverged: Bool {
        let processes = memberProcesses
        guard let first = processes.first else { return false }
        // By the stores: a process that was paused may not have heard of its own commits yet.
        return processes.allSatisfy {
            $0.state.vector == first.state.vector && $0.state.durable == $0.state.vector
                && $0.vectorInStore == $0.state.vector
        }
    }

    private var hasCollected: Bool {
        let processes = memberProcesses
        return !processes.isEmpty && processes.allSatisfy { $0.stable == $0.state.vector }
    }

    /// Where each node stands, against the first, for a person to see what is amiss.
    private var standings: String {
        guard let first = memberProcesses.first ?? machines.lazy.compactMap(\.process).first else {
            return "no node is up"
        }
        return machines.filter { !$0.isCopy && $0.isEnrolled }.map { machine in
            guard let process = machine.process else { return "node \(machine.number + 1) is down" }
            return standing(of: process, against: first)
        }.joined(separator: "; ")
    }

    private func standing(
        of process: SimulatedProcess, against first: SimulatedProcess
    ) -> String {
        func text(_ vector: VersionVector, beyond other: VersionVector) -> String {
            vector.entries.filter { other[$0.actor] < $0.sequence }
                .map { "\($0.actor)-\($0.sequence)" }.joined(separator: " ")
        }
        let own = process.state.vector
        let other = first.state.vector
        let status = process.replicatorStatus
        let hindrances = status.members.compactMap { member in
            member.hindrance.map { "\(member.node): \($0)" }
        }
        return "node \(process.name) \(process.actor) lacks [\(text(other, beyond: own))] and has "
            + "besides [\(text(own, beyond: other))] of what node \(first.name) has, durable "
            + "\(process.state.durable == own), unstable "
            + "[\(text(own, beyond: process.stable))], held \(status.held.map(\.dot)), waiting "
            + "\(status.gauges.waitingCount), ignored \(status.gauges.ignoredCount) of "
            + "\(status.gauges.receivedCount), hindered by \(hindrances), members "
            + "\(process.state.membership.current)"
    }

    private func settleAndObserve(isReopened: Bool) {
        var final: [Int: Reading] = [:]
        for process in memberProcesses {
            guard let reading = process.readWhole() else {
                violate(0, "node \(process.name) cannot be read at the end")
                continue
            }
            final[process.machine.number] = reading
            process.verifyAndObserve()
            if isReopened { note(reading, of: process.machine) }
        }
        observe(.settled(final: final, isReopened: isReopened))
        checkFences()
    }

    /// FNV-1a over what must be the same whenever this seed runs.
    private func mix(_ value: UInt64) {
        for shift in stride(from: UInt64(0), to: 64, by: 8) {
            report.fingerprint ^= (value >> shift) & 0xFF
            report.fingerprint &*= 0x100_0000_01B3
        }
    }

    private func note(_ reading: Reading, of machine: Machine) {
        let journal = reading.conflicts ?? []
        statistics.conflicts += UInt64(journal.count)
        if journal.contains(where: { $0.state == .resolved && $0.closedBy != nil }) {
            met(.loserOverwritten)
        }
        if journal.contains(where: { $0.kind == .count }) { met(.countBroken) }
        mix(milliseconds)
        mix(statistics.frames)
        mix(reading.digest.high)
        mix(reading.digest.low)
        mix(reading.token.generation)
        for entry in reading.token.versionVector.entries {
            mix(entry.actor.incarnation)
            mix(entry.sequence)
        }
    }
}
