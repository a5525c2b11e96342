import Simulation
import Testing

@Suite("Runs that once failed")
struct RegressionTests {
    @Test("runs without a violation", arguments: RegressionCase.all)
    func run(_ regression: RegressionCase) {
        let report = Simulator.run(seed: regression.seed, options: regression.options)
        #expect(report.violations.isEmpty, "\(report.violations)")
    }

    @Test("runs without a violation as its plan is drawn now, too", arguments: RegressionCase.all)
    func runAsNow(_ regression: RegressionCase) {
        let report = Simulator.run(seed: regression.seed)
        #expect(report.violations.isEmpty, "\(report.violations)")
    }
}
