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
        let stage = Int(chaosMilliseconds) / editions.models.count
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
        // Whoever must tell of members keeps its store, and so the model that deviates.
        for (deviating, edition) in editions.deviations.sorted(by: { $0.key < $1.key })
        where joiners.isEmpty && !hasDepartures && strangers.isEmpty && machines.count > 2 {
            let node = generator.number(below: machines.count)
            let time = UInt64(edition * stage - 1_000)
            add(
                .deviate(
                    node: node, edition: deviating,
                    milliseconds: UInt64(1_000 + generator.number(below: stage))),
                at: time, &generator)
            drawWork(at: node, from: time, to: time + 3_000, count: 2, &generator)
        }
        for edition in 1...editions.last {
            let begin = UInt64(edition * stage)
            for node in machines.indices.shuffled(using: &generator)
            where !generator.chance(in: 4) {
                let time = begin + UInt64(generator.number(below: stage))
                add(
                    .migrate(
                        node: node, edition: edition,
                        milliseconds: UInt64(generator.number(below: 1_500))),
                    at: time, &generator)
                drawWork(at: node, from: time, to: time + 2_000, count: 1, &generator)
            }
            guard options.hasFaults, generator.chance(in: 2) else { continue }
            add(
                .partition(
                    side: generator.some(Array(machines.indices), most: machines.count / 2 + 1),
                    isOneWay: false, milliseconds: UInt64(generator.number(below: stage * 2))),
                at: begin, &generator)
        }
    }
}
