import Merge

/// Named consumers of history: rows of `_consumer`, each with how far it has read.
struct ConsumerStore: StorePart {
    let session: StoreSession

    /// A consumer's name and the position up to which it has read; nil where that is in no log any
    /// more, since another's store was taken over.
    typealias ConsumerPlace = (name: String, position: UInt64?)

    /// All consumers, by name.
    func consumerPlaces() throws -> [ConsumerPlace] {
        let statement = try database.prepared(
            "SELECT name, position FROM _consumer ORDER BY name")
        var places: [ConsumerPlace] = []
        while try statement.step() {
            places.append((statement.text(0), UInt64(exactly: statement.integer(1))))
        }
        return places
    }

    /// The consumers that have lost their places with a former store and of whom nobody has been told
    /// yet, which is noted with it.
    func takeLostConsumers() throws -> [String] {
        let statement = try database.prepared(
            "SELECT name FROM _consumer WHERE position = -1 ORDER BY name")
        var names: [String] = []
        while try statement.step() { names.append(statement.text(0)) }
        if names.isEmpty { return [] }
        try database.prepared("UPDATE _consumer SET position = -2 WHERE position = -1").run()
        group.wroteApart = true
        return names
    }

    /// Whether everything after a position is still in the log.
    func isKept(after position: UInt64?) -> Bool {
        guard let position else { return false }
        return position >= (state.log.first == 0 ? state.position : state.log.first - 1)
    }

    /// Whether a consumer can read on, and has not read a position yet.
    func awaits(_ position: UInt64, _ place: ConsumerPlace) -> Bool {
        isKept(after: place.position) && place.position.map { $0 < position } ?? false
    }

    /// Notes how far a consumer has read; it is a new one where there is none of that name.
    ///
    /// - Returns: whether it holds back more than before, so that it must be on disk before
    ///   anybody relies on it.
    /// - Throws: ``CoordinatorError``: `historyTokenExpired` where some of what comes after the
    ///   token was purged, or the token names an incarnation that this store knows nothing of,
    ///   `limitExceeded` where there are too many consumers.
    func setConsumer(_ name: String, to token: QueryGenerationToken?) throws -> Bool {
        let token = token?.completed(by: state.beginnings) ?? session.token
        let position =
            !token.isWhole
            ? nil
            : try LogSearch(database: database, actors: state.actors).position(
                seen: token.versionVector, own: state.versionVector, last: state.position)
        guard let position, isKept(after: position) else {
            throw CoordinatorError(
                .historyTokenExpired,
                "The history after that token has been purged here; fetch all objects again, and "
                    + "go on with the token of that.")
        }
        let places = try consumerPlaces()
        let old = places.first { $0.name == name }
        guard old != nil || places.count < HistoryConsumer.Bounds.count else {
            throw CoordinatorError(
                .limitExceeded,
                "There are \(places.count) consumers already; remove one that is not in use.")
        }
        let statement = try database.prepared(
            "INSERT OR REPLACE INTO _consumer (name, position, token, told) "
                + "VALUES (?1, ?2, ?3, ?4)")
        statement.bind(1, name)
        statement.bind(2, Int64(bitPattern: position))
        statement.bind(3, token.text)
        statement.bind(4, Int64(clamping: environment.wallMilliseconds()))
        try statement.run()
        group.wroteApart = true
        guard let before = old?.position, isKept(after: before) else { return true }
        return position < before
    }

    /// Forgets a consumer.
    ///
    /// - Throws: ``CoordinatorError``: `consumerUnknown`.
    func removeConsumer(_ name: String) throws {
        let statement = try database.prepared("DELETE FROM _consumer WHERE name = ?1")
        statement.bind(1, name)
        try statement.run()
        guard changesCount > 0 else { throw CoordinatorError.noConsumer(name) }
        group.wroteApart = true
    }
}

extension CoordinatorError {
    fileprivate static func noConsumer(_ name: String) -> CoordinatorError {
        CoordinatorError(.consumerUnknown, "There is no consumer \(name).")
    }
}
