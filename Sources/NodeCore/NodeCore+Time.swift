internal import Coordinator
internal import Merge
internal import Replication

/// The work that is due as time passes.
extension NodeCore {
    /// Takes in that time has passed, and begins the duties that are due.
    mutating func tick(wall: UInt64, awaited: [NodeID]) {
        feed(.tick(now: now, wallMilliseconds: wall))
        if duties.begin(.reaching, every: settings.intervals.reaching, now: now) {
            duties.end(.reaching)
            ask(unreached.sorted())
        }
        heedDouble()
        makeDurableIfDue()
        // Peers tell where they stand each second; one that somebody waits for is asked at once.
        ask(awaited)
        collectIfDue()
        recordIfDue()
        keepOrphansIfDue()
        tendHistoryIfDue()
        let upkeep = settings.intervals.upkeep
        if duties.begin(.upkeep, every: upkeep, now: now) { perform(.maintain) }
        if duties.begin(.transfers, every: upkeep, now: now) {
            perform(.tendTransfers(all: false))
        }
    }

    /// Ends the run where another process lives under this node's number, or may.
    private mutating func heedDouble() {
        switch double.verdict(now: now) {
        case .goOn: break
        case .end: end(.numberInUse)
        case .endForOtherStore: end(.otherStore)
        case .reopen(let later, let hasMet): end(.laterIncarnation(later, hasMet: hasMet))
        }
    }

    /// Makes durable what was applied, and sooner where a peer has asked where this node stands: its
    /// durable vector is what the peer may be waiting for.
    private mutating func makeDurableIfDue() {
        let intervals = settings.intervals
        guard state.durable != state.vector,
            duties.begin(
                .durability,
                every: isDurabilityAsked ? intervals.promptDurability : intervals.durability,
                now: now)
        else { return }
        isDurabilityAsked = false
        perform(.makeDurable)
    }

    private mutating func recordIfDue() {
        guard state.recorded != state.durable,
            duties.begin(.recording, every: settings.intervals.recording, now: now)
        else { return }
        perform(.record)
    }

    /// Lets the store collect what is stable, some rows at a time: saves wait for it.
    private mutating func collectIfDue() {
        let intervals = settings.intervals
        guard !isCollected || stable != collectedAt,
            duties.begin(.collection, every: intervals.collection, now: now)
        else { return }
        collectedAt = stable
        perform(.collect(stable: stable, limit: intervals.collected))
    }

    private mutating func keepOrphansIfDue() {
        let next = orphans.next
        guard !next.isEmpty, duties.begin(.orphans, every: 0, now: now) else { return }
        perform(.keepOrphans(next))
    }

    /// Takes a step towards the limits of history: each tick while there is more to do, else every
    /// second.
    ///
    /// A store that was put back and that nobody has vouched for purges nothing: others may need
    /// what it has.
    private mutating func tendHistoryIfDue() {
        guard let limits = settings.history, duties.isDue(.history, every: 0, now: now) else {
            return
        }
        let status = replicator.status
        guard let elsewhere = status.recordedElsewhere,
            duties.begin(.history, every: 0, now: now)
        else { return }
        perform(
            .tendHistory(
                limits, HistoryKnowledge(stable: status.stable, elsewhere: elsewhere)))
    }
}
