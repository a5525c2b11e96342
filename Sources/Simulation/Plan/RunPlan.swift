internal import Coordinator
internal import Replication

/// All that happens to a cluster in one run, drawn from its seed before it begins.
struct RunPlan {
    /// The seed.
    let seed: UInt64
    /// The model of all nodes, at first.
    let model: ManagedObjectModel
    /// The models of later openings; nil if the model stays.
    let editions: Editions?
    /// The machines' settings; their count is the cluster's size.
    var machines: [MachineSettings]
    /// The settings of machines that may join later; they are numbered after the others.
    var joiners: [MachineSettings] = []
    /// The network while the faults last.
    var network: NetworkSettings
    /// Pairs of founders, the lower number first, that have no way to each other, ever: what one of
    /// them saves gets to the other through others.
    var strangers: Set<SimulatedNetwork.Link> = []
    /// How long work and faults last, in virtual milliseconds.
    var chaosMilliseconds: UInt64
    /// The events, in order of time.
    var events: [PlannedEvent]

    /// Draws a plan.
    ///
    /// - Parameters:
    ///   - model: a user's model; nil for one drawn from the seed.
    ///   - options: bounds that the user sets.
    init(seed: UInt64, options: SimulationOptions) {
        self.seed = seed
        var generator = SeededGenerator(seed: seed &* 0x2545_F491_4F6C_DD1D)
        // What is drawn with a generator of its own leaves all else of a seed's plan as it was.
        var own = SeededGenerator(seed: seed &* 0xD6E8_FEB8_6659_FD93 &+ 5)
        let unique = options.hasUniqueKeys ? SimulationModel.UniqueChoices.draw(&own) : nil
        var choices =
            options.model == nil ? SimulationModel.draw(&generator, unique: unique) : nil
        if options.hasCounts { choices?.counts = SimulationModel.drawCounts(seed) }
        if options.hasDemanded { choices?.demanded = SimulationModel.drawDemanded(seed) }
        if options.hasNamedPolicies { choices?.named = SimulationModel.drawNamed(seed) }
        var later = SeededGenerator(seed: seed &* 0x8CB9_2BA7_2F3D_8DD7 &+ 17)
        let changes = options.hasModelChanges && later.chance(in: 6)
        if changes, options.hasAddedConstraints {
            var held = SeededGenerator(seed: seed &* 0xD6E8_FEB8_6659_FD93 &+ 23)
            choices?.unique?.areLabelsHeld = held.chance(in: 2)
        }
        let succession = changes ? choices.map { SimulationModel.succession($0, &later) } : nil
        model = options.model ?? succession?.models[0] ?? SimulationModel.made(choices ?? .init())
        var walker = SeededGenerator(seed: seed &* 0xE703_7ED1_A0B4_28DB &+ 47)
        let walks = options.hasModelWalks && !changes && choices != nil && walker.chance(in: 8)
        editions = walks ? ModelWalk.draw(from: model, &walker) : succession
        // Small clusters meet most of what large ones do, in a fraction of the time.
        let count = min(
            Int.random(in: options.nodes, using: &generator),
            Int.random(in: options.nodes, using: &generator))
        machines = (0..<count).map { _ in MachineSettings.draw(&generator) }
        // What a frame may hold is agreed upon by all: receivers refuse more.
        if Int.random(in: 0..<6, using: &generator) == 0 {
            for place in machines.indices { machines[place].limits.transactionsInFrame = 1 }
        }
        network = Self.drawNetwork(&generator)
        if network.latencyMicroseconds > 5_000 {
            // Long ways and tiny pages together take minutes for one long transaction.
            for place in machines.indices {
                let bytes = machines[place].limits.pageBytes
                machines[place].limits.pageBytes = max(bytes, 65_536)
            }
        }
        chaosMilliseconds = UInt64.random(in: 8_000...32_000, using: &generator)
        events = []
        drawWork(&generator)
        drawFaults(options, &generator)
        if options.hasUniqueKeys { drawUniqueKeys(&own) }
        drawApart(HotRows.self, SeededGenerator(seed: seed &* 0x2545_F491_4F6C_DD1D &+ 59))
        drawApart(Batches.self, SeededGenerator(seed: seed &* 0x9E6C_63D0_876A_3F6B &+ 61))
        if options.hasMembershipChanges { drawMembers(seed, options) }
        if succession != nil { drawMigrations(&later) }
        if options.hasTransfers { drawHistory(options) }
        if options.hasPartialMeshes { drawStrangers() }
        if walks { drawWalk(options, &walker) }
        if options.hasFaults, options.hasReturns { drawReturns() }
        if options.hasSmallQueues { drawQueues() }
        // Sorting is stable by time and then by seed, so no order hangs on how it was drawn.
        events.sort { ($0.milliseconds, $0.seed) < ($1.milliseconds, $1.seed) }
    }

    /// Lets some machines have room for few writers whose transactions wait, and apply few values at
    /// once.
    private mutating func drawQueues() {
        var generator = SeededGenerator(seed: seed &* 0xA24B_AED4_963E_E407 &+ 43)
        for place in machines.indices {
            if generator.chance(in: 6) {
                machines[place].limits.lanes = 1 + generator.number(below: 3)
            }
            if generator.chance(in: 6) {
                machines[place].limits.applyValues = 1 + generator.number(below: 30)
            }
        }
    }

    /// Lets some pairs of machines have no way to each other, so that all still reach all through
    /// others.
    private mutating func drawStrangers() {
        var generator = SeededGenerator(seed: seed &* 0x9FB2_1C65_1E98_DF25 &+ 29)
        // Who stands between two others may depart, and would leave them without a way; and who
        // never meets its founders is not joined by others (ARCHITECTURE, failure model).
        guard generator.chance(in: 6), machines.count > 2, joiners.isEmpty, !hasDepartures
        else { return }
        let pairs = machines.indices.flatMap { one in
            machines.indices.filter { $0 > one }.map {
                SimulatedNetwork.Link(from: one, to: $0)
            }
        }
        for pair in pairs.shuffled(using: &generator) where generator.chance(2, in: 3) {
            let left = pairs.filter { $0 != pair && !strangers.contains($0) }
            if Self.isConnected(machines.count, left) { strangers.insert(pair) }
        }
    }

    /// Whether there is a way from each of some machines to each other.
    private static func isConnected(_ count: Int, _ pairs: [SimulatedNetwork.Link]) -> Bool {
        var reached: Set = [0]
        // One further round for each machine is enough.
        for _ in 0..<count {
            for pair in pairs {
                if reached.contains(pair.from) { reached.insert(pair.to) }
                if reached.contains(pair.to) { reached.insert(pair.from) }
            }
        }
        return reached.count == count
    }

    /// Lets consumers read the history of some machines. Some machines forget it soon.
    private mutating func drawConsumers() {
        var generator = SeededGenerator(seed: seed &* 0xD6E8_FEB8_6659_FD93 &+ 19)
        for place in machines.indices {
            machines[place].hasConsumer = generator.chance(in: 2)
            if generator.chance(in: 2) {
                machines[place].historyMilliseconds = UInt64(
                    100 + generator.number(below: 20_000))
            }
        }
    }

    /// Lets some machines keep few closed conflicts.
    private mutating func drawJournals() {
        var generator = SeededGenerator(seed: seed &* 0xD6E8_FEB8_6659_FD93 &+ 31)
        for place in machines.indices where generator.chance(in: 3) {
            machines[place].journalRecords = generator.number(below: 20)
        }
    }

    /// Lets some machines keep little history, and take copies of stores rather than short logs.
    private mutating func drawHistory(_ options: SimulationOptions) {
        var generator = SeededGenerator(seed: seed &* 0xA076_1D64_78BD_642F &+ 7)
        guard generator.number(below: 3) == 0 else { return }
        for place in machines.indices {
            if generator.number(below: 2) == 0 {
                machines[place].historyBytes = UInt64(generator.number(below: 20_000))
            }
            if generator.number(below: 2) == 0 {
                machines[place].limits.transferTransactions = UInt64(
                    1 + generator.number(below: 40))
            }
            // A copy of a megabyte over a slow link must be there in the time for healing.
            machines[place].limits.transferPartBytes = 32_768 << generator.number(below: 6)
            machines[place].limits.transferPatienceMilliseconds = 5_000
            machines[place].limits.transferRetryMilliseconds = 5_000
            machines[place].limits.transferTimeoutMilliseconds = 10_000
        }
        if options.hasConsumers { drawConsumers() }
        if options.hasShortJournals { drawJournals() }
        guard options.hasJoins else { return }
        for place in machines.indices {
            machines[place].joinsAlways = generator.number(below: 2) == 0
        }
        for _ in 0..<generator.number(below: 4) {
            add(
                .takeOver(
                    node: generator.number(below: machines.count),
                    donor: generator.number(below: machines.count)),
                at: UInt64(generator.number(below: Int(chaosMilliseconds))), &generator)
        }
    }

    /// The plan with only some of its events.
    func keeping(_ places: [Int]) -> RunPlan {
        var plan = self
        plan.events = places.filter(events.indices.contains).map { events[$0] }
        return plan
    }

    private static func drawNetwork(_ generator: inout SeededGenerator) -> NetworkSettings {
        var network = NetworkSettings()
        func chance(_ oneIn: Int) -> Bool { Int.random(in: 0..<oneIn, using: &generator) == 0 }
        if chance(3) {
            network.latencyMicroseconds = UInt64.random(in: 1_000...150_000, using: &generator)
            network.jitterMicroseconds = UInt64.random(in: 0...100_000, using: &generator)
        }
        if chance(2) { network.lossPerMille = UInt64.random(in: 0...300, using: &generator) }
        if chance(2) { network.repeatPerMille = UInt64.random(in: 0...200, using: &generator) }
        if chance(2) { network.latePerMille = UInt64.random(in: 0...200, using: &generator) }
        network.namesPublisher = chance(2)
        return network
    }

    mutating func add(
        _ kind: PlannedEvent.Kind, at milliseconds: UInt64, _ generator: inout SeededGenerator
    ) {
        events.append(
            PlannedEvent(milliseconds: milliseconds, seed: generator.next(), kind: kind))
    }

    // MARK: Work

    private mutating func drawWork(_ generator: inout SeededGenerator) {
        let workloads = Workloads.general(for: model).count
        guard workloads > 0 else { return }
        // A run favours few workloads, so that they meet each other often.
        let favoured = (0..<Int.random(in: 1...4, using: &generator)).map { _ in
            Int.random(in: 0..<workloads, using: &generator)
        }
        // Some nodes only listen.
        let busy = machines.indices.filter { _ in Int.random(in: 0..<4, using: &generator) > 0 }
        let writers = busy.isEmpty ? [0] : busy
        let count = Int.random(in: 6...36, using: &generator)
        for _ in 0..<count {
            guard let node = writers.randomElement(using: &generator) else { continue }
            let isFavoured = Int.random(in: 0..<4, using: &generator) > 0
            let workload =
                (isFavoured ? favoured.randomElement(using: &generator) : nil)
                ?? Int.random(in: 0..<workloads, using: &generator)
            let steps = Int.random(in: 1...4, using: &generator)
            add(
                .work(node: node, workload: workload, steps: steps),
                at: UInt64.random(in: 0..<chaosMilliseconds, using: &generator), &generator)
        }
        for _ in 0..<Int.random(in: 1...6, using: &generator) {
            add(
                .read(node: Int.random(in: machines.indices, using: &generator)),
                at: UInt64.random(in: 0..<chaosMilliseconds, using: &generator), &generator)
        }
        for _ in 0..<Int.random(in: 0...3, using: &generator) {
            add(
                .pin(
                    node: Int.random(in: machines.indices, using: &generator),
                    milliseconds: UInt64.random(in: 100...15_000, using: &generator)),
                at: UInt64.random(in: 0..<chaosMilliseconds, using: &generator), &generator)
        }
    }

    /// Bursts of work on unique keys, at several nodes at nearly the same time, so that they give
    /// the same keys before they hear of each other.
    private mutating func drawUniqueKeys(_ generator: inout SeededGenerator) {
        let all = Workloads.all(for: model)
        guard let workload = all.firstIndex(where: { $0 is UniqueKeys }) else { return }
        for _ in 0..<(2 + generator.number(below: 7)) {
            let time = UInt64(generator.number(below: Int(chaosMilliseconds)))
            let count = 1 + generator.number(below: min(machines.count, 3) + 1)
            for _ in 0..<count {
                add(
                    .work(
                        node: generator.number(below: machines.count), workload: workload,
                        steps: 1 + generator.number(below: 5)),
                    at: time + UInt64(generator.number(below: 400)), &generator)
            }
        }
    }

    /// Work of one kind at some nodes, in some runs, by a chance of its own.
    private mutating func drawApart<Kind: Workload>(
        _ kind: Kind.Type, _ generator: SeededGenerator
    ) {
        var generator = generator
        let all = Workloads.all(for: model)
        guard generator.chance(in: 3), let workload = all.firstIndex(where: { $0 is Kind })
        else { return }
        for _ in 0..<(2 + generator.number(below: 5)) {
            add(
                .work(
                    node: generator.number(below: machines.count), workload: workload,
                    steps: 1 + generator.number(below: 4)),
                at: UInt64(generator.number(below: Int(chaosMilliseconds))), &generator)
        }
    }

    // MARK: Faults

    private mutating func drawFaults(
        _ options: SimulationOptions, _ generator: inout SeededGenerator
    ) {
        guard options.hasFaults else {
            network = NetworkSettings()
            return
        }
        // Swarm testing: each run has some kinds of fault and not others, so that none hides
        // another.
        let kinds = (0..<18).filter { _ in Int.random(in: 0..<3, using: &generator) == 0 }
        guard !kinds.isEmpty else { return }
        for _ in 0..<Int.random(in: 1...10, using: &generator) {
            guard let kind = kinds.randomElement(using: &generator) else { continue }
            let time = UInt64.random(in: 0..<chaosMilliseconds, using: &generator)
            addFault(kind, at: time, &generator)
        }
    }

    private mutating func addFault(
        _ kind: Int, at time: UInt64, _ generator: inout SeededGenerator
    ) {
        let count = machines.count
        let node = Int.random(in: 0..<count, using: &generator)
        let other = (node + Int.random(in: 1..<max(2, count), using: &generator)) % count
        let length = UInt64.random(in: 50...12_000, using: &generator)
        let operations =
            Bool.random(using: &generator) ? 0 : UInt64.random(in: 1...60, using: &generator)
        switch kind {
        case 0, 1:
            let side = (0..<count).filter { _ in Bool.random(using: &generator) }
            add(
                .partition(side: side, isOneWay: kind == 1, milliseconds: length), at: time,
                &generator)
        case 2: add(.cut(from: node, to: other, milliseconds: length), at: time, &generator)
        case 3, 4: add(.clog(from: node, to: other, milliseconds: length), at: time, &generator)
        case 5: add(.pause(node: node, milliseconds: length), at: time, &generator)
        case 6: add(.close(node: node, milliseconds: length / 4), at: time, &generator)
        case 7:
            add(
                .kill(node: node, afterOperations: operations, milliseconds: length / 4),
                at: time, &generator)
        case 8, 9:
            add(
                .powerLoss(node: node, afterOperations: operations, milliseconds: length / 4),
                at: time, &generator)
        case 10: add(.wipe(node: node, milliseconds: length / 4), at: time, &generator)
        case 11, 12:
            add(.backUp(node: node), at: time / 2, &generator)
            add(.restore(node: node, milliseconds: length / 4), at: time, &generator)
        case 13:
            add(
                .copy(
                    node: node, takesAddress: Bool.random(using: &generator),
                    milliseconds: length), at: time, &generator)
        case 14: add(.clockStep(node: node, milliseconds: step(&generator)), at: time, &generator)
        case 15: add(.diskFull(node: node, milliseconds: length), at: time, &generator)
        case 16:
            let isRead = Bool.random(using: &generator)
            add(
                isRead
                    ? .readError(node: node, afterOperations: operations)
                    : .writeError(node: node, afterOperations: operations), at: time, &generator)
        default:
            add(.syncError(node: node, afterOperations: operations), at: time, &generator)
        }
    }

    /// Seconds, hours back and forward, or years ahead.
    private func step(_ generator: inout SeededGenerator) -> Int64 {
        switch Int.random(in: 0..<6, using: &generator) {
        case 0, 1: Int64.random(in: -30_000...30_000, using: &generator)
        case 2, 3: Int64.random(in: -14_400_000...0, using: &generator)
        case 4: Int64.random(in: 0...14_400_000, using: &generator)
        default: Int64.random(in: 1...3, using: &generator) * 31_536_000_000
        }
    }
}
