internal import Replication

/// The joins and departures of a run, drawn with a generator of its own.
extension RunPlan {
    /// The greatest number of nodes that may join.
    private static let joiners = 2

    /// Whether the plan has a node's departure.
    var hasDepartures: Bool {
        events.contains { event in
            switch event.kind {
            case .leave, .retire: true
            default: false
            }
        }
    }

    /// Draws joins and departures, and work of clients at the nodes concerned.
    mutating func drawMembers(_ seed: UInt64, _ options: SimulationOptions) {
        var generator = SeededGenerator(seed: seed &* 0xA24B_AED4_963E_E407 &+ 11)
        guard generator.chance(in: 4) else { return }
        let founders = machines.count
        let departures = generator.number(below: 3)
        var joins = generator.number(below: Self.joiners + 1)
        // A cluster keeps two members at least, so of two founders nobody departs.
        if joins == 0, departures == 0 || founders < 3 { joins = 1 }
        for place in 0..<joins {
            joiners.append(drawJoiner(&generator))
            let time = UInt64(generator.number(below: Int(chaosMilliseconds * 3 / 4)))
            add(.join(node: founders + place), at: time, &generator)
            drawWork(
                at: founders + place, from: time, to: chaosMilliseconds,
                count: 1 + generator.number(below: 4), &generator)
            if options.hasFaults { drawTrouble(at: founders + place, from: time, &generator) }
        }
        defer { if options.hasCrowds { drawCrowd(seed, founders + joins) } }
        for _ in 0..<departures {
            let node = generator.number(below: founders + joins)
            let time =
                chaosMilliseconds / 5
                + UInt64(generator.number(below: Int(chaosMilliseconds * 3 / 5)))
            if !options.hasFaults || generator.chance(in: 3) {
                drawWork(at: node, from: time / 2, to: time + 500, count: 2, &generator)
                add(.leave(node: node), at: time, &generator)
            } else {
                drawRetirement(of: node, at: time, &generator)
            }
        }
    }

    /// Lets several more nodes join at once, in some runs.
    ///
    /// - Parameter first: the number of the first of them.
    private mutating func drawCrowd(_ seed: UInt64, _ first: Int) {
        var generator = SeededGenerator(seed: seed &* 0x8CB9_2BA7_2F3D_8DD7 &+ 13)
        guard generator.chance(in: 4) else { return }
        let time = UInt64(generator.number(below: Int(chaosMilliseconds * 3 / 4)))
        for node in first..<(first + 3 + generator.number(below: 2)) {
            joiners.append(drawJoiner(&generator))
            add(
                .join(node: node), at: time + UInt64(generator.number(below: 500)), &generator)
            drawWork(at: node, from: time, to: chaosMilliseconds, count: 1, &generator)
        }
    }

    private func drawJoiner(_ generator: inout SeededGenerator) -> MachineSettings {
        var settings = MachineSettings.draw(&generator)
        // What all must agree upon, and what spares minutes: as for the others.
        settings.limits.transactionsInFrame = machines[0].limits.transactionsInFrame
        if network.latencyMicroseconds > 5_000 {
            settings.limits.pageBytes = max(settings.limits.pageBytes, 65_536)
        }
        return settings
    }

    /// Clients go on at a node that is cut off: what they save there is in its store alone.
    private mutating func drawRetirement(
        of node: Int, at time: UInt64, _ generator: inout SeededGenerator
    ) {
        guard generator.chance(4, in: 5) else {
            drawWork(at: node, from: time / 2, to: time + 1_000, count: 3, &generator)
            return add(.retire(node: node, cut: nil, away: nil), at: time, &generator)
        }
        let cut = UInt64(200 + generator.number(below: 6_000))
        let away = generator.chance(in: 3) ? nil : UInt64(generator.number(below: 8_000))
        let end = time + cut + (away ?? 4_000)
        drawWork(at: node, from: time, to: end, count: 1 + generator.number(below: 3), &generator)
        if generator.chance(in: 2) {
            drawWork(at: node, from: end, to: end + 4_000, count: 2, &generator)
        }
        add(.retire(node: node, cut: cut, away: away), at: time, &generator)
    }

    /// Draws work of clients at one node within a time.
    mutating func drawWork(
        at node: Int, from first: UInt64, to last: UInt64, count: Int,
        _ generator: inout SeededGenerator
    ) {
        // The last ones are drawn by themselves.
        let workloads = Workloads.all(for: model).count { !($0 is HotRows || $0 is Batches) }
        guard workloads > 0 else { return }
        for _ in 0..<count {
            let time = first + UInt64(generator.number(below: Int(max(1, last - min(first, last)))))
            add(
                .work(
                    node: node, workload: generator.number(below: workloads),
                    steps: 1 + generator.number(below: 3)),
                at: min(time, chaosMilliseconds - 1), &generator)
        }
    }

    private mutating func drawTrouble(
        at node: Int, from first: UInt64, _ generator: inout SeededGenerator
    ) {
        let time = first + UInt64(generator.number(below: Int(chaosMilliseconds - first)))
        let length = UInt64(50 + generator.number(below: 3_000))
        let operations = UInt64(generator.number(below: 60))
        switch generator.number(below: 8) {
        case 0: add(.close(node: node, milliseconds: length), at: time, &generator)
        case 1:
            add(
                .kill(node: node, afterOperations: operations, milliseconds: length), at: time,
                &generator)
        case 2:
            add(
                .powerLoss(node: node, afterOperations: operations, milliseconds: length),
                at: time, &generator)
        case 3: add(.wipe(node: node, milliseconds: length), at: time, &generator)
        case 4: add(.pause(node: node, milliseconds: length), at: time, &generator)
        default: break
        }
    }
}
