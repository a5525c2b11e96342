internal import Coordinator
internal import NodeCore
internal import Replication

/// How one machine's process is set up: the product's own settings, some of them odd but legal.
struct MachineSettings: Hashable, Sendable {
    /// The replicator's bounds.
    var limits = Limits()
    /// How often what was applied is made durable, in milliseconds.
    var durabilityMilliseconds: UInt64 = 1_000
    /// How often what is durable is recorded beside the store, in milliseconds.
    var recordMilliseconds: UInt64 = 1_000
    /// How often what is stable is collected, in milliseconds.
    var collectionMilliseconds: UInt64 = 1_000
    /// How many candidates one collection looks at.
    var collectionLimit = 1_000
    /// The longest a commit, an apply or a read of the log takes to be heard of, in microseconds.
    var handoverMicroseconds: UInt64 = 2_000
    /// Pages of write-ahead log after which SQLite checkpoints.
    var checkpointPages = 4_000
    /// The most write-ahead log that pins may hold, in bytes.
    var walLimit: UInt64 = 1 << 30
    /// The longest a pin may live, in milliseconds.
    var pinLimitMilliseconds: UInt64 = 3_600_000
    /// The most bytes of history that the machine keeps; nil for all.
    var historyBytes: UInt64?
    /// How long history is kept that is stable and read, in milliseconds; nil for as long as the
    /// product keeps it, which is longer than a run.
    var historyMilliseconds: UInt64?
    /// The most closed conflicts that the machine keeps; nil for as many as the product does.
    var journalRecords: Int?
    /// Whether somebody reads its history by name.
    var hasConsumer = false
    /// Whether its store is joined by rows with a copy that takes its place, though its log would do.
    var joinsAlways = false
    /// How far the machine's clock is off from the start, in milliseconds.
    var clockOffset: Int64 = 0

    /// How much history it keeps; nil for all of it.
    var historyLimits: HistoryLimits? {
        if historyBytes == nil, historyMilliseconds == nil, journalRecords == nil { return nil }
        var limits = HistoryLimits()
        if let historyBytes { limits.maximumBytes = historyBytes }
        if let historyMilliseconds { limits.keepMilliseconds = historyMilliseconds }
        if let journalRecords { limits.maximumRecords = journalRecords }
        return limits
    }

    /// How its node is run.
    var core: NodeCore.Settings {
        var core = NodeCore.Settings()
        core.limits = limits
        core.history = historyLimits
        core.intervals.durability = durabilityMilliseconds
        core.intervals.promptDurability = min(
            core.intervals.promptDurability, durabilityMilliseconds)
        core.intervals.recording = recordMilliseconds
        core.intervals.collection = collectionMilliseconds
        core.intervals.collected = collectionLimit
        return core
    }

    /// Draws settings: mostly the defaults, and each oddity by itself with some chance.
    static func draw(_ generator: inout SeededGenerator) -> MachineSettings {
        var settings = MachineSettings()
        func chance(_ oneIn: Int) -> Bool { Int.random(in: 0..<oneIn, using: &generator) == 0 }
        if chance(4) { settings.limits.applyCount = 1 }
        if chance(4) { settings.limits.pageBytes = Int.random(in: 256...4096, using: &generator) }
        if chance(6) { settings.limits.notificationBytes = 256 }
        if chance(5) {
            settings.limits.waitingCount = Int.random(in: 1...4, using: &generator)
            settings.limits.backlogCount = Int.random(in: 1...3, using: &generator)
        }
        if chance(6) { settings.limits.graceMilliseconds = 0 }
        if chance(8) { settings.limits.headsMilliseconds = 200 }
        if chance(4) {
            settings.durabilityMilliseconds = UInt64.random(in: 50...5_000, using: &generator)
        }
        if chance(4) {
            settings.recordMilliseconds = UInt64.random(in: 0...6_000, using: &generator)
        }
        if chance(4) {
            settings.collectionMilliseconds = UInt64.random(in: 50...400, using: &generator)
        }
        if chance(4) { settings.collectionLimit = Int.random(in: 1...5, using: &generator) }
        if chance(3) {
            settings.handoverMicroseconds = UInt64.random(in: 0...200_000, using: &generator)
        }
        if chance(2) { settings.checkpointPages = Int.random(in: 4...100, using: &generator) }
        if chance(8) { settings.walLimit = UInt64.random(in: 20_000...200_000, using: &generator) }
        if chance(8) {
            settings.pinLimitMilliseconds = UInt64.random(in: 500...10_000, using: &generator)
        }
        if chance(3) {
            settings.clockOffset = Int64.random(in: -60_000...60_000, using: &generator)
        }
        return settings
    }
}
