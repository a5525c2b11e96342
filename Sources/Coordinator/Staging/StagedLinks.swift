import Merge

/// The links that a staged transaction makes.
///
/// They are in their own tables, with ``LinkCoding/staged`` for a register, which is empty until
/// `_staged` says whose it is. A link of which something is there already, and of another node's also one
/// that is counted or of a row that is not shown, are kept for later: the commit that shows the
/// transaction applies them, as if they were alone.
///
/// Invariants
/// 1. Nothing was there of a link that is staged, and no side of its relationship is counted.
/// 2. Both its ends were shown when it was written, and eclipsed no others, or are inserted by the same
///    transaction. Where one is not shown any more, or has come to eclipse others, all is removed, and
///    the transaction is written in one piece.
/// 3. What writes the same link in between writes over it. It is applied later then; and a link that was
///    there, and is not to be made, is looked at again.
final class StagedLinks: StagedWrites {
    private struct Ends: Hashable {
        let source: RowID
        let target: RowID
    }

    private struct Written {
        /// Which of ``links`` it is.
        let link: Int
        let ends: Ends
        let shape: Int

        var change: Change {
            Change(kind: .link, shape: shape, row: ends.source, target: ends.target)
        }
    }

    /// A link that a save makes and finds there; with its change, should it be gone.
    private typealias Found = (link: ManagedObjectModel.Link, ends: Ends, change: Change)

    /// What has become of a link that was met. There are very many: it is small.
    private enum Outcome {
        /// Its place among those that are written.
        case written(Int)
        /// Its place among those that are there.
        case found(Int)
        /// It is kept for later.
        case later
    }

    private let origin: StagedTransaction.Origin
    /// The operations or changes that make links.
    private let places: [Int]
    /// The inserts of the same transaction, which are written before.
    private let inserts: StagedInserts?
    /// How many operations or changes are done, and how much of the next operation.
    private var position = 0
    private var (relationship, member) = (0, 0)
    private(set) var hasBegun = false
    private var hasLostEnd = false
    private(set) var shapeTable: ShapeTable
    private(set) var resolved: [ResolvedShape]
    private(set) var changes: [Change] = []
    private(set) var encoded = CBORWriter(capacity: 0)
    /// The kinds of link that are written.
    private var links: [ManagedObjectModel.Link] = []
    private var written: [Written] = []
    /// What they add to the digest, but for the dot.
    private var hashers: [RowHasher] = []
    /// The links that were met, by name and ends.
    private var met: [String: [Ends: Outcome]] = [:]
    /// Those that were written over, by their places, as far as the groups that did it were committed.
    private var overwritten: Set<Int> = []
    private var found: [Found] = []
    /// Those of these that were written since.
    private var doubtfulLinks: [Found] = []
    private var rechecks = 0
    /// The links that a foreign transaction takes away.
    private let unmade: Set<LinkKey>
    /// What is to be applied when all is shown.
    private var rest: [Change] = []
    /// Objects of the save that others have named as their members.
    private var named: Set<RowID> = []
    /// Ends that were there before, with the roots of their hierarchies.
    private var roots: [RowID: String] = [:]
    /// Those of them of which a link is made, as readers are told of them.
    private var touched: [ManagedObjectID] = []
    private var told: Set<RowID> = []
    /// Those that were written since and may eclipse others now.
    private var doubtfulEnds: Set<RowID> = []
    private var isShowing = false

    let rewrites = 0

    var isComplete: Bool { position == places.count && doubtfulLinks.isEmpty }

    private var laterCount: Int { rest.count + overwritten.count }

    private var isForeign: Bool { if case .foreign = origin { true } else { false } }

    /// Begins with a save or a foreign transaction.
    ///
    /// - Returns: nil where its links are of no kind that can be staged.
    init?(
        _ origin: StagedTransaction.Origin, _ places: [Int], after inserts: StagedInserts?,
        _ engine: StoreEngine
    ) {
        switch origin {
        case .save(let request):
            for place in places {
                let operation = request.operations[place]
                guard !operation.resolves,
                    operation.relationships.allSatisfy({
                        Self.isStageable($0, of: operation, engine)
                    })
                else { return nil }
            }
            unmade = []
        case .foreign(let transaction):
            unmade = Set(
                transaction.changes.lazy.filter { $0.kind == .unlink }.map { change in
                    LinkKey(
                        link: transaction.shapes[change.shape].entity, source: change.row,
                        target: change.target ?? change.row)
                })
        }
        self.origin = origin
        self.places = places
        self.inserts = inserts
        shapeTable = ShapeTable()
        resolved = []
    }

    /// Whether all that is asked for is that links are made.
    private static func isStageable(
        _ told: RelationshipOperation, of operation: SaveOperation, _ engine: StoreEngine
    ) -> Bool {
        guard let relationship = operation.entity.relationship(named: told.name),
            case .link(let link, _) = relationship.storage, !engine.countedLinks.contains(link)
        else { return false }
        return told.kind == .add || told.kind == .replace && operation.kind == .insert
    }

    func advance(_ engine: StoreEngine, atMost count: Int) throws {
        try recheckLinks(engine)
        if position == places.count { return }
        try engine.unseen {
            if !hasBegun { try begin(engine) }
            switch origin {
            case .save(let request): try make(atMost: count, of: request, engine)
            case .foreign(let transaction): try make(atMost: count, of: transaction, engine)
            }
        }
        hasBegun = true
    }

    private func begin(_ engine: StoreEngine) throws {
        try engine.beginStaging()
        switch origin {
        case .save:
            shapeTable = inserts?.shapeTable ?? ShapeTable()
            resolved = inserts?.resolved ?? []
        case .foreign(let transaction): resolved = try engine.resolve(transaction)
        }
    }

    // MARK: What a save asks for

    private func make(atMost count: Int, of request: SaveRequest, _ engine: StoreEngine) throws {
        var left = count
        while left > 0, position < places.count {
            let operation = request.operations[places[position]]
            guard relationship < operation.relationships.count else {
                (relationship, member) = (0, 0)
                position += 1
                continue
            }
            let told = operation.relationships[relationship]
            if member == 0 { try checkReplacement(told, of: operation) }
            let end = min(member + left, told.members.count)
            try make(told, told.members[member..<end], of: operation, engine)
            left -= max(1, end - member)
            member = end
            if end == told.members.count { (relationship, member) = (relationship + 1, 0) }
        }
    }

    /// Sees that there is nobody whom a new object's members would replace.
    private func checkReplacement(
        _ told: RelationshipOperation, of operation: SaveOperation
    ) throws {
        let others = operation.relationships[..<relationship]
        if told.kind == .replace,
            named.contains(operation.row) || others.contains(where: { $0.name == told.name })
        {
            throw NotStageable()
        }
    }

    private func make(
        _ told: RelationshipOperation, _ members: ArraySlice<RowID>,
        of operation: SaveOperation, _ engine: StoreEngine
    ) throws {
        guard let relationship = operation.entity.relationship(named: told.name),
            case .link(let name, let isFirst) = relationship.storage,
            let link = engine.model.link(named: name)
        else { throw NotStageable() }
        let shape = shapeTable.position(of: ChangeShape(entity: name, assigned: []))
        resolved += try shapeTable.shapes[resolved.count...].map(engine.resolve)
        let row = try row(operation.row, of: operation.entity.name, engine)
        for member in members {
            if member.rawValue < 0 { named.insert(member) }
            let other = try self.row(member, of: relationship.destination, engine)
            let ends = Ends(source: isFirst ? row : other, target: isFirst ? other : row)
            try make(link, ends, shape, engine)
            if engine.model.isOwnInverse(relationship) {
                try make(link, Ends(source: ends.target, target: ends.source), shape, engine)
            }
        }
    }

    /// The row of an object that is there, or that the save inserts.
    private func row(_ name: RowID, of entity: String, _ engine: StoreEngine) throws -> RowID {
        if name.rawValue < 0 {
            guard let known = inserts?.named(name),
                engine.table(entity).entity.familyNames.contains(known.entity.name)
            else { throw NotStageable() }
            return known.row
        }
        guard try engine.isThere(name, entity, SavePlan()) else { throw NotStageable() }
        return name
    }

    // MARK: What another node's transaction has

    private func make(
        atMost count: Int, of transaction: Transaction, _ engine: StoreEngine
    ) throws {
        let range = position..<min(position + count, places.count)
        let part = places[range].map { transaction.changes[$0] }
        try engine.checkForeign(part[...], of: transaction, resolved)
        for change in part {
            guard case .link(let link) = resolved[change.shape], let target = change.target,
                !unmade.contains(LinkKey(link: link.name, source: change.row, target: target))
            else { throw NotStageable() }
            try make(link, Ends(source: change.row, target: target), change.shape, engine)
        }
        position = range.upperBound
    }

    // MARK: Writing

    private func make(
        _ link: ManagedObjectModel.Link, _ ends: Ends, _ shape: Int, _ engine: StoreEngine
    ) throws {
        if met[link.name]?[ends] != nil {
            // No save makes a link twice.
            if isForeign { throw NotStageable() }
            return
        }
        let change = Change(kind: .link, shape: shape, row: ends.source, target: ends.target)
        let areShown =
            try note(ends.source, link.source, engine) && note(ends.target, link.target, engine)
        guard areShown || isForeign else { throw NotStageable() }
        guard areShown, !engine.countedLinks.contains(link.name),
            try engine.insertStaged(link, source: ends.source, target: ends.target)
        else { return try keep(change, link, ends, engine) }
        let name = DigestNames(entity: link.name, properties: []).entity
        var hasher = RowHasher(entity: name, row: ends.source, insertion: nil)
        hasher.combine(property: name, value: .reference(ends.target), dot: nil)
        met[link.name, default: [:]][ends] = .written(written.count)
        if links.last?.name != link.name { links.append(link) }
        written.append(Written(link: links.count - 1, ends: ends, shape: shape))
        hashers.append(hasher)
        add(change, link, ends)
    }

    /// Keeps a link of which something is there for later, unless it is as a save wants it.
    private func keep(
        _ change: Change, _ link: ManagedObjectModel.Link, _ ends: Ends, _ engine: StoreEngine
    ) throws {
        if !isForeign, try engine.isShown(link, source: ends.source, target: ends.target) {
            met[link.name, default: [:]][ends] = .found(found.count)
            found.append((link, ends, change))
            return
        }
        met[link.name, default: [:]][ends] = .later
        rest.append(change)
        guard laterCount <= StagedChanges.Limits.rest else { throw NotStageable() }
        add(change, link, ends)
    }

    /// Looks again at links that were there.
    private func recheckLinks(_ engine: StoreEngine) throws {
        let links = doubtfulLinks
        doubtfulLinks = []
        rechecks += links.count
        guard rechecks <= StagedChanges.Limits.rest else { throw NotStageable() }
        for (link, ends, change) in links { try keep(change, link, ends, engine) }
    }

    private func add(_ change: Change, _ link: ManagedObjectModel.Link, _ ends: Ends) {
        for (row, entity) in [(ends.source, link.source), (ends.target, link.target)]
        where roots[row] != nil && told.insert(row).inserted {
            touched.append(ManagedObjectID(entityName: entity, row: row))
        }
        if isForeign { return }
        changes.append(change)
        encoded.write(change)
    }

    /// Notes an end; false where it is not shown, or eclipses others.
    private func note(_ row: RowID, _ entity: String, _ engine: StoreEngine) throws -> Bool {
        let root = engine.table(entity).entity.root
        if roots[row] == root || inserts?.entity(of: row)?.root == root { return true }
        guard try engine.shownRow(row, root: root) == row, try !engine.eclipsesOthers(row) else {
            return false
        }
        roots[row] = root
        return true
    }

    // MARK: What comes between

    func noteWritten(_ row: RowID, isShown: Bool) {
        guard !isShowing, roots[row] != nil else { return }
        if isShown { doubtfulEnds.insert(row) } else { hasLostEnd = true }
    }

    func isOvertaken(_ engine: StoreEngine) throws -> Bool {
        for row in doubtfulEnds where try engine.eclipsesOthers(row) { hasLostEnd = true }
        doubtfulEnds.removeAll(keepingCapacity: true)
        return hasLostEnd || laterCount > StagedChanges.Limits.rest
    }

    func noteReferred(_ row: RowID) {}

    func noteKeyTaken() {}

    func noteLinked(_ key: LinkKey) {
        let ends = Ends(source: key.source, target: key.target)
        guard !isShowing, let outcome = met[key.link]?[ends] else { return }
        switch outcome {
        case .written(let place): overwritten.insert(place)
        case .found(let place): doubtfulLinks.append(found[place])
        case .later: break
        }
    }

    /// Whether it links a row.
    func leads(to row: RowID) -> Bool {
        roots[row] != nil || rest.contains { $0.row == row || $0.target == row }
    }

    // MARK: Showing

    func show(_ engine: StoreEngine, as stamp: Stamp) throws -> [Change] {
        isShowing = true
        var digest = ProjectionDigest()
        for hasher in hashers { digest.add(hasher.finalize(insertion: stamp.dot)) }
        var later = rest
        for place in overwritten.sorted() {
            let (link, ends) = (links[written[place].link], written[place].ends)
            // What has written over it may have come to nothing.
            if try engine.isStaged(link, source: ends.source, target: ends.target) { continue }
            digest.subtract(hashers[place].finalize(insertion: stamp.dot))
            later.append(written[place].change)
        }
        engine.state.digest.add(digest)
        engine.group.updated.append(contentsOf: touched)
        return later
    }

    let inserted: [SaveResult.InsertedRow] = []

    func saved(as dot: Dot?, _ engine: StoreEngine) -> [SaveResult.SavedRow] { [] }

    // MARK: Afterwards

    var writtenCount: Int { written.count }

    let weight = 1

    func finish(_ range: Range<Int>, _ engine: StoreEngine) throws {
        for link in written[range] {
            try engine.finishStaged(
                links[link.link], source: link.ends.source, target: link.ends.target)
        }
    }

    func end(_ engine: StoreEngine) {}
}

extension StoreEngine {
    /// Writes a link that nobody sees yet.
    ///
    /// - Returns: whether nothing of it was there; else nothing is written.
    fileprivate func insertStaged(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> Bool {
        let statement = try database.prepared(
            "INSERT INTO \(EntityTable.quote(link.name)) (source, target, _alive, _siblings) "
                + "VALUES (?1, ?2, \(LinkCoding.stagedAlive), ?3)")
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        statement.bind(3, LinkCoding.staged)
        do {
            try statement.run()
        } catch let failure as SQLFailure where failure.isIdentityTaken {
            return false
        }
        return true
    }

    /// Whether a link is still as a staged transaction has written it.
    fileprivate func isStaged(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws -> Bool {
        let statement = try database.prepared(
            "SELECT 1 FROM \(EntityTable.quote(link.name)) "
                + "WHERE source = ?1 AND target = ?2 AND _siblings = ?3")
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        statement.bind(3, LinkCoding.staged)
        defer { statement.reset() }
        return try statement.step()
    }

    /// Gives a shown link its own register, and takes one away that was never shown; unless something
    /// else has written it.
    fileprivate func finishStaged(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws {
        let table = EntityTable.quote(link.name)
        let own = "source = ?1 AND target = ?2 AND _siblings = ?3"
        let shown = state.actors.staged
        let statement = try database.prepared(
            shown == nil
                ? "DELETE FROM \(table) WHERE \(own)"
                : "UPDATE \(table) SET _alive = 1, _siblings = ?4 WHERE \(own)")
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        statement.bind(3, LinkCoding.staged)
        if let shown {
            let version = state.actors.integer(shown.dot)
            statement.bind(4, LinkCoding.encode(madeBy: version, shown.timestamp.rawValue))
        }
        try statement.run()
    }
}
