import Merge

/// The numbers that an opening must not use again, and those that it takes instead.
extension StoreOpening {
    /// The traces of the node's former lives.
    struct FormerLives {
        /// The store's number, drawn when it was made.
        var store: UInt64
        /// Their incarnations: the store's, those that peers' transactions told of, those that
        /// the side file and the caller know.
        var incarnations: [UInt64]
        /// The last block of row identities that the store knows of.
        var lastBlock: UInt32
        /// Whether the store was there before this opening.
        var isNew: Bool
        /// Whether the side file bears out that the store is the newest there was.
        var isOwn: Bool

        /// The latest of them; 0 where there is none.
        var latest: UInt64 { incarnations.max() ?? 0 }
    }

    /// An incarnation later than all before, though the clock may have been set back.
    ///
    /// - Throws: ``CoordinatorError`` (`malformed`) where none can follow: the last one is said
    ///   to have begun in 2106.
    static func incarnation(
        of node: NodeID, after former: FormerLives, wallMilliseconds: UInt64, random: UInt64
    ) throws -> ActorID {
        let last = former.latest
        let seconds = max(wallMilliseconds / 1000, last == 0 ? 0 : last >> 32 + 1)
        if seconds <= UInt64(UInt32.max) {
            return ActorID(
                node: node, startedAtSeconds: seconds,
                random: UInt32(truncatingIfNeeded: random))
        }
        guard last < .max else {
            throw CoordinatorError(
                .malformed,
                "No incarnation of node \(node) can follow the last one; give it "
                    + "another number.")
        }
        return ActorID(node: node, incarnation: max(last, UInt64(UInt32.max) << 32) + 1)
    }

    /// Where row identities go on.
    ///
    /// A block that a former life used must not be used again. All it used lie at or below the
    /// minute of its last opening, unless it opened several times a minute, or made more than
    /// 8 388 607 objects a minute. So the new block is above the last one known and above the
    /// minutes of all incarnations known; a store that knows all its past needs no more.
    ///
    /// A new store in the place of a lost one knows nothing of its past. What its former life was
    /// ahead of its minutes lies in blocks that it will come to in the same minute, so every store
    /// begins all its blocks at a number of its own, one of 4 194 304. If the former life made n
    /// objects in a block and the new one makes m in it before peers have told
    /// of it, an identity is used twice with a chance below (n + m) / 2^22.
    ///
    /// A restored store does not know it all. Only where the clock was set back, or the former
    /// life was ahead of its minutes as above, can its blocks lie ahead of ours; against that we
    /// skip up to 4095 blocks by chance, which are no more than three days of numbers, and up to
    /// 4 194 303 identities of the first. Where a former life was ahead by one block and made n
    /// objects in it, and we make m before our next block, an identity is used twice with a
    /// chance below (n + m) / 2^22 / 2^12: one in a million for 16 000 objects. Nodes that know
    /// the former ones raise the alarm then; they merge nothing.
    static func allocator(
        of node: NodeID, after former: FormerLives, wallMilliseconds: UInt64,
        random: () -> UInt64
    ) -> RowIDAllocator {
        func minute(_ milliseconds: UInt64) -> UInt64 {
            let epoch = RowIDAllocator.epochMilliseconds
            return milliseconds > epoch ? (milliseconds - epoch) / 60_000 : 0
        }
        // Somebody's word on an incarnation must not use up the blocks there are: 45 days ahead
        // is the most it does.
        let wall = minute(wallMilliseconds)
        let latest = min(minute((former.latest >> 32) * 1000), wall + (1 << 16))
        var lastBlock = max(UInt64(former.lastBlock), latest)
        if !former.isNew, !former.isOwn { lastBlock = max(lastBlock, wall) + random() % 4096 }
        return RowIDAllocator(
            node: node, lastBlock: UInt32(min(lastBlock, 0x1FF_FFFE)),
            wallMilliseconds: wallMilliseconds,
            skipping: UInt32(
                truncatingIfNeeded: former.isNew || former.isOwn ? former.store : random()))
    }
}
