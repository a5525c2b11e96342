package import Merge

extension PersistentStoreCoordinator {
    /// Keeps transactions that can never be applied, for people, and waits until they are on disk.
    /// Blocks meanwhile. What is applied or kept already is passed over.
    ///
    /// - Returns: what is kept, and what there was no room for (``OrphanedTransaction/Bounds``).
    /// - Throws: ``CoordinatorError`` where the store cannot be written; nothing is kept then, and
    ///   nothing else has failed with it.
    @discardableResult
    package func keepOrphans(_ transactions: [EncodedTransaction]) throws -> OrphanKeeping {
        try keepOrphans(transactions, within: OrphanedTransaction.Bounds())
    }

    /// The same with other bounds; for tests.
    func keepOrphans(
        _ transactions: [EncodedTransaction], within bounds: OrphanedTransaction.Bounds
    ) throws -> OrphanKeeping {
        let keeping = try maintainBlocking(isAlone: true) {
            try $0.orphanStore.keepOrphans(transactions, bounds)
        }
        try makeDurable()
        return keeping
    }

    /// The same without blocking; the completion is called on the writer's queue.
    package func keepOrphans(
        _ transactions: [EncodedTransaction],
        completion: @escaping @Sendable (Result<OrphanKeeping, any Error>) -> Void
    ) {
        let bounds = OrphanedTransaction.Bounds()
        maintain(isAlone: true) {
            try $0.orphanStore.keepOrphans(transactions, bounds)
        } completion: { [self] result in
            guard case .success(let keeping) = result else { return completion(result) }
            makeDurable { completion($0.map { keeping }) }
        }
    }

    /// The names of the orphans that are kept, sorted.
    ///
    /// Where the store is open for writing this reads nothing from disk and may be asked from any
    /// thread.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package var orphanedDots: [Dot] {
        get throws {
            if let writer { return writer.current.orphans }
            return try read { try $0.orphanedDots() }
        }
    }

    /// The orphans that are kept, by dot, all at once: up to ``OrphanedTransaction/Bounds/bytes``, and
    /// what they are decoded to. Blocks on the disk.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package func orphans() throws -> [OrphanedTransaction] {
        try read { reader in
            try reader.orphanedDots().compactMap { try reader.orphan($0) }
        }
    }

    /// Forgets an orphan for good: somebody has seen to it. Blocks until that is on disk.
    ///
    /// - Parameter who: who discards it, where and why; ``StoreReader/orphanDiscards()`` tells it.
    /// - Throws: ``CoordinatorError``: `orphanUnknown` where none of that name is kept, `malformed` for a
    ///   note that is empty or too long, or what tells that the store cannot be written.
    package func discardOrphan(
        _ dot: Dot, by who: SaveDescription = SaveDescription()
    ) throws {
        try who.check()
        try maintainBlocking { engine in
            try Self.kept { try engine.orphanStore.discardOrphan(dot, by: who) }
        }.get()
        try makeDurable()
    }
}

extension StoreReader {
    /// The names of the orphans that are kept, sorted.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package func orphanedDots() throws -> [Dot] { try StoreLayout.readOrphans(in: database) }

    /// One of the orphans; nil where none of that name is kept. One whose bytes are damaged is without
    /// its content.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    package func orphan(_ dot: Dot) throws -> OrphanedTransaction? {
        let statement = try database.prepared(
            "SELECT kept, checksum, bytes FROM _orphan WHERE \(OrphanRow.isOf)")
        OrphanRow.bind(dot, to: statement)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        let bytes = statement.bytes(2)
        let isSound =
            Transaction.checksum(bytes) == UInt64(bitPattern: statement.integer(1))
        let encoded =
            isSound
            ? try? EncodedTransaction(decoding: bytes).completed(by: beginnings()) : nil
        return OrphanedTransaction(
            dot: dot, keptAtMilliseconds: UInt64(clamping: statement.integer(0)),
            encoded: encoded?.dot == dot ? encoded : nil)
    }
}
