import GRDB
public import Merge

/// Which entries of the conflict journal are wanted.
public struct ConflictQuery: Hashable, Sendable {
    /// Only in this state.
    public var state: ConflictState?
    /// Only of this entity.
    public var entity: String?
    /// Only of this row.
    public var row: RowID?
    /// Only of this object, whichever entity of its hierarchy names it.
    public var object: ManagedObjectID?
    /// Only of this kind.
    public var kind: ConflictKind?
    /// Only where the object breaks this rule of the model as it is shown.
    public var violation: ConflictViolation?
    /// Only open, or only closed.
    public var isOpen: Bool?
    /// Only those that follow this place of the list; nil for its beginning.
    public var after: ConflictPlace?
    /// The most entries, 1...10,000.
    public var limit: Int

    /// Describes what is wanted; without arguments the newest 100 of all.
    public init(
        state: ConflictState? = nil, entity: String? = nil, row: RowID? = nil,
        object: ManagedObjectID? = nil,
        kind: ConflictKind? = nil, violation: ConflictViolation? = nil, isOpen: Bool? = nil,
        after: ConflictPlace? = nil, limit: Int = 100
    ) {
        self.state = state
        self.entity = entity
        self.row = row
        self.object = object
        self.kind = kind
        self.violation = violation
        self.isOpen = isOpen
        self.after = after
        self.limit = min(max(limit, 1), 10_000)
    }
}

/// Where an entry stands in the conflict journal: an open one by when it was opened, also when its sides
/// change; one that closes goes to the top.
public struct ConflictPlace: Hashable, Sendable, CustomStringConvertible {
    fileprivate let position: Int64

    fileprivate init(_ position: Int64) { self.position = position }

    /// Reads a place as ``description`` writes it; nil for anything else.
    public init?(_ text: String) {
        guard let position = Int64(text), String(position) == text else { return nil }
        self.position = position
    }

    /// The place as text, which is safe in a URL.
    public var description: String { String(position) }
}

extension StoreReader {
    /// Entries of the conflict journal, newest first, with authors where the log has them.
    public func conflicts(_ query: ConflictQuery) throws -> [Conflict] {
        var result: [Conflict] = []
        try forEachConflict(query) { conflict, _ in
            result.append(conflict)
            return true
        }
        return result
    }

    /// Hands entries of the conflict journal to a closure, newest first and one at a time, with
    /// authors where the log has them.
    ///
    /// - Parameter body: is given an entry and its place; gives false to stop.
    public func forEachConflict(
        _ query: ConflictQuery, _ body: (Conflict, ConflictPlace) throws -> Bool
    ) throws {
        var terms: [String] = []
        var texts: [String] = []
        if let state = query.state {
            texts.append(state.rawValue)
            terms.append("state = ?\(texts.count)")
        }
        if let entity = query.entity {
            texts.append(entity)
            terms.append("entity = ?\(texts.count)")
        }
        if let kind = query.kind {
            texts.append(kind.rawValue)
            terms.append("kind = ?\(texts.count)")
        }
        if query.violation != nil {
            let kinds = [ConflictKind.dangling, .count].map { "'\($0.rawValue)'" }
            terms.append("kind IN (\(kinds.joined(separator: ", ")))")
        }
        if let isOpen = query.isOpen { terms.append(isOpen ? "closed = 0" : "closed > 0") }
        if let row = query.row ?? query.object?.row { terms.append("row = \(row.rawValue)") }
        if let object = query.object {
            // Rows of other hierarchies may have the same number.
            let root = catalog.model.entity(named: object.entityName)?.root
            var marks: [String] = []
            for entity in catalog.model.entities where entity.root == root {
                texts.append(entity.name)
                marks.append("?\(texts.count)")
            }
            terms.append("entity IN (\(marks.joined(separator: ", ")))")
        }
        if let after = query.after { terms.append("position < \(after.position)") }
        // Only the record says what is broken, so it is looked for among all.
        let limit = query.violation == nil ? "LIMIT \(query.limit)" : ""
        let filter = terms.isEmpty ? "" : "WHERE " + terms.joined(separator: " AND ")
        let statement = SQLStatement(
            try database.makeStatement(
                sql: "SELECT id, closed, opened, record, position FROM _conflict \(filter) "
                    + "ORDER BY position DESC \(limit)"))
        for (index, text) in texts.enumerated() { statement.bind(Int32(index + 1), text) }
        defer { statement.reset() }
        var writers = ConflictWriters()
        var count = 0
        while count < query.limit, try statement.step() {
            let conflict = try ConflictCoding.entry(statement)
            if let violation = query.violation, conflict.violation != violation { continue }
            count += 1
            let place = ConflictPlace(statement.integer(4))
            if try !body(try withAuthors(conflict, &writers), place) { return }
        }
    }

    /// One entry; nil where there is none of that name.
    public func conflict(_ id: ConflictID) throws -> Conflict? {
        let statement = try database.prepared(
            "SELECT id, closed, opened, record FROM _conflict WHERE id = ?1 AND closed = ?2")
        statement.bind(
            1, ConflictID(entity: id.entity, row: id.row, subject: id.subject).description)
        statement.bind(2, Int64(bitPattern: id.closedAt ?? 0))
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        var writers = ConflictWriters()
        var conflict = try withAuthors(try ConflictCoding.entry(statement), &writers)
        if let property = conflict.property, let decision = conflict.decision,
            let logged = try transaction(decision.dot)?.transaction
        {
            let row = conflict.object.row
            conflict.decision?.value = catalog.asOwn(logged).value(of: property, of: row)
        }
        return conflict
    }

    private func withAuthors(
        _ conflict: Conflict, _ writers: inout ConflictWriters
    ) throws -> Conflict {
        var conflict = conflict
        for index in conflict.sides.indices {
            guard let dot = conflict.sides[index].dot,
                let writer = try writers.writer(of: dot, in: self)
            else { continue }
            conflict.sides[index].author = writer.author
            conflict.sides[index].contextName = writer.contextName
            conflict.sides[index].timestamp = writer.timestamp
        }
        if conflict.state == .resolved, let dot = conflict.closedBy {
            let writer = try writers.writer(of: dot, in: self)
            conflict.decision = ConflictDecision(
                dot: dot, timestamp: writer?.timestamp, author: writer?.author,
                contextName: writer?.contextName, note: writer?.note)
        }
        return conflict
    }

    /// The value before the sides of a conflict over one property, where the log still tells.
    ///
    /// - Parameters:
    ///   - scanLimit: how many transactions are looked at, newest first.
    ///   - byteLimit: how many bytes of them.
    public func base(
        of conflict: Conflict, scanLimit: Int = 100_000, byteLimit: Int = .max
    ) throws -> (dot: Dot, value: PropertyValue)? {
        guard let property = conflict.property, conflict.kind == .update,
            // Sides of several objects follow no common value.
            !conflict.sides.contains(where: { $0.object != nil })
        else { return nil }
        var common: VersionVector?
        for side in conflict.sides {
            guard let dot = side.dot, let seen = try transaction(dot)?.transaction.seen else {
                return nil
            }
            common = common?.meet(seen) ?? seen
        }
        guard let common else { return nil }
        return try lastWrite(
            of: property, of: conflict.object, within: common, scanLimit: scanLimit,
            byteLimit: byteLimit)
    }

    /// How many conflicts there are, by state and kind; open ones only.
    public func conflictCounts() throws -> [(state: String, kind: String, count: Int)] {
        let statement = try database.prepared(
            """
            SELECT state, kind, count(*) FROM _conflict WHERE closed = 0
            GROUP BY state, kind ORDER BY state, kind
            """)
        var result: [(String, String, Int)] = []
        while try statement.step() {
            result.append((statement.text(0), statement.text(1), Int(statement.integer(2))))
        }
        return result
    }
}

/// The authors of the sides of the conflicts of a list.
///
/// The sides that one save wrote are listed one after the other, and to know its author all of it is
/// decoded, which may be a hundred thousand objects.
private struct ConflictWriters {
    struct Writer {
        var author: String?
        var contextName: String?
        var note: String?
        var timestamp: HybridTimestamp
    }

    /// So many are kept, which have no values with them; then all are forgotten.
    private static let most = 256
    private var known: [Dot: Writer?] = [:]

    /// - Returns: nil where the log does not have the transaction.
    mutating func writer(of dot: Dot, in reader: StoreReader) throws -> Writer? {
        if let writer = known[dot] { return writer }
        let writer = try reader.transaction(dot).map {
            Writer(
                author: $0.transaction.author, contextName: $0.transaction.contextName,
                note: $0.transaction.note, timestamp: $0.transaction.timestamp)
        }
        if known.count >= Self.most { known.removeAll(keepingCapacity: true) }
        known[dot] = .some(writer)
        return writer
    }
}

extension ConflictCoding {
    /// An entry of the journal, of a row of its ID, `closed`, `opened` and `record`.
    static func entry(_ statement: SQLStatement) throws -> Conflict {
        let name = statement.text(0)
        guard let id = ConflictID(name) else {
            throw CoordinatorError(.storeDamaged, "The journal has an entry named \(name).")
        }
        let closed = UInt64(bitPattern: statement.integer(1))
        return try decode(
            statement.bytes(3),
            id: ConflictID(
                entity: id.entity, row: id.row, subject: id.subject,
                closedAt: closed == 0 ? nil : closed),
            openedAt: UInt64(bitPattern: statement.integer(2)))
    }
}
