import GRDB
package import Merge
import Synchronization

/// The copy of this node's store that other nodes are given (DESIGN section 8, *store transfer*).
///
/// There is one, beside the store as `STORE-outgoing`: whoever needs a copy while it is there is
/// given the same, so four nodes that join at once cost the donor one copy, and a reading of the
/// file for each. It is removed when nobody has read it for ten minutes, and at the next start.
///
/// Thread-safe; a call that makes the copy takes as long as that takes, and others wait for it.
package final class OutgoingTransfer: Sendable {
    /// A part of the copy.
    package struct Part: Sendable {
        /// Which copy.
        package var offer: TransferOffer
        /// Where the part begins; past the end there are no bytes.
        package var offset: UInt64
        /// The bytes.
        package var bytes: [UInt8]
    }

    private struct Copy: Sendable {
        var offer: TransferOffer
        var vector: VersionVector
        var membership: Membership
        var usedAt: UInt64
    }

    /// How long the copy is kept after its last use: longer than a link is commonly down, and no
    /// disk is full for long.
    package static let keptMilliseconds: UInt64 = 600_000

    private let coordinator: PersistentStoreCoordinator
    private let copy = Mutex<Copy?>(nil)
    private var path: String { coordinator.storePath + "-outgoing" }

    /// Prepares; what an earlier run has left is removed at the first use or tending.
    package init(_ coordinator: PersistentStoreCoordinator) {
        self.coordinator = coordinator
    }

    /// Reads a part of the copy, which is made where there is none that will do.
    ///
    /// - Parameters:
    ///   - number: the copy that the node has the beginning of; 0 for any. Where that is gone
    ///     another is begun with.
    ///   - offset: where to go on in it.
    ///   - byteLimit: the most bytes, at least 1.
    ///   - node: who asks: only a copy in which it is a member will do (MODEL P17).
    ///   - vector: what it has of what this store has: a copy without it is of no use.
    ///   - now: monotonic milliseconds.
    /// - Throws: ``CoordinatorError``: `diskFull`, `inputOutput` or `storeDamaged`.
    package func read(
        _ number: UInt64, from offset: UInt64, byteLimit: Int, for node: NodeID,
        covering vector: VersionVector = VersionVector(), now: UInt64
    ) throws -> Part {
        try copy.withLock { copy in
            if copy.map({ $0.offer.number == number }) ?? false {
                // Who has begun with it goes on with it.
            } else if try copy.map({ try !suffices($0, for: node, vector) }) ?? true {
                copy = try make(now)
            }
            guard let current = copy else {
                throw CoordinatorError(.inputOutput, "There is no copy to give.")
            }
            let start = current.offer.number == number ? min(offset, current.offer.total) : 0
            let count = min(UInt64(max(byteLimit, 1)), current.offer.total - start)
            guard let bytes = coordinator.options.files.read(path, from: start, count: Int(count)),
                bytes.count == Int(count)
            else {
                copy = nil
                throw CoordinatorError(.inputOutput, "Cannot read \(path).")
            }
            copy?.usedAt = now
            return Part(offer: current.offer, offset: start, bytes: bytes)
        }
    }

    /// Removes a copy that nobody has read for ten minutes.
    ///
    /// - Parameter now: monotonic milliseconds; nil to remove it in any case, as at the start.
    package func tend(now: UInt64?) {
        copy.withLock { copy in
            if let now, let current = copy, now < current.usedAt + Self.keptMilliseconds {
                return
            }
            guard copy != nil || coordinator.options.files.size(of: path) != nil else { return }
            copy = nil
            try? coordinator.options.files.remove(path)
        }
    }

    /// Whether a node can go on from a copy: it is a member there, and the log still has all that
    /// came later.
    private func suffices(
        _ copy: Copy, for node: NodeID, _ vector: VersionVector
    ) throws -> Bool {
        let membership = copy.membership
        guard membership.isEmpty || membership.current.contains(node),
            copy.vector.covers(vector)
        else { return false }
        return copy.vector.covers(try coordinator.read { try $0.purgedVector })
    }

    private func make(_ now: UInt64) throws -> Copy {
        let files = coordinator.options.files
        try files.remove(path)
        let made = try BackupFile(path: path, files: files).write(from: coordinator.pool)
        var number: UInt64 = 0
        while number == 0 { number = coordinator.options.random() }
        return Copy(
            offer: TransferOffer(
                donor: coordinator.node, number: number, total: made.bytes,
                digest: try TransferOffer.digest(of: path, files)),
            vector: made.versionVector, membership: made.membership, usedAt: now)
    }
}

extension StoreReader {
    /// What the log does not reach back to: every transaction outside it that is applied is there.
    package var purgedVector: VersionVector {
        get throws {
            let actors = try actors()
            var entries: [VersionVector.Entry] = []
            for entry in try token.versionVector.entries {
                let first = actors.integer(Dot(actor: entry.actor, sequence: 1))
                let statement = try database.prepared(
                    "SELECT min(dot) FROM _transaction WHERE dot BETWEEN ?1 AND ?2")
                statement.bind(1, first)
                statement.bind(2, first - 1 + Int64(entry.sequence))
                guard try statement.step() else { continue }
                let kept = statement.isNull(0) ? nil : statement.integer(0)
                statement.reset()
                let purged = kept.map { UInt64($0 - first) } ?? entry.sequence
                if purged > 0 { entries.append(.init(actor: entry.actor, sequence: purged)) }
            }
            return VersionVector(entries)
        }
    }
}
