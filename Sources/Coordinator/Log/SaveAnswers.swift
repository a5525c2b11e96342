import Merge

/// The answers that are kept of saves with an ID, in `_save`.
struct SaveAnswers: StorePart {
    let session: StoreSession

    /// The answer to a save of that ID, if there was one.
    func savedAnswer(_ saveID: String) throws -> SaveAnswer.Kept? {
        let statement = try database.prepared("SELECT answer FROM _save WHERE saveID = ?1")
        statement.bind(1, saveID)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return try SaveAnswer.decode(statement.bytes(0), state.beginnings)
    }

    /// Keeps an answer, in the same commit as the save itself.
    func remember(_ result: SaveResult, to request: SaveRequest, under saveID: String) throws {
        let statement = try database.prepared(
            "INSERT INTO _save (saveID, position, answer) VALUES (?1, ?2, ?3)")
        statement.bind(1, saveID)
        statement.bind(2, Int64(bitPattern: state.position))
        statement.bind(
            3,
            SaveAnswer.encode(
                .init(
                    result: result,
                    fingerprint: request.batch?.fingerprint
                        ?? (request.isWordByWord ? request.fingerprint : nil),
                    batch: request.batch),
                state.beginnings))
        try statement.run()
        group.wroteApart = true
    }

    /// The answer to a save that is repeated under its ID.
    func repeatedAnswer(to request: SaveRequest, _ saveID: String) throws -> SaveResult? {
        guard let kept = try savedAnswer(saveID) else { return nil }
        let answer = try kept.answer(to: request)
        // A save that came from elsewhere has not waited for the disk yet, and a client that gets
        // an answer relies on it.
        if answer.isRebuilt { group.wroteApart = true }
        return answer
    }

    /// Rebuilds the answer to a save of an earlier opening of this node, as its transaction comes
    /// back from elsewhere, or from the store that a copy replaces. What is known stays, as long as
    /// the transaction has its new place. Without it, a client that repeats a save because it got
    /// no answer would have it done twice.
    ///
    /// The transaction tells of objects in the order of the request that inserted them, but not how
    /// the request called them.
    ///
    /// - Parameter position: its place in the log, because the answer goes when it does.
    func rebuildAnswer(to transaction: Transaction, at position: UInt64) throws {
        guard transaction.dot.actor.node == actor.node, transaction.dot.actor != actor,
            let saveID = transaction.saveID, SaveAnswer.isSaveID(saveID)
        else { return }
        let inserted = transaction.changes.lazy.filter { $0.kind == .insert }.map { change in
            SaveResult.InsertedRow(
                temporary: SaveAnswer.unnamed, row: change.row,
                entityName: transaction.shapes[change.shape].entity, name: nil)
        }
        var answer = SaveResult(
            transaction: transaction.dot, timestamp: transaction.timestamp, seen: transaction.seen,
            token: session.token, insertedRows: Array(inserted), conflicts: [], rows: [])
        answer.isRebuilt = true
        let statement = try database.prepared(
            """
            INSERT INTO _save (saveID, position, answer) VALUES (?1, ?2, ?3)
                ON CONFLICT (saveID) DO UPDATE SET position = max(position, excluded.position)
            """)
        statement.bind(1, saveID)
        statement.bind(2, Int64(bitPattern: position))
        statement.bind(3, SaveAnswer.encode(.init(result: answer), state.beginnings))
        try statement.run()
        group.wroteApart = true
    }

    /// Does so for all of a log that came with a copy of another's store.
    func rebuildAnswers() throws {
        for former in state.actors.actors where former.node == actor.node && former != actor {
            guard let code = state.actors.code(of: former) else { continue }
            // The integers between two actors' numbers are the dots of the first.
            let statement = try database.prepared(
                """
                SELECT position, bytes FROM _transaction WHERE dot > ?1 AND dot < ?2 ORDER BY dot
                """)
            statement.bind(1, Int64(code) << ActorTable.sequenceBits)
            statement.bind(2, Int64(code + 1) << ActorTable.sequenceBits)
            defer { statement.reset() }
            while try statement.step() {
                let position = UInt64(bitPattern: statement.integer(0))
                guard let encoded = try? EncodedTransaction(decoding: statement.bytes(1)) else {
                    throw CoordinatorError(.storeDamaged, "The log of the copy is damaged.")
                }
                try rebuildAnswer(
                    to: encoded.completed(by: state.beginnings).transaction, at: position)
            }
        }
    }
}
