/// The faults of a simulated disk.
package enum DiskFault: Hashable, Sendable, CaseIterable {
    /// The power goes in the middle of an operation; from then on every call fails until
    /// ``SimulatedDisk/losePower(_:)``.
    case powerLoss
    /// The process dies in the middle of an operation; from then on every call fails until
    /// ``SimulatedDisk/kill()``.
    case kill
    /// The next write, truncation, removal or creation fails, once; a write may be there in part.
    case writeError
    /// The next read fails, once.
    case readError
    /// The next sync fails, once. What it had to make durable is so or not, by a draw, though
    /// later syncs succeed: the system does not try again.
    case syncError
    /// No file can grow any more, until ``SimulatedDisk/disarm()``.
    case full

    /// The name of the kind, for the table of faults.
    var name: String {
        switch self {
        case .powerLoss: "power loss"
        case .kill: "kill"
        case .writeError: "write error"
        case .readError: "read error"
        case .syncError: "failed fsync"
        case .full: "disk full"
        }
    }
}
