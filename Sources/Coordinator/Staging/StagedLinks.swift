import Merge

/// The links that a staged transaction makes, and those that it takes away.
///
/// They are in their own tables, and `_alive` tells that they are staged: the register of one that is made
/// is empty until `_staged` says whose it is, and that of one that is taken away is the one it had. A link of
/// which something else is there, and of another node's also one that is counted or of a row that is
/// not shown, are kept for later: the commit that shows the transaction applies them, as if they were
/// alone.
///
/// Invariants
/// 1. Nothing was there of a link that is made, and of one that is taken away nothing but that one
///    transaction had made it, which this one has seen; no side of its relationship is counted.
/// 2. Both its ends were shown when it was written, and eclipsed no others, or are inserted by the same
///    transaction. Where one is not shown any more, or has come to eclipse others, all is removed, and
///    the transaction is written in one piece.
/// 3. What writes the same link in between writes over it. It is applied later then; and a link that was
///    as a save wants it is looked at again.
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
        let isMade: Bool

        var change: Change {
            Change(
                kind: isMade ? .link : .unlink, shape: shape, row: ends.source, target: ends.target)
        }
    }

    /// What a link does to the digest.
    private enum Difference {
        /// All it adds, but for the dot.
        case added(RowHasher)
        case removed((UInt64, UInt64))
    }

    /// A link that is as a save wants it; with its change, should it come to be otherwise.
    private typealias Found = (link: ManagedObjectModel.Link, ends: Ends, change: Change)

    /// What has become of a link that was met. There are very many: it is small.
    private enum Outcome {
        /// Its place among those that are written.
        case written(Int)
        /// Its place among those that are as they are wanted.
        case found(Int)
        /// Its place among those that are kept for later.
        case later(Int)
    }

    private let origin: StagedTransaction.Origin
    /// The operations or changes that make links or take them away.
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
    private var differences: [Difference] = []
    /// The links that were met, by name and ends.
    private var met: [String: [Ends: Outcome]] = [:]
    /// Those that were written over, by their places, as far as the groups that did it were committed.
    private var overwritten: Set<Int> = []
    private var found: [Found] = []
    /// Those of these that were written since, by their places: each is looked at once, however often
    /// it was.
    private var doubtfulLinks: Set<Int> = []
    private var rechecks = 0
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
        case .foreign: break
        }
        self.origin = origin
        self.places = places
        self.inserts = inserts
        shapeTable = ShapeTable()
        resolved = []
    }

    /// Whether all that is asked for is that links are made or taken away, whatever others there are.
    private static func isStageable(
        _ told: RelationshipOperation, of operation: SaveOperation, _ engine: StoreEngine
    ) -> Bool {
        guard let relationship = operation.entity.relationship(named: told.name),
            case .link(let link, _) = relationship.storage, !engine.countedLinks.contains(link)
        else { return false }
        return told.kind != .replace || operation.kind == .insert
    }

    func advance(_ engine: StoreEngine, atMost count: Int) throws {
        try recheckLinks(engine)
        if position == places.count { return }
        try engine.unseen {
            if !hasBegun { try begin(engine) }
            switch origin {
            case .save(let request): try write(atMost: count, of: request, engine)
            case .foreign(let transaction): try write(atMost: count, of: transaction, engine)
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

    private func write(atMost count: Int, of request: SaveRequest, _ engine: StoreEngine) throws {
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
            try write(told, told.members[member..<end], of: operation, engine)
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

    private func write(
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
        let isMade = told.kind != .remove
        for member in members {
            if member.rawValue < 0 { named.insert(member) }
            let other = try self.row(member, of: relationship.destination, engine)
            let ends = Ends(source: isFirst ? row : other, target: isFirst ? other : row)
            try write(link, ends, shape, isMade: isMade, seen: nil, engine)
            if engine.model.isOwnInverse(relationship) {
                let back = Ends(source: ends.target, target: ends.source)
                try write(link, back, shape, isMade: isMade, seen: nil, engine)
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

    private func write(
        atMost count: Int, of transaction: Transaction, _ engine: StoreEngine
    ) throws {
        let range = position..<min(position + count, places.count)
        let part = places[range].map { transaction.changes[$0] }
        try engine.checkForeign(part[...], of: transaction, resolved)
        for change in part {
            guard case .link(let link) = resolved[change.shape], let target = change.target else {
                throw NotStageable()
            }
            try write(
                link, Ends(source: change.row, target: target), change.shape,
                isMade: change.kind == .link, seen: transaction.seen, engine)
        }
        position = range.upperBound
    }

    // MARK: Writing

    /// Writes a link, or keeps it for later.
    ///
    /// - Parameters:
    ///   - isMade: whether it is made, or taken away.
    ///   - seen: what a foreign transaction has seen; a save has seen all.
    private func write(
        _ link: ManagedObjectModel.Link, _ ends: Ends, _ shape: Int, isMade: Bool,
        seen: VersionVector?, _ engine: StoreEngine
    ) throws {
        if let outcome = met[link.name]?[ends] {
            // No save does the same to a link twice; one that makes it and takes it away is rare.
            if isForeign || change(of: outcome).kind != (isMade ? .link : .unlink) {
                throw NotStageable()
            }
            return
        }
        let areShown =
            try note(ends.source, link.source, engine) && note(ends.target, link.target, engine)
        guard areShown || isForeign else { throw NotStageable() }
        let new = Written(link: links.count, ends: ends, shape: shape, isMade: isMade)
        guard areShown, !engine.countedLinks.contains(link.name),
            let difference = try stage(link, ends, isMade: isMade, seen: seen, engine)
        else { return try keep(new.change, link, ends, engine) }
        met[link.name, default: [:]][ends] = .written(written.count)
        if links.last?.name != link.name { links.append(link) }
        written.append(
            Written(link: links.count - 1, ends: ends, shape: shape, isMade: isMade))
        differences.append(difference)
        add(new.change, link, ends)
    }

    private func change(of outcome: Outcome) -> Change {
        switch outcome {
        case .written(let place): written[place].change
        case .found(let place): found[place].change
        case .later(let place): rest[place]
        }
    }

    /// Writes a link where nobody sees it; nil where something else is there of it than it takes.
    private func stage(
        _ link: ManagedObjectModel.Link, _ ends: Ends, isMade: Bool, seen: VersionVector?,
        _ engine: StoreEngine
    ) throws -> Difference? {
        guard isMade else {
            return try engine.removeStaged(
                link, source: ends.source, target: ends.target, seen: seen
            ).map { .removed($0) }
        }
        guard try engine.insertStaged(link, source: ends.source, target: ends.target) else {
            return nil
        }
        let name = DigestNames(entity: link.name, properties: []).entity
        var hasher = RowHasher(entity: name, row: ends.source, insertion: nil)
        hasher.combine(property: name, value: .reference(ends.target), dot: nil)
        return .added(hasher)
    }

    /// Keeps a link of which something else is there for later, unless it is as a save wants it.
    private func keep(
        _ change: Change, _ link: ManagedObjectModel.Link, _ ends: Ends, _ engine: StoreEngine
    ) throws {
        if !isForeign {
            // What is in conflict is decided in one piece, or refused.
            if change.kind == .unlink,
                try engine.loadLink(link, source: ends.source, target: ends.target)
                    .siblings.count > 1
            {
                throw NotStageable()
            }
            let isShown = try engine.isShown(link, source: ends.source, target: ends.target)
            if isShown == (change.kind == .link) {
                met[link.name, default: [:]][ends] = .found(found.count)
                found.append((link, ends, change))
                return
            }
        }
        met[link.name, default: [:]][ends] = .later(rest.count)
        rest.append(change)
        guard laterCount <= StagedChanges.Limits.rest else { throw NotStageable() }
        add(change, link, ends)
    }

    /// Looks again at links that were as a save wants them.
    private func recheckLinks(_ engine: StoreEngine) throws {
        let links = doubtfulLinks.sorted()
        doubtfulLinks.removeAll(keepingCapacity: true)
        rechecks += links.count
        guard rechecks <= StagedChanges.Limits.rest else { throw NotStageable() }
        for place in links {
            let (link, ends, change) = found[place]
            try keep(change, link, ends, engine)
        }
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
        let table = engine.table(entity)
        let root = table.entity.root
        if table.entity.parent == nil, roots[row] == root { return true }
        if let inserted = inserts?.entity(of: row) {
            return table.entity.familyNames.contains(inserted.name)
        }
        guard try engine.shownRow(row, as: table) == row, try !engine.eclipsesOthers(row) else {
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

    func noteSought(
        _ key: UniqueKey, of constraint: UniqueConstraint, shownBy rows: [RowID],
        _ engine: StoreEngine
    ) {}

    func noteLinked(_ key: LinkKey) {
        let ends = Ends(source: key.source, target: key.target)
        guard !isShowing, let outcome = met[key.link]?[ends] else { return }
        switch outcome {
        case .written(let place): overwritten.insert(place)
        case .found(let place): doubtfulLinks.insert(place)
        case .later: break
        }
    }

    /// Whether something is done to a link of a row.
    func leads(to row: RowID) -> Bool {
        roots[row] != nil || rest.contains { $0.row == row || $0.target == row }
    }

    // MARK: Showing

    func show(_ engine: StoreEngine, as stamp: Stamp) throws -> [Change] {
        isShowing = true
        var digest = ProjectionDigest()
        var later = rest
        var isOverwritten = Set<Int>()
        for place in overwritten.sorted() {
            let (link, ends) = (links[written[place].link], written[place].ends)
            // What has written over it may have come to nothing.
            if try engine.isStaged(
                link, source: ends.source, target: ends.target, isMade: written[place].isMade)
            {
                continue
            }
            isOverwritten.insert(place)
            later.append(written[place].change)
        }
        for (place, difference) in differences.enumerated() where !isOverwritten.contains(place) {
            switch difference {
            case .added(let hasher): digest.add(hasher.finalize(insertion: stamp.dot))
            case .removed(let hash): digest.subtract(hash)
            }
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
                links[link.link], source: link.ends.source, target: link.ends.target,
                isMade: link.isMade)
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
                + "VALUES (?1, ?2, \(LinkCoding.stagedMade), ?3)")
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

    /// Takes a link away without anybody's seeing it yet.
    ///
    /// - Parameter seen: what the transaction has seen; nil where that is all.
    /// - Returns: what it was in the digest; nil where it is not there, or in conflict, or made by what
    ///   was not seen. Nothing is written then.
    fileprivate func removeStaged(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, seen: VersionVector?
    ) throws -> (UInt64, UInt64)? {
        let register = try loadLink(link, source: source, target: target)
        guard let made = register.siblings.first, register.siblings.count == 1,
            seen?.contains(made.dot) ?? true,
            try isShown(link, source: source, target: target),
            let hash = Self.hash(
                history.settling(link, register), source, target, register, hasLivingEnds: true)
        else { return nil }
        let statement = try database.prepared(
            "UPDATE \(EntityTable.quote(link.name)) SET _alive = \(LinkCoding.stagedUnmade) "
                + "WHERE source = ?1 AND target = ?2")
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        try statement.run()
        return hash
    }

    /// Whether a link is still as a staged transaction has written it.
    fileprivate func isStaged(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, isMade: Bool
    ) throws -> Bool {
        let statement = try database.prepared(
            "SELECT 1 FROM \(EntityTable.quote(link.name)) "
                + "WHERE source = ?1 AND target = ?2 AND _alive = ?3")
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        statement.bind(3, isMade ? LinkCoding.stagedMade : LinkCoding.stagedUnmade)
        defer { statement.reset() }
        return try statement.step()
    }

    /// Gives a shown link its own register, or one that was never shown what it had before; unless
    /// something else has written it.
    fileprivate func finishStaged(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, isMade: Bool
    ) throws {
        guard try isStaged(link, source: source, target: target, isMade: isMade) else { return }
        if let shown = state.actors.staged {
            let register = Register(Sibling(stamp: shown, value: isMade))
            try writeLink(link, source: source, target: target, register)
            return try noteUncollected(link, source: source, target: target, register)
        }
        if isMade { return try removeLink(link, source: source, target: target) }
        let statement = try database.prepared(
            "UPDATE \(EntityTable.quote(link.name)) SET _alive = 1 "
                + "WHERE source = ?1 AND target = ?2")
        statement.bind(1, source.rawValue)
        statement.bind(2, target.rawValue)
        try statement.run()
    }
}
