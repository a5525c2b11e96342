import Merge

extension StoreEngine {
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
                    fingerprint: request.isWordByWord ? request.fingerprint : nil),
                state.beginnings))
        try statement.run()
        group.wroteApart = true
    }

    /// The answer to a save that is repeated under its ID.
    func repeatedAnswer(to request: SaveRequest, _ saveID: String) throws -> SaveResult? {
        guard let kept = try savedAnswer(saveID) else { return nil }
        let answer = try kept.answer(to: request)
        // What came from elsewhere has not waited for the disk yet; whoever is answered relies on it.
        if answer.isRebuilt { group.wroteApart = true }
        return answer
    }

    /// Makes the answer to a save of an earlier opening of this node anew, as its transaction comes
    /// back from elsewhere, or from the store that a copy replaces; what is known stays, for as long
    /// as the transaction has its new place. Without it whoever repeats the save, as he may where
    /// he was not answered, would have it done twice.
    ///
    /// The transaction tells of objects in the order of the request that inserted them, but not how
    /// the request called them.
    ///
    /// - Parameter position: its place in the log, for the answer goes when it does.
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
            token: token, insertedRows: Array(inserted), conflicts: [], rows: [])
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
            // What lies between two actors' numbers are the dots of the first.
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

extension SaveResult {
    /// The answer to a request that was repeated: one that was made anew learns from it what the
    /// request calls the objects that it inserted.
    func answering(_ request: SaveRequest) -> SaveResult {
        guard isRebuilt else { return self }
        var result = self
        let inserts = request.operations.filter { $0.kind == .insert }
        // Fewer were inserted where one took the place of another of its key: which, nobody knows.
        let isTold =
            inserts.count == insertedRows.count
            && zip(inserts, insertedRows).allSatisfy { $0.entity.name == $1.entityName }
        result.insertedRows =
            !isTold
            ? []
            : zip(inserts, insertedRows).map { insert, known in
                InsertedRow(
                    temporary: insert.row, row: known.row, entityName: known.entityName,
                    name: insert.name)
            }
        return result
    }
}

extension StoreReader {
    /// What became of the save of that ID; nil where none is known.
    public func savedAnswer(_ saveID: String) throws -> SaveResult? {
        try keptAnswer(saveID)?.result
    }

    /// The same with what tells its operations from others.
    func keptAnswer(_ saveID: String) throws -> SaveAnswer.Kept? {
        let statement = try database.prepared("SELECT answer FROM _save WHERE saveID = ?1")
        statement.bind(1, saveID)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return try SaveAnswer.decode(statement.bytes(0), beginnings())
    }
}

extension PersistentStoreCoordinator {
    /// The answer to a save that was made before under the ID of a request that has failed now. What
    /// hinders a save, such as a full disk, does not undo an earlier one. A client that heard "nothing
    /// was saved" would make it again under another ID.
    ///
    /// - Throws: that failure, where no such save is known; `outcomeUnknown` where the disk cannot
    ///   tell.
    func keptAnswer(
        to request: SaveRequest, insteadOf failure: any Error
    ) throws -> SaveResult {
        guard let saveID = request.saveID,
            let code = (failure as? CoordinatorError)?.code, code != .outcomeUnknown,
            code != .saveIDReused
        else { throw failure }
        do {
            let kept: SaveAnswer.Kept? = try read { try $0.keptAnswer(saveID) }
            // One that came back is told once it is on disk here, like any other.
            if let kept, !isAwaitingDisk(kept.result) { return try kept.answer(to: request) }
        } catch let unread as CoordinatorError where unread.code == .inputOutput {
            throw CoordinatorError(
                .outcomeUnknown,
                "\(failure) Whether it was saved earlier cannot be read: \(unread.message)")
        }
        if isOutcomeUnknown {
            throw CoordinatorError(
                .outcomeUnknown,
                "\(failure) Whether it was saved by the commit that failed shows after a restart.")
        }
        throw failure
    }

    /// Whether an answer is to a save that came back from other nodes and is not on disk here yet, so
    /// that it may be lost once more. It is soon.
    public func isAwaitingDisk(_ answer: SaveResult) -> Bool {
        answer.isRebuilt && answer.transaction.map(durableVector.contains) == false
    }

    /// Whether the writer has stopped at a commit of which only the next opening shows whether it
    /// was made: of a save that is not found then, nobody can say that it was not saved.
    public var isOutcomeUnknown: Bool { writer?.isOutcomeUnknown ?? false }
}

/// A save's answer as bytes, without the rows, which mean something only to the context that
/// saved.
///
/// Layout: [dot, timestamp, frontier of what it has seen, token, [inserted ...], [conflict ...], whether
/// it was made anew, fingerprint of the operations]
///     inserted = [temporary, row, entity, name]
///
/// The dot is null and the timestamp 0 where nothing was written. The fingerprint is null where the answer
/// was made anew, or the request does not name its operations word by word.
enum SaveAnswer {
    /// An answer with what tells the operations of its save from others; nil where nobody kept that.
    struct Kept {
        var result: SaveResult
        var fingerprint: [UInt8]?

        /// The answer to a request under the same ID.
        ///
        /// - Throws: ``CoordinatorError`` (`saveIDReused`) where it has other operations.
        func answer(to request: SaveRequest) throws -> SaveResult {
            if request.isWordByWord, let fingerprint, fingerprint != request.fingerprint {
                let saved = result.transaction.map { " as \($0)" } ?? ""
                throw CoordinatorError(
                    .saveIDReused,
                    "Other operations were saved under this save ID\(saved). Nothing is saved now: "
                        + "give what is to be saved another ID.")
            }
            return result.answering(request)
        }
    }

    /// Whether a save can have that ID.
    static func isSaveID(_ text: String) -> Bool { (1...200).contains(text.utf8.count) }

    /// Stands for the temporary identity in an answer that was made anew. No request has it.
    static let unnamed = RowID(0)

    static func encode(_ kept: Kept, _ beginnings: Beginnings) -> [UInt8] {
        let result = kept.result
        var writer = CBORWriter(capacity: 256)
        writer.beginArray(8)
        writer.write(result.transaction?.description)
        writer.write(result.timestamp?.rawValue ?? 0)
        writer.write(beginnings.frontier(of: result.seen))
        writer.write(result.token.text)
        writer.beginArray(result.insertedRows.count)
        for inserted in result.insertedRows {
            writer.beginArray(4)
            writer.write(inserted.temporary.rawValue)
            writer.write(inserted.row.rawValue)
            writer.write(inserted.entityName)
            writer.write(inserted.name)
        }
        writer.beginArray(result.conflicts.count)
        for conflict in result.conflicts { writer.write(conflict.description) }
        writer.write(result.isRebuilt)
        if let fingerprint = kept.fingerprint {
            writer.write(fingerprint)
        } else {
            writer.writeNull()
        }
        return writer.bytes
    }

    static func decode(_ bytes: [UInt8], _ beginnings: Beginnings) throws -> Kept {
        do {
            var reader = CBORReader(bytes)
            try reader.array(exactly: 8)
            let dot = try reader.optionalText().flatMap { Dot($0) }
            let timestamp = try reader.timestamp()
            let seen = beginnings.closure(of: try reader.vector())
            guard let token = QueryGenerationToken(text: try reader.text()) else {
                throw DecodingFailure("no token", offset: reader.offset)
            }
            var inserted: [SaveResult.InsertedRow] = []
            for _ in 0..<(try reader.array()) {
                try reader.array(exactly: 4)
                let temporary = RowID(try reader.signed())
                let row = RowID(try reader.signed())
                let entity = try reader.text()
                inserted.append(
                    .init(
                        temporary: temporary, row: row, entityName: entity,
                        name: try reader.optionalText()))
            }
            var conflicts: [ConflictID] = []
            for _ in 0..<(try reader.array()) {
                if let id = ConflictID(try reader.text()) { conflicts.append(id) }
            }
            var answer = SaveResult(
                transaction: dot, timestamp: dot == nil ? nil : timestamp, seen: seen,
                token: token.completed(by: beginnings), insertedRows: inserted,
                conflicts: conflicts, rows: [])
            answer.isRebuilt = try reader.boolean()
            let fingerprint = try reader.null() ? nil : try reader.data()
            try reader.finish()
            return Kept(result: answer, fingerprint: fingerprint)
        } catch let failure as DecodingFailure {
            throw CoordinatorError(.storeDamaged, "A kept answer is damaged: \(failure).")
        }
    }
}
