import GRDB
import Merge

/// The tables of a store file, and how they are made.
///
/// Any SQLite tool can read the file: a table per root entity under its own name and with its
/// properties' names; everything of the system begins with `_`.
enum StoreLayout {
    /// "Trib" in the file's header.
    static let applicationID: Int32 = 0x5472_6962
    /// The layout's number, in the file's user_version. A store of any other is refused.
    static let version: Int32 = 2

    /// - Throws: ``CoordinatorError`` (`storeLayout`) where a file's layout is another.
    static func check(version found: Int32, path: String) throws {
        guard found != version else { return }
        throw CoordinatorError(
            .storeLayout,
            "\(path) has store layout \(found), and this program opens layout \(version) alone. A "
                + "later program made it, or a development version of Tributary before 0.1.0.")
    }

    /// The position of the newest transaction; 0 if there was none yet. If all of a store's data
    /// came as rows, its log is empty: then it is 1, so that a consumer that has read nothing
    /// learns that it has missed something.
    static let lastPosition = """
        (SELECT coalesce(
            (SELECT max(position) FROM _transaction),
            (SELECT count(*) > 0 FROM _actor WHERE sequence > 0)))
        """

    /// The tables that every store has, whatever its model.
    static let systemTables = stateTables + rowTables + journalTables + modelTables + peerTables

    /// The state and the log. What an actor's sequence has become since its row was written is in
    /// `recent` (``RecentSequences``); the row of an actor that has written anything has one above 0.
    private static let stateTables = """
        CREATE TABLE _state (
            id INTEGER PRIMARY KEY CHECK (id = 1), store INTEGER NOT NULL,
            cluster TEXT NOT NULL, node INTEGER NOT NULL, incarnation INTEGER NOT NULL,
            generation INTEGER NOT NULL, clock INTEGER NOT NULL, block INTEGER NOT NULL,
            digestHigh INTEGER NOT NULL, digestLow INTEGER NOT NULL,
            recovery INTEGER NOT NULL, syncs INTEGER NOT NULL, recent TEXT NOT NULL) STRICT;
        CREATE TABLE _actor (
            code INTEGER PRIMARY KEY, node INTEGER NOT NULL, incarnation INTEGER NOT NULL,
            sequence INTEGER NOT NULL, UNIQUE (node, incarnation)) STRICT;
        CREATE TABLE _transaction (
            position INTEGER PRIMARY KEY, dot INTEGER NOT NULL UNIQUE,
            generation INTEGER NOT NULL, checksum INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;
        """

    /// The tables of rows beside those of their entities. `_eclipsed` has living rows whose unique
    /// key an earlier row shows, `_eclipsedKey` their keys. `_derived` has references that point
    /// elsewhere since a transaction of the log that did not write them; they go with it. `_uncollected`
    /// has links by their ends, rows with the target 0, and ranges of rows with their last one below 0.
    private static let rowTables = """
        CREATE TABLE _tombstone (
            row INTEGER PRIMARY KEY, entity INTEGER NOT NULL, registers BLOB NOT NULL) STRICT;
        CREATE TABLE _eclipsed (
            row INTEGER PRIMARY KEY, entity INTEGER NOT NULL, survivor INTEGER NOT NULL,
            registers BLOB NOT NULL) STRICT;
        CREATE INDEX _eclipsedBySurvivor ON _eclipsed (survivor);
        CREATE TABLE _eclipsedKey (
            key BLOB NOT NULL, row INTEGER NOT NULL, PRIMARY KEY (key, row))
            WITHOUT ROWID, STRICT;
        CREATE INDEX _eclipsedKeyByRow ON _eclipsedKey (row);
        CREATE TABLE _uncollected (
            row INTEGER NOT NULL, target INTEGER NOT NULL, name TEXT NOT NULL,
            waitsFor INTEGER NOT NULL, PRIMARY KEY (row, target, name)) WITHOUT ROWID, STRICT;
        CREATE INDEX _uncollectedByDot ON _uncollected (waitsFor);
        CREATE TABLE _dangling (
            target INTEGER NOT NULL, row INTEGER NOT NULL, entity INTEGER NOT NULL,
            PRIMARY KEY (target, row)) WITHOUT ROWID, STRICT;
        CREATE TABLE _derived (
            id INTEGER PRIMARY KEY, position INTEGER NOT NULL, entity INTEGER NOT NULL,
            row INTEGER NOT NULL, property TEXT NOT NULL, target INTEGER,
            UNIQUE (position, row, property)) STRICT;
        """

    /// The tables for people and programs: conflicts, answers to saves, and consumers of history by
    /// name.
    ///
    /// A consumer's position is -1 where it went with a store in whose place a copy was put, and -2 once
    /// that has been told.
    private static let journalTables = """
        CREATE TABLE _conflict (
            position INTEGER PRIMARY KEY, id TEXT NOT NULL, closed INTEGER NOT NULL DEFAULT 0,
            entity TEXT NOT NULL, row INTEGER NOT NULL, kind TEXT NOT NULL,
            state TEXT NOT NULL, opened INTEGER NOT NULL, record BLOB NOT NULL,
            UNIQUE (id, closed)) STRICT;
        CREATE INDEX _conflictByRow ON _conflict (row);
        CREATE INDEX _conflictByClosing ON _conflict (closed, position) WHERE closed > 0;
        CREATE TABLE _save (
            saveID TEXT PRIMARY KEY, position INTEGER NOT NULL, answer BLOB NOT NULL)
            WITHOUT ROWID, STRICT;
        CREATE INDEX _saveByPosition ON _save (position);
        CREATE TABLE _consumer (
            name TEXT PRIMARY KEY, position INTEGER NOT NULL, token TEXT NOT NULL,
            told INTEGER NOT NULL) WITHOUT ROWID, STRICT;
        """

    /// The models that the store has, has had or knows, and lasting numbers of entities and properties.
    ///
    /// `_actorModel` names the model of actors that do not write by the store's own; `_standIn`
    /// keeps what was settled to stand for a value that a former model did not have, by the
    /// property's lasting number; `_parked` lists the values of the log that have no place here.
    private static let modelTables = """
        CREATE TABLE _model (
            hash BLOB PRIMARY KEY, json TEXT NOT NULL, current INTEGER NOT NULL) STRICT;
        CREATE TABLE _name (
            code INTEGER PRIMARY KEY, entity TEXT NOT NULL, property TEXT NOT NULL,
            UNIQUE (entity, property)) STRICT;
        CREATE TABLE _actorModel (
            actor INTEGER PRIMARY KEY, hash BLOB NOT NULL) STRICT;
        CREATE TABLE _standIn (
            code INTEGER PRIMARY KEY, value BLOB NOT NULL) STRICT;
        CREATE TABLE _parked (
            position INTEGER NOT NULL, entity TEXT NOT NULL, property TEXT NOT NULL,
            count INTEGER NOT NULL, PRIMARY KEY (position, entity, property))
            WITHOUT ROWID, STRICT;
        """

    /// The tables about other nodes and their incarnations.
    ///
    /// - `_founder` has the incarnations whose stores were vouched for together with this one, when all
    ///   were new.
    /// - `_member` tells who joined and who departed, as transactions tell; it is empty before the first
    ///   of them.
    /// - `_beginning` tells what actors had seen at first, by their numbers and in the order in which that
    ///   became known: frontiers, as canonical CBOR. Invariant: an actor whose first transaction is in
    ///   the vector has one, whether that is still in the log or not.
    /// - `_orphan` has transactions that can never be applied, as they came, in the order in which
    ///   they were kept; by the names of their actors, of whom the vector may know nothing. `kept`
    ///   is wall milliseconds.
    private static let peerTables = """
        CREATE TABLE _incarnation (
            node INTEGER PRIMARY KEY, incarnation INTEGER NOT NULL) STRICT;
        CREATE TABLE _founder (
            node INTEGER PRIMARY KEY, incarnation INTEGER NOT NULL) STRICT;
        CREATE TABLE _member (
            node INTEGER PRIMARY KEY, publish TEXT, exchange TEXT, publicKeys TEXT,
            joined BLOB, departed BLOB, retired INTEGER) STRICT;
        CREATE TABLE _beginning (
            place INTEGER PRIMARY KEY, actor INTEGER NOT NULL UNIQUE, frontier BLOB NOT NULL) STRICT;
        CREATE TABLE _orphan (
            position INTEGER PRIMARY KEY, node INTEGER NOT NULL, incarnation INTEGER NOT NULL,
            sequence INTEGER NOT NULL, kept INTEGER NOT NULL, checksum INTEGER NOT NULL,
            bytes BLOB NOT NULL, UNIQUE (node, incarnation, sequence)) STRICT;
        """

    /// Makes or extends the tables of a model's entities.
    static func createEntityTables(_ model: ManagedObjectModel, in database: Database) throws {
        try dropIndexes(notOf: model, in: database)
        for root in model.entities where root.name == root.root {
            let family = root.familyNames.compactMap { model.entity(named: $0) }
            try createTable(root, family: family, in: database)
        }
        for link in model.links {
            let table = EntityTable.quote(link.name)
            try database.execute(
                sql: """
                    CREATE TABLE IF NOT EXISTS \(table) (
                        source INTEGER NOT NULL, target INTEGER NOT NULL,
                        _alive INTEGER NOT NULL, _siblings BLOB NOT NULL,
                        PRIMARY KEY (source, target)) WITHOUT ROWID, STRICT;
                    """)
        }
        for (name, index) in try indexes(of: model).sorted(by: { $0.key < $1.key }) {
            try database.execute(
                sql: "CREATE INDEX IF NOT EXISTS \(EntityTable.quote(name)) ON \(index.sql)")
        }
    }

    /// An index over a table of a model's, other than those of constraints.
    private struct Index: Hashable {
        let table: String
        /// What comes after ON in the statement that makes it.
        let sql: String

        init(_ table: String, _ columns: [String], where condition: String? = nil) {
            self.table = table
            sql =
                "\(EntityTable.quote(table)) (\(columns.joined(separator: ", ")))"
                + (condition.map { " WHERE \($0)" } ?? "")
        }
    }

    /// The indexes that a model's tables have, by name.
    private static func indexes(of model: ManagedObjectModel) throws -> [String: Index] {
        var result: [String: Index] = [:]
        for entity in model.entities {
            for property in entity.properties where property.isReference {
                result["_index.\(entity.root).\(property.name)"] = Index(
                    entity.root, [EntityTable.quote(property.name)])
            }
            for index in entity.indexes {
                result["\(entity.name).\(index.name)"] = Index(
                    entity.root, index.elements.map(\.sql),
                    where: try PartialIndex(index, of: entity, in: model)?.sql)
            }
        }
        for link in model.links {
            result["_index." + link.name] = Index(link.name, ["\"target\"", "\"source\""])
        }
        return result
    }

    /// Drops the indexes that a model has not, or has in another form. What is new may have their
    /// names: of tables too, which SQLite keeps with those of indexes.
    static func dropIndexes(notOf model: ManagedObjectModel, in database: Database) throws {
        let wanted = try indexes(of: model)
        let statement = try database.prepared(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL "
                + "AND substr(tbl_name, 1, 1) <> '_' "
                + "AND substr(name, 1, 5) <> '_key.' AND instr(name, '.') > 0 ORDER BY name")
        var found: [(name: String, sql: String)] = []
        while try statement.step() { found.append((statement.text(0), statement.text(1))) }
        for (name, sql) in found {
            if let wanted = wanted[name], sql.hasSuffix(" ON \(wanted.sql)") { continue }
            try database.execute(sql: "DROP INDEX \(EntityTable.quote(name))")
        }
    }

    /// The columns of the entities that share a table, with their declared types.
    static func columns(
        of family: [ManagedObjectModel.Entity]
    ) -> [(name: String, type: String)] {
        var columns: [(name: String, type: String)] = []
        var seen = Set<String>()
        for entity in family {
            for property in entity.columns where seen.insert(property.name).inserted {
                // Heirs may give one name to properties of different types; then the column keeps
                // what it is given, because an affinity would turn the text 007 into the number 7.
                let types = Set(
                    family.compactMap { heir in
                        heir.columnPosition(of: property.name)
                            .map { affinity(heir.columns[$0].content) }
                    })
                columns.append((property.name, types.count == 1 ? affinity(property.content) : ""))
            }
        }
        return columns
    }

    private static func createTable(
        _ root: ManagedObjectModel.Entity, family: [ManagedObjectModel.Entity],
        in database: Database
    ) throws {
        let derived = Dictionary(
            family.flatMap(\.derivedAttributes).map { ($0.name, $0) },
            uniquingKeysWith: { first, _ in first })
        let columns = columns(of: family).map {
            let extra = derived[$0.name].map(DerivedColumns.declaration) ?? ""
            return "\(EntityTable.quote($0.name)) \($0.type)\(extra)"
        }
        let shared = root.sharesTable ? "_entity INTEGER NOT NULL," : ""
        let table = EntityTable.quote(root.name)
        try database.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS \(table) (
                    _id INTEGER PRIMARY KEY, \(shared) _version INTEGER NOT NULL,
                    _timestamp INTEGER NOT NULL, _registers BLOB\
                \(columns.map { ", " + $0 }.joined()));
                """)
    }

    /// The column's declared type. Doubles have none, for REAL affinity would turn -0.0 into 0.
    private static func affinity(_ content: ManagedObjectModel.Property.Content) -> String {
        guard case .attribute(let type) = content else { return "INTEGER" }
        return switch type {
        case .integer16, .integer32, .integer64, .boolean, .date: "INTEGER"
        case .decimal, .string, .uuid, .uri: "TEXT"
        case .binary: "BLOB"
        case .double, .float: ""
        }
    }

    /// Numbers every entity and property that has no number yet, and gives the whole table.
    static func nameTable(_ model: ManagedObjectModel, in database: Database) throws -> NameTable {
        var names = try readNames(in: database)
        for entity in model.entities {
            var wanted = [(entity.name, "")]
            wanted += entity.properties.map { (entity.root, $0.name) }
            for (owner, property) in wanted {
                let known =
                    property.isEmpty
                    ? names.entities[owner] : names.code(ofProperty: property, root: owner)
                if known != nil { continue }
                try database.execute(
                    sql: "INSERT INTO _name (entity, property) VALUES (?, ?)",
                    arguments: [owner, property])
                names.add(code: database.lastInsertedRowID, entity: owner, property: property)
            }
        }
        return names
    }

    static func readNames(in database: Database) throws -> NameTable {
        var names = NameTable()
        let statement = try database.prepared("SELECT code, entity, property FROM _name")
        while try statement.step() {
            names.add(
                code: statement.integer(0), entity: statement.text(1),
                property: statement.text(2))
        }
        return names
    }

    /// The incarnations of other nodes that the store remembers, by node.
    static func readIncarnations(in database: Database) throws -> [ActorID] {
        try incarnations("_incarnation", in: database)
    }

    /// Those whose stores were vouched for together with this one, by node.
    static func readFounders(in database: Database) throws -> [ActorID] {
        try incarnations("_founder", in: database)
    }

    private static func incarnations(
        _ table: String, in database: Database
    ) throws -> [ActorID] {
        let statement = try database.prepared(
            "SELECT node, incarnation FROM \(table) ORDER BY node")
        var incarnations: [ActorID] = []
        while try statement.step() {
            guard let node = NodeID(statement.integer(0)) else { continue }
            incarnations.append(
                ActorID(node: node, incarnation: UInt64(bitPattern: statement.integer(1))))
        }
        return incarnations
    }

    /// The names of the transactions that are kept as orphans, sorted.
    static func readOrphans(in database: Database) throws -> [Dot] {
        let statement = try database.prepared("SELECT node, incarnation, sequence FROM _orphan")
        var dots: [Dot] = []
        while try statement.step() {
            // A row of nobody's is damage that a verification tells of.
            guard let node = NodeID(statement.integer(0)) else { continue }
            dots.append(
                Dot(
                    actor: ActorID(
                        node: node, incarnation: UInt64(bitPattern: statement.integer(1))),
                    sequence: UInt64(bitPattern: statement.integer(2))))
        }
        return dots.sorted()
    }

    /// How much past the store holds, counted by looking at all of it.
    static func readLogStanding(in database: Database) throws -> LogStanding {
        // The lengths of blobs are in their rows' heads, so their pages are not read.
        let log = try database.prepared(
            "SELECT min(position), sum(length(bytes)) FROM _transaction")
        _ = try log.step()
        var standing = LogStanding(
            first: UInt64(bitPattern: log.integer(0)), bytes: UInt64(clamping: log.integer(1)))
        log.reset()
        let records = try database.prepared("SELECT count(*) FROM _conflict WHERE closed > 0")
        _ = try records.step()
        standing.closedRecords = Int(clamping: records.integer(0))
        records.reset()
        return standing
    }

    static func readBeginnings(in database: Database, _ actors: ActorTable) throws -> Beginnings {
        var beginnings = Beginnings()
        let statement = try database.prepared(
            "SELECT actor, frontier FROM _beginning ORDER BY place")
        defer { statement.reset() }
        while try statement.step() {
            var reader = CBORReader(statement.bytes(1))
            let code = Int(statement.integer(0))
            guard code >= 1, code <= actors.actors.count, let frontier = try? reader.vector() else {
                throw CoordinatorError(
                    .storeDamaged, "What an incarnation had seen at first is damaged.")
            }
            beginnings.note(actors.actors[code - 1], frontier)
        }
        return beginnings
    }

    static func readActors(in database: Database) throws -> (ActorTable, VersionVector) {
        var actors = ActorTable()
        var entries: [VersionVector.Entry] = []
        let recent = try readRecent(in: database).sequences
        let statement = try database.prepared(
            "SELECT code, node, incarnation, sequence FROM _actor ORDER BY code")
        while try statement.step() {
            guard let node = NodeID(statement.integer(1)) else { continue }
            let actor = ActorID(
                node: node, incarnation: UInt64(bitPattern: statement.integer(2)))
            let code = actors.intern(actor).code
            guard code == Int(statement.integer(0)) else {
                statement.reset()
                throw CoordinatorError(.storeDamaged, "The table of actors has a gap.")
            }
            entries.append(
                .init(
                    actor: actor,
                    sequence: recent[code] ?? UInt64(bitPattern: statement.integer(3))))
        }
        return (actors, VersionVector(entries.filter { $0.sequence > 0 }))
    }

    static func readRecent(in database: Database) throws -> RecentSequences {
        let statement = try database.prepared("SELECT recent FROM _state")
        defer { statement.reset() }
        guard try statement.step(), let recent = RecentSequences(statement.text(0)) else {
            throw CoordinatorError(.storeDamaged, "The store has lost its actors' sequences.")
        }
        return recent
    }
}
