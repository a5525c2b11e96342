/// Every bound of the protocol, with its reason. The defaults suit a cluster of a few dozen nodes.
///
/// All of them hold whatever a peer does (DESIGN, law 9). Times are monotonic milliseconds.
package struct Limits: Hashable, Sendable {
    /// The longest transaction that is published whole; longer ones are announced and pulled.
    /// Beyond this a lost frame costs more than the extra round trip.
    package var notificationBytes = 256 * 1024
    /// The longest frame in which several small transactions of one group commit are published.
    package var groupedNotificationBytes = 64 * 1024
    /// Byte credit of one pull, the size of a page and of a piece: long enough to amortise the
    /// round trip, short enough that a slow peer holds little.
    package var pageBytes = 4 * 1024 * 1024
    /// The longest frame accepted. The socket's own limit (MAXMSGSIZE) must be at least this: a
    /// page with its overhead.
    package var frameBytes = 4 * 1024 * 1024 + 512 * 1024
    /// The longest list of models, unless the newest one alone is longer. A node without keys takes
    /// less from a stranger than a frame may be.
    package var modelListBytes = 4 * 1024 * 1024 + 512 * 1024
    /// The longest transaction that can be carried at all, in pieces: what reassembly may take.
    /// A store must refuse a longer save.
    package var transactionBytes = 256 * 1024 * 1024
    /// The most transactions in one page or notification; bounds the work that one frame causes.
    package var transactionsInFrame = 65_536

    /// The most transactions that wait for their predecessors in memory.
    package var waitingCount = 10_000
    /// The most bytes of transactions that wait for their predecessors in memory. What is over
    /// is dropped, the furthest from deliverable first, and pulled again later.
    package var waitingBytes = 32 * 1024 * 1024
    /// While more bytes than this are about to be applied, no page is asked for or taken in.
    /// Notifications are dropped that would make what waits and what is about to be applied more
    /// than this: it keeps room for the page that fills the gap.
    package var backlogBytes = 16 * 1024 * 1024
    /// As ``backlogBytes``, in transactions.
    package var backlogCount = 5_000

    /// The most transactions in one apply effect: one fsync for many, yet readers see progress.
    package var applyCount = 1_000
    /// The most bytes in one apply effect, unless a single transaction is longer.
    package var applyBytes = 4 * 1024 * 1024

    /// The most changes in one apply effect, unless a single transaction has more: that one is alone.
    package var applyChanges = 5_000

    /// The most values of properties in one apply effect, as ``applyChanges``: 12 MB in memory, whatever
    /// few bytes they have.
    package var applyValues = 500_000

    /// The most actors for which transactions wait for their predecessors in memory: every node
    /// there may be. From another actor only what can be applied at once is taken; the rest is
    /// pulled again.
    package var lanes = 1_024
    /// The most actors in a vector that is remembered of a peer: restarts of all nodes that are
    /// not yet compacted.
    package var actors = 16_384
    /// The most nodes that state is kept for; strangers beyond it are ignored.
    package var peers = 1_024
    /// The most transactions remembered by name that were dropped as their actor was closed, until it
    /// is known whether they are lost: as many as can wait.
    package var orphans = 10_000
    /// The most bytes of them that are kept until it is known whether somebody has what they wait for;
    /// what is over is remembered by name only. As much as can wait, so that all that a node which is
    /// lost has left waiting fits: it goes over from the queue, and takes no more memory than there.
    package var orphanBytes = 32 * 1024 * 1024

    /// How often heads are published, on average; each interval is between 0.8 and 1.2 of it.
    package var headsMilliseconds: UInt64 = 1_000
    /// A peer that was heard within this time counts as connected: five heads.
    package var connectedMilliseconds: UInt64 = 5_000
    /// A peer whose heads have not come by PUB/SUB for this long is asked over the exchange.
    package var silenceMilliseconds: UInt64 = 2_500
    /// An incarnation of a node that was heard within this time is taken to be alive: a later one is not
    /// listened to, unless it says that the elder has ended. So long is also waited for the elder after
    /// a start. Two heads and more may be late or lost.
    package var elderMilliseconds: UInt64 = 3_000
    /// How long a store that must be met before it takes saves waits to hear anybody, and a new one to be
    /// met. Members that are there answer a hello at once; a save that comes meanwhile waits for two
    /// seconds.
    package var lonelyMilliseconds: UInt64 = 1_500
    /// How long a store that may be a copy waits to be met where members are heard, before it takes saves:
    /// a later incarnation is met, or refused, after ``elderMilliseconds`` and two heads.
    package var meetingMilliseconds: UInt64 = 6_000
    /// How long an incarnation that members refuse waits for another to meet it, before it ends.
    package var refusalMilliseconds: UInt64 = 2_000
    /// How long a gap may close by itself before it is pulled, where nothing shows that the
    /// notification was lost: two nodes' notifications commonly overtake each other.
    package var graceMilliseconds: UInt64 = 100
    /// After this time without an answer a pull counts as lost; doubled with each in a row.
    package var pullTimeoutMilliseconds: UInt64 = 2_000
    /// The longest a pull waits.
    package var pullTimeoutMaximumMilliseconds: UInt64 = 30_000
    /// The most bytes of large transactions that are being sent in pieces, unless a single one is
    /// longer: two of the longest, for with room for one, peers that fetch two at a time would have
    /// each of them read whole for every piece of it.
    package var outgoingBytes = 512 * 1024 * 1024
    /// A large transaction that is being sent in pieces is forgotten this long after its last use.
    package var outgoingMilliseconds: UInt64 = 30_000

    /// A node that has nothing of the others, and fewer saves of its own, is given a copy of a
    /// member's store where that holds so many transactions: it costs the time of the bytes alone.
    /// Fewer are applied as quickly.
    package var transferTransactions: UInt64 = 10_000
    /// The longest part of a copy: what a joiner and its donor have of it in memory. It must fit a
    /// frame.
    package var transferPartBytes = 1024 * 1024
    /// The most that a node which is saved to gives of its copies in a second, to all takers
    /// together; 0 for no bound. The shell's to keep: fewer saves meet what is drawn out.
    package var transferBytesPerSecond: UInt64 = 10 * 1024 * 1024
    /// How long the first part of a copy may take: the donor has to make the copy, at the speed of
    /// its disk: 20 GB at 80 MB a second.
    package var transferTimeoutMilliseconds: UInt64 = 250_000
    /// How long a donor may give nothing, or be gone, before another is asked. It is asked again
    /// for a part after ``pullTimeoutMaximumMilliseconds``.
    package var transferPatienceMilliseconds: UInt64 = 60_000
    /// How long no copy is asked for after the first in a run that could not be taken in; doubled
    /// with each.
    package var transferRetryMilliseconds: UInt64 = 60_000
    /// The longest of these pauses.
    package var transferRetryMaximumMilliseconds: UInt64 = 3_600_000

    /// The first quarantine of a link; doubled with each.
    package var quarantineMilliseconds: UInt64 = 60_000
    /// The longest quarantine; after as long without an offence the next is the first again.
    package var quarantineMaximumMilliseconds: UInt64 = 3_600_000
    /// How far ahead of wall time a timestamp may be before its transaction is held.
    package var futureMilliseconds: UInt64 = 300_000
    /// How long a transaction that could not be applied waits before it is tried again.
    package var rejectedMilliseconds: UInt64 = 60_000

    /// The defaults.
    package init() {}
}
