// Store transfers as the shell does them: parts of this store's copy read for others, parts of
// another's written, and the whole looked at.
//
// Threading: made and called on the loop's thread; the work is done on a queue of its own, one
// part at a time, and the answers go through the handover queue.

internal import Coordinator
internal import Dispatch
internal import Logging
internal import Merge
internal import Replication

/// The copies that this node gives and takes.
struct StoreTransfers: Sendable {
    private let coordinator: PersistentStoreCoordinator
    private let handover: HandoverQueue
    private let logger: Logger
    private let outgoing: OutgoingTransfer
    private let incoming: IncomingTransfer
    /// Giving and taking wait for the disk, and for each other only by it.
    private let givingQueue = DispatchQueue(label: "tributary.node.giving", qos: .utility)
    private let takingQueue = DispatchQueue(label: "tributary.node.taking", qos: .utility)

    init(coordinator: PersistentStoreCoordinator, handover: HandoverQueue, logger: Logger) {
        self.coordinator = coordinator
        self.handover = handover
        self.logger = logger
        outgoing = OutgoingTransfer(coordinator) { MonotonicClock.milliseconds }
        incoming = IncomingTransfer(for: coordinator)
    }

    /// Where an earlier run has left the copy that it was taking in. What cannot be gone on with
    /// is removed, like the copies that it gave.
    func begin() -> Replicator.Configuration.BegunTransfer? {
        tend(all: true)
        guard let begun = incoming.begun() else {
            discard()
            return nil
        }
        return .init(
            donor: begun.offer.donor, copy: Self.copy(begun.offer), offset: begun.offset)
    }

    /// Removes the copies for others that nobody needs any more, or all.
    func tend(all: Bool = false) {
        let outgoing = outgoing
        givingQueue.async { outgoing.tend(all: all) }
    }

    /// Removes what has come of another's copy.
    func discard() {
        let incoming = incoming
        let logger = logger
        takingQueue.async {
            do {
                try incoming.discard()
            } catch {
                logger.error(
                    "What there is of a copy could not be removed",
                    metadata: [LogKeys.error: "\(error)"])
            }
        }
    }

    /// Reads a part of this store's copy.
    ///
    /// - Parameter delay: how long to wait before, in milliseconds.
    func read(
        _ id: UInt64, _ number: UInt64, from offset: UInt64, byteLimit: Int, for node: NodeID,
        covering vector: VersionVector, after delay: UInt64
    ) {
        let handover = handover
        let logger = logger
        let outgoing = outgoing
        givingQueue.asyncAfter(deadline: .now() + .milliseconds(Int(clamping: delay))) {
            do {
                let part = try outgoing.read(
                    number, from: offset, byteLimit: byteLimit, for: node, covering: vector)
                if part.offset == 0 {
                    logger.notice(
                        "A member is given a copy of the store",
                        metadata: [
                            LogKeys.peer: "\(node)", LogKeys.bytes: "\(part.offer.total)",
                        ])
                }
                handover.give(
                    .transferRead(
                        id: id, Self.copy(part.offer), offset: part.offset, bytes: part.bytes))
            } catch {
                logger.error(
                    "A copy of the store could not be made or read",
                    metadata: [LogKeys.peer: "\(node)", LogKeys.error: "\(error)"])
                handover.give(.transferRead(id: id, nil, offset: 0, bytes: []))
            }
        }
    }

    func take(_ copy: TransferCopy, donor: NodeID, offset: UInt64, bytes: [UInt8]) {
        let handover = handover
        let logger = logger
        let incoming = incoming
        let offer = TransferOffer(
            donor: donor, number: copy.number, total: copy.total, digest: copy.digest)
        if offset == 0 {
            logger.notice(
                "A copy of a member's store is taken over",
                metadata: [LogKeys.peer: "\(donor)", LogKeys.bytes: "\(copy.total)"])
        }
        takingQueue.async {
            do {
                handover.give(
                    .transferTaken(try incoming.write(bytes, of: offer, at: offset)))
            } catch {
                logger.error(
                    "A copy of a member's store could not be written",
                    metadata: [LogKeys.peer: "\(donor)", LogKeys.error: "\(error)"])
                // So that there is room for saves again.
                try? incoming.discard()
                handover.give(.transferChecked(refusal: "\(error)"))
            }
        }
    }

    /// Looks whether the copy is sound.
    func check() {
        let handover = handover
        let coordinator = coordinator
        let incoming = incoming
        takingQueue.async {
            do {
                try incoming.check(for: coordinator)
                handover.give(.transferChecked(refusal: nil))
            } catch {
                try? incoming.discard()
                handover.give(.transferChecked(refusal: "\(error)"))
            }
        }
    }

    private static func copy(_ offer: TransferOffer) -> TransferCopy {
        TransferCopy(number: offer.number, total: offer.total, digest: offer.digest)
    }
}
