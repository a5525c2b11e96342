import ArgumentParser
import Console
import Coordinator
import Foundation
import Simulation

/// `tributary-lab simulate`.
struct SimulateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate",
        abstract: "Run whole clusters in a virtual world full of faults, and check every law.",
        discussion: """
            Each seed is one run: nodes with the product's own code over a virtual network, clock \
            and disk; work and faults; healing; then all checks. The same seed always gives the \
            same run. Ends with 0 only without a violation.

            tributary-lab simulate --seeds 1...1000
            tributary-lab simulate --seeds 1...200 --model notes.json
            tributary-lab simulate --seed 42 --trace
            tributary-lab simulate --shrink 42
            """)

    @Option(help: "The seeds to run: FIRST...LAST, or one.", transform: SeedRange.parse)
    var seeds: SeedRange = SeedRange(first: 1, last: 100)

    @Option(help: "Run this seed alone, and tell all about it.")
    var seed: UInt64?

    @Option(help: "Run this seed, which fails, with ever fewer events while it still fails.")
    var shrink: UInt64?

    @Option(help: "A model as JSON; without it models are drawn per seed.", completion: .file())
    var model: String?

    @Option(help: "How many nodes a cluster may have: FIRST...LAST, within 2...7.")
    var nodes: String = "2...7"

    @Option(help: "Only these events of the plan, such as 0,3,5-9; with --seed or --shrink.")
    var events: String?

    @Flag(help: "Print what happens, one line an event; with --seed.")
    var trace = false

    @Flag(help: "No faults: work alone.")
    var calm = false

    @Option(help: "How many runs go on at once, 1...64; by default one a core.")
    var jobs: Int?

    @Flag(help: "Fail also where a rare path was never met.")
    var requireBeacons = false

    @Flag(help: "Stop at the first violation.")
    var untilViolation = false

    @Option(help: "Run so many of the first seeds once more elsewhere: they must come out alike.")
    var checkReplay: UInt64 = 0

    @Flag(help: "Print JSON.")
    var json = false

    @Flag(help: .hidden)
    var worker = false

    @Option(help: .hidden)
    var stride: UInt64 = 1

    func run() async throws {
        let options = try simulationOptions()
        if worker { return SimulationWorker.serve(seeds, stride: stride, options: options) }
        if let shrink { return try minimise(shrink, options) }
        if let seed { return try runOne(seed, options) }
        try runAll()
    }

    private func simulationOptions() throws -> SimulationOptions {
        var options = SimulationOptions()
        if let model {
            let bytes = try ByteSource.whole(model, maximumBytes: 16 << 20)
            do {
                options.model = try ManagedObjectModel(json: bytes)
            } catch { throw CommandFailure.usage("\(model) is no model: \(error).") }
        }
        let bounds = try SeedRange.parse(nodes)
        guard (2...7).contains(bounds.first), (bounds.first...7).contains(bounds.last) else {
            throw CommandFailure.usage("--nodes takes FIRST...LAST within 2...7.")
        }
        options.nodes = Int(bounds.first)...Int(bounds.last)
        options.hasFaults = !calm
        options.isTraced = trace
        options.events = try events.map(EventList.parse)
        if options.events != nil, seed == nil, shrink == nil, !worker {
            throw CommandFailure.usage("--events goes with --seed or --shrink.")
        }
        return options
    }

    /// The flags that a replay needs besides the seed.
    private var replayFlags: String {
        var flags = ""
        if let model { flags += " --model \(model)" }
        if nodes != "2...7" { flags += " --nodes \(nodes)" }
        if calm { flags += " --calm" }
        return flags
    }

    // MARK: One seed

    private func runOne(_ seed: UInt64, _ options: SimulationOptions) throws {
        let report = Simulator.run(seed: seed, options: options)
        if json {
            try Terminal.print(bytes: Array(try JSONEncoder().encode(report)))
        } else {
            for line in report.trace { try Terminal.print(line) }
            var summary = SimulationSummary(replayFlags: replayFlags)
            summary.add(report)
            for line in summary.violationLines + summary.figureLines(.output, seconds: nil) {
                try Terminal.print(line)
            }
            try Terminal.print("fingerprint \(String(report.fingerprint, radix: 16))")
            try Terminal.print(summary.lastLine)
        }
        if !report.violations.isEmpty { throw ExitCode(1) }
    }

    private func minimise(_ seed: UInt64, _ options: SimulationOptions) throws {
        var progress = ProgressLine()
        // In processes of their own: a trap is a failure like another.
        let shrinker = Shrinker(seed: seed, options: options) { options in
            var flags = workerFlags
            if options.isTraced { flags.append("--trace") }
            if let events = options.events { flags += ["--events", EventList.text(events)] }
            var found: RunReport?
            SimulationWorkers(seeds: SeedRange(first: seed, last: seed), count: 1, flags: flags)
                .run { result in
                    if case .report(let report) = result { found = report }
                    return true
                }
            return found
        }
        let outcome = shrinker.shrink { left in progress.update(records: left, fraction: nil) }
        progress.end()
        guard let outcome else {
            try Terminal.print("Seed \(seed) does not fail: there is nothing to shrink.")
            return
        }
        for line in outcome.report?.trace ?? [] { try Terminal.print(line) }
        for violation in outcome.report?.violations ?? [] { try Terminal.print("\(violation)") }
        if outcome.report == nil {
            try Terminal.print("The run's process dies, or does not end.")
        }
        try Terminal.print(
            "\(outcome.events.count) events are left after \(outcome.runs) runs; replay with")
        try Terminal.print(
            "  tributary-lab simulate --seed \(seed)\(replayFlags) "
                + "--events \(EventList.text(outcome.events)) --trace")
        throw ExitCode(1)
    }

    // MARK: Many seeds

    private func runAll() throws {
        let cores = ProcessInfo.processInfo.activeProcessorCount
        let count = min(max(jobs ?? cores, 1), 64)
        var summary = SimulationSummary(replayFlags: replayFlags)
        var progress = ProgressLine(isQuiet: json)
        let total = Double(seeds.last - seeds.first) + 1
        let start = ContinuousClock.now
        var fingerprints: [UInt64: UInt64] = [:]
        let checked = seeds.first..<min(seeds.first &+ checkReplay, seeds.last + 1)
        try SimulationWorkers(seeds: seeds, count: count, flags: workerFlags).run { result in
            if case .report(let report) = result, checked.contains(report.seed) {
                fingerprints[report.seed] = report.fingerprint
            }
            let known = summary.violationLines.count
            summary.add(result)
            if !json {
                for line in summary.violationLines.dropFirst(known) {
                    progress.end()
                    try Terminal.print(line)
                }
            }
            progress.update(
                records: Int(summary.statistics.runs),
                fraction: Double(summary.statistics.runs) / total)
            return !(untilViolation && summary.violationCount > 0)
        }
        progress.end()
        if summary.violationCount == 0, !checked.isEmpty {
            let again = SeedRange(first: checked.lowerBound, last: checked.upperBound - 1)
            try SimulationWorkers(seeds: again, count: count, flags: workerFlags).run { result in
                guard case .report(let report) = result,
                    fingerprints[report.seed] == report.fingerprint
                else {
                    summary.addUnlikeRun(seed: result.seed)
                    try Terminal.print(summary.violationLines.joined(separator: "\n"))
                    return true
                }
                return true
            }
        }
        let seconds = Double((ContinuousClock.now - start) / .milliseconds(1)) / 1_000
        if json {
            try Terminal.print(bytes: Array(try JSONEncoder().encode(summary.result(seconds))))
        } else {
            for line in summary.figureLines(.output, seconds: seconds) { try Terminal.print(line) }
        }
        let missing = requireBeacons ? summary.beacons.missing : []
        if !missing.isEmpty, !json {
            try Terminal.print(
                "never met: " + missing.map(\.rawValue).joined(separator: ", "))
        }
        if !json { try Terminal.print(summary.lastLine) }
        if summary.violationCount > 0 || !missing.isEmpty { throw ExitCode(1) }
    }

    private var workerFlags: [String] {
        var flags = ["--nodes", nodes]
        if let model { flags += ["--model", model] }
        if calm { flags.append("--calm") }
        return flags
    }
}
