import Coordinator
import Replication
import Testing

@testable import Simulation

@Suite("Walks over models")
struct ModelWalkTests {
    private static func walks(_ seeds: ClosedRange<UInt64>) -> [Editions] {
        seeds.map { seed in
            var generator = SeededGenerator(seed: seed)
            let unique = SimulationModel.UniqueChoices.draw(&generator)
            let model = SimulationModel.made(SimulationModel.draw(&generator, unique: unique))
            return ModelWalk.draw(from: model, &generator)
        }
    }

    private static func obstacles(
        _ one: ManagedObjectModel, _ other: ManagedObjectModel
    ) -> [String] {
        ModelDifference.between(one, other).compactMap(\.obstacle)
    }

    @Test("Each model of a walk can be reached from all before it")
    func reachable() {
        for editions in Self.walks(1...100) {
            let chain = editions.models.prefix(editions.last + 1)
            #expect(chain.count >= 2 && chain.count <= 4)
            for (place, model) in chain.enumerated() {
                for former in chain.prefix(place) {
                    #expect(Self.obstacles(former, model).isEmpty)
                }
            }
        }
    }

    @Test("What a walk has refused has an obstacle, or changes what was settled before")
    func refused() {
        var faults = Set<ModelWalk.Fault>()
        for editions in Self.walks(1...300) {
            for trial in editions.trials {
                faults.insert(trial.fault)
                #expect(trial.known.allSatisfy { $0 <= trial.base })
                // That hangs on several models together.
                if trial.fault == .settledDefault || trial.fault == .comeBack { continue }
                for known in trial.known {
                    let obstacles =
                        Self.obstacles(editions.models[known], trial.model)
                        + Self.obstacles(editions.models[trial.base], trial.model)
                    #expect(!obstacles.isEmpty, "\(trial.fault)")
                }
            }
        }
        #expect(faults == Set(ModelWalk.Fault.allCases))
    }

    @Test("Nodes that walk through models show what the oracle says, and refuse what they must")
    func walked() {
        var beacons = BeaconCounts()
        var seed: UInt64 = 0
        var runs = 0
        while runs < 8 {
            seed += 1
            guard let editions = RunPlan(seed: seed, options: .init()).editions,
                editions.models.count > 2 || !editions.trials.isEmpty
            else { continue }
            runs += 1
            let report = Simulator.run(seed: seed)
            #expect(report.violations.isEmpty, "\(seed): \(report.violations)")
            beacons.add(report.beacons)
        }
        #expect(beacons[.nameChanged] > 0)
        #expect(beacons[.modelRefused] > 0)
    }
}
