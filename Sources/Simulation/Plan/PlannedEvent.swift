/// One thing that a run's plan makes happen at a time: work of clients, or a fault.
///
/// Each has a seed of its own, so that leaving one out changes none of the others' chance: that is
/// what makes a failing run shrink.
struct PlannedEvent: Hashable, Sendable {
    /// When, in virtual milliseconds since the run began.
    var milliseconds: UInt64
    /// Where its chance begins.
    var seed: UInt64
    /// The event.
    var kind: Kind

    /// The kinds of events. Machines are numbered from 0; those that join come after the founders.
    enum Kind: Hashable, Sendable {
        /// Clients of a node do some steps of one workload.
        case work(node: Int, workload: Int, steps: Int)
        /// A client reads everything.
        case read(node: Int)
        /// A client pins the newest generation, and reads it again after a time.
        case pin(node: Int, milliseconds: UInt64)

        /// The machines of one side are cut off from the others; links one way only where so.
        case partition(side: [Int], isOneWay: Bool, milliseconds: UInt64)
        /// One link is cut.
        case cut(from: Int, to: Int, milliseconds: UInt64)
        /// One link holds its frames, and lets them go in random order.
        case clog(from: Int, to: Int, milliseconds: UInt64)

        /// A process stops answering for a time.
        case pause(node: Int, milliseconds: UInt64)
        /// A process is closed in order, and started again.
        case close(node: Int, milliseconds: UInt64)
        /// A process is killed, at once or in the midst of a coming disk operation.
        case kill(node: Int, afterOperations: UInt64, milliseconds: UInt64)
        /// A machine loses its power, at once or in the midst of a coming disk operation.
        case powerLoss(node: Int, afterOperations: UInt64, milliseconds: UInt64)

        /// An image of the disk is taken while the process runs, for `restore`.
        case backUp(node: Int)
        /// A machine's disk is lost; it starts empty.
        case wipe(node: Int, milliseconds: UInt64)
        /// A machine's disk is replaced by its last image.
        case restore(node: Int, milliseconds: UInt64)
        /// A copy of a machine is started beside it.
        case copy(node: Int, takesAddress: Bool, milliseconds: UInt64)

        /// A machine's clock steps.
        case clockStep(node: Int, milliseconds: Int64)

        /// A machine's disk is full for a time.
        case diskFull(node: Int, milliseconds: UInt64)
        /// A coming write fails.
        case writeError(node: Int, afterOperations: UInt64)
        /// A coming read fails.
        case readError(node: Int, afterOperations: UInt64)
        /// A coming fsync fails.
        case syncError(node: Int, afterOperations: UInt64)

        /// A process is closed in order, and its store opened with a later one of the run's models.
        case migrate(node: Int, edition: Int, milliseconds: UInt64)
        /// A process is closed in order, its store opened with a model that it is to refuse, and then
        /// with its own.
        case tryModel(node: Int, trial: Int, milliseconds: UInt64)
        /// A process ends. Its store, or a new one, is opened with an edition that deviates from
        /// the others' and, after a time, made again.
        case deviate(node: Int, edition: Int, milliseconds: UInt64)
        /// A node takes a copy of another's store over, though logs would do.
        case takeOver(node: Int, donor: Int)
        /// A machine is made a member through another, and started once a majority knows it.
        case join(node: Int)
        /// A node ends its own membership.
        case leave(node: Int)
        /// A node is retired by another. Where it is cut off it was so for a time before, and
        /// stays so for a time after, or until the faults are over.
        case retire(node: Int, cut: UInt64?, away: UInt64?)
    }
}

extension PlannedEvent.Kind {
    /// The name of the kind, for the table of faults.
    var name: String {
        switch self {
        case .work: "work"
        case .read: "read"
        case .pin: "pin"
        case .partition(_, let isOneWay, _): isOneWay ? "one-way partition" : "partition"
        case .cut: "cut"
        case .clog: "clogged link"
        case .pause: "pause"
        case .close: "close"
        case .kill: "kill"
        case .powerLoss: "power loss"
        case .backUp: "backup"
        case .wipe: "wiped store"
        case .restore: "restored store"
        case .copy: "copied store"
        case .clockStep: "clock step"
        case .diskFull: "disk full"
        case .writeError: "write error"
        case .readError: "read error"
        case .syncError: "failed fsync"
        case .migrate: "next model"
        case .tryModel: "refused model"
        case .deviate: "deviating model"
        case .takeOver: "copy taken over"
        case .join: "join"
        case .leave: "leave"
        case .retire(_, let cut, _): cut == nil ? "retirement" : "retirement while cut off"
        }
    }
}
