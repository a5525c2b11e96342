import GRDB
public import Merge

/// A consistent view of one generation of a store, for reading.
///
/// Valid only inside the closure it was handed to; everything read through it comes from the
/// same generation. Not to be kept or passed to another thread.
public struct StoreReader {
    let database: Database
    let catalog: StoreCatalog
    /// Whether somebody still wants what is read; nil where it is read in any case.
    var mayGoOn: (@Sendable () -> Bool)?
    /// What `now()` is in requests, in milliseconds since 1970.
    var now: @Sendable () -> Int64 = FetchCompiler.wallClock
    /// What is written of fetches.
    var sqlDebug: SQLDebug?
    /// Where statements and rows are counted.
    var counting: ContextCounting?
    /// Who observes what requests ask for; nil where nobody does.
    var observer: RequestObserver?

    /// A statement of the connection, prepared once, that reads for somebody who counts.
    func prepared(_ sql: String) throws -> SQLStatement {
        counting?.countStatement()
        return try database.prepared(sql)
    }

    /// Ends a read that nobody wants any more. SQLite asks by itself while it works. A reader that
    /// works long on few rows must ask here.
    ///
    /// - Throws: `CancellationError`.
    public func checkGoingOn() throws {
        if mayGoOn?() == false { throw CancellationError() }
    }

    /// The state that is read.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read.
    public var token: QueryGenerationToken {
        get throws {
            let statement = try database.prepared(
                """
                SELECT store, generation, \(StoreLayout.lastPosition) FROM _state
                """)
            guard try statement.step() else {
                throw CoordinatorError(.storeDamaged, "The store has lost its state.")
            }
            defer { statement.reset() }
            return QueryGenerationToken(
                store: UInt64(bitPattern: statement.integer(0)),
                generation: UInt64(bitPattern: statement.integer(1)),
                position: UInt64(bitPattern: statement.integer(2)),
                versionVector: try StoreLayout.readActors(in: database).1,
                beginnings: try beginnings())
        }
    }

    /// The generation that is read.
    var generation: UInt64 {
        get throws {
            let statement = try database.prepared("SELECT generation FROM _state")
            defer { statement.reset() }
            return try statement.step() ? UInt64(bitPattern: statement.integer(0)) : 0
        }
    }

    /// The members in the state that is read, as far as transactions name them.
    public var membership: Membership {
        get throws { try StoreLayout.readMembership(in: database) }
    }

    /// The digest kept with the state that is read.
    public var digest: ProjectionDigest {
        get throws {
            let statement = try database.prepared("SELECT digestHigh, digestLow FROM _state")
            guard try statement.step() else {
                throw CoordinatorError(.storeDamaged, "The store has lost its state.")
            }
            defer { statement.reset() }
            return ProjectionDigest(
                high: UInt64(bitPattern: statement.integer(0)),
                low: UInt64(bitPattern: statement.integer(1)))
        }
    }

    /// One object; nil if there is none, or not any more. In place of an eclipsed one it is the one
    /// that is shown for it, under its own identity.
    package func row(
        _ entity: ManagedObjectModel.Entity, _ row: RowID
    ) throws -> RowSnapshot? {
        guard let table = try concreteTable(entity, row) else {
            return try survivor(of: row, entity)
        }
        let statement = try prepared(table.selectSQL)
        statement.bind(1, row.rawValue)
        guard try statement.step() else { return try survivor(of: row, entity) }
        defer { statement.reset() }
        return try decode(statement, table, actors: try actors())
    }

    /// The object that is shown in place of an eclipsed one; nil where the row is not eclipsed.
    private func survivor(
        of row: RowID, _ entity: ManagedObjectModel.Entity
    ) throws -> RowSnapshot? {
        guard catalog.table(entity.name).isGrouped else { return nil }
        let look = try prepared("SELECT survivor FROM _eclipsed WHERE row = ?1")
        look.bind(1, row.rawValue)
        guard try look.step() else { return nil }
        let survivor = RowID(look.integer(0))
        look.reset()
        guard let root = catalog.model.entity(named: entity.root),
            let table = try concreteTable(root, survivor)
        else { return nil }
        let statement = try prepared(table.selectSQL)
        statement.bind(1, survivor.rawValue)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        return try decode(statement, table, actors: try actors())
    }

    /// Several objects of an entity, in the order asked for, without those that are not there: one
    /// statement for all that are of the entity itself.
    package func rows(
        _ entity: ManagedObjectModel.Entity, _ rows: [RowID]
    ) throws -> [RowSnapshot] {
        if rows.count < 2 { return try rows.compactMap { try row(entity, $0) } }
        let table = catalog.table(entity.name)
        let statement = try prepared(table.selectManySQL)
        statement.bind(1, SQLBuilder.list(rows))
        defer { statement.reset() }
        let actors = try actors()
        var found: [RowID: RowSnapshot] = [:]
        found.reserveCapacity(rows.count)
        var last: RowVersion?
        while try statement.step() {
            let snapshot = try decode(statement, table, actors: actors, last: last)
            last = snapshot.version
            found[snapshot.objectID.row] = snapshot
        }
        // Others may be of an entity that inherits from it, or be shown by another row.
        return try rows.compactMap { try found[$0] ?? row(entity, $0) }
    }

    /// The entity of a row, which may inherit from the one asked for; nil where there is no row.
    func concreteTable(_ entity: ManagedObjectModel.Entity, _ row: RowID) throws -> EntityTable? {
        guard entity.sharesTable else { return catalog.table(entity.name) }
        let statement = try prepared(
            "SELECT _entity FROM \(EntityTable.quote(entity.root)) WHERE _id = ?1")
        statement.bind(1, row.rawValue)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        guard let name = catalog.names.entityNames[statement.integer(0)],
            entity.familyNames.contains(name)
        else { return nil }
        return catalog.table(name)
    }

    /// The actors met in the state that is read.
    func actors() throws -> ActorTable { try catalog.actors(database) }

    /// Decodes the current row of a statement that selects ``EntityTable/selectedColumns``,
    /// from a column on.
    ///
    /// - Parameter last: the version of the row before: rows of one save share it.
    func decode(
        _ statement: SQLStatement, _ table: EntityTable, actors: ActorTable,
        from first: Int32 = 0, last: RowVersion? = nil
    ) throws -> RowSnapshot {
        let columns = table.entity.columns
        let values = try [PropertyValue](unsafeUninitializedCapacity: columns.count) {
            for (position, property) in columns.enumerated() {
                $0.initializeElement(
                    at: position,
                    to: try statement.value(first + Int32(position) + 4, property.content))
                $1 += 1
            }
        }
        let version: RowVersion
        var isConflicted = false
        if statement.isNull(first + 3) {
            let dot = try actors.dot(statement.integer(first + 1))
            if let last, last.eclipsed.isEmpty, last.dots.count == 1, last.dots[0] == dot {
                version = last
            } else {
                version = RowVersion(dots: [dot])
            }
        } else {
            var eclipsed: [RowVersion.Eclipsed] = []
            let state = try RowCoding(table: table, actors: actors).decode(
                version: statement.integer(first + 1),
                timestamp: statement.integer(first + 2),
                registers: statement.bytes(first + 3),
                columns: table.derivesNothing
                    ? values : Array(values.prefix(table.entity.properties.count)),
                eclipsed: &eclipsed)
            let policies = table.policies(for: state)
            version = RowVersion(dots: state.version.dots, eclipsed: eclipsed)
            // Groups follow the present model, whatever settles their rows' registers.
            isConflicted =
                (!eclipsed.isEmpty && table.entity.policies.entity.leavesUnresolved)
                || (state.hasSiblings
                    && state.conflicts(policies).contains { $0.state == .unresolved })
            if !isConflicted, !eclipsed.isEmpty {
                let row = RowID(statement.integer(first))
                isConflicted = try isUndecided(row, table, state, actors)
            }
        }
        return RowSnapshot(
            objectID: ManagedObjectID(
                entityName: table.entity.name, row: RowID(statement.integer(first))),
            version: version, values: values, isConflicted: isConflicted)
    }

    /// Whether nobody has decided a property between the rows that are shown as one.
    private func isUndecided(
        _ row: RowID, _ table: EntityTable, _ state: RowState, _ actors: ActorTable
    ) throws -> Bool {
        let policies = table.entity.policies
        guard !policies.isRowGrained, policies.properties.contains(where: \.leavesUnresolved) else {
            return false
        }
        return try !group(of: row, table, state, actors).undecided.isEmpty
    }

    /// A survivor's registers with those of the rows it eclipses.
    func group(
        of row: RowID, _ table: EntityTable, _ state: RowState, _ actors: ActorTable
    ) throws -> LoadedRow {
        LoadedRow(
            table: table, row: row, state: state, isAlive: true, columns: [],
            eclipsed: try eclipsedRows("WHERE survivor = \(row.rawValue)", actors)
                .sorted(by: LoadedRow.isEarlier))
    }

    /// The registers of a living row, with all siblings.
    package func registers(
        _ entity: ManagedObjectModel.Entity, _ row: RowID
    ) throws -> RowState? {
        guard let table = try concreteTable(entity, row) else { return nil }
        let statement = try prepared(table.selectSQL)
        statement.bind(1, row.rawValue)
        guard try statement.step() else { return nil }
        defer { statement.reset() }
        var columns: [PropertyValue] = []
        for (position, property) in table.entity.properties.enumerated() {
            columns.append(try statement.value(Int32(position) + 4, property.content))
        }
        return try RowCoding(table: table, actors: try actors()).decode(
            version: statement.integer(1), timestamp: statement.integer(2),
            registers: statement.isNull(3) ? nil : statement.bytes(3), columns: columns)
    }

    /// The objects that a to-many, or the derived side of a one-to-one, leads to; sorted by row.
    public func members(
        of relationship: ManagedObjectModel.Relationship, entity: ManagedObjectModel.Entity,
        row: RowID
    ) throws -> [ManagedObjectID] {
        counting?.countStatement()
        return try MemberReader.members(
            of: relationship, row: row, model: catalog.model, in: database
        ).map { found in
            let name =
                found.code.flatMap { catalog.names.entityNames[$0] } ?? relationship.destination
            return ManagedObjectID(entityName: name, row: found.row)
        }
    }
}
