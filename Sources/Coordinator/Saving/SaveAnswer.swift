import GRDB
import Merge

extension StoreEngine {
    /// The answer to a save of that ID, if there was one.
    func savedAnswer(_ saveID: String) throws -> SaveResult? {
        let statement = try database.prepared("SELECT answer FROM _save WHERE saveID = ?1")
        statement.bind(1, saveID)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return try SaveAnswer.decode(statement.bytes(0))
    }

    /// Keeps an answer, in the same commit as the save itself.
    func remember(_ result: SaveResult, under saveID: String) throws {
        let statement = try database.prepared(
            "INSERT INTO _save (saveID, position, answer) VALUES (?1, ?2, ?3)")
        statement.bind(1, saveID)
        statement.bind(2, Int64(bitPattern: state.position))
        statement.bind(3, SaveAnswer.encode(result))
        try statement.run()
        group.wroteApart = true
    }
}

extension StoreReader {
    /// What became of the save of that ID; nil where none is known.
    public func savedAnswer(_ saveID: String) throws -> SaveResult? {
        let statement = try database.prepared("SELECT answer FROM _save WHERE saveID = ?1")
        statement.bind(1, saveID)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return try SaveAnswer.decode(statement.bytes(0))
    }
}

extension PersistentStoreCoordinator {
    /// The answer to a save that was made before under the ID of a request that has failed now: what
    /// hinders a save, be it a full disk or a departure, does not undo an earlier one, and a client
    /// that heard "nothing was saved" would make it again under another ID.
    ///
    /// - Throws: that failure, where no such save is known; `outcomeUnknown` where the disk cannot
    ///   tell.
    func keptAnswer(
        to request: SaveRequest, insteadOf failure: any Error
    ) throws -> SaveResult {
        guard let saveID = request.saveID,
            (failure as? CoordinatorError)?.code != .outcomeUnknown
        else { throw failure }
        do {
            let answer: SaveResult? = try read { try $0.savedAnswer(saveID) }
            if let answer { return answer }
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

    /// Whether the writer has stopped at a commit of which only the next opening shows whether it
    /// was made: of a save that is not found then, nobody can say that it was not saved.
    public var isOutcomeUnknown: Bool { writer?.isOutcomeUnknown ?? false }
}

/// A save's answer as bytes, without the rows, which mean something only to the context that
/// saved.
///
/// Layout: [dot, timestamp, seen, token, [temporary, row, entity, name ...], [conflict ...]].
enum SaveAnswer {
    static func encode(_ result: SaveResult) -> [UInt8] {
        var writer = CBORWriter(capacity: 256)
        writer.beginArray(6)
        writer.write(result.transaction?.description)
        writer.write(result.timestamp?.rawValue ?? 0)
        writer.write(result.seen)
        writer.write(result.token.text)
        writer.beginArray(result.insertedRows.count * 4)
        for inserted in result.insertedRows {
            writer.write(inserted.temporary.rawValue)
            writer.write(inserted.row.rawValue)
            writer.write(inserted.entityName)
            writer.write(inserted.name)
        }
        writer.beginArray(result.conflicts.count)
        for conflict in result.conflicts { writer.write(conflict.description) }
        return writer.bytes
    }

    static func decode(_ bytes: [UInt8]) throws -> SaveResult {
        do {
            var reader = CBORReader(bytes)
            try reader.array(exactly: 6)
            let dot = try reader.optionalText().flatMap { Dot($0) }
            let timestamp = try reader.timestamp()
            let seen = try reader.vector()
            guard let token = QueryGenerationToken(text: try reader.text()) else {
                throw DecodingFailure("no token", offset: reader.offset)
            }
            var inserted: [SaveResult.InsertedRow] = []
            for _ in 0..<(try reader.array() / 4) {
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
            return SaveResult(
                transaction: dot, timestamp: dot == nil ? nil : timestamp, seen: seen,
                token: token, insertedRows: inserted, conflicts: conflicts, rows: [])
        } catch let failure as DecodingFailure {
            throw CoordinatorError(.storeDamaged, "A kept answer is damaged: \(failure).")
        }
    }
}
