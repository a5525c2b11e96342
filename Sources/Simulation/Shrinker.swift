/// Makes a failing run small: leaves out events of its plan as long as a violation stays.
///
/// Delta debugging (Zeller and Hildebrandt 2002) over the plan's events: halves first, then
/// quarters, and so on, down to single events.
public struct Shrinker {
    /// The outcome.
    public struct Outcome: Hashable, Sendable {
        /// The places of the events that are left; a run of these alone fails.
        public let events: [Int]
        /// The report of that run; nil where its process died.
        public let report: RunReport?
        /// How many runs it took.
        public let runs: Int
    }

    private let seed: UInt64
    private let options: SimulationOptions
    private let runLimit: Int
    private let simulate: (SimulationOptions) -> RunReport?

    /// Prepares to shrink a seed's run.
    ///
    /// - Parameters:
    ///   - runLimit: the most runs it may take; at least 1.
    ///   - simulate: runs the seed; nil where the run trapped, which only a process of its own
    ///     outlives. Nil for runs in this process.
    public init(
        seed: UInt64, options: SimulationOptions = .init(), runLimit: Int = 2_000,
        simulate: ((SimulationOptions) -> RunReport?)? = nil
    ) {
        self.seed = seed
        self.options = options
        self.runLimit = runLimit
        self.simulate = simulate ?? { Simulator.run(seed: seed, options: $0) }
    }

    /// Shrinks; nil where the seed's run does not fail. What is left fails as the whole does: it
    /// violates the same law, or traps.
    ///
    /// - Parameter progress: told the number of events left, whenever it falls.
    public func shrink(progress: (Int) -> Void = { _ in }) -> Outcome? {
        let first = run(options.events)
        let law = first?.violations.first?.law
        if first != nil, law == nil { return nil }
        let all =
            options.events ?? Array(RunPlan(seed: seed, options: options).events.indices)
        let (kept, runs) = Self.minimise(all, attempts: runLimit - 1, progress: progress) {
            guard let report = run($0) else { return law == nil }
            return report.violations.contains { $0.law == law }
        }
        var traced = options
        traced.isTraced = true
        traced.events = kept
        return Outcome(events: kept, report: simulate(traced), runs: runs + 1)
    }

    /// Leaves out elements as long as what is left still fails: first halves, then ever smaller
    /// parts, until no single element can go.
    ///
    /// - Parameter attempts: the most that are made.
    /// - Returns: what is left, and how many attempts it took.
    static func minimise(
        _ all: [Int], attempts: Int, progress: (Int) -> Void, fails: ([Int]) -> Bool
    ) -> (kept: [Int], attempts: Int) {
        var kept = all
        var made = 0
        var chunk = max(1, kept.count / 2)
        while made < attempts, !kept.isEmpty {
            var isSmaller = false
            var begin = 0
            while begin < kept.count, made < attempts {
                var candidate = kept
                candidate.removeSubrange(begin..<min(begin + chunk, kept.count))
                made += 1
                if fails(candidate) {
                    kept = candidate
                    isSmaller = true
                    progress(kept.count)
                } else {
                    begin += chunk
                }
            }
            if chunk == 1, !isSmaller { break }
            chunk = max(1, chunk / 2)
        }
        return (kept, made)
    }

    private func run(_ events: [Int]?) -> RunReport? {
        var options = options
        options.events = events
        options.isTraced = false
        return simulate(options)
    }
}
