import Merge

/// Orphans: rows of `_orphan`, each a transaction that cannot be applied, as it came.
struct OrphanStore: StorePart {
    let session: StoreSession

    /// Keeps transactions, within bounds; those that are applied or kept already are passed over.
    func keepOrphans(
        _ transactions: [EncodedTransaction], _ bounds: OrphanedTransaction.Bounds
    ) throws -> OrphanKeeping {
        var keeping = OrphanKeeping()
        var bytes = try orphanBytes()
        let statement = try database.prepared(
            """
            INSERT INTO _orphan (node, incarnation, sequence, kept, checksum, bytes)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            """)
        let now = Int64(clamping: environment.wallMilliseconds())
        for encoded in transactions.sorted(by: { $0.dot < $1.dot }) {
            let dot = encoded.dot
            let place = orphanPlace(of: dot)
            if state.versionVector.contains(dot) || place.isKept { continue }
            guard state.orphans.count < bounds.count,
                bytes + encoded.bytes.count <= bounds.bytes
            else {
                keeping.leftOut.append(dot)
                continue
            }
            OrphanRow.bind(dot, to: statement)
            statement.bind(4, now)
            statement.bind(5, Int64(bitPattern: Transaction.checksum(encoded.bytes)))
            statement.bind(6, encoded.bytes)
            try statement.run()
            bytes += encoded.bytes.count
            state.orphans.insert(dot, at: place.index)
            keeping.kept.append(dot)
            group.wroteApart = true
        }
        return keeping
    }

    /// Forgets one that a person has seen to.
    ///
    /// - Throws: ``CoordinatorError``: `orphanUnknown`.
    func discardOrphan(_ dot: Dot, by who: SaveDescription) throws {
        guard orphanPlace(of: dot).isKept else {
            throw CoordinatorError(.orphanUnknown, "No orphan \(dot) is kept here.")
        }
        try forgetOrphan(dot)
        try OrphanDiscards(session: session).note(dot, by: who)
        group.wroteApart = true
    }

    /// Forgets one that was applied after all, or is to be discarded.
    func forgetOrphan(_ dot: Dot) throws {
        let place = orphanPlace(of: dot)
        guard place.isKept else { return }
        let statement = try database.prepared("DELETE FROM _orphan WHERE \(OrphanRow.isOf)")
        OrphanRow.bind(dot, to: statement)
        try statement.run()
        state.orphans.remove(at: place.index)
    }

    /// Forgets those that came by another way than the log: with a copy, or with another's rows.
    func forgetAppliedOrphans() throws {
        for dot in state.orphans where state.versionVector.contains(dot) { try forgetOrphan(dot) }
    }

    /// Where a name is among those kept, or belongs; by halving, because each that is applied is
    /// looked up.
    private func orphanPlace(of dot: Dot) -> (index: Int, isKept: Bool) {
        var low = 0
        var high = state.orphans.count
        while low < high {
            let middle = (low + high) / 2
            if state.orphans[middle] < dot { low = middle + 1 } else { high = middle }
        }
        return (low, low < state.orphans.count && state.orphans[low] == dot)
    }

    /// The lengths of blobs are in their rows' heads, so the pages of long ones are not read.
    private func orphanBytes() throws -> Int {
        let statement = try database.prepared("SELECT sum(length(bytes)) FROM _orphan")
        _ = try statement.step()
        defer { statement.reset() }
        return Int(clamping: statement.integer(0))
    }
}

/// How a dot stands in `_orphan`.
enum OrphanRow {
    static let isOf = "node = ?1 AND incarnation = ?2 AND sequence = ?3"

    static func bind(_ dot: Dot, to statement: SQLStatement) {
        statement.bind(1, Int64(dot.actor.node.rawValue))
        statement.bind(2, Int64(bitPattern: dot.actor.incarnation))
        statement.bind(3, Int64(bitPattern: dot.sequence))
    }
}
