/// The outcome of one run.
public struct RunReport: Hashable, Sendable, Codable {
    /// The seed.
    public let seed: UInt64
    /// The violations of laws; empty nearly always.
    public var violations: [Violation] = []
    /// How often rare paths were met.
    public var beacons = BeaconCounts()
    /// The run in figures.
    public var statistics = RunStatistics()
    /// How many events the plan has.
    public var eventCount = 0
    /// The run line by line, if that was asked for.
    public var trace: [String] = []
    /// A hash of the final vectors, digests and clocks: the same for the same seed, anywhere.
    public var fingerprint: UInt64 = 0
}

/// One or many runs in figures.
public struct RunStatistics: Hashable, Sendable, Codable {
    /// Runs.
    public var runs: UInt64 = 0
    /// Virtual milliseconds lived through.
    public var milliseconds: UInt64 = 0
    /// Nodes, all runs together.
    public var nodes: UInt64 = 0
    /// Saves acknowledged.
    public var saves: UInt64 = 0
    /// Saves refused.
    public var refusals: UInt64 = 0
    /// Saves whose outcome their client never learnt.
    public var unknowns: UInt64 = 0
    /// Other nodes' transactions applied.
    public var applied: UInt64 = 0
    /// Entries of conflict journals at the end, all nodes together.
    public var conflicts: UInt64 = 0
    /// Reads that the oracle explained.
    public var readings: UInt64 = 0
    /// Readings of the past, by history applied again.
    public var pastReadings: UInt64 = 0
    /// Frames sent.
    public var frames: UInt64 = 0
    /// Frames lost on the way.
    public var framesLost: UInt64 = 0
    /// Frames that came twice.
    public var framesRepeated: UInt64 = 0
    /// Processes started.
    public var starts: UInt64 = 0
    /// Faults that happened, by their kind's name, sorted.
    public var faults: [String: UInt64] = [:]

    /// No figures yet.
    public init() {}

    /// Adds another's.
    public mutating func add(_ other: RunStatistics) {
        runs += other.runs
        milliseconds += other.milliseconds
        nodes += other.nodes
        saves += other.saves
        refusals += other.refusals
        unknowns += other.unknowns
        applied += other.applied
        conflicts += other.conflicts
        readings += other.readings
        pastReadings += other.pastReadings
        frames += other.frames
        framesLost += other.framesLost
        framesRepeated += other.framesRepeated
        starts += other.starts
        for (name, count) in other.faults { faults[name, default: 0] += count }
    }
}
