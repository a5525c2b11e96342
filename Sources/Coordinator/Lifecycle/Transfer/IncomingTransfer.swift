package import Merge
import Synchronization

/// The part of another node's copy that has arrived, beside the store as `STORE-transfer`. A small
/// file `STORE-transfer-offer` says which copy it is, so that a restart goes on with it.
///
/// Every part is on disk before the next is asked for, so no more than one is in memory.
/// Thread-safe; calls block on the disk.
package final class IncomingTransfer: Sendable {
    private let storePath: String
    private let files: any StoreFiles
    private let guarding = Mutex(())

    /// Prepares; touches nothing.
    package init(storeAt path: String, files: any StoreFiles) {
        storePath = files.resolved(path)
        self.files = files
    }

    /// The same for a coordinator's store.
    package convenience init(for coordinator: PersistentStoreCoordinator) {
        self.init(storeAt: coordinator.storePath, files: coordinator.options.files)
    }

    /// Where the copy is.
    package var path: String { storePath + "-transfer" }
    private var offerPath: String { storePath + "-transfer-offer" }

    /// The copy that an earlier run has begun to take, and how many bytes of it there are; nil if
    /// there is none.
    package func begun() -> (offer: TransferOffer, offset: UInt64)? {
        (try? guarding.withLock { _ in try read() }) ?? nil
    }

    /// The copy that is there whole.
    ///
    /// - Throws: ``CoordinatorError``: `storeDamaged` where there is none, `inputOutput` where the disk
    ///   does not tell.
    func whole() throws -> TransferOffer {
        guard let (offer, size) = try guarding.withLock({ _ in try read() }), size == offer.total
        else { throw CoordinatorError(.storeDamaged, "There is no whole copy at \(path).") }
        return offer
    }

    /// Durably removes the file that names the copy, before the copy is written to. From then on
    /// its bytes differ from those that were sent, so a start after a crash must not go on with it
    /// as the donor's.
    func forgetOffer() throws { try guarding.withLock { _ in try files.remove(offerPath) } }

    private func read() throws -> (offer: TransferOffer, offset: UInt64)? {
        guard let size = files.size(of: offerPath), size <= 1024 else { return nil }
        guard let bytes = files.read(offerPath, from: 0, count: Int(size)) else {
            throw CoordinatorError(.inputOutput, "Cannot read \(offerPath).")
        }
        guard let offer = TransferOffer(bytes) else { return nil }
        let offset = files.size(of: path) ?? 0
        return offset <= offer.total ? (offer, offset) : nil
    }

    /// Takes in a part. One at the beginning replaces what there was.
    ///
    /// - Returns: how many bytes of the copy are on disk.
    /// - Throws: ``CoordinatorError``: `diskFull`, `inputOutput`, or `malformed` where the part
    ///   does not follow what is there.
    package func write(
        _ bytes: [UInt8], of offer: TransferOffer, at offset: UInt64
    ) throws -> UInt64 {
        try guarding.withLock { _ in
            if offset == 0 {
                try remove()
                try files.requireRoom(for: offer.total, beside: path)
                try files.replace(offerPath, with: offer.bytes)
            }
            let size = files.size(of: path) ?? 0
            guard size == offset, UInt64(bytes.count) <= offer.total - min(offset, offer.total)
            else {
                throw CoordinatorError(
                    .malformed,
                    "A part of a copy begins at byte \(offset), but \(size) are there.")
            }
            try files.write(bytes, to: path, at: offset)
            return offset + UInt64(bytes.count)
        }
    }

    /// Checks the copy as ``check(cluster:model:)`` does, and that it has something which this
    /// store lacks. A donor gives a copy that it made some time ago, and a taker that installed it
    /// for nothing would want the next at once.
    package func check(for coordinator: PersistentStoreCoordinator) throws {
        let vector = try check(cluster: coordinator.cluster, model: coordinator.model)
        if try coordinator.currentToken.versionVector.covers(vector) {
            throw CoordinatorError(.malformed, "The copy has nothing that this store lacks.")
        }
    }

    /// Checks that the copy is whole and sound: its hash, SQLite's own check, its cluster, and
    /// the digest of everything it shows computed again.
    ///
    /// - Parameters:
    ///   - cluster: the cluster that it must be of.
    ///   - model: with which model it must be written.
    /// - Returns: what it holds.
    /// - Throws: ``CoordinatorError``: `storeDamaged` where it is not, `storeOwner` where it is of
    ///   another cluster, `modelMismatch`, `inputOutput`.
    package func check(cluster: String, model: ManagedObjectModel) throws -> VersionVector {
        let offer = try whole()
        guard try TransferOffer.digest(of: path, files) == offer.digest else {
            throw CoordinatorError(
                .storeDamaged, "The copy has other bytes than node \(offer.donor) sent.")
        }
        var options = PersistentStoreCoordinator.Options()
        options.files = files
        let copy = try PersistentStoreCoordinator(readingStoreAt: path, options: options)
        defer { copy.close() }
        guard copy.cluster == cluster else {
            throw CoordinatorError(
                .storeOwner, "The copy is of cluster \(copy.cluster), not of \(cluster).")
        }
        guard copy.model.modelHash == model.modelHash else {
            throw CoordinatorError(
                .modelMismatch, "The copy was written with another model than this node's.")
        }
        let report = try copy.verify()
        guard report.isOK else {
            throw CoordinatorError(
                .storeDamaged,
                "The copy of node \(offer.donor) does not have the digest it was given: "
                    + report.differences.prefix(3).joined(separator: "; "))
        }
        return report.versionVector
    }

    /// Removes what has come.
    package func discard() throws { try guarding.withLock { _ in try remove() } }

    private func remove() throws {
        // The offer first: without it the rest is nothing.
        try files.remove(offerPath)
        for suffix in ["", "-wal", "-shm", "-journal", "-incarnation", "-lock"] {
            try files.remove(path + suffix)
        }
    }
}
