// The jobs that wait for a commit, and which of them go together.

/// The jobs that wait, in the order in which they came.
struct CommitQueue {
    /// The most jobs that may wait. Past it callers get an error, before memory runs out.
    static let waitingJobs = 20_000
    /// Jobs in a group, and their operations: what bounds the time until the first of them is
    /// acknowledged. A longer save is alone in its group.
    static let jobsInGroup = 512
    static let operationsInGroup = 5_000
    /// The operations of a short job, and the bytes of a short transaction.
    static let shortOperations = 64
    static let shortBytes = 64 << 10
    /// A commit that takes this long, in milliseconds, shows that the disk is not quick.
    static let longCommit: UInt64 = 20
    /// For how many commits after such a one the writer's queue leads.
    static let commitsByQueue = 100

    /// Which jobs a leader takes.
    enum Reach {
        case all
        /// Short ones, and only while the disk is quick.
        case short
    }

    private(set) var jobs: [CommitJob] = []
    /// Whether somebody leads. The one that sets it works off jobs until there are none, and
    /// clears it in the same look at the list, so that no job is left behind.
    private(set) var isLed = false
    /// How many commits more the writer's queue leads, for the disk was not quick.
    private var commitsByQueue = 0

    /// Whether commits were quick of late, so that a caller may lead in its own thread.
    var isDiskQuick: Bool { commitsByQueue == 0 }

    /// Adds as many of some jobs as there is room for.
    ///
    /// - Returns: how many, and whether who has added them must lead.
    mutating func add(_ added: [CommitJob]) -> (accepted: Int, leads: Bool) {
        let accepted = min(added.count, max(0, Self.waitingJobs - jobs.count))
        guard accepted > 0 else { return (0, false) }
        jobs += added.prefix(accepted)
        defer { isLed = true }
        return (accepted, !isLed)
    }

    /// Takes the most jobs from the front that go together, within bounds.
    ///
    /// - Returns: none if the first is out of reach; nil if none waits, and then nobody leads any more.
    mutating func takeGroup(_ reach: Reach) -> [CommitJob]? {
        guard let first = jobs.first else {
            isLed = false
            return nil
        }
        if reach == .short, !isDiskQuick { return [] }
        var count = 0
        var size = 0
        var (hasSaves, hasUpkeep) = (first.isSave, first.isUpkeep)
        for job in jobs {
            hasSaves = hasSaves || job.isSave
            hasUpkeep = hasUpkeep || job.isUpkeep
            guard count < Self.jobsInGroup, !(hasSaves && hasUpkeep),
                reach == .all || job.isShort,
                count == 0 || size + job.size <= Self.operationsInGroup
            else { break }
            size += job.size
            count += 1
        }
        defer { jobs.removeFirst(count) }
        return Array(jobs[0..<count])
    }

    /// Takes all jobs, in order to fail them.
    mutating func takeAll() -> [CommitJob] {
        defer { jobs = [] }
        return jobs
    }

    /// Takes note of a commit that took so many milliseconds.
    mutating func noteCommit(milliseconds: UInt64) {
        commitsByQueue =
            milliseconds >= Self.longCommit ? Self.commitsByQueue : max(0, commitsByQueue - 1)
    }
}
