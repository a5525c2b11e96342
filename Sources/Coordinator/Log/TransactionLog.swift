import Merge

/// The log of transactions, and what the store knows of those who wrote them.
struct TransactionLog: StorePart {
    let session: StoreSession

    // MARK: The log

    /// Notes what an actor that has been met had seen at first.
    func noteBeginning(of actor: ActorID, _ frontier: VersionVector) throws {
        guard state.beginnings[actor] == nil, let code = state.actors.code(of: actor) else {
            return
        }
        state.beginnings.note(actor, frontier)
        var writer = CBORWriter(capacity: 8 + 20 * frontier.entries.count)
        writer.write(frontier)
        let statement = try database.prepared(
            "INSERT INTO _beginning (actor, frontier) VALUES (?1, ?2)")
        statement.bind(1, code)
        statement.bind(2, writer.bytes)
        try statement.run()
    }

    /// Numbers an actor that may be new.
    func intern(_ actor: ActorID) throws {
        guard state.actors.code(of: actor) == nil else { return }
        let code = state.actors.intern(actor).code
        let statement = try database.prepared(
            "INSERT INTO _actor (code, node, incarnation, sequence) VALUES (?1, ?2, ?3, 0)")
        statement.bind(1, code)
        statement.bind(2, Int64(actor.node.rawValue))
        statement.bind(3, Int64(bitPattern: actor.incarnation))
        try statement.run()
    }

    /// Appends a transaction to the log and advances the vector.
    func log(_ encoded: EncodedTransaction) throws {
        let transaction = encoded.transaction
        state.position += 1
        let statement = try database.prepared(
            """
            INSERT INTO _transaction (position, dot, generation, checksum, bytes)
            VALUES (?1, ?2, ?3, ?4, ?5)
            """)
        statement.bind(1, Int64(bitPattern: state.position))
        statement.bind(2, state.actors.integer(transaction.dot))
        statement.bind(3, Int64(bitPattern: state.generation))
        statement.bind(4, Int64(bitPattern: Transaction.checksum(encoded.bytes)))
        statement.bind(5, encoded.bytes)
        try statement.run()
        state.log.append(position: state.position, bytes: encoded.bytes.count)
        if transaction.dot.sequence == 1 {
            try noteBeginning(of: transaction.dot.actor, encoded.frontier)
        }
        state.versionVector.advance(to: transaction.dot)
        state.clock.observe(transaction.timestamp)
        group.actors.insert(transaction.dot.actor)
        group.transactions.append(encoded)
        try orphanStore.forgetOrphan(transaction.dot)
        try saveAnswers.rebuildAnswer(to: transaction, at: state.position)
        try HistoryIndex(session: session).append(transaction)
    }

    /// A transaction of the log; nil where it is not there.
    func transaction(_ dot: Dot) throws -> EncodedTransaction? {
        guard let integer = state.actors.knownInteger(dot) else { return nil }
        let statement = try database.prepared("SELECT bytes FROM _transaction WHERE dot = ?1")
        statement.bind(1, integer)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return try? EncodedTransaction(decoding: statement.bytes(0)).completed(by: state.beginnings)
    }

    /// The generation that a transaction of the log is of; nil where it is not there.
    func generation(of dot: Dot) throws -> UInt64? {
        guard let integer = state.actors.knownInteger(dot) else { return nil }
        let statement = try database.prepared("SELECT generation FROM _transaction WHERE dot = ?1")
        statement.bind(1, integer)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return UInt64(bitPattern: statement.integer(0))
    }

    /// Transactions before a position, newest first, as they were logged.
    ///
    /// - Parameter byteLimit: the last of them is the one with which they are longer than this.
    func logged(
        before position: Int64, limit: Int, byteLimit: Int
    ) throws -> [(position: Int64, bytes: [UInt8])] {
        let statement = try database.prepared(
            "SELECT position, bytes FROM _transaction WHERE position < ?1 "
                + "ORDER BY position DESC LIMIT ?2")
        statement.bind(1, position)
        statement.bind(2, limit)
        defer { statement.reset() }
        var found: [(position: Int64, bytes: [UInt8])] = []
        var bytes = 0
        while bytes <= byteLimit, try statement.step() {
            found.append((statement.integer(0), statement.bytes(1)))
            bytes += found.last?.bytes.count ?? 0
        }
        return found
    }

    /// The vector that a transaction of the log had seen; nil if it is not there.
    ///
    /// Of many rows that one save wrote, each asks for the same: to decode it for each would take time in
    /// the square of their number.
    func seen(by dot: Dot) throws -> VersionVector? {
        if let known = scratch.pasts[dot] { return known }
        if scratch.pasts.count >= Self.pastsLimit { scratch.pasts = [:] }
        guard let seen = try transaction(dot)?.transaction.seen else { return nil }
        scratch.pasts[dot] = seen
        return seen
    }

    /// The number of transactions whose `seen` is kept within one generation: as many as the sides
    /// of a few rows, with vectors of up to a thousand actors some megabytes.
    private static let pastsLimit = 256

    /// A transaction by the names of the store's own model, with what has no place in it.
    func asOwn(
        _ transaction: Transaction
    ) throws -> (transaction: Transaction, parked: [ParkedValues]) {
        if transaction.modelHash == model.modelHash { return (transaction, []) }
        guard let mapping = history.mapping(transaction.modelHash) else {
            throw ApplyRejection(dot: transaction.dot, reason: "Its model is not known here.")
        }
        do {
            return try mapping.translate(transaction)
        } catch let failure as TranslationFailure {
            throw ApplyRejection(dot: transaction.dot, reason: failure.reason)
        }
    }

    /// Notes by which model an actor writes, where that is not the store's own.
    ///
    /// The file gets it each time: what the history knows may be of a group that was given up.
    func noteModel(_ hash: [UInt8], of actor: ActorID) throws {
        guard hash != model.modelHash, let code = state.actors.code(of: actor) else { return }
        history.note(actor, hash)
        let statement = try database.prepared(
            "INSERT OR IGNORE INTO _actorModel (actor, hash) VALUES (?1, ?2)")
        statement.bind(1, code)
        statement.bind(2, hash)
        try statement.run()
    }

    /// Lists the values of the transaction about to be logged that have no place here.
    func park(_ parked: [ParkedValues]) throws {
        if parked.isEmpty { return }
        let statement = try database.prepared(
            "INSERT OR REPLACE INTO _parked (position, entity, property, count) "
                + "VALUES (?1, ?2, ?3, ?4)")
        for value in parked {
            statement.bind(1, Int64(bitPattern: state.position + 1))
            statement.bind(2, value.entity)
            statement.bind(3, value.property)
            statement.bind(4, value.count)
            try statement.run()
        }
    }

    // MARK: Learning of models that others had

    /// Takes a model into the list that is not the store's own: one that peers of the same model
    /// had before it.
    ///
    /// - Returns: whether it is known now; false where transactions of it could not be applied.
    func learn(_ other: ManagedObjectModel) throws -> Bool {
        if other.modelHash == model.modelHash { return true }
        if try StoreModels.isKept(other.modelHash, in: database) { return true }
        guard MigrationPlan.obstacles(from: other, to: model).isEmpty else { return false }
        let names = try StoreLayout.readNames(in: database)
        let standIns = try StoreModels.standIns(in: database, names: names)
        let known = StoreModels.known(other, model, standIns)
        try StoreModels.settle(known.mapping, in: database, names: names)
        try StoreModels.keep(other, isCurrent: false, in: database)
        history.add(other.modelHash, known)
        group.wroteApart = true
        return true
    }
}
