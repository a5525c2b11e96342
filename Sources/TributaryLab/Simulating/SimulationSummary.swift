// The outcome of many runs. Values only.

import Console
import Simulation

/// Adds up reports.
struct SimulationSummary {
    /// The flags that a replay needs besides the seed, with a blank before each.
    let replayFlags: String
    private(set) var statistics = RunStatistics()
    private(set) var beacons = BeaconCounts()
    private(set) var violationCount = 0
    /// How many violations there were of each law.
    private var violations: [Int: Int] = [:]
    /// Each violation with the command that replays it.
    private(set) var violationLines: [String] = []

    init(replayFlags: String) { self.replayFlags = replayFlags }

    mutating func add(_ result: SimulationWorkers.Result) {
        switch result {
        case .report(let report): add(report)
        case .died(let seed, let reason):
            statistics.runs += 1
            violate(seed, [reason])
        }
    }

    mutating func add(_ report: RunReport) {
        statistics.add(report.statistics)
        beacons.add(report.beacons)
        for violation in report.violations { violations[violation.law, default: 0] += 1 }
        if !report.violations.isEmpty {
            violate(report.seed, report.violations.map(\.description))
        }
    }

    /// Adds that a seed gave another run when it ran once more.
    mutating func addUnlikeRun(seed: UInt64) {
        violate(seed, ["law 0: the same seed gave another run in another process"])
    }

    private mutating func violate(_ seed: UInt64, _ texts: [String]) {
        violationCount += texts.count
        guard violationLines.count < 1_000 else { return }
        violationLines += texts.prefix(5).map { "seed \(seed): \($0)" }
        violationLines.append(
            "  replay with: tributary-lab simulate --seed \(seed)\(replayFlags) --trace")
    }

    /// The figures, in lines.
    func figureLines(_ terminal: Terminal, seconds: Double?) -> [String] {
        let hours = Double(statistics.milliseconds) / 3_600_000
        var lines = [
            "\(statistics.nodes) nodes lived \(Self.rounded(hours)) simulated hours in "
                + "\(statistics.starts) lives",
            "\(statistics.saves) saves, \(statistics.refusals) refused, "
                + "\(statistics.unknowns) of unknown outcome, \(statistics.applied) applied "
                + "elsewhere",
            "\(statistics.conflicts) conflicts journalled, \(statistics.readings) readings, \(statistics.pastReadings) of the past, "
                + "explained by the oracle",
            "\(statistics.frames) frames, \(statistics.framesLost) lost, "
                + "\(statistics.framesRepeated) came twice",
            "\(statistics.faults["power loss", default: 0]) power losses and "
                + "\(statistics.faults["kill", default: 0]) kills: "
                + "\(violations[2, default: 0]) acknowledged saves lost (law 2), "
                + "\(violations[11, default: 0]) dots reused (law 11)",
        ]
        if let seconds, seconds > 0 {
            let speed = Double(statistics.milliseconds) / 1_000 / seconds
            lines.append(
                "\(Self.rounded(seconds)) s, \(Int(speed)) times as fast as real time")
        }
        var faults = Table(["FAULT", .init("TIMES", isNumeric: true)])
        for (name, count) in statistics.faults.sorted(by: { $0.key < $1.key }) {
            faults.add([Table.Cell(name), Table.Cell("\(count)")])
        }
        var paths = Table(["RARE PATH", .init("TIMES", isNumeric: true)])
        for beacon in Beacon.allCases {
            paths.add([Table.Cell(beacon.rawValue), Table.Cell("\(beacons[beacon])")])
        }
        return lines + [""] + faults.lines(terminal) + [""] + paths.lines(terminal) + [""]
    }

    /// `N seeds, M violations`.
    var lastLine: String { "\(statistics.runs) seeds, \(violationCount) violations" }

    /// The whole result, for `--json`.
    struct Whole: Encodable {
        var seconds: Double
        var statistics: RunStatistics
        var beacons: BeaconCounts
        var violations: [String]
        var violationCount: Int
    }

    func result(_ seconds: Double) -> Whole {
        Whole(
            seconds: seconds, statistics: statistics, beacons: beacons,
            violations: violationLines, violationCount: violationCount)
    }

    private static func rounded(_ number: Double) -> String {
        String(Double((number * 10).rounded()) / 10)
    }
}
