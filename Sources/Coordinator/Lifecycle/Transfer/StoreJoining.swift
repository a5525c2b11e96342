import Merge

/// Joins a store into the copy of another that is to take its place: afterwards the copy has all
/// that both have, without a word of the log.
///
/// Two stores may each have forgotten what the other lacks: of nodes that were apart for longer than
/// history is kept neither can send the other its transactions. The registers of both and the two
/// vectors still say what a merge needs, see ``RowState/join(_:seen:otherSeen:)``.
///
/// Invariants
/// 1. Afterwards every row, link and member is what applying all transactions of both would have
///    made of it; so is the digest, and so are the open conflicts.
/// 2. The log stays a suffix for every actor: what went before somebody's missing transactions is
///    dropped, and others who lack it take a copy too.
/// 3. In the midst rows are as no transaction left them, so nothing is journalled before the end.
struct StoreJoining: StorePart {
    static let rowsAtOnce = 500
    /// Values are held of the rows that are joined at once: some more than these bytes.
    static let bytesAtOnce = 4 << 20

    let session: StoreSession
    private let own: StoreReader
    let former: StoreReader
    /// The copy's vector.
    let seen: VersionVector
    /// The former store's vector.
    let formerSeen: VersionVector

    /// Prepares.
    ///
    /// - Parameters:
    ///   - session: of the copy, with a group open.
    ///   - former: the store that is joined into it, of the same model.
    init(_ session: StoreSession, former: StoreReader) throws {
        self.session = session
        self.former = former
        own = StoreReader(
            database: session.database,
            catalog: StoreCatalog(
                model: session.model, cluster: session.cluster,
                names: try StoreLayout.readNames(in: session.database),
                actors: session.state.actors, history: session.history))
        seen = session.state.versionVector
        formerSeen = try former.token.versionVector
    }

    /// Does all of it.
    ///
    /// - Returns: how many transactions the copy had not had.
    /// - Throws: ``CoordinatorError``: `limitExceeded` where the two cannot be joined; the group is
    ///   then to be rolled back.
    func run() throws -> Int {
        let later = JournalLater()
        scratch.mode = .joining(later)
        defer { scratch.mode = .none }
        for entry in formerSeen.entries { try transactionLog.intern(entry.actor) }
        let beginnings = try former.beginnings()
        for actor in beginnings.actors {
            if let frontier = beginnings[actor] {
                try transactionLog.noteBeginning(of: actor, frontier)
            }
        }
        try joinModels()
        try joinRows()
        try joinLinks()
        try joinMembers()
        try joinLogs()
        state.versionVector.join(formerSeen)
        try orphanStore.forgetAppliedOrphans()
        group.actors.formUnion(formerSeen.entries.map(\.actor))
        scratch.mode = .none
        try joinJournals(later)
        forgetGroup()
        state.log = try StoreLayout.readLogStanding(in: database)
        return formerSeen.entries.reduce(0) {
            $0 + Int(clamping: $1.sequence - min($1.sequence, seen[$1.actor]))
        }
    }

    /// Nobody observes the rows of a store that is not in use, and there may be very many.
    private func forgetGroup() {
        let actors = group.actors
        group = StoreSession.GroupChanges()
        group.actors = actors
        group.wroteApart = true
        scratch.forgetRows()
    }

    // MARK: Models and members

    /// From now on this store too reads writers of another model by that model.
    private func joinModels() throws {
        let kept = try StoreModels.all(in: former.database, path: "the former store")
        for other in kept where try !transactionLog.learn(other.model()) {
            throw CoordinatorError(
                .modelMismatch, "The copy cannot take transactions of a model this store knows.")
        }
        for entry in formerSeen.entries {
            guard let hash = former.catalog.history.hash(of: entry.actor) else { continue }
            try transactionLog.noteModel(hash, of: entry.actor)
        }
    }

    private func joinMembers() throws {
        for member in try former.membership.members {
            if let address = member.address, let joined = member.joined {
                try membershipStore.apply(.join(member.node, address), stamp: joined)
            }
            if let departure = member.departure {
                try membershipStore.apply(
                    .depart(member.node, isRetired: departure.isRetired), stamp: departure.stamp)
            }
        }
    }

    // MARK: Rows

    private func joinRows() throws {
        // Before anything is written: rows go from one place to another when groups change.
        let collected = try collectedRows()
        for place in former.rowPlaces {
            var last: RowID?
            while true {
                let page = try former.registers(
                    in: place, after: last, limit: Self.rowsAtOnce, byteLimit: Self.bytesAtOnce)
                guard let end = page.last else { break }
                last = end.row
                try join(page)
            }
        }
        for row in collected {
            guard let known = try own.registers(of: row) else { continue }
            let count = known.state.properties.count
            try join([
                RowRegisters(
                    row: row, entity: known.entity, state: RowState(propertyCount: count))
            ])
        }
    }

    /// The rows here that the former store has forgotten, though it has seen their transactions:
    /// stability removed them there. Their numbers are in memory, 8 bytes each.
    private func collectedRows() throws -> [RowID] {
        var found: [RowID] = []
        for place in own.rowPlaces {
            var last: RowID?
            while true {
                let page = try own.rows(in: place, after: last, limit: Self.rowsAtOnce)
                guard let end = page.last else { break }
                last = end
                for row in page {
                    guard try !former.knows(row), let known = try own.registers(of: row),
                        known.state.tells(of: formerSeen)
                    else { continue }
                    found.append(row)
                }
            }
        }
        return found
    }

    /// Joins rows as the former store has them into those here.
    private func join(_ rows: [RowRegisters]) throws {
        var touched = RowTable<TouchedRow>()
        var gone: [RowID] = []
        var newest: Stamp?
        for theirs in rows {
            let table = table(theirs.entity)
            let old = try rowStore.load(table, theirs.row)
            guard old.map({ $0.table === table }) ?? true else {
                throw refusal(theirs, "is of another entity there")
            }
            let before = old?.state ?? RowState(propertyCount: table.entity.properties.count)
            var state = before
            state.join(theirs.state, seen: seen, otherSeen: formerSeen)
            if state == before { continue }
            if state.isAlive(table.policies(for: state)), state.insertion.siblings.isEmpty {
                throw refusal(theirs, "was written after it had been collected there")
            }
            if let old, !old.isAlive, !old.isTrace, state.insertion.siblings.isEmpty {
                // Only this has its last values (MODEL P5).
                _ = try journal.settle(
                    from: try journal.conflicts(of: old, dangling: []), to: [], whole: old)
            }
            touched[theirs.row] = TouchedRow(old: old, table: table, state: state)
            if state.isEmpty { gone.append(theirs.row) }
            newest = [newest, before.newestStamp, state.newestStamp].compactMap { $0 }.max()
        }
        guard let newest else { return }
        let transitions = applier.noteTransitions(touched)
        let regrouping = try groupStore.regroup(touched)
        try applier.write(touched, transitions, regrouping, by: newest)
        for row in gone { try rowStore.removeTombstone(row) }
        forgetGroup()
    }

    private func refusal(_ row: RowRegisters, _ reason: String) -> CoordinatorError {
        CoordinatorError(
            .limitExceeded,
            "The copy cannot take this store's \(row.entity)/\(row.row): it \(reason).")
    }

    // MARK: Links

    private func joinLinks() throws {
        for link in model.links {
            var last: (source: RowID, target: RowID)?
            while true {
                let page = try former.registers(of: link, after: last, limit: Self.rowsAtOnce)
                guard let end = page.last else { break }
                last = (end.source, end.target)
                for (source, target, register) in page where !register.siblings.isEmpty {
                    try join(link, source, target, register)
                }
                forgetGroup()
            }
            last = nil
            while true {
                let page = try own.registers(of: link, after: last, limit: Self.rowsAtOnce)
                guard let end = page.last else { break }
                last = (end.source, end.target)
                for (source, target, register) in page
                where register.siblings.contains(where: { formerSeen.contains($0.dot) }) {
                    let theirs = try former.register(of: link, source: source, target: target)
                    if theirs.siblings.isEmpty { try join(link, source, target, theirs) }
                }
                forgetGroup()
            }
        }
    }

    private func join(
        _ link: ManagedObjectModel.Link, _ source: RowID, _ target: RowID,
        _ theirs: Register<Bool>
    ) throws {
        let before = try linkStore.loadLink(link, source: source, target: target)
        var register = before
        register.join(theirs, seen: seen, otherSeen: formerSeen)
        guard register != before,
            let newest = (register.siblings.last ?? before.siblings.last)?.stamp
        else { return }
        try linkWriter.write(
            link, source: source, target: target, over: before, register, by: newest)
    }

    // MARK: The log

    private func joinLogs() throws {
        let purged = try former.purgedVector
        let broken = formerSeen.entries.filter {
            $0.sequence > seen[$0.actor] && purged[$0.actor] > seen[$0.actor]
        }
        // Data that goes with history is counted from its oldest transaction's generation: answers
        // and entries that were carried over lie between the copy's last and this one.
        let generation = state.generation
        defer { state.generation = generation }
        state.generation = try lastGeneration() ?? generation
        let codes = broken.compactMap { state.actors.code(of: $0.actor) }.sorted()
        if !codes.isEmpty {
            let list = codes.map(String.init).joined(separator: ", ")
            try execute(
                sql: """
                    DELETE FROM _transaction WHERE position <= (
                        SELECT max(position) FROM _transaction
                        WHERE dot >> \(ActorTable.sequenceBits) IN (\(list)));
                    DELETE FROM _parked WHERE position NOT IN (SELECT position FROM _transaction);
                    DELETE FROM _derived WHERE position NOT IN (SELECT position FROM _transaction);
                    """)
        }
        var position: UInt64 = 0
        while true {
            let page = try former.history(
                afterPosition: position, limit: Self.rowsAtOnce, byteLimit: 4 << 20)
            guard let end = page.last else { break }
            position = end.position
            for logged in page where !seen.contains(logged.encoded.transaction.dot) {
                try transactionLog.park(try transactionLog.asOwn(logged.encoded.transaction).parked)
                try transactionLog.log(logged.encoded)
                for change in try former.derivedChanges(of: logged.encoded.dot) {
                    guard let table = tables[change.object.entityName] else { continue }
                    try transactionLog.keep(change, at: state.position, table)
                }
            }
            forgetGroup()
        }
        let statement = try database.prepared("SELECT 1 FROM _transaction LIMIT 1")
        let hasLog = try statement.step()
        statement.reset()
        // As the next opening counts: see ``StoreLayout/lastPosition``.
        if !hasLog { state.position = state.versionVector.isEmpty ? 0 : 1 }
        // Answers live as long as the log from now on.
        try execute(
            sql: """
                UPDATE _save SET position = \(Int64(bitPattern: state.position))
                WHERE position NOT IN (SELECT position FROM _transaction)
                """)
    }

    private func lastGeneration() throws -> UInt64? {
        let statement = try database.prepared(
            "SELECT generation FROM _transaction ORDER BY position DESC LIMIT 1")
        defer { statement.reset() }
        return try statement.step() ? UInt64(bitPattern: statement.integer(0)) : nil
    }
}

extension RowState {
    /// The stamp of the latest write to the row; nil of one that nobody has written.
    fileprivate var newestStamp: Stamp? { existence.siblings.last?.stamp }
}
