// Runs of the simulator in processes of their own: a trap in one run is that seed's violation, and
// the others go on.

import Foundation
import Simulation

/// A worker's reports, a line for each seed.
enum SimulationWorker {
    /// Runs every `stride`th seed of a range and prints each report as a line of JSON.
    static func serve(_ seeds: SeedRange, stride: UInt64, options: SimulationOptions) {
        let encoder = JSONEncoder()
        var seed = seeds.first
        while seed <= seeds.last {
            let report = Simulator.run(seed: seed, options: options)
            guard var line = try? encoder.encode(report) else { return }
            line.append(UInt8(ascii: "\n"))
            FileHandle.standardOutput.write(line)
            let (next, overflow) = seed.addingReportingOverflow(max(1, stride))
            if overflow { return }
            seed = next
        }
    }
}

/// A range of seeds divided among worker processes.
struct SimulationWorkers {
    /// The outcome of one seed.
    enum Result {
        case report(RunReport)
        /// The process died, or did not end.
        case died(seed: UInt64, reason: String)

        /// Which seed.
        var seed: UInt64 {
            switch self {
            case .report(let report): report.seed
            case .died(let seed, _): seed
            }
        }
    }

    /// The longest a single run may take before it counts as hanging, in seconds: hundreds of
    /// times the usual.
    static let longestSeconds = 300

    let seeds: SeedRange
    let count: Int
    let flags: [String]

    /// Runs all seeds; `body` is called once a seed, on this thread, in no certain order, and gives
    /// false to stop.
    func run(_ body: (Result) throws -> Bool) rethrows {
        let results = ResultQueue()
        let lanes = min(UInt64(count), seeds.last - seeds.first + 1)
        for lane in 0..<lanes {
            let flags = flags
            let first = seeds.first + lane
            let last = seeds.last
            Thread.detachNewThread {
                Lane(next: first, last: last, stride: lanes, flags: flags).run(into: results)
            }
        }
        var open = lanes
        while open > 0 {
            switch results.take() {
            case .result(let result):
                do {
                    if !results.isStopped, try !body(result) { results.stop() }
                } catch {
                    results.stop()
                    // No worker is left behind.
                    while open > 0 { if case .laneEnded = results.take() { open -= 1 } }
                    throw error
                }
            case .laneEnded: open -= 1
            }
        }
    }
}

/// One worker after the other, for every nth seed.
private struct Lane {
    var next: UInt64
    let last: UInt64
    let stride: UInt64
    let flags: [String]

    func run(into results: ResultQueue) {
        var lane = self
        while lane.next <= lane.last, !results.isStopped {
            if let reason = lane.runWorker(into: results), !results.isStopped {
                results.give(.result(.died(seed: lane.next, reason: reason)))
                lane.next += stride
            }
        }
        results.give(.laneEnded)
    }

    /// Runs a worker until its end.
    ///
    /// - Returns: why it died; nil where it did all it was to do.
    private mutating func runWorker(into results: ResultQueue) -> String? {
        let arguments = [
            "simulate", "--worker", "--seeds", "\(next)...\(last)", "--stride", "\(stride)",
        ]
        let process: WorkerProcess
        do {
            process = try WorkerProcess("/proc/self/exe", arguments + flags)
        } catch { return "the worker cannot be started: \(error)" }
        let watchdog = Watchdog(process) { results.isStopped }
        let decoder = JSONDecoder()
        var buffer = Data()
        while true {
            let bytes = process.read()
            if bytes.isEmpty { break }
            buffer.append(bytes)
            while let end = buffer.firstIndex(of: UInt8(ascii: "\n")) {
                let line = buffer[buffer.startIndex..<end]
                if let report = try? decoder.decode(RunReport.self, from: Data(line)) {
                    results.give(.result(.report(report)))
                    next = report.seed + stride
                    watchdog.touch()
                }
                buffer.removeSubrange(buffer.startIndex...end)
            }
        }
        let ending = process.wait()
        watchdog.end()
        if next > last { return nil }
        if watchdog.hasBitten {
            return "the run did not end in \(SimulationWorkers.longestSeconds) s"
        }
        return switch ending {
        case .exit(let code): "the process ended with \(code)"
        case .signal(let number): "the process died of signal \(number)"
        }
    }
}

/// Kills a worker that reports nothing for too long. Thread-safe.
private final class Watchdog: @unchecked Sendable {
    // Safe: every member is read and written under the lock.
    private let lock = NSLock()
    private let process: WorkerProcess
    private var touched = ContinuousClock.now
    private var isOver = false
    private var bit = false
    private let isStopped: @Sendable () -> Bool

    init(_ process: WorkerProcess, isStopped: @escaping @Sendable () -> Bool) {
        self.process = process
        self.isStopped = isStopped
        Thread.detachNewThread { [self] in
            while look() { Thread.sleep(forTimeInterval: 0.2) }
        }
    }

    var hasBitten: Bool { lock.withLock { bit } }

    func touch() { lock.withLock { touched = .now } }

    func end() { lock.withLock { isOver = true } }

    private func look() -> Bool {
        lock.withLock {
            guard !isOver else { return false }
            if isStopped() {
                isOver = true
                process.kill()
                return false
            }
            if ContinuousClock.now - touched > .seconds(SimulationWorkers.longestSeconds) {
                bit = true
                isOver = true
                process.kill()
                return false
            }
            return true
        }
    }
}

/// The lanes' reports for the thread that adds them up. Bounded by the pace of the runs: one small
/// report every some milliseconds, taken at once.
private final class ResultQueue: @unchecked Sendable {
    enum Event {
        case result(SimulationWorkers.Result)
        case laneEnded
    }

    // Safe: touched under the condition only.
    private let condition = NSCondition()
    private var events: [Event] = []
    private var stopped = false

    /// Whether results are not wanted any more.
    var isStopped: Bool { condition.withLock { stopped } }

    func stop() { condition.withLock { stopped = true } }

    func give(_ event: Event) {
        condition.withLock {
            events.append(event)
            condition.signal()
        }
    }

    func take() -> Event {
        condition.withLock {
            while events.isEmpty { condition.wait() }
            return events.removeFirst()
        }
    }
}
