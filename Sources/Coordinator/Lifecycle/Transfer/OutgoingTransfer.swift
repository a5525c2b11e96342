package import Merge
import Synchronization

/// The copies of this node's store that other nodes are given (DESIGN section 8, *store transfer*).
///
/// They lie beside the store as `STORE-outgoing` and `STORE-outgoing-2`. A taker that needs a copy
/// while one is there gets the same one, so four nodes that join at once cost the donor one copy,
/// and a reading of the file for each. The second is for takers that the first will not do for
/// while others still read it; a third is not made before one has not been read for a minute. A
/// copy is removed when
/// nobody has read it for ten minutes, and at the next start.
///
/// Thread-safe; a call that makes a copy takes as long as that takes, and others wait for it.
package final class OutgoingTransfer: Sendable {
    /// A part of a copy.
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

    private struct State: Sendable {
        /// By place.
        var copies: [Copy?] = [nil, nil]
        /// When a copy could not be made last, and why.
        var failure: (at: UInt64, error: CoordinatorError)?
    }

    /// How long a copy is kept after its last use: longer than a link is commonly down, and no
    /// disk is full for long.
    package static let keptMilliseconds: UInt64 = 600_000
    /// How long after its last use a copy gives its place to no other, and how long after a
    /// failure none is made.
    package static let busyMilliseconds: UInt64 = 60_000

    private let coordinator: PersistentStoreCoordinator
    private let clock: @Sendable () -> UInt64
    private let state = Mutex(State())

    /// Prepares; what an earlier run has left is removed by ``tend(all:)``.
    ///
    /// - Parameter clock: monotonic milliseconds.
    package init(_ coordinator: PersistentStoreCoordinator, clock: @escaping @Sendable () -> UInt64)
    {
        self.coordinator = coordinator
        self.clock = clock
    }

    private func path(_ place: Int) -> String {
        coordinator.storePath + (place == 0 ? "-outgoing" : "-outgoing-2")
    }

    /// Reads a part of a copy, which is made where there is none that will do.
    ///
    /// - Parameters:
    ///   - number: the copy that the node has the beginning of; 0 for any. Where that is gone
    ///     another is begun with.
    ///   - offset: where to go on in it.
    ///   - byteLimit: the most bytes, at least 1.
    ///   - node: who asks: only a copy in which it is a member will do (MODEL P17).
    ///   - vector: what it has of what this store has: a copy without it is of no use.
    /// - Throws: ``CoordinatorError``: `diskFull`, `inputOutput` or `storeDamaged`; `limitExceeded`
    ///   while others read two copies that will not do.
    package func read(
        _ number: UInt64, from offset: UInt64, byteLimit: Int, for node: NodeID,
        covering vector: VersionVector = VersionVector()
    ) throws -> Part {
        try state.withLock { state in
            let place = try place(of: number, for: node, vector, &state)
            guard let copy = state.copies[place] else {
                throw CoordinatorError(.inputOutput, "There is no copy to give.")
            }
            let start = copy.offer.number == number ? min(offset, copy.offer.total) : 0
            let count = min(UInt64(max(byteLimit, 1)), copy.offer.total - start)
            guard
                let bytes = coordinator.options.files.read(
                    path(place), from: start, count: Int(count)),
                bytes.count == Int(count)
            else {
                state.copies[place] = nil
                throw CoordinatorError(.inputOutput, "Cannot read \(path(place)).")
            }
            state.copies[place]?.usedAt = clock()
            return Part(offer: copy.offer, offset: start, bytes: bytes)
        }
    }

    /// Removes copies that nobody has read for ten minutes.
    ///
    /// - Parameter all: whether to remove them in any case, with what an earlier run has left, as
    ///   at the start.
    package func tend(all: Bool = false) {
        state.withLock { state in
            for place in state.copies.indices {
                let isStale = state.copies[place].map {
                    clock() >= $0.usedAt + Self.keptMilliseconds
                }
                guard all || isStale ?? false else { continue }
                state.copies[place] = nil
                let file = BackupFile(path: path(place), files: coordinator.options.files)
                try? file.discard()
                try? coordinator.options.files.remove(path(place))
            }
        }
    }

    /// Where the copy is that a node is given; it is made there where none will do.
    private func place(
        of number: UInt64, for node: NodeID, _ vector: VersionVector, _ state: inout State
    ) throws -> Int {
        // A taker that has begun with one goes on with it.
        if let begun = state.copies.firstIndex(where: { $0?.offer.number == number }) {
            return begun
        }
        let purged = try coordinator.read { try $0.purgedVector }
        let fitting = state.copies.firstIndex { copy in
            copy.map { Self.suffices($0, for: node, vector.joined(purged)) } ?? false
        }
        if let fitting { return fitting }
        if let failure = state.failure, clock() < failure.at + Self.busyMilliseconds {
            throw failure.error
        }
        let now = clock()
        let free = state.copies.firstIndex { copy in
            copy.map { now >= $0.usedAt + Self.busyMilliseconds } ?? true
        }
        guard let free else {
            throw CoordinatorError(
                .limitExceeded, "Others are reading two copies that will not do for node \(node).")
        }
        state.copies[free] = nil
        do {
            state.copies[free] = try make(path(free))
            state.failure = nil
        } catch {
            let failure = CoordinatorError(mapping: error)
            state.failure = (clock(), failure)
            throw failure
        }
        return free
    }

    /// Whether a node can go on from a copy: it is a member there, and lacks nothing that has left
    /// the copy's log or this node's.
    private static func suffices(
        _ copy: Copy, for node: NodeID, _ needed: VersionVector
    ) -> Bool {
        (copy.membership.isEmpty || copy.membership.current.contains(node))
            && copy.vector.covers(needed)
    }

    private func make(_ path: String) throws -> Copy {
        let files = coordinator.options.files
        try files.remove(path)
        let store = coordinator.storePath
        let size = (files.size(of: store) ?? 0) + (files.size(of: store + "-wal") ?? 0)
        try files.requireRoom(for: size, beside: store)
        // Nobody looks for it after a crash, and its taker checks its hash.
        let made = try BackupFile(path: path, files: files, isDurable: false)
            .write(from: coordinator.pool)
        var number: UInt64 = 0
        while number == 0 { number = coordinator.options.random() }
        return Copy(
            offer: TransferOffer(
                donor: coordinator.node, number: number, total: made.bytes,
                digest: try TransferOffer.digest(of: path, files)),
            vector: made.versionVector, membership: made.membership, usedAt: clock())
    }
}

extension StoreReader {
    /// The transactions before the log: each of them that is applied is in the copy.
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
