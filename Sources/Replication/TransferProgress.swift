import Merge

/// How far a *store transfer* has come, at the node that takes one in.
///
///     asking ──part──► taking ──on disk──► asking … ──whole──► checking ──► the shell installs it
///       │ ▲               │                                        │
///       ▼ └── pausing ◄───┘ disk failed ──► given up for some time ◄── will not do
///     time is over, donor gives none or is not believed any more: given up, another is asked
///
/// Invariants: at most one part is asked for or in memory; what is at `offset` is on disk.
struct TransferProgress: Hashable, Sendable {
    enum Phase: Hashable, Sendable {
        /// A part was asked for.
        case asking(id: UInt64, deadline: UInt64)
        /// A part is being written.
        case taking
        /// The donor is asked again at that time, or whenever it is there.
        case pausing(until: UInt64)
        /// The copy is whole, and looked at.
        case checking
    }

    var donor: NodeID
    /// The incarnation that was asked last.
    var donorActor: ActorID?
    /// Whether logs would do as well, had they not so much to tell.
    var isNewcomer: Bool
    /// The vector that the copy must have, as it was when the donor was first asked: a wish that
    /// grows while the copy is made would need another.
    var wish: VersionVector
    /// Which copy, once the donor has told.
    var copy: TransferCopy?
    var offset: UInt64 = 0
    var phase: Phase

    /// Whether nothing is to be done but to wait for the donor.
    var isWaiting: Bool {
        switch phase {
        case .asking, .pausing: true
        case .taking, .checking: false
        }
    }
    /// When a part last came, or the donor was chosen.
    var progressedAt: UInt64
}
