import Coordinator
import Foundation
import Merge
import Testing

@testable import Simulation

@Suite("The simulator")
struct SimulatorTests {
    @Test("The first seeds run without a violation", arguments: UInt64(1)...12)
    func firstSeeds(seed: UInt64) {
        let report = Simulator.run(seed: seed)
        #expect(report.violations.isEmpty, "\(report.violations)")
    }

    @Test("One seed gives one run, line by line", arguments: [UInt64(3), 7])
    func determinism(seed: UInt64) {
        var options = SimulationOptions()
        options.isTraced = true
        let first = Simulator.run(seed: seed, options: options)
        let second = Simulator.run(seed: seed, options: options)
        #expect(first == second)
        #expect(!first.trace.isEmpty)
    }

    @Test("Without faults nobody crashes, and all converges")
    func calm() {
        var options = SimulationOptions()
        options.hasFaults = false
        // Each step of a walk is a start.
        options.hasModelWalks = false
        for seed in UInt64(100)..<104 {
            let report = Simulator.run(seed: seed, options: options)
            #expect(report.violations.isEmpty, "\(report.violations)")
            #expect(report.statistics.faults.isEmpty)
            // Every node is started once, and once more after closing, or to open a copy.
            let copies = report.beacons[.storeTransferred]
            #expect(report.statistics.starts == 2 * report.statistics.nodes + copies)
        }
    }

    @Test("Members that come and go, and the next model, leave the rest of a plan as it is")
    func separateChance() {
        var options = SimulationOptions()
        options.hasMembershipChanges = false
        options.hasModelChanges = false
        options.hasModelWalks = false
        var changed = 0
        for seed in UInt64(1)...40 {
            let plain = RunPlan(seed: seed, options: options)
            let plan = RunPlan(seed: seed, options: SimulationOptions())
            let rest = plan.events.filter { plain.events.contains($0) }
            #expect(rest == plain.events)
            #expect(plan.model == plain.model)
            #expect(plan.machines == plain.machines && plan.network == plain.network)
            if plan.events.count > plain.events.count { changed += 1 }
        }
        #expect(changed > 5)
    }

    @Test(
        "Some plans have attributes with a merge policy of the application's own, and say so in a text"
    )
    func namedPolicies() {
        var options = SimulationOptions()
        options.hasNamedPolicies = false
        var named = 0
        for seed in UInt64(1)...60 {
            let plan = RunPlan(seed: seed, options: SimulationOptions())
            let plain = RunPlan(seed: seed, options: options)
            #expect(plan.events == plain.events)
            let policies = plan.model.entities.flatMap(\.attributes).compactMap(\.mergePolicy)
            let has = policies.contains { $0.rawValue == "backwards@1" }
            #expect(has == (plan.model != plain.model))
            if has { named += 1 }
        }
        #expect((5...30).contains(named))
    }

    @Test("A part of a plan can be run by itself")
    func partOfAPlan() {
        var options = SimulationOptions()
        let whole = Simulator.run(seed: 5, options: options)
        options.events = []
        let none = Simulator.run(seed: 5, options: options)
        #expect(none.eventCount == whole.eventCount)
        #expect(none.violations.isEmpty)
        #expect(none.statistics.saves == 0)
        #expect(none.statistics.faults.isEmpty)
    }

    @Test("A user's own model is run by the workloads that suit any model")
    func foreignModel() throws {
        let json = """
            {"entities": [
              {"name": "Order", "mergePolicy": "rollback", "attributes": [
                {"name": "total", "type": "decimal"}, {"name": "note", "type": "string"}],
               "relationships": [{"name": "customer", "destination": "Customer",
                 "inverse": "orders"}]},
              {"name": "Customer", "attributes": [{"name": "name", "type": "string"}],
               "relationships": [{"name": "orders", "destination": "Order",
                 "inverse": "customer", "toMany": true, "deleteRule": "cascade"}]}]}
            """
        var options = SimulationOptions()
        options.model = try ManagedObjectModel(json: Array(json.utf8))
        var saves: UInt64 = 0
        for seed in UInt64(1)...6 {
            let report = Simulator.run(seed: seed, options: options)
            #expect(report.violations.isEmpty, "\(report.violations)")
            saves += report.statistics.saves
        }
        #expect(saves > 50)
    }
}

extension SimulatorTests {
    @Test("To-manys that have too few objects or too many are listed as the oracle finds them")
    func counts() throws {
        let json = """
            {"entities": [
              {"name": "Team", "mergePolicy": "mergeByPropertyObjectTrump",
               "attributes": [{"name": "name", "type": "string"}],
               "relationships": [
                 {"name": "players", "destination": "Player", "inverse": "team", "toMany": true,
                  "minCount": 1, "maxCount": 2, "deleteRule": "cascade"},
                 {"name": "coaches", "destination": "Coach", "inverse": "teams", "toMany": true,
                  "maxCount": 1}],
               "uniquenessConstraints": [["name"]]},
              {"name": "Player", "attributes": [{"name": "name", "type": "string"}],
               "relationships": [
                 {"name": "team", "destination": "Team", "inverse": "players"}]},
              {"name": "Coach", "attributes": [{"name": "name", "type": "string"}],
               "relationships": [{"name": "teams", "destination": "Team",
                 "inverse": "coaches", "toMany": true, "maxCount": 1}]}]}
            """
        var options = SimulationOptions()
        options.model = try ManagedObjectModel(json: Array(json.utf8))
        for seed in UInt64(1)...24 {
            let report = Simulator.run(seed: seed, options: options)
            #expect(report.violations.isEmpty, "\(report.violations)")
        }
    }
}

@Suite("Shrinking")
struct ShrinkerTests {
    @Test("What is left are exactly the events that are needed")
    func needed() {
        let needed: Set<Int> = [3, 17, 40]
        let (kept, attempts) = Shrinker.minimise(
            Array(0..<64), attempts: 10_000, progress: { _ in },
            fails: { needed.isSubset(of: $0) })
        #expect(kept == [3, 17, 40])
        #expect(attempts < 200)
    }

    @Test("What fails by itself shrinks to nothing")
    func nothing() {
        let (kept, _) = Shrinker.minimise(
            Array(0..<10), attempts: 100, progress: { _ in }, fails: { _ in true })
        #expect(kept.isEmpty)
    }

    @Test("Attempts are bounded")
    func bounded() {
        var made = 0
        _ = Shrinker.minimise(Array(0..<1000), attempts: 7, progress: { _ in }) { _ in
            made += 1
            return false
        }
        #expect(made == 7)
    }

    @Test("A run that traps shrinks to what makes it trap, and no other failure counts")
    func trap() throws {
        var nothing = SimulationOptions()
        nothing.events = []
        let sound = Simulator.run(seed: 1, options: nothing)
        var failed = sound
        failed.violations = [Violation(law: 1, milliseconds: 0, text: "")]
        let shrinker = Shrinker(seed: 1) { options in
            guard let events = options.events else { return nil }
            if events.contains(3), events.contains(5) { return nil }
            return events.contains(7) ? failed : sound
        }
        let outcome = try #require(shrinker.shrink())
        #expect(outcome.events == [3, 5] && outcome.report == nil)
    }

    @Test("A run that does not fail is not shrunk")
    func sound() {
        var options = SimulationOptions()
        options.events = []
        #expect(Shrinker(seed: 1, options: options).shrink() == nil)
    }
}
