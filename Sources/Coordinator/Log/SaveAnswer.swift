import Merge

extension SaveResult {
    /// The answer to a repeated request. An answer that was rebuilt takes from the request how it
    /// calls the objects that it inserted.
    fileprivate func answering(_ request: SaveRequest) -> SaveResult {
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
    /// The outcome of the save of that ID; nil if none is known.
    package func savedAnswer(_ saveID: String) throws -> SaveResult? {
        try keptAnswer(saveID)?.result
    }

    /// How many saves there are with an ID from one text on up to another, that one left out.
    func keptAnswers(from first: String, to end: String) throws -> Int {
        let statement = try database.prepared(
            "SELECT count(*) FROM _save WHERE saveID >= ?1 AND saveID < ?2")
        statement.bind(1, first)
        statement.bind(2, end)
        guard try statement.step() else { return 0 }
        defer { statement.reset() }
        return Int(statement.integer(0))
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
            // An answer that came back is given once it is on disk here, like any other.
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
    package func isAwaitingDisk(_ answer: SaveResult) -> Bool {
        answer.isRebuilt && answer.transaction.map(durableVector.contains) == false
    }

    /// Whether the writer has stopped at a commit whose outcome only the next opening shows: if a
    /// save is not found then, nobody can say that it was not saved.
    package var isOutcomeUnknown: Bool { writer?.isOutcomeUnknown ?? false }
}

/// A save's answer as bytes, without the rows, which mean something only to the context that
/// saved.
///
/// Layout: [dot, timestamp, frontier of what it has seen, token, [inserted ...], [conflict ...], whether
/// it was rebuilt, fingerprint of the operations, [incremented ...]]
///     inserted = [temporary, row, entity, name]
///     incremented = [entity, row, property, value]
///
/// The last one is there only if something was incremented. Of a batch request's transaction it is followed
/// by how many objects that was done with, and the last row, or 0.
///
/// The dot is null and the timestamp 0 if nothing was written. The fingerprint is null if the
/// answer was rebuilt, or if the request does not name its operations word by word.
enum SaveAnswer {
    /// An answer with what tells the operations of its save from others; nil where nobody kept that.
    struct Kept {
        var result: SaveResult
        var fingerprint: [UInt8]?
        /// Its place in a batch request; nil of other saves, and where the answer was rebuilt.
        var batch: BatchMark?

        /// The answer to a request under the same ID.
        ///
        /// - Throws: ``CoordinatorError`` (`saveIDReused`) where it has other operations.
        func answer(to request: SaveRequest) throws -> SaveResult {
            let asked =
                request.batch?.fingerprint ?? (request.isWordByWord ? request.fingerprint : nil)
            if let asked, let fingerprint, fingerprint != asked {
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

    /// Stands for the temporary identity in an answer that was rebuilt. No request has it.
    static let unnamed = RowID(0)

    static func encode(_ kept: Kept, _ beginnings: Beginnings) -> [UInt8] {
        let result = kept.result
        var writer = CBORWriter(capacity: 256)
        let hasMore = kept.batch != nil || !result.incremented.isEmpty
        writer.beginArray(kept.batch == nil ? (hasMore ? 9 : 8) : 11)
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
        if !hasMore { return writer.bytes }
        writer.beginArray(result.incremented.count)
        for incremented in result.incremented {
            writer.beginArray(4)
            writer.write(incremented.objectID.entityName)
            writer.write(incremented.objectID.row.rawValue)
            writer.write(incremented.property)
            writer.write(incremented.value)
        }
        if let batch = kept.batch {
            writer.write(Int64(batch.count))
            writer.write(batch.last?.rawValue ?? 0)
        }
        return writer.bytes
    }

    static func decode(_ bytes: [UInt8], _ beginnings: Beginnings) throws -> Kept {
        do {
            var reader = CBORReader(bytes)
            let count = try reader.array()
            guard [8, 9, 11].contains(count) else {
                throw DecodingFailure("\(count) parts", offset: reader.offset)
            }
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
            if count > 8 { answer.incremented = try incremented(&reader) }
            var batch: BatchMark?
            if count == 11 {
                batch = BatchMark(
                    fingerprint: fingerprint ?? [], count: Int(try reader.signed()))
                let last = try reader.signed()
                batch?.last = last == 0 ? nil : RowID(last)
            }
            try reader.finish()
            return Kept(result: answer, fingerprint: fingerprint, batch: batch)
        } catch let failure as DecodingFailure {
            throw CoordinatorError(.storeDamaged, "A kept answer is damaged: \(failure).")
        }
    }
    private static func incremented(
        _ reader: inout CBORReader
    ) throws(DecodingFailure) -> [SaveResult.IncrementedValue] {
        var result: [SaveResult.IncrementedValue] = []
        for _ in 0..<(try reader.array()) {
            try reader.array(exactly: 4)
            let entity = try reader.text()
            let row = RowID(try reader.signed())
            let property = try reader.text()
            result.append(
                .init(
                    objectID: ManagedObjectID(entityName: entity, row: row), property: property,
                    value: try reader.value()))
        }
        return result
    }
}
