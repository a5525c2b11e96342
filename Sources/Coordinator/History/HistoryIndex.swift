import Merge

/// The names under which transactions are found in the index of history.
struct HistoryNames: Sendable {
    /// The names of each entity and link: that of the entity, and of all that it inherits from. The ends of a
    /// link may be any objects of their families.
    private let byShape: [String: [String]]
    /// The hash of the model that they are of.
    let modelHash: [UInt8]

    init(_ model: ManagedObjectModel) {
        modelHash = model.modelHash
        var names: [String: [String]] = [:]
        for entity in model.entities {
            names[entity.name] = model.entities.filter { entity.isKind(of: $0) }.map {
                Self.name(ofEntity: $0.name)
            }
        }
        for link in model.links {
            let ends = [link.source, link.target].compactMap { model.entity(named: $0) }
            names[link.name] = model.entities.filter { entity in
                ends.contains { $0.isKind(of: entity) || entity.isKind(of: $0) }
            }.map { Self.name(ofEntity: $0.name) }
        }
        byShape = names
    }

    static func name(ofAuthor author: String) -> String { "a" + author }
    static func name(ofEntity entity: String) -> String { "e" + entity }

    /// The names of a transaction in the names of the store's own model, without its derived changes.
    func names(of transaction: Transaction) -> [String] {
        var names = transaction.shapes.flatMap { byShape[$0.entity] ?? [] }
        if let author = transaction.author { names.append(Self.name(ofAuthor: author)) }
        return names
    }

    /// The names of a derived change of an object.
    func names(ofEntity entity: String) -> [String] { byShape[entity] ?? [] }
}

/// The index of history: which transactions of the log have an author or an entity.
///
/// `_historyIndex` has positions by names, in the order of the log; `_historyIndexed` one row, with the last
/// position that is in it. It is of use where that is the log's last. A program that appends without it,
/// or puts another log in the place, leaves it behind, and the next opening makes a new one. A name that
/// it has too much costs a look at a transaction; none may be missing.
struct HistoryIndex: StorePart {
    let session: StoreSession

    /// Makes the index, where it is asked for, or takes it away.
    func adopt(isWanted: Bool) throws {
        guard isWanted else {
            return try execute(
                sql: "DROP TABLE IF EXISTS _historyIndex; DROP TABLE IF EXISTS _historyIndexed")
        }
        let names = HistoryNames(model)
        session.historyNames = names
        try execute(
            sql: """
                CREATE TABLE IF NOT EXISTS _historyIndexed (
                    last INTEGER NOT NULL, model BLOB NOT NULL) STRICT;
                CREATE TABLE IF NOT EXISTS _historyIndex (
                    id INTEGER PRIMARY KEY, name TEXT NOT NULL, position INTEGER NOT NULL,
                    UNIQUE (name, position)) STRICT;
                """)
        let known = try database.prepared("SELECT last, model FROM _historyIndexed")
        let isCurrent =
            try known.step() && known.integer(0) == Int64(bitPattern: state.position)
            && known.bytes(1) == names.modelHash
        known.reset()
        if isCurrent { return }
        try execute(sql: "DELETE FROM _historyIndex; DELETE FROM _historyIndexed")
        let log = try database.prepared(
            "SELECT position, bytes FROM _transaction ORDER BY position")
        let derived = try database.prepared(
            "SELECT position, entity FROM _derived ORDER BY position, entity")
        var hasDerived = try derived.step()
        // In the order of the log, by which it is purged.
        while try log.step() {
            let position = log.integer(0)
            if let logged = try? Transaction.decode(log.bytes(1)) {
                try note(logged, at: position, names)
            }
            while hasDerived, derived.integer(0) <= position {
                let code = derived.integer(1)
                if let table = tables.values.first(where: { $0.code == code }) {
                    try append(derived: table.entity.name, at: UInt64(derived.integer(0)))
                }
                hasDerived = try derived.step()
            }
        }
        derived.reset()
        let statement = try database.prepared("INSERT INTO _historyIndexed VALUES (?1, ?2)")
        statement.bind(1, Int64(bitPattern: state.position))
        statement.bind(2, names.modelHash)
        try statement.run()
    }

    /// Notes the transaction that was appended at the log's end.
    func append(_ transaction: Transaction) throws {
        guard let names = session.historyNames else { return }
        let position = Int64(bitPattern: state.position)
        try note(transaction, at: position, names)
        let statement = try database.prepared(
            "UPDATE _historyIndexed SET last = ?1 WHERE last = ?1 - 1")
        statement.bind(1, position)
        try statement.run()
    }

    /// Notes a derived change of a transaction.
    func append(derived entity: String, at position: UInt64) throws {
        guard let names = session.historyNames else { return }
        for name in names.names(ofEntity: entity) {
            try insert(name, Int64(bitPattern: position))
        }
    }

    /// Forgets what was purged, within a step's bounds.
    ///
    /// - Returns: whether that was all.
    func purge(before position: Int64, limit: Int) throws -> Bool {
        guard session.historyNames != nil else { return true }
        let statement = try database.prepared(
            """
            DELETE FROM _historyIndex WHERE id IN (
                SELECT id FROM (SELECT id, position FROM _historyIndex ORDER BY id LIMIT ?2)
                WHERE position < ?1)
            """)
        statement.bind(1, position)
        statement.bind(2, limit)
        try statement.run()
        if changesCount > 0 { group.wroteApart = true }
        return changesCount < limit
    }

    private func note(_ logged: Transaction, at position: Int64, _ names: HistoryNames) throws {
        let transaction = (try? transactionLog.asOwn(logged))?.transaction ?? logged
        for name in names.names(of: transaction) { try insert(name, position) }
    }

    private func insert(_ name: String, _ position: Int64) throws {
        let statement = try database.prepared(
            "INSERT OR IGNORE INTO _historyIndex (name, position) VALUES (?1, ?2)")
        statement.bind(1, name)
        statement.bind(2, position)
        try statement.run()
    }
}

extension StoreReader {
    /// Whether there is an index of history that has all of the log that is read.
    func hasHistoryIndex() throws -> Bool {
        let look = try database.prepared(
            "SELECT count(*) FROM sqlite_master WHERE name = '_historyIndexed'")
        let isThere = try look.step() && look.integer(0) == 1
        look.reset()
        guard isThere else { return false }
        let statement = try database.prepared("SELECT last, model FROM _historyIndexed")
        defer { statement.reset() }
        return try statement.step()
            && statement.integer(0) == Int64(bitPattern: token.position)
            && statement.bytes(1) == catalog.model.modelHash
    }

    /// The names of transactions that the index of history lacks, where there is one.
    func gapsOfTheHistoryIndex(limit: Int) throws -> [String] {
        guard try hasHistoryIndex() else { return [] }
        let names = HistoryNames(catalog.model)
        var gaps: [String] = []
        let look = try database.prepared(
            "SELECT 1 FROM _historyIndex WHERE name = ?1 AND position = ?2")
        func note(_ wanted: [String], _ position: Int64) throws {
            for name in wanted where gaps.count < limit {
                look.bind(1, name)
                look.bind(2, position)
                defer { look.reset() }
                if try !look.step() {
                    gaps.append("the index of history lacks transaction \(position) as \(name)")
                }
            }
        }
        let log = try database.prepared(
            "SELECT position, bytes FROM _transaction ORDER BY position")
        while try log.step() {
            guard let logged = try? Transaction.decode(log.bytes(1)) else { continue }
            try note(names.names(of: catalog.asOwn(logged)), log.integer(0))
        }
        let derived = try database.prepared(
            "SELECT d.position, d.entity FROM _derived d JOIN _transaction t "
                + "ON t.position = d.position ORDER BY d.position")
        while try derived.step() {
            guard let entity = catalog.names.entityNames[derived.integer(1)] else { continue }
            try note(names.names(ofEntity: entity), derived.integer(0))
        }
        return gaps
    }
}
