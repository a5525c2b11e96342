internal import Replication

/// How nodes come to have other models.
extension RunPlan {
    /// Nodes are closed and opened with the next model, one after the other; who is left out is
    /// when the faults are over.
    mutating func drawMigrations(_ generator: inout SeededGenerator) {
        let count = machines.count + joiners.count
        for node in 0..<count where !generator.chance(in: 4) {
            let time = UInt64(generator.number(below: Int(chaosMilliseconds)))
            let length = UInt64(generator.number(below: 1_500))
            add(.migrate(node: node, edition: 1, milliseconds: length), at: time, &generator)
        }
    }

    /// Nodes are closed and opened with each of several models, at one node first, with work and
    /// partitions between, and with models that they refuse.
    mutating func drawWalk(
        _ options: SimulationOptions, _ generator: inout SeededGenerator
    ) {
        guard let editions else { return }
        let stage = Int(chaosMilliseconds) / (editions.last + 1)
        for trial in editions.trials.indices {
            for _ in 0...generator.number(below: 2) {
                let time = editions.trials[trial].base * stage + generator.number(below: stage)
                add(
                    .tryModel(
                        node: generator.number(below: machines.count), trial: trial,
                        milliseconds: UInt64(generator.number(below: 1_000))),
                    at: UInt64(time), &generator)
            }
        }
        // A deviation ends with a new store, and loses what it alone has.
        if options.hasFaults { drawDeviations(editions, stage, &generator) }
        for edition in 1...editions.last {
            drawStep(to: edition, stage, hasFaults: options.hasFaults, &generator)
        }
    }

    private mutating func drawStep(
        to edition: Int, _ stage: Int, hasFaults: Bool, _ generator: inout SeededGenerator
    ) {
        let begin = UInt64(edition * stage)
        let order = generator.some(Array(machines.indices), most: machines.count)
        for (place, node) in order.enumerated() where place == 0 || !generator.chance(in: 4) {
            let alone = place == 0 ? 0 : stage / 4 + generator.number(below: stage * 3 / 4)
            let time = begin + UInt64(alone)
            add(
                .migrate(
                    node: node, edition: edition,
                    milliseconds: UInt64(generator.number(below: 1_500))),
                at: time, &generator)
            drawWork(at: node, from: time, to: time + 2_000, count: 1, &generator)
        }
        guard hasFaults, generator.chance(in: 2) else { return }
        add(
            .partition(
                side: generator.some(Array(machines.indices), most: machines.count / 2 + 1),
                isOneWay: false, milliseconds: UInt64(generator.number(below: stage * 2))),
            at: begin, &generator)
    }

    /// Lets a node have a model for a time that deviates from the one which others are given then.
    private mutating func drawDeviations(
        _ editions: Editions, _ stage: Int, _ generator: inout SeededGenerator
    ) {
        // A machine that must tell of members, or stands between two others, keeps its store, and
        // so the model that deviates.
        guard joiners.isEmpty, !hasDepartures, strangers.isEmpty, machines.count > 2 else { return }
        for (deviating, deviation) in editions.deviations.sorted(by: { $0.key < $1.key }) {
            let node = generator.number(below: machines.count)
            let time = UInt64(max(0, deviation.base * stage - 1_000))
            add(
                .deviate(
                    node: node, edition: deviating,
                    milliseconds: UInt64(1_000 + generator.number(below: stage))),
                at: time, &generator)
            drawWork(at: node, from: time, to: time + 3_000, count: 2, &generator)
        }
    }
}
