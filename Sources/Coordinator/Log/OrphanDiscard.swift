package import Merge

/// The record of an orphan that somebody discarded: who, when and why.
package struct OrphanDiscard: Hashable, Sendable {
    /// The most records that a store keeps. The oldest go first.
    package static let most = 1_000

    /// The orphan's name.
    package let dot: Dot
    /// When it was discarded here, in milliseconds since 1970.
    package let milliseconds: UInt64
    /// Who discarded it, where and why.
    package let description: SaveDescription
}

/// `_discard`: a row for each orphan that was discarded. The first discard makes the table.
struct OrphanDiscards: StorePart {
    let session: StoreSession

    /// Notes that an orphan was discarded, and forgets records beyond the bound.
    func note(_ dot: Dot, by who: SaveDescription) throws {
        try execute(
            sql: """
                CREATE TABLE IF NOT EXISTS _discard (
                    id INTEGER PRIMARY KEY, dot TEXT NOT NULL, milliseconds INTEGER NOT NULL,
                    author TEXT, context TEXT, note TEXT)
                """)
        let statement = try database.prepared(
            "INSERT INTO _discard (dot, milliseconds, author, context, note) "
                + "VALUES (?1, ?2, ?3, ?4, ?5)")
        statement.bind(1, dot.description)
        statement.bind(2, Int64(clamping: environment.wallMilliseconds()))
        for (place, text) in [who.author, who.contextName, who.note].enumerated() {
            if let text {
                statement.bind(Int32(place + 3), text)
            } else {
                statement.bindNull(Int32(place + 3))
            }
        }
        try statement.run()
        let sweep = try database.prepared(
            "DELETE FROM _discard WHERE id <= (SELECT max(id) FROM _discard) - ?1")
        sweep.bind(1, OrphanDiscard.most)
        try sweep.run()
    }
}

extension StoreReader {
    /// The records of discarded orphans, newest first.
    package func orphanDiscards() throws -> [OrphanDiscard] {
        let look = try database.prepared(
            "SELECT count(*) FROM sqlite_master WHERE name = '_discard'")
        defer { look.reset() }
        guard try look.step(), look.integer(0) > 0 else { return [] }
        let statement = try database.prepared(
            "SELECT dot, milliseconds, author, context, note FROM _discard ORDER BY id DESC")
        var found: [OrphanDiscard] = []
        while try statement.step() {
            func text(_ column: Int32) -> String? {
                statement.isNull(column) ? nil : statement.text(column)
            }
            guard let dot = Dot(statement.text(0)) else { continue }
            found.append(
                OrphanDiscard(
                    dot: dot, milliseconds: UInt64(clamping: statement.integer(1)),
                    description: SaveDescription(
                        author: text(2), contextName: text(3), note: text(4))))
        }
        return found
    }
}
