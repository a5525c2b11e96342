public import Merge

/// The findings of a verification.
public struct VerificationReport: Hashable, Sendable {
    /// Whether the rows have the digest that was kept. Derived attributes do not count: they follow
    /// from what is kept, by the tables of this program.
    public let isOK: Bool
    /// The vector of the generation that was verified.
    public let versionVector: VersionVector
    /// The generation that was verified.
    public let generation: UInt64
    /// The digest kept incrementally.
    public let digest: ProjectionDigest
    /// The digest computed from the rows.
    public let recomputed: ProjectionDigest
    /// The damage, as far as it can be narrowed down: an entity, a row, a place in the log.
    public let differences: [String]
    /// Derived attributes that hold something else than what they follow from, as far as they were
    /// counted: of a program with other tables of Unicode, or by damage.
    public let derivedDifferences: [String]
}

extension PersistentStoreCoordinator {
    /// Pins a generation, computes its digest from the rows without disturbing writers, and
    /// compares it with the one kept.
    ///
    /// It finds damage that SQLite's own check cannot see, such as a flipped bit in a value, or a
    /// transaction that is missing from the middle of the log.
    ///
    /// - Throws: ``CoordinatorError`` where the store cannot be read at all.
    public func verify() throws -> VerificationReport {
        let pin = actor == nil ? nil : try pinApart()
        return try read(pin) { reader in
            let token = try reader.token
            let digest = try reader.digest
            let (recomputed, damages) = try reader.recomputeDigest()
            var differences = damages
            let logDamages = try reader.damagesOfTheLog(limit: 100)
            differences += logDamages
            if recomputed != digest, logDamages.isEmpty {
                differences += try reader.rowsUnlikeTheLog(limit: 100)
            }
            let holes =
                try reader.holesOfTheLog(in: token.versionVector)
                + reader.gapsOfTheHistoryIndex(limit: 100)
            differences += holes
            let hidden = try reader.damagesOfWhatIsHidden(limit: 100)
            differences += hidden
            let misled = try reader.misledReferences(limit: 100).map { row, table, position in
                "\(table.entity.name)/\(row).\(table.entity.properties[position].name) leads to an "
                    + "object of another entity"
            }
            differences += misled
            return VerificationReport(
                isOK: recomputed == digest && damages.isEmpty && logDamages.isEmpty
                    && holes.isEmpty && hidden.isEmpty && misled.isEmpty,
                versionVector: token.versionVector, generation: token.generation,
                digest: digest, recomputed: recomputed, differences: differences,
                derivedDifferences: try reader.wrongDerivedAttributes(limit: 100))
        }
    }
}

extension StoreReader {
    /// The digest of all rows and links, computed from what the tables hold.
    func recomputeDigest() throws -> (ProjectionDigest, damages: [String]) {
        var digest = ProjectionDigest()
        var damages: [String] = []
        let actors = try actors()
        for entity in catalog.model.entities where !entity.isAbstract {
            let table = catalog.table(entity.name)
            let own = entity.sharesTable ? " WHERE _entity = \(table.code)" : ""
            let statement = try database.prepared(
                "SELECT \(table.selectedColumns.joined(separator: ", ")) "
                    + "FROM \(EntityTable.quote(entity.root))\(own)")
            while try statement.step() {
                let row = RowID(statement.integer(0))
                do {
                    digest.add(try rowHash(statement, table, row, actors))
                } catch let error as CoordinatorError {
                    if damages.count < 100 {
                        damages.append("\(entity.name)/\(row): \(error.message)")
                    }
                }
            }
        }
        try addEclipsed(to: &digest, &damages, actors)
        for link in catalog.model.links {
            let ends = [("source", link.source), ("target", link.target)].map { end, entity in
                let table = catalog.table(entity)
                let root = EntityTable.quote(table.entity.root)
                let visible = "EXISTS (SELECT 1 FROM \(root) WHERE _id = \(end))"
                if !table.isGrouped { return visible }
                return "(\(visible) OR EXISTS (SELECT 1 FROM _eclipsed WHERE row = \(end)))"
            }
            let misfits = [("source", link.source), ("target", link.target)].compactMap {
                end, entity in self.misfits(entity).map { "\(end) IN \($0)" }
            }
            let isMisled = misfits.isEmpty ? "0" : misfits.joined(separator: " OR ")
            let united = try unitedLinks(link, actors)
            let statement = try database.prepared(
                "SELECT source, target, _siblings, _alive, \(ends.joined(separator: " AND ")), "
                    + "(\(isMisled)) "
                    + "FROM \(EntityTable.quote(link.name))")
            while try statement.step() {
                let source = RowID(statement.integer(0))
                let target = RowID(statement.integer(1))
                do {
                    let register = try LinkCoding.decode(statement.bytes(2), actors: actors)
                    let link = catalog.history.settling(link, register)
                    let hash = LinkDigest.hash(
                        link, source, target, register, hasLivingEnds: statement.integer(4) != 0)
                    if let hash { digest.add(hash) }
                    let isAlive =
                        statement.integer(5) == 0
                        && (LinkCoding.isAlive(register, policy: link.policy)
                            || united[source]?.contains(target) ?? false)
                    let isSeen = statement.integer(3) != 0
                    // Readers join the ends, so that what it says matters while both are there.
                    if isSeen != isAlive, statement.integer(4) != 0, damages.count < 100 {
                        damages.append(
                            "\(link.name) \(source) \(target) is \(isAlive ? "not " : "")shown, "
                                + "against its siblings")
                    }
                } catch let error as CoordinatorError {
                    if damages.count < 100 {
                        damages.append("\(link.name) \(source) \(target): \(error.message)")
                    }
                }
            }
        }
        return (digest, damages)
    }

    private func rowHash(
        _ statement: SQLStatement, _ table: EntityTable, _ row: RowID, _ actors: ActorTable
    ) throws -> (UInt64, UInt64) {
        let columns = try columns(of: statement, table)
        if statement.isNull(3) {
            return RowDigest.hashPristine(
                table, row: row, dot: try actors.dot(statement.integer(1)), values: columns)
        }
        return RowDigest.hash(try loaded(statement, table, row, columns, actors))
    }

    private func columns(
        of statement: SQLStatement, _ table: EntityTable
    ) throws -> [PropertyValue] {
        try table.entity.properties.enumerated().map { position, property in
            try statement.value(Int32(position) + 4, property.content)
        }
    }

    /// The current row of a statement, with the rows that it eclipses.
    private func loaded(
        _ statement: SQLStatement, _ table: EntityTable, _ row: RowID, _ columns: [PropertyValue],
        _ actors: ActorTable
    ) throws -> LoadedRow {
        var eclipsed: [RowVersion.Eclipsed] = []
        let state = try RowCoding(table: table, actors: actors).decode(
            version: statement.integer(1), timestamp: statement.integer(2),
            registers: statement.isNull(3) ? nil : statement.bytes(3), columns: columns,
            eclipsed: &eclipsed)
        var members: [LoadedRow] = []
        if !eclipsed.isEmpty {
            members = try eclipsedRows("WHERE survivor = \(row.rawValue)", actors)
            guard members.map(\.row).sorted() == eclipsed.map(\.row).sorted() else {
                throw CoordinatorError(.storeDamaged, "Its group is not what the row tells.")
            }
        }
        return LoadedRow(
            table: table, row: row, state: state, isAlive: true, columns: columns,
            eclipsed: members)
    }

    /// Derived attributes that hold something else than what they follow from.
    func wrongDerivedAttributes(limit: Int) throws -> [String] {
        let actors = try actors()
        var wrong: [String] = []
        func note(_ entity: ManagedObjectModel.Entity, _ row: RowID, _ attribute: String) {
            wrong.append("\(entity.name)/\(row): \(attribute) is not what it is derived from")
        }
        for entity in catalog.model.entities where !entity.isAbstract {
            let table = catalog.table(entity.name)
            let root = EntityTable.quote(entity.root)
            let own = entity.sharesTable ? "_entity = \(table.code)" : "1"
            for attribute in table.derived.collected where wrong.count < limit {
                let statement = try database.prepared(
                    "SELECT _id FROM \(root) WHERE \(own) AND "
                        + "\(EntityTable.quote(attribute.name)) IS NOT \(attribute.value) "
                        + "ORDER BY _id LIMIT \(limit)")
                while try statement.step() {
                    note(entity, RowID(statement.integer(0)), attribute.name)
                }
            }
            if table.derived.own.isEmpty { continue }
            let statement = try database.prepared(
                "SELECT \(table.selectedColumns.joined(separator: ", ")) FROM \(root) WHERE \(own)")
            defer { statement.reset() }
            while wrong.count < limit, try statement.step() {
                let row = RowID(statement.integer(0))
                // A row that cannot be read is damage that is told already.
                guard let columns = try? columns(of: statement, table),
                    let loaded = try? loaded(statement, table, row, columns, actors)
                else { continue }
                let values = table.derived.ownValues(columns, newest: loaded.newestShown)
                for (attribute, value) in zip(table.derived.own, values) {
                    let content = entity.columns[attribute.column].content
                    let kept = try? statement.value(Int32(attribute.column) + 4, content)
                    if kept != value { note(entity, row, attribute.name) }
                }
            }
        }
        return Array(wrong.prefix(limit))
    }

    /// Tombstones, entries of the conflict journal and orphans that cannot be read: they are in no
    /// digest.
    func damagesOfWhatIsHidden(limit: Int) throws -> [String] {
        var damages: [String] = []
        func note(_ what: String, _ read: () throws -> Void) throws {
            do {
                try read()
            } catch let error as CoordinatorError where error.code == .storeDamaged {
                if damages.count < limit { damages.append("\(what): \(error.message)") }
            }
        }
        let actors = try actors()
        let tombstones = try database.prepared(
            "SELECT row, entity, registers FROM _tombstone ORDER BY row")
        while try tombstones.step() {
            try note("the tombstone of \(RowID(tombstones.integer(0)))") {
                _ = try registersAlone(tombstones, actors)
            }
        }
        let journal = try database.prepared(
            "SELECT id, closed, opened, record FROM _conflict ORDER BY position")
        while try journal.step() {
            try note("the journal") { _ = try ConflictCoding.entry(journal) }
        }
        for dot in try orphanedDots() {
            try note("the orphan \(dot)") {
                guard try orphan(dot)?.encoded != nil else {
                    throw CoordinatorError(.storeDamaged, "its bytes are not those kept.")
                }
            }
        }
        return damages
    }

    /// Places of the log whose bytes are not those that were written.
    func damagesOfTheLog(limit: Int) throws -> [String] {
        var damages: [String] = []
        let statement = try database.prepared(
            "SELECT position, checksum, bytes FROM _transaction ORDER BY position")
        while try statement.step() {
            let isSound =
                Transaction.checksum(statement.bytes(2))
                == UInt64(bitPattern: statement.integer(1))
            if !isSound, damages.count < limit {
                damages.append("transaction \(statement.integer(0)) of the log is damaged")
            }
        }
        return damages
    }

    /// The gaps in the log of actors that have older transactions in it. What was purged is older
    /// than all that is left (invariant 1 of purging), and peers ask for what they lack relying on
    /// that.
    func holesOfTheLog(in vector: VersionVector) throws -> [String] {
        var holes: [String] = []
        let actors = try actors()
        let statement = try database.prepared(
            "SELECT min(dot), max(dot), count(*) FROM _transaction "
                + "GROUP BY dot >> \(ActorTable.sequenceBits) ORDER BY 1")
        while try statement.step() {
            let oldest = try actors.dot(statement.integer(0))
            let newest = try actors.dot(statement.integer(1))
            let count = UInt64(statement.integer(2))
            let applied = vector[oldest.actor]
            if newest.sequence != applied || count != newest.sequence - oldest.sequence + 1 {
                holes.append(
                    "the log has \(count) of the transactions from \(oldest) to "
                        + "\(oldest.actor)-\(applied)")
            }
        }
        return holes
    }

    /// Rows whose values are not those of the log's last write to them, which narrows a
    /// difference down. Only rows with one writer for every property can be judged so.
    func rowsUnlikeTheLog(limit: Int) throws -> [String] {
        var written: [RowID: [String: (Dot, PropertyValue)]] = [:]
        var entities: [RowID: String] = [:]
        var deleted = Set<RowID>()
        var position: UInt64 = 0
        var isLogWhole = false
        while true {
            let page = try history(afterPosition: position, limit: 1000)
            for logged in page {
                if logged.position == 1 { isLogWhole = true }
                position = logged.position
                let transaction = catalog.asOwn(logged.encoded.transaction)
                for change in transaction.changes where change.target == nil {
                    let shape = transaction.shapes[change.shape]
                    if shape.entity == MembershipChange.entity { continue }
                    entities[change.row] = shape.entity
                    // Its tombstone may have been collected since.
                    if change.kind == .delete { deleted.insert(change.row) }
                    if change.kind == .insert || change.kind == .revival {
                        for property in catalog.model.entity(named: shape.entity)?.properties ?? []
                        {
                            written[change.row, default: [:]][property.name] =
                                (transaction.dot, .null)
                        }
                    }
                    // Those of a delete are kept for history.
                    if change.kind == .delete { continue }
                    for (name, value) in zip(shape.assigned + shape.carried, change.values) {
                        written[change.row, default: [:]][name] = (transaction.dot, value)
                    }
                }
            }
            if page.count < 1000 { break }
        }
        var differences: [String] = []
        for (row, values) in written.sorted(by: { $0.key < $1.key }) {
            guard differences.count < limit, let name = entities[row],
                let entity = catalog.model.entity(named: name)
            else { continue }
            let table = catalog.table(name)
            guard let state = try registers(entity, row), let snapshot = try self.row(entity, row),
                snapshot.version.eclipsed.isEmpty
            else {
                if try self.row(entity, row)?.objectID.row == row { continue }
                if try !deleted.contains(row) && !hasTombstone(row) && !isEclipsed(row) {
                    differences.append("\(name)/\(row) is gone without having been deleted")
                }
                continue
            }
            for (position, property) in entity.properties.enumerated() {
                guard let (dot, value) = values[property.name],
                    state.visible(position, table.policies(for: state))?.dot == dot,
                    snapshot.values[position] != value,
                    // A reference may be projected to nil, but never to another row.
                    !property.isReference || !snapshot.values[position].isNull
                else { continue }
                differences.append(
                    "\(name)/\(row).\(property.name) is not what transaction \(dot) wrote")
            }
        }
        // A purged log does not tell of all rows.
        guard isLogWhole else { return differences }
        for entity in catalog.model.entities where entity.parent == nil {
            let statement = try database.prepared(
                "SELECT _id FROM \(EntityTable.quote(entity.name)) ORDER BY _id")
            while try statement.step() {
                let row = RowID(statement.integer(0))
                if differences.count < limit, entities[row] == nil {
                    differences.append("\(entity.name)/\(row) was never inserted")
                }
            }
        }
        return differences
    }

    private func hasTombstone(_ row: RowID) throws -> Bool {
        let statement = try database.prepared("SELECT 1 FROM _tombstone WHERE row = ?1")
        statement.bind(1, row.rawValue)
        defer { statement.reset() }
        return try statement.step()
    }
}
